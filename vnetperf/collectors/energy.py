"""Collector `energy`: by RAPL, a platform's power meter, or a management controller."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
import weakref
from pathlib import Path
from typing import ClassVar

from vnetperf.host.linux import parse_number, run_program
from vnetperf.host.proc import read_or_empty
from vnetperf.host.programs import find_trusted
from vnetperf.model.errors import HostError
from vnetperf.model.machine_load import EnergyUse
from vnetperf.model.scenario import Pollers
from vnetperf.plugin.collector import Collector

#: How often counters of energy are read: one of 32 bits at 15.3 uJ goes round in 65 s at 1 kW.
_READ_EVERY_S = 20.0
#: More than any socket takes, watts: a counter that fell and would have gone round at more than
#: that began anew, as after a sleep of the machine.
_MOST_WATTS = 3000.0


class EnergyCollector(Collector[EnergyUse]):
    """Energy of each part of the machine that a meter has, over one trial.

    RAPL counts by package, and often by cores and memory; a power meter of the platform (ACPI,
    mostly the management controller's) tells its mean power over an interval of its own: what it
    says at the end counts where all of that interval was within the trial. Where the kernel has
    none the controller itself is asked, by IPMI (DCMI): its interval ends when it answers, which
    is after the trial.
    """

    name: ClassVar[str] = "energy"
    stops_last: ClassVar[bool] = True

    def __init__(self, pollers: tuple[Pollers, ...], root: Path = Path("/")) -> None:
        super().__init__(pollers)
        self._root = root
        self._last: dict[Path, int] = {}
        self._microjoules: dict[Path, int] = {}
        self._anew: set[Path] = set()
        self._looked = 0.0
        self._over = threading.Event()
        self._watch: threading.Thread | None = None
        self._began = 0.0

    def start(self) -> None:
        """Take the first sample."""
        self._last = self._counted()
        self._microjoules = dict.fromkeys(self._last, 0)
        self._anew = set()
        self._began = self._looked = time.monotonic()
        if self._last:
            # Of a trial that failed nobody stops it: it ends when the collector is gone.
            arguments = (weakref.ref(self), self._over)
            self._watch = threading.Thread(target=self._keep_up, args=arguments, daemon=True)
            self._watch.start()
        if not self._last and not self._metered() and not self._controller():
            self.reason = "not measured: " + self._explain_absence()

    def stop(self) -> tuple[EnergyUse, ...]:
        """Take the second sample."""
        wall = time.monotonic() - self._began
        self._over.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None
            self._add(self._began + wall)
        uses, too_slow, over = [], [], {"watched_s": round(wall, 6)}
        for zone in self._last:
            joules = self._microjoules[zone] / 1e6
            if zone in self._anew:
                too_slow.append(f"{_zone_name(zone)}: its counter began anew")
                continue
            uses.append(EnergyUse(part=_zone_name(zone), joules=joules, source="RAPL", **over))
        meters, late_s, of_trial = self._metered(), 0.0, f"the trial was of {wall:.3g} s"
        program = "" if meters else self._controller()
        if program and wall < _SHORTEST_S:
            too_slow.append(f"{_IPMI}: its mean is over {_SHORTEST_S:g} s or more, {of_trial}")
        elif program:
            try:
                meters = {_IPMI: _read_controller_power(program)}
            except HostError as error:
                too_slow.append(f"{_IPMI}: {error}")
            late_s = time.monotonic() - self._began - wall
        for part, (watts, interval_s) in meters.items():
            late = late_s > _LATE_SHARE * (interval_s or 0.0)  # idle, what was after the trial
            if interval_s is None or late or interval_s + late_s > wall:
                mean = "unknown" if interval_s is None else f"{interval_s:g} s"
                after = f" that ended {late_s:.2g} s after it" if late_s else ""
                too_slow.append(f"{part}: its mean is over {mean}{after}, {of_trial}")
                continue
            uses.append(EnergyUse(part=part, joules=wall * watts, source="power meter", **over))
        moved = [use for use in uses if use.joules > 0]
        if uses and not moved:
            self.reason = "not measured: its meters stand still, as those of a virtual machine do"
        elif too_slow and not (program and moved):  # beside RAPL nobody misses a controller
            self.reason = f"not measured: {'; '.join(too_slow)}"
        return tuple(moved)

    @staticmethod
    def _keep_up(collector_ref: weakref.ref[EnergyCollector], over: threading.Event) -> None:
        while not over.wait(_READ_EVERY_S) and (collector := collector_ref()) is not None:
            collector._add(time.monotonic())
            del collector

    def _add(self, time_s: float) -> None:
        """Add what was used since the last look; a counter begins anew at its range."""
        now = self._counted()
        self._last = {zone: before for zone, before in self._last.items() if zone in now}
        for zone, before in self._last.items():
            used = (now[zone] - before) % (self._number(zone / _RANGE) or 2**32)
            if now[zone] < before and used > _MOST_WATTS * 1e6 * (time_s - self._looked):
                self._anew.add(zone)
            self._microjoules[zone] += used
            self._last[zone] = now[zone]
        self._looked = time_s

    def _counted(self) -> dict[Path, int]:
        zones = sorted((self._root / _POWERCAP).glob("intel-rapl:*"))
        readings = {zone: self._number(zone / "energy_uj") for zone in zones}
        return {zone: number for zone, number in readings.items() if number is not None}

    def _metered(self) -> dict[str, tuple[float, float | None]]:
        """Power meters by what they are of: their mean power, and the seconds that it is over."""
        meters: dict[str, tuple[float, float | None]] = {}
        folders = (self._root / _HWMON).glob("hwmon*")
        # The driver's files are those of the ACPI device on most kernels.
        for folder in sorted(
            place
            for device_folder in folders
            for place in (device_folder, device_folder / "device")
        ):
            microwatts = self._number(folder / "power1_average")
            if read_or_empty(folder / "name").strip() != "power_meter":
                continue
            if microwatts is None or microwatts in _NO_MICROWATTS:
                continue
            interval_ms = self._number(folder / "power1_average_interval")
            interval_ms = None if interval_ms in _NO_INTERVAL_MS else interval_ms
            hwmon = folder.parent if folder.name == "device" else folder
            owner = read_or_empty(folder / "power1_oem_info").strip() or "power meter"
            part = f"{owner}, {hwmon.name}"
            meters.setdefault(
                part, (microwatts / 1e6, None if interval_ms is None else interval_ms / 1000)
            )
        return meters

    def _controller(self) -> str:
        """The program that asks a management controller which is no power meter of the kernel's."""
        has_device = (self._root / _IPMI_DEVICE).exists()
        return find_trusted("ipmitool", os.environ.get("PATH", ""))[0] if has_device else ""

    def _number(self, path: Path) -> int | None:
        number = parse_number(read_or_empty(path))
        return number if number is not None and number >= 0 else None

    def _explain_absence(self) -> str:
        if any((self._root / _POWERCAP).glob("intel-rapl:*")):
            return "the kernel does not let this process read RAPL: root is needed"
        if (self._root / _IPMI_DEVICE).exists():
            return "no RAPL, and the management controller is asked by ipmitool; install it"
        return "neither RAPL (CONFIG_POWERCAP, intel_rapl) nor a platform's power meter here"


#: A management controller's mean power, in whole seconds and watts.
_IPMI, _SHORTEST_S = "power by IPMI", 1.0
#: How much of the interval of such a mean may be after the trial.
_LATE_SHARE = 0.1
_IPMI_DEVICE = "dev/ipmi0"
_ASKED_S = 5.0
#: What stands for "not known": all ones of DCMI's 16 bits, and of ACPI's 32 in mW and in uW. No
#: machine has 65 kW.
_NO_WATTS = 0xFFFF
_NO_MICROWATTS = (0xFFFFFFFF, 0xFFFFFFFF * 1000, _NO_WATTS * 1_000_000)
#: An interval that ACPI's driver does not know.
_NO_INTERVAL_MS = (0, 0xFFFFFFFF)
_SAYS = (
    r"Average power reading over sample period\s*:\s*([0-9]{1,9})\s+Watts",
    r"Sampling period\s*:\s*([0-9]{1,9})\s+Seconds",
    r"Power reading state is\s*:\s*(activated)",
)


def _read_controller_power(program: str) -> tuple[float, float]:
    """Mean power that a management controller tells, and the seconds that it is over."""
    argv = [program, "dcmi", "power", "reading"]
    try:
        done = run_program(argv, _ASKED_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"ipmitool: {error}") from error
    watts, seconds, active = (re.search(pattern, done.stdout) for pattern in _SAYS)
    if watts and seconds and active:
        mean, interval_s = float(watts[1]), float(seconds[1])
        if mean >= _NO_WATTS:
            raise HostError(f"ipmitool tells {mean:g} W, which is the controller's word for none")
        if interval_s:
            return mean, interval_s
    said = (
        " ".join((done.stderr or done.stdout).split())[:200] or f"it ended with {done.returncode}"
    )
    raise HostError(f"ipmitool tells no mean power: {said}")


_POWERCAP, _HWMON, _RANGE = "sys/class/powercap", "sys/class/hwmon", "max_energy_range_uj"


def _zone_name(zone: Path) -> str:
    """What a zone of RAPL is of: "package-0", "dram of package-0"."""
    name = read_or_empty(zone / "name").strip() or zone.name
    if zone.name.count(":") < 2:
        return name
    parent = zone.with_name(zone.name.rpartition(":")[0])
    return f"{name} of {read_or_empty(parent / 'name').strip() or parent.name}"
