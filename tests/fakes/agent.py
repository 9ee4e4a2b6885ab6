"""An agent that deploys nothing and measures simulated DUTs: what a controller sees of AgentClient.

Its calls are noted in `calls`, and appended to the file that FAKE_AGENT_LOG names, so that tests
that run pytest in other processes can read them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fakes.machine import PROGRAMS
from tests.fakes.machine import facts as machine_facts
from vnetperf.host.wait import wait_for
from vnetperf.model.calibration import Calibration, CalibrationPoint
from vnetperf.model.deployment import PHY_PORTS, Deployment
from vnetperf.model.errors import DutError, HostError
from vnetperf.model.machine_load import MachineLoad, ProcessorLoad, ThreadLoad
from vnetperf.model.result import ScenarioFacts
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import ClockOffset, MachineFacts, Testbed
from vnetperf.model.transfer import Figures, Flow, Transfer, TransferSpec
from vnetperf.model.trial import (
    DirectionCounts,
    HopCounters,
    Latency,
    TrialGaps,
    TrialRequest,
    TrialResult,
    TrialSpec,
)
from vnetperf.testing.sim import SimulatedDut

GENERATOR_FPS = 2e6


def machine_with_others(taken: float, *, seconds: float = 1.0) -> dict[str, Any]:
    """Fields of a trial's result: a tester polls on processor 0, and others take a share of it."""
    load = ProcessorLoad(
        cpu=0, user=1.0, system=0.0, irq=0.0, softirq=0.0, guest=0.0, steal=0.0, idle=0.0
    )
    thread = ThreadLoad(
        role="tester",
        thread="worker",
        cpu=0,
        user=1.0 - taken,
        system=0.0,
        run_s=(1.0 - taken) * seconds,
        watched_s=seconds,
    )
    machine = MachineLoad(by_processor=(load,), interrupts_apart=True)
    return {"machine": machine, "threads": (thread,), "collected_s": seconds}


