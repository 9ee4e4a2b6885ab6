"""The whole driver against the double: the contract of generators."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.traffic.pktgen.conftest import looped_double
from vnetperf.testing import GeneratorContract
from vnetperf.testing.generator import Loop

#: The double refreshes its counters as rarely as Pktgen does, and every trial waits for that.
pytestmark = pytest.mark.slow


class TestPktgen(GeneratorContract):
    generator = "pktgen"
    tolerance = 0.05

    @classmethod
    @contextmanager
    def loop(cls) -> Iterator[Loop]:
        with tempfile.TemporaryDirectory() as name, looped_double(Path(name)) as loop:
            yield loop
