"""The contract of a workload: what programs do in a deployment, in place of the tester's frames.

A workload is a class below `Workload`, and an entry point under `vnetperf.workloads`. Its kinds
begin with its name: those of `mpi` are MPI_LATENCY, MPI_BARRIER ... The class plans and describes,
and touches no machine, so that plans and reports are made anywhere. What it names in `runner` runs
the programs, in the process that deploys.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple

from vnetperf.model.errors import ConfigError
from vnetperf.model.figures import Figure
from vnetperf.model.scenario import ENDPOINTS_VARIANT, PROGRAM_VARIANTS, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import Figures, Transfer, TransferSpec
from vnetperf.model.units import (
    EVENTS,
    GIGABITS,
    GIGAFLOPS,
    MEBIBYTES,
    MEGABITS,
    TIMES,
    Scale,
    Unit,
)
from vnetperf.plugin import registry
from vnetperf.plugin.requirements import Requirements
from vnetperf.statistics.difference import FEW, Measurand, difference

log = logging.getLogger(__name__)
Better = Literal["more", "less"]
#: What kinds begin with that are no workload's: transfers between sockets.
_SOCKETS = ("tcp", "udp")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequest:
    """What a test case asks of a workload.

    Attributes:
        kind: What is to be done: "MPI_LATENCY".
        message_size: Octets of a message; None for what has none.
        instances: Parallel programs, or threads, in each place.
        duration_s: How long, seconds: as long as the preset's longest trial.
        warmup_s: How long before that, with nothing measured, seconds.
        vnf_mode: Mode of VNFs by the user; `AUTO` for the workload's choice.
        tool: Name of the tool, by the setting that the workload names; `AUTO` for its own choice.
        scenario: Where, as the case names it.
        facts: The machine.
    """

    kind: str
    message_size: int | None
    instances: int
    duration_s: int
    warmup_s: int
    vnf_mode: str
    tool: str
    scenario: Scenario
    facts: MachineFacts

    def make_spec(self, **fields: Any) -> TransferSpec:
        """A spec of the kind and its time.

        Args:
            **fields: Other fields of `TransferSpec`.

        Returns:
            The spec.

        Raises:
            ValueError: They are out of range, or no spec has such a field.
        """
        spec = {"kind": self.kind, "duration_s": self.duration_s, **fields}
        return TransferSpec.model_validate(spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTransfer:
    """A transfer in all rounds, and what it is compared with.

    Attributes:
        rounds: The transfer in each round.
        baseline: Figures of the baseline in each round; empty where there is none.
        scenario: The scenario, as readers know it.
        vnfs: What its VNFs are: "VM", "container"; "" for none.
    """

    rounds: tuple[Transfer, ...]
    baseline: tuple[Figures, ...] = ()
    scenario: str = ""
    vnfs: str = ""

    @property
    def transfer(self) -> Transfer:
        """The last round."""
        return self.rounds[-1]

    @property
    def values(self) -> list[float]:
        """What each round is compared by, of those that have it."""
        return _compared_values(self.rounds)

    @property
    def baseline_values(self) -> list[float]:
        """The same of the baseline."""
        return _compared_values(self.baseline)

    @property
    def value(self) -> float | None:
        """The mean of all rounds."""
        return fmean(self.values) if self.values else None

    @property
    def ratio(self) -> tuple[float, float | None, float | None] | None:
        """Value over the baseline's, with its 95 % interval where more than two rounds show one."""
        values, base = self.values, self.baseline_values
        if not values or not base:
            return None
        sides = [[Measurand.exact(value) for value in side] for side in (base, values)]
        # Not in pairs: a round that failed is in neither list, and which one it was is not known.
        gain = difference(sides[0], sides[1], paired=False).ratio
        if gain is None:
            return fmean(values) / fmean(base), None, None
        value, low, high = gain
        if min(len(values), len(base)) <= FEW:  # alike, or far apart, by chance
            return 1 + value, None, None
        return 1 + value, 1 + low, 1 + high

    @property
    def scale(self) -> Scale:
        """The scale of what it is compared by."""
        if workload := find_workload_report(self.transfer.spec.kind):
            return workload.scale(self.transfer)
        return TIMES if self.transfer.round_trip_us.get("50") else MEGABITS

    @property
    def text(self) -> str | None:
        """The mean of all rounds with its unit; None where no round has it."""
        return self._scaled(self.values)

    @property
    def baseline_text(self) -> str | None:
        """The same of the baseline."""
        return self._scaled(self.baseline_values)

    def _scaled(self, values: Sequence[float]) -> str | None:
        scale = self.scale
        return scale.text(fmean(values) * scale.factor) if values else None


