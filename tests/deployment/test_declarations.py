"""What backends declare, put together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Register
from tests.fakes.machine import forget_cached
from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError
from vnetperf.model.testbed import KernelModule, Program, Testbed
from vnetperf.plugin import registry
from vnetperf.plugin.vswitch import VSwitch

Declare = Callable[..., None]


class Depth(Frozen):
    depth: int = 1


class OtherNft(VSwitch):
    """Declares another nft than the one that others use."""

    name = "aaa"
    programs = (Program(name="nft", places=("/opt/other/nft",)),)


class Where(Frozen):
    server: str = ""


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Have the registry find backends with these attributes, by name."""

    def these(**backends: dict[str, Any]) -> None:
        made = {
            f"vswitches {name}": type(name, (VSwitch,), {"name": name, **attributes})
            for name, attributes in backends.items()
        }
        monkeypatch.setattr(registry, "_loaded", lambda: iter(made.items()))

    return these


def test_what_several_declare_alike_is_one(declare: Declare) -> None:
    declare(
        a={"kernel_modules": (KernelModule(name="m", purpose="a"),)},
        b={"kernel_modules": (KernelModule(name="m", purpose="b", optional=True),)},
    )
    assert list(registry.kernel_modules()) == ["m"]


def test_what_two_describe_differently_is_as_the_first_says(declare: Declare) -> None:
    declare(
        a={"programs": (Program(name="p", package="one", software="P", by_make=True),)},
        b={"programs": (Program(name="p", package="two", places=("p",)),)},
    )
    assert registry.programs()["p"].package == "one"
    assert list(registry.backends()) == ["vswitches a", "vswitches b"]
    assert registry.broken() == ()
    (line,) = registry.disagreements()
    assert line.startswith("vswitches b describes p ")
    for words in (
        "vswitches a counts",
        "package 'one' and 'two'",
        "software 'P' and ''",
        "by_make True and False",
    ):
        assert words in line


def test_who_declares_another_program_of_a_name_is_left_out(declare: Declare) -> None:
    declare(
        a={"programs": (Program(name="p", places=("/opt/p",)),)},
        b={"programs": (Program(name="p", places=("/srv/p",)),)},
        c={"programs": (Program(name="q"),)},
    )
    assert list(registry.backends()) == ["vswitches a", "vswitches c"]
    assert list(registry.programs()) == ["p", "q"]
    (error,) = registry.broken()
    for words in ("vswitches a and vswitches b", "'/opt/p'", "'/srv/p'"):
        assert words in error.what


def test_the_first_declaration_is_this_packages_own_and_can_be_imported(
    register_backend: Register,
) -> None:
    """A vSwitch that sorts before ours takes no program from us, and stops nobody."""
    register_backend("vswitches", "aaa", "tests.deployment.test_declarations:OtherNft")
    assert "vswitches aaa" not in registry.backends()
    assert "vswitches cgnat" in registry.backends()
    (error,) = registry.broken()
    assert "vnetperf.vswitches.conntrack" in error.cure
    with pytest.raises(ConfigError, match="declare nft differently"):
        registry.load("vswitches", "aaa")
    assert registry.load("vswitches", "bridge")


def test_an_option_has_one_owner(declare: Declare) -> None:
    declare(a={"Options": Depth}, b={})
    model = registry.switch_options_model()
    assert model.model_validate({"depth": 3, "mtu": 9000}).model_dump()["depth"] == 3
    with pytest.raises(ValueError, match="dept"):
        model.model_validate({"dept": 3})
    other = type("Depth2", (Frozen,), {"__annotations__": {"depth": int}, "depth": 2})
    declare(a={"Options": Depth}, b={"Options": other}, c={"Options": Depth})
    (error,) = registry.broken()
    assert error.where == "Options"
    for words in ("vswitches b", "option depth", "vswitches a"):
        assert words in error.what
    assert "b_depth" in error.cure
    assert registry.switch_options_model().model_validate({"depth": 3}).model_dump()["depth"] == 3
    mtu = type("Mtu", (Frozen,), {"__annotations__": {"mtu": int}, "mtu": 2})
    declare(a={"Options": mtu})
    (error,) = registry.broken()
    assert (error.where, "option mtu" in error.what) == ("Options", True)
    assert "a_mtu" in error.cure
    assert registry.switch_options_model().model_validate({"mtu": 9000}).mtu == 9000


