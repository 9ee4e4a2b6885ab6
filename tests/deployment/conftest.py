from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes import backends
from vnetperf import registry


@pytest.fixture
def fakes() -> Iterator[None]:
    """Register the fake backends for one test."""
    before = registry.registered()
    for family, classes in {
        "vswitches": (
            *(backends.FakeSwitch, backends.NeedsAProgram, backends.NicOnly, backends.VethOnly),
            *(backends.TapOnly, backends.NoChains, backends.Hungry),
        ),
        "vnfs": (backends.FakeVnf,),
        "traffic": (backends.FakeGenerator,),
        "wires": (backends.BrokenWire,),
    }.items():
        for cls in classes:
            registry.register(family, cls.name, f"{cls.__module__}:{cls.__name__}")
    yield
    for family, held in registry._registered.items():
        held.clear()
        held.update(before[family])
