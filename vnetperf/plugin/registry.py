"""Finds the backends of the plugin families by entry point, and what they declare.

The registry imports no backend until one is loaded by name, or all are for what they declare:
programs, kernel modules, options, sections of the testbed file.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import create_model

from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError, accepted_names, did_you_mean
from vnetperf.model.options import SwitchOptions
from vnetperf.model.parameters import STANDARD_TESTS, THROUGHPUT
from vnetperf.model.testbed import AbsolutePath, KernelModule, Program, Testbed

Family = Literal[
    "vswitches",
    "vnfs",
    "traffic",
    "collectors",
    "wires",
    "events",
    "endpoints",
    "networks",
    "workloads",
    "mpi",
    "procedures",
]
FAMILIES: tuple[Family, ...] = get_args(Family)
#: Families whose classes reach a machine, where the agent imports them.
ON_MACHINES: tuple[Family, ...] = tuple(family for family in FAMILIES if family != "procedures")

_log = logging.getLogger(__name__)

#: The distribution that has this package.
OWN_PACKAGE = "vnetperf"
#: Backends registered by a conftest through `pytest_vnetperf_register`: name -> "module:Class".
_registered: dict[Family, dict[str, str]] = {family: {} for family in FAMILIES}


@cache
def _from_packages(family: Family) -> dict[str, EntryPoint]:
    """Backends that packages declare, by name; of several of one name this package's counts."""
    points_by_name: dict[str, EntryPoint] = {}
    points = entry_points(group=f"vnetperf.{family}")
    for point in sorted(points, key=lambda candidate: not _is_ours(candidate)):
        first = points_by_name.setdefault(point.name, point)
        if first.value != point.value:
            owner, other = (
                candidate.dist.name if candidate.dist else "?" for candidate in (first, point)
            )
            label = f"{family} {point.name} of {other}"
            _log.warning("%s is left out: %s has one of that name", label, owner)
    return points_by_name


def _is_ours(point: EntryPoint) -> bool:
    return point.dist is None or point.dist.name == OWN_PACKAGE


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


def unregister(family: Family, name: str) -> None:
    """Take a backend back that `register` has registered; nothing happens if there is none."""
    _registered[family].pop(name, None)


def registered() -> dict[Family, dict[str, str]]:
    """Backends registered by `register`."""
    return {family: dict(backends) for family, backends in _registered.items()}


def registered_on_machines() -> dict[Family, dict[str, str]]:
    """Those of them that the agent imports, too."""
    return {family: dict(_registered[family]) for family in ON_MACHINES}


def plugins() -> dict[str, str]:
    """Backends of others that machines import, "vswitches mine" -> what an equal one has in common.

    Of a package that is its name and version; of a module that a conftest names, its content. One
    that cannot be found here is left out.
    """
    versions: dict[str, str] = {}
    for family in ON_MACHINES:
        for name, point in _from_packages(family).items():
            if point.dist is not None and point.dist.name != OWN_PACKAGE:
                versions[f"{family} {name}"] = f"{point.dist.name} {point.dist.version}"
        for name, target in _registered[family].items():
            module = target.partition(":")[0]
            with suppress(ImportError, ValueError, OSError):
                spec = importlib.util.find_spec(module)
                if spec is not None and spec.origin is not None:
                    digest = sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]
                    versions[f"{family} {name}"] = f"module {module} {digest}"
    return versions


def names(family: Family) -> tuple[str, ...]:
    """Names of all backends of a family."""
    return tuple(sorted({*_from_packages(family), *_registered[family]}))


def test_names() -> tuple[str, ...]:
    """Names of all tests of frames, in the order in which they are run; the first is a search."""
    installed = {THROUGHPUT, *names("procedures")}
    standard = (test for test in STANDARD_TESTS if test in installed)
    return (*standard, *sorted(installed - {*STANDARD_TESTS}))


def load(family: Family, name: str) -> Any:
    """Import a backend's class.

    Args:
        family: Its family.
        name: Its name.

    Returns:
        The class.

    Raises:
        ConfigError: There is none, it cannot be imported, or what it declares is another thing to
            one that is there already.
    """
    backend = _load(family, name)
    if not _is_shipped(family, name):
        usable = _usable().get(f"{family} {name}")
        if isinstance(usable, ConfigError):
            raise usable
    return backend