class FakeAgent:
    """Duck-typed TestbedClient.

    Args:
        testbed: The testbed.
        on_event: Not used.
        duts: One simulated DUT per direction.
        facts: The machine.
        offers_fps: Most the generator offers per direction during trials; None for no limit.
        spoil: Called with the number of the trial and its result; returns another, or raises.
    """

    def __init__(
        self,
        testbed: Testbed | None = None,
        on_event: Any = None,
        *,
        duts: Sequence[SimulatedDut] = (),
        facts: MachineFacts | None = None,
        offers_fps: float | None = None,
        spoil: Callable[[int, TrialResult], TrialResult] | None = None,
    ) -> None:
        self.testbed = testbed
        self.duts = tuple(duts) or (SimulatedDut(700e3), SimulatedDut(700e3))
        self.facts = facts or machine_facts()
        self.offers_fps = offers_fps
        self.spoil = spoil
        self.restored: list[dict[str, Any]] = []
        self.troubles: tuple[str, ...] = ()
        self.calls: list[str] = []
        self.trials: list[TrialSpec] = []
        self.gaps: list[TrialGaps | None] = []
        self.deployed: Plan | None = None
        self.fail_deploy: str = ""
        self.tester_speed = 1.0
        self.stacks: dict[str, int] = {}
        self.tester_spread = 0.01
        #: Shares of the tester's processor that others take whenever the machine is looked at.
        self.others: list[float] = []

    def note(self, call: str) -> None:
        self.calls.append(call)
        if path := os.environ.get("FAKE_AGENT_LOG"):
            with Path(path).open("a") as file:
                file.write(json.dumps([os.getpid(), call]) + "\n")

    def name_testbed(self, name: str) -> None:
        """Note it."""
        self.named = name

    def inventory(self) -> MachineFacts:
        self.note("inventory")
        return self.facts

    def deploy(self, plan: Plan) -> ScenarioFacts:
        self.note(f"deploy {plan.scenario.id}")
        self.deployed = None
        if self.fail_deploy:
            raise DutError(self.fail_deploy, where=plan.scenario.id)
        self.deployed = plan
        return ScenarioFacts(
            scenario=plan.scenario.id, plan=plan.model_dump(mode="json"), deploy_s=0.5
        )

    def calibrate(
        self, plan: Plan, frame_sizes: Sequence[int], *, brief: bool = False
    ) -> Calibration:
        self.note(f"calibrate {','.join(map(str, frame_sizes))}")
        self.deployed = None
        return Calibration(
            generator="fake 1.0",
            wire=plan.wire,
            cores=plan.placement.cores["tester"],
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            points=tuple(
                CalibrationPoint(
                    frame_size=size,
                    max_clean_fps=2 * GENERATOR_FPS * self.tester_speed,
                    max_clean_values=tuple(
                        2 * GENERATOR_FPS * self.tester_speed * (1 + self.tester_spread * off)
                        for off in ((0,) if brief else (-1, 0, 1))
                    ),
                    ended_by="refusal",
                    brief=brief,
                    latency_ns=900.0,
                    latency_min_ns=700.0,
                    pacing_error=0.0001,
                    max_burst=4,
                    smallest_burst_gap_ns=1e9 / GENERATOR_FPS,
                )
                for size in frame_sizes
            ),
        )

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        if self.deployed is None:
            raise HostError("no scenario is deployed", where="run_trial")
        self.note(f"trial {spec.load_fps:.3f} {spec.duration_s:g}")
        self.trials.append(spec)
        scenario = self.deployed.scenario
        self.gaps.clear()
        counts = tuple(
            self._direction(d, spec) for d in sorted({s.direction for s in scenario.streams})
        )
        result = TrialResult(
            directions=counts,
            refusal_is_loss=self.deployed.refusal_is_loss,
            gaps=max((g for g in self.gaps if g), key=lambda g: g.poll.over_s, default=None),
            hops=hops_of(scenario.deployment, counts),
        )
        if spec.profile:
            why = {} if self.stacks else {"profile": "not measured: perf is not permitted"}
            result = result.model_copy(update={"stacks": self.stacks, "uncollected": why})
        return self.spoil(len(self.trials), result) if self.spoil else result

    def watch(self, seconds: float) -> TrialResult:
        """What `others` take next; nobody else is there when that has come to its end."""
        del seconds
        taken = self.others.pop(0) if self.others else 0.0
        return TrialResult(directions=(), **machine_with_others(taken))

    def _direction(self, direction: int, spec: TrialSpec) -> DirectionCounts:
        load_fps = spec.load_fps
        if self.deployed is not None:
            load_fps *= self.deployed.scenario.traffic.loads[direction]
        intended = max(1, round(load_fps * spec.duration_s))
        limit = self.offers_fps or load_fps
        sent = min(intended, round(limit * spec.duration_s))
        measured = self.duts[direction].measure(
            TrialRequest(load_fps=sent / spec.duration_s, duration_s=spec.duration_s)
        )
        (counted,) = measured.result.directions
        sent, received = counted.sent, counted.received
        self.gaps.append(measured.result.gaps)
        latency = (
            Latency(
                count=received,
                min_ns=1000.0,
                mean_ns=2000.0 + direction,
                max_ns=9000.0,
                percentiles={"50": 1900.0, "99": 5000.0} if spec.histogram_up_to_loss >= 0 else {},
            )
            if received
            else None
        )
        return DirectionCounts(
            direction=direction,
            intended=intended,
            sent=sent,
            refused=0,
            unsent=intended - sent,
            received=received,
            tx_seconds=spec.duration_s,
            latency=latency,
        )

    def call(self, name: str, *, length_s: float = 0.0, **args: Any) -> Any:
        """Transfers between endpoints: each instance moves 1 Mbit/s, each way."""
        del length_s
        self.note(f"{name} {args.get('server', '')}")
        specs = [TransferSpec.model_validate(spec) for spec in args["specs"]]
        return [transfer_of(spec).model_dump(mode="json") for spec in specs]

    def clocks(self) -> dict[str, ClockOffset]:
        """Nothing: it is on this machine."""
        return {}

    def teardown(self) -> list[str]:
        self.note("teardown")
        self.deployed = None
        return []

    def close(self) -> None:
        self.note("close")


