"""A part of the DUT that has ended is told, with what it said last."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from vnetperf.model.errors import DutError
from vnetperf.plugin.backend import check_process


def test_a_process_that_has_ended_is_told_with_its_last_words() -> None:
    process = MagicMock(returncode=-9, stopped=False)
    process.log_tail.return_value = "out of buffers"
    process.alive.return_value = True
    check_process(process, "vpp")
    check_process(None, "vpp")  # not started, or stopped
    process.alive.return_value = False
    with pytest.raises(DutError, match=r"vpp has ended \(status -9\).*\n.*out of buffers"):
        check_process(process, "vpp")
