"""Tests besides the throughput search, each a pure generator in a module of its own.

A new test is a module with its generator, and a line in `PROCEDURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vnetperf.model.errors import ConfigError
from vnetperf.model.preset import Preset
from vnetperf.model.procedures import (
    BackToBackTest,
    FrameLossTest,
    LatencyTest,
    LossProfileTest,
    MrrTest,
    RecoveryTest,
    Rfc2889Test,
    SoakTest,
)
from vnetperf.procedures.addresses import address_caching, address_learning
from vnetperf.procedures.back_to_back import back_to_back
from vnetperf.procedures.base import (
    Ask,
    Inputs,
    KnownThroughput,
    Procedure,
    Replayed,
    Seen,
    counts,
    direction_name,
    replay,
)
from vnetperf.procedures.forwarding_rate import forwarding_rate
from vnetperf.procedures.frame_loss import frame_loss
from vnetperf.procedures.latency import latency
from vnetperf.procedures.loss_profile import loss_profile
from vnetperf.procedures.mrr import mrr
from vnetperf.procedures.recovery import recovery
from vnetperf.procedures.reset import ResetInputs, reset
from vnetperf.procedures.soak import soak

__all__ = [
    "PROCEDURES",
    "Ask",
    "Inputs",
    "Kind",
    "KnownThroughput",
    "Procedure",
    "Replayed",
    "Seen",
    "counts",
    "direction_name",
    "kind_of",
    "replay",
]


@dataclass(frozen=True)
class Kind:
    """A test as the bench knows it.

    Attributes:
        run: The generator, called with its inputs.
        inputs: `Inputs` of its parameters.
        parameters: Takes the parameters out of a preset.
        fills: Field of `Result` that holds what it finds.
        needs_throughput: True when its inputs must have one: it is searched if need be.
    """

    run: Callable[[Any], Procedure[Any]]
    inputs: type[Inputs[Any]]
    parameters: Callable[[Preset], Any]
    fills: str
    needs_throughput: bool = False


#: Test to how it is run; "throughput" is a search, and not among them.
PROCEDURES: dict[str, Kind] = {
    "latency": Kind(
        latency,
        Inputs[LatencyTest],
        lambda p: p.latency,
        "latency_at",
        needs_throughput=True,
    ),
    "frame_loss": Kind(frame_loss, Inputs[FrameLossTest], lambda p: p.frame_loss, "loss_steps"),
    "back_to_back": Kind(
        back_to_back,
        Inputs[BackToBackTest],
        lambda p: p.back_to_back,
        "back_to_back",
        needs_throughput=True,
    ),
    "recovery": Kind(
        recovery,
        Inputs[RecoveryTest],
        lambda p: p.recovery,
        "recovery",
        needs_throughput=True,
    ),
    "reset": Kind(reset, ResetInputs, lambda p: p.reset, "resets", needs_throughput=True),
    "mrr": Kind(mrr, Inputs[MrrTest], lambda p: p.mrr, "rates"),
    "loss_profile": Kind(
        loss_profile,
        Inputs[LossProfileTest],
        lambda p: p.loss_profile,
        "loss_steps",
        needs_throughput=True,
    ),
    "soak": Kind(soak, Inputs[SoakTest], lambda p: p.soak, "soak", needs_throughput=True),
    "forwarding_rate": Kind(forwarding_rate, Inputs[Rfc2889Test], lambda p: p.rfc2889, "rates"),
    "address_caching": Kind(address_caching, Inputs[Rfc2889Test], lambda p: p.rfc2889, "addresses"),
    "address_learning": Kind(
        address_learning, Inputs[Rfc2889Test], lambda p: p.rfc2889, "addresses"
    ),
}


def kind_of(test: str) -> Kind:
    """Look up a test.

    Args:
        test: Its name.

    Returns:
        How it is run.

    Raises:
        ConfigError: There is none of that name.
    """
    if test not in PROCEDURES:
        raise ConfigError(
            f"there is no test {test!r}", where="test case", accepted=", ".join(PROCEDURES)
        )
    return PROCEDURES[test]
