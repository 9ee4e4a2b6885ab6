"""The engine's replies, its refusals and its end."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import OpenEngine
from tests.engine.frames import stream
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.threads import thread_ids
from vnetperf.host.wait import wait_for
from vnetperf.model.errors import GeneratorError
from vnetperf.traffic.loadgen.engine import (
    Engine,
    EngineConfig,
    EngineTrial,
    FieldSpec,
    NeighbourSpec,
    Spawn,
    StreamLoad,
    StreamSpec,
)
from vnetperf.traffic.loadgen.telemetry import EngineSocket

pytestmark = pytest.mark.real

HEADER = "02000000000202000000000108004500"


@pytest.fixture
def engine(open_engine: OpenEngine, executable: Path) -> Engine:
    return open_engine(executable, "--vdev=net_ring0", "--vdev=net_ring1")


@pytest.fixture
def raw(engine: Engine, run_dir: Path) -> EngineSocket:
    return EngineSocket(next((run_dir / "0").rglob("dpdk_telemetry.v2*")))


def test_info_describes_ports_and_workers(engine: Engine) -> None:
    info = engine.info()
    assert info.protocol == 1
    assert info.dpdk.startswith("DPDK ")
    assert info.pid == engine.pid
    assert info.tsc_hz > 10_000_000
    assert info.largest_frame == 1526
    assert [p.name for p in info.ports] == ["net_ring0", "net_ring1"]
    assert [p.driver for p in info.ports] == ["net_ring"] * 2
    assert all(len(p.mac.split(":")) == 6 and p.mtu == 1500 for p in info.ports)
    (worker,) = info.workers
    assert worker.tid in thread_ids(engine.pid)
    assert (worker.cpu, worker.rx_queues, worker.tx_queues) == (0, 2, 2)


COUNTER = r"""
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static double tsc, ns;

static void look(void)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 50; i++) {
		struct timespec t;
		const uint64_t before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		const uint64_t took = __rdtsc() - before;
		if (took >= least)
			continue;
		least = took;
		tsc = (double)before + (double)took / 2;
		ns = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
	}
}

int main(void)
{
	look();
	const double tsc_then = tsc, ns_then = ns;
	usleep(500000);
	look();
	printf("%f", (tsc - tsc_then) / (ns - ns_then) * 1e9);
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the counter is read as on x86")
def test_the_counters_frequency_is_measured_and_not_rounded(engine: Engine, tmp_path: Path) -> None:
    """All rates and times are by it; DPDK rounds to 10 MHz, up to 0.2 % of a rate."""
    source = tmp_path / "counter.c"
    source.write_text(COUNTER)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "counter", source], check=True)
    found = subprocess.run([tmp_path / "counter"], check=True, capture_output=True, text=True)
    assert engine.info().tsc_hz == pytest.approx(float(found.stdout), rel=50e-6)


def test_xstats_are_all_there(engine: Engine) -> None:
    assert {"rx_good_packets", "tx_good_packets"} <= engine.xstats(0).keys()


ADD = f"/loadgen/stream/add,id=1,tx_port=0,rx_port=1,size=64,header={HEADER}"

REFUSALS = [
    ("/loadgen/info,x=1", "unknown parameter 'x'", "no parameters"),
    ("/loadgen/port", "'port' is missing", "port="),
    ("/loadgen/port,port=2", "port=2", "0..1"),
    ("/loadgen/worker,worker=1", "worker=1", "0..0"),
    ("/loadgen/stream/add,id=1", "'tx_port' is missing", "tx_port="),
    (ADD.replace("id=1", "id=256"), "id=256", "0..255"),
    (ADD.replace("rx_port=1", "rx_port=2"), "rx_port=2", "0..1"),
    (ADD.replace("size=64", "size=63"), "size=63", "64..1526"),
    (ADD + "0", "hex digits", "even number"),
    (ADD.replace(HEADER, "0102"), "header of 2 octets", "14 octets"),
    (ADD.replace(HEADER, HEADER * 4), "header of 64 octets", "frame size - 22"),
    (ADD + ",l3=14", "l3 14", "whole IP header"),
    (ADD + ",udp=34", "udp 34 without l3", "l3 as well"),
    (ADD + ",colour=red", "'colour'", "id tx_port"),
    (ADD.replace("id=1", "id=0"), "stream 0 exists", "unused id"),
    ("/loadgen/stream/field,stream=5,offset=0,width=1,count=1", "stream=5", "was added"),
    ("/loadgen/stream/field,stream=0,offset=0,width=9,count=1", "width=9", "1..8"),
    ("/loadgen/stream/field,stream=0,offset=41,width=2,count=1", "41..43", "inside the header"),
    ("/loadgen/stream/field,stream=0,offset=0,width=1,count=257", "overflows", "256 ^ width"),
    ("/loadgen/stream/field,stream=0,offset=0,width=1,count=2,mode=up", "mode=up", "inc, carry"),
    ("/loadgen/stream/field,stream=0,offset=24,width=2,count=2", "checksums", "beside"),
    ("/loadgen/stream/load,stream=0,rate=fast", "rate=fast", "or max"),
    ("/loadgen/stream/load,stream=0,rate=max", "without count", "count=N"),
    ("/loadgen/stream/load,stream=0,rate=-1", "rate=-1", "0.001..1e9"),
    ("/loadgen/trial/start,duration=1", "'epoch' is missing", "epoch="),
    ("/loadgen/trial/start,epoch=0,duration=1", "epoch=0", "1..255"),
    ("/loadgen/trial/start,epoch=1", "no count", "duration"),
    ("/loadgen/trial/start,epoch=1,duration=-1", "duration=-1", "1e-06"),
    ("/loadgen/trial/start,epoch=1,duration=1,burst=257", "burst=257", "1..256"),
    ("/loadgen/trial/start,epoch=1,duration=1,policy=hope", "policy=hope", "drop, retry"),
    ("/loadgen/trial/start,epoch=1,epoch=2", "twice", "once"),
    ("/loadgen/trial/stop", "nothing to stop", "going on"),
    ("/loadgen/trial/result,stream=0", "no result", "done"),
    ("/loadgen/trial/port,port=0", "no result", "done"),
    ("/loadgen/trial/histogram,stream=0", "no result", "done"),
    ("/loadgen/learn,stream=9", "no such stream", "was added"),
    ("/loadgen/learn,count=0", "count=0", "1..1000000000"),
    ("/loadgen/xstats,port=0,offset=-1", "offset=-1", "0.."),
]


