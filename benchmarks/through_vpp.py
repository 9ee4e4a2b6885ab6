"""What the built-in engine gets through VPP, beside dpdk-testpmd through the same instance.

Run as root: `python -m benchmarks.through_vpp [--repeats 5] [--seconds 2]`, with a `vpp` in PATH.

Phy2Phy over memif, 64 octets, both ways, one worker each. The engine and testpmd take turns at the
ports of one running VPP; both try a full ring again, so VPP is the limit, or they are.
testpmd's `flowgen` makes and ends flows as a generator does.
"""

from __future__ import annotations

import argparse
import statistics
import time

from benchmarks.engine import testpmd_on
from vnetperf import config
from vnetperf.agent.inventory import take_inventory
from vnetperf.deployment.deploy import LiveDeployment
from vnetperf.deployment.one_host import deploy_plan
from vnetperf.host import dpdk
from vnetperf.model.trial import TrialSpec
from vnetperf.planning.planner import make_plan
from vnetperf.runner.scenarios import make_scenario

SIZE = 64
#: Frames of each direction by which the rate is found that fills the asked time.
PROBE = 200_000


def engine_rate(deployment: LiveDeployment, seconds: float) -> float:
    """Frames/s that come back to the engine, both ways."""
    generator = deployment.generator
    generator.plan = generator.plan.model_copy(update={"refusal_is_loss": False})
    generator.reconnect()
    generator.prepare(deployment.plan.scenario.streams, deployment.plan.scenario.traffic, SIZE)
    generator.learn(64)
    rate, frames = 0.0, PROBE
    for _ in range(2):
        burst = TrialSpec(frame_size=SIZE, load_fps=1.0, duration_s=0.0, drain_s=0.2, burst=frames)
        result = deployment.generator.run(burst, deployment.check_alive)
        rate = sum(d.received / d.tx_seconds for d in result.directions)
        frames = int(rate / 2 * seconds)
    return rate


def testpmd_rate(deployment: LiveDeployment, seconds: float) -> float:
    """Frames/s that come back to testpmd, both ways."""
    deployment.generator.unplug()
    time.sleep(1.0)  # DPDK connects once, and the listener first has to forget the engine
    ports = [
        "--vdev="
        + dpdk.memif_devargs(
            number,
            role="client",
            identity=number,
            socket=str(deployment.machine.run_dir / f"wire{number}.sock"),
            mtu=1500,
        )
        for number in (0, 1)
    ]
    cpu = deployment.plan.placement.cores["tester"][0]
    return testpmd_on(ports, cpu, SIZE, 32, mode="flowgen", seconds=seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    args = parser.parse_args()
    wishes = {"wire": "memif", "preset": "smoke", "frame_sizes": (SIZE,)}
    settings = config.load(wishes)
    scenario = make_scenario("phy2phy_vpp", settings)
    facts = take_inventory(settings.testbed)
    deployment = deploy_plan(make_plan(scenario, settings.testbed, facts), facts)
    rates: dict[str, list[float]] = {"engine": [], "testpmd flowgen": []}
    try:
        for _ in range(args.repeats):
            rates["engine"].append(engine_rate(deployment, args.seconds))
            rates["testpmd flowgen"].append(testpmd_rate(deployment, args.seconds))
        print(deployment.facts.facts["vswitch"]["version"])
    finally:
        deployment.teardown()
    for name, seen in rates.items():
        print(
            f"{name:16} median {statistics.median(seen) / 1e3:,.0f} k frames/s, both ways "
            f"({min(seen) / 1e3:,.0f} .. {max(seen) / 1e3:,.0f})"
        )
    each = [a / b for a, b in zip(*rates.values(), strict=True)]
    print(f"engine / testpmd {statistics.median(each):.2f} ({min(each):.2f} .. {max(each):.2f})")


if __name__ == "__main__":
    main()
