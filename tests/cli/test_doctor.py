"""What `vnetperf doctor` says of a machine, from its facts."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from tests.fakes.machine import PROGRAMS, facts
from tests.texts import Texts
from vnetperf.agent import client
from vnetperf.cli import main
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import ClockOffset, MachineFacts
from vnetperf.plugin import registry


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have a terminal; the reader of these texts has none."""
    monkeypatch.delenv("COLUMNS", raising=False)


def doctor(
    machine: MachineFacts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *options: str,
    last: Mapping[str, Any] = MappingProxyType({}),
    inventory: Callable[[object], MachineFacts] | None = None,
) -> tuple[int, str]:
    class FakeClient:
        last_restore: ClassVar[Mapping[str, Any]] = last
        troubles = ("link vp0: still there",) if last else ()
        clock = ClockOffset(offset_s=-1.5, bound_s=0.01) if last else None

        def __init__(self, *_: Any, read_only: bool) -> None:
            pass

        def inventory(self) -> MachineFacts:
            return machine

        def close(self) -> None:
            pass

    if inventory is not None:
        monkeypatch.setattr(FakeClient, "inventory", inventory)
    monkeypatch.setattr(client, "AgentClient", FakeClient)
    status = main(["doctor", *options])
    return status, capsys.readouterr().out


def restored(text: str) -> list[str]:
    """What stands about the last restore of this machine."""
    lines = text.partition("last restore of this machine\n")[2].splitlines()
    return list(itertools.takewhile(lambda line: line.startswith("  "), lines))


def refusals(text: str) -> list[tuple[int, str, str]]:
    """How many scenarios, which, and the cause: two lines each."""
    lines = text.partition("\nwhat cannot run, and why\n")[2].splitlines()[:-2]
    found = []
    for first, second in zip(lines[::2], lines[1::2], strict=True):
        number, _, where = first.strip().partition("  ")
        found.append((int(number), where.removesuffix(":"), second.strip()))
    return found


def test_a_good_machine_carries_a_vswitch_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = doctor(facts(), monkeypatch, capsys)
    assert status == 0
    own = itertools.takewhile(
        lambda ln: ln.startswith("    "), text.split("\n  dpdk\n")[1].splitlines()
    )
    (line,) = [ln for ln in own if "pvvp" in ln]
    assert "pvp" in line
    assert ": yes, over memif, dedicated cores" in line


@pytest.mark.slow
def test_the_last_restore_and_what_is_left_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], texts: Texts
) -> None:
    _, text = doctor(facts(), monkeypatch, capsys)
    texts.check(restored(text), "unknown")
    assert "clock against" not in text  # it has one clock
    last = {"run": "r1", "when": "2026-01-01T00:00:00", "troubles": [], "differences": []}
    _, text = doctor(facts(), monkeypatch, capsys, last=last)
    texts.check(restored(text), "as before")
    assert "NOT restored: link vp0: still there" in text
    assert "-1.500 s, within 0.010 s\n" in text
    last["differences"] = ["links: eth9 is gone (was up)"]
    _, text = doctor(facts(), monkeypatch, capsys, last=last)
    texts.check(restored(text), "differences")
    _, text = doctor(facts(), monkeypatch, capsys, last={"unknown": "FILE is of lab7"})
    texts.check(restored(text), "other lab")


def test_a_program_that_is_there_and_not_run_is_told_with_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = "/usr/local/bin/iperf3 is not run as root: it belongs to user 7; give it to root"
    machine = facts(programs={**PROGRAMS, "iperf3": ""}, program_troubles={"iperf3": trouble})
    _, text = doctor(machine, monkeypatch, capsys)
    (line,) = (line for line in text.splitlines() if line.startswith("  iperf3 "))
    assert trouble in line
    assert "MISSING" not in line


def test_what_is_missing_is_said_once_for_all_deployments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = facts(programs={**PROGRAMS, "ovs-vswitchd-dpdk": ""})
    _, text = doctor(machine, monkeypatch, capsys)
    assert text.count("ovs-vswitchd-dpdk is not installed") == 1