def _compared_values(rounds: Sequence[Figures]) -> list[float]:
    numbers = (
        figures.flops
        or figures.events_per_second
        or figures.octets_per_second
        or figures.round_trip_us.get("50")
        or figures.operation_us.get("mean")
        or figures.bits_per_second
        for figures in rounds
    )
    return [value for value in numbers if value]


class WorkloadColumn(NamedTuple):
    """A column of a workload's table.

    Attributes:
        name: Its title.
        text: What it shows of a transfer; None for nothing.
        words: Whether it holds words and not numbers.
    """

    name: str
    text: Callable[[MeasuredTransfer], str | None]
    words: bool = False


class WorkloadAxis(NamedTuple):
    """What a curve of a workload may be over.

    Attributes:
        field: Setting that a comparison varies.
        name: Name of the axis.
        words: What a caption says of a curve that has one value of it: "{} pods".
        read: The value of a transfer.
    """

    field: str
    name: str
    words: str
    read: Callable[[MeasuredTransfer], int]


class WorkloadReport(ABC):
    """What reports say of a workload.

    Attributes:
        name: What it is called by, and what its kinds begin with: "mpi".
        title: Title of its table.
        subject: What a sentence calls it: "speed of guests"; "" for the title.
        anchor: Anchor of its part of the page; "" for the name.
        baseline: What its numbers are held against: those of pods with their hosts' "network", or
            those of the same programs on the "host" (`Transfer.on_host`).
        settings: Columns with what was asked, which stand before the numbers.
        value_title: Title of the column with what is compared.
        details: Columns with other numbers, which stand behind it.
        notes: Sentences below the table.
        axes: What curves are over.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    subject = ""
    anchor = ""
    baseline: Literal["network", "host"] = "network"
    settings: tuple[WorkloadColumn, ...] = ()
    value_title = "rate, or time"
    details: tuple[WorkloadColumn, ...] = ()
    notes: tuple[str, ...] = ()
    axes: tuple[WorkloadAxis, ...] = ()

    @abstractmethod
    def main_figure(self, kind: str) -> tuple[str, Unit, Better]:
        """Label and unit of the number that a kind is for, and whether more of it is better.

        Args:
            kind: "MPI_LATENCY".

        Returns:
            ("MPI_LATENCY time", "ns", "less").
        """

    def figures(self, transfer: Transfer) -> Iterator[Figure]:
        """The numbers of a transfer that runs are compared by.

        Args:
            transfer: What was measured.

        Yields:
            Figures, the main one first: what was measured in its unit.
        """
        label, unit, better = self.main_figure(transfer.spec.kind)
        value = _by_unit(transfer).get(unit)
        yield Figure(label=label, unit=unit, better=better, value=value, main=True)

    def conditions(self, spec: TransferSpec) -> dict[str, Any]:
        """What must be equal for figures to be compared, besides their time and instances.

        Args:
            spec: What was run.

        Returns:
            Names and values; "tool" is the first word of its version where it is not among them.
        """
        return {}

    def scale(self, figures: Figures) -> Scale:
        """The scale of what is compared, in tables and plots, by what was measured.

        Args:
            figures: What was measured.

        Returns:
            The scale.
        """
        if figures.flops:
            return GIGAFLOPS
        if figures.events_per_second:
            return EVENTS
        if figures.octets_per_second:
            return MEBIBYTES
        return TIMES if figures.operation_us or figures.round_trip_us else GIGABITS

    def remarks(self, rows: Sequence[MeasuredTransfer]) -> Iterator[str]:
        """What limits the meaning of numbers, for a note below the table and for a terminal.

        Args:
            rows: Its transfers.

        Yields:
            Sentences.
        """
        yield from ()

    def describe_means(self, rows: Sequence[MeasuredTransfer]) -> Iterator[str]:
        """What measured and how, for notes below the table.

        Args:
            rows: Its transfers.

        Yields:
            "Measured by hpcc 1.5.0."
        """
        versions = dict.fromkeys(row.transfer.version for row in rows)
        yield f"Measured by {'; '.join(versions)}."

    def missing_numbers(self, rows: Sequence[MeasuredTransfer]) -> list[str]:
        """What was not measured and why, for a terminal.

        Args:
            rows: Its transfers.

        Returns:
            "TLB misses: no counter".
        """
        return []

    def summarize(self, row: MeasuredTransfer) -> str:
        """What was asked, for a line in a terminal.

        Args:
            row: The transfer.

        Returns:
            "MPI_PUT, 64 octets, 2 x 1 ranks".
        """
        return row.transfer.spec.kind

    def add_words(self, row: MeasuredTransfer) -> str:
        """What stands at the end of that line.

        Args:
            row: The transfer.

        Returns:
            ", 2 % stolen".
        """
        return ""

    def picture_words(self, scenario: Mapping[str, Any]) -> str:
        """What stands in the tester's place in the picture of a deployment.

        Args:
            scenario: Fields of the scenario.

        Returns:
            "ranks of MPI in pods: 2 x 2".
        """
        return f"programs: {self.title}"


class AbsentWorkload(WorkloadReport):
    """A workload of a log that is not installed here; what it measured is reported all the same.

    Args:
        name: What its kinds begin with.
    """

    baseline = "host"
    settings = (
        WorkloadColumn("kind", lambda row: row.transfer.spec.kind, words=True),
        WorkloadColumn("octets", lambda row: str(row.transfer.spec.message_size or "") or None),
    )

    def __init__(self, name: str) -> None:
        # Others have these in their class.
        self.name = name  # type: ignore[misc]  # of one object
        self.title = f"{name.upper()} (a plugin that is not installed here)"  # type: ignore[misc]

    def main_figure(self, kind: str) -> tuple[str, Unit, Better]:
        """A rate, as far as the kind tells."""
        return kind, "1/s", "more"

    def figures(self, transfer: Transfer) -> Iterator[Figure]:
        """The first that was measured."""
        kind, measured = transfer.spec.kind, _by_unit(transfer)
        known: list[Unit] = [unit for unit, value in measured.items() if value is not None]
        unit: Unit = known[0] if known else "1/s"
        better: Better = "less" if unit == "ns" else "more"
        value = measured[unit]
        yield Figure(label=kind, unit=unit, better=better, value=value, main=True)


def _by_unit(figures: Figures) -> dict[Unit, float | None]:
    """What programs may be compared by, each in its unit."""
    mean_us = figures.operation_us.get("mean")
    return {
        "1/s": figures.flops or figures.events_per_second or figures.transactions_per_second,
        "octet/s": figures.octets_per_second,
        "ns": None if mean_us is None else mean_us * 1e3,
        "bit/s": figures.bits_per_second,
    }


class Workload(WorkloadReport, Requirements):
    """What programs do in a deployment.

    Attributes:
        variant: What the name of a scenario ends with that is deployed for it, one of
            `PROGRAM_VARIANTS`; most share that of endpoints.
        tool_setting: Setting that names its tool: "endpoint_tool".
        runner: Import path of the function that runs it: "module:function". It is called with a
            `vnetperf.plugin.site.WorkloadSite` and specs, and returns a `Transfer` for each.
        ends: Where its programs are, for `--plan`: "the ranks are in the pods".
        grace_s: How much longer than `longest_s` the call may take, seconds.
    """

    variant: str = ENDPOINTS_VARIANT
    tool_setting = "endpoint_tool"
    runner: str
    ends: str
    grace_s = 0.0

    @abstractmethod
    def adapt(self, scenario: Scenario, vnf_mode: str) -> Scenario:
        """The scenario as it is deployed for the programs.

        Args:
            scenario: The scenario.
            vnf_mode: Mode of VNFs by the user; `AUTO` for the workload's choice.

        Returns:
            The same with what the programs need.
        """

    @abstractmethod
    def refusals(self, request: WorkloadRequest) -> Iterator[str]:
        """What keeps it from running, before anything is deployed.

        What follows a reason may rely on that reason not being there: the first ends the look.

        Args:
            request: What is asked.

        Yields:
            A reason and the cure in one sentence, or "".
        """

    @abstractmethod
    def specify(self, request: WorkloadRequest) -> TransferSpec:
        """What is run, with the tool that can do it.

        Args:
            request: What is asked.

        Returns:
            The spec.

        Raises:
            CapabilityError: No tool can.
        """

    @abstractmethod
    def describe(self, spec: TransferSpec) -> str:
        """What is run, for `--plan`.

        Args:
            spec: What is run.

        Returns:
            "MPI_BARRIER by loops, 2 pods with 2 rank(s) each".
        """

    def longest_s(self, spec: TransferSpec) -> float:
        """The longest that it may take.

        Args:
            spec: What is run.

        Returns:
            Seconds.
        """
        return spec.length_s


def list_workload_reports(kinds: Iterable[str]) -> tuple[WorkloadReport, ...]:
    """The workloads of a run, installed or not.

    Args:
        kinds: What was done in the run.

    Returns:
        The workloads in the order of their titles.
    """
    reports = {kind_name(kind): find_workload_report(kind) for kind in kinds}
    return tuple(sorted(filter(None, reports.values()), key=lambda workload: workload.title))


def find_workload_report(kind: str) -> WorkloadReport | None:
    """What reports say of the workload of a kind.

    Args:
        kind: "MPI_LATENCY".

    Returns:
        The workload; one of few words where it is not installed or cannot be loaded; None of what
        sockets do.
    """
    if not (name := kind_name(kind)):
        return None
    try:
        return find_workload(kind) or AbsentWorkload(name)
    except ConfigError as error:  # a log is reported whatever has become of the plugin
        log.warning("workload %s: %s", name, error)
        return AbsentWorkload(name)


def find_workload(kind: str) -> Workload | None:
    """The workload of a kind.

    Args:
        kind: "MPI_LATENCY".

    Returns:
        The workload; None where none of its name is registered, as of what sockets do.

    Raises:
        ConfigError: It cannot be loaded.
    """
    name = kind_name(kind)
    return load_workload(name) if name in registry.names("workloads") else None


def kind_name(kind: str) -> str:
    """Name of the workload of a kind.

    Args:
        kind: "MPI_LATENCY".

    Returns:
        "mpi"; "" of what sockets do.
    """
    name = kind.partition("_")[0].lower()
    if name in _SOCKETS:
        return ""
    names = (name for name in registry.names("workloads") if kind.startswith(f"{name.upper()}_"))
    return max(names, key=len, default=name)


def require_workload(kind: str) -> Workload:
    """The workload of a kind.

    Args:
        kind: "MPI_LATENCY".

    Returns:
        The workload.

    Raises:
        ConfigError: None is registered for it, or it cannot be loaded.
    """
    return load_workload(kind_name(kind))


def load_workload(name: str) -> Workload:
    """A workload by its name.

    Args:
        name: "mpi".

    Returns:
        The workload.

    Raises:
        ConfigError: There is none of that name, or it cannot be loaded.
    """
    workload: Workload = registry.load("workloads", name)()
    if workload.variant not in PROGRAM_VARIANTS:
        raise ConfigError(
            f"variant = {workload.variant!r} is no variant of scenarios",
            where=f"workload {name}",
            accepted=", ".join(PROGRAM_VARIANTS),
        )
    return workload


def load_runner(workload: Workload) -> Any:
    """Import the function that runs a workload.

    Args:
        workload: The workload.

    Returns:
        The function: see `Workload.runner`.

    Raises:
        ConfigError: It cannot be imported.
    """
    return registry.load_target(workload.runner, workload.name, "vnetperf.workloads")
