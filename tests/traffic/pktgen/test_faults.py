"""What goes wrong with a Pktgen is one clear error, and never a number."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.traffic.pktgen import conftest
from tests.traffic.pktgen.conftest import Looped, ends_in, plan_of
from vnetperf.analysis.results_from_log import count_faults
from vnetperf.model.errors import GeneratorError
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import TrialResult
from vnetperf.testing.generator import Loop, prepare, trial_spec
from vnetperf.traffic.pktgen import driver, trials
from vnetperf.traffic.pktgen.driver import Pktgen

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SETTLE_S", 0.6)  # the double refreshes five times as often
    monkeypatch.setattr(driver, "LINK_S", 0.3)


def run(loop: Loop, **spec: Any) -> TrialResult:
    prepare(loop.generator)
    return loop.generator.run(trial_spec(**spec), lambda: None)


def test_lost_frames_are_lost_and_probes_are_not_counted(looped: Looped) -> None:
    with looped("loss=0.25") as loop:
        result = run(loop)
        for counts in result.directions:
            assert counts.sent == counts.intended == 600
            assert counts.received == pytest.approx(450, abs=150)
            assert counts.received < counts.sent
            assert counts.latency is not None
            assert counts.latency.mean_ns == pytest.approx(1000)
            assert not counts.latency.percentiles


def test_foreign_frames_are_told_apart(looped: Looped) -> None:
    with looped("foreign=7") as loop:
        result = run(loop)
        assert [d.received for d in result.directions] == [600, 600]
        assert result.foreign == {"0": 7, "1": 7}


@pytest.mark.parametrize(
    ("size", "lost", "why"),
    [
        (64, False, ""),
        (76, False, "in frames of one size other than 76 octets"),
        (64, True, "no probe came back"),
    ],
)
def test_what_it_does_not_count_is_said_with_the_reason(
    size: int, lost: bool, why: str, looped: Looped, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lost:
        monkeypatch.setattr(trials, "probe_latency", lambda probes, hz: None)
    with looped() as loop:
        prepare(loop.generator, size)
        result = loop.generator.run(trial_spec(size), lambda: None)
    assert [d.latency is None for d in result.directions] == [bool(why)] * 2
    assert {"stale", "max_lag_s", "mean_lag_s", "gaps", "reordered"} <= {*result.uncollected}
    assert count_faults([result]).foreign == 0  # which it counts
    assert why in result.uncollected.get("latency", "")
    assert ("latency" in result.uncollected) is bool(why)


def test_a_generator_that_is_too_slow_says_so(looped: Looped) -> None:
    with looped("ceiling=1000") as loop:
        began = time.monotonic()
        result = run(loop, fps=10_000.0)
        took = time.monotonic() - began
        for counts in result.directions:
            assert counts.sent < counts.intended == 3000
            assert counts.unsent == counts.intended - counts.sent
            # A machine that stands still as it is stopped lets it send for longer than is known.
            assert 850 * counts.tx_seconds < counts.sent < 1000 * took
            assert 0.3 < counts.tx_seconds < took


def test_frames_that_leave_late_were_not_offered(
    looped: Looped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All frames are sent, but in twice the time: the load was not what was asked for."""
    monkeypatch.setattr(trials, "LATE_S", 10.0)  # a machine that is busy hides some of it
    with looped("ceiling=1000") as loop:
        result = run(loop, fps=2000.0, duration_s=1.0)
        for counts in result.directions:
            assert counts.sent == 2000
            assert counts.unsent > 500
            assert counts.intended == counts.sent + counts.unsent


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("frozen", "counters are frozen"),
        ("negative", "frames sent"),
        ("down", "no link at tester port 1"),
    ],
)
def test_a_fault_is_an_error(fault: str, says: str, looped: Looped) -> None:
    with looped(fault) as loop, pytest.raises(GeneratorError, match=says):
        run(loop)


def test_a_rate_that_someone_changes_is_an_error(looped: Looped) -> None:
    with looped() as loop:
        prepare(loop.generator)
        loop.generator.lua_client.call(
            "local set=pktgen.set pktgen.set=function(p,w,v) "
            "if w=='rate' then v=v/3 end set(p,w,v) end"
        )
        with pytest.raises(GeneratorError, match="2000 frames/s and paces for 66"):
            loop.generator.run(trial_spec(), lambda: None)


