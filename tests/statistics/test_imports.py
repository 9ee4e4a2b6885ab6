"""What takes long to import waits until a figure needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_collecting_tests_and_starting_an_agent_import_no_scipy() -> None:
    code = (
        "import sys, vnetperf.pytest_plugin.plugin, vnetperf.pytest_plugin.session, "
        "vnetperf.runner.bench, vnetperf.agent.agent, vnetperf.report, vnetperf.cli\n"
        "sys.exit(' '.join(sorted({'numpy', 'scipy'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
