"""RFC 2544 sections 6 to 23: how a run is set up, whatever it measures."""

from __future__ import annotations

from collections.abc import Sequence

from vnetperf.bench.compliance.entry import entry
from vnetperf.model.headers import PLAIN
from vnetperf.model.result import LedgerEntry, Result
from vnetperf.model.scenario import Scenario
from vnetperf.model.units import RFC2544_FRAME_SIZES
from vnetperf.results.records import RunRecord


def setup(
    run: RunRecord, scenarios: Sequence[Scenario], results: Sequence[Result]
) -> list[LedgerEntry]:
    """Hold a run against the clauses that every test of it has in common.

    Args:
        run: Preset and testbed.
        scenarios: What was deployed.
        results: What was measured.

    Returns:
        Entries in the order of the clauses.
    """
    preset, trial = run.preset, run.preset.trial
    because = f"preset {preset.name}"
    sizes = sorted({r.frame_size for r in results if r.status == "measured" and not r.imix})
    profiles = [scenario.traffic for scenario in scenarios]
    both_ways = all(len({s.direction for s in scenario.streams}) == 2 for scenario in scenarios)
    equal = all(p.loads == (1.0, 1.0) for p in profiles)
    broadcast = max((p.broadcast for p in profiles), default=0.0)
    networks = {"ipv4_dst", "ipv4_dst_net"}
    learning = min((p.learning_frames_per_stream for p in profiles), default=0)
    mixed = any(r.imix for r in results)
    routed = any(s.routed for s in scenarios)
    told = [goal.uncollected for r in results for goal in r.goals]
    counted_only = sorted({why["duplicated"] for why in told if "duplicated" in why})
    others = sorted({", ".join(p.headers) for p in profiles if p.headers != PLAIN})
    # The agent's machine carries tester and DUT, wherever it is, unless a server is named.
    servers = {"trex": run.testbed.trex.server, "pktgen": run.testbed.pktgen.server}
    elsewhere = bool(scenarios) and all(servers.get(s.generator) for s in scenarios)
    return [
        entry(
            "RFC 2544 section 6",
            "tester and DUT are separate equipment",
            elsewhere,
            "the generator runs on a machine of its own"
            if elsewhere
            else "one machine carries both",
            "they share processors, caches and memory: a rate is that of both together",
        ),
        entry(
            "RFC 2544 section 8",
            "frames of UDP over IPv4 over Ethernet, as in appendix C",
            not others,
            "; ".join(others) or ", ".join(PLAIN),
            "the traffic profile has other headers",
        ),
        entry(
            "RFC 2544 section 9.1",
            "frame sizes 64, 128, 256, 512, 1024, 1280, 1518, at least five of them",
            len(set(sizes) & set(RFC2544_FRAME_SIZES)) >= 5,
            ", ".join(map(str, sizes)) or ("a mix of sizes" if mixed else "none measured"),
            "a mix of sizes is in no clause" if mixed else "fewer sizes were asked for or measured",
        ),
        entry(
            "RFC 2544 section 10",
            "received frames are verified to be those sent",
            not counted_only,
            "; ".join(counted_only) or "signature, stream, sequence and time stamp in every frame",
            "frames that came back are counted and not told apart; another --generator can",
        ),
        LedgerEntry(
            clause="RFC 2544 section 11",
            requirement="tests without modifiers, then with each of them",
            status="deviated",
            value=f"broadcast frames only, {broadcast:.2%} of all"
            if broadcast
            else "without modifiers only",
            reason="management, routing and filter modifiers are not applied, and one traffic "
            "profile a run has no run without modifiers beside it"
            if broadcast
            else "broadcast, management, routing and filter modifiers are not applied",
        ),
        entry(
            "RFC 2544 section 12",
            "a single stream, then uniformly random over 256 destination networks",
            any(
                p.flows >= 256 and networks & {*p.vary} and p.vary_mode == "random"
                for p in profiles
            )
            and any(p.flows == 1 for p in profiles),
            ", ".join(sorted({f"{p.name}: {p.flows} flow(s)" for p in profiles})) or "none",
            "one traffic profile a run; repeat with another --traffic",
        ),
        entry(
            "RFC 2544 section 14",
            "same rate into both ports",
            both_ways and equal,
            "one direction" if not both_ways else "bidirectional" if equal else "unequal loads",
            "the traffic profile sends unequal loads"
            if both_ways
            else "the traffic profile or the deployment sends one way",
        ),
        LedgerEntry(
            clause="RFC 2544 section 23 a",
            requirement="routing update and 2 s pause",
            status="deviated" if routed else "not applicable",
            value="static routes" if routed else "layer 2 forwarding",
            reason="routes are set when the DUT is deployed, no update is sent" if routed else "",
        ),
        entry(
            "RFC 2544 section 23 b",
            "learning frames, then 2 s",
            learning > 0 and trial.learning_wait_s >= 2,
            f"{learning} frames per stream, then {trial.learning_wait_s:g} s",
            because,
        ),
        entry(
            "RFC 2544 section 23 d",
            "2 s for residual frames",
            trial.full_drain and trial.drain_s >= 2,
            f"{trial.drain_s:g} s"
            + ("" if trial.full_drain else " at most, less once all are back"),
            because,
        ),
        entry(
            "RFC 2544 section 23 e",
            "5 s for the DUT to restabilise",
            trial.settle_s >= 5,
            f"{trial.settle_s:g} s",
            because,
        ),
    ]
