"""Finds the backends of the plugin families by entry point, and what they declare.

The registry imports no backend until one is loaded by name, or all are for what they declare:
programs, kernel modules, options, sections of the testbed file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import create_model

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError, did_you_mean
from vnetperf.model.options import SwitchOptions
from vnetperf.model.testbed import AbsolutePath, KernelModule, Program, Testbed

Family = Literal[
    "vswitches", "vnfs", "traffic", "collectors", "wires", "endpoints", "networks", "mpi"
]
FAMILIES: tuple[Family, ...] = get_args(Family)

#: The distribution that has this package.
OWN_PACKAGE = "vnetperf"
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


def plugins() -> dict[str, str]:
    """Backends of others than this package, "vswitches mine" -> what an equal one has in common.

    Of a package that is its name and version; of a module that a conftest names, its content. One
    that cannot be found here is left out.
    """
    found: dict[str, str] = {}
    for family in FAMILIES:
        for name, point in _from_packages(family).items():
            if point.dist is not None and point.dist.name != OWN_PACKAGE:
                found[f"{family} {name}"] = f"{point.dist.name} {point.dist.version}"
        for name, target in _registered[family].items():
            module = target.partition(":")[0]
            with suppress(ImportError, ValueError, OSError):
                spec = importlib.util.find_spec(module)
                if spec is not None and spec.origin is not None:
                    digest = sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]
                    found[f"{family} {name}"] = f"module {module} {digest}"
    return found


def names(family: Family) -> tuple[str, ...]:
    """Names of all backends of a family."""
    return tuple(sorted({*_from_packages(family), *_registered[family]}))


def load(family: Family, name: str) -> Any:
    """Import a backend's class."""
    target = _registered[family].get(name)
    try:
        if target is not None:
            return _import(target)
        point = _from_packages(family).get(name)
        if point is not None:
            return point.load()
    except ConfigError:  # its contract refuses it, and says why
        raise
    except Exception as error:  # a plugin's module may raise anything
        raise ConfigError(
            f"backend {name!r} cannot be loaded: {type(error).__name__}: {error}",
            where=f"vnetperf.{family}",
            cure="reinstall the package that provides it",
        ) from error
    raise unknown(family, name)


def unknown(family: Family, name: str, where: str = "") -> ConfigError:
    """What to raise for a name that no backend of a family has; `where` it is given."""
    return ConfigError(
        f"unknown {family} backend {name!r}{did_you_mean(name, names(family))}",
        where=where or f"vnetperf.{family}",
        accepted=", ".join(names(family)),
        cure=f"install the plugin package that registers it under vnetperf.{family}",
    )


def load_vnf(name: str, where: str = "vnf") -> Any:
    """Import the class of a VNF loader where it is to run; `where` it is named, for an error."""
    what, colon, place = name.partition(":")
    vnf = load("vnfs", what)
    if not colon:
        return vnf
    target = vnf.places.get(place)
    if target is None:
        raise ConfigError(
            f"{what} does not run in {place!r}{did_you_mean(place, vnf.places)}",
            where=where,
            accepted=", ".join((what, *(f"{what}:{place}" for place in vnf.places))),
        )
    return _import(target)


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def backends() -> dict[str, type[Any]]:
    """Every class that can be loaded, by family and name; of VNFs those of their places too."""
    return {what: found for what, found in _loaded() if isinstance(found, type)}


def broken() -> tuple[ConfigError, ...]:
    """Why backends cannot be loaded."""
    return tuple(found for _, found in _loaded() if isinstance(found, ConfigError))


def _loaded() -> Iterator[tuple[str, type[Any] | ConfigError]]:
    for family in FAMILIES:
        for name in names(family):
            try:
                found = load(family, name)
                yield f"{family} {name}", found
                for place in getattr(found, "places", ()):
                    yield f"{family} {name}:{place}", load_vnf(f"{name}:{place}")
            except ConfigError as error:
                yield f"{family} {name}", error


def programs() -> dict[str, Program]:
    """Programs that backends declare, by name."""
    return _declared("programs")


def kernel_modules() -> dict[str, KernelModule]:
    """Kernel modules that backends declare, by name."""
    return _declared("kernel_modules")


def _declared(attribute: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    owner: dict[str, str] = {}
    described = {"purpose", "optional"}  # may differ between backends
    for what, backend in backends().items():
        for one in getattr(backend, attribute, ()):
            first = found.setdefault(one.name, one)
            owner.setdefault(one.name, what)
            then, now = (each.model_dump(exclude=described) for each in (first, one))
            if then != now:
                parts = [
                    f"{key} {then[key]!r} and {now[key]!r}" for key in then if then[key] != now[key]
                ]
                raise ConfigError(
                    f"{owner[one.name]} and {what} declare {one.name} differently: "
                    + ", ".join(parts),
                    where=attribute,
                    cure="let the later one import the declaration of the other, or uninstall it",
                )
            if first.optional and not one.optional:  # what one of them cannot do without
                found[one.name] = one
    return found


def switch_options_model() -> type[SwitchOptions]:
    """Options of vSwitches, with those that only single backends have; no others."""
    owner: dict[str, str] = {}
    models: list[type[Frozen]] = []
    for what, backend in backends().items():
        model = getattr(backend, "Options", Frozen)
        for key in model.model_fields:
            other = "all vSwitches" if key in SwitchOptions.model_fields else owner.get(key, "")
            if other and model not in models:
                raise ConfigError(
                    f"{what} declares option {key}, which is one of {other}",
                    where="Options",
                    cure=f"name it after the backend, e.g. {what.rpartition(' ')[2]}_{key}",
                )
        owner |= dict.fromkeys(model.model_fields, what)
        if model.model_fields and model not in models:
            models.append(model)
    bases: tuple[Any, ...] = (SwitchOptions, *models, Frozen)  # the last forbids other keys
    made: Any = create_model("SwitchOptions", __base__=bases)
    return cast("type[SwitchOptions]", made)


def sections() -> dict[str, type[Frozen]]:
    """Sections of testbed files that backends declare, by name of the section."""
    found: dict[str, type[Frozen]] = {}
    for what, backend in backends().items():
        model, name = getattr(backend, "Section", Frozen), getattr(backend, "name", "")
        if not model.model_fields or found.get(name) is model:
            continue
        if name in found or name in Testbed.model_fields:
            raise ConfigError(
                f"{what} declares a section [{name}] of testbed files, which there is already",
                where="Section",
                cure="give the backend another name",
            )
        found[name] = model
    return found


def testbed_model() -> type[Testbed]:
    """A testbed file with the sections and programs that backends declare; no others."""
    keys: dict[str, Any] = {program.setting: (AbsolutePath, "") for program in programs().values()}
    table = create_model("Programs", __base__=Frozen, **keys)
    fields: dict[str, Any] = {name: (model, model()) for name, model in sections().items()}
    fields["programs"] = (table, table())
    bases: tuple[Any, ...] = (Testbed, Frozen)  # the last forbids other keys
    made: Any = create_model("Testbed", __base__=bases, **fields)
    return cast("type[Testbed]", made)


def completed(testbed: Testbed) -> Testbed:
    """A testbed with the defaults of all sections and programs, as plans and results have it."""
    known = {name: model().model_dump(mode="json") for name, model in sections().items()}
    paths = dict.fromkeys((program.setting for program in programs().values()), "")
    whole = {**known, **testbed.sections, "programs": {**paths, **testbed.programs}}
    return testbed.model_copy(update=whole)
