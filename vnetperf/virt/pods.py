"""Kinds of pods with programs: what each requires of the machine, and making one."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.host.build import GCC
from vnetperf.host.machine import Machine
from vnetperf.model.scenario import PodKind
from vnetperf.model.testbed import MachineFacts, Program
from vnetperf.virt.container import Container
from vnetperf.virt.cri import CONTAINERD, CRI_PACKAGES, CTR, CriPod
from vnetperf.virt.oci import PODMAN, RUNC, OciPod, PodmanPod

PODS: dict[PodKind, type[Container]] = {
    "netns": Container,
    "runc": OciPod,
    "podman": PodmanPod,
    "cri": CriPod,
}
#: Programs that each requires.
_PROGRAMS: dict[PodKind, tuple[Program, ...]] = {
    "netns": (),
    "runc": (RUNC,),
    "podman": (RUNC, PODMAN),
    "cri": (RUNC, CONTAINERD, CTR, GCC),
}
#: And Python packages.
_PACKAGES: dict[PodKind, tuple[str, ...]] = {"cri": CRI_PACKAGES}
#: Those that nothing else looks for.
POD_PROGRAMS = (RUNC, PODMAN, CONTAINERD, CTR)


def missing_for_pods(kind: PodKind, facts: MachineFacts) -> str:
    """What keeps pods of a kind from being made, with the cure; "" when nothing does."""
    lacks = (
        *map(facts.missing_program, _PROGRAMS[kind]),
        *map(facts.missing_package, _PACKAGES.get(kind, ())),
    )
    return next(filter(None, lacks), "")


def make_pod(kind: PodKind, machine: Machine, name: str, cpus: Sequence[int]) -> Container:
    """A place for the programs of a pod, of the kind that is chosen."""
    return PODS[kind](machine, name, cpus)
