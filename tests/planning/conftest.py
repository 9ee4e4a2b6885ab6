from __future__ import annotations

import pytest

from tests.conftest import Register
from tests.fakes import backends


@pytest.fixture
def fakes(register_backend: Register) -> None:
    """Register the fake backends for one test."""
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
            register_backend(family, cls.name, f"{cls.__module__}:{cls.__name__}")
