"""The contract of a workload: what programs do in a deployment, in place of the tester's frames.

A workload is a class below `Workload`, and an entry point under `vnetperf.workloads`. Its kinds
begin with its name: those of `mpi` are MPI_LATENCY, MPI_BARRIER ... The class plans and describes,
and touches no machine, so that plans and reports are made anywhere. What it names in `runner` runs
the programs, in the process that deploys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from vnetperf.model.scenario import ENDPOINTS_VARIANT, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import TransferSpec
from vnetperf.plugin import registry


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


class Workload(ABC):
    """What programs do in a deployment.

    Attributes:
        name: What it is called by, and what its kinds begin with: "mpi".
        variant: What the name of a scenario ends with that is deployed for it.
        tool_setting: Setting that names its tool: "endpoint_tool".
        runner: Import path of the function that runs it: "module:function". It is called with a
            `vnetperf.plugin.site.WorkloadSite` and specs, and returns a `Transfer` for each.
        ends: Where its programs are, for `--plan`: "the ranks are in the pods".
    """

    name: ClassVar[str]
    variant: ClassVar[str] = ENDPOINTS_VARIANT
    tool_setting: ClassVar[str] = "endpoint_tool"
    runner: ClassVar[str]
    ends: ClassVar[str]

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