def _load(family: Family, name: str) -> Any:
    target = _registered[family].get(name)
    try:
        if target is not None:
            return _checked(family, name, _import(target))
        point = _from_packages(family).get(name)
        if point is not None:
            return point.load() if _is_ours(point) else _checked(family, name, point.load())
    except (ConfigError, KeyboardInterrupt):  # its contract refuses it, and says why
        raise
    except BaseException as error:  # a plugin's module may raise anything, and call sys.exit()
        raise _cannot_load(name, f"vnetperf.{family}", error) from error
    raise unknown(family, name)


def _cannot_load(name: str, where: str, error: BaseException) -> ConfigError:
    return ConfigError(
        f"backend {name!r} cannot be loaded: {type(error).__name__}: {error}",
        where=where,
        cure="reinstall the package that provides it",
    )


def _checked(family: Family, name: str, backend: Any) -> Any:
    """A plugin's class, whose declarations are of the kinds that all others read."""
    wrong = ""
    if not isinstance(backend, type):
        wrong = f"it is no class: {backend!r:.60}"
    for kind, model in (("programs", Program), ("kernel_modules", KernelModule)):
        declared = getattr(backend, kind, ())
        if not (isinstance(declared, Iterable) and all(isinstance(d, model) for d in declared)):
            wrong = f"{kind} is no tuple of {model.__module__}.{model.__name__}"
    for kind in ("Options", "Section"):
        table = getattr(backend, kind, Frozen)
        if not (isinstance(table, type) and issubclass(table, Frozen)):
            wrong = f"{kind} is no class made of {Frozen.__module__}.Frozen"
    if not isinstance(getattr(backend, "places", {}), Mapping):
        wrong = "places is no table of names and import paths"
    if wrong:
        raise ConfigError(
            f"backend {name!r} cannot be used: {wrong}",
            where=f"vnetperf.{family}",
            cure="correct the package that provides it; docs/plugins.md has what is declared",
        )
    return backend


def unknown(family: Family, name: str, where: str = "") -> ConfigError:
    """What to raise for a name that no backend of a family has; `where` it is given."""
    return ConfigError(
        f"unknown {family} backend {name!r}{did_you_mean(name, names(family))}",
        where=where or f"vnetperf.{family}",
        accepted=accepted_names(name, names(family)),
        cure=f"install the plugin package that registers it under vnetperf.{family}",
    )


def load_vnf(name: str, where: str = "vnf") -> Any:
    """Import the class of a VNF loader where it is to run; `where` it is named, for an error."""
    vnf_name, colon, place = name.partition(":")
    vnf = load("vnfs", vnf_name)
    if not colon:
        return vnf
    return _place(vnf, vnf_name, place, where)


def _place(vnf: Any, vnf_name: str, place: str, where: str = "vnf") -> Any:
    target = vnf.places.get(place)
    if target is None:
        raise ConfigError(
            f"{vnf_name} does not run in {place!r}{did_you_mean(place, vnf.places)}",
            where=where,
            accepted=", ".join((vnf_name, *(f"{vnf_name}:{place}" for place in vnf.places))),
        )
    return load_target(target, f"{vnf_name}:{place}", where)


def load_target(target: str, label: str, where: str) -> Any:
    """Import what a backend names by its import path, "module:name"; `label` is for an error."""
    try:
        return _import(target)
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:  # as of `_load`
        raise _cannot_load(label, where, error) from error


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def backends() -> dict[str, type[Any]]:
    """Every class that can be used, by family and name; of VNFs those of their places too."""
    return {label: backend for label, backend in _usable().items() if isinstance(backend, type)}


def broken() -> tuple[ConfigError, ...]:
    """Why backends cannot be loaded, or are left out since they contradict others."""
    return tuple(error for error in _usable().values() if isinstance(error, ConfigError))


