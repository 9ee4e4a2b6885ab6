"""Parts that are killed or stopped in the middle of a trial are named, and no result is theirs."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.real.conftest import UserRun, differences, machine, pids_of, starting_in
from tests.real.test_bad_luck import agents

#: Longest time from a part's stop to its record in the log, seconds.
NOTICED_S = 10.0
SIZES = (64, 128, 256, 512, 768, 1024, 1280, 1518)


@dataclass(frozen=True)
class Fault:
    """What happens to a part of a running deployment.

    Attributes:
        part: Of the command line of its process; "" for the agent.
        number: The signal that its process gets.
        words: Pattern in the reason of the result; {} is its process id.
        verdict: Of the trial that has the reason; "" where the agent could log none.
    """

    part: str
    number: signal.Signals
    words: str
    verdict: str = ""


SWITCH, VNF, ENGINE, AGENT = "ovs-vswitchd-dpdk unix:", "--file-prefix=vnf0", "--rx-burst=", ""
FAULTS = {
    "vswitch killed": Fault(SWITCH, signal.SIGKILL, "ovs-vswitchd has ended"),
    "vnf killed": Fault(VNF, signal.SIGKILL, r"vnf0 \(.+\) has ended"),
    "engine killed": Fault(ENGINE, signal.SIGKILL, "ended by signal"),
    "vswitch stopped": Fault(
        SWITCH, signal.SIGSTOP, r"ovs-vswitchd \(pid {}\) is stopped", "DUT_FAILED"
    ),
    "vnf stopped": Fault(VNF, signal.SIGSTOP, r"vnf0 \(.+\) \(pid {}\) is stopped", "DUT_FAILED"),
    "engine stopped": Fault(
        ENGINE, signal.SIGSTOP, r"the engine \(pid {}\) is stopped", "GENERATOR_LIMITED"
    ),
    "agent stopped": Fault(AGENT, signal.SIGSTOP, r"the agent \(pid {}\) is stopped"),
}

CASES = dict(zip(FAULTS, SIZES, strict=False))
#: What dies and what is stopped, of the DUT, the tester and the agent once each.
EACH_MERGE = ("vswitch killed", "engine stopped", "agent stopped")


@dataclass
class Struck:
    """One run of several cases: a fault in each, and none in the last.

    Attributes:
        run: The run, ended.
        pids: Fault -> the process that it struck.
        noticed_s: Fault -> seconds until the log had its cause, where a trial has one.
    """

    run: UserRun
    pids: dict[str, int] = field(default_factory=dict)
    noticed_s: dict[str, float] = field(default_factory=dict)

    def trials(self, size: int) -> list[dict[str, Any]]:
        """Trials of a case so far, with those of its calibration."""
        found = (r for r in self.run.records() if r["type"] == "trial")
        return [r for r in found if r["spec"]["frame_size"] == size]

    def named(self, name: str, size: int) -> list[dict[str, Any]]:
        """Trials of a case that have a fault as their reason."""
        words = FAULTS[name].words.format(self.pids[name])
        return [trial for trial in self.trials(size) if re.search(words, trial["reason"])]

    def strike(self, name: str, size: int) -> None:
        """Send a fault's signal in the middle of a case."""
        fault = FAULTS[name]
        self.run.wait_for(lambda _: len(self.trials(size)) >= 2)
        found = pids_of(fault.part) if fault.part else agents(self.run.process.pid)
        assert found, name
        self.pids[name] = found[0]
        for pid in found:
            os.kill(pid, fault.number)
        began = time.monotonic()
        while fault.verdict and not self.named(name, size):
            assert time.monotonic() - began < 10 * NOTICED_S, name
            assert self.run.process.poll() is None, self.run.finish() and self.run.output
            time.sleep(0.02)
        self.noticed_s[name] = time.monotonic() - began


@pytest.fixture(scope="module")
def struck(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Struck]:
    """One run with the faults of the tests that were selected."""
    selected = {item.name for item in request.session.items}
    folder = tmp_path_factory.mktemp("struck")
    before = machine()
    with starting_in(folder) as start:
        chosen = [n for n in CASES if any(f"[{n}]" in name for name in selected)]
        faults = {n: CASES[n] for n in chosen or EACH_MERGE[:1]}
        sizes = ",".join(map(str, (*faults.values(), SIZES[-1])))
        found = Struck(start("-k", "pvp_dpdk", f"--frame-sizes={sizes}"))
        for name, size in faults.items():
            found.strike(name, size)
        assert found.run.finish() == 1, found.run.output
        found.run.left = differences(before)
        yield found


@pytest.mark.parametrize(
    "name",
    [n if n in EACH_MERGE else pytest.param(n, marks=pytest.mark.daily) for n in FAULTS],
)
def test_a_fault_in_a_trial_is_named_and_is_no_number(name: str, struck: Struck) -> None:
    fault, size = FAULTS[name], CASES[name]
    words = fault.words.format(struck.pids[name])
    (result,) = [r for r in struck.run.json()["results"] if r["frame_size"] == size]
    assert result["status"] == "not measured", struck.run.output
    assert re.search(words, result["why"])
    if fault.verdict:
        (trial,) = struck.named(name, size)
        assert trial["verdict"] == fault.verdict
        assert struck.noticed_s[name] < NOTICED_S
    if fault.number is signal.SIGSTOP:  # it is no loss either: in no trial did all get lost
        counted = [t["result"]["directions"] for t in struck.trials(size)]
        assert all(d["received"] for directions in counted for d in directions)


def test_the_case_after_a_fault_is_deployed_anew_and_measured(struck: Struck) -> None:
    (last,) = [r for r in struck.run.json()["results"] if r["frame_size"] == SIZES[-1]]
    assert last["status"] == "measured", struck.run.output
    assert struck.run.left == ()
    assert "Traceback" not in struck.run.output
