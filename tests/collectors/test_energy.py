"""Energy over a trial: of every meter that a machine has, and why there is none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.host.test_machine_load import write
from vnetperf.collectors.energy import EnergyCollector
from vnetperf.host.wait import wait_for
from vnetperf.model.machine_load import (
    EnergyUse,
)


def meters(
    root: Path,
    *,
    package: int,
    dram: int,
    microwatts: int,
    device: str = "",
    interval: str = "1000",
) -> None:
    zone = "sys/class/powercap/intel-rapl:0"
    write(root, f"{zone}/name", "package-0\n")
    write(root, f"{zone}/energy_uj", f"{package}\n")
    write(root, f"{zone}/max_energy_range_uj", "1000000\n")
    write(root, "sys/class/powercap/intel-rapl:0:1/name", "dram\n")
    write(root, "sys/class/powercap/intel-rapl:0:1/energy_uj", f"{dram}\n")
    for number, name in ((0, "coretemp"), (1, "power_meter")):
        folder = f"sys/class/hwmon/hwmon{number}{device}"
        write(root, f"{folder}/name", f"{name}\n")
        write(root, f"{folder}/power1_average", f"{microwatts}\n")
        write(root, f"{folder}/power1_oem_info", "Chassis\n")
        write(root, f"{folder}/power1_average_interval", f"{interval}\n")


@pytest.mark.parametrize("device", ["", "/device"])
def test_energy_is_that_of_every_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    clock = iter([100.0, 102.0])
    monkeypatch.setattr("vnetperf.collectors.energy.time.monotonic", lambda: next(clock))
    meters(tmp_path, package=900_000, dram=5, microwatts=100_000_000, device=device)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    # What it told at the start was of the time before.
    meters(tmp_path, package=100_000, dram=5, microwatts=200_000_000, device=device)
    assert collector.stop() == (  # the memory's meter stands still
        EnergyUse(part="package-0", joules=0.2, source="RAPL", watched_s=2.0),
        EnergyUse(part="Chassis, hwmon1", joules=400.0, source="power meter", watched_s=2.0),
    )
    assert collector.reason == ""


def test_a_counter_may_go_round_more_than_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a trial of half an hour it does."""
    monkeypatch.setattr("vnetperf.collectors.energy._READ_EVERY_S", 0.01)
    meters(tmp_path, package=0, dram=0, microwatts=0)
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    collector = EnergyCollector((), tmp_path)
    collector.start()
    for microjoules in (600_000, 200_000, 800_000, 400_000):
        (tmp_path / "next").write_text(f"{microjoules}\n")
        (tmp_path / "next").replace(zone / "energy_uj")
        wait_for(lambda now=microjoules: collector._last[zone] == now, 30, "a look at it")
    (used, *_) = collector.stop()
    assert (used.part, used.joules) == ("package-0", pytest.approx(2.4))


@pytest.mark.parametrize(("interval", "says"), [("5000", "over 5 s"), ("", "over unknown")])
def test_a_mean_of_more_than_the_trial_is_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: str, says: str
) -> None:
    clock = iter([100.0, 102.0])
    monkeypatch.setattr("vnetperf.collectors.energy.time.monotonic", lambda: next(clock))
    meters(tmp_path, package=1, dram=5, microwatts=100_000_000, interval=interval)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    meters(tmp_path, package=1_000_000, dram=5, microwatts=200_000_000, interval=interval)
    assert [one.part for one in collector.stop()] == ["package-0"]
    assert collector.reason.startswith("not measured: Chassis, hwmon1: ")
    assert says in collector.reason


@pytest.mark.parametrize("microwatts", [4294967295, 4294967295000, 65535000000])
def test_power_that_stands_for_none_is_not_measured(tmp_path: Path, microwatts: int) -> None:
    meters(tmp_path, package=5, dram=5, microwatts=microwatts, interval="1")
    collector = EnergyCollector((), tmp_path)
    collector.start()
    meters(tmp_path, package=500_005, dram=5, microwatts=microwatts, interval="1")
    assert [one.part for one in collector.stop()] == ["package-0"]


#: As ipmitool prints it.
READING = """
    Instantaneous power reading:                    50 Watts
    Minimum during sampling period:                  6 Watts
    Maximum during sampling period:                304 Watts
    Average power reading over sample period:       49 Watts
    IPMI timestamp:                           Thu Feb 15 08:36:01 2024
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated
"""


