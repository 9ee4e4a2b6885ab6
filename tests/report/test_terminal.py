import io

import pytest
from rich.console import Console

from vnetperf.model.trial import Verdict
from vnetperf.report import goal_text
from vnetperf.report.page import html_report
from vnetperf.report.terminal import print_results, terminal_text

GOLDEN_HEAD = """\
Warning: cores are shared: DUT and tester run on processor 1 (slices of 100 µs)

phy2phy_dpdk · throughput: sums of 2 sending interface(s)
                    lower bound        loss  upper  cond. free   L1 % of
octets goal                 fps           %    fps    fps  fps Gb/s gen.
────────────────────────────────────────────────────────────────────────
64     ndr               18.09M           0 18.17M 18.09M none 12.2 77.3
"""
GOLDEN_AT_LEAST = "512    ndr      at least 11.75M irreg.    0   none 11.75M none 50.0  100\n"


def test_a_table_reads_as_agreed(results):
    assert terminal_text(results).startswith(GOLDEN_HEAD)


def test_the_qualifier_and_the_flag_stand_next_to_the_number(results):
    assert GOLDEN_AT_LEAST in terminal_text(results)


def test_the_first_line_says_that_it_is_no_benchmark(smoke, texts):
    first = terminal_text(smoke).splitlines()[0]
    texts.check(first)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_and_carry_no_escape_sequence(results, width):
    shown = terminal_text(results, width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "\x1b" not in shown


def test_plain_is_ascii_only(results):
    assert terminal_text(results, plain=True).isascii()


def test_a_log_that_is_not_utf8_gets_ascii(results):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    print_results(results, Console(file=file, width=80))
    file.flush()
    assert b"phy2phy_dpdk - throughput" in raw.getvalue()


def test_each_direction_has_its_latency(results):
    lines = terminal_text(results).splitlines()
    start = lines.index("Each direction, per interface")
    row = next(x for x in lines[start:] if "phy0->phy1" in x)
    # Size, goal, direction, two bounds, loss, three latencies.
    assert len(row.split()) == 9


def test_what_was_not_measured_says_why(results):
    shown = " ".join(terminal_text(results).split())
    assert "1518 octets: not measured: " in shown
    assert "lost 3 of 32 frames" in shown
    assert "not deployed: vpp: exited with" in shown
    assert "irregular: bounds are 7.4 % apart" in shown
    assert "1 GENERATOR_LIMITED" in shown


def test_names_are_no_markup_and_no_escape_sequences(hostile):
    shown = terminal_text(hostile)
    assert "<img src=x" in shown
    assert "\x1b" not in shown


def test_an_empty_run_is_no_error(results):
    empty = results.model_copy(update={"results": (), "trials": (), "scenarios": ()})
    assert "Preset mlr-csit" in terminal_text(empty)


def test_a_generator_that_died_is_told_from_one_that_was_too_slow(results, texts):
    slow = results.trials[0].model_copy(update={"verdict": Verdict.GENERATOR_LIMITED})
    dead = slow.model_copy(update={"offered_ratio": None, "reason": "the engine has ended"})
    assert goal_text.verdict_text(slow) == "GENERATOR_LIMITED"
    texts.check(goal_text.verdict_text(dead))
    assert goal_text.verdict_text(dead) in html_report(
        results.model_copy(update={"trials": (dead,)})
    )
