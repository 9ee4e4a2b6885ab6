"""XDP programs: compiled, loaded, attached in the mode that was requested, and gone."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.machine import facts, forget_cached
from vnetperf.host import ethtool, links, xdp
from vnetperf.host.journal import Journal
from vnetperf.host.linux import run_in
from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.host.wait import wait_for
from vnetperf.host.xdp import BpfObject, compile_program
from vnetperf.model.errors import HostError

needs_clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
real = pytest.mark.real

HARMLESS = (
    '#include "bpf.h"\nSEC("xdp.frags") int pass(void *frame) { (void)frame; return XDP_PASS; }\n'
)
#: Reads the frame without looking where it ends, which the kernel's verifier refuses.
RECKLESS = (
    '#include "bpf.h"\nSEC("xdp") int pass(struct xdp_md *frame)'
    "{ return *(unsigned char *)(long)frame->data ? XDP_PASS : XDP_DROP; }\n"
)


def compiled(tmp_path: Path, text: str) -> bytes:
    source = tmp_path / "program.c"
    source.write_text(text)
    return compile_program("clang", source)


@pytest.fixture
def pair(journal: Journal, run_id: str, tmp_path: Path) -> tuple[Path, str, str]:
    """A namespace, and the two ends of a veth pair in it."""
    space, ends = tmp_path / "space", (f"{run_id}a", f"{run_id}b")
    links.create_netns(journal, space)
    links.create_veth(journal, ends, netns=(space, space))
    return space, *ends


def test_a_compiler_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="clang cannot be run"):
        compile_program(str(tmp_path / "clang"), tmp_path / "program.c")


@needs_clang
def test_what_does_not_compile_is_told_with_the_compilers_words(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="does not compile") as caught:
        compiled(tmp_path, "int forward(void) { return nothing; }\n")
    assert "use of undeclared identifier 'nothing'" in str(caught.value)


def test_a_machine_without_libbpf_or_types_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xdp, "KERNEL_TYPES", tmp_path / "vmlinux")
    monkeypatch.setattr(xdp, "_libbpf", lambda: None)
    assert f"the kernel has no {tmp_path / 'vmlinux'}" in xdp.explain_no_bpf()
    monkeypatch.undo()
    monkeypatch.setattr(xdp, "LIBRARY", "libnothing.so.1")
    forget_cached(xdp)
    reason = xdp.explain_no_bpf()
    monkeypatch.undo()
    forget_cached(xdp)
    for words in ("libnothing.so.1", "package libbpf1"):
        assert words in reason


@real
@needs_clang
@pytest.mark.parametrize("mode", xdp.MODE_FLAGS)
def test_the_mode_is_the_one_that_was_requested(
    mode: str, pair: tuple[Path, str, str], tmp_path: Path
) -> None:
    space, netdev, _ = pair
    with BpfObject("pass", compiled(tmp_path, HARMLESS)) as first:
        made = run_in(space, lambda: first.attach("pass", netdev, mode))
        assert run_in(space, xdp.attached) == {netdev: made}
        assert made.mode == mode
        with (
            BpfObject("pass", compiled(tmp_path, HARMLESS)) as second,
            pytest.raises(HostError, match=f"attached already, in mode {mode}"),
        ):
            run_in(space, lambda: second.attach("pass", netdev, "native"))
        assert run_in(space, xdp.attached) == {netdev: made}
        assert first.is_attached()
        links.delete(netdev, netns=space)
        assert not first.is_attached()
        first.close()
        assert not first.is_attached()
    assert run_in(space, xdp.attached) == {}


@real
@needs_clang
def test_an_interface_without_native_mode_is_refused_and_not_given_the_generic_one(
    journal: Journal, pair: tuple[Path, str, str], run_id: str, tmp_path: Path
) -> None:
    space, *_ = pair
    links.create_link(journal, f"{run_id}d", "bridge", netns=space)
    with BpfObject("pass", compiled(tmp_path, HARMLESS)) as program:
        with pytest.raises(HostError, match="takes no XDP program in mode native") as caught:
            run_in(space, lambda: program.attach("pass", f"{run_id}d", "native"))
        assert "--set mode=generic" in caught.value.cure
        assert run_in(space, xdp.attached) == {}


@real
@needs_clang
def test_what_the_verifier_refuses_is_told_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="does not take the program") as caught:
        BpfObject("reckless", compiled(tmp_path, RECKLESS))
    assert "invalid access to packet" in str(caught.value)


@real
def test_the_other_end_takes_native_frames_by_gro(pair: tuple[Path, str, str]) -> None:
    space, netdev, peer = pair
    assert run_in(space, lambda: ethtool.features(peer, "active"))["rx-gro"] == 0
    assert run_in(space, lambda: xdp.let_peer_receive(netdev)) == peer
    assert run_in(space, lambda: ethtool.features(peer, "active"))["rx-gro"] == 1
    assert run_in(space, lambda: xdp.let_peer_receive("lo")) == ""


@pytest.mark.parametrize("native_xdp", [True, False])
def test_both_ends_of_a_cable_take_native_frames(
    native_xdp: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither host can reach the other's end, which takes none without GRO."""
    there: list[Path] = []
    on: list[tuple[Path, str, dict[str, int]]] = []

    def enter(netns: Path, function: Callable[[], Any]) -> Any:
        there.append(netns)
        return function()

    monkeypatch.setattr("vnetperf.host.machine.run_in", enter)
    for called in ("create_netns", "create_veth"):
        monkeypatch.setattr(links, called, lambda *_, **__: None)
    monkeypatch.setattr(Machine, "load_module", lambda *_: None)
    monkeypatch.setattr(
        ethtool, "set_features", lambda name, values: on.append((there[-1], name, values))
    )
    monkeypatch.setattr(ethtool, "features", lambda *_: {"rx-gro": 1})
    run = SimpleNamespace(journal=None, run_id="r-1", rundir=SimpleNamespace(path=tmp_path))
    machine = Machine(cast("HostRun", run), facts())
    name = machine.lay_cable(0, tmp_path / "far", native_xdp=native_xdp)
    ends = [(end, name, {"rx-gro": 1}) for end in (tmp_path / "netns", tmp_path / "far")]
    assert on == (ends if native_xdp else [])


@real
@needs_clang
def test_the_kernel_detaches_what_a_killed_process_had(
    pair: tuple[Path, str, str], tmp_path: Path
) -> None:
    space, netdev, _ = pair
    (tmp_path / "pass.o").write_bytes(compiled(tmp_path, HARMLESS))
    script = (
        "import sys, time; from pathlib import Path; from vnetperf.host.xdp import BpfObject;"
        "BpfObject('pass', Path(sys.argv[1]).read_bytes()).attach('pass', sys.argv[2], 'native');"
        "time.sleep(60)"
    )
    argv = ["nsenter", f"--net={space}", sys.executable, "-c", script, str(tmp_path / "pass.o")]
    with subprocess.Popen([*argv, netdev]) as holder:
        try:
            wait_for(lambda: netdev in run_in(space, xdp.attached), 20, "the program")
        finally:
            holder.send_signal(signal.SIGKILL)
    wait_for(lambda: not run_in(space, xdp.attached), 5, "the end of the program")
