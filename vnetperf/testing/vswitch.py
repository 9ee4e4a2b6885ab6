"""Contract kit of vSwitches, run on real software.

A plugin's tests name the backend once: `class TestMine(VSwitchContract): vswitch = "mine"`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Timer

import pytest

from vnetperf.analysis.attribution import locate_losses
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.path_check import check_path
from vnetperf.deployment.trial import run_trial
from vnetperf.model.deployment import PhyPort, Port, VnfPort
from vnetperf.model.errors import CapabilityError, DutError, VnetperfError
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import STANDARD_FRAME_SIZE, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.plugin.dut import Dut
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities
from vnetperf.testing.cases import NEEDED_OPTIONS, OPTION_VALUES, Case, other_cases, plain_cases
from vnetperf.testing.frames import FrameTester, stream_frame
from vnetperf.testing.single_frames import SILENCE_S, Sighting, SingleFrames, send_frames
from vnetperf.testing.stage import INJECTED, Contract, Stage, fail_after, kill, repeat_trial


class Promises(Contract):
    """Its capabilities are true to their form, and what it does not promise is refused."""

    def test_capabilities_are_complete(self) -> None:
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
        assert plain_cases(can), "no deployment can be made with these capabilities"

    def test_missing_answers_on_a_bare_machine(self, stage: Stage) -> None:
        """On a machine with nothing, `missing` answers in one sentence and does not raise."""
        for case in plain_cases(self.backend.capabilities):
            answer = self.backend.missing(MachineFacts(cpus=()), stage.scenario(case))
            assert isinstance(answer, str)
            assert "\n" not in answer

    def test_an_option_it_does_not_declare_is_refused(self, undeclared: str, stage: Stage) -> None:
        """Before anything is deployed, in one message that names the option."""
        can, option = self.backend.capabilities, undeclared
        needed = NEEDED_OPTIONS.get(option, ())
        settings = tuple(f"{name}={OPTION_VALUES[name]}" for name in (*needed, option))
        scenario = stage.scenario(plain_cases(can)[0], set=settings)
        root = stage.facts.model_copy(update={"is_root": True})
        with pytest.raises(CapabilityError) as refusal:
            make_plan(scenario, stage.testbed, root)
        assert any(f"has no option {name}" in str(refusal.value) for name in (*needed, option))


#: Slow enough for any switch on any machine, and far too fast for all.
EASY = TrialSpec(
    frame_size=64,
    load_fps=1000,
    duration_s=0.3,
    drain_s=0.5,
    learning_frames=16,
    learning_wait_s=0.3,
)
HARD = EASY.model_copy(update={"load_fps": 20e6})


class TrialChecks(Contract):
    """Counters add up, at a slow rate, under overload, and with every option it declares."""

    def test_all_frames_are_forwarded_and_counted(self, case: Case, stage: Stage) -> None:
        """All frames of a slow trial arrive, both ways, and each hop has counted each of them."""
        with stage.deployed(stage.scenario(case)) as deployment:
            trial = without_loss(deployment)
            assert_hops_counted_all(deployment, trial)
            if deployment.vswitch.datapath_work():
                assert "datapath" not in trial.uncollected
                packets = sum(work.packets for work in trial.datapath)
                assert packets >= trial.received

    def test_counters_agree_with_the_tester_under_overload(
        self, simple: Case, stage: Stage
    ) -> None:
        """Along the way frames only become fewer, and every lost one is found somewhere."""
        with stage.deployed(stage.scenario(simple)) as deployment:
            trial = run_trial(deployment, HARD)
            assert trial.failure == ""
            graph = deployment.plan.scenario.deployment
            hops = {hop.port: hop for hop in trial.hops}
            for counts in trial.directions:
                assert counts.duplicated == counts.misrouted == 0
                previous = counts.sent
                for ports, field in _way(deployment, counts.direction):
                    now = sum(getattr(hops[str(port)], field) for port in ports)
                    names = ", ".join(map(str, ports))
                    assert now <= previous, f"{names} has {field} of {now}, after {previous}"
                    previous = now
                assert counts.received <= previous
            lost = sum(max(0, trial.lost(counts)) for counts in trial.directions)
            assert sum(locate_losses(graph, trial).values()) == lost

    def test_it_takes_the_options_it_declares(self, stage: Stage) -> None:
        """All at once; it forwards, and its facts have the values."""
        can = self.backend.capabilities
        case = other_cases(can)[0]
        mode = case.mode or next(iter(can.modes), "")
        settings = tuple(
            f"{name}={text}"
            for name, text in OPTION_VALUES.items()
            if name in can.options and mode in can.option_modes.get(name, (mode,))
        )
        if not settings:
            pytest.skip(f"{self.vswitch} declares no options")
        # Some are of VNF ports alone: then the first deployment with one.
        others = (replace(plain, wire=case.wire, mode=case.mode) for plain in plain_cases(can))
        scenarios = [stage.scenario(setup, set=settings) for setup in (case, *others)]
        fitting = (s for s in scenarios if not self.backend.missing(stage.facts, s))
        with stage.deployed(next(fitting, scenarios[0])) as deployment:
            without_loss(deployment)
            facts = str(deployment.vswitch.facts())
            for name in {"rx_descriptors", "tx_descriptors", "mtu"} & set(can.options):
                assert OPTION_VALUES[name] in facts, f"facts() lacks {name}"


def without_loss(deployment: LiveDeployment) -> TrialResult:
    """A slow trial in which nothing is lost."""

    def run() -> TrialResult:
        trial = run_trial(deployment, EASY)
        assert trial.failure == ""
        assert all(trial.lost(d) >= 0 for d in trial.directions), "more came than was sent"
        return trial

    trial = repeat_trial(run)
    lost = {f"port {d.direction}": trial.lost(d) for d in trial.directions}
    assert not any(lost.values()), f"frames lost at {EASY.load_fps:g} frames/s: {lost}"
    for counts in trial.directions:
        assert counts.received == counts.sent > 0
        assert (counts.duplicated, counts.misrouted) == (0, 0)
    return trial


def _way(deployment: LiveDeployment, direction: int) -> Iterator[tuple[set[Port], str]]:
    """Ports that a direction's frames pass, of all chains, and the counter that sees them."""
    graph = deployment.plan.scenario.deployment
    paths = [graph.path(graph.ends[direction], chain) for chain in range(graph.chains)]
    for position, ports in enumerate(zip(*paths, strict=True)):
        yield set(ports), "tx" if position % 2 else "rx"


