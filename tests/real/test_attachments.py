"""vloop at every kind of attachment that this machine can have, between the generator's ports.

The vSwitch is left out: the generator is at the other end of each attachment, so that what comes
back has been through the VNF and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import MACHINE_LOCK
from vnetperf.host.dpdk import VHOST_NET
from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.model.deployment import Attachment, VnfPort, WireEnd, make_deployment, vnf_mac
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec
from vnetperf.testing.stage import repeat_trial
from vnetperf.traffic.loadgen.driver import Loadgen
from vnetperf.vnfs.vloop import Vloop
from vnetperf.vnfs.vloop.process import PollingVloop

pytestmark = pytest.mark.daily

Unchanged = Callable[[], tuple[str, ...]]
Ends = tuple[list[Attachment], list[WireEnd]]
#: Frames of each direction, and the fewest that a generator without a core to itself still sends.
FRAMES, LEAST = 600, 200
TRIAL = TrialSpec(frame_size=64, load_fps=2000.0, duration_s=0.3, drain_s=1.0)


#: testpmd, which has a processor to itself here as well; and our forwarder.
PROGRAMS = {"testpmd": PollingVloop, "forwarder": Vloop}
each_program = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)


def plan_of(*, queues: int = 1, size: int = 1518, mode: str = "io") -> Plan:
    scenario = Scenario(
        deployment=make_deployment("phy2phy"),
        vswitch="none",
        vnf_mode=mode,
        traffic=TrafficProfile(),
        options=SwitchOptions(rx_queues=queues),
        max_frame_size=size,
    )
    placement = Placement(
        mode="shared",
        reason="a test",
        cores={"tester": (0,), "vnf0": (1,), "vnf1": (1,)},  # so that it takes turns
        housekeeping=(0,),
    )
    return Plan(
        scenario=scenario,
        testbed=Testbed(),
        wire="memif",
        placement=placement,
        memory=(),
        tester_rx_queues=queues,
    )


@pytest.fixture
def machine(unchanged: Unchanged) -> Iterator[Machine]:
    del unchanged  # compares when all is undone
    with HostRun.open(testbed=MACHINE_LOCK, timeout_s=120.0) as run:
        yield Machine(run, take_inventory(Testbed()))


def memif_ends(machine: Machine, plan: Plan) -> Ends:
    """The generator listens, the VNF connects."""
    attachments, ends = [], []
    for n in (0, 1):
        socket = str(machine.run_dir / f"vnf{n}.sock")
        attachments.append(Attachment(port=VnfPort(vnf=0, index=n), kind="memif", socket=socket))
        ends.append(WireEnd(wire=0, kind="memif", side="tester", socket=socket, role="server"))
    return attachments, ends


def veth_ends(machine: Machine, plan: Plan) -> Ends:
    attachments, ends = [], []
    for n in (0, 1):
        vnf, tester = machine.interface_name(f"v{n}"), machine.interface_name(f"t{n}")
        machine.create_veth(vnf, tester, plan.scenario.mtu)
        attachments.append(Attachment(port=VnfPort(vnf=0, index=n), kind="veth", netdev=vnf))
        ends.append(WireEnd(wire=n, kind="veth", side="tester", netdev=tester))
    return attachments, ends


def tap_ends(machine: Machine, plan: Plan) -> Ends:
    """The generator is the kernel's side of the taps, where a bridge would be."""
    attachments, ends = [], []
    for n in (0, 1):
        tap = machine.interface_name(f"p{n}")
        machine.create_tap(tap, plan.scenario.mtu)
        attachments.append(Attachment(port=VnfPort(vnf=0, index=n), kind="tap", netdev=tap))
        ends.append(WireEnd(wire=n, kind="veth", side="tester", netdev=tap))
    return attachments, ends


KINDS = {"memif": memif_ends, "veth": veth_ends, "tap": tap_ends}


