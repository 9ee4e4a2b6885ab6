"""`vnetperf calibrate`: what the traffic generator can do on this testbed."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import TYPE_CHECKING

from vnetperf.cli import print_event
from vnetperf.config.settings import add_options, read_options

if TYPE_CHECKING:
    from vnetperf.model.calibration import Calibration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    names = ("testbed", "preset", "traffic", "frame_sizes", "generator", "wire", "switch", "set")
    add_options(parser.add_argument, *names)
    parser.add_argument("--json", action="store_true", help="machine-readable")


def run(arguments: argparse.Namespace) -> int:
    """Calibrate, store and print."""
    from vnetperf import config
    from vnetperf.agent.hosts import TestbedClient
    from vnetperf.cli.tables import Out
    from vnetperf.log.calibrations import calibration_warnings
    from vnetperf.model.deployment import make_deployment
    from vnetperf.model.scenario import STANDARD_FRAME_SIZE, Scenario
    from vnetperf.planning.hosts import WIRE_WITHIN
    from vnetperf.planning.planner import make_loop_plan
    from vnetperf.report import run_tables
    from vnetperf.runner.calibration_cache import CalibrationCache
    from vnetperf.runner.scenarios import check_backends

    loaded = config.load(read_options(arguments))
    check_backends(loaded)
    mix = loaded.traffic.mix
    sizes = loaded.preset.frame_sizes if mix is None else (mix.largest,)
    wire = loaded.settings.wire
    if wire == "auto" and loaded.testbed.hosts:
        wire = WIRE_WITHIN  # over which runs look it up, whatever their cables are
    with closing(TestbedClient(loaded.testbed, print_event)) as client:
        facts = client.inventory()
        scenario = Scenario(
            deployment=make_deployment("phy2phy"),
            vswitch="",
            traffic=loaded.traffic,
            generator=loaded.settings.generator,
            wire=wire,
            options=loaded.switch,
            max_frame_size=max(STANDARD_FRAME_SIZE, *sizes),
        )
        plan, brief = make_loop_plan(scenario, loaded.testbed, facts), not loaded.preset.benchmark
        calibration = client.calibrate(plan, loaded.preset.frame_sizes, brief=brief)
    store = CalibrationCache()
    store.add(store.key(plan, facts, brief=brief), calibration)
    if arguments.json:
        _print_json(calibration)
    else:
        about, table = run_tables.calibration(calibration)
        out = Out()
        out.line(about)
        out.show(table)
        for warning in calibration_warnings([calibration]):
            out.line(f"Warning: {warning}")
    return 0


def _print_json(calibration: Calibration) -> None:
    """The smallest frame size's figures by name, and all points."""
    first = calibration.points[0]
    text = {
        "frame_size": first.frame_size,
        "max_clean_fps": first.max_clean_fps,
        "latency_ns": first.latency_ns,
        "cores": len(calibration.cores),
        **calibration.model_dump(mode="json", exclude={"cores"}),
        "processors": list(calibration.cores),
    }
    print(json.dumps(text, indent=2))
