"""Contract kit: where it deploys, one deployment at a time, and the base of its test classes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import MACHINE_LOCK, LiveDeployment
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.host import snapshot
from vnetperf.host.locks import TestbedLock
from vnetperf.host.paths import HostRoots
from vnetperf.host.wait import wait_at_most
from vnetperf.model.errors import CapabilityError, ConfigError, DutError, VnetperfError
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts, Testbed
from vnetperf.model.trial import TrialResult
from vnetperf.planning.planner import largest_frame, make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.vswitch import VSwitch
from vnetperf.runner.scenarios import make_scenario
from vnetperf.testing.cases import OPTION_VALUES, Case, other_cases, plain_cases
from vnetperf.testing.frames import FrameTester
from vnetperf.testing.others import (
    Holders,
    drop_test_mounts,
    run_processes,
    sort_differences,
)

#: Names of backends that must run here, with commas: a set-up they cannot have then fails.
REQUIRE = "VNETPERF_REQUIRE"
#: What a deployment may change; processes of others come and go.
AREAS = ("hugepages", "mounts", "links", "modules", "drivers", "values", "files")
#: What a step that is made to fail says.
INJECTED = "injected by the contract kit"
#: Longest wait for another run on this machine, and for what a dead one leaves, seconds.
TURN_S, PATIENCE_S = 600.0, 20.0
#: Longest wait for what nothing shows to be the deployment's: others' things come and go, seconds.
UNCLEAR_S = 50.0
#: What is said of a change when it stays.
_UNCLEAR = (
    " (nothing shows that this deployment did it, and nobody else is seen to hold it; what comes "
    "again when the test is run alone is its own)"
)


#: Sessions through a vSwitch that is a NAT: few, since each is set up.
SESSIONS, SERVICES = ("subscribers=16,ports=4",), ("services=7,flows=60",)

#: Trials until one is whole, on processors that others use too; and how many of them may lose
#: frames though the tester was never late by more than this, seconds: the DUT waits for processors
#: as well, and keeps no record of it.
ATTEMPTS, ON_TIME_ATTEMPTS, ON_TIME_S = 8, 5, 0.001


def repeat_trial(run: Callable[[], TrialResult], *, all_sent: bool = False) -> TrialResult:
    """Repeat a trial that must lose nothing while the machine disturbs it.

    A machine that stands still for some milliseconds makes the tester late: it gives frames up, or
    sends those that are due at once, and a ring overflows. Loss in a trial whose tester was on time
    (`max_lag_s`) is the DUT's. The caller asserts what the trial must show; what may never be
    seen, not even in a disturbed trial, `run` asserts itself.

    Args:
        run: Runs one trial, far below what anything here can forward.
        all_sent: Frames that the tester gave up disturb too; else they are nobody's loss.

    Returns:
        The first trial that lost nothing, or that failed; the last one otherwise.
    """
    on_time = 0
    for _ in range(ATTEMPTS):
        result = run()
        unsent = sum(d.unsent for d in result.directions) if all_sent else 0
        if result.failed or not unsent + sum(result.lost(d) for d in result.directions):
            break
        on_time += not unsent and 0 < result.max_lag_s <= ON_TIME_S  # 0: it keeps no record
        if on_time == ON_TIME_ATTEMPTS:
            break
    return result


def fail_after(kind: type, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a method of a class raise once it has done its work."""
    original = getattr(kind, step)

    def fail(backend: object, *arguments: Any) -> None:
        original(backend, *arguments)
        raise DutError(INJECTED, where=step)

    monkeypatch.setattr(kind, step, fail)