@each_program
@pytest.mark.parametrize("size", [64, 1518, 9018])
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_frame_comes_back_through_the_vnf(
    program: type[Vloop], kind: str, size: int, machine: Machine
) -> None:
    if kind == "tap" and size > 1518 and not Path(VHOST_NET).exists():
        pytest.skip("net_tap carries no jumbo frames, and there is no /dev/vhost-net")
    plan = plan_of(size=max(1518, size))
    attachments, ends = KINDS[kind](machine, plan)
    sent = with_addresses(attachments)
    vnf, generator = program(machine, plan, 0), Loadgen(machine, plan)
    before = {a.netdev: machine.link(a.netdev) for a in sent if kind == "tap" and a.netdev}
    try:
        if kind == "memif":  # the server's socket must be there
            generator.connect(tuple(ends))
            vnf.launch((sent[0], sent[1]))
        else:
            vnf.launch((sent[0], sent[1]))
            vnf.wait_ready(30.0)
            generator.connect(tuple(ends))
        vnf.wait_ready(30.0)
        streams = plan.scenario.streams
        generator.prepare(streams, plan.scenario.traffic, size)
        generator.learn(64)
        assert_whole_trial(generator, vnf, TRIAL.model_copy(update={"frame_size": size}))
        inside = vnf.counters()
        assert all(hop.rx >= LEAST and hop.tx >= LEAST for hop in inside)
        facts = vnf.facts()
        assert (facts["application"] == "vnetperf forwarder") == (program is Vloop)
        assert [kind in port for port in facts["ports"]] == [True, True]
        assert ("--no-huge" in facts["launch line"]) == (facts["memory"] == "ordinary pages")
        for n, port in enumerate(facts["ports"]):
            assert vnf_mac(VnfPort(vnf=0, index=n)).upper() in port.upper(), port
        for netdev, link in before.items():  # a bridge keeps frames for its port's own address
            assert machine.link(netdev).mac == link.mac
            assert machine.link(netdev).mtu == plan.scenario.mtu
    finally:
        generator.close()
        vnf.stop()


def assert_whole_trial(generator: Loadgen, vnf: Vloop, trial: TrialSpec) -> None:
    """A trial that loses nothing; as in a path check, links need a moment after they are up."""
    assert_whole(repeat_trial(lambda: generator.run(trial, vnf.check_alive)))


def assert_whole(result: TrialResult) -> None:
    """What was sent came back, both ways."""
    assert [d.intended for d in result.directions] == [FRAMES, FRAMES]
    for direction in result.directions:
        assert direction.received == direction.sent >= LEAST
        assert direction.duplicated == direction.misrouted == 0


def with_addresses(attachments: list[Attachment]) -> list[Attachment]:
    return [a.model_copy(update={"mac": vnf_mac(a.port)}) for a in attachments]


@each_program
@pytest.mark.parametrize("kind", ["memif", "veth"])
def test_mode_mac_writes_the_addresses_of_the_attachment(
    program: type[Vloop], kind: str, machine: Machine
) -> None:
    plan = plan_of(mode="mac")
    attachments, ends = KINDS[kind](machine, plan)
    peers = ("02:76:64:00:00:00", "02:76:64:00:00:01")
    sent = [
        a.model_copy(update={"peer_mac": peers[n]})
        for n, a in enumerate(with_addresses(attachments))
    ]
    vnf, generator = program(machine, plan, 0), Loadgen(machine, plan)
    try:
        if kind == "memif":
            generator.connect(tuple(ends))
            vnf.launch((sent[0], sent[1]))
        else:
            vnf.launch((sent[0], sent[1]))
            vnf.wait_ready(30.0)
            generator.connect(tuple(ends))
        vnf.wait_ready(30.0)
        option = "--eth-peer={},{}" if program is PollingVloop else "--peer{}={}"
        assert {option.format(n, mac) for n, mac in enumerate(peers)} <= set(vnf.argv)
        generator.prepare(plan.scenario.streams, plan.scenario.traffic, 64)
        generator.learn(64)
        assert_whole_trial(generator, vnf, TRIAL)
    finally:
        generator.close()
        vnf.stop()


@each_program
def test_a_vnf_of_two_queues_takes_frames_on_both(program: type[Vloop], machine: Machine) -> None:
    plan = plan_of(queues=2)
    profile = TrafficProfile(flows=64, vary=("ipv4_src",))
    attachments, ends = memif_ends(machine, plan)
    sent = [a.model_copy(update={"queues": 2}) for a in attachments]
    vnf, generator = program(machine, plan, 0), Loadgen(machine, plan)
    try:
        generator.connect(tuple(ends))
        vnf.launch((sent[0], sent[1]))
        vnf.wait_ready(30.0)
        generator.prepare(plan.scenario.streams, profile, 64)
        generator.learn(64)
        assert_whole_trial(generator, vnf, TRIAL)
        assert "2/2 rx/tx queues" in vnf.facts()["ports"][0]
        assert vnf.telemetry is not None
        stats = vnf.telemetry.ask("/ethdev/stats,0")
        assert all(count > 0 for count in stats["q_ipackets"][:2]), stats
    finally:
        generator.close()
        vnf.stop()
