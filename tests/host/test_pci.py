"""Binding and virtual functions, on a made-up sysfs that behaves like the kernel's."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from vnetperf.host import kernel, nic
from vnetperf.host.journal import Journal
from vnetperf.host.nic import pci
from vnetperf.model.errors import HostError

ADDRESS = "0000:3b:00.0"


class FakeSysfs:
    """Acts on writes to bind and unbind as the kernel does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.device = root / "bus/pci/devices" / ADDRESS
        self.device.mkdir(parents=True)
        (self.device / "class").write_text("0x020000\n")
        (self.device / "driver_override").write_text("(null)\n")
        (self.device / "sriov_totalvfs").write_text("8\n")
        (self.device / "sriov_numvfs").write_text("3\n")
        for driver in ("ice", "vfio-pci"):
            path = root / "bus/pci/drivers" / driver
            path.mkdir(parents=True)
        self.bind("ice")

    def bind(self, driver: str) -> None:
        (self.device / "driver").unlink(missing_ok=True)
        if driver:
            (self.device / "driver").symlink_to(self.root / "bus/pci/drivers" / driver)

    @property
    def driver(self) -> str:
        link = self.device / "driver"
        return link.resolve().name if link.is_symlink() else ""


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    fake = FakeSysfs(tmp_path / "sys")
    real = Path.write_text

    def write_text(path: Path, text: str, *arguments: object, **options: object) -> int:
        if path.name == "unbind":
            fake.bind("")
            (fake.device / "sriov_numvfs").write_text("0\n")  # a driver does so when it goes
        elif path.name == "bind":
            override = (fake.device / "driver_override").read_text().strip()
            if path.parent.name == "vfio-pci" and override != "vfio-pci":
                raise OSError(19, "No such device")
            fake.bind(path.parent.name)
        else:
            return real(path, text or "(null)")
        return len(text)

    monkeypatch.setattr(Path, "write_text", write_text)
    return fake


def test_a_device_goes_to_vfio_and_comes_back(journal: Journal, sysfs: FakeSysfs) -> None:
    assert pci.bind_driver(journal, ADDRESS, "ice", sys=sysfs.root) is None
    pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    assert sysfs.driver == "vfio-pci"
    assert journal.undo().complete
    assert sysfs.driver == "ice"
    assert (sysfs.device / "driver_override").read_text().strip() == ""