def test_refusals_say_what_is_accepted_and_change_nothing(
    engine: Engine, raw: EngineSocket
) -> None:
    engine.set_streams([stream(0, 0, 0)])
    raw.ask("/loadgen/stream/load", stream=0, rate=1000.0)
    for request, what, accepted in REFUSALS:
        with pytest.raises(GeneratorError) as refused:
            raw.ask(request)
        assert what in refused.value.what, request
        assert accepted in refused.value.accepted, request
        assert raw.ask("/loadgen/trial/status")["state"] == "idle"
    # The load set before is still the load, and no stream but the first is there.
    raw.ask("/loadgen/trial/start", epoch=1, duration=0.05, max_lag=2.0)
    result = engine.wait(10)
    assert (result.epoch, result.aborted) == (1, False)
    assert raw.ask("/loadgen/trial/result", stream=0)["received"] == 50
    with pytest.raises(GeneratorError, match="stream=1"):
        raw.ask("/loadgen/trial/result", stream=1)


def test_epoch_of_the_last_trial_is_refused(engine: Engine) -> None:
    engine.set_streams([stream(0, 0, 0)])
    trial = EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=0.02, epoch=9)
    assert engine.start(trial) == 9
    engine.wait(10)
    with pytest.raises(GeneratorError, match="epoch 9 again"):
        engine.start(trial)
    assert engine.start(EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=0.02)) == 10


def test_what_came_late_is_told_although_neighbours_were_set_since(
    open_engine: OpenEngine, executable: Path, memif: tuple[str, str]
) -> None:
    """Which makes the workers rest once more: the next trial still has all since the last one."""
    sender, engine = open_engine(executable, memif[0]), open_engine(executable, memif[1])
    wait_for(lambda: all(p.link_up for e in (sender, engine) for p in e.ports(1)), 5.0, "links")

    def trial(of: Engine, count: int, epoch: int) -> int:
        loads = {0: StreamLoad(1000.0, count=count)}
        of.start(EngineTrial(loads=loads, epoch=epoch, drain_s=0.05, max_lag_s=2.0))
        return sum(port.stale for port in of.wait(10).ports)

    for one in (sender, engine):
        one.set_streams([stream(0, 0, 0)])
    own = NeighbourSpec(0, bytes([198, 18, 0, 1]), bytes.fromhex("020000000001"))
    engine.set_neighbours([own])
    trial(engine, 1, epoch=1)
    trial(sender, 7, epoch=1)
    engine.set_neighbours([own])
    assert trial(engine, 1, epoch=2) == 7
    assert trial(engine, 1, epoch=3) == 0


def test_paced_and_full_rate_do_not_mix_on_a_port(engine: Engine) -> None:
    engine.set_streams([stream(0, 0, 0), stream(1, 0, 0), stream(2, 1, 1)])
    with pytest.raises(GeneratorError, match="streams of rate max"):
        engine.start(
            EngineTrial(loads={0: StreamLoad(10.0), 1: StreamLoad(None, 10)}, duration_s=0.1)
        )
    engine.start(EngineTrial(loads={0: StreamLoad(100.0), 2: StreamLoad(None, 10)}, duration_s=0.1))
    assert engine.wait(10).stream(2).counts.received == 10


