"""Where a workload's programs run: a deployment whose tester has been taken away."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vnetperf.host.machine import Machine
from vnetperf.model.scenario import Plan, Pollers
from vnetperf.plugin.network import PodPort
from vnetperf.plugin.vnf import EndpointHost, Vnf
from vnetperf.virt.endpoint import Place

#: Addresses of programs' ends are those of RFC 2544 appendix C.2.2, on one link for the ends.
PREFIX_LENGTH = 15
#: A program in a VNF has the last address of the network at port 0, which no flow has.
INSIDE_ADDRESS = "198.18.255.254"
#: How often one looks whether programs have ended, seconds.
POLL_S = 0.03
#: What an end has whose network is its host's own.
LOOPBACK = "lo"


class PodSite(Protocol):
    """A container network that is deployed with its pods."""

    @property
    @abstractmethod
    def pods(self) -> tuple[PodPort, ...]:
        """What each pod has, by number; on the hosts' own network pods of a host share a port."""

    @abstractmethod
    def find_netns(self, pod: PodPort) -> Path:
        """Network namespace of a pod's host."""

    @abstractmethod
    def next_hop(self, pod: PodPort, far: PodPort) -> str:
        """MAC address that a pod's frames to another carry."""


class ProcessorWatch(Protocol):
    """What the machine's processors, or threads, do while programs run."""

    @abstractmethod
    def start(self) -> None:
        """Begin."""

    @abstractmethod
    def stop(self) -> dict[str, Any]:
        """End.

        Returns:
            Of processors fields of a `Transfer`: what was busy, and what others than the programs
            took. Of threads samples by collector, and under "uncollected" why one has none.
        """


@dataclass(frozen=True, slots=True)
class WorkloadSite:
    """What a workload has of a deployment.

    Attributes:
        machine: The machine.
        plan: The plan.
        network: The network of its pods; None where it has none.
        guests: Guests in the place of pods, by number of the pod.
        watch: Fails when a part of the DUT has died, or the run is to end. It is called while one
            waits.
        watch_processors: Makes a watch for programs at some places.
        vnfs: The VNFs.
        watch_threads: Makes a watch of threads by all collectors.
    """

    machine: Machine
    plan: Plan
    network: PodSite | None
    guests: Mapping[int, EndpointHost]
    watch: Callable[[], None]
    watch_processors: Callable[[Iterable[Place]], ProcessorWatch]
    vnfs: tuple[Vnf, ...]
    watch_threads: Callable[[tuple[Pollers, ...]], ProcessorWatch]
