from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Programs
from vnetperf.host import cpu, kernel, linux
from vnetperf.host.cpu import (
    available_governors,
    device_irqs,
    format_cpus,
    interrupts_on,
    move_interrupts,
    parse_cpus,
    read_governor,
    set_governor,
)
from vnetperf.host.journal import Journal, pending_changes
from vnetperf.host.kernel import read_value, undo_modules, undo_value, write_value
from vnetperf.model.errors import HostError
from vnetperf.model.testbed import KernelModule


def test_the_chosen_word_is_the_value(tmp_path: Path) -> None:
    path = tmp_path / "enabled"
    path.write_text("always [madvise] never\n")
    assert read_value(path) == "madvise"


def test_a_mask_padded_by_the_kernel_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mask"
    path.write_text("00000000,00000003\n")
    assert (
        undo_value({"path": str(path), "previous": "3", "wanted": "1", "zero_first": False})
        == "already 3"
    )


def test_a_cpu_list_is_not_a_mask(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("0,2\n")
    data = {"path": str(path), "previous": "2", "wanted": "0,2", "zero_first": False}
    undo_value(data)
    assert path.read_text() == "2\n"


def test_a_value_of_a_device_that_is_gone(tmp_path: Path) -> None:
    data = {"path": str(tmp_path / "gone"), "previous": "2", "zero_first": False}
    assert undo_value(data) == "gone with its device"


def test_a_governor_is_set_and_comes_back(journal: Journal, tmp_path: Path) -> None:
    cpu0 = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    cpu0.mkdir(parents=True)
    (cpu0 / "scaling_governor").write_text("powersave\n")
    (cpu0 / "scaling_available_governors").write_text("performance powersave\n")
    assert available_governors(0, sys=tmp_path) == ("performance", "powersave")
    assert available_governors(1, sys=tmp_path) == ()
    set_governor(journal, [0], "performance", sys=tmp_path)
    assert read_governor(0, sys=tmp_path) == "performance"
    assert read_governor(1, sys=tmp_path) is None
    with pytest.raises(HostError, match="governor"):
        set_governor(journal, [1], "performance", sys=tmp_path)
    assert device_irqs("0000:00:00.0", sys=tmp_path) == ()
    journal.undo()
    assert read_governor(0, sys=tmp_path) == "powersave"


def interrupts(tmp_path: Path, served: dict[int, str], default: str) -> Path:
    """A machine with processors 0 to 3 and some interrupts; its /proc."""
    online = tmp_path / "devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("0-3\n")
    for number, cpus in served.items():
        (tmp_path / f"irq/{number}/eth{number}").mkdir(parents=True)
        (tmp_path / f"irq/{number}/smp_affinity_list").write_text(f"{cpus}\n")
    (tmp_path / "irq/default_smp_affinity").write_text(f"{default}\n")
    return tmp_path


def test_interrupts_leave_the_pollers_and_come_back(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = interrupts(tmp_path, {7: "0-3", 8: "2", 9: "0", 10: "3"}, "f")
    write = Path.write_text

    def refuse_fixed(path: Path, text: str) -> int:
        if path == proc / "irq/10/smp_affinity_list":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse_fixed)
    move_interrupts(journal, [2, 3], sys=tmp_path, proc=proc)
    now = {n: (proc / f"irq/{n}/smp_affinity_list").read_text().strip() for n in (7, 8, 9, 10)}
    assert now == {7: "0-1", 8: "0-1", 9: "0", 10: "3"}
    assert (proc / "irq/default_smp_affinity").read_text() == "3\n"
    assert interrupts_on([2, 3], proc=proc) == {10: "eth10"}
    assert journal.undo().complete
    assert (proc / "irq/7/smp_affinity_list").read_text() == "0-3\n"
    assert (proc / "irq/default_smp_affinity").read_text() == "f\n"


def test_a_nic_that_comes_back_has_the_machines_usual_interrupts(
    journal: Journal, tmp_path: Path
) -> None:
    """Its driver requests them anew, for the processors that are the default at that moment."""
    proc = interrupts(tmp_path, {7: "0-3"}, "f")
    move_interrupts(journal, [2, 3], sys=tmp_path, proc=proc)
    with journal.changing("directory", "as a driver", {"path": str(tmp_path / "gone")}):
        kinds = [record["kind"] for record in pending_changes(journal.records("change"))]
    assert kinds == ["irq-default", "directory", "value"]
    assert journal.undo().complete
    assert (proc / "irq/default_smp_affinity").read_text() == "f\n"


def test_a_processor_is_left_for_interrupts(journal: Journal, tmp_path: Path) -> None:
    proc = interrupts(tmp_path, {7: "0-3"}, "f")
    with pytest.raises(HostError, match="no processor is left"):
        move_interrupts(journal, range(4), sys=tmp_path, proc=proc)


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [({0}, "1"), ({0, 31}, "80000001"), ({0, 32, 70}, "00000040,00000001,00000001")],
)
def test_masks_of_many_processors(cpus: set[int], mask: str) -> None:
    assert cpu._format_mask(cpus) == mask
    assert cpu.parse_mask(mask) == cpus


