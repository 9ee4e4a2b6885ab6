"""The whole driver against the double: the contract of generators."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.traffic.pktgen.conftest import looped_double
from vnetperf.testing import GeneratorContract
from vnetperf.testing.loop import Loop


class TestPktgen(GeneratorContract):
    generator = "pktgen"
    tolerance = 0.05

    @classmethod
    @contextmanager
    def loop(cls) -> Iterator[Loop]:
        with tempfile.TemporaryDirectory() as name, looped_double(Path(name)) as loop:
            yield loop
