"""Writes transfers.csv: a row for each transfer between sockets, and one for each instance."""

from __future__ import annotations

import csv
import io

from vnetperf.model.result import RunResults
from vnetperf.model.transfer import Figures, Transfer
from vnetperf.report import opening
from vnetperf.report.csvfile import cell

_TIMES = ("min", "mean", "50", "90", "99", "99.9", "max")
COLUMNS = (
    "scenario",
    "kind",
    "way",
    "instance",
    "tool",
    "version",
    "message_size_octets",
    "instances",
    "duration_s",
    "warmup_s",
    "offered_bps_per_instance",
    "offered_messages_per_s",
    "arrived_bps",
    "sent_bps",
    "loss_ratio",
    "retransmitted_segments",
    "jitter_ms",
    "transactions_per_s",
    *(f"round_trip_{name if name in ('min', 'mean', 'max') else 'p' + name}_us" for name in _TIMES),
    "elapsed_s",
    *(
        f"{end}_{what}"
        for end in ("client", "server")
        for what in ("place", "address", "processors", "user_s", "system_s", "cpu_percent_by_tool")
    ),
    "attach_s",
    "benchmark",
    "virtual_lab",
)


def transfers_csv(results: RunResults) -> str:
    """transfers.csv: rows of the instance "all" are sums, the others are numbered from 1.

    Args:
        results: The run.

    Returns:
        CSV text; the head alone when nothing was transferred.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    about = {
        "benchmark": opening.is_benchmark(results),
        "virtual_lab": opening.in_lab(results),
    }
    for one in results.transfers:
        for transfer in one.transfers:
            asked = about | {"scenario": one.scenario} | _asked(transfer)
            rows = [asked | _ends(transfer) | _figures(transfer) | {"instance": "all"}]
            rows += [
                asked | _figures(flow.figures) | {"instance": number, "way": flow.way}
                for number, flow in enumerate(transfer.flows, 1)
            ]
            for row in rows:
                writer.writerow({key: cell(value) for key, value in row.items()})
    return out.getvalue()


def _asked(transfer: Transfer) -> dict[str, object]:
    spec = transfer.spec
    return {
        "kind": spec.kind,
        "way": spec.way,
        "tool": spec.tool,
        "version": transfer.version,
        "message_size_octets": spec.message_size,
        "instances": spec.instances,
        "duration_s": spec.duration_s,
        "warmup_s": spec.warmup_s,
        "offered_bps_per_instance": spec.rate_bps or None,
        "offered_messages_per_s": spec.message_rate if spec.kind.endswith("_LOAD") else None,
    }


def _figures(found: Figures) -> dict[str, object]:
    times = {
        f"round_trip_{name if name in ('min', 'mean', 'max') else 'p' + name}_us": (
            found.round_trip_us.get(name)
        )
        for name in _TIMES
    }
    return {
        "arrived_bps": found.bits_per_second,
        "sent_bps": found.sent_bits_per_second,
        "loss_ratio": found.loss_ratio,
        "retransmitted_segments": found.retransmits,
        "jitter_ms": found.jitter_ms,
        "transactions_per_s": found.transactions_per_second,
        "client_cpu_percent_by_tool": found.client_cpu_percent,
        "server_cpu_percent_by_tool": found.server_cpu_percent,
        **times,
    }


def _ends(transfer: Transfer) -> dict[str, object]:
    found: dict[str, object] = {"elapsed_s": transfer.elapsed_s, "attach_s": transfer.attach_s}
    for name, end in (("client", transfer.client), ("server", transfer.server)):
        found |= {
            f"{name}_place": end.place,
            f"{name}_address": end.address,
            f"{name}_processors": end.cpus,
            f"{name}_user_s": end.user_s,
            f"{name}_system_s": end.system_s,
        }
    return found