def test_a_section_and_a_program_are_keys_of_a_testbed_file(declare: Declare) -> None:
    declare(mine={"Section": Where, "programs": (Program(name="my-switch"),)}, other={})
    model = registry.testbed_model()
    file = {"mine": {"server": "h"}, "programs": {"my_switch": "/opt/x"}}
    assert model.model_validate(file).model_dump()["mine"] == {"server": "h"}
    for wrong in ({"other": {}}, {"mine": {"sever": "h"}}, {"programs": {"ovs": "/x"}}):
        with pytest.raises(ValueError, match="Extra inputs"):
            model.model_validate(wrong)
    whole = registry.completed(Testbed())
    assert whole.sections == {"mine": {"server": ""}}
    assert whole.programs == {"my_switch": ""}
    given = Testbed.model_validate(file)
    assert registry.completed(given).external_server("mine") == "h"


def test_a_section_cannot_hide_a_key(declare: Declare) -> None:
    declare(cores={"Section": Where}, mine={"Section": Where})
    (error,) = registry.broken()
    assert "section [cores]" in error.what
    assert registry.sections() == {"mine": Where}


def test_a_plugin_that_raises_costs_nobody_else(register_backend: Register) -> None:
    register_backend("vswitches", "bad", "tests.no_such_module:X")
    assert "vswitches bad" not in registry.backends()
    assert "vswitches bridge" in registry.backends()
    assert any("'bad' cannot be loaded" in error.what for error in registry.broken())


class Ends:
    """In place of a module that ends the program that imports it."""

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(3)


class Skips:
    def __getattr__(self, name: str) -> Any:
        pytest.skip("this plugin needs a kernel of its own")


NO_CLASS = 5


class Misdeclares:
    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, type(name, (VSwitch,), {"name": name, **value}))


@pytest.mark.parametrize(
    ("module", "target"),
    [
        (Ends(), "X"),
        (Skips(), "X"),
        (None, "NO_CLASS"),
        (Misdeclares(X={"programs": ("nft",)}), "X"),
        (Misdeclares(X={"programs": 5}), "X"),
        (Misdeclares(X={"kernel_modules": ("vfio",)}), "X"),
        (Misdeclares(X={"Options": 3}), "X"),
        (Misdeclares(X={"Section": dict}), "X"),
        (Misdeclares(X={"places": ("vm",)}), "X"),
        (Misdeclares(X={"places": {"vm": "tests.no_such_module:X"}}), "X"),
    ],
    ids=[
        *("ends", "skips", "no class", "names", "number"),
        *("modules", "options", "section", "no table", "place"),
    ],
)
def test_a_plugin_of_any_kind_of_fault_costs_nobody_else(
    module: Any, target: str, monkeypatch: pytest.MonkeyPatch, register_backend: Register
) -> None:
    name = __name__ if module is None else "vnetperf_faulty"
    monkeypatch.setitem(sys.modules, "vnetperf_faulty", module)
    register_backend("vswitches", "bad", f"{name}:{target}")
    assert "vswitches bridge" in registry.backends()
    assert registry.programs()
    assert registry.testbed_model()
    assert registry.switch_options_model()
    told = [error for error in registry.broken() if "bad" in error.what]
    assert len(told) == 1
    if "bad:vm" not in told[0].what:  # else the vSwitch itself can be used
        with pytest.raises(ConfigError, match="'bad' cannot be"):
            registry.load("vswitches", "bad")


def test_a_plugin_of_the_name_of_a_backend_here_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def points(group: str) -> list[EntryPoint]:
        one = EntryPoint("bridge", "vnetperf.vswitches.bridge:LinuxBridge", group)
        other = EntryPoint("bridge", "stranger:Bridge", group)
        theirs = SimpleNamespace(name="stranger", version="1")
        for point, owner in ((one, None), (other, theirs)):
            vars(point)["dist"] = owner
        return [other, one]

    forget_cached(registry)
    monkeypatch.setattr(registry, "entry_points", points)
    try:
        bridge = registry.load("vswitches", "bridge")
    finally:
        forget_cached(registry)
    assert bridge.__module__ == "vnetperf.vswitches.bridge"
    assert "vswitches bridge of stranger" in caplog.text