def _usable() -> dict[str, type[Any] | ConfigError]:
    """Backends, or why one is left out: others are used all the same."""
    usable = dict(_loaded())
    classes = (
        (label, backend)
        for label, backend in usable.items()
        if not isinstance(backend, ConfigError)
    )
    return usable | _contradictions(tuple(classes))


def _loaded() -> Iterator[tuple[str, type[Any] | ConfigError]]:
    """All backends, this package's first: what it declares holds."""
    keys = [(family, name) for family in ON_MACHINES for name in names(family)]
    for family, name in sorted(keys, key=lambda key: not _is_shipped(*key)):
        try:
            backend = _load(family, name)
            yield f"{family} {name}", backend
            for place in getattr(backend, "places", ()):
                yield f"{family} {name}:{place}", _place(backend, name, place)
        except ConfigError as error:
            yield f"{family} {name}", error


def _is_shipped(family: Family, name: str) -> bool:
    return name in _shipped_names(family) and name not in _registered[family]


@cache
def _shipped_names(family: Family) -> frozenset[str]:
    """Names that this package's own entry points have; of each the package is read from a file."""
    return frozenset(p.name for p in _from_packages(family).values() if _is_ours(p))


@lru_cache(maxsize=8)
def _contradictions(classes: tuple[tuple[str, type[Any]], ...]) -> dict[str, ConfigError]:
    """Backends that cannot be used beside earlier ones, since these declare another thing."""
    refused: dict[str, ConfigError] = {}
    earlier: dict[tuple[str, str], tuple[str, Any]] = {}
    for label, backend in classes:
        declared = dict(_declarations(backend))
        error = next(
            filter(
                None,
                (
                    _contradiction(label, key, declaration, earlier)
                    for key, declaration in declared.items()
                ),
            ),
            None,
        )
        if error is not None:
            refused[label] = error
            _log.warning("%s is left out: %s", label, error)
            continue
        for key, declaration in declared.items():
            earlier.setdefault(key, (label, declaration))
    return refused


#: What of a declaration says which program or module it is; the rest describes it.
_IDENTITY = {
    "programs": ("places", "version_contains", "setting", "beside"),
    "kernel_modules": ("turns_on",),
}


