"""Command line options and how they become settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from vnetperf.model.errors import ConfigError
from vnetperf.model.outcomes import AUTO

if TYPE_CHECKING:
    from vnetperf.config import Configuration, Settings


def add_options(parser: pytest.Parser) -> None:
    """Add the options; none has a default here, so that lower layers can be seen."""
    group = parser.getgroup("vnetperf", "vnetperf: benchmarks of virtual switches")
    add = group.addoption
    add(
        "--testbed",
        metavar="NAME",
        help="testbed file under conf/testbeds/, or a path (default: local)",
    )
    add("--preset", metavar="NAME", help="preset under conf/presets/, or a path (default: quick)")
    add(
        "--tests",
        metavar="LIST",
        help="tests to run, e.g. throughput,latency, or all (default: those of the preset)",
    )
    add("--traffic", metavar="NAME", help="traffic profile under conf/traffic/, or a path")
    add("--frame-sizes", metavar="LIST", help="octets including FCS, e.g. 64,512,1518")
    add(
        "--time-budget",
        metavar="TIME",
        help="the best estimate in this time for each throughput search, e.g. 5m (default: the "
        "preset's)",
    )
    add(
        "--vnf",
        metavar="NAME",
        help="VNF loader, and where it runs: vloop, vloop:vm (default: vloop)",
    )
    add(
        "--vnf-mode",
        metavar="MODE",
        help="io, mac, macswap, bridge ... (default: what the vSwitch needs)",
    )
    add(
        "--vnf-placement",
        metavar="WHERE",
        help="NUMA node of VNFs: auto, local, remote or unpinned (default: auto)",
    )
    add("--vnfs", metavar="N", type=int, help="number of VNFs in pvvp and pvpv (default: 2)")
    add("--switch", metavar="NAME", help="options of the vSwitch under conf/switch/, or a path")
    add(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        help="one option of the vSwitch, e.g. mtu=9000 (may be repeated)",
    )
    add(
        "--guest",
        metavar="KEY=VALUE",
        action="append",
        help="one option of guests, e.g. memory_mib=1024, or a file under conf/guest/ (repeatable)",
    )
    add(
        "--core",
        metavar="KEY=VALUE",
        action="append",
        help="one option of a mobile core, e.g. sessions=50, or a file under conf/stacks/ "
        "(repeatable)",
    )
    add("--forwarding", metavar="LAYER", help="l2 or l3 (default: l2)")
    add("--rules", metavar="KIND", help="port, stream or learning (default: port)")
    add("--tunnel", metavar="KIND", help="vxlan, gre or geneve, in overlays (default: vxlan)")
    add("--generator", metavar="NAME", help="traffic generator (default: loadgen)")
    add("--wire", metavar="KIND", help="kind of wire (default: the testbed's first that fits)")
    add(
        "--endpoint-tool",
        metavar="NAME",
        help="iperf3, netperf or sockperf (default: the first that is here and can do it)",
    )
    add(
        "--endpoint-server",
        metavar="WHERE",
        help="where the second endpoint is: far, at port 1, or vnf (default: far)",
    )
    add(
        "--message-sizes", metavar="LIST", help="octets of messages between endpoints, e.g. 64,1024"
    )
    add("--instances", metavar="N", type=int, help="parallel processes of the endpoint tool")
    add(
        "--pcap",
        metavar="FRAMES[:WHAT]",
        help="keep frames of each trial as pcap files: the first of each port; WHAT is first, "
        "streams, gaps or foreign (default: 0)",
    )
    add("--results-dir", metavar="DIR", help="folder of all runs (default: results)")
    add("--notes", metavar="TEXT", help="operator's notes, quoted in the report")
    add(
        "--interleave",
        metavar="N",
        type=int,
        help="measure all cases N times in turn, each deployed anew: A B A B, for intervals",
    )
    add(
        "--expect",
        metavar="FILE",
        help="thresholds that results must keep to, in TOML (docs/expectations.md)",
    )
    add("--plan", action="store_true", help="print what would be done, and stop")
    add("--resume", metavar="DIR", help="continue an interrupted run's results folder")


KEYS = (
    "testbed",
    "preset",
    "tests",
    "traffic",
    "frame_sizes",
    "time_budget",
    "vnf",
    "vnf_mode",
    "vnf_placement",
    "vnfs",
    "switch",
    "set",
    "guest",
    "core",
    "forwarding",
    "rules",
    "tunnel",
    "generator",
    "wire",
    "endpoint_tool",
    "endpoint_server",
    "message_sizes",
    "instances",
    "pcap",
    "results_dir",
    "notes",
)


def configuration_of(
    pytest_config: pytest.Config, test_case: Mapping[str, Any] | None = None
) -> Configuration:
    """The configuration that options, environment and files add up to."""
    from vnetperf import config

    given: dict[str, Any] = {key: pytest_config.getoption(key, None) for key in KEYS}
    try:
        if given["frame_sizes"] is not None:
            given["frame_sizes"] = config.parse_frame_sizes(given["frame_sizes"])
        if given["tests"] is not None:
            given["tests"] = config.parse_tests(given["tests"])
        if given["message_sizes"] is not None:
            given["message_sizes"] = config.parse_message_sizes(given["message_sizes"])
        for key in ("set", "guest", "core"):
            if given[key] is not None:
                given[key] = tuple(given[key])
        testbeds = given["testbed"] or os.environ.get("VNETPERF_TESTBED")
        if testbeds and "," in testbeds:
            raise ConfigError(
                f"{testbeds!r} names several testbeds",
                where="testbed",
                accepted="one, because a run's results are those of one machine",
                cure="run them separately, each with its own --testbed",
            )
        loaded = config.load(given, test_case=test_case)
        check_names(loaded.settings)
        check_mode(loaded.settings)
        check_capture(loaded)
        return loaded
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None


def check_names(settings: Settings) -> None:
    """Refuse names that no backend has, before a case is run."""
    from vnetperf import registry

    families: dict[registry.Family, str] = {"traffic": settings.generator}
    if settings.wire != "auto":
        families["wires"] = settings.wire
    if settings.endpoint_tool != AUTO:
        families["endpoints"] = settings.endpoint_tool
    for family, name in families.items():
        if name not in registry.names(family):
            registry.load(family, name)  # raises, with the names there are
    registry.load_vnf(settings.vnf)


def check_mode(settings: Settings) -> None:
    """Refuse a mode that the VNF has not."""
    from vnetperf import registry

    modes = registry.load_vnf(settings.vnf).modes
    if settings.vnf_mode not in ("auto", *modes):
        raise ConfigError(
            f"{settings.vnf} has no mode {settings.vnf_mode!r}",
            where="vnf_mode",
            accepted=", ".join(("auto", *modes)),
        )


def check_capture(configuration: Configuration) -> None:
    """Refuse captures of a generator that keeps no frames."""
    from vnetperf import registry

    name = configuration.settings.generator
    if configuration.capture and not registry.load("traffic", name).capabilities.capture:
        raise ConfigError(
            f"{name} keeps no frames of a trial",
            where="pcap",
            accepted="0",
            cure="leave --pcap out, or measure with --generator loadgen",
        )


def worker_name(pytest_config: pytest.Config) -> str:
    """Name of this pytest-xdist worker."""
    workerinput = getattr(pytest_config, "workerinput", None)
    return str(workerinput["workerid"]) if workerinput else ""
