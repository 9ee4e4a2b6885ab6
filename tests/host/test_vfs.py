"""Virtual functions that a NIC had come back as they were, on a made-up sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.host import kernel as values
from vnetperf.host.journal import Journal
from vnetperf.host.nic import vfs

PHYSICAL = "0000:3b:00.0"


class Kernel:
    """Makes functions when their number is written, and gives them drivers when it may."""

    def __init__(self, sys: Path, count: int) -> None:
        self.bus = sys / "bus/pci/devices"
        self.device = self.bus / PHYSICAL
        self.device.mkdir(parents=True)
        (sys / "bus/pci/drivers/iavf").mkdir(parents=True)
        self.driver = sys / "bus/pci/drivers/iavf"
        for name, text in {"class": "0x020000", "sriov_totalvfs": "8"}.items():
            (self.device / name).write_text(f"{text}\n")
        self.write(self.device / "sriov_numvfs", "0", zero_first=False)
        self.write(self.device / "sriov_drivers_autoprobe", "1", zero_first=False)
        self.write(self.device / "sriov_numvfs", str(count), zero_first=False)

    def write(self, path: Path, value: str, *, zero_first: bool) -> None:
        del zero_first
        path.write_text(f"{value}\n")
        if path.name != "sriov_numvfs":
            return
        for link in self.device.glob("virtfn*"):
            link.unlink()
        probe = (self.device / "sriov_drivers_autoprobe").exists() and (
            self.device / "sriov_drivers_autoprobe"
        ).read_text() == "1\n"
        for number in range(int(value)):
            function = self.bus / f"0000:3b:02.{number}"
            (function / "net/eth9").mkdir(parents=True, exist_ok=True)
            (function / "driver").unlink(missing_ok=True)
            if probe:
                (function / "driver").symlink_to(self.driver)
            (self.device / f"virtfn{number}").symlink_to(function)

    def drivers(self) -> list[bool]:
        links = sorted(self.device.glob("virtfn*"))
        return [(link / "driver").exists() for link in links]


@pytest.mark.parametrize("before", [0, 2, 3])
def test_functions_are_made_without_drivers_and_come_back_with_them(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    kernel = Kernel(tmp_path, before)
    monkeypatch.setattr(values, "write_file", kernel.write)
    monkeypatch.setattr(vfs.usage, "interface_uses", dict)
    made = vfs.create_vfs(journal, PHYSICAL, 3, sys=tmp_path)
    assert len(made) == 3
    assert kernel.drivers() == [False] * 3
    assert journal.undo().complete
    assert kernel.drivers() == [True] * before