def assert_hops_counted_all(deployment: LiveDeployment, trial: TrialResult) -> None:
    """Assert that every port on a direction's way has counted each frame that was sent."""
    hops = {hop.port: hop for hop in trial.hops}
    for port in deployment.plan.scenario.deployment.ports:
        assert str(port) in hops, f"counters() has no entry for {port}"
    for counts in trial.directions:
        for ports, field in _way(deployment, counts.direction):
            counted = sum(getattr(hops[str(port)], field) for port in ports)
            names = ", ".join(sorted(map(str, ports)))
            assert counted == counts.sent, f"{field} of {names}, direction {counts.direction}"


LONG = TrialSpec(frame_size=64, load_fps=1000, duration_s=8.0, drain_s=0.2)
KILL_AFTER_S = 0.4
#: Of a trial in which the switch is killed: a process on a busy machine takes seconds to end.
MORTAL = LONG.model_copy(update={"duration_s": 30.0})


class LifeCycle(Sighting):
    """Life and death."""

    def test_it_comes_back_after_a_restart(self, simple: Case, stage: Stage) -> None:
        """Same ports, same rules, and the tester and the VNF need not know."""
        with stage.deployed(stage.scenario(simple)) as deployment:
            deployment.restart_vswitch()
            check_path(deployment)
            trial = without_loss(deployment)
            assert_hops_counted_all(deployment, trial)

    def test_stopped_twice_it_leaves_the_machine_as_it_was(
        self, simple: Case, stage: Stage
    ) -> None:
        """`stop` is idempotent, and a stopped switch has no busy threads.

        Links, mounts, modules, hugepages, files, processes: all as before.
        """
        with stage.used_up(stage.scenario(simple)) as deployment:
            deployment.vswitch.stop()
            assert deployment.vswitch.pollers() == ()
            deployment.vswitch.stop()
        stage.require_as_before()

    def test_a_removed_port_leaves_the_others_working(self, stage: Stage) -> None:
        """What is left forwards; what led to the port ends; removing it again is an error."""
        can = self.backend.capabilities
        chains = next((c for c in plain_cases(can) if c.deployment == "pvpv"), None)
        case = chains or other_cases(can)[0]
        scenario = stage.scenario(case, FrameTester.name)
        gone = _ports_to_remove(scenario)
        with stage.used_up(scenario) as deployment:
            for port in gone:
                deployment.vswitch.remove_port(port)
            deployment.check_alive()
            ports_left = {counters.port for counters in deployment.vswitch.counters()}
            assert not ports_left & set(map(str, gone)), "a removed port still has counters"
            for stream in self._streams(deployment):
                frames = [stream_frame(stream, 64, 1)]
                if stream.chain == 0 and chains:
                    self._passes(deployment, stream.tx_port, frames, "a chain that was left alone")
                elif scenario.deployment.ends[stream.tx_port] not in gone:
                    traffic = "frames to a port that is gone"
                    if chains:
                        frames_out = self._until_the_next(
                            deployment, stream.tx_port, frames, traffic
                        )
                    else:
                        frames_out = send_frames(
                            deployment, stream.tx_port, frames, expect=0, quiet_s=SILENCE_S
                        )
                    assert frames_out == ([], []), f"{traffic} went on"
            with pytest.raises(VnetperfError):
                deployment.vswitch.remove_port(gone[0])

    def test_its_death_in_a_trial_is_no_number(self, stage: Stage) -> None:
        """A trial in which a process of the switch is killed fails by the DUT."""
        first, *others = other_cases(self.backend.capabilities)
        for case in (first, *(other for other in others if other.mode)):
            with stage.used_up(stage.scenario(case)) as deployment:
                pids = stage.list_switch_processes(deployment)
                if not pids:
                    continue  # the kernel forwards, in this mode
                timer = Timer(KILL_AFTER_S, kill, [pids])
                timer.start()
                began = time.monotonic()
                trial = run_trial(deployment, MORTAL)
                timer.join()
                assert trial.failed == "dut", trial.failure or "the trial was taken for a number"
                assert trial.directions == ()
                assert trial.failure
                assert time.monotonic() - began < MORTAL.duration_s, "nobody noticed while it ran"
                return
        pytest.skip(f"{self.vswitch} has no processes here: the kernel forwards")

    @pytest.mark.parametrize("step", ["start", "add_phy_port", "add_vnf_port", "connect"])
    def test_a_deployment_that_fails_leaves_nothing(
        self, step: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever was made by then is undone, and the error is the one that was raised."""
        can = self.backend.capabilities
        ends = {"add_vnf_port": "vnf_ports", "add_phy_port": "phy_ports"}.get(step, "ports")
        fitting = [c for c in plain_cases(can) if _has(stage.scenario(c), ends)]
        if not fitting:
            pytest.skip(f"{self.vswitch} has no deployment with {ends.replace('_', ' ')}")
        plan = stage.plan(stage.scenario(fitting[0], FrameTester.name))
        # One that has a class for each mode hands the plan on to it.
        kind: type[Dut] = self.backend
        if kind.__new__ is not object.__new__:
            kind = type(stage.deploy(plan).vswitch)
            stage.clear()
        fail_after(kind, step, monkeypatch)
        with pytest.raises(DutError, match=INJECTED):
            stage.deploy(plan)
        assert stage.list_leftovers() == ()

    def test_broken_programs_are_reported(self, stage: Stage) -> None:
        """With /bin/false for every program it fails soon, in one of our messages, and cleanly."""
        case = other_cases(self.backend.capabilities)[0]
        plan = stage.plan(stage.scenario(case, FrameTester.name))
        try:
            stage.deploy(plan, programs=dict.fromkeys(stage.facts.programs, "/bin/false"))
        except VnetperfError:
            pass  # anything else than a message of ours fails the test
        else:
            stage.clear()
            pytest.skip(f"{self.vswitch} uses none of the programs that the machine's facts name")
        assert stage.list_leftovers() == ()


def _has(scenario: Scenario, ends: str) -> bool:
    graph = scenario.deployment
    return bool({"vnf_ports": graph.vnf_ports(), "phy_ports": graph.phy_ports}.get(ends, True))


def _ports_to_remove(scenario: Scenario) -> list[Port]:
    """Both ports of the second chain's VNF, or the far end."""
    graph = scenario.deployment
    if graph.chains > 1:
        return [VnfPort(vnf=1, index=0), VnfPort(vnf=1, index=1)]
    return [graph.ends[1] if graph.phy_ports else PhyPort(index=1)]


class VSwitchContract(LifeCycle, SingleFrames, TrialChecks, Promises):
    """What any vSwitch must do; a subclass names one. Tests of the last part run first.

    Every deployment, wire, mode, rule and layer that its capabilities promise is deployed for real:

    - Frames of several protocols, every size up to the largest, VLAN tags, broadcast and unknown
      destinations come out unchanged, once, at the right port only. A router takes one from the TTL
      and readdresses. Nothing passes a VNF that stands still.
    - Each hop's counters equal the tester's. Under overload every lost frame is attributed.
    - Declared options work all at once; others are refused before deployment.
    - It restarts, loses a port, and stops twice.
    - When its processes are killed in a trial, the trial fails and is no number.
    - A deployment leaves the machine as it was, also one that fails at any step. Changes that other
      programs hold meanwhile are warnings (see `vnetperf.testing.others`).

    Attributes:
        vswitch: Registered name of the vSwitch.
        known: What it is known not to do: a part of a test's id -> why. Those tests must fail.
    """
