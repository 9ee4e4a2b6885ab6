"""The contract of a workload: what programs do in a deployment, in place of the tester's frames.

A workload is a class below `Workload`, and an entry point under `vnetperf.workloads`. Its kinds
begin with its name: those of `mpi` are MPI_LATENCY, MPI_BARRIER ... The class plans and describes,
and touches no machine, so that plans and reports are made anywhere. What it names in `runner` runs
the programs, in the process that deploys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from vnetperf.model.scenario import ENDPOINTS_VARIANT, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import Figures, Transfer, TransferSpec
from vnetperf.model.units import Scale, Unit
from vnetperf.plugin import registry

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequest:
    """What a test case asks of a workload.

    Attributes:
        kind: What is to be done: "MPI_LATENCY".
        message_size: Octets of a message; None for what has none.
        duration_s: How long, seconds: as long as the preset's longest trial.
        tool: Name of the tool, by the setting that the workload names; `AUTO` for its own choice.
        scenario: Where, as the case names it.
        facts: The machine.
    """

    kind: str
    message_size: int | None
    duration_s: int
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
class Figure:
    """A number of a transfer, as comparisons, CSV and all other reports have it.

    Attributes:
        label: Its name, which no other figure of the transfer has: "MPI_PUT".
        unit: What it is in.
        better: Whether more or less of it is better.
        value: The number; None where the tool does not report it.
        main: Whether it is what the transfer is for.
        qualifiers: What limits its meaning: "at most".
    """

    label: str
    unit: Unit
    better: Better
    value: float | None
    main: bool = False
    qualifiers: tuple[str, ...] = ()


class MeasuredTransfer(Protocol):
    """A transfer in all rounds, as a table has it."""

    @property
    @abstractmethod
    def rounds(self) -> tuple[Transfer, ...]:
        """The transfer in each round."""

    @property
    @abstractmethod
    def transfer(self) -> Transfer:
        """The last round."""

    @property
    @abstractmethod
    def text(self) -> str | None:
        """The mean of all rounds with its unit; None where no round has it."""


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
        field: Of `TransferSpec`.
        name: Name of the axis.
        words: What a caption says of a curve that has one value of it: "{} pods".
    """

    field: str
    name: str
    words: str


class Workload(ABC):
    """What programs do in a deployment.

    Attributes:
        name: What it is called by, and what its kinds begin with: "mpi".
        variant: What the name of a scenario ends with that is deployed for it.
        tool_setting: Setting that names its tool: "endpoint_tool".
        runner: Import path of the function that runs it: "module:function". It is called with a
            `vnetperf.plugin.site.WorkloadSite` and specs, and returns a `Transfer` for each.
        ends: Where its programs are, for `--plan`: "the ranks are in the pods".
        title: What reports call it, and the title of its table: "MPI".
        settings: Columns with what was asked, which stand before the numbers.
        value_title: Title of the column with what is compared.
        details: Columns with other numbers, which stand behind it.
        notes: Sentences below the table.
        axes: What curves are over.
    """

    name: ClassVar[str]
    variant: ClassVar[str] = ENDPOINTS_VARIANT
    tool_setting: ClassVar[str] = "endpoint_tool"
    runner: ClassVar[str]
    ends: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[tuple[WorkloadColumn, ...]] = ()
    value_title: ClassVar[str] = "rate, or time"
    details: ClassVar[tuple[WorkloadColumn, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[tuple[WorkloadAxis, ...]] = ()

    @abstractmethod
    def adapt(self, scenario: Scenario) -> Scenario:
        """The scenario as it is deployed for the programs.

        Args:
            scenario: The scenario, with `variant` in its name.

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

    @abstractmethod
    def main_figure(self, kind: str) -> tuple[str, Unit, Better]:
        """Label and unit of the number that a kind is for, and whether more of it is better.

        Args:
            kind: "MPI_LATENCY".

        Returns:
            ("MPI_LATENCY time", "ns", "less").
        """

    @abstractmethod
    def figures(self, transfer: Transfer) -> Iterator[Figure]:
        """The numbers of a transfer that runs are compared by.

        Args:
            transfer: What was measured.

        Yields:
            Figures, the main one first.
        """

    def conditions(self, spec: TransferSpec) -> dict[str, Any]:
        """What must be equal for figures to be compared, besides their time and instances.

        Args:
            spec: What was run.

        Returns:
            Names and values.
        """
        return {"tool": spec.tool}

    @abstractmethod
    def scale(self, figures: Figures) -> Scale:
        """The scale of what is compared, in tables and plots.

        Args:
            figures: What was measured.

        Returns:
            The scale.
        """

    def measured_by(self, rows: Iterable[MeasuredTransfer]) -> str:
        """What measured, for a note below the table.

        Args:
            rows: Its transfers.

        Returns:
            "Measured by hpcc 1.5.0."
        """
        versions = dict.fromkeys(row.transfer.version for row in rows)
        return f"Measured by {'; '.join(versions)}."

    def summarize(self, row: MeasuredTransfer) -> str:
        """What was asked, for a line in a terminal.

        Args:
            row: The transfer.

        Returns:
            "MPI_PUT, 64 octets, 2 x 1 ranks".
        """
        return row.transfer.spec.kind

    def picture_words(self, scenario: Mapping[str, Any]) -> str:
        """What stands in the tester's place in the picture of a deployment.

        Args:
            scenario: Fields of the scenario.

        Returns:
            "ranks of MPI in pods: 2 x 2".
        """
        return f"programs: {self.title}"


def all_workloads() -> tuple[Workload, ...]:
    """All workloads, in the order of their titles.

    Returns:
        The workloads.

    Raises:
        ConfigError: One cannot be loaded.
    """
    workloads = map(load_workload, registry.names("workloads"))
    return tuple(sorted(workloads, key=lambda workload: workload.title))


def find_workload(kind: str) -> Workload | None:
    """The workload of a kind.

    Args:
        kind: "MPI_LATENCY".

    Returns:
        The workload; None where none of its name is registered.

    Raises:
        ConfigError: It cannot be loaded.
    """
    name = kind.partition("_")[0].lower()
    return load_workload(name) if name in registry.names("workloads") else None


def require_workload(kind: str) -> Workload:
    """The workload of a kind.

    Args:
        kind: "MPI_LATENCY".

    Returns:
        The workload.

    Raises:
        ConfigError: None is registered for it, or it cannot be loaded.
    """
    return load_workload(kind.partition("_")[0].lower())


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
