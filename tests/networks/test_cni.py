"""CNI without a machine: conflists, what plugins are sent, and what is made of their answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.analysis.environment import comparability
from vnetperf.config.files import SHIPPED
from vnetperf.host import links
from vnetperf.model.deployment import VnfPort
from vnetperf.model.errors import CapabilityError, ConfigError, DutError
from vnetperf.model.result import RunResults
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.transfer import OCTETS_ADDED
from vnetperf.networks import cni
from vnetperf.planning.planner import largest_frame, make_plan
from vnetperf.plugin.network import Pod
from vnetperf.runner.scenarios import make_scenario
from vnetperf.runner.transfers import workload_scenario
from vnetperf.virt.pod_host import PodHost
from vnetperf.workloads.mpi import Mpi

PLUGINS = {"cni-plugins": "/usr/lib/cni/host-local"}
MACHINE = facts().model_copy(update={"programs": {**facts().programs, **PLUGINS}})
POOL = {"type": "host-local", "subnet": "10.9.0.0/24"}
PTP = {"type": "ptp", "ipam": POOL}


def conflist(*plugins: dict[str, Any], **keys: Any) -> dict[str, Any]:
    made = plugins or (PTP,)
    return {"cniVersion": "1.0.0", "name": "mine", "plugins": list(made), **keys}


def pool(**ipam: Any) -> dict[str, Any]:
    """A conflist that takes addresses as these keys say."""
    return conflist({"type": "ptp", "ipam": {"type": "host-local", **ipam}})


def written(folder: Path, content: Any) -> str:
    path = folder / "mine.conflist"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return f"conflist={path}"


def scenario(*options: str, **wishes: Any) -> Scenario:
    configured = config.load({"preset": "smoke", "set": options, **wishes}, environment={})
    return make_scenario("bmp2bmp_cni", configured)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "mine.conflist: cannot be read: Expecting property name"),
        ("[]", "mine.conflist: is no JSON object"),
        ({"name": "mine"}, "mine.conflist: cniVersion: is required, and missing"),
        (conflist(cniVersion="2.0.0"), "cniVersion is '2.0.0'; accepted: 0.3.0"),
        (
            conflist(plugins=[]),
            "mine.conflist: plugins: is empty; accepted: at least 1 entry",
        ),
        (
            conflist({"type": "../../bin/sh"}),
            "mine.conflist: plugins.0.type: '../../bin/sh' is not of the form that is expected; "
            "accepted: letters, digits and _ . -, as in a file name",
        ),
        (
            pool(type="/bin/sh"),
            "mine.conflist: plugins.0.ipam: '/bin/sh' is no file name of a plugin",
        ),
        (conflist(PTP | {"mtu": -1}), "mine.conflist: plugins.0.mtu"),
        (conflist({"type": "ptp"}), "plugins.0: ptp takes addresses, and there is no ipam"),
        (conflist({"type": "vlan"}), "plugins.0: vlan takes addresses, and there is no ipam"),
        (conflist({"type": "macvlan", "mode": "l2"}), "plugins.0: mode is 'l2'; accepted: bridge,"),
        (conflist({"type": "bridge", "bridge": "a" * 16}), "a name of more than 15 characters"),
        (
            conflist({"type": "bridge", "hairpinMode": True, "promiscMode": True}),
            "plugins.0: a bridge has hairpinMode or promiscMode, not both",
        ),
        (
            conflist({"type": "vlan", "vlanId": 4095, "ipam": POOL}),
            "plugins.0: vlanId is 4095; accepted: 0 to 4094",
        ),
        (
            conflist({"type": "tuning"}, PTP),
            "plugins.0.type: tuning changes the interface that a plugin before it makes",
        ),
        (
            conflist({"type": "bridge"}, PTP),
            "plugins.1.type: ptp makes the pod's interface, which the first, bridge, has made",
        ),
        (pool(type="dhcp"), "plugins.0.ipam: type is 'dhcp', whose daemon has a socket"),
        (pool(), "plugins.0.ipam: host-local needs ranges"),
        (pool(subnet="10.9.0.0/33"), "plugins.0.ipam: ranges.0.0: '10.9.0.0/33' does not appear"),
        (pool(subnet="10.9.0.1/24"), "ranges.0.0: 10.9.0.1/24 has host bits set"),
        (pool(subnet="10.9.0.0/31"), "ranges.0.0: 10.9.0.0/31 is too small"),
        (pool(ranges=[[{}]]), "ranges.0.0: there is no subnet"),
        (
            pool(ranges=[{"subnet": "10.9.0.0/24"}]),
            "ranges: [{'subnet': '10.9.0.0/24'}] is no list",
        ),
        (pool(ranges="10.9.0.0/24"), "plugins.0.ipam: ranges"),
        (pool(ranges=5), "plugins.0.ipam: ranges: 5 is no list"),
        (pool(ranges=[5]), "plugins.0.ipam: ranges: [5] is no list"),
        (pool(ranges=[["10.9.0.0/24"]]), "is no table"),
        (pool(subnet="10.9.0.7/32"), "ranges.0.0: 10.9.0.7/32 is too small"),
        (pool(subnet="10.9.0.0/24", rangeStart="10.8.0.1"), "rangeStart 10.8.0.1 and rangeEnd"),
        (
            pool(subnet="10.9.0.0/24", rangeStart="10.9.0.9", rangeEnd="10.9.0.8"),
            "rangeStart 10.9.0.9 is after rangeEnd 10.9.0.8",
        ),
        (
            conflist({"type": "macvlan"}, {"type": "ipvlan"}),
            "plugins ipvlan and macvlan cannot share an interface of the host",
        ),
    ],
)
def test_a_bad_conflist_is_refused_with_file_and_key(
    content: Any, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refusal:
        scenario(written(tmp_path, content))
    assert says in str(refusal.value)


def test_a_conflist_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    option = written(tmp_path, conflist())
    (tmp_path / "mine.conflist").chmod(0o666)
    with pytest.raises(ConfigError, match=r"is started as root, and .* written to by others"):
        scenario(option)


def test_an_unknown_name_lists_those_that_are_shipped() -> None:
    with pytest.raises(ConfigError, match=r"'bridg', did you mean 'bridge'\?.*macvlan, ptp"):
        scenario("conflist=bridg")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        scenario("conflist=./absent.conflist")


def test_every_conflist_that_is_shipped_can_be_planned() -> None:
    shipped = [path.stem for path in (SHIPPED / "cni").glob("*.conflist")]
    assert sorted(shipped) == ["bridge", "macvlan", "ptp"]
    for name in shipped:
        made = scenario(f"conflist={name}")
        assert f"conflist = vnetperf-{name}" in made.conditions
        make_plan(made, config.load({}, environment={}).testbed, MACHINE)


@pytest.mark.parametrize(
    ("plugin", "place", "routed"),
    [
        ("bridge", "same", False),
        ("bridge", "other", True),
        ("ptp", "same", True),
        ("macvlan", "other", False),
        ("of-mine", "other", False),
    ],
)
def test_routing_follows_the_plugin(plugin: str, place: str, routed: bool, tmp_path: Path) -> None:
    option = written(tmp_path, conflist({"type": plugin, "ipam": POOL}))
    assert scenario(option, hosts=place).routed is routed
    if plugin == "of-mine":  # of which nothing is known
        assert scenario(option, hosts=place, forwarding="l3").routed


def test_the_conflist_s_mtu_bounds_frames(tmp_path: Path) -> None:
    option = written(tmp_path, conflist(PTP | {"mtu": 1400}))
    assert largest_frame(scenario(option)) == 1418
    assert largest_frame(scenario("conflist=ptp")) == 1518
    assert largest_frame(scenario("conflist=macvlan")) == 9018


def test_what_is_missing_is_one_message() -> None:
    testbed = config.load({}, environment={}).testbed
    with pytest.raises(CapabilityError, match="install the package containernetworking-plugins"):
        make_plan(scenario(), testbed, MACHINE.model_copy(update={"programs": {}}))
    old = MACHINE.model_copy(update={"confinement": "Linux 5.10 has no mount_setattr(2)"})
    with pytest.raises(CapabilityError, match=r"kept from the machine's files: Linux 5\.10"):
        make_plan(scenario(), testbed, old)
    bare = MACHINE.model_copy(update={"modules": {"bridge": "not in this kernel"}})
    with pytest.raises(CapabilityError, match=r"no module bridge.*vnetperf lab"):
        make_plan(scenario(), testbed, bare)


def refusal(option: str, machine: MachineFacts = MACHINE, **wishes: Any) -> str:
    """What the planner answers to pods on a conflist."""
    made = scenario(option, **wishes)
    made = workload_scenario(Mpi(), made) if "pods" in wishes else made
    with pytest.raises(CapabilityError) as refused:
        make_plan(made, config.load({}, environment={}).testbed, machine)
    return str(refused.value)


def test_a_plugin_that_is_not_there_is_refused_with_file_key_and_folders(tmp_path: Path) -> None:
    folders = {"/opt/cni/bin": {}, "/usr/lib/cni": {"ptp": "", "host-local": "", "mine": ""}}
    machine = MACHINE.model_copy(update={"seen": {"cni": folders}})
    option = written(tmp_path, conflist(PTP, {"type": "of-nobody"}))
    says = refusal(option, machine)
    for words in (
        *(f"{tmp_path}/mine.conflist: plugins.1.type", "'of-nobody'"),
        *("/opt/cni/bin, /usr/lib/cni", "path under [cni]"),
    ):
        assert words in says
    option = written(tmp_path, conflist({"type": "mine", "ipam": {"type": "whereabouts"}}))
    says = refusal(option, machine)
    assert "plugins.0.ipam.type: " in says
    assert "'whereabouts'" in says
    testbed = config.load({}, environment={}).testbed
    make_plan(scenario(written(tmp_path, conflist(PTP))), testbed, machine)


def test_a_plugin_that_others_could_replace_is_refused_where_it_is_found_first(
    tmp_path: Path,
) -> None:
    folders = {"/opt/cni/bin": {"ptp": "/opt belongs to user 7"}, "/usr/lib/cni": {"ptp": ""}}
    machine = MACHINE.model_copy(update={"seen": {"cni": folders}})
    says = refusal(written(tmp_path, conflist(PTP)), machine)
    assert "plugins.0.type: " in says
    assert "'ptp'" in says
    assert "/opt belongs to user 7" in says


def test_the_inventory_has_what_is_in_the_folders_of_plugins(tmp_path: Path) -> None:
    (tmp_path / "data").touch(mode=0o644)
    (tmp_path / "ours").touch(mode=0o755)
    (tmp_path / "ours").chmod(0o777)
    (tmp_path / "folder").mkdir()
    plain = config.load({}, environment={}).testbed
    own = {**plain.model_dump(), "cni": {"path": (str(tmp_path), "/nowhere")}}
    seen = cni.CniNetwork.look(plain.model_validate(own))
    assert list(seen) == [str(tmp_path), "/nowhere"]
    assert seen["/nowhere"] == {}
    assert list(seen[str(tmp_path)]) == ["data", "ours"]
    assert "may be written to by others" in seen[str(tmp_path)]["ours"]
    assert seen[str(tmp_path)]["data"]


@pytest.mark.parametrize(
    ("addresses", "pods", "says"),
    [
        ({"rangeStart": "10.9.0.2", "rangeEnd": "10.9.0.2"}, 2, "has 1 address to give"),
        ({"rangeStart": "10.9.0.1", "rangeEnd": "10.9.0.2"}, 2, "has 1 address to give"),
        ({"rangeStart": "10.9.0.2", "rangeEnd": "10.9.0.8"}, 8, "has 7 addresses to give"),
        ({"rangeStart": "10.9.0.2", "rangeEnd": "10.9.0.3"}, 2, ""),
        ({"ranges": [[{"subnet": "10.8.0.0/30"}]]}, 2, "has 1 address to give, and there are 2"),
        ({"ranges": [[{"subnet": "10.8.0.0/30"}, {"subnet": "10.7.0.0/30"}]]}, 2, ""),
        ({"ranges": [[{"subnet": "fd00::/64"}]]}, 64, ""),
    ],
)
def test_a_pool_with_too_few_addresses_is_refused_before_anything_is_made(
    addresses: dict[str, Any], pods: int, says: str, tmp_path: Path
) -> None:
    ranged = {"subnet": "10.9.0.0/24", **addresses} if "ranges" not in addresses else addresses
    option = written(tmp_path, pool(**ranged))
    if says:
        found = refusal(option, pods=pods)
        assert "mine.conflist: plugins.0.ipam: " in found
        assert says in found
        return
    made = workload_scenario(Mpi(), scenario(option, pods=pods))
    make_plan(made, config.load({}, environment={}).testbed, MACHINE)


def test_an_mtu_that_the_hosts_link_does_not_have_is_refused(tmp_path: Path) -> None:
    testbed = config.load({}, environment={}).testbed
    long = written(tmp_path, conflist(PTP | {"mtu": 9000}))
    says = refusal(long, hosts="other")
    for words in ("plugins.0.mtu: 9000", "1500", "--set mtu=9000"):
        assert words in says
    make_plan(scenario(long, hosts="same"), testbed, MACHINE)  # which passes no link
    make_plan(scenario(long, "mtu=9000", hosts="other"), testbed, MACHINE)
    child = written(tmp_path, conflist({"type": "macvlan", "mtu": 9000}))
    assert "plugins.0.mtu: 9000 is more" in refusal(child, hosts="same")


def test_a_mode_of_macvlan_that_parts_pods_is_refused(tmp_path: Path) -> None:
    option = written(tmp_path, conflist({"type": "macvlan", "mode": "vepa"}))
    says = refusal(option, hosts="same")
    assert "plugins.0.mode: " in says
    assert "mode vepa" in says
    make_plan(scenario(option, hosts="other"), config.load({}, environment={}).testbed, MACHINE)


@pytest.mark.parametrize("plugins", [({**PTP, "ipMasq": True},), (PTP, {"type": "portmap"})])
def test_rules_of_a_packet_filter_need_its_program(
    plugins: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    option = written(tmp_path, conflist(*plugins))
    assert "the package iptables" in refusal(option)
    filters = {"programs": {**MACHINE.programs, "iptables": "/usr/sbin/iptables"}}
    testbed = config.load({}, environment={}).testbed
    make_plan(scenario(option), testbed, MACHINE.model_copy(update=filters))


def test_rules_of_nftables_need_no_iptables(tmp_path: Path) -> None:
    filters = ({**PTP, "ipMasq": True, "ipMasqBackend": "nftables"}, {"type": "portmap"})
    option = written(tmp_path, conflist(filters[0], {**filters[1], "backend": "nftables"}))
    make_plan(scenario(option), config.load({}, environment={}).testbed, MACHINE)


def test_a_vlan_takes_one_pod_of_a_host(tmp_path: Path) -> None:
    option = written(tmp_path, conflist({"type": "vlan", "vlanId": 10, "ipam": POOL}))
    testbed = config.load({}, environment={}).testbed
    with pytest.raises(CapabilityError, match=r"vlan .*; --hosts other"):
        make_plan(scenario(option, hosts="same"), testbed, MACHINE)


def test_more_pods_than_a_vlan_can_have_are_refused(tmp_path: Path) -> None:
    option = written(tmp_path, conflist({"type": "vlan", "vlanId": 10, "ipam": POOL}))
    testbed = config.load({}, environment={}).testbed
    make_plan(workload_scenario(Mpi(), scenario(option, hosts="other", pods=2)), testbed, MACHINE)
    with pytest.raises(CapabilityError, match=r"vlan has 1 pod .*; choose --pods 2"):
        make_plan(
            workload_scenario(Mpi(), scenario(option, hosts="other", pods=3)), testbed, MACHINE
        )


def test_an_ipvlan_is_left_to_the_network_of_that_name(tmp_path: Path) -> None:
    option = written(tmp_path, conflist({"type": "ipvlan", "master": "eth0"}))
    testbed = config.load({}, environment={}).testbed
    with pytest.raises(CapabilityError, match=r"ipvlan is not run: .*; choose bmp2bmp_ipvlan"):
        make_plan(scenario(option), testbed, MACHINE)


def test_a_plugin_reads_its_own_keys_and_what_it_declares() -> None:
    plugin = {
        "type": "bridge",
        "bridge": "cni0",
        "capabilities": {"mac": True, "ips": False, "dns": True},
    }
    whole = conflist(plugin)
    assert cni.make_request(whole, plugin, {"mac": "02:00:00:00:00:01", "ips": ["a"]}, None) == {
        "cniVersion": "1.0.0",
        "name": "mine",
        "type": "bridge",
        "bridge": "cni0",
        "runtimeConfig": {"mac": "02:00:00:00:00:01"},
    }
    chained = cni.make_request(whole, {"type": "tuning"}, {}, {"interfaces": []})
    assert chained["prevResult"] == {"interfaces": []}


@pytest.mark.parametrize(
    ("status", "out", "err", "says"),
    [
        (1, '{"code": 11, "msg": "full", "details": "no address"}', "", "status 1: full: no addr"),
        (2, "panic", "goroutine 1", "status 2: goroutine 1"),
        (127, "", "", "status 127: no message"),
        (0, "not JSON", "", "answered 'not JSON' instead of a result"),
        (0, "[]", "", "instead of a result in JSON"),
    ],
)
def test_a_plugin_s_failure_is_one_message(status: int, out: str, err: str, says: str) -> None:
    done = subprocess.CompletedProcess(["x"], status, out, err)
    with pytest.raises(DutError) as failure:
        cni.read_answer(done, "ADD", "CNI plugin x, ADD")
    assert says in str(failure.value)
    assert str(failure.value).startswith("CNI plugin x, ADD: ")


def test_del_may_answer_nothing() -> None:
    assert cni.read_answer(subprocess.CompletedProcess(["x"], 0, "", ""), "DEL", "x") is None


class OneMachine:
    """What a network asks of a machine, without one."""

    run_id, facts, netns = "run", MACHINE, Path("/machine")

    def __init__(self, folder: Path) -> None:
        self.run_dir, self.deleted = folder, list[str]()

    def subdir(self, name: str) -> Path:
        (self.run_dir / name).mkdir(exist_ok=True)
        return self.run_dir / name

    def interface_name(self, name: str) -> str:
        return f"vp{name}"

    def link(self, name: str) -> Any:
        return SimpleNamespace(name=name, kind="veth", mtu=1500)

    def delete_link(self, name: str) -> None:
        self.deleted.append(name)

    def create_netns(self, path: Path) -> None: ...

    def set_link(self, name: str, *, mac: str) -> None: ...


def network(folder: Path, *options: str, **wishes: Any) -> tuple[cni.CniNetwork, Any, PodHost]:
    """The network of a scenario, its machine and its first host."""
    plan = make_plan(scenario(*options, **wishes), config.load({}, environment={}).testbed, MACHINE)
    machine: Any = OneMachine(folder)
    return cni.CniNetwork(machine, plan), machine, PodHost(machine, 0)


def pod(number: int) -> Pod:
    return Pod(
        port=VnfPort(vnf=number, index=0),
        netdev=f"vpp{number}",
        mac=f"02:76:00:00:00:0{number}",
        address=f"198.18.0.{number + 1}",
        gateway_mac="02:76:00:00:01:00",
    )


def answer_add(monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]) -> None:
    """Have plugins make pods' interfaces with this result, without a plugin and a kernel."""
    monkeypatch.setattr(cni.CniRuntime, "add", lambda *_: result)
    monkeypatch.setattr(cni.CniRuntime, "check", lambda *_: None)
    for name in ("move", "make_ready"):
        monkeypatch.setattr(links, name, lambda *_, **__: None)