def test_a_bad_stream_leaves_none(engine: Engine, raw: EngineSocket) -> None:
    bad = StreamSpec(1, 0, 0, 64, bytes(20), fields=(FieldSpec(30, 1, 0, 1),))
    with pytest.raises(GeneratorError, match=r"field at 30\.\.31"):
        engine.set_streams([stream(0, 0, 0), bad])
    with pytest.raises(GeneratorError, match="stream=0"):
        raw.ask("/loadgen/stream/load", stream=0, rate=1.0)
    with pytest.raises(GeneratorError, match="stream=0"):
        engine.start(EngineTrial(loads={0: StreamLoad(1.0)}, duration_s=1))


def test_a_request_too_long_is_not_cut_off(raw: EngineSocket) -> None:
    with pytest.raises(GeneratorError, match="octets"):
        raw.ask("/loadgen/stream/add,header=" + "0" * 1000)


def test_live_status_moves(engine: Engine) -> None:
    engine.set_streams([stream(0, 0, 0)])
    assert engine.status().live is None
    trial = EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=30, delay_s=0.3, max_lag_s=5)
    engine.start(trial)
    assert engine.status().state == "armed"
    with pytest.raises(GeneratorError, match="the engine is"):
        engine.start(trial)
    with pytest.raises(GeneratorError, match="the engine is"):
        engine.learn(1)
    deadline = time.monotonic() + 10
    while (live := (status := engine.status()).live) is None or not live.received:
        assert time.monotonic() < deadline
    assert status.state == "running"
    assert 0 < live.elapsed_s < 30
    engine.stop()


def test_killed_engine_is_reported_with_its_log(engine: Engine) -> None:
    engine.set_streams([stream(0, 0, 0)])
    engine.start(EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=60))
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(GeneratorError, match="ended by signal SIGKILL") as died:
        engine.wait(10)
    assert "EAL" in str(died.value) or "ready" in str(died.value)
    engine.close()


def test_a_vhost_user_peer_that_leaves_is_named_by_the_driver(
    open_engine: OpenEngine, plain_executable: Path, run_dir: Path
) -> None:
    path = run_dir / "vhost.sock"

    def come_and_go() -> None:
        with socket.socket(socket.AF_UNIX) as peer:
            wait_for(lambda: peer.connect_ex(str(path)) == 0, 30.0, str(path))

    peer = threading.Thread(target=come_and_go)
    peer.start()
    with pytest.raises(GeneratorError, match="ended by exit code 1") as failed:  # no SIGPIPE
        open_engine(plain_executable, f"--vdev=net_virtio_user0,path={path},server=1")
    peer.join()
    assert "net_virtio_user0" in str(failed.value)


def test_engine_ends_by_itself_and_leaves_nothing(engine: Engine, run_dir: Path) -> None:
    engine.set_streams([stream(0, 0, 0)])
    engine.start(EngineTrial(loads={0: StreamLoad(1000.0)}, duration_s=60))
    engine.close()
    assert not Path(f"/proc/{engine.pid}").exists()
    log = (run_dir / "loadgen.log").read_text()
    assert "ready" in log
    assert "Sanitizer" not in log
    assert "runtime error" not in log


@pytest.mark.parametrize(
    ("devices", "settings", "message"),
    [
        ((), {}, "no port"),
        (("--vdev=net_null0",), {"rx_queues": 17}, "--rx-queues=17"),
        (("--vdev=net_null0",), {"mtu": 9999}, "--mtu=9999"),
        (("--vdev=net_nosuch0",), {}, "net_nosuch0"),
        (("--vdev=net_null0",), {"mbufs": 4_000_000}, "no memory for 4000000 buffers"),
    ],
)
def test_engine_that_cannot_start_says_why(
    open_engine: OpenEngine,
    plain_executable: Path,
    devices: tuple[str, ...],
    settings: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(GeneratorError, match="ended by exit code 1") as failed:
        open_engine(plain_executable, *devices, memory_mb=128, **settings)
    assert message in str(failed.value)


def test_silent_process_is_given_up_and_killed(tmp_path: Path, spawn: Spawn) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\necho dreaming\nexec sleep 60\n")
    sleeper.chmod(0o755)
    config = EngineConfig(devices=())

    def spawn_and_hear(argv: list[str], env: dict[str, str]) -> ManagedProcess:
        """Give it the time that a shell of a busy machine needs to say its first word."""
        process = spawn(argv, env)
        wait_for(lambda: "dreaming" in process.log.read_text(), 30, "the sleeper's word")
        return process

    with pytest.raises(GeneratorError, match="telemetry socket did not come") as silent:
        Engine.open(
            config, run_dir=tmp_path, executable=sleeper, spawn=spawn_and_hear, timeout_s=0.3
        )
    assert "dreaming" in str(silent.value)
