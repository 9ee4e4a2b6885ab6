"""Contract kit: a vSwitch that restarts, loses ports, stops, dies, fails to start, and goes."""

from __future__ import annotations

import os
import signal
import time
from threading import Timer
from typing import Any

import pytest

from vnetperf.model.errors import DutError, VnetperfError
from vnetperf.model.ports import PhyPort, Port, VnfPort
from vnetperf.model.scenario import Scenario
from vnetperf.model.trial import TrialSpec
from vnetperf.testbed.pathcheck import check_path
from vnetperf.testing.cases import Case, plain, varied
from vnetperf.testing.frames import FrameTester, stream_frame
from vnetperf.testing.single_frames import Sight, both
from vnetperf.testing.stage import Stage
from vnetperf.testing.trials import each_hop_counted_all, without_loss
from vnetperf.vswitches.base import VSwitch

LONG = TrialSpec(frame_size=64, load_fps=1000, duration_s=8.0, drain_s=0.2)
KILL_AFTER_S = 0.4


class LifeCycle(Sight):
    """Life and death."""

    def test_it_comes_back_after_a_restart(self, simple: Case, stage: Stage) -> None:
        """Same ports, same rules, and the tester and the VNF need not know."""
        with stage.used_up(stage.scenario(simple)) as deployment:
            deployment.restart_vswitch()
            check_path(deployment)
            result = without_loss(deployment)
            each_hop_counted_all(deployment, result)

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
                    back, out = both(deployment, stream.tx_port, frames)
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


def _kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _has(scenario: Scenario, ends: str) -> bool:
    graph = scenario.deployment
    return bool({"vnf_ports": graph.vnf_ports(), "phy_ports": graph.phy_ports}.get(ends, True))


def _ports_to_remove(scenario: Scenario) -> list[Port]:
    """Both ports of the second chain's VNF, or the far end."""
    graph = scenario.deployment
    if graph.chains > 1:
        return [VnfPort(vnf=1, index=0), VnfPort(vnf=1, index=1)]
    return [graph.ends[1] if graph.phy_ports else PhyPort(index=1)]
