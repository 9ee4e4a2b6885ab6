"""What a newcomer reads first is true: the README's table, the index, the list of deployments."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.test_docs import DOCUMENTS, LINK, TOP
from tests.recorded.test_recorded import contents
from vnetperf.analysis.results_from_log import derive
from vnetperf.log.folder import read_run
from vnetperf.model.deployment import ALL_DEPLOYMENTS
from vnetperf.report.terminal import terminal_text


def test_the_index_has_each_document_once() -> None:
    index = TOP / "docs/README.md"
    links = [(index.parent / link).resolve() for link in LINK.findall(index.read_text())]
    documents = [document for document in DOCUMENTS if document != index]
    assert [str(d) for d in documents if links.count(d) != 1] == []


def test_every_deployment_has_its_row() -> None:
    table = (TOP / "docs/deployments.md").read_text()
    assert [name for name in ALL_DEPLOYMENTS if f"`{name}`" not in table] == []


def test_the_table_of_the_readme_is_printed_from_a_recorded_run(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text(contents("pvp_dpdk_quick")["trials.jsonl"])
    output = terminal_text(derive(read_run(tmp_path)))
    blocks = re.findall(r"```(\w*)\n(.*?)```", (TOP / "README.md").read_text(), re.DOTALL)
    (table,) = [text for language, text in blocks if not language and "throughput" in text]
    assert [line for line in table.splitlines() if line not in output.splitlines()] == []
