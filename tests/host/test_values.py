from __future__ import annotations

from pathlib import Path

import pytest

from vnetperf.host.cpu import (
    device_irqs,
    format_cpus,
    parse_cpus,
    read_governor,
    set_governor,
    set_irq_affinity,
)
from vnetperf.host.journal import Journal
from vnetperf.host.kernel import read_value, set_sysctl, undo_value, write_value
from vnetperf.model.errors import HostError


def test_the_chosen_word_is_the_value(tmp_path: Path) -> None:
    path = tmp_path / "enabled"
    path.write_text("always [madvise] never\n")
    assert read_value(path) == "madvise"


def test_a_mask_padded_by_the_kernel_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mask"
    path.write_text("00000000,00000003\n")
    assert undo_value({"path": str(path), "previous": "3", "zero_first": False}) == "already 3"


def test_a_cpu_list_is_not_a_mask(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("0,2\n")
    undo_value({"path": str(path), "previous": "2", "zero_first": False})
    assert path.read_text() == "2\n"


def test_a_sysctl_that_the_kernel_lacks_is_told(journal: Journal) -> None:
    with pytest.raises(HostError, match="no/such"):
        set_sysctl(journal, "net.no.such", "1")


def test_a_value_of_a_device_that_is_gone(tmp_path: Path) -> None:
    data = {"path": str(tmp_path / "gone"), "previous": "2", "zero_first": False}
    assert undo_value(data) == "gone with its device"


def test_irq_affinity_and_governor(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "irq/7").mkdir(parents=True)
    affinity = tmp_path / "irq/7/smp_affinity_list"
    affinity.write_text("0-3\n")
    set_irq_affinity(journal, 7, [2, 3], proc=tmp_path)
    assert affinity.read_text() == "2-3\n"
    cpu0 = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    cpu0.mkdir(parents=True)
    (cpu0 / "scaling_governor").write_text("powersave\n")
    set_governor(journal, [0], "performance", sys=tmp_path)
    assert read_governor(0, sys=tmp_path) == "performance"
    assert read_governor(1, sys=tmp_path) is None
    with pytest.raises(HostError, match="governor"):
        set_governor(journal, [1], "performance", sys=tmp_path)
    assert device_irqs("0000:00:00.0", sys=tmp_path) == ()
    journal.undo()
    assert affinity.read_text() == "0-3\n"
    assert read_governor(0, sys=tmp_path) == "powersave"


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
    change = set_sysctl(journal, "net.core.busy_read", "7")
    assert path.read_text().strip() == "7"
    change.undo()
    assert path.read_text() == before
    with pytest.raises(HostError, match="refused"):
        write_value(journal, path, "nonsense")
    assert path.read_text() == before