def test_what_somebody_else_has_set_since_stays(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "value"
    path.write_text("1\n")
    write_value(journal, path, "2")
    write_value(journal, path, "3")
    path.write_text("7\n")
    report = journal.undo()
    assert report.complete
    assert "left at 7: somebody else" in report.undone[0].outcome
    assert path.read_text() == "7\n"


@pytest.mark.parametrize("killed_at", ["0", "2", "5"])
def test_a_value_is_put_back_wherever_its_writer_was_killed(
    journal: Journal, tmp_path: Path, killed_at: str
) -> None:
    """Such as a number of virtual functions, which is 0 between two others."""
    path = tmp_path / "value"
    path.write_text("2\n")
    write_value(journal, path, "5", zero_first=True)
    path.write_text(f"{killed_at}\n")
    assert journal.undo().complete
    assert path.read_text() == "2\n"


def test_a_value_that_the_kernel_takes_otherwise_is_put_back(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "value"
    path.write_text("1\n")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, b"8\n" if data == b"7\n" else data))
    with pytest.raises(HostError, match="'7' was written and '8' reads back"):
        write_value(journal, path, "7")
    assert path.read_text() == "1\n"


@pytest.mark.parametrize(
    ("text", "cpus"), [("", ()), ("0", (0,)), ("0-3,8,10-11", (0, 1, 2, 3, 8, 10, 11))]
)
def test_cpu_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus
    assert format_cpus(cpus) == text


def test_a_bad_cpu_list_is_told() -> None:
    with pytest.raises(HostError, match="numbers and ranges"):
        parse_cpus("1-x")


@pytest.mark.real
def test_a_real_sysctl(journal: Journal) -> None:
    path = Path("/proc/sys/net/core/busy_read")
    before = path.read_text()
    change = write_value(journal, path, "7")
    assert path.read_text().strip() == "7"
    change.undo()
    assert path.read_text() == before
    with pytest.raises(HostError, match="refused"):
        write_value(journal, path, "nonsense")
    assert path.read_text() == before
    with pytest.raises(HostError, match="no/such"):
        write_value(journal, path.with_name("no") / "such", "1")


class Modules:
    """A kernel with modules: those in `used` are refused, `gone` are those unloaded."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch, aliases: str | None) -> None:
        self.loaded, self.used, self.gone = top / "module", set[str](), list[str]()
        self.setting = top / "setting"  # on as soon as a module is loaded
        self.loaded.mkdir()
        release = top / "lib" / os.uname().release
        release.mkdir(parents=True)
        if aliases is not None:
            (release / "modules.alias").write_text(aliases)
        monkeypatch.setattr(kernel, "SYS_MODULE", self.loaded)
        monkeypatch.setattr(kernel, "MODULES", top / "lib")
        monkeypatch.setattr(kernel, "PROC_SYS", top)
        monkeypatch.setattr(kernel, "PROC_MODULES", top)
        monkeypatch.setattr(kernel.shutil, "which", lambda name, path: f"/sbin/{name}")
        monkeypatch.setattr(kernel, "run_modprobe", self.modprobe)
        monkeypatch.setattr(linux, "delete_module", self.delete)
        monkeypatch.setattr("vnetperf.host.kernel.time.sleep", lambda _: None)

    def load(self, *names: str) -> dict[str, object]:
        for name in names:
            (self.loaded / name).mkdir()
        return {"modules": names}

    def modprobe(self, line: list[str], name: str, run_id: str = "") -> str:
        assert run_id or not line
        if "--show-depends" not in line:
            self.load(name)
            self.setting.write_text("1\n")
        return f"insmod /lib/modules/of/{name}.ko"

    def delete(self, name: str) -> None:
        if name in self.used:
            raise BlockingIOError(errno.EAGAIN, "in use")
        shutil.rmtree(self.loaded / name)
        self.gone.append(name)


ALIASES = """# comment
alias rtnl-link-veth veth
alias rtnl-link-ip6gretap ip6_gre
alias rtnl-link-gre ip_gre
alias rtnl-link-gretap ip_gre
alias net-pf-1 unix
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    return Modules(tmp_path, monkeypatch, ALIASES)


@pytest.mark.parametrize("there", [False, True])
def test_what_a_module_turns_on_for_all_is_off_once_a_run_has_loaded_it(
    there: bool, modules: Modules, journal: Journal
) -> None:
    """What somebody else loaded has the values that somebody else wants."""
    if there:
        modules.modprobe([], "netty")
    change = kernel.load_module(journal, KernelModule(name="netty", turns_on=("setting",)))
    assert modules.setting.read_text() == ("1\n" if there else "0\n")
    assert (change is None) is there
    if change:
        assert change.undo() == "unloaded netty"


