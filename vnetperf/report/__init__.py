"""Reports derived from results: terminal, Markdown, HTML, CSV, JUnit."""

from vnetperf.report.csvfile import results_csv, trials_csv
from vnetperf.report.html import html_report
from vnetperf.report.junit import junit_xml
from vnetperf.report.markdown import markdown_report
from vnetperf.report.terminal import print_results, terminal_text
from vnetperf.report.write import results_json, write_all

__all__ = [
    "html_report",
    "junit_xml",
    "markdown_report",
    "print_results",
    "results_csv",
    "results_json",
    "terminal_text",
    "trials_csv",
    "write_all",
]
