"""Calibrations kept between runs: the same generator on the same cores and wire is the same."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from vnetperf.host.paths import cache_directory
from vnetperf.model.calibration import Calibration
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts
from vnetperf.planning.backends import Backends

#: A stored calibration that is older is measured anew.
MAX_AGE = timedelta(hours=12)
#: One that is younger than nothing was stored before a clock was set back; the agent's clock, which
#: it has its time from, may be this much before the controller's.
CLOCKS_DIFFER = timedelta(minutes=5)
#: Counted up when a calibration is made in another way, so that older ones are not used.
_METHOD = 7


class CalibrationCache:
    """A folder of calibrations."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or cache_directory() / "calibration"

    def key(self, plan: Plan, facts: MachineFacts, *, brief: bool = False) -> str:
        """What a calibration depends on: of several hosts, on the one that the plan is for."""
        from vnetperf import __version__  # noqa: PLC0415 - the package is still being imported

        facts = facts.of_host(plan.host)
        cpu = facts.record.get("cpu", "")
        kernel = facts.record.get("kernel", "")
        text = repr(
            (
                __version__,
                _METHOD,
                brief,
                plan.testbed.name,
                plan.testbed.agent.transport,
                plan.scenario.generator,
                # With defaults: one that is written out changes nothing.
                Backends(plan.scenario).generator.read_section(plan.testbed),
                plan.wire,
                plan.nics,
                plan.placement.cores.get("tester"),
                plan.placement.turn_of("tester"),
                plan.placement.fifo_share("tester"),
                plan.testbed.cores,
                plan.testbed.nic_timestamps,  # drivers may then receive by a slower path
                plan.testbed.hugepage_kb,
                plan.scenario.mtu,  # larger buffers are slower ones
                plan.scenario.options.rx_queues,
                plan.scenario.options.rx_descriptors,
                plan.scenario.options.tx_descriptors,
                facts.versions,
                cpu,
                kernel,
            )
        )
        return sha256(text.encode()).hexdigest()[:16]

    def load(self, key: str) -> Calibration | None:
        """A stored calibration."""
        try:
            text = (self.directory / f"{key}.json").read_text()
            calibration = Calibration.model_validate_json(text)
            age = datetime.now(UTC) - datetime.fromisoformat(calibration.when)
        except (OSError, ValueError, TypeError):  # a ValidationError is a ValueError
            return None
        return calibration if -CLOCKS_DIFFER < age < MAX_AGE else None

    def add(self, key: str, calibration: Calibration) -> Calibration:
        """Store a calibration; frame sizes held already are kept unless measured anew.

        An uncertain one is not stored, so that the next run measures it anew.

        Returns:
            What is stored now, and the uncertain.
        """
        stored = self.load(key)
        joined = calibration if stored is None else stored.joined(calibration)
        certain = tuple(point for point in joined.points if not point.is_uncertain)
        if certain:
            self._write(key, joined.model_copy(update={"points": certain}))
        return joined

    def drop(self, key: str) -> None:
        """Forget a calibration, so that it is measured anew."""
        with contextlib.suppress(OSError):
            (self.directory / f"{key}.json").unlink(missing_ok=True)

    def _write(self, key: str, calibration: Calibration) -> None:
        temporary = self.directory / f".{key}.{os.getpid()}"
        # A cache that cannot be written costs the next run some seconds, and nothing else.
        with contextlib.suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(calibration.model_dump_json(indent=1))
            temporary.replace(self.directory / f"{key}.json")
