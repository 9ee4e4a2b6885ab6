"""The contract of a test of frames that is no search: its course, its outcome, its parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_type_hints

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError, LogError
from vnetperf.model.figures import Figure
from vnetperf.model.outcomes import Curve
from vnetperf.model.parameters import THROUGHPUT, ProcedureParameters
from vnetperf.model.preset import Preset
from vnetperf.model.result import Result
from vnetperf.model.trial import TrialRequest
from vnetperf.plugin import registry
from vnetperf.search import Procedure


class KnownThroughput(Frozen):
    """The throughput that a test takes its loads of."""

    # Largest load that met the goal, of several rounds the least, frames/s per interface
    load_fps: float
    # The largest bound that was found, of all rounds: the smallest load that was too much, or where
    # there is none the largest that was not; frames/s per interface; None: not recorded
    upper_fps: float | None = None
    search: int  # Number of the search that found it
    goal: str  # Its goal: the first one without loss, else the first one
    loss_ratio: float = 0.0  # Loss ratio of the goal, 0..1
    # "at least" when the largest load that was tried met the goal
    qualifier: Literal["", "at least"] = ""
    note: str = ""  # What a reader must know of it; ""
    # Seconds of the trials that try it before a test whose numbers need a load that is carried; 0
    # for none
    try_s: float = 0.0
    other_deployment: bool = False  # Whether it is that of another deployment than the test's own


P = TypeVar("P", bound=ProcedureParameters)


#: Rules by which tests ask for trials today. By those of 1 a recovery had no trial's beginning at
#: the relaxed load, and bursts counted by the gap of a calibration; by those of 2 processors were
#: looked at at shares of the throughput alone. Logs are read by their own.
RULES = 3


class ProcedureInputs(Frozen, Generic[P]):
    """Everything that a procedure is given; it stands in the log."""

    parameters: P  # The preset's
    frame_size: int  # Octets including FCS; of a mix its mean, rounded
    mean_size: float | None = None  # Mean of a mix, octets; None: all frames have `frame_size`
    directions: int = 2  # Interfaces that send
    # Ports of the DUT that the tester's ports 0 and 1 plug in at
    ends: tuple[str, str] = ("phy0", "phy1")
    # Load of each interface that sends, as a share of a trial's; empty for 1 each
    loads: tuple[float, ...] = ()
    min_load_fps: float = 1000.0  # Smallest load of the preset, frames/s per interface
    ceiling_fps: float  # Largest load that can be offered, frames/s per interface
    ceiling_reason: str = ""  # What sets it
    media_fps: float  # Largest rate of the reference medium, frames/s per interface
    # True when the wires have no speed of their own and that is for comparison only
    nominal: bool = True
    # What the generator's time stamps stand for (RFC 1242 section 3.8)
    definition: Literal["store-and-forward", "bit-forwarding"] = "store-and-forward"
    # Mean gap of the generator's bursts, as calibrated on this kind of wire, nanoseconds; None: not
    # recorded
    burst_gap_ns: float | None = None
    # Times that a trial which is no measurement because of the tester is run before a test that
    # repeats its trials itself gives them up; four in logs that do not say it
    tries: int = 4
    rules: int = 1  # `RULES` of the version that asked for the trials; 1 in logs without it
    timelines: bool = False  # Whether the generator counts frames over time within a trial
    sessions: int = 0  # Sessions of the traffic, where the DUT is a NAT; 0 where it is none
    # How long the NAT holds a session of which one frame came, seconds; None where time ends none
    session_timeout_s: float | None = None
    throughput: KnownThroughput | None = None  # The throughput; None for a test that needs none

    @property
    def in_sum(self) -> float:
        """All interfaces' load as a multiple of a trial's load."""
        return sum(self.loads) if self.loads else self.directions

    @property
    def required_throughput(self) -> KnownThroughput:
        """The throughput, for a test that needs it; `LogError` where the log has none."""
        if self.throughput is None:
            raise LogError("a test that needs the throughput was logged without one", where="log")
        return self.throughput

    def direction(self, number: int) -> str:
        """Name in results of the direction from a tester's port: "phy0->phy1" ..."""
        return direction_name(number, self.ends)


def direction_name(direction: int, ends: Sequence[str]) -> str:
    """Name in results of the direction from a tester's port: "phy0->phy1", "pod0->pod1" ..."""
    return f"{ends[direction]}->{ends[1 - direction]}"


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """The most that a test requests at one frame size."""

    trials: int
    traffic_s: float  # Seconds of traffic
    idle_s: float = 0.0  # Least wait after each trial, seconds

    def wall_s(self, preset: Preset) -> float:
        """Wall time with the waits of a preset's trials."""
        times = preset.trial
        waits = times.learning_wait_s + times.drain_s + max(times.settle_s, self.idle_s)
        return self.traffic_s + self.trials * waits


#: Times that a load taken of a throughput is tried before a test is measured at it.
THROUGHPUT_TRIES = 3


