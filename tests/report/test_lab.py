"""Whatever is made in the virtual lab says first that its speeds mean nothing."""

import csv
import io
from xml.etree import ElementTree as ET

import pytest

from vnetperf.report.csv_files import results_csv, trials_csv
from vnetperf.report.junit import junit_xml
from vnetperf.report.markdown import markdown_report
from vnetperf.report.page import html_report
from vnetperf.report.publish import TestApiNames, documents_for_testapi, openmetrics
from vnetperf.report.terminal import terminal_text

SAYS = "Virtual lab: its speeds and latencies mean nothing"


@pytest.fixture(scope="module")
def lab(few):
    return few.model_copy(update={"environment": {**few.environment, "virtual_lab": True}})


def test_the_first_line_says_so(lab):
    assert terminal_text(lab, width=80).splitlines()[0].startswith(SAYS)
    assert markdown_report(lab).startswith(f"**{SAYS}")
    body = html_report(lab).partition("<body>")[2]
    assert body.partition("</p>")[0].partition(">")[2].startswith(SAYS)
    assert 'class="banner alarm"' in body.partition("</p>")[0]


def test_what_the_preset_says_follows(smoke):
    lab = smoke.model_copy(update={"environment": {"virtual_lab": True}})
    first = markdown_report(lab).partition("\n")[0]
    assert SAYS in first
    assert "Not a benchmark" in first


def test_programs_can_tell(lab):
    root = ET.fromstring(junit_xml(lab))  # noqa: S314 - our own text
    held = {p.get("name"): p.get("value") for p in root[0].find("properties")}
    assert (held["virtual_lab"], held["benchmark"]) == ("true", "false")
    assert held["note"].startswith(SAYS)
    rows = list(csv.DictReader(io.StringIO(results_csv(lab))))
    assert {(row["virtual_lab"], row["benchmark"]) for row in rows} == {("true", "false")}
    assert 'benchmark="no"' in openmetrics(lab)
    (document, *_) = documents_for_testapi(lab, TestApiNames())
    assert document["details"]["benchmark"] is False
    rows = list(csv.DictReader(io.StringIO(trials_csv(lab))))
    assert {row["virtual_lab"] for row in rows} == {"true"}


@pytest.mark.parametrize("said", [False, "unknown: /proc/cmdline: no such file"])
def test_a_real_machine_says_nothing_of_it(few, said):
    real = few.model_copy(update={"environment": {"virtual_lab": said}})
    assert "Virtual lab" not in terminal_text(real)
    assert not markdown_report(real).startswith("**Virtual")
    rows = csv.DictReader(io.StringIO(results_csv(real)))
    assert {row["benchmark"] for row in rows} == {"true"}