def test_a_cause_that_several_vswitches_and_networks_have_stands_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = doctor(facts(programs={**PROGRAMS, "qemu-system-x86_64": ""}), monkeypatch, capsys)
    told = refusals(text)
    for cause, of in (
        ("gives pods vhost-user sockets", ("vhost_user", "vhost_user_vxlan")),
        ("no NIC of this machine has SR-IOV", ("of sriov", "of network sriov")),
        ("cannot distinguish parallel chains", ("testpmd", "xdp")),
        ("gives it none here", ("host", "kubernetes")),
        ("qemu-system-x86_64 is not installed", ("bmp2vmp, vmp2vmp",)),
        ("a vSwitch on each of 2 hosts", ("v2p2v, pvp2pvp, p2c2p, v2c2v of every vSwitch",)),
    ):
        (where,) = [where for _, where, text in told if cause in text]
        assert all(re.search(rf"(?<!\w){name}(?!\w)", where) for name in of), where
    assert len(told) == len({cause for _, _, cause in told})
    assert "\0" not in text


def test_each_scenario_has_one_answer_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], texts: Texts
) -> None:
    _, text = doctor(facts(), monkeypatch, capsys)
    answers: dict[tuple[str, str], list[str]] = {}

    def note(names: str, of: str, way: str) -> None:
        for where in re.split(r", | and ", of):
            vswitch = where.removeprefix("networks ").removeprefix("network ")
            # sriov and macvlan are vSwitches or networks, by the deployment's name.
            for name in names.split(", "):
                answers.setdefault((name, vswitch), []).append(way)

    heading = ""
    for line in text.partition("\nscenarios\n")[2].partition("\nwhat ")[0].splitlines():
        if not line.startswith("    "):
            heading = line.strip()
        else:
            names, _, way = line.strip().partition(": ")
            note(names, heading, way)
    count = {"yes": len(answers), "no": 0}
    for number, where, cause in refusals(text):
        count["no"] += number
        for part in where.split("; "):
            names, _, of = part.partition(" of ")
            note(names, of, f"no: {cause}")
    assert all(len(ways) == 1 for ways in answers.values()), answers
    assert text.splitlines()[-2].startswith(f"{count['yes']} of {sum(count.values())} ")
    texts.check(answers["bmp2bmp", "sriov"][0])
    numbers = [number for number, _, _ in refusals(text)]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_on_a_terminal_every_line_fits_and_what_is_typed_is_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = facts(programs=dict.fromkeys(PROGRAMS, ""))
    _, piped = doctor(machine, monkeypatch, capsys)
    monkeypatch.setenv("COLUMNS", str(width))
    _, text = doctor(machine, monkeypatch, capsys)
    assert text.split() == piped.split()  # the same words, in the same order
    typed = set(re.findall("`[^`]*`", piped))
    assert typed <= {command for line in text.splitlines() for command in re.findall("`.*?`", line)}
    for line in text.splitlines():
        assert len(line) <= min(width, 100) or "`" in line or "pytest " in line, line
    assert len(piped.splitlines()) < len(text.splitlines())


def test_nothing_that_can_run_is_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = doctor(facts(is_root=False), monkeypatch, capsys)
    assert status == 1
    assert "no: run as root" in text
    assert "the agent is not root" in text