def kill(pids: Iterable[int]) -> None:
    """End processes by force, as a crash would."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def is_required(backend: str) -> bool:
    """Whether `REQUIRE` names a backend."""
    return backend in [name.strip() for name in os.environ.get(REQUIRE, "").split(",")]


def skip_or_fail(backend: str, reason: str) -> NoReturn:
    """Skip a test that this machine cannot run; fail it when `REQUIRE` names its backend."""
    if is_required(backend):
        pytest.fail(f"{REQUIRE} names {backend}, but {reason}", pytrace=False)
    pytest.skip(reason)


@cache
def is_carried(backend: str) -> bool:
    """Whether this machine carries any set-up that a vSwitch promises, or is required to."""
    if is_required(backend):
        return True
    stage = Stage(backend)
    can = registry.load("vswitches", backend).capabilities
    for case in (*plain_cases(can), *other_cases(can)):
        with contextlib.suppress(VnetperfError):
            make_plan(stage.scenario(case), stage.testbed, _collection_facts())
            return True
    return False


@cache
def _collection_facts() -> MachineFacts:
    return take_inventory(configuration({}).testbed)


class Stage:
    """A machine to deploy on, for the tests of one class.

    Args:
        vswitch: Registered name of the vSwitch.
    """

    def __init__(self, vswitch: str) -> None:
        if FrameTester.name not in registry.names("traffic"):
            registry.register("traffic", FrameTester.name, "vnetperf.testing.frames:FrameTester")
        self.vswitch = vswitch
        self.troubles: list[str] = []
        self._before: snapshot.Snapshot | None = None
        self._holders: Holders | None = None
        #: Modules that deployments have loaded: those that are left stay on purpose.
        self._loaded: set[str] = set()
        self._key: object = None
        self._deployment: LiveDeployment | None = None

    @cached_property
    def facts(self) -> MachineFacts:
        """This machine."""
        return take_inventory(configuration({}).testbed)

    @property
    def testbed(self) -> Testbed:
        """The testbed of whoever runs the tests, with patience for other runs on it."""
        return configuration({}).testbed.model_copy(update={"lock_timeout_s": TURN_S})

    def largest_frame(self, case: Case) -> int:
        """Largest frame that vSwitch, VNF and wire of a case carry.

        Args:
            case: The set-up.

        Returns:
            Octets including FCS.
        """
        return largest_frame(self.scenario(case, FrameTester.name))

    def scenario(self, case: Case, generator: str = "loadgen", **settings: Any) -> Scenario:
        """The scenario of a case, made as a user's is.

        Args:
            case: The set-up.
            generator: Registered name of the generator.
            **settings: More settings, e.g. ``set=("mtu=2000",)`` or ``frame_sizes=(64, 9000)``.

        Returns:
            The scenario.
        """
        wishes: dict[str, Any] = {
            "generator": generator,
            "wire": case.wire,
            "rules": case.rules,
            "forwarding": case.forwarding,
            "preset": "smoke",
            "nat": SESSIONS,
            "lb": SERVICES,
            **({"tunnel": case.tunnel} if case.tunnel else {}),
            **({"vnfs": case.vnfs} if case.vnfs else {}),
            **settings,
        }
        if case.mode:
            wishes["set"] = (f"mode={case.mode}", *wishes.get("set", ()))
        return make_scenario(f"{case.deployment}_{self.vswitch}", configuration(wishes))

    def plan(self, scenario: Scenario) -> Plan:
        """Plan a scenario; skips the test when this machine cannot carry it.

        Args:
            scenario: The scenario.

        Returns:
            The plan.
        """
        if os.geteuid() != 0:
            skip_or_fail(
                self.vswitch,
                "the contract kit deploys for real and needs root: run pytest with sudo",
            )
        try:
            return make_plan(scenario, self.testbed, self.facts)
        except CapabilityError as error:
            skip_or_fail(self.vswitch, str(error).replace("\n", ";"))

    @contextlib.contextmanager
    def deployed(self, scenario: Scenario) -> Iterator[LiveDeployment]:
        """A deployed scenario; the one that is deployed already, when it is the same and works.

        Args:
            scenario: The scenario.

        Yields:
            The deployment; after a failed test it is not used again.
        """
        if self._key != scenario or self._deployment is None:
            self.deploy(self.plan(scenario))
            self._key = scenario
        assert self._deployment is not None
        try:
            yield self._deployment
            self._deployment.check_alive()
        except BaseException:
            self.clear()
            raise

    @contextlib.contextmanager
    def used_up(self, scenario: Scenario) -> Iterator[LiveDeployment]:
        """As `deployed`, for tests after which it cannot be used again.

        Args:
            scenario: The scenario.

        Yields:
            The deployment.
        """
        plan = self.plan(scenario)
        deployment = self._deployment if self._key == scenario else None
        deployment = deployment or self.deploy(plan)
        self._key = None
        try:
            yield deployment
        finally:
            self.clear()

    def deploy(self, plan: Plan, **facts: Any) -> LiveDeployment:
        """Deploy in the place of what is deployed.

        Args:
            plan: The plan.
            **facts: Facts of the machine that differ from the real ones.

        Returns:
            The deployment.
        """
        self.clear()
        self._before, self._holders = snapshot_machine(), Holders()
        self._deployment = deploy_plan(plan, self.facts.model_copy(update=facts))
        return self._deployment

    def list_switch_processes(self, deployment: LiveDeployment) -> list[int]:
        """Processes that the vSwitch has started.

        Args:
            deployment: The deployed scenario.

        Returns:
            Process ids: those of the run, without the VNFs' and the generator's.
        """
        others = (*deployment.vnfs, deployment.generator)
        other_pids = {poller.pid for part in others for poller in part.pollers()}
        run_pids = {int(pid) for pid in run_processes(deployment.machine.run_id)}
        return sorted(run_pids - other_pids)

    def list_leftovers(self) -> tuple[str, ...]:
        """What differs from the machine before the last deployment, and is not shown to be others'.

        Returns:
            One readable line each.
        """
        own_lines, others, unclear = self._sort_differences()
        for line in others:
            warnings.warn(f"{self.vswitch}: meanwhile {line}", stacklevel=2)
        return (*own_lines, *unclear)

    def _sort_differences(
        self, run_id: str = "", changes: Iterable[Mapping[str, Any]] = ()
    ) -> tuple[list[str], list[str], list[str]]:
        """What a deployment left, what others did, and what nothing shows to be either's."""
        before, holders = self._before, self._holders
        lines: tuple[list[str], list[str], list[str]] = ([], [], [])
        if before is None or holders is None:
            return lines
        began = time.monotonic()

        def judged() -> bool:
            nonlocal lines
            now = snapshot.without_loaded(snapshot_machine(), before, self._loaded)
            differences = snapshot.compare_snapshots(before, now)
            lines = sort_differences(
                differences, run_id, changes, holders, Holders() if differences else None
            )
            own_lines, _, unclear = lines
            return not unclear and (not own_lines or time.monotonic() - began > PATIENCE_S)

        wait_at_most(judged, UNCLEAR_S, "the machine as it was before", poll_s=0.2)
        return lines

    def clear(self) -> None:
        """Take the deployment away; what it leaves is noted in `troubles`."""
        deployment, self._deployment = self._deployment, None
        self._key = None
        if deployment is not None:
            name = deployment.plan.scenario.id
            self._loaded |= snapshot.modules_loaded(deployment.run.journal)
            changes = [*deployment.run.journal.records("change")]
            steps = [f"not undone: {step}" for step in deployment.teardown()]
            own_lines, others, unclear = self._sort_differences(deployment.machine.run_id, changes)
            self.troubles += [f"{name}: {line}" for line in (*steps, *own_lines)]
            self.troubles += [f"{name}: {line}{_UNCLEAR}" for line in unclear]
            for line in others:
                warnings.warn(f"{name}: meanwhile {line}", stacklevel=2)

    def require_as_before(self) -> None:
        """Fail the test when a deployment has left something, in words and without a traceback."""
        if self.troubles:
            troubles = "\n".join(self.troubles)
            pytest.fail(f"{self.vswitch}: the machine is not as before:\n{troubles}", pytrace=False)

    def close(self) -> None:
        """Take everything away.

        Raises:
            AssertionError: Something is left.
        """
        self.clear()
        troubles = "\n".join(self.troubles)
        assert not troubles, f"{self.vswitch}: the machine is not as before:\n{troubles}"