def test_what_a_module_turns_on_is_turned_off_in_the_namespaces_of_others_too(
    modules: Modules, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = str(Path("/proc/thread-self/ns/net").readlink())
    there = {own: Path("/own"), "net:[1]": Path("/container"), "net:[2]": Path("/ended")}
    entered: list[Path] = []

    def enter(namespace: Path, function: Callable[[], None]) -> None:
        entered.append(namespace)
        if namespace == Path("/ended"):
            raise FileNotFoundError(namespace)
        modules.setting.write_text("1\n")
        function()
        assert modules.setting.read_text() == "0\n"

    monkeypatch.setattr("vnetperf.host.linux.network_namespaces", lambda: there)
    monkeypatch.setattr("vnetperf.host.linux.run_in", enter)
    kernel.load_module(journal, KernelModule(name="plain"))
    assert entered == []
    kernel.load_module(journal, KernelModule(name="netty", turns_on=("setting",)))
    assert entered == [Path("/container"), Path("/ended")]


def test_a_module_that_somebody_has_turned_on_since_stays(
    modules: Modules, journal: Journal
) -> None:
    """As kube-proxy does with br_netfilter, of which no reference is counted."""
    change = kernel.load_module(journal, KernelModule(name="netty", turns_on=("setting",)))
    assert change is not None
    modules.setting.write_text("1\n")
    assert "somebody has turned setting on" in change.undo()
    assert journal.undo().complete
    assert modules.gone == []


def test_a_module_whose_settings_cannot_be_turned_off_is_unloaded(
    modules: Modules, journal: Journal
) -> None:
    with pytest.raises(HostError, match="no-such"):
        kernel.load_module(journal, KernelModule(name="netty", turns_on=("no-such",)))
    assert modules.gone == ["netty"]


def test_what_loads_a_module_is_of_the_run_and_ends(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that outlived a killed agent would load the module after the undo."""
    modprobe = str(
        programs({"modprobe": f'echo "${linux.RUN_ID_VARIABLE}"; exec sleep $1'}) / "modprobe"
    )
    assert kernel.run_modprobe([modprobe, "0"], "netty", "r1") == "r1\n"
    monkeypatch.setattr(kernel, "MODPROBE_S", 0.1)
    with pytest.raises(HostError, match=r"module netty: .* 0\.1 s"):
        kernel.run_modprobe([modprobe, "60"], "netty", "r1")


def test_modules_that_nobody_else_can_use_are_unloaded_users_first(modules: Modules) -> None:
    assert undo_modules(modules.load("vhost", "vhost_net")) == "unloaded vhost_net vhost"
    assert modules.gone == ["vhost_net", "vhost"]
    assert undo_modules({"modules": ["vhost"]}) == "already gone"


@pytest.mark.parametrize(("module", "kinds"), [("veth", "veth"), ("ip_gre", "gre/gretap")])
def test_a_module_with_a_kind_of_link_stays(modules: Modules, module: str, kinds: str) -> None:
    """Unloading it deletes such links of others, in namespaces that we may not even see."""
    outcome = undo_modules(modules.load("vhost", module))
    assert outcome.startswith("unloaded vhost; ")
    assert f" {module} (" in outcome
    assert f"every {kinds} link" in outcome
    assert modules.gone == ["vhost"]


def test_a_module_that_others_use_meanwhile_stays_and_blocks_no_restore(modules: Modules) -> None:
    data = modules.load("vhost", "vhost_net")
    modules.used.update({"vhost_net", "vhost"})
    outcome = undo_modules(data)
    assert outcome.startswith("left loaded: vhost_net (")
    assert "; vhost (" in outcome


def test_a_driver_that_has_a_device_stays(modules: Modules, tmp_path: Path) -> None:
    """The kernel counts no reference for a device that is bound and that nobody has open."""
    data = modules.load("vfio_pci")
    driver = tmp_path / "bus/pci/drivers/vfio-pci"
    driver.mkdir(parents=True)
    (driver / "bind").touch()
    (driver / "module").symlink_to(modules.loaded / "vfio_pci")
    links = modules.loaded / "vfio_pci/drivers"
    links.mkdir()
    (links / "pci:vfio-pci").symlink_to(driver)
    (driver / "0000:3b:00.0").symlink_to(tmp_path)
    outcome = undo_modules(data)
    assert outcome.startswith("left loaded: vfio_pci (")
    assert "0000:3b:00.0" in outcome
    (driver / "0000:3b:00.0").unlink()
    assert undo_modules(data) == "unloaded vfio_pci"


def test_what_cannot_be_known_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = Modules(tmp_path, monkeypatch, None)
    assert "is not known" in undo_modules(modules.load("vhost"))
    assert modules.gone == []


@pytest.mark.parametrize("text", ["[" * 100_000, b'{"a":' * 100_000, "", "nul", "{"])
def test_what_is_no_json_is_a_value_error_however_deep(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        linux.parse_json(text)