class FrameTest(ABC):
    """A test of frames that is no search; its entry point is `NAME = module:Class`.

    Its outcome is an `Outcome` (`vnetperf/model/figures.py`), which has all that reports,
    comparisons and thresholds read of it.

    Attributes:
        name: Its name, that of the entry point.
        section: Field of `Preset` with its parameters; "": the preset's `[tests.NAME]`.
        fills: Field of `Result` that holds its outcome.
        takes_shares: Whether its loads are shares of the throughput, which is searched first.
        needs_carried: Whether its numbers are those of a load that is carried: that is tried first.
        on_grid: Whether the largest load, which its loads are shares of, is a preferred number, so
            that runs on an unchanged machine have the same loads.
    """

    name: ClassVar[str]
    section: ClassVar[str] = ""
    fills: ClassVar[str] = "outcome"
    takes_shares: ClassVar[bool] = False
    needs_carried: ClassVar[bool] = False
    on_grid: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def run(inputs: Any) -> Procedure[Any]:
        """Yield trial requests, be sent what came of each, and return the outcome.

        It does nothing else, so that a log can be replayed.

        Args:
            inputs: Its inputs, whose type says which parameters it has:
                `ProcedureInputs[MyParameters]`.

        Returns:
            The outcome.

        Raises:
            NoResultError: There is none, and why.
        """

    @staticmethod
    def list_figures(result: Result, outcome: Any, /) -> Iterable[Figure]:
        """The numbers of an outcome, of a test that does not return an `Outcome`.

        Args:
            result: The result that the outcome is of.
            outcome: What `run` has returned.

        Returns:
            The figures, in the order of files.
        """
        figures: tuple[Figure, ...] = outcome.figures
        return figures

    @staticmethod
    def list_curves(outcome: Any, /) -> Iterable[tuple[str, Curve]]:
        """How traffic went on over the time of its trials, each with what it is of."""
        return ()

    @staticmethod
    def count_discarded(outcome: Any, unanswered: int, invalid: Collection[int], /) -> int:
        """Count its trials that were no measurement of the DUT.

        Not called for a test that returns an `Outcome`: of those all trials that are not VALID
        count.

        Args:
            outcome: What `run` has returned.
            unanswered: Trials that were repeated, since they answered no request.
            invalid: Numbers of the trials that are not VALID.

        Returns:
            The number; some tests take trials that are not VALID.
        """
        return unanswered

    @staticmethod
    def estimate(parameters: Any, rate_fps: float, least_fps: float) -> DurationEstimate | None:
        """The most that it requests at one frame size.

        Args:
            parameters: Its parameters.
            rate_fps: Largest load, frames/s per interface.
            least_fps: Smallest load of the preset, frames/s per interface.

        Returns:
            The most; None for as many trials as it takes.
        """
        return None

    @staticmethod
    def later(parameters: Any) -> tuple[TrialRequest, ...]:
        """Trials that it may request after its first, which the generator must be able to run."""
        return ()

    @classmethod
    def inputs_model(cls) -> type[ProcedureInputs[Any]]:
        """Model of its inputs: the signature of `run` states it."""
        model: type[ProcedureInputs[Any]] = get_type_hints(cls.run)["inputs"]
        return model

    @classmethod
    def parameters_model(cls) -> type[ProcedureParameters]:
        """Model of its parameters."""
        annotation: Any = cls.inputs_model().model_fields["parameters"].annotation
        model: type[ProcedureParameters] = annotation
        return model

    @classmethod
    def parameters(cls, preset: Preset) -> Any:
        """Its parameters in a preset."""
        if cls.section:
            return getattr(preset, cls.section)
        return cls.parameters_model().model_validate(preset.test_parameters.get(cls.name, {}))

    @classmethod
    def conditions(cls, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters that its numbers depend on, of the inputs as a log has them."""
        parameters = cls.inputs_model().model_validate(inputs).parameters
        return {name: getattr(parameters, name) for name in parameters.conditions}

    @classmethod
    def needs_throughput(cls, preset: Preset) -> bool:
        """Whether its inputs must have one: it is searched if need be."""
        return cls.takes_shares and not cls.parameters(preset).has_loads


def equal_trials(trials: int, seconds: float) -> DurationEstimate:
    """What trials of one duration take, seconds."""
    return DurationEstimate(trials, trials * seconds)


def load_test(name: str) -> type[FrameTest]:
    """Import a test.

    Args:
        name: Its name among `registry.test_names`.

    Returns:
        The class.

    Raises:
        ConfigError: There is none of the name, or it cannot be imported.
    """
    names = registry.test_names()[1:]
    if name not in names:
        raise ConfigError(
            f"there is no test {name!r}", where="test case", accepted=", ".join(names)
        )
    test: type[FrameTest] = registry.load("procedures", name)
    return test


def find_outcome(result: Result) -> tuple[type[FrameTest], Any] | None:
    """The test of a result and what it found; None of a search, or where nothing was found."""
    if result.test not in registry.names("procedures"):
        return None
    test = load_test(result.test)
    outcome = getattr(result, test.fills)
    return (test, outcome) if outcome else None


def duration_estimate(name: str, preset: Preset, rate_fps: float) -> DurationEstimate | None:
    """The most that a test requests at one frame size; None for as many trials as it takes."""
    if name == THROUGHPUT:
        return None
    test = load_test(name)
    estimate = test.estimate(test.parameters(preset), rate_fps, preset.min_load_fps)
    if estimate is None or not (test.needs_carried and test.needs_throughput(preset)):
        return estimate
    tries_s = THROUGHPUT_TRIES * max(goal.final_trial_s for goal in preset.goals)
    return replace(
        estimate, trials=estimate.trials + THROUGHPUT_TRIES, traffic_s=estimate.traffic_s + tries_s
    )