def test_one_more_pod_leaves_the_neighbours_of_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbours, held = set[str](), {"cni0": "fe:00:00:00:00:01"}

    def set_address(name: str, mac: str, **_: Any) -> None:
        held[name] = mac
        neighbours.clear()  # as the kernel does, to whatever address it is set

    monkeypatch.setattr(links, "get", lambda name, _: SimpleNamespace(mac=held[name]))
    monkeypatch.setattr(links, "set_address", set_address)
    monkeypatch.setattr(PodHost, "add_neighbour", lambda _, name, ip, mac: neighbours.add(ip))
    monkeypatch.setattr(PodHost, "add_route", lambda *_: None)
    made, _, host = network(tmp_path, hosts="other")
    answer_add(monkeypatch, {"interfaces": [{"name": "cni0"}]})
    for number in (0, 2):
        port = made.attach(host, pod(number))
        assert port.gateway == held["cni0"] == "02:76:00:00:01:00"
    assert neighbours == {"198.18.0.1", "198.18.0.3"}


def test_a_pod_is_taken_away_after_a_restart_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cni.CniRuntime, "delete", lambda *_, **__: None)
    made, machine, host = network(tmp_path, hosts="same")
    one = pod(0)
    answer_add(monkeypatch, {})
    made.attach(host, one)
    made.remove([host])
    monkeypatch.setattr(cni.CniRuntime, "add", lambda *_: pytest.fail("it is there"))
    monkeypatch.setattr(made, "is_plugged", lambda _: True)
    port = made.attach(host, one)
    assert machine.deleted == []
    made.detach(host, port)
    assert machine.deleted == [one.netdev]
    assert made.facts()["results"] == {}


