"""Busy threads, their events and the vSwitch's own counters, as reports show them."""

import csv
import io

import pytest

from vnetperf.model.result import DatapathUse, NodeUse, Profile
from vnetperf.report.csv_files import cpu_csv
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.summary import missing_values

from .sample_outcomes import TESTS

TITLE = "Busy threads at the lower bounds"


def test_both_reports_have_them(results, texts):
    md, page = markdown_report(results), html_report(results)
    group = md.split(f"### {TITLE}")[1].split("\n\n")
    texts.check(group[1].splitlines()[:3])
    assert "not measured" in group[1]  # of the goal whose trial had no counter
    assert TITLE in page
    assert "dTLB load misses" in page
    for report in (md, page):
        assert "events: not measured: " in report


def test_goals_of_one_bound_share_a_row(results):
    """What the trials of one load tell, they tell of each goal."""

    def told(*trials: int) -> list[str]:
        goals = [
            replaced.model_copy(update={"trial": trial, "search": 1, "threads": first.threads})
            for replaced, trial in zip(measured.goals, trials, strict=True)
        ]
        changed = results.model_copy(
            update={"results": (measured.model_copy(update={"goals": tuple(goals)}),)}
        )
        rows = markdown_report(changed).split(f"### {TITLE}")[1].split("\n\n")[1].splitlines()[2:]
        return list(dict.fromkeys(row.split(" | ")[1] for row in rows))

    measured = next(r for r in results.results if len(r.goals) == 2)
    first = measured.goals[0]
    names = [goal.name for goal in measured.goals]
    assert told(7, 7) == [", ".join(names)]
    assert told(7, 8) == told(0, 0) == names


def test_what_was_not_counted_is_listed_once_for_each_search(results):
    found = [u for u in missing_values(results) if u.where.endswith(".events")]
    assert {u.reason for u in found} == {"not measured: nobody counts them"}
    assert len({u.where for u in found}) == len(found)


def test_a_run_of_before_has_none(results):
    plain = results.model_copy(
        update={
            "results": tuple(
                r.model_copy(
                    update={
                        "goals": tuple(
                            g.model_copy(update={"threads": (), "uncollected": {}}) for g in r.goals
                        )
                    }
                )
                for r in results.results
            )
        }
    )
    assert TITLE not in markdown_report(plain)
    assert TITLE not in html_report(plain)


def test_the_vswitchs_own_counters_stand_below(results, texts):
    md, page = markdown_report(results), html_report(results)
    title = "The vSwitch's own counters at the lower bounds"
    first = md.split(f"### {title}")[1].split("\n\n")[1].splitlines()[2]
    texts.check(first)
    assert "own counters at the lower bounds" in page


@pytest.mark.slow
def test_every_test_has_the_processor_use_by_role_of_the_trial_that_decides(every):
    md, page = markdown_report(every).replace("\\", ""), html_report(every)
    for test in sorted(TESTS):
        part = md.split(f"## pvp_dpdk · {test}\n")[1].split("\n## ")[0]
        rows = part.split("### Processor use by role")[1].split("\n\n")[1].splitlines()
        found = [row for row in rows if "| tester | 0 |" in row]
        assert found, test
        missing = "not recorded"
        own = [missing, missing, "0.610", "0.0200", "0.0130", "0", "0.00400", "310", "pmd"]
        assert all(f"| {' | '.join(own)} |" in row for row in found)
        assert rows[0].split(" | ")[-3:] == ["shared with", "queue drops", "queue stops |"]
        for cell in (
            ["vnf0", "1-3, 5", missing, missing, "0.900", "0.0500", missing],
            ["kernel", "0-5", "0.0410", "0.00200", missing, "0.0100"],
            ["others", "0-5", "0.120", missing, missing, missing, missing],
        ):
            assert any(f"| {' | '.join(cell)} |" in row for row in rows), cell
        assert any("| machine | 0-5 | 2.10 |" in r and r.endswith("| 17 | 3 |") for r in rows)
    assert page.count("Processor use by role") == len(TESTS)


def test_processor_use_of_every_trial_is_in_a_file_of_its_own(every):
    rows = list(csv.DictReader(io.StringIO(cpu_csv(every))))
    with_cpu = [t for t in every.trials if t.cpu]
    assert len(rows) == 6 * len(with_cpu)
    assert {row["test"] for row in rows} == set(TESTS)
    machine = next(row for row in rows if row["role"] == "machine")
    assert (machine["processors"], machine["softirq_cores"]) == ("0 1 2 3 4 5", "0.031")
    assert (machine["busy_cores"], machine["waiting_cores"]) == ("2.1", "")
    assert (machine["backlog_dropped"], machine["backlog_squeezed"]) == ("17", "3")
    kernel, others = (next(r for r in rows if r["role"] == n) for n in ("kernel", "others"))
    assert (kernel["busy_cores"], kernel["waiting_cores"]) == ("0.041", "0.002")
    assert (others["user_cores"], others["system_cores"], others["busy_cores"]) == ("", "", "0.12")
    assert next(row for row in rows if row["role"] == "vnf0")["steal_cores"] == ""


def test_nodes_of_a_graph_stand_below_with_clocks_and_vector_sizes(results, texts):
    nodes = (
        NodeUse(
            name="memif-input",
            packets=300,
            clocks_per_packet=310.0,
            packets_per_call=0.5,
            input=True,
        ),
        NodeUse(name="l2-output", packets=300, clocks_per_packet=15.0, packets_per_call=34.3),
    )
    use = DatapathUse(
        thread="vpp_wk_0", packets=300, cycles_per_packet=45.4, busy=None, nodes=nodes
    )
    first, *others = results.results
    goals = tuple(goal.model_copy(update={"datapath": (use,)}) for goal in first.goals)
    run = results.model_copy(
        update={"results": (first.model_copy(update={"goals": goals}), *others)}
    )
    title = "Nodes of the vSwitch's graph at the lower bounds"
    rows = markdown_report(run).split(f"### {title}")[1].split("\n\n")[1].splitlines()
    texts.check(rows[2:])
    assert "| 300 | 45.4 | not measured |" in markdown_report(run)
    assert "graph at the lower bounds" in html_report(run)
    assert title not in markdown_report(results)


def test_flame_graphs_are_linked_and_what_they_lack_is_told(results, texts):
    taken = Profile(
        scenario="pvp_dpdk",
        frame_size=64,
        goals=("ndr", "pdr"),
        bound="lower",
        load_fps=1e6,
        samples=2000,
        top=(("poll", 0.6), ("emc_lookup", 0.25)),
        file="profiles/pvp_dpdk-64-ndr-pdr-lower.svg",
    )
    why = "not measured: perf is not installed"
    none = taken.model_copy(update={"bound": "upper", "file": "", "top": (), "why": why})
    run = results.model_copy(update={"profiles": (taken, none)})
    md, page = markdown_report(run).replace("\\", ""), html_report(run)
    rows = md.split("### Profiles")[1].split("\n\n")[1].splitlines()
    texts.check(rows[2:])
    assert f'<a href="{taken.file}">' in page
    assert page.count(f'href="{taken.file}"') == 1
    assert "### Profiles" not in markdown_report(results)
