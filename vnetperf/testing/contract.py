"""What all parts of the contract kit stand on: the vSwitch, the set-ups, the stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from vnetperf import registry
from vnetperf.model.errors import ConfigError
from vnetperf.testing.cases import plain, varied
from vnetperf.testing.stage import Stage
from vnetperf.vswitches.base import VSwitch

_STAGE: pytest.StashKey[Stage] = pytest.StashKey()


class Contract:
    """One vSwitch and where its tests deploy; the parts of the kit add the tests.

    Attributes:
        vswitch: Registered name of the vSwitch.
        known: What it is known not to do: a part of a test's id -> why. Those tests must fail.
    """

    vswitch: ClassVar[str] = ""
    known: ClassVar[Mapping[str, str]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the set-ups that the capabilities promise."""
        try:
            can = registry.load("vswitches", self.vswitch).capabilities
        except ConfigError as error:
            pytest.fail(str(error), pytrace=False)
        vnfs = [case for case in plain(can) if case.has_vnfs]
        choices: dict[str, list[Any]] = {
            "case": plain(can),
            "look": [*varied(can), *vnfs[:1]],
            "simple": [*varied(can)[:1], *vnfs[:1]],
            "with_vnf": vnfs[:1],
        }
        for name, cases in choices.items():
            if name in metafunc.fixturenames:
                ids = [case.id for case in cases]
                metafunc.parametrize(name, cases, ids=ids, scope="class")

    @pytest.fixture(autouse=True)
    def _excuse(self, request: pytest.FixtureRequest) -> None:
        for part, why in self.known.items():
            if part in request.node.name:
                request.applymarker(pytest.mark.xfail(reason=why, strict=True))

    @pytest.fixture
    def stage(self, request: pytest.FixtureRequest) -> Stage:
        """Where the class deploys; undone after its last test."""
        place = request.node.getparent(pytest.Class)
        stage: Stage | None = place.stash.get(_STAGE, None)
        if stage is None:
            stage = place.stash[_STAGE] = Stage(self.vswitch)
            place.addfinalizer(stage.close)
        return stage

    @property
    def backend(self) -> type[VSwitch]:
        """The class under test."""
        found: type[VSwitch] = registry.load("vswitches", self.vswitch)
        return found