def _declarations(backend: type[Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """What a backend declares, by kind and name."""
    for kind in _IDENTITY:
        for declaration in getattr(backend, kind, ()):
            yield (kind, declaration.name), declaration
    options = getattr(backend, "Options", Frozen)
    for key in options.model_fields:
        yield ("Options", key), options
    section = getattr(backend, "Section", Frozen)
    if section.model_fields:
        yield ("Section", getattr(backend, "name", "")), section


def _contradiction(
    label: str,
    key: tuple[str, str],
    second: Any,
    earlier: Mapping[tuple[str, str], tuple[str, Any]],
) -> ConfigError | None:
    """Why a backend cannot declare something beside those before it."""
    kind, name = key
    owner, first = earlier.get(key, ("", second))
    if kind == "Options" and (first is not second or name in SwitchOptions.model_fields):
        return ConfigError(
            f"{label} declares option {name}, which is one of {owner or 'all vSwitches'}",
            where=kind,
            cure=f"name it after the backend, e.g. {label.rpartition(' ')[2]}_{name}",
        )
    if kind == "Section" and (first is not second or name in Testbed.model_fields):
        return ConfigError(
            f"{label} declares a section [{name}] of testbed files, which there is already",
            where=kind,
            cure="give the backend another name",
        )
    if differing := _differing(first, second, _IDENTITY.get(kind, ())):
        return ConfigError(
            f"{owner} and {label} declare {name} differently: {differing}",
            where=kind,
            cure=_suggest_import(first) or "let the later one import the declaration of the other",
        )
    return None


def _differing(first: Any, second: Any, keys: Iterable[str]) -> str:
    """What two declarations do not have in common: "package 'one' and 'two'"; "" for nothing."""

    def values(declaration: Any, key: str) -> Any:
        value = getattr(declaration, key)
        return value or (declaration.name,) if key == "places" else value

    pairs = ((key, values(first, key), values(second, key)) for key in keys)
    return ", ".join(f"{key} {a!r} and {b!r}" for key, a, b in pairs if a != b)


def _suggest_import(declared: Any) -> str:
    """How a plugin gets this very declaration: "import NFT from vnetperf....kernel"."""
    ours = [(name, m) for name, m in sys.modules.items() if name.startswith(f"{OWN_PACKAGE}.")]
    for module, content in sorted(ours):
        for name, value in vars(content).items():
            if isinstance(value, type(declared)) and value.name == declared.name:
                return f"import {name} from {module}, in place of a declaration of its own"
    return ""


def disagreements() -> list[str]:
    """What backends describe differently, for which the first one's words are taken."""
    lines: dict[str, None] = {}
    earlier: dict[tuple[str, str], tuple[str, Any]] = {}
    for label, backend in backends().items():
        for key, declaration in _declarations(backend):
            owner, first = earlier.setdefault(key, (label, declaration))
            if key[0] not in _IDENTITY or first is declaration:
                continue
            described = [k for k in type(declaration).model_fields if k not in _DESCRIBED]
            if differing := _differing(first, declaration, described):
                lines[
                    f"{label} describes {key[1]} differently, and {owner} counts: {differing}"
                ] = None
    return [*lines]


#: May differ between backends: what each needs it for.
_DESCRIBED = ("purpose", "optional")


def programs() -> dict[str, Program]:
    """Programs that backends declare, by name."""
    return _declared("programs", backends())


def kernel_modules() -> dict[str, KernelModule]:
    """Kernel modules that backends declare, by name."""
    return _declared("kernel_modules", backends())


def _declared(attribute: str, among: Mapping[str, type[Any]]) -> dict[str, Any]:
    """Declarations by name, the first of each; one that is needed by any backend is needed."""
    declarations: dict[str, Any] = {}
    for backend in among.values():
        for declaration in getattr(backend, attribute, ()):
            first = declarations.setdefault(declaration.name, declaration)
            if first.optional and not declaration.optional:
                declarations[declaration.name] = first.model_copy(update={"optional": False})
    return declarations


def switch_options_model() -> type[SwitchOptions]:
    """Options of vSwitches, with those that only single backends have; no others."""
    models: list[type[Frozen]] = []
    for backend in backends().values():
        model = getattr(backend, "Options", Frozen)
        if model.model_fields and model not in models:
            models.append(model)
    bases: tuple[Any, ...] = (SwitchOptions, *models, Frozen)  # the last forbids other keys
    merged_model: Any = create_model("SwitchOptions", __base__=bases)
    return cast("type[SwitchOptions]", merged_model)


def sections() -> dict[str, type[Frozen]]:
    """Sections of testbed files that backends declare, by name of the section."""
    return _collect_sections(backends())


def _collect_sections(among: Mapping[str, type[Any]]) -> dict[str, type[Frozen]]:
    pairs = ((getattr(b, "name", ""), getattr(b, "Section", Frozen)) for b in among.values())
    return {name: model for name, model in pairs if model.model_fields}


def testbed_model() -> type[Testbed]:
    """A testbed file with the sections and programs that backends declare; no others."""
    keys: dict[str, Any] = {program.setting: (AbsolutePath, "") for program in programs().values()}
    table = create_model("Programs", __base__=Frozen, **keys)
    fields: dict[str, Any] = {name: (model, model()) for name, model in sections().items()}
    fields["programs"] = (table, table())
    bases: tuple[Any, ...] = (Testbed, Frozen)  # the last forbids other keys
    merged_model: Any = create_model("Testbed", __base__=bases, **fields)
    return cast("type[Testbed]", merged_model)


def completed(testbed: Testbed) -> Testbed:
    """A testbed with the defaults of all sections and programs, as plans and results have it."""
    declared = backends()
    models = _collect_sections(declared)
    defaults = {name: model().model_dump(mode="json") for name, model in models.items()}
    declarations = _declared("programs", declared)
    paths = dict.fromkeys((program.setting for program in declarations.values()), "")
    values = {**defaults, **testbed.sections, "programs": {**paths, **testbed.programs}}
    return testbed.model_copy(update=values)
