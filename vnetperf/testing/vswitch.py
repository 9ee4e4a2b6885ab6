"""The contract kit of vSwitches: what every backend must do, tried on real software.

A plugin's own tests name it once:

    from vnetperf.testing import VSwitchContract

    class TestMySwitch(VSwitchContract):
        vswitch = "my_switch"
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from threading import Timer
from typing import Any, ClassVar

import pytest

from vnetperf import registry
from vnetperf.bench.attribution import lost_at
from vnetperf.model.errors import CapabilityError, ConfigError, DutError, VnetperfError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.options import SwitchOptions
from vnetperf.model.ports import PhyPort, Port, VnfPort
from vnetperf.model.scenario import STANDARD_FRAME_SIZE, Scenario
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.testbed.deploy import Deployment
from vnetperf.testbed.pathcheck import check_path
from vnetperf.testbed.plan import make_plan
from vnetperf.testing.cases import Case, plain, varied
from vnetperf.testing.frames import BATCH, FrameTester, stream_frame
from vnetperf.testing.headers import ADDRESSES, STRANGERS, TAGS, addressed, contents, routed, tagged
from vnetperf.testing.stage import Stage
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities

#: A value for each option that differs from what a backend does by itself.
OPTIONS: dict[str, str] = {
    "rx_queues": "2",
    "rx_descriptors": "512",
    "tx_descriptors": "512",
    "workers": "1",
    "rxq_affinity": '[{port = "phy0", queue = 0, worker = 0}]',
    "rss": '"l4"',
    "mtu": "2000",
    "offloads": "false",
    "memory_mib": "[384]",
}
#: Slow enough for any switch on any machine, and far too fast for all.
EASY = TrialSpec(
    frame_size=64,
    load_fps=1000,
    duration_s=0.3,
    drain_s=0.5,
    learning_frames=16,
    learning_wait_s=0.3,
)
HARD = TrialSpec(
    frame_size=64,
    load_fps=20e6,
    duration_s=0.3,
    drain_s=0.5,
    learning_frames=16,
    learning_wait_s=0.3,
)
LONG = TrialSpec(frame_size=64, load_fps=1000, duration_s=8.0, drain_s=0.2)
KILL_AFTER_S = 0.4
#: Trials until one loses nothing: on shared cores a frame may come too late now and then.
TRIES = 8
RFC2544_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)


class VSwitchContract:
    """What any vSwitch must do; a subclass names one.

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

    # --- before anything is deployed ----------------------------------------------------------

    def test_says_what_it_can(self) -> None:
        """Capabilities are complete, and name only what there is."""
        backend, can = self.backend, self.backend.capabilities
        assert issubclass(backend, VSwitch)
        assert backend.name == self.vswitch, "its name is the one it is registered by"
        assert isinstance(can, VSwitchCapabilities)
        assert can.rules, "it forwards by something"
        assert can.forwarding, "it forwards at some layer"
        assert can.wires or can.attachments, "nothing can be plugged in"
        unknown = set(can.options) - set(SwitchOptions.model_fields)
        assert not unknown, f"no such options: {', '.join(sorted(unknown))}"
        assert "mode" not in can.options, "modes are named in `modes`"
        assert len(set(can.modes)) == len(can.modes)
        assert can.max_frame_size >= STANDARD_FRAME_SIZE
        assert plain(can), "no deployment can be made with these capabilities"

    def test_says_what_is_missing_on_a_bare_machine(self, stage: Stage) -> None:
        """On a machine with nothing, `missing` answers in one sentence and does not raise."""
        for case in plain(self.backend.capabilities):
            answer = self.backend.missing(MachineFacts(cpus=()), stage.scenario(case))
            assert isinstance(answer, str)
            assert "\n" not in answer

    @pytest.mark.parametrize("option", OPTIONS)
    def test_an_option_it_does_not_declare_is_refused(self, option: str, stage: Stage) -> None:
        """Before anything is deployed, in one message that names the option."""
        can = self.backend.capabilities
        if option in can.options:
            pytest.skip(f"{self.vswitch} declares {option}")
        needed = {"rxq_affinity": ["rx_queues", "workers"]}.get(option, [])
        settings = tuple(f"{name}={OPTIONS[name]}" for name in (*needed, option))
        scenario = stage.scenario(plain(can)[0], set=settings)
        root = stage.facts.model_copy(update={"is_root": True})
        with pytest.raises(CapabilityError) as refusal:
            make_plan(scenario, stage.testbed, root)
        assert any(f"has no option {name}" in str(refusal.value) for name in (*needed, option))

    # --- what goes in comes out ---------------------------------------------------------------

    def test_every_frame_is_forwarded_and_counted(self, case: Case, stage: Stage) -> None:
        """All frames of a slow trial arrive, both ways, and each hop has counted each of them."""
        with stage.deployed(stage.scenario(case)) as deployment:
            result = _without_loss(deployment)
            _each_hop_counted_all(deployment, result)

    def test_frames_come_out_as_they_went_in(self, look: Case, stage: Stage) -> None:
        """Every octet, once, at the right port and nowhere else; a router ages and readdresses."""
        scenario = self._seen(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                for kind, frame in contents(stream).items():
                    if (scenario.routed or scenario.rules == "stream") and kind != "IPv4":
                        continue  # only the streams' own frames are forwarded
                    self._passes(deployment, stream.tx_port, [frame], kind)

    def test_every_frame_size(self, look: Case, stage: Stage) -> None:
        """From 64 octets to the largest it says it carries."""
        scenario = self._seen(look, stage)
        largest = scenario.max_frame_size
        sizes = [*range(64, 72), *RFC2544_SIZES, *range(1519, largest, 997), largest - 1, largest]
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                frames = [stream_frame(stream, size, size) for size in dict.fromkeys(sizes)]
                for start in range(0, len(frames), BATCH):
                    some = frames[start : start + BATCH]
                    self._passes(deployment, stream.tx_port, some, f"sizes from {len(some[0]) + 4}")

    @pytest.mark.parametrize("standard", TAGS)
    def test_vlan_tags_pass(self, standard: str, look: Case, stage: Stage) -> None:
        """Tags are part of the frame: nobody asked the vSwitch to know VLANs."""
        if look.has_vnfs:
            pytest.skip("a VNF's driver may know VLANs; the vSwitch is looked at without one")
        if look.forwarding == "l3" or look.rules == "stream":
            pytest.skip("only the streams' own frames, which have no tag, are forwarded")
        scenario = self._seen(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                frame = tagged(stream_frame(stream, 64, 3), TAGS[standard])
                self._passes(deployment, stream.tx_port, [frame], standard)

    @pytest.mark.parametrize("who", STRANGERS)
    def test_frames_for_nobody(self, who: str, look: Case, stage: Stage) -> None:
        """By port every frame goes on; one that learns floods; a router drops; none comes back."""
        scenario = self._seen(look, stage)
        with stage.deployed(scenario) as deployment:
            for stream in scenario.streams:
                frame = addressed(stream_frame(stream, 64, 4), STRANGERS[who])
                if scenario.routed and "multicast" not in who:
                    _, out = _both(deployment, stream.tx_port, [frame])
                    assert out == [], f"a router forwarded a frame for {who}"
                elif scenario.routed or scenario.rules == "stream" or scenario.addressing == "port":
                    back, _ = _both(deployment, stream.tx_port, [frame])
                    assert back == [], f"a frame for {who} came back to its sender"
                else:
                    self._passes(deployment, stream.tx_port, [frame], who)

    def test_no_way_leads_round_a_vnf(self, with_vnf: Case, stage: Stage) -> None:
        """While the VNF stands still nothing arrives: ports without a hop are apart."""
        scenario = self._seen(with_vnf, stage)
        with stage.used_up(scenario) as deployment:
            pids = {poller.pid for vnf in deployment.vnfs for poller in vnf.pollers()}
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                for stream in scenario.streams:
                    frames = [stream_frame(stream, 64, n) for n in range(BATCH)]
                    back, out = _both(deployment, stream.tx_port, frames)
                    assert back == []
                    assert out == [], "frames got past a VNF that does not run"
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)

    def test_counters_agree_with_the_tester_under_overload(
        self, simple: Case, stage: Stage
    ) -> None:
        """Along the way frames only become fewer, and every lost one is found somewhere."""
        with stage.deployed(stage.scenario(simple)) as deployment:
            result = deployment.run_trial(HARD)
            assert result.failure == ""
            graph = deployment.plan.scenario.deployment
            hops = {hop.port: hop for hop in result.hops}
            for counts in result.directions:
                assert counts.duplicated == counts.misrouted == 0
                at = counts.sent
                for ports, field in _way(deployment, counts.direction):
                    now = sum(getattr(hops[str(port)], field) for port in ports)
                    names = ", ".join(map(str, ports))
                    assert now <= at, f"{names} has {field} of {now}, after {at}"
                    at = now
                assert counts.received <= at
            lost = sum(max(0, result.lost(counts)) for counts in result.directions)
            assert sum(lost_at(graph, result).values()) == lost

    def test_it_takes_the_options_it_declares(self, stage: Stage) -> None:
        """All at once; it forwards, and its facts tell the values."""
        can = self.backend.capabilities
        settings = tuple(f"{name}={text}" for name, text in OPTIONS.items() if name in can.options)
        if not settings:
            pytest.skip(f"{self.vswitch} declares no options")
        with stage.deployed(stage.scenario(varied(can)[0], set=settings)) as deployment:
            _without_loss(deployment)
            told = str(deployment.vswitch.facts())
            for name in {"rx_descriptors", "tx_descriptors", "mtu"} & set(can.options):
                assert OPTIONS[name] in told, f"facts() does not tell {name}"

    # --- life and death -----------------------------------------------------------------------

    def test_it_comes_back_after_a_restart(self, simple: Case, stage: Stage) -> None:
        """Same ports, same rules, and the tester and the VNF need not know."""
        with stage.used_up(stage.scenario(simple)) as deployment:
            deployment.restart_vswitch()
            check_path(deployment)
            result = _without_loss(deployment)
            _each_hop_counted_all(deployment, result)

    def test_a_removed_port_leaves_the_others_working(self, stage: Stage) -> None:
        """What is left forwards; what led to the port ends; removing it again is an error."""
        can = self.backend.capabilities
        chains = next((c for c in plain(can) if c.deployment == "pvpv"), None)
        case = chains or varied(can)[0]
        scenario = stage.scenario(case, FrameTester.name)
        gone = _ports_to_remove(scenario)
        with stage.used_up(scenario) as deployment:
            for port in gone:
                deployment.vswitch.remove_port(port)
            deployment.check_alive()
            left = {counters.port for counters in deployment.vswitch.counters()}
            assert not left & set(map(str, gone)), "a removed port still has counters"
            for stream in scenario.streams:
                frames = [stream_frame(stream, 64, 1)]
                if stream.chain == 0 and chains:
                    self._passes(deployment, stream.tx_port, frames, "a chain that was left alone")
                elif scenario.deployment.ends[stream.tx_port] not in gone:
                    back, out = _both(deployment, stream.tx_port, frames)
                    assert (back, out) == ([], []), "frames went on to a port that is gone"
            with pytest.raises(VnetperfError):
                deployment.vswitch.remove_port(gone[0])

    def test_stopping_twice_is_stopping_once(self, simple: Case, stage: Stage) -> None:
        """`stop` is idempotent, and a stopped switch has no busy threads."""
        with stage.used_up(stage.scenario(simple, FrameTester.name)) as deployment:
            deployment.vswitch.stop()
            assert deployment.vswitch.pollers() == ()
            deployment.vswitch.stop()

    def test_its_death_in_a_trial_is_no_number(self, stage: Stage) -> None:
        """A trial in which a process of the switch is killed fails, and says whose fault it is."""
        scenario = stage.scenario(varied(self.backend.capabilities)[0])
        with stage.used_up(scenario) as deployment:
            pids = stage.processes_of_the_switch(deployment)
            if not pids:
                pytest.skip(f"{self.vswitch} has no processes here: the kernel forwards")
            timer = Timer(KILL_AFTER_S, _kill, [pids])
            timer.start()
            began = time.monotonic()
            result = deployment.run_trial(LONG)
            timer.join()
            assert result.failed == "dut", result.failure or "the trial was taken for a number"
            assert result.directions == ()
            assert result.failure
            assert time.monotonic() - began < LONG.duration_s, "nobody noticed while it ran"

    @pytest.mark.parametrize("step", ["start", "add_phy_port", "add_vnf_port", "connect"])
    def test_a_deployment_that_fails_leaves_nothing(
        self, step: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever was made by then is undone, and the error is the one that was raised."""
        can = self.backend.capabilities
        ends = {"add_vnf_port": "vnf_ports", "add_phy_port": "phy_ports"}.get(step, "ports")
        fitting = [c for c in plain(can) if _has(stage.scenario(c), ends)]
        if not fitting:
            pytest.skip(f"{self.vswitch} has no deployment with {ends.replace('_', ' ')}")
        plan = stage.plan(stage.scenario(fitting[0], FrameTester.name))
        original = getattr(self.backend, step)

        def fail(switch: VSwitch, *arguments: Any) -> None:
            original(switch, *arguments)
            raise DutError("injected by the contract kit", where=step)

        monkeypatch.setattr(self.backend, step, fail)
        with pytest.raises(DutError, match="injected by the contract kit"):
            stage.deploy(plan)
        assert stage.left_behind() == ()

    def test_programs_that_do_not_work_are_told(self, stage: Stage) -> None:
        """With /bin/false for every program it fails soon, in one of our messages, and cleanly."""
        case = varied(self.backend.capabilities)[0]
        plan = stage.plan(stage.scenario(case, FrameTester.name))
        try:
            stage.deploy(plan, programs=dict.fromkeys(stage.facts.programs, "/bin/false"))
        except VnetperfError:
            pass  # anything else than a message of ours fails the test
        else:
            stage.clear()
            pytest.skip(f"{self.vswitch} uses none of the programs that the machine's facts name")
        assert stage.left_behind() == ()

    def test_it_leaves_the_machine_as_it_was(self, simple: Case, stage: Stage) -> None:
        """Links, mounts, modules, hugepages, files, processes: all as before."""
        with stage.deployed(stage.scenario(simple)):
            pass
        stage.clear()
        assert stage.troubles == []

    # --- what the tests share -----------------------------------------------------------------

    def _seen(self, case: Case, stage: Stage) -> Scenario:
        """The scenario of a case for single frames, up to the largest that everything carries."""
        largest = stage.largest_frame(case)
        return stage.scenario(case, FrameTester.name, frame_sizes=(64, largest))

    def _readdressed(self, scenario: Scenario) -> bool:
        """Whether a VNF, or the vSwitch in this mode, writes addresses of its own into frames."""
        by_vnf = scenario.deployment.vnf_count > 0 and scenario.vnf_mode != "io"
        return by_vnf or scenario.options.mode in self.backend.capabilities.rewriting_modes

    def _passes(self, deployment: Deployment, port: int, frames: list[bytes], what: str) -> None:
        """Assert that frames sent into a port come out of the other, and nothing else anywhere."""
        scenario = deployment.plan.scenario
        stream = next(s for s in scenario.streams if s.tx_port == port)
        back, out = _both(deployment, port, frames)
        assert back == [], f"{what}: {len(back)} frames came back to tester port {port}"
        if scenario.routed:
            due = [routed(scenario, stream, frame) for frame in frames]
        elif self._readdressed(scenario):
            due, out = [f[ADDRESSES:] for f in frames], [f[ADDRESSES:] for f in out]
        else:
            due = frames
        assert len(out) == len(due), f"{what}: {len(due)} frames in, {len(out)} out"
        for went, came in zip(sorted(due), sorted(out), strict=True):
            assert came.hex(" ") == went.hex(" "), f"{what}: not the frame that went in"


_STAGE: pytest.StashKey[Stage] = pytest.StashKey()


def _kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _has(scenario: Scenario, ends: str) -> bool:
    graph = scenario.deployment
    return bool({"vnf_ports": graph.vnf_ports(), "phy_ports": graph.phy_ports}.get(ends, True))


def _both(
    deployment: Deployment, port: int, frames: list[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Send frames into a tester port: what came back there, what came out of the other."""
    tester = deployment.generator
    assert isinstance(tester, FrameTester)
    caught = tester.exchange(port, frames)
    return caught[port], caught[1 - port]


def _without_loss(deployment: Deployment) -> TrialResult:
    """A slow trial in which nothing is lost."""
    for attempt in range(TRIES):
        result = deployment.run_trial(EASY)
        assert result.failure == ""
        lost = {f"port {d.direction}": result.lost(d) for d in result.directions}
        assert all(frames >= 0 for frames in lost.values()), f"more came than was sent: {lost}"
        if not any(lost.values()):  # what was not sent on a busy machine is nobody's loss
            break
        assert attempt + 1 < TRIES, f"frames lost at {EASY.load_fps:g} frames/s: {lost}"
    for counts in result.directions:
        assert counts.received == counts.sent > 0
        assert (counts.duplicated, counts.misrouted) == (0, 0)
    return result


def _way(deployment: Deployment, direction: int) -> Iterator[tuple[set[Port], str]]:
    """Ports that a direction's frames pass, of all chains, and the counter that sees them."""
    graph = deployment.plan.scenario.deployment
    paths = [graph.path(graph.ends[direction], chain) for chain in range(graph.chains)]
    for position, ports in enumerate(zip(*paths, strict=True)):
        yield set(ports), "tx" if position % 2 else "rx"


def _each_hop_counted_all(deployment: Deployment, result: TrialResult) -> None:
    hops = {hop.port: hop for hop in result.hops}
    for port in deployment.plan.scenario.deployment.ports:
        assert str(port) in hops, f"counters() has no entry for {port}"
    for counts in result.directions:
        for ports, field in _way(deployment, counts.direction):
            counted = sum(getattr(hops[str(port)], field) for port in ports)
            names = ", ".join(sorted(map(str, ports)))
            assert counted == counts.sent, f"{field} of {names}, direction {counts.direction}"


def _ports_to_remove(scenario: Scenario) -> list[Port]:
    """Both ports of the second chain's VNF, or the far end."""
    graph = scenario.deployment
    if graph.chains > 1:
        return [VnfPort(vnf=1, index=0), VnfPort(vnf=1, index=1)]
    return [graph.ends[1] if graph.phy_ports else PhyPort(index=1)]
