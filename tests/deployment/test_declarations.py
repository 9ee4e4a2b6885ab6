"""What backends declare, put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vnetperf import registry
from vnetperf.model.base import Frozen
from vnetperf.model.errors import ConfigError
from vnetperf.model.testbed import KernelModule, Program, Testbed
from vnetperf.vswitches.base import VSwitch

Declare = Callable[..., None]


class Depth(Frozen):
    depth: int = 1


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
        monkeypatch.setattr(registry, "backends", lambda: made)

    return these


def test_what_several_declare_alike_is_one(declare: Declare) -> None:
    declare(
        a={"kernel_modules": (KernelModule(name="m", purpose="a"),)},
        b={"kernel_modules": (KernelModule(name="m", purpose="b", optional=True),)},
    )
    assert list(registry.kernel_modules()) == ["m"]


def test_what_two_declare_differently_names_both(declare: Declare) -> None:
    declare(
        a={"programs": (Program(name="p", package="one"),)},
        b={"programs": (Program(name="p", package="two"),)},
    )
    match = "vswitches a and vswitches b declare p differently: package 'one' and 'two'"
    with pytest.raises(ConfigError, match=match):
        registry.programs()


def test_an_option_has_one_owner(declare: Declare) -> None:
    declare(a={"Options": Depth}, b={})
    model = registry.switch_options_model()
    assert model.model_validate({"depth": 3, "mtu": 9000}).model_dump()["depth"] == 3
    with pytest.raises(ValueError, match="dept"):
        model.model_validate({"dept": 3})
    other = type("Depth2", (Frozen,), {"__annotations__": {"depth": int}, "depth": 2})
    declare(a={"Options": Depth}, b={"Options": other})
    with pytest.raises(ConfigError, match="option depth, which is one of vswitches a"):
        registry.switch_options_model()
    mtu = type("Mtu", (Frozen,), {"__annotations__": {"mtu": int}, "mtu": 2})
    declare(a={"Options": mtu})
    with pytest.raises(ConfigError, match="option mtu, which is one of all vSwitches"):
        registry.switch_options_model()


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
    declare(cores={"Section": Where})
    with pytest.raises(ConfigError, match=r"section \[cores\]"):
        registry.sections()


def test_a_plugin_that_raises_costs_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered["vswitches"], "bad", "tests.no_such_module:X")
    assert "vswitches bad" not in registry.backends()
    assert "vswitches bridge" in registry.backends()
    assert any("'bad' cannot be loaded" in error.what for error in registry.broken())
