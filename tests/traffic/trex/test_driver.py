"""The whole driver, its client's process included, on doubles that behave as TRex was seen to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest
import scapy

from tests.traffic.trex.conftest import ENDS, Tree, prepare
from vnetperf.deployment.trial import LinkWatch
from vnetperf.host.wait import patient, wait_for
from vnetperf.model.errors import GeneratorError
from vnetperf.model.testbed import MachineFacts
from vnetperf.model.traffic import TrafficProfile
from vnetperf.model.trial import TrialResult, TrialSpec, Verdict
from vnetperf.runner.verdict import judge
from vnetperf.traffic.trex import worker
from vnetperf.traffic.trex.driver import Trex

#: A client's process for each.
pytestmark = pytest.mark.slow

Make = Callable[..., Trex]
Server = Callable[..., SimpleNamespace]
TRIAL = TrialSpec(frame_size=64, load_fps=5000.0, duration_s=0.2, drain_s=0.1)
LONG = TRIAL.model_copy(update={"duration_s": 60.0})
#: Trials until one was not held up by a machine that others use.
TRIES = 8


def run(trex: Trex, trial: TrialSpec = TRIAL) -> TrialResult:
    return trex.run(trial, lambda: None)


def verdict(result: TrialResult) -> Verdict:
    return judge(result, 0.001)[0]


def test_every_frame_is_counted_from_where_the_counters_stood(make: Make) -> None:
    trex = make()
    trex.learn(64)
    on_time = 0
    for _ in range(TRIES):  # the server, too, waits for processors that others use
        result = run(trex)
        assert verdict(result) is Verdict.VALID
        for d in result.directions:
            assert (d.intended, d.sent, d.received) == (1000, 1000, 1000)
            assert (d.refused, d.unsent) == (0, 0)
            assert (d.duplicated, d.reordered, d.late, d.misrouted) == (None,) * 4
        assert "does not number" in result.uncollected["reordered"]
        on_time += all(d.tx_seconds == pytest.approx(0.2, abs=0.05) for d in result.directions)
        if on_time == 2:
            break
    assert on_time == 2


def test_latency_is_that_of_the_probes(make: Make) -> None:
    (d, _) = run(make()).directions
    assert d.latency is not None
    assert d.latency.count == 100
    assert (d.latency.min_ns, d.latency.mean_ns, d.latency.max_ns) == (10e3, 155e3, 300e3)
    assert d.latency.percentiles["50"] == 20e3  # the upper edge of the bucket from 10 us on
    assert d.latency.percentiles["99"] == 300e3
    assert d.latency.hdr


def test_a_histogram_is_left_out_where_it_is_not_wanted(make: Make) -> None:
    trial = TRIAL.model_copy(update={"histogram_up_to_loss": -1.0})
    (d, _) = run(make(), trial).directions
    assert d.latency is not None
    assert (d.latency.hdr, d.latency.percentiles) == ("", {})


def test_loss_is_counted_by_frames_and_not_by_error_counters(make: Make, tree: Tree) -> None:
    tree.wrong(loss=0.1)
    result = run(make())
    assert verdict(result) is Verdict.VALID
    assert result.worst_loss_ratio() == pytest.approx(0.1, abs=0.002)


def test_a_server_that_takes_longer_has_not_met_the_load(make: Make, tree: Tree) -> None:
    tree.wrong(ceiling=2500.0)  # all frames would be sent, in twice the time
    for _ in range(TRIES):  # one whose stop came late has sent more
        result = run(make())
        for d in result.directions:
            assert d.sent + d.unsent == d.intended == 1000
            assert d.received == d.sent > 450
        if all(d.sent < 700 for d in result.directions):
            break
    assert all(d.sent < 700 for d in result.directions)
    assert verdict(result) is Verdict.GENERATOR_LIMITED


def test_a_rate_beyond_the_link_is_no_valid_trial(make: Make, tree: Tree) -> None:
    tree.wrong(ceiling=1e6)
    result = run(make(), TRIAL.model_copy(update={"load_fps": 40e6}))
    assert verdict(result) is Verdict.GENERATOR_LIMITED


def test_nothing_is_left_running_after_a_trial(make: Make, tree: Tree) -> None:
    tree.wrong(ceiling=100.0)
    trex = make()
    run(trex)
    first = run(trex)  # streams are refused while the port still sends
    assert [d.intended for d in first.directions] == [1000, 1000]
    assert all(d.sent < 200 for d in first.directions)  # most of them probes: these keep pace


def test_a_server_that_dies_is_told_at_once(make: Make, tree: Tree) -> None:
    tree.wrong(die_after=0.4)
    trex = make()
    began = time.monotonic()
    with pytest.raises(GeneratorError, match="trex ended by exit code 9"):
        run(trex, LONG)
    assert time.monotonic() - began < 30
    tree.wrong()
    trex.close()
    trex.connect(ENDS)
    prepare(trex)
    assert verdict(run(trex)) is Verdict.VALID


def test_somebody_elses_server_that_dies_is_told_too(make: Make, server: Server) -> None:
    theirs = server()
    trex = make(server=theirs.address)
    threading.Timer(0.5, theirs.process.signal, (signal.SIGKILL,)).start()
    began = time.monotonic()
    with pytest.raises(GeneratorError, match="does not answer"):
        run(trex, LONG)
    assert time.monotonic() - began < 30


def test_a_client_that_dies_is_told_at_once(make: Make) -> None:
    trex = make()
    assert trex.client is not None
    threading.Timer(0.4, os.kill, (trex.client.pid, signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(GeneratorError, match="process of TRex's client failed"):
        run(trex, LONG)
    assert time.monotonic() - began < 30


def test_who_watches_can_end_a_trial(make: Make) -> None:
    trex = make()
    looks: list[float] = []

    def watch() -> None:
        looks.append(time.monotonic())
        if len(looks) == 4:
            raise InterruptedError("the DUT has died")

    with pytest.raises(InterruptedError, match="the DUT has died"):
        trex.run(LONG, watch)
    assert max(b - a for a, b in pairwise(looks)) < 0.6
    assert verdict(run(trex)) is Verdict.VALID


def test_giving_up_what_has_just_ended_harms_nothing(make: Make) -> None:
    """The order to give up crosses the answer: the next order is answered all the same."""
    trex = make()
    assert trex.client is not None
    worker.send_message(trex.client.connection, {"do": "give-up"})
    assert verdict(run(trex)) is Verdict.VALID


def test_an_answer_that_comes_too_late_is_passed_over(make: Make) -> None:
    trex = make()
    assert trex.client is not None
    worker.send_message(trex.client.connection, {"do": "links", "number": 0})
    assert verdict(run(trex)) is Verdict.VALID
    assert trex.links_down() == ()


def test_no_trial_without_traffic(make: Make) -> None:
    """What could not be prepared must not leave the traffic of before in its place."""
    trex = make()
    with pytest.raises(GeneratorError, match="over memif"):
        prepare(trex, TrafficProfile(flows=8, vary=("ipv4_dst",)), 1518)
    with pytest.raises(GeneratorError, match="no traffic is prepared"):
        run(trex)


def test_a_slow_server_is_only_slow(make: Make, tree: Tree) -> None:
    tree.wrong(slow=0.02, starts_after=1.0)
    result = run(make())
    assert [d.received for d in result.directions] == [1000, 1000]


def test_a_server_that_does_not_start_says_why(make: Make, tree: Tree) -> None:
    tree.wrong(refuses=True)
    with pytest.raises(GeneratorError, match="ERROR in configuration file"):
        make()


def test_a_refused_version_is_named(make: Make, tree: Tree) -> None:
    tree.wrong(version="6.0")
    with pytest.raises(GeneratorError) as error:
        make()
    assert "server: '6.0', client: '5.1'" in error.value.what
    assert "the server's own tree" in error.value.cure
    assert "\x1b" not in str(error.value)


def test_a_server_of_another_mode_is_named_at_once(make: Make, server: Server) -> None:
    theirs = server(mode="ASTF")
    began = time.monotonic()
    with pytest.raises(GeneratorError) as error:
        make(server=theirs.address)
    assert "the server is not stateless" in str(error.value)
    assert "server RPC configuration: 'ASTF'" in str(error.value)
    assert "without --astf" in str(error.value)
    assert time.monotonic() - began < patient(5.0)  # it was tried again all that time


def test_a_server_that_was_started_anew_is_named(make: Make, server: Server) -> None:
    theirs = server(restarted=6)
    with pytest.raises(GeneratorError, match="was started anew"):
        run(make(server=theirs.address))


def test_ports_of_somebody_else_are_not_taken(make: Make, server: Server) -> None:
    theirs = server(owner="alice")
    with pytest.raises(GeneratorError) as error:
        make(server=theirs.address)
    assert "taken by 'alice'" in str(error.value)
    assert "force = true" in str(error.value)


def test_ports_are_taken_by_force_when_told(make: Make, server: Server) -> None:
    theirs = server(owner="alice", leftover=True)
    trex = make(server=theirs.address, force=True)
    assert verdict(run(trex)) is Verdict.VALID  # what ran there has been stopped


def test_traffic_of_a_client_that_vanished_is_stopped(make: Make, server: Server) -> None:
    theirs = server()
    first = make(server=theirs.address)
    assert first.client is not None
    killer = threading.Timer(0.3, os.kill, (first.client.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(GeneratorError):
        run(first, LONG)
    second = make(server=theirs.address, force=True)
    assert verdict(run(second)) is Verdict.VALID


def test_ports_are_let_go_when_who_ordered_has_vanished(make: Make, server: Server) -> None:
    theirs = server()
    first = make(server=theirs.address)
    assert first.client is not None
    first.client.connection.close()
    wait_for(lambda: not first.client.process.alive(), 60, "the end of the client")
    assert first.client.process.returncode == 0
    assert verdict(run(make(server=theirs.address))) is Verdict.VALID  # and not by force


def test_somebody_elses_server_lives_on_and_is_left_free(make: Make, server: Server) -> None:
    theirs = server()
    make(server=theirs.address).close()
    assert theirs.process.alive()
    assert verdict(run(make(server=theirs.address))) is Verdict.VALID


def test_nobody_there_is_one_clear_error(make: Make, tree: Tree) -> None:
    with pytest.raises(GeneratorError, match=f"connection to 127.0.0.1:{tree.port} refused"):
        make(server=f"127.0.0.1:{tree.port}:{tree.port}")


def test_links_that_are_down_are_named(make: Make, tree: Tree) -> None:
    tree.wrong(link_down=[1])
    assert make().links_down() == ("tester port 1",)


def test_links_are_looked_at_in_a_trial_by_who_sends(make: Make, tree: Tree) -> None:
    tree.wrong(link_down=[1])
    trex = make()
    links = LinkWatch(trex)
    long = TRIAL.model_copy(update={"duration_s": 1.5})
    result = trex.run(long, lambda: links.look(now=True))
    assert not result.failed
    assert result.links_down == ("tester port 1",)
    assert trex.links_down() == ("tester port 1",)


def test_frozen_counters_are_no_result(make: Make, tree: Tree) -> None:
    tree.wrong(frozen=True)
    with pytest.raises(GeneratorError, match="counters do not change"):
        run(make())


def test_counters_that_go_back_are_no_result(make: Make, tree: Tree) -> None:
    tree.wrong(back=6)
    with pytest.raises(GeneratorError, match="counters of port 0 went back"):
        run(make())


def test_more_frames_received_than_sent_are_inconsistent(make: Make, tree: Tree) -> None:
    tree.wrong(foreign=5)
    assert verdict(run(make())) is Verdict.INCONSISTENT


def test_an_error_within_the_client_has_its_kind() -> None:
    """The text of a KeyError alone is "0"."""
    assert worker.classify_error(KeyError(0)).text == "KeyError 0"
    assert worker.classify_error(RuntimeError("port is down")).text == "port is down"
    assert worker.classify_error(KeyboardInterrupt()).text == "KeyboardInterrupt"


def test_the_client_replaces_libraries_in_its_own_process_only(make: Make) -> None:
    make()
    assert sys.modules["scapy"] is scapy
    assert scapy.__file__
    assert not [name for name in sys.modules if name.split(".")[0] == "trex"]


def test_the_clients_process_imports_nothing_that_it_does_not_need() -> None:
    program = (
        "import sys; import vnetperf.traffic.trex.worker; "
        "print([m for m in sys.modules if m.split('.')[0] in ('pydantic', 'hdrh', 'pytest')"
        " or m.startswith('vnetperf.model') or m.startswith('vnetperf.host')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_facts_say_what_was_run(make: Make, tree: Tree) -> None:
    facts = make().facts()
    assert facts["version"] == "TRex v3.08-double"
    assert str(tree.client) in facts["client"]
    assert facts["ports"][0].startswith("0: net_double")
    assert "low_end: true" in facts["configuration"]


def test_what_is_missing_is_said_with_its_cure(tree: Tree) -> None:
    without = MachineFacts(cpus=(), programs={}, program_troubles={})
    scenario: Any = None  # it is not looked at
    assert "under [programs]" in Trex.missing(without, scenario)
    broken = MachineFacts(
        cpus=(), programs={}, program_troubles={"trex": "/x is not executable; correct its path"}
    )
    assert "not executable" in Trex.missing(broken, scenario)
    there = MachineFacts(cpus=(), programs={"trex": str(tree.program)}, program_troubles={})
    assert Trex.missing(there, scenario) == ""


def test_what_cannot_be_sent_is_refused_when_it_is_prepared(make: Make) -> None:
    flows = TrafficProfile(flows=8, vary=("ipv4_dst",))
    with pytest.raises(GeneratorError, match="over memif"):
        prepare(make(), flows, 1518)


def test_overhead_of_a_trial(make: Make) -> None:
    trex = make()
    began = time.monotonic()
    for _ in range(5):
        run(trex)
    assert (time.monotonic() - began) / 5 - TRIAL.duration_s < 5.0


def test_messages_come_whole() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        worker.send_message(ours, {"n": 1})
        assert worker.receive_message(theirs) == {"n": 1}
        ours.send_bytes(b"[1]")
        with pytest.raises(ValueError, match="no object"):
            worker.receive_message(theirs)
        ours.close()
        assert worker.receive_message(theirs) is None
