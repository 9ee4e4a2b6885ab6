"""Contract kit of container networks, run on real software.

A plugin's tests name the network once: `class TestMine(NetworkContract): network = "mine"`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from vnetperf.deployment.one_host import deploy_plan
from vnetperf.deployment.path_check import check_path
from vnetperf.model.deployment import VnfPort
from vnetperf.model.errors import CapabilityError, DutError, VnetperfError
from vnetperf.model.scenario import ETHERNET_OCTETS, PodHosts, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import OCTETS_ADDED, POD_ATTACHED, POD_FIRST_PACKET, POD_REMOVED
from vnetperf.planning.planner import largest_frame, make_plan
from vnetperf.plugin import registry
from vnetperf.plugin.network import Network, NetworkCapabilities
from vnetperf.testing.cases import Case
from vnetperf.testing.frames import FrameTester, stream_frame
from vnetperf.testing.single_frames import routed, send_frames
from vnetperf.testing.stage import INJECTED, Contract, Stage, fail_after
from vnetperf.testing.vswitch import assert_hops_counted_all, without_loss

#: Two pods, each in the tester's hands.
PODS = Case("bmp2bmp")
PLACES: tuple[PodHosts, ...] = ("same", "other")
PARTS = ("prepare", "attach", "join")


class NetworkContract(Contract):
    """What any container network must do; a subclass names one.

    Attributes:
        network: Registered name of the network.
        options: What it is given by `--set`, e.g. ("mode=vepa",).
    """

    network: ClassVar[str] = ""
    options: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """The network stands in the place of a vSwitch."""
        super().__init_subclass__()
        cls.vswitch = cls.network

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the places that the capabilities promise."""
        if "place" in metafunc.fixturenames:
            metafunc.parametrize("place", self.can.frames, scope="class")

    @property
    def network_class(self) -> type[Network]:
        """The class under test."""
        network: type[Network] = registry.load("networks", self.network)
        return network

    @property
    def can(self) -> NetworkCapabilities:
        """What it promises."""
        return self.network_class.capabilities

    def _pods(
        self, stage: Stage, place: PodHosts, generator: str = "loadgen", **settings: Any
    ) -> Scenario:
        return stage.scenario(PODS, generator, hosts=place, set=self.options, **settings)

    def _frames(self, stage: Stage, place: PodHosts) -> Scenario:
        """Two pods with a tester of single frames, at the sizes of the network."""
        plain = self._pods(stage, place, FrameTester.name)
        sizes = (64, largest_frame(plain))
        return self._pods(stage, place, FrameTester.name, frame_sizes=sizes)

    def test_capabilities_are_complete(self) -> None:
        """Capabilities are complete, and name only what there is."""
        backend, can = self.network_class, self.can
        assert issubclass(backend, Network)
        assert backend.name == self.network, "its name is the one it is registered by"
        assert can.places, "pods can be nowhere"
        assert set(can.frames) <= set(can.places), "frames pass where no pods can be"
        assert set(can.routed) <= set(can.frames), "it routes where no frames pass"
        assert can.overhead >= 0
        assert backend.path, "nobody knows what a packet passes"

    def test_missing_answers_on_a_bare_machine(self, stage: Stage) -> None:
        """On a machine with nothing, `missing` answers in one sentence and does not raise."""
        bare = MachineFacts(cpus=())
        answer = self.network_class.missing(bare, self._pods(stage, self.can.frames[0]))
        assert isinstance(answer, str)
        assert "\n" not in answer

    def test_a_place_it_does_not_have_is_refused(self, stage: Stage) -> None:
        """Before anything is deployed, in one message that names the option."""
        gone = [place for place in PLACES if place not in self.can.frames]
        if not gone:
            pytest.skip(f"{self.network} has pods' ports on one host and on two")
        root = stage.facts.model_copy(update={"is_root": True})
        with pytest.raises(CapabilityError, match="--hosts"):
            deploy_plan(make_plan(self._pods(stage, gone[0]), stage.testbed, root), root)

    def test_all_frames_are_carried_and_counted(self, place: PodHosts, stage: Stage) -> None:
        """All frames of a slow trial arrive, both ways, and both pods' ports have counted each."""
        with stage.deployed(self._pods(stage, place)) as deployment:
            result = without_loss(deployment)
            assert_hops_counted_all(deployment, result)
            if deployment.vswitch.datapath_work():
                assert sum(work.packets for work in result.datapath) >= result.received

    def test_stopped_twice_it_leaves_the_machine_as_it_was(
        self, place: PodHosts, stage: Stage
    ) -> None:
        """`stop` is idempotent, and a stopped network has no busy threads.

        Links, mounts, modules, hugepages, files, processes: all as before.
        """
        with stage.used_up(self._pods(stage, place)) as deployment:
            deployment.vswitch.stop()
            assert deployment.vswitch.pollers() == ()
            deployment.vswitch.stop()
        stage.require_as_before()

    def test_frames_pass_as_they_are_switched_or_routed(
        self, place: PodHosts, stage: Stage
    ) -> None:
        """Smallest and largest, unchanged, or with the addresses and the TTL of a router."""
        with stage.deployed(self._frames(stage, place)) as deployment:
            scenario = deployment.plan.scenario
            routers = len(PLACES[: PLACES.index(place) + 1])  # each host is one
            for stream in scenario.streams:
                for size in (64, largest_frame(scenario)):
                    frame = stream_frame(stream, size, 1)
                    back, out = send_frames(deployment, stream.tx_port, [frame])
                    due = routed(scenario, stream, frame, routers) if scenario.routed else frame
                    assert back == [], "the frame came back"
                    assert out == [due], f"{size} octets"

    def test_pods_have_the_mtu_that_it_states(self, place: PodHosts, stage: Stage) -> None:
        """That of the hosts' link less what it adds, and the largest frame fits into it."""
        with stage.deployed(self._frames(stage, place)) as deployment:
            scenario = deployment.plan.scenario
            facts = deployment.vswitch.facts()
            assert len(facts["pods"]) == 2
            for pod in facts["pods"].values():
                netdev = pod["interface"].rpartition(" ")[2]
                if not self.can.by_socket:
                    assert deployment.machine.link(netdev).mtu == pod["MTU"]
                assert pod["MTU"] == self.network_class.pod_mtu(scenario)
                assert pod[POD_ATTACHED] >= 0
                assert largest_frame(scenario) <= pod["MTU"] + ETHERNET_OCTETS
            assert facts["pods"]["pod1"][POD_REMOVED] >= 0
            if self.can.by_socket:
                assert facts["first packet"].startswith("not measured: ")
            else:
                assert facts["pods"]["pod1"][POD_FIRST_PACKET] > 0
            # A network that does not know what its programs add states nothing.
            assert facts.get(OCTETS_ADDED, self.can.overhead) >= self.can.overhead

    def test_it_comes_back_after_a_restart(self, place: PodHosts, stage: Stage) -> None:
        """Pods are taken away, the network is stopped, and both come back."""
        with stage.deployed(self._frames(stage, place)) as deployment:
            deployment.restart_vswitch()
            check_path(deployment)

    def test_a_removed_pod_is_gone(self, place: PodHosts, stage: Stage) -> None:
        """Its port counts no more, the other's does, and taking it away again is an error."""
        with stage.used_up(self._frames(stage, place)) as deployment:
            gone = VnfPort(vnf=1, index=0)
            deployment.vswitch.remove_port(gone)
            deployment.check_alive()
            assert [c.port for c in deployment.vswitch.counters()] == ["vnf0.0"]
            with pytest.raises(VnetperfError):
                deployment.vswitch.remove_port(gone)

    @pytest.mark.parametrize("part", PARTS)
    def test_a_deployment_that_fails_leaves_nothing(
        self, part: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever was made by then is undone, and the error is the one that was raised."""
        place = self.can.frames[-1]
        plan = stage.plan(self._pods(stage, place, FrameTester.name))
        fail_after(self.network_class, part, monkeypatch)
        with pytest.raises(DutError, match=INJECTED):
            stage.deploy(plan)
        assert stage.list_leftovers() == ()