def configuration(wishes: Mapping[str, Any]) -> config.Configuration:
    """Settings of a test, apart from those of whoever runs it; only the testbed is theirs.

    Args:
        wishes: Settings, as a user gives them.

    Returns:
        The configuration.
    """
    testbed = os.environ.get("VNETPERF_TESTBED")
    environment = {"VNETPERF_TESTBED": testbed} if testbed else {}
    try:
        return config.load(wishes, environment=environment, directory=Path(os.devnull))
    except ConfigError as error:
        pytest.fail(str(error), pytrace=False)


def snapshot_machine() -> snapshot.Snapshot:
    """The machine as far as a deployment may change it, while nobody else has one."""
    roots = HostRoots()
    lock = TestbedLock.acquire(roots, MACHINE_LOCK, "contract-kit", timeout_s=TURN_S)
    try:
        machine = snapshot.take_snapshot(roots, AREAS)
    finally:
        lock.release()
    areas = {name: dict(entries) for name, entries in machine.areas.items()}
    areas["files"] = {
        path: size
        for path, size in areas.get("files", {}).items()
        if not path.startswith(str(roots.locks))
    }
    areas["mounts"] = drop_test_mounts(areas.get("mounts", {}))
    areas["processes"] = run_processes()
    return snapshot.Snapshot(areas)


_STAGE: pytest.StashKey[Stage] = pytest.StashKey()


class Contract:
    """One vSwitch and where its tests deploy; the parts of the kit add the tests.

    Attributes:
        vswitch: Registered name of the vSwitch.
        known_failures: A part of a test's id -> why that test fails. Those tests must fail.
    """

    vswitch: ClassVar[str] = ""
    known_failures: ClassVar[Mapping[str, str]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the set-ups that the capabilities promise."""
        try:
            can = registry.load("vswitches", self.vswitch).capabilities
        except ConfigError as error:
            pytest.fail(str(error), pytrace=False)
        vnfs = [case for case in plain_cases(can) if case.has_vnfs]
        others = other_cases(can)
        choices: dict[str, list[Any]] = {
            "case": plain_cases(can),
            "look": [*others, *vnfs[:1]],
            "simple": [*others[:1], *vnfs[:1]],
            "untagged": [
                case
                for case in others
                if not case.has_vnfs and case.forwarding != "l3" and case.rules != "stream"
            ],
            "with_vnf": vnfs[:1],
        }
        for name, cases in choices.items():
            if name in metafunc.fixturenames:
                # One set-up is enough to state why there is none.
                choice = cases if len(cases) < 2 or is_carried(self.vswitch) else cases[:1]
                ids = [case.id for case in choice]
                metafunc.parametrize(name, choice, ids=ids, scope="class")
        if "undeclared" in metafunc.fixturenames:
            metafunc.parametrize("undeclared", [o for o in OPTION_VALUES if o not in can.options])

    @pytest.fixture(autouse=True)
    def _excuse(self, request: pytest.FixtureRequest) -> None:
        for part, reason in self.known_failures.items():
            if part in request.node.name:
                request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

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
        switch: type[VSwitch] = registry.load("vswitches", self.vswitch)
        return switch