def facts_of(folder: Path, monkeypatch: pytest.MonkeyPatch, content: Any) -> dict[str, Any]:
    """Facts of the network of a conflist, on two hosts."""
    monkeypatch.setattr(cni.CniRuntime, "find", lambda _, plugin: Path("/usr/lib/cni", plugin))
    return network(folder, written(folder, content), hosts="other")[0].facts()


@pytest.mark.parametrize(
    ("plugin", "octets"), [("bridge", 0), ("macvlan", 0), ("vlan", 4), ("of-mine", None)]
)
def test_octets_between_hosts_are_stated_where_they_are_known(
    plugin: str, octets: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = facts_of(tmp_path, monkeypatch, conflist({"type": plugin, "ipam": POOL}))
    assert found.get(OCTETS_ADDED) == octets
    assert (OCTETS_ADDED in found) is (octets is not None)


def test_plugins_are_looked_for_where_they_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuple(str(Path(place).parent) for place in cni.PLUGINS.places) == cni.PLACES
    assert cni.CniNetwork.programs[0] is cni.PLUGINS  # whose path external_program is asked for
    plain = config.load({}, environment={}).testbed
    mine = plain.model_validate({**plain.model_dump(), "cni": {"path": (str(tmp_path),)}})
    assert cni.CniNetwork.external_program(mine, "/found/host-local") == "/found/host-local"
    (tmp_path / "ptp").touch(mode=0o755)
    assert cni.CniNetwork.external_program(mine, "") == f"{tmp_path}/ptp"
    named = mine.model_copy(update={"programs": {"cni_plugins": "/named"}})
    assert cni.CniNetwork.external_program(named, "/named") == "/named"
    found = facts_of(tmp_path, monkeypatch, conflist(PTP))
    assert found["version"].startswith("Linux ")


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({}, "CNI 1.0.0: ADD, CHECK, DEL"),
        ({"cniVersion": "0.4.0"}, "CNI 0.4.0: ADD, CHECK, DEL"),
        ({"cniVersion": "0.3.1"}, "CNI 0.3.1: ADD, DEL"),
        ({"disableCheck": True}, "CNI 1.0.0: ADD, DEL"),
        ({"cniVersion": "1.1.0", "disableGC": True}, "CNI 1.1.0: ADD, CHECK, DEL"),
    ],
)
def test_the_launch_line_has_what_plugins_are_called_with(
    keys: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = facts_of(tmp_path, monkeypatch, conflist() | keys)
    assert found["launch line"] == line


def test_the_default_conflist_by_its_name_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_of: Callable[[Plan], RunResults]
) -> None:
    monkeypatch.setattr(cni.CniRuntime, "find", lambda _, plugin: Path("/usr/lib/cni", plugin))

    def compared(*options: str) -> dict[str, str]:
        made, _, _ = network(tmp_path, *options, hosts="other")
        results = run_of(made.plan)
        (one,) = results.scenarios
        told = one.model_copy(update={"facts": {"vswitch": made.facts()}})
        return comparability(results.model_copy(update={"scenarios": (told,)}), one.scenario)

    plain = compared()
    assert "vnetperf-bridge" in plain["options"]
    assert compared("conflist=bridge") == plain
    assert compared("conflist=ptp")["options"] != plain["options"]
    assert compared("conflist=bridge", "mtu=9000")["options"] != plain["options"]


@pytest.mark.parametrize(
    ("result", "names"),
    [
        ({"interfaces": [{"name": "v0"}, {"name": "eth0", "sandbox": "/run/x"}]}, ["v0"]),
        ({"interfaces": None, "ips": None}, []),
        ({}, []),
        ({"interfaces": [None, {"name": None}, {"name": "v0", "sandbox": None}]}, ["v0"]),
    ],
)
def test_what_a_plugin_leaves_null_names_no_interface(
    result: dict[str, Any], names: list[str]
) -> None:
    assert [*cni.find_host_interfaces(result)] == names