def test_kinds_of_cores_are_told_where_there_are_several(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = doctor(facts(8), monkeypatch, capsys)
    assert "kinds of cores" not in text
    pairs = enumerate(facts(8).cpus)
    mixed = tuple(cpu.model_copy(update={"kind": n // 4}) for n, cpu in pairs)
    _, text = doctor(facts(cpus=mixed), monkeypatch, capsys)
    assert "2 kinds of cores" in text


def test_what_could_not_be_read_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = facts(
        is_root=False,
        lacks=("CAP_SYS_ADMIN",),
        record={"unreadable": {"free memory": "unknown: /proc/meminfo is empty"}},
    )
    _, text = doctor(odd, monkeypatch, capsys)
    assert "free memory: unknown: /proc/meminfo" in text
    assert "CAP_SYS_ADMIN" in text


def test_options_are_part_of_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = doctor(facts(), monkeypatch, capsys, "--set", "mode=vepa")
    (where,) = [w for _, w, cause in refusals(text) if "has no modes; leave --set mode" in cause]
    assert re.search(r"\bdpdk\b", where)
    assert not re.search(r"\bmacvtap\b", where)


def test_a_plugin_that_raises_on_import_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry._registered, "vswitches", {"broken": "broken_plugin:Switch"})
    status, text = doctor(facts(), monkeypatch, capsys)
    assert status == 0
    assert text.count("no licence") == 1
    assert "\n  dpdk\n" in text


def test_make_deps_is_named_for_what_it_installs() -> None:
    script = (Path(__file__).parents[2] / "scripts" / "install-deps").read_text()
    programs = registry.programs()
    installed = {program.package for program in programs.values() if program.by_make}
    brought = {"openvswitch-switch", "openvswitch-common"}  # by the one with DPDK
    for package in installed - brought:
        assert re.search(rf"(?<![\w-]){package}(?![\w-])", script), package
    machine = facts(programs={})
    hint = "make deps"
    assert hint in machine.missing_program(programs["gcc"])
    assert hint not in machine.missing_program(programs["vpp"])
    assert hint not in machine.missing_program("mine")


@pytest.mark.parametrize(
    ("images", "says"),
    [
        ({}, "MISSING: there is no guest image vloop; build it once"),
        ({"vloop": ""}, "built, whole, for this machine's processors"),
        (
            {"vloop": "this image was built for processors aarch64; cure: ..."},
            "MISSING: the guest image vloop cannot be used: this image was built for processors",
        ),
    ],
)
def test_what_guests_need_is_told(
    images: dict[str, str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, text = doctor(facts(images=images), monkeypatch, capsys)
    (line,) = [ln for ln in text.splitlines() if ln.startswith("  image vloop")]
    assert says in line
    assert "MISSING: `pip install 'vnetperf[vm]'`" in text


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        (
            {},
            "MISSING: the Python package grpcio is not installed; "
            "run `pip install 'vnetperf[cri]'`",
        ),
        ({"grpcio": "1.60", "protobuf": "4.25"}, "can be made"),
    ],
)
def test_what_kinds_of_pods_need_is_told(
    versions: dict[str, str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    texts: Texts,
) -> None:
    there = dict.fromkeys(("runc", "containerd", "ctr", "gcc"), "/usr/bin/x")
    _, text = doctor(facts(programs=there, versions=versions), monkeypatch, capsys)
    told = text.partition("pods with programs (--pod)\n")[2].splitlines()[:4]
    kinds = dict(line.split(maxsplit=1) for line in told)
    assert kinds["netns"] == kinds["runc"] == "can be made"
    texts.check(kinds["podman"])
    assert kinds["cri"] == says


def test_it_ends_with_what_can_run_and_how_to_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = doctor(facts(), monkeypatch, capsys)
    last, command = text.splitlines()[-2:]
    counts = re.match(r"(\d+) of (\d+) ", last)
    assert counts is not None, last
    able, every = counts.groups()
    assert 0 < int(able) < int(every)
    assert last.endswith("begin with:")
    assert command.startswith("  pytest ")
    scenario = command.partition("-k ")[2].split()[0]
    deployment, _, vswitch = scenario.partition("_")
    own = text.split(f"\n  {vswitch}")[1].split("\n  ")[1:3]
    assert any(deployment in line and ": yes" in line for line in own)
    _, text = doctor(facts(is_root=False), monkeypatch, capsys)
    assert re.search(r"^0 of \d+ scenarios", text.splitlines()[-1])


def test_each_missing_program_has_a_cure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = facts(programs=dict.fromkeys(PROGRAMS, ""))
    _, text = doctor(machine, monkeypatch, capsys)
    lines = [line for line in text.splitlines() if "MISSING" in line]
    assert len(lines) >= len(PROGRAMS)
    for line in lines:
        assert line.partition("MISSING: ")[2].strip(), line


@pytest.mark.parametrize("on_terminal", [True, False])
def test_it_shows_life_on_a_terminal_while_it_looks_and_takes_it_away(
    on_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return on_terminal

    stderr = Terminal()
    machine = facts()

    def inventory(_: object) -> MachineFacts:
        seen.append(stderr.getvalue())
        return machine

    monkeypatch.setattr("sys.stderr", stderr)
    _, text = doctor(machine, monkeypatch, capsys, inventory=inventory)
    (during,) = seen
    assert bool(during.strip()) is on_terminal
    assert ("looking at this machine" in during) is on_terminal
    last = stderr.getvalue().rpartition("\r")[2]
    assert last == ("\033[K" if on_terminal else "")  # the line is empty again
    assert "looking at" not in text


def test_life_is_taken_away_where_the_look_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def inventory(_: object) -> MachineFacts:
        raise HostError("the agent cannot be started")

    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    status, _ = doctor(facts(), monkeypatch, capsys, inventory=inventory)
    assert status != 0
    shown = stderr.getvalue()
    last = shown.rpartition("\r\033[K")[2]
    assert last.startswith("vnetperf: the agent cannot")


def test_networks_that_lack_the_same_are_named_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = doctor(facts(), monkeypatch, capsys)
    assert "\n  networks " in text
    scenarios = text.partition("\nscenarios\n")[2]
    groups = re.split(r"\n  (?=\S)", scenarios)
    bodies = [group.partition("\n")[2] for group in groups if group.partition("\n")[2]]
    assert len(bodies) == len(set(bodies))
