"""Where a VNF runs is part of how it is asked for: "vloop", "vloop:vm"."""

from __future__ import annotations

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