def transfer_of(spec: TransferSpec) -> Transfer:
    """What a transfer comes to."""
    if spec.kind.startswith("MPI_"):
        times = {"mean": 20.0 * spec.pods, "min": 10.0, "max": 30.0 * spec.pods}
        return Transfer(
            spec=spec, operation_us=times, contents_checked=True, version=f"{spec.tool} 1.0"
        )
    one = Figures(bits_per_second=1e6)
    flows = [
        Flow(way=way, port=5201 + n, figures=one)
        for way in spec.ways
        for n in range(spec.instances)
    ]
    return Transfer(
        spec=spec, flows=tuple(flows), bits_per_second=1e6 * len(flows), version=f"{spec.tool} 1.0"
    )


def hops_of(deployment: Deployment, counts: Sequence[DirectionCounts]) -> tuple[HopCounters, ...]:
    """Counters of a DUT whose vSwitch drops on its way out of the first hop."""
    rx: dict[str, int] = {}
    tx: dict[str, int] = {}
    for c in counts:
        path = [str(port) for port in deployment.path(PHY_PORTS[c.direction], 0)]
        for position, port in enumerate(path):
            side = rx if position % 2 == 0 else tx
            side[port] = side.get(port, 0) + (c.sent if position == 0 else c.received)
    return tuple(
        HopCounters(port=port, rx=rx.get(port, 0), tx=tx.get(port, 0))
        for port in sorted({*rx, *tx})
    )


class EnvironmentAgent(FakeAgent):
    """The FakeAgent that `install` puts in the client's place, shaped by FAKE_AGENT (JSON).

    With `calibrates_beside`, a calibration goes on until as many agents have begun theirs.
    """

    def __init__(
        self, testbed: Testbed | None = None, on_event: Any = None, *, read_only: bool = False
    ) -> None:
        wishes = json.loads(os.environ.get("FAKE_AGENT", "{}"))
        name = testbed.name if testbed is not None else ""
        wishes |= wishes.pop("testbeds", {}).get(name, {})
        self.lost_after = wishes.get("lost_after")
        self.calibrates_beside = wishes.get("calibrates_beside", 0)
        self.waits = {kind: wishes.get(f"{kind}_s", 0.0) for kind in ("deploy", "trial")}
        changes: dict[str, Any] = {"programs": {}} if wishes.get("no_programs") else {}
        if "programs" in wishes:
            changes["programs"] = PROGRAMS | wishes["programs"]
        if "kernel" in wishes:
            changes["record"] = {"cpu": "a processor", "kernel": {"release": wishes["kernel"]}}
        super().__init__(testbed, on_event, facts=machine_facts(wishes.get("cores", 8), **changes))
        FakeAgent.note(self, "start")
        self.fail_deploy = wishes.get("fail_deploy", "")
        if "duts" in wishes:
            self.duts = tuple(SimulatedDut(fps) for fps in wishes["duts"])

    def note(self, call: str) -> None:
        """A call takes its time; with `lost_after`, the host is gone after so many trials."""
        super().note(call)
        kind = call.partition(" ")[0]
        time.sleep(self.waits.get(kind, 0.0))
        if kind == "calibrate" and self.calibrates_beside:
            wait_for(
                lambda: _calibrating() >= self.calibrates_beside, 60, "the others' calibrations"
            )
        gone = self.lost_after is not None and len(self.trials) >= self.lost_after
        if gone and kind not in ("teardown", "close"):
            raise HostError("the host cannot be reached", where="ssh=lab")


def _calibrating() -> int:
    """Agents that have begun to calibrate."""
    notes = map(json.loads, Path(os.environ["FAKE_AGENT_LOG"]).read_text().splitlines())
    return len({pid for pid, call in notes if call.startswith("calibrate ")})


def install() -> None:
    """Put the fake in the place of the client, in this process."""
    from vnetperf.agent import hosts  # noqa: PLC0415 - likewise
    from vnetperf.pytest_plugin import plans  # noqa: PLC0415 - likewise
    from vnetperf.runner import run  # noqa: PLC0415 - only a process that measures needs it

    for module in (run, plans, hosts):
        module.TestbedClient = EnvironmentAgent  # type: ignore[attr-defined]  # a double
