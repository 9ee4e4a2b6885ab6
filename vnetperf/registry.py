"""Finds the backends of the plugin families by entry point.

The registry knows that families exist and what their contract class is called; it imports no
backend until one is asked for by name.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from vnetperf.model.errors import ConfigError, did_you_mean

Family = Literal["vswitches", "vnfs", "traffic", "collectors", "wires", "endpoints"]
FAMILIES: tuple[Family, ...] = (
    *("vswitches", "vnfs", "traffic"),
    *("collectors", "wires", "endpoints"),
)

#: Backends registered by a conftest through `pytest_vnetperf_register`: name -> "module:Class".
_registered: dict[Family, dict[str, str]] = {family: {} for family in FAMILIES}


@cache
def _from_packages(family: Family) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"vnetperf.{family}")}


def register(family: Family, name: str, target: str) -> None:
    """Register a backend that no installed package declares.

    The target is an import path and not a class, because the agent is a process of its own.
    """
    if family not in FAMILIES:
        raise ConfigError(
            f"unknown plugin family {family!r}", where="register()", accepted=", ".join(FAMILIES)
        )
    if not name.isidentifier() or name != name.lower():
        raise ConfigError(
            f"{name!r} cannot name a backend of {family}",
            where="register()",
            accepted="a lower-case identifier, e.g. ovs, my_switch",
        )
    if target.count(":") != 1:
        raise ConfigError(f"{target!r} is no import path", where=name, accepted='"module:Class"')
    _registered[family][name] = target


def registered() -> dict[Family, dict[str, str]]:
    """Backends registered by `register`, for handing them to the agent."""
    return {family: dict(backends) for family, backends in _registered.items()}


def names(family: Family) -> tuple[str, ...]:
    """Names of all backends of a family."""
    return tuple(sorted({*_from_packages(family), *_registered[family]}))


def load(family: Family, name: str) -> Any:
    """Import a backend's class."""
    target = _registered[family].get(name)
    try:
        if target is not None:
            module, _, attribute = target.partition(":")
            return getattr(importlib.import_module(module), attribute)
        point = _from_packages(family).get(name)
        if point is not None:
            return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"backend {name!r} cannot be loaded: {error}",
            where=f"vnetperf.{family}",
            cure="reinstall the package that provides it",
        ) from error
    raise ConfigError(
        f"unknown {family} backend {name!r}{did_you_mean(name, names(family))}",
        where=f"vnetperf.{family}",
        accepted=", ".join(names(family)),
        cure=f"install the plugin package that registers it under vnetperf.{family}",
    )


def load_vnf(name: str) -> Any:
    """Import the class of a VNF loader where it is to run."""
    what, colon, place = name.partition(":")
    vnf = load("vnfs", what)
    if not colon:
        return vnf
    target = vnf.places.get(place)
    if target is None:
        raise ConfigError(
            f"{what} does not run in {place!r}{did_you_mean(place, vnf.places)}",
            where="vnf",
            accepted=", ".join((what, *(f"{what}:{place}" for place in vnf.places))),
        )
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
