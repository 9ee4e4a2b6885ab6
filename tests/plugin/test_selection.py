"""Which cases there are, how users select them, and what a wrong option says."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import REGISTER, Site
from tests.texts import Texts, lines_with
from vnetperf.model.deployment import OF_NETWORKS, OF_VSWITCHES
from vnetperf.plugin import registry


def collected(site: Site, *args: str) -> list[str]:
    result = site.run("--collect-only", "-q", *args)
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_ids_are_deployment_vswitch_and_frame_size(site: Site) -> None:
    wanted = {
        f"test_throughput[{d}_{v}-{size}]"
        for v in registry.names("vswitches")
        for d in registry.load("vswitches", v).deployments or OF_VSWITCHES
        for size in (64, 1518)
    } | {
        f"test_throughput[{d}_{network}-{size}]"
        for network in registry.names("networks")
        for d in OF_NETWORKS
        for size in (64, 1518)
    }
    found = collected(site)
    assert set(found) == wanted
    assert "test_throughput[pvp_dpdk-64]" in found


def test_selection_as_users_type_it(site: Site) -> None:
    assert collected(site, "-k", "pvp_dpdk") == [
        "test_throughput[pvp_dpdk-64]",
        "test_throughput[pvp_dpdk-1518]",
    ]
    assert len(collected(site, "-k", "phy2phy")) == 2 * len(registry.names("vswitches"))
    assert collected(site, "-k", "pvp_dpdk and 1518") == ["test_throughput[pvp_dpdk-1518]"]


def test_frame_sizes_of_the_command_line(site: Site) -> None:
    assert collected(site, "-k", "pvp_dpdk", "--frame-sizes", "128,9000") == [
        "test_throughput[pvp_dpdk-128]",
        "test_throughput[pvp_dpdk-9000]",
    ]


def test_a_mix_of_frame_sizes_is_one_case(site: Site, texts: Texts) -> None:
    assert collected(site, "-k", "pvp_dpdk", "--traffic", "imix") == [
        "test_throughput[pvp_dpdk-imix]"
    ]
    result = site.run("-k", "pvp_dpdk", "--traffic", "imix", "--frame-sizes", "64")
    assert result.ret == 4
    texts.check(lines_with(result.stderr.str(), "imix"))


def test_cases_of_a_scenario_follow_each_other(site: Site) -> None:
    site.pytester.makepyfile(
        test_a="def test_one(bench, frame_size): pass\ndef test_plain(): pass",
        test_b="def test_two(bench): pass",
    )
    ids = collected(site)
    assert ids[0] == "test_plain"
    scenarios = [i.partition("[")[2].rstrip("]").split("-")[0] for i in ids[1:]]
    changes = [s for n, s in enumerate(scenarios) if n == 0 or scenarios[n - 1] != s]
    assert len(changes) == len(set(changes))


@pytest.mark.slow
def test_a_vswitch_of_a_conftest_appears_in_every_id(site: Site) -> None:
    site.pytester.makeconftest(REGISTER)
    for deployment in OF_VSWITCHES:
        case = f"test_throughput[{deployment}_fake-64]"
        assert case in collected(site, "-k", "fake")


def test_a_wrong_registration_is_one_message(site: Site) -> None:
    site.pytester.makeconftest(REGISTER.replace("tests.fakes.backends:FakeSwitch", "nowhere"))
    result = site.run("--collect-only")
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    assert "'nowhere' is no import path" in text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text


def test_collecting_starts_no_agent_and_makes_no_folder(site: Site) -> None:
    assert collected(site)
    assert site.calls() == {}
    assert site.folders == []
    assert not (site.path / "results").exists()


def test_other_tests_are_left_alone(site: Site) -> None:
    (site.path / "test_rfc2544.py").unlink()
    site.pytester.makepyfile("def test_plain(): pass")
    result = site.run("--preset", "nonesuch")
    result.assert_outcomes(passed=1)
    assert not (site.path / "results").exists()
    _, _, after = result.stdout.str().partition("collected")
    assert "vnetperf" not in after


WRONG = {
    "--presets smoke": "--presets is not an option, did you mean '--preset'?",
    "--frame-size=64": "--frame-size is not an option, did you mean '--frame-sizes'?",
    "--expect nowhere.toml": "nowhere.toml: cannot be read: No such file",
    "--preset rfc2455": "command line: preset: unknown name 'rfc2455', did you mean 'rfc2544'?",
    "--testbed nowhere.toml": "there is no file nowhere.toml",
    "--testbed local,other": "'local,other' names 2 testbeds; accepted: one",
    "--traffic multi": "command line: traffic: unknown name 'multi', did you mean 'multi-flow'?",
    "--frame-sizes 64,x": "is not a list of frame sizes",
    "--frame-sizes 12": "command line: frame_sizes.0: frame size 12",
    "--vnfs 0": "command line: vnfs",
    "--vnfs many": "command line: vnfs",
    "--resume nowhere": "--resume nowhere: there is no run to resume here",
    "--resume nowhere --plan": "--resume nowhere: there is no run to resume here",
    "--vnf nonesuch": "command line: vnf: unknown vnfs backend 'nonesuch'",
    "--generator nonesuch": "command line: generator: unknown traffic backend 'nonesuch'",
    "--wire rj45": "command line: wire: unknown wires backend 'rj45'",
    "--vnf-mode mirror": "vnf_mode: vloop has no mode 'mirror'; accepted: auto, io, mac",
    "--switch jumboo": "did you mean 'jumbo'?",
    "--set mtv=9000": "command line: set: 'mtv=9000' is not an option, did you mean 'mtu'?",
    "--set mtu=9": "command line: set: mtu",
    "--set mtu": "command line: set: 'mtu' has no value; accepted: KEY=VALUE",
    "--forwarding l4": "command line: forwarding",
    "--rules none": "command line: rules",
    "--tunnel ipip": "command line: tunnel",
}


@pytest.mark.slow
def test_a_wrong_option_is_one_usage_error(site: Site) -> None:
    for options, message in WRONG.items():
        result = site.run("-k", "pvp_dpdk", *options.split())
        text = result.stderr.str() + result.stdout.str()
        assert result.ret == 4, (options, text)
        assert text.count(message) == 1, (options, text)
        assert "Traceback" not in text, options
        assert "INTERNALERROR" not in text, options
        assert not (site.path / "results").exists(), options
        assert site.calls("deploy", "trial") == {}, options


def test_a_wrong_file_or_variable_is_one_usage_error(site: Site, texts: Texts) -> None:
    (site.path / "vnetperf.toml").write_text("frame_size = [64]\n")
    result = site.run()
    assert result.ret == 4
    text = result.stderr.str() + result.stdout.str()
    (line,) = lines_with(text, "frame_size: ")
    texts.check(line.partition("; accepted: ")[0])
    assert "Traceback" not in text
    assert not (site.path / "results").exists()


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("pvp_dpkd", "did you mean 'pvp_dpdk'"),
        ("pvp_dpdk and nothing_like_it", "no case is selected by -k"),
        ("pvp_dpdk and services:100-", "no case is selected by -k"),
        ("zzz", "no case is selected by -k 'zzz'"),
    ],
)
def test_a_selection_of_nothing_always_has_a_hint(site: Site, expression: str, hint: str) -> None:
    result = site.run("-k", expression)
    assert result.ret == 5
    assert hint in result.stdout.str()
