"""report.md, and numbers that are not known."""

import re

import pytest
from markdown_it import MarkdownIt

from vnetperf.model.result import LedgerEntry
from vnetperf.report import run_tables, summary
from vnetperf.report.markdown import markdown_report
from vnetperf.report.summary import flatten_facts, is_missing, missing_values
from vnetperf.report.table import escape_markdown, markdown_code

GOLDEN_ROW = (
    "| 512 | ndr | **at least 11.75 Mfps** | no load failed | 11.75 Mfps | 0 % | none | 50.00 "
    "| 11.75 Mfps | 100 % | 100 % | 28 | not recorded | irregular: the maximum load met "
    "the goal: the DUT may be faster than this search could offer | one search: not known |"
)


def _html(said: str) -> str:
    return MarkdownIt("commonmark").enable("table").render(said)


def test_the_first_line_says_that_it_is_no_benchmark(smoke, texts):
    texts.check(markdown_report(smoke).partition("\n")[0])


def test_a_result_row_reads_as_agreed(results):
    assert GOLDEN_ROW in markdown_report(results).splitlines()


@pytest.mark.parametrize(
    "said",
    [
        "> **Warning:** cores are shared",
        "| isolation statement (RFC 6815) | isolated testbed",
        "goal **pdr**: loss ratio 0.5 %, exceed ratio 50 %, initial trial 1 s, final trial 1 s, "
        "duration sum 21 s",
        "### Each direction",
        "26 VALID, 2 GENERATOR\\_LIMITED",
        "phy0 rx ring: ",
        "## Calibration of the generator",
        "| RFC 2544 section 24 | trials of at least 60 s | deviated | 1 s | the preset mlr-csit",
        "| cpu.governor | `performance` |",
        "ovs-vswitchd-dpdk unix:/run/vnetperf/r1/db.sock --pidfile",
        "| testbed | `lab-1` | environment VNETPERF\\_TESTBED |",
        "1518 octets: **not measured**: the path check lost 3 of 32 frames",
        "| environment.cpu.microcode | unknown: /proc/cpuinfo has no microcode line |",
        "**Not deployed**: vpp: exited with status 1",
    ],
)
def test_everything_is_there(results, said):
    assert said in markdown_report(results)


def test_all_rows_of_a_table_have_as_many_cells(results):
    for block in re.findall(r"(?:^\|.*\n)+", markdown_report(results), re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block[:200]


def test_names_never_become_markup(hostile):
    page = _html(markdown_report(hostile))
    assert "<img" not in page
    assert "<script" not in page
    assert "<a " not in page
    assert page.count("<tr>") > 20


@pytest.mark.parametrize("said", ["a|b", "`", "``x`", "<b>", "*x*", "[a](b)", "a\nb", "# no"])
def test_escaped_text_renders_as_itself(said):
    shown = _html(f"x {escape_markdown(said)}").strip().removeprefix("<p>x ").removesuffix("</p>")
    plain = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert plain == " ".join(said.split())


@pytest.mark.parametrize("said", ["a|b", "`", "x``y", "<b>"])
def test_code_in_a_cell_renders_as_itself(said):
    shown = _html(f"| h |\n| - |\n| {markdown_code(said)} |\n")
    found = re.search(r"<code>(.*)</code>", shown)
    assert found
    assert found[1].replace("&lt;", "<").replace("&gt;", ">") == said


def test_every_unknown_value_is_found_with_its_place(results):
    found = {u.where: u.reason for u in missing_values(results)}
    assert found["environment.cpu.microcode"].startswith("unknown: /proc/cpuinfo")
    assert found["environment.bios"].startswith("not measured: dmidecode")
    assert found["pvp_dpdk.facts.vswitch.compiler"] == "unknown: the binary does not say"
    assert found["pvp_dpdk.throughput[1518]"].startswith("not measured: the path check")
    gap = found["calibrations[memif][1518].smallest_burst_gap_ns"]
    assert gap.startswith("not measured")


def test_what_is_missing_altogether_is_unknown_too(results):
    run = results.run.model_copy(update={"isolation": "", "ended": ""})
    changed = results.model_copy(update={"run": run, "calibrations": (), "environment": {}})
    found = {u.where for u in missing_values(changed)}
    assert {"run.isolation", "run.ended", "calibrations", "environment"} <= found


def test_only_a_value_that_says_so_is_unknown():
    assert is_missing("unknown: no such file")
    assert is_missing("Not measured")
    assert not is_missing("an unknown vendor")
    assert not is_missing("unknown vendor 0x8086")
    assert not is_missing(0)


def test_facts_flatten_into_rows():
    tree = {
        "launch": ["ovs-vswitchd", "unix:/a b", "--pidfile"],
        "cpus": [1, 2],
        "ports": [{"name": "phy0"}, {"name": "phy1"}],
        "smt": False,
        "empty": {},
    }
    assert dict(flatten_facts(tree)) == {
        "launch": "ovs-vswitchd 'unix:/a b' --pidfile",
        "cpus": "1, 2",
        "ports[0].name": "phy0",
        "ports[1].name": "phy1",
        "smt": "no",
        "empty": "none",
    }


def test_the_ledger_counts_clauses_and_not_their_entries(results):
    def entry(clause, status, test):
        return LedgerEntry(clause=clause, requirement="", status=status, test=test)

    entries = (
        entry("RFC 1", "met", "latency"),
        entry("RFC 1", "met", "reset"),
        entry("RFC 2", "met", "latency"),
        entry("RFC 2", "deviated", "reset"),
        entry("RFC 3", "not applicable", "latency"),
        entry("RFC 3", "met", "reset"),
        entry("RFC 4", "not looked at", ""),
    )
    one = results.model_copy(update={"ledger": entries, "deviations": (entries[3],)})
    said = "4 clauses: 2 met, 1 met in part, 0 deviated, 0 not applicable, 1 not looked at"
    assert said in markdown_report(one)
    worth = dict(run_tables.headline(one, summary.groups(one)))["Worth"]
    assert "1 of 4 clauses deviated from" in worth