def test_its_death_is_told_with_its_last_words(looped: Looped) -> None:
    with looped() as loop:
        prepare(loop.generator)
        (poller,) = loop.generator.pollers()
        threading.Timer(0.3, os.kill, (poller.pid, signal.SIGKILL)).start()
        began = time.monotonic()
        with pytest.raises(GeneratorError, match=r"Pktgen exited \(status -9\)"):
            loop.generator.run(trial_spec(duration_s=60.0), lambda: None)
        assert time.monotonic() - began < 30, "nobody noticed while it ran"


@pytest.mark.parametrize("call", ["pktgen.quit()", "pktgen.load('x.lua')"])
def test_what_would_end_it_is_never_sent(call: str, looped: Looped) -> None:
    with looped() as loop:
        with pytest.raises(GeneratorError, match=r"end Pktgen"):
            loop.generator.lua_client.call(call)
        assert loop.generator.links_down() == ()


def test_a_long_line_is_refused_here(looped: Looped) -> None:
    with looped() as loop:
        with pytest.raises(GeneratorError, match="at most 8191 octets"):
            loop.generator.lua_client.call(f"return '{'x' * 8200}'")
        assert loop.generator.lua_client.call(f"return #'{'x' * 8000}'") == 8000


def test_an_error_of_lua_is_told(looped: Looped) -> None:
    with looped() as loop:
        with pytest.raises(GeneratorError, match=r"Pktgen reports: .*attempt to"):
            loop.generator.lua_client.call("return nothing.at_all")
        with pytest.raises(GeneratorError, match=r"Pktgen reports: .*set does not support"):
            loop.generator.lua_client.call("pktgen.set('0','colour',1)")
        assert (
            loop.generator.lua_client.call("return 'a \"quoted\" \\\\ thing'")
            == 'a "quoted" \\ thing'
        )


def test_a_program_that_ends_at_once_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "DOUBLE", "-c 'import sys; sys.exit(\"no hugepages\")'")
    with (
        pytest.raises(GeneratorError, match="Pktgen exited") as caught,
        conftest.looped_double(tmp_path),
    ):
        pass
    assert "no hugepages" in str(caught.value)
    assert len([*tmp_path.glob("pktgen*.log")]) == 1, "it was started again, in vain"


def test_frames_of_one_port_are_not_taken_for_those_of_the_other(looped: Looped) -> None:
    """Equal files, but for another port, are other files."""
    with looped() as loop:
        generator = loop.generator
        (stream, _) = generator.plan.scenario.streams
        for _ in range(2):
            generator.prepare((stream,), TrafficProfile(), 64)
        started = len(generator.machine.started)
        turned = stream.model_copy(update={"direction": 1})
        generator.prepare((turned,), TrafficProfile(), 64)
        assert len(generator.machine.started) == started + 1
        assert "-s1:" in generator.facts()["launch line"]


def test_a_server_that_is_there_is_used_and_left_without_traffic(looped: Looped) -> None:
    with looped() as loop:
        port = conftest.launch.PORT
        loop.generator.lua_client.close()  # one client at a time
        machine = loop.generator.machine
        other = Pktgen(machine, plan_of(f"127.0.0.1:{port}"))
        other.connect(loop.ends)
        prepare(other)
        result = other.run(trial_spec(), lambda: None)
        assert {d.sent for d in result.directions} == {600}
        assert other.pollers() == ()
        assert "not ours" in other.facts()["frames"]
        with pytest.raises(GeneratorError, match="cannot send several flows"):
            prepare(other, 64, TrafficProfile(flows=10, vary=("udp_src",)))
        other.close()
        assert machine.started[-1].alive()


def test_a_busy_server_is_told(looped: Looped, monkeypatch: pytest.MonkeyPatch) -> None:
    with looped() as loop:
        monkeypatch.setattr("vnetperf.traffic.pktgen.process.ANSWER_S", 0.3)
        other = Pktgen(loop.generator.machine, plan_of(f"127.0.0.1:{conftest.launch.PORT}"))
        monkeypatch.setattr(
            "vnetperf.traffic.pktgen.process.LuaClient.call.__defaults__", (0.3,), raising=False
        )
        with pytest.raises(GeneratorError, match="one client at a time"):
            other.connect(loop.ends)