@pytest.mark.parametrize(
    ("reading", "wall", "late", "found"),
    [
        (READING, 2.0, 0.05, 98.0),
        (READING, 2.0, 0.5, "its mean is over 1 s that ended 0.5 s after it, the trial was of 2 s"),
        (READING, 0.5, 0.0, "its mean is over 1 s or more, the trial was of 0.5 s"),
        (READING, 2.0, 1.5, "its mean is over 1 s that ended 1.5 s after it, the trial was of 2 s"),
        (READING.replace("00000001", "00000005"), 2.0, 0.0, "its mean is over 5 s"),
        (READING.replace("activated", "deactivated"), 2.0, 0.0, "tells no mean power: Instant"),
        (READING.replace("49", "65535"), 2.0, 0.0, "65535 W"),
        (READING.replace("49", "9" * 5000), 2.0, 0.0, "tells no mean power"),
        (READING.replace("49", "-1"), 2.0, 0.0, "tells no mean power"),
        ("\\xff\\xfe", 2.0, 0.0, "tells no mean power"),
        ("", 2.0, 0.0, "tells no mean power: it ended with 0"),
    ],
)
def test_a_management_controller_is_asked_where_the_kernel_has_no_meter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    reading: str,
    wall: float,
    late: float,
    found: float | str,
) -> None:
    clock = iter([100.0, 100.0 + wall, 100.0 + wall + late])
    monkeypatch.setattr("vnetperf.collectors.energy.time.monotonic", lambda: next(clock))
    program = tmp_path / "ipmitool"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = 'dcmi power reading' ] && echo '{reading}'\n")
    program.chmod(0o755)
    write(tmp_path, "dev/ipmi0", "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    collector = EnergyCollector((), tmp_path)
    collector.start()
    joules = [one.joules for one in collector.stop()]
    if isinstance(found, str):
        assert joules == []
        assert found in collector.reason
    else:
        assert (joules, collector.reason) == ([found], "")


def test_a_controller_that_fails_is_told_unless_the_processor_has_a_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ipmitool"
    program.write_text("#!/bin/sh\necho 'DCMI request failed: Invalid command' >&2; exit 1\n")
    program.chmod(0o755)
    write(tmp_path, "dev/ipmi0", "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for parts, why in (
        ([], "not measured: power by IPMI: ipmitool tells no mean power: DCMI request failed"),
        (["package-0"], ""),
    ):
        clock = iter([100.0, 102.0, 102.0])
        monkeypatch.setattr(
            "vnetperf.collectors.energy.time.monotonic", lambda now=clock: next(now)
        )
        collector = EnergyCollector((), tmp_path)
        collector.start()
        if parts:
            write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "9000000\n")
        assert [one.part for one in collector.stop()] == parts
        assert collector.reason.startswith(why)
        assert bool(collector.reason) == bool(why)
        write(tmp_path, "sys/class/powercap/intel-rapl:0/name", "package-0\n")
        write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "5\n")


def test_where_no_meter_is_the_reason_is_told(tmp_path: Path) -> None:
    collector = EnergyCollector((), tmp_path)
    collector.start()
    assert collector.stop() == ()
    assert "neither RAPL" in collector.reason
    write(tmp_path, "sys/class/powercap/intel-rapl:0/energy_uj", "5\n")
    collector = EnergyCollector((), tmp_path)
    collector.start()
    assert collector.stop() == ()
    assert "stand still" in collector.reason


@pytest.mark.parametrize("interval", ["0", "4294967295"])
def test_an_interval_that_stands_for_none_is_unknown(tmp_path: Path, interval: str) -> None:
    """A mean over no time is of the moment that it was asked in, and of no trial."""
    meters(tmp_path, package=5, dram=5, microwatts=200_000_000, interval=interval)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    meters(tmp_path, package=500_005, dram=5, microwatts=200_000_000, interval=interval)
    assert [one.part for one in collector.stop()] == ["package-0"]
    assert "its mean is over unknown" in collector.reason


@pytest.mark.parametrize(("before", "went_round"), [(500_000, False), (262_143_300_000, True)])
def test_a_meter_that_began_anew_did_not_go_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, *, went_round: bool
) -> None:
    """262 kJ in 20 s are not used: a sleep of the machine had it begin anew."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    zone, whole = "sys/class/powercap/intel-rapl:0", "262143328850\n"
    meters(tmp_path, package=before, dram=5, microwatts=0)
    write(tmp_path, f"{zone}/max_energy_range_uj", whole)
    collector = EnergyCollector((), tmp_path)
    collector.start()
    clock[0] += 20.0
    meters(tmp_path, package=100, dram=1000, microwatts=0)
    write(tmp_path, f"{zone}/max_energy_range_uj", whole)
    parts = [one.part for one in collector.stop()]
    assert ("package-0" in parts) is went_round
    assert ("package-0: its counter began anew" in collector.reason) is not went_round
