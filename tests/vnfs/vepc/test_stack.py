"""The mobile core's stack and its users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vnetperf import config
from vnetperf.host.programs import linked_libraries
from vnetperf.model.errors import ConfigError
from vnetperf.model.options import MobileCore, MobileCoreOptions, StackProgram, UeAttach
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.trial import HopCounters
from vnetperf.plugin import registry
from vnetperf.plugin.vnf import UserPlane
from vnetperf.runner.scenarios import make_scenario
from vnetperf.vnfs.vepc import stack
from vnetperf.vnfs.vepc.stack import parse_udp
from vnetperf.vnfs.vepc.vm import VmVepc
from vnetperf.vnfs.vloop import Vloop

INTERFACES = stack.MobileCoreInterfaces("gn0", "sgi0")


def shipped() -> list[str]:
    return config.available("stacks")


def scenario(scenario_id: str = "vepc_bridge", **settings: Any) -> Scenario:
    return make_scenario(scenario_id, config.load(settings, environment={}))


def with_text(**changes: Any) -> MobileCore:
    return MobileCore(
        name="mine",
        programs=(StackProgram(role="core", argv=("mycore",), ready="up"),),
        gtpu_modes={"tun": "tun"},
        tun="tun0",
    ).model_copy(update=changes)


@pytest.mark.parametrize("name", shipped())
def test_a_stack_that_ships_has_nothing_that_stands_for_nothing(name: str) -> None:
    found = config.load({"core": (name,)}, environment={}).stack
    assert found.name == name
    for mode in found.gtpu_modes:
        assert stack.stack_problem(found, MobileCoreOptions(gtpu_mode=mode)) == ""


def test_values_reach_files_and_command_lines() -> None:
    osmo = config.load({}, environment={}).stack
    known = stack.stack_values(
        osmo, MobileCoreOptions(gtpu_mode="kernel"), INTERFACES, Path("/run/x")
    )
    (text,) = stack.stack_files(osmo, known).values()
    assert "gtpu-mode kernel-gtp\n" in text
    assert "gtp bind-ip 192.0.2.1\n" in text
    assert "gtp state-dir /run/x\n" in text
    assert "$" not in text
    paths = known | {"osmo-ggsn.cfg": "/run/x/osmo-ggsn.cfg"}
    argv = stack.program_argv(osmo.programs[0], paths, osmo)
    assert argv == ("osmo-ggsn", "-c", "/run/x/osmo-ggsn.cfg")


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    wrong = with_text(files={"a.conf": "listen ${gn_adress}"})
    said = stack.stack_problem(wrong, MobileCoreOptions())
    assert "${gn_adress} stands for nothing" in said
    assert "gn_address" in said
    assert "mine.toml" in said


def test_a_mode_that_a_core_has_not_is_told() -> None:
    assert "accepted: tun" in stack.stack_problem(
        with_text(), MobileCoreOptions(gtpu_mode="kernel")
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"forwarding": "l3"}, "--forwarding"),
        ({"vnf_mode": "mac"}, "--vnf-mode"),
        ({"rules": "stream"}, "--rules"),
    ],
)
def test_what_a_core_cannot_is_one_sentence(settings: dict[str, str], said: str) -> None:
    found = stack.mobile_core_problem(
        MachineFacts.model_construct(programs={}), scenario(**settings), "vepc"
    )
    assert said in found
    assert "\n" not in found


def test_addresses_of_ues_are_not_varied_twice() -> None:
    plain = scenario()
    traffic = plain.traffic.model_copy(update={"flows": 4, "vary": ("ipv4_src",)})
    varied = plain.model_copy(update={"traffic": traffic})
    assert "--core sessions" in stack.mobile_core_problem(
        MachineFacts.model_construct(), varied, "vepc"
    )


def test_a_core_that_is_not_installed_is_named_with_its_package() -> None:
    facts = MachineFacts.model_construct(programs={"osmo-ggsn": ""}, program_troubles={})
    problem = stack.mobile_core_problem(facts, scenario(), "vepc")
    assert "the package osmo-ggsn" in problem


def test_the_deployment_chooses_the_vnf() -> None:
    assert scenario(vnf="vloop:container").vnf == "vepc"
    assert scenario(vnf="vepc:container").vnf == "vepc:container"
    assert scenario("pvp_bridge").stack is None
    assert not issubclass(Vloop, UserPlane)
    facts = MachineFacts.model_construct()
    elsewhere = stack.mobile_core_problem(facts, scenario("pvp_bridge", vnf="vepc"), "vepc")
    assert "-k vepc_bridge" in elsewhere


def test_a_stack_file_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('tun = "t"\ngtpu_modes = { tun = "tun" }\nprogram = []\n')
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        config.load({"core": (str(path),)}, environment={})


def test_sessions_are_options() -> None:
    loaded = config.load({"core": ("osmo-ggsn", "sessions=50", "ramp=10")}, environment={})
    assert (loaded.mobile_core.sessions, loaded.mobile_core.ramp) == (50, 10.0)
    with pytest.raises(ConfigError, match="command line: core"):
        config.load({"core": ("session=50",)}, environment={})
    with pytest.raises(ConfigError, match="second file"):
        config.load({"core": ("osmo-ggsn", "other")}, environment={})


def test_more_sessions_than_a_core_has_room_for_are_told() -> None:
    osmo = config.load({}, environment={}).stack
    assert stack.stack_problem(osmo, MobileCoreOptions(sessions=1023)) == ""
    assert "up to 1023" in stack.stack_problem(osmo, MobileCoreOptions(sessions=1024))


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../x", "", "..", "netns"])
def test_a_file_stays_in_the_directory_of_its_core(name: str) -> None:
    with pytest.raises(ValueError, match="no plain name"):
        MobileCore.model_validate({**with_text().model_dump(), "files": {name: ""}})


def test_a_file_is_not_called_like_a_value() -> None:
    assert "${gn} would be either" in stack.stack_problem(
        with_text(files={"gn": ""}), MobileCoreOptions()
    )


def test_a_ue_is_looked_at_before_anything_starts() -> None:
    ue = StackProgram(role="ue", argv=("ue", "--tun", "${tun}", "--to", "${sgsn}"), ready="up")
    assert "${sgsn} stands for nothing" in stack.stack_problem(
        with_text(ue=ue), MobileCoreOptions()
    )
    right = ue.model_copy(update={"argv": ("ue", "${tun}", "${gn_address}", "${ue_network}")})
    assert stack.stack_problem(with_text(ue=right), MobileCoreOptions()) == ""


@pytest.mark.parametrize("linked", [False, True])
def test_a_build_without_the_mode_is_told(tmp_path: Path, linked: bool) -> None:
    program = tmp_path / "osmo-ggsn"
    program.write_bytes(b"\x7fELF\0libgtp.so.6\0" + b"libgtpnl.so.0\0" * linked)
    paths = {"osmo-ggsn": str(program), "vpp": ""}
    facts = MachineFacts.model_construct(
        programs=paths,
        program_troubles={},
        modules={"gtp": ""},
        libraries={"osmo-ggsn": linked_libraries(str(program))},
    )
    assert "libgtp" in facts.libraries["osmo-ggsn"]
    said = stack.mobile_core_problem(facts, scenario(core=("gtpu_mode=kernel",)), "vepc")
    assert ("osmo-ggsn has no gtpu_mode kernel" in said) != linked


def test_what_is_known_of_no_build_is_left_to_its_log() -> None:
    facts = MachineFacts.model_construct(
        programs={"osmo-ggsn": "/elsewhere/osmo-ggsn"}, program_troubles={}, modules={"gtp": ""}
    )
    assert stack.mobile_core_problem(facts, scenario(core=("gtpu_mode=kernel",)), "vepc") == ""


def test_a_core_in_a_vm_is_attached_to_over_its_wire() -> None:
    in_vm = scenario(vnf="vepc:vm")
    assert stack.guest_mobile_core_problem(in_vm) == ""
    attach = UeAttach(by="command", argv=("attach",))
    own = in_vm.model_copy(update={"stack": with_text(attach=attach)})
    facts = MachineFacts.model_construct()
    assert "--vnf vepc:container" in VmVepc.missing(facts, own)


def test_a_core_in_our_image_has_no_mode_of_the_kernel() -> None:
    facts = MachineFacts.model_construct()
    in_vm = scenario(vnf="vepc:vm", core=("gtpu_mode=kernel",))
    assert "has no gtpu_mode kernel" in VmVepc.missing(facts, in_vm)
    other = scenario(vnf="vepc:vm", core=("gtpu_mode=kernel",), guest=("image=mine",))
    assert stack.guest_mobile_core_problem(other) == ""


def facts(**programs: str) -> MachineFacts:
    found = {"sgsnemu": "/usr/bin/sgsnemu", **programs}
    return MachineFacts.model_construct(programs=found, program_troubles={})


@pytest.mark.parametrize("vnf", ["vepc", "vepc:vm"])
def test_what_keeps_users_away_is_known_before_anything_is_deployed(vnf: str) -> None:
    here = scenario(vnf=vnf)
    plan = Plan.model_construct(scenario=here, wire="veth")
    loaded = registry.load_vnf(vnf)
    assert loaded.no_users(facts(), plan) == ""
    assert "the package osmo-ggsn" in loaded.no_users(facts(sgsnemu=""), plan)
    by_memif = plan.model_copy(update={"wire": "memif"})
    assert "--wire veth" in loaded.no_users(facts(), by_memif)
    assert here.stack is not None
    alone = here.model_copy(update={"stack": here.stack.model_copy(update={"ue": None})})
    without_ue = plan.model_copy(update={"scenario": alone})
    assert "[ue]" in loaded.no_users(facts(), without_ue)


def test_counters_of_udp_are_read_by_name_or_not_known() -> None:
    names = "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors"
    text = f"Udp: {names}\nUdp: 1 2 3 4 5 6\nUdpLite: {names}\nUdpLite: 9 9 9 9 9 9\n"
    found = parse_udp(text, "x")
    assert found == HopCounters(port="x", rx=1, tx=4, rx_dropped=7, tx_dropped=6)
    for odd in ("", "Udp: InDatagrams\n", text.replace("1 2 3", "1 x 3"), text.replace(" 5 6", "")):
        assert parse_udp(odd, "x") is None
