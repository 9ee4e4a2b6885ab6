"""A run goes on only on the machine it began on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent
from tests.fakes.machine import VERSIONS, facts
from tests.runner.support import Bench
from vnetperf.log.records import EndRecord, RunRecord
from vnetperf.log.trial_log import read_log
from vnetperf.model.errors import ConfigError, HostError
from vnetperf.model.testbed import ClockOffset
from vnetperf.runner.resume import machine_identity

RECORD = {"cpu": {"model": "A", "flags": "x"}, "kernel": {"release": "6.6.6"}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"record": RECORD | {"kernel": {"release": "6.6.7"}}}, "kernel was '6.6.6', is '6.6.7'"),
        ({"record": RECORD | {"cpu": {"model": "B"}}}, "CPU model was 'A', is 'B'"),
        ({"versions": VERSIONS | {"dpdk-testpmd": "9"}}, "version of dpdk-testpmd was 'none'"),
    ],
    ids=["kernel", "cpu", "program"],
)
def test_what_differs_is_named_and_no_trial_is_run(
    tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    first = Bench(tmp_path, FakeAgent(facts=facts(record=RECORD)))
    first.throughput()
    first.run.close(exit_status=2)
    again = Bench(tmp_path, FakeAgent(facts=facts(**{"record": RECORD, **changes})))
    with pytest.raises(ConfigError) as caught:
        again.throughput(1518)
    assert told in str(caught.value)
    assert "--resume" in caught.value.cure
    assert not again.agent.trials
    again.run.close(exit_status=4)
    assert any("interrupted" in w for w in again.derived().warnings)


def test_a_run_that_is_refused_is_left_as_it_was(tmp_path: Path) -> None:
    first = Bench(tmp_path, FakeAgent(facts=facts(record=RECORD)))
    first.throughput()
    first.run.close()
    before = first.path.read_bytes()
    other = FakeAgent(facts=facts(record=RECORD | {"kernel": {"release": "6.6.7"}}))
    again = Bench(tmp_path, other)
    again.run.begin_round(1, 2)
    for _ in range(2):  # each case of a worker of xdist
        with pytest.raises(ConfigError, match="this run began on"):
            again.run.facts()
    again.run.close(exit_status=4)
    assert first.path.read_bytes() == before
    assert not any("interrupted" in w for w in again.derived().warnings)


def test_a_session_without_an_agent_is_in_the_log_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Bench(tmp_path, FakeAgent(facts=facts(record=RECORD)))
    first.throughput()
    first.run.close()
    again = Bench(tmp_path)

    def gone() -> None:
        raise HostError("the host cannot be reached")

    monkeypatch.setattr(again.agent, "inventory", gone)
    assert not again.run.still_answers()
    again.run.close(exit_status=1)
    assert [type(r) for r in read_log(again.path)[-2:]] == [RunRecord, EndRecord]


def test_what_does_not_set_rates_may_change(tmp_path: Path) -> None:
    first = Bench(tmp_path, FakeAgent(facts=facts(record=RECORD)))
    first.throughput()
    first.die()
    other = RECORD | {"cpu": {"model": "A", "flags": "y"}, "hostname": "elsewhere"}
    assert Bench(tmp_path, FakeAgent(facts=facts(record=other))).throughput(1518).goals


def test_programs_of_a_plugin_that_came_since_may_be_there(tmp_path: Path) -> None:
    first = Bench(tmp_path, FakeAgent(facts=facts(record=RECORD)))
    first.throughput()
    first.die()
    found = facts(record=RECORD)
    more = {
        "programs": found.programs | {"tc": "/usr/sbin/tc"},
        "versions": found.versions | {"tc": "iproute2-6.1.0"},
    }
    again = FakeAgent(facts=found.model_copy(update=more))
    assert Bench(tmp_path, again).throughput(1518).goals


def test_a_program_that_was_missing_and_is_there_now_is_another_machine(tmp_path: Path) -> None:
    found = facts(record=RECORD)
    without = found.model_copy(update={"programs": found.programs | {"tc": ""}})
    first = Bench(tmp_path, FakeAgent(facts=without))
    first.throughput()
    first.die()
    more = {
        "programs": found.programs | {"tc": "/usr/sbin/tc"},
        "versions": found.versions | {"tc": "iproute2-6.1.0"},
    }
    again = Bench(tmp_path, FakeAgent(facts=found.model_copy(update=more)))
    with pytest.raises(ConfigError, match="tc was 'none', is 'iproute2"):
        again.throughput(1518)


@pytest.mark.parametrize(("then", "now"), [("2", "4"), ("not set", "4"), ("4", "4"), (None, "4")])
def test_a_run_goes_on_with_the_variables_it_began_with(
    tmp_path: Path, then: str | None, now: str
) -> None:
    def agent(value: str | None) -> FakeAgent:
        named = {} if value is None else {"let through by the testbed": {"OMP_THREADS": value}}
        return FakeAgent(facts=facts(record=RECORD | {"variables": named}))

    first = Bench(tmp_path, agent(then))
    first.throughput()
    first.die()
    again = Bench(tmp_path, agent(now))
    if then in (now, None):  # an older log does not say
        assert again.throughput(1518).goals
    else:
        with pytest.raises(ConfigError, match=f"OMP_THREADS was '{then}', is '{now}'"):
            again.throughput(1518)


def test_a_fact_that_could_not_be_read_is_compared_as_it_is_told() -> None:
    assert (
        machine_identity(facts(record={"cpu": "unknown: no file"}))["CPU model"]
        == "unknown: no file"
    )


@pytest.mark.parametrize("host", ["west", ""])  # one of several, or the only one
def test_clocks_of_other_machines_are_in_the_environment_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    clock = ClockOffset(offset_s=-1.5, bound_s=0.002)
    bench = Bench(tmp_path)
    bench.throughput(64, "pvp_dpdk")
    monkeypatch.setattr(bench.run.client, "clocks", lambda: {host: clock})
    bench.run.close()
    found, held = bench.derived().environment, clock.model_dump()
    assert found.get("clocks at the end", {host: found.get("clock at the end")}) == {host: held}
