"""Where a VNF runs is part of how it is asked for: "vloop", "vloop:vm"."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from vnetperf import registry
from vnetperf.model.errors import ConfigError
from vnetperf.vnfs.base import Vnf
from vnetperf.vnfs.vloop import Vloop


def test_a_name_alone_is_a_process_on_the_host() -> None:
    assert registry.load_vnf("vloop") is Vloop


def test_a_place_is_a_class_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vloop, "places", {"moon": "vnetperf.vnfs.base:Vnf"})
    assert registry.load_vnf("vloop:moon") is Vnf


def test_a_place_it_does_not_run_in_is_told_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Vloop, "places", {"moon": "vnetperf.vnfs.base:Vnf"})
    with pytest.raises(ConfigError, match=r"does not run in 'mars'.*vloop, vloop:moon"):
        registry.load_vnf("vloop:mars")


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ({"hugepage_mib": lambda _: 512}, "memory"),
        ({"page_kb": property(lambda _: 2048)}, "memory"),
        ({"memory_floats": True}, "memory"),
        ({"demands": classmethod(lambda *_: ())}, "roles"),
        ({"roles": classmethod(lambda _, number: number)}, "roles"),
    ],
)
def test_a_vnf_of_an_earlier_version_is_refused_when_it_is_loaded(
    former: dict[str, Any], now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type("Mine", (Vnf,), {"roles": classmethod(lambda *_: ())})
    (name,) = former
    module = ModuleType("of_earlier")
    module.__getattr__ = lambda _: type("Mine", (Vnf,), former)  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "of_earlier", module)
    monkeypatch.setitem(registry._registered["vnfs"], "mine", "of_earlier:Mine")
    with pytest.raises(ConfigError, match=rf"implements {name}.*accepted: {now}\(scenario"):
        registry.load("vnfs", "mine")
