"""The largest load worth asking for: what the generator, the medium and this DUT leave of it."""

from __future__ import annotations

from vnetperf.model.errors import ConfigError
from vnetperf.model.result import CalibrationPoint
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.tunnel import overhead
from vnetperf.model.units import LinkSpeed


class Ceilings:
    """The largest loads of a run.

    Args:
        testbed: Says what the medium carries.
    """

    def __init__(self, testbed: Testbed) -> None:
        self._media = testbed.media
        self._lowered: dict[tuple[str, int], float] = {}

    def of(
        self, scenario: Scenario, frame_size: int, point: CalibrationPoint | None
    ) -> tuple[float, str]:
        """Largest load worth asking for, frames/s per interface, and what sets it.

        Args:
            scenario: The scenario.
            frame_size: Octets including FCS.
            point: What the generator can do over the wire of what is deployed; None when that
                size was not calibrated.

        Returns:
            Load and reason.

        Raises:
            ConfigError: Nothing is known that limits it.
        """
        limits = []
        if point is not None:
            limits.append((point.max_clean_fps / 2, "the generator's calibrated clean maximum"))
        if not self._media.nominal:
            speed = LinkSpeed(self._media.bits_per_second)
            mix = scenario.traffic.mix
            size = frame_size if mix is None else mix.mean_size
            longest = size + max(overhead(stream.tunnel) for stream in scenario.streams)
            limits.append((speed.max_frame_rate(longest), "the medium's maximum frame rate"))
        lowered = self._lowered.get((scenario.id, frame_size))
        if lowered is not None:
            limits.append((lowered, "what the generator offered on its core"))
        if not limits:
            raise ConfigError(f"frame size {frame_size} has no calibration", where="calibration")
        return min(limits)

    def lower(self, scenario: Scenario, frame_size: int, load_fps: float) -> None:
        """Note that the generator cannot offer more than a load in a scenario.

        Args:
            scenario: The scenario.
            frame_size: Octets including FCS.
            load_fps: Frames/s per interface.
        """
        case = (scenario.id, frame_size)
        self._lowered[case] = min(load_fps, self._lowered.get(case, load_fps))