def test_a_device_that_a_program_has_meanwhile_is_not_taken_from_it(
    journal: Journal, sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would wait for the program, deaf to every signal."""
    pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    monkeypatch.setattr(pci, "LET_GO_S", 0.0)
    monkeypatch.setattr(pci.usage, "find_holder", lambda files: "process 7 (qemu)" if files else "")
    (sysfs.root / "bus/pci/devices" / ADDRESS / "vfio-dev/vfio0").mkdir(parents=True)
    (failed,) = journal.undo().failed
    for words in ("process 7 (qemu)", "vfio-pci"):
        assert words in failed.outcome
    assert sysfs.driver == "vfio-pci"
    monkeypatch.setattr(pci.usage, "find_holder", lambda _: "")
    assert journal.undo().complete
    assert sysfs.driver == "ice"


def test_a_device_without_driver_has_none_again(journal: Journal, sysfs: FakeSysfs) -> None:
    sysfs.bind("")
    pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    assert journal.undo().complete
    assert sysfs.driver == ""


def test_a_device_that_somebody_else_has_bound_since_stays(
    journal: Journal, sysfs: FakeSysfs
) -> None:
    sysfs.bind("")
    pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    sysfs.bind("ice")
    report = journal.undo()
    assert report.complete
    assert "left at ice: somebody else" in report.undone[0].outcome
    assert sysfs.driver == "ice"


def test_a_missing_driver_or_device_is_told(journal: Journal, sysfs: FakeSysfs) -> None:
    with pytest.raises(HostError, match="modprobe no-such"):
        pci.bind_driver(journal, ADDRESS, "no-such", sys=sysfs.root)
    with pytest.raises(HostError, match=f"accepted: {ADDRESS}"):
        pci.bind_driver(journal, "0000:00:00.0", "ice", sys=sysfs.root)
    assert sysfs.driver == "ice"


def test_a_device_that_carries_a_route_is_not_taken(
    journal: Journal, sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sysfs.device / "net/eth9").mkdir(parents=True)
    monkeypatch.setattr(pci, "find_routed_interfaces", lambda: {"eth9"})
    with pytest.raises(HostError, match="eth9 of this device carries a route"):
        pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)


def test_a_function_is_probed_anew_by_the_driver_that_has_it(
    sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[str] = []
    bind = sysfs.bind
    monkeypatch.setattr(sysfs, "bind", lambda driver: (bound.append(driver), bind(driver)))
    (sysfs.device / "virtfn2").symlink_to(sysfs.device)
    pci.reprobe_vf(ADDRESS, 2, sys=sysfs.root)
    assert (bound, sysfs.driver) == (["", "ice"], "ice")
    bind("")
    pci.reprobe_vf(ADDRESS, 2, sys=sysfs.root)
    assert len(bound) == 2, "one without a driver stays without"


def test_virtual_functions_come_back_to_what_they_were(journal: Journal, sysfs: FakeSysfs) -> None:
    pci.set_vfs(journal, ADDRESS, 8, sys=sysfs.root)
    assert pci.nic(ADDRESS, sys=sysfs.root).vfs == 8
    with pytest.raises(HostError, match="accepted: 0 to 8"):
        pci.set_vfs(journal, ADDRESS, 9, sys=sysfs.root)
    journal.undo()
    assert pci.nic(ADDRESS, sys=sysfs.root).vfs == 3


def with_functions(sysfs: FakeSysfs, *drivers: str) -> None:
    for number, driver in enumerate(drivers):
        function = sysfs.device.with_name(f"0000:3b:01.{number}")
        function.mkdir()
        if driver:
            (function / "driver").symlink_to(sysfs.root / "bus/pci/drivers" / driver)
        (sysfs.device / f"virtfn{number}").symlink_to(function)


def test_virtual_functions_that_end_with_a_driver_come_back_with_it(
    journal: Journal, sysfs: FakeSysfs
) -> None:
    with_functions(sysfs, "", "", "")
    nic.change_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    assert sysfs.driver == "vfio-pci"
    assert journal.undo().complete
    assert sysfs.driver == "ice"
    assert pci.nic(ADDRESS, sys=sysfs.root).vfs == 3


def test_a_driver_that_stays_keeps_its_virtual_functions(
    journal: Journal, sysfs: FakeSysfs
) -> None:
    with_functions(sysfs, "vfio-pci")
    nic.change_driver(journal, ADDRESS, "ice", sys=sysfs.root)
    assert pci.nic(ADDRESS, sys=sysfs.root).vfs == 3


@pytest.mark.parametrize("isolated", [False, True])
def test_virtual_functions_in_use_keep_their_driver(
    journal: Journal, sysfs: FakeSysfs, *, isolated: bool
) -> None:
    with_functions(sysfs, "", "vfio-pci")
    with pytest.raises(HostError, match=r"3b:01\.1 is given to vfio-pci"):
        nic.change_driver(journal, ADDRESS, "vfio-pci", isolated=isolated, sys=sysfs.root)
    assert sysfs.driver == "ice"
    assert pci.nic(ADDRESS, sys=sysfs.root).vfs == 3


def test_a_device_with_several_interfaces_is_neither_given_nor_lent(
    journal: Journal, sysfs: FakeSysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the second port nothing would come back, and the first be taken for it."""
    for port in ("ens1", "ens1d1"):
        (sysfs.device / "net" / port).mkdir(parents=True)
    read = partial(pci.nic, sys=sysfs.root)
    monkeypatch.setattr(pci, "nic", lambda address, **_: read(address))
    monkeypatch.setattr(pci, "kernel_driver", lambda _: "ice")
    monkeypatch.setattr(nic.kernel, "load_module", lambda *_: None)
    for take in (
        lambda: nic.bind_nic(journal, ADDRESS, "vfio-pci", isolated=True),
        lambda: nic.borrow_nic(journal, ADDRESS, tmp_path),
    ):
        with pytest.raises(HostError, match=r"2 interfaces \(ens1, ens1d1\)"):
            take()
    assert sysfs.driver == "ice"
    assert not journal.records("change")


def test_a_move_that_cuts_the_controller_off_is_undone_at_once(
    journal: Journal, sysfs: FakeSysfs
) -> None:
    moved = []

    def deaf(what: str) -> None:
        moved.append((what, sysfs.driver))
        raise HostError("the controller did not confirm")

    journal.confirm = deaf
    with pytest.raises(HostError, match="did not confirm"):
        pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    ((change, driver),) = moved
    assert (ADDRESS in change, "ice -> vfio-pci" in change, driver) == (True, True, "vfio-pci")
    assert sysfs.driver == "ice"
    journal.confirm = lambda what: None
    pci.bind_driver(journal, ADDRESS, "vfio-pci", sys=sysfs.root)
    assert sysfs.driver == "vfio-pci"
    assert journal.undo().complete


@pytest.mark.parametrize(
    ("config", "intx"),
    [
        (bytes(0x3D) + b"\1" + bytes(2), True),
        (bytes(64), False),
        (bytes(16), False),  # cut
        (None, False),  # not to be read
    ],
)
def test_an_interrupt_line_is_what_the_device_states(
    sysfs: FakeSysfs, config: bytes | None, intx: bool
) -> None:
    if config is not None:
        (sysfs.device / "config").write_bytes(config)
    assert pci.nic(ADDRESS, sys=sysfs.root).intx is intx


def test_a_group_that_vfio_made_protects_nothing(sysfs: FakeSysfs) -> None:
    group = sysfs.root / "kernel/iommu_groups/7"
    group.mkdir(parents=True)
    (sysfs.device / "iommu_group").symlink_to(group)
    assert not pci.nic(ADDRESS, sys=sysfs.root).unprotected
    (group / "name").write_text("vfio-noiommu\n")
    assert pci.nic(ADDRESS, sys=sysfs.root).unprotected


def test_a_mode_without_iommu_is_the_kernels_word(tmp_path: Path) -> None:
    config = tmp_path / f"boot/config-{os.uname().release}"
    config.parent.mkdir()
    assert not kernel.has_noiommu(tmp_path)
    config.write_text("CONFIG_VFIO=m\n# CONFIG_VFIO_NOIOMMU is not set\n")
    assert not kernel.has_noiommu(tmp_path)
    config.write_text("CONFIG_VFIO=m\nCONFIG_VFIO_NOIOMMU=y\n")
    assert kernel.has_noiommu(tmp_path)