def test_nobody_there_is_told(tmp_path: Path, looped: Looped) -> None:
    with looped() as loop:
        other = Pktgen(loop.generator.machine, plan_of(f"127.0.0.1:{conftest.free_port()}"))
        with pytest.raises(GeneratorError, match="cannot connect"):
            other.connect(ends_in(tmp_path))


def test_a_server_with_other_ports_is_refused(looped: Looped) -> None:
    with looped() as loop:
        loop.generator.lua_client.call("pktgen.portCount = function() return 4 end")
        loop.generator.lua_client.close()
        other = Pktgen(loop.generator.machine, plan_of(f"127.0.0.1:{conftest.launch.PORT}"))
        with pytest.raises(GeneratorError, match="has 4 ports"):
            other.connect(loop.ends)


def test_a_version_without_a_function_is_refused_before_any_trial(looped: Looped) -> None:
    """Pktgen 26.01 took pktStats away."""
    with looped() as loop:
        loop.generator.lua_client.call("pktgen.pktStats = nil")
        loop.generator.lua_client.close()
        other = Pktgen(loop.generator.machine, plan_of(f"127.0.0.1:{conftest.launch.PORT}"))
        with pytest.raises(GeneratorError, match=r"Pktgen 23.06.1 has no pktStats") as error:
            other.connect(loop.ends)
        assert "23.03 to 25.08" in error.value.accepted


def test_more_frames_than_it_counts_are_refused(looped: Looped) -> None:
    with looped() as loop:
        prepare(loop.generator)
        with pytest.raises(GeneratorError, match="counts to 32 bits"):
            loop.generator.run(trial_spec(fps=10e6, duration_s=1000.0), lambda: None)


def test_what_is_missing_is_said() -> None:
    scenario = plan_of().scenario
    facts = MachineFacts(cpus=())
    assert "build Pktgen-DPDK with Lua" in Pktgen.missing(facts, scenario)
    troubled = facts.model_copy(update={"program_troubles": {"pktgen": "/x is not there"}})
    assert "/x is not there" in Pktgen.missing(troubled, scenario)
    there = facts.model_copy(update={"programs": {"pktgen": "/usr/bin/pktgen"}})
    assert Pktgen.missing(there, scenario) == ""


def test_the_double_ends_as_the_program_does_when_it_is_told_to_quit(looped: Looped) -> None:
    """The double must be as strict as the program, or the tests above prove nothing."""
    with looped() as loop:
        address = ("127.0.0.1", conftest.launch.PORT)
        loop.generator.lua_client.close()
        with socket.create_connection(address) as client:
            client.sendall(b"1 + 1\nprint('x')\nnonsense(\n)\n")
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.recv(100)
            client.sendall(b"pktgen.quit()\n")
            client.settimeout(2.0)
            assert client.recv(100) == b""


@pytest.mark.parametrize(
    ("times", "wrong"),
    [
        ((10, 0, 20), "mean"),
        ((100, 50, 200), "mean"),
        ((10_000, 12_000, 8_900_000_000), "largest time of 8.9 s"),
        ((30, 20, 10), "m"),
        ((100, 100, 100), ""),
        ((1, 1, 2), ""),  # means are whole cycles, rounded down
        ((0, 0, 0), ""),
    ],
)
def test_times_of_probes_that_cannot_be_are_not_measured(
    times: tuple[int, int, int], wrong: str
) -> None:
    least, mean, most = times
    probes = trials.ProbeCounts(timed=5, min_cycles=least, avg_cycles=mean, max_cycles=most)
    why = trials.probe_time_problem(probes, 1_000_000_000, 2.0)
    assert wrong in why
    assert bool(why) is bool(wrong)
    assert trials.probe_time_problem(trials.ProbeCounts(), 1_000_000_000, 2.0) == ""


def test_a_trial_with_such_times_says_so(looped: Looped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "probe_time_problem", lambda *_: "times that cannot be")
    with looped() as loop:
        result = run(loop)
    assert [d.latency for d in result.directions] == [None, None]
    assert "times that cannot be" in result.uncollected["latency"]
    assert all(d.received == d.sent for d in result.directions)
