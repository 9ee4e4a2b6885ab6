"""What the built-in generator's driver adds to a trial's own time: sending and draining.

    python -m benchmarks.trial_overhead [--repeats 10] [--cpu 0] [--traffic imix-rfc6985]

A memif looped to itself, trials of half a second; the overhead is what `run` took longer than the
trial's duration and drain. Needs root, as the driver does.
"""

from __future__ import annotations

import argparse
import statistics
import time

from vnetperf.agent.inventory import take_inventory
from vnetperf.config.files import find_file, load_model
from vnetperf.host.machine import Machine
from vnetperf.host.session import HostRun
from vnetperf.model.deployment import WireEnd, make_deployment
from vnetperf.model.scenario import Placement, Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import TrafficProfile, make_streams
from vnetperf.model.trial import TrialSpec
from vnetperf.traffic.loadgen.driver import Loadgen

DURATION_S = 0.5
LOADS_FPS = (1e4, 1e6)


def plan_of(cpu: int, profile: TrafficProfile) -> Plan:
    """The generator alone on a processor."""
    return Plan(
        scenario=Scenario(deployment=make_deployment("phy2phy"), vswitch="none", traffic=profile),
        testbed=Testbed(),
        wire="memif",
        placement=Placement(
            mode="dedicated", reason="a benchmark", cores={"tester": (cpu,)}, housekeeping=(0,)
        ),
        memory=(),
    )


def overhead_ms(generator: Loadgen, load_fps: float, *, histogram: bool) -> float:
    """One trial's overhead, milliseconds."""
    spec = TrialSpec(
        frame_size=64,
        load_fps=load_fps,
        duration_s=DURATION_S,
        histogram_up_to_loss=1.0 if histogram else -1.0,
    )
    began = time.monotonic()
    result = generator.run(spec, lambda: None)
    return (time.monotonic() - began - DURATION_S - result.drain_s) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--cpu", type=int, default=0, help="the generator's core")
    parser.add_argument("--traffic", default="single-flow", help="a traffic profile")
    args = parser.parse_args()
    profile = load_model(TrafficProfile, find_file("traffic", args.traffic))
    plan = plan_of(args.cpu, profile)
    with HostRun.open(testbed="trial-overhead") as run:
        machine = Machine(run, take_inventory(plan.testbed))
        generator = Loadgen(machine, plan)
        socket = str(machine.run_dir / "loop.sock")
        server, client = (
            WireEnd(wire=0, kind="memif", side="tester", socket=socket, role=role)
            for role in ("server", "client")
        )
        try:
            generator.connect((server, client))
            generator.prepare(make_streams(plan.scenario.deployment, profile), profile, 64)
            for load in LOADS_FPS:
                for histogram in (True, False):
                    each = [
                        overhead_ms(generator, load, histogram=histogram)
                        for _ in range(args.repeats)
                    ]
                    what = "with" if histogram else "without"
                    print(
                        f"{load:9.0f} frames/s each way, {what} histogram: overhead "
                        f"{statistics.median(each):.1f} ms ({min(each):.1f} .. {max(each):.1f})"
                    )
        finally:
            generator.close()


if __name__ == "__main__":
    main()
