"""TRex's server or client dies in mid-trial, and a deployment is run with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.real.looped import looped
from tests.real.switches import deployed
from tests.real.test_trex import LONG, SLOW, pytestmark
from vnetperf.deployment.trial import run_trial
from vnetperf.model.errors import GeneratorError

__all__ = ["pytestmark"]
Unchanged = Callable[[], tuple[str, ...]]


def test_a_server_that_dies_is_no_number(unchanged: Unchanged) -> None:
    with looped("trex") as loop:
        loop.prepare()
        pid = loop.generator.pollers()[0].pid
        timer = threading.Timer(1.5, os.kill, (pid, signal.SIGKILL))
        timer.start()
        with pytest.raises(GeneratorError, match=r"server has ended|ended by signal SIGKILL"):
            loop.generator.run(LONG, lambda: None)
        timer.join()
        with pytest.raises(GeneratorError, match=r"server has ended|ended by signal SIGKILL"):
            loop.generator.run(SLOW, lambda: None)
        ends = loop.ends
        loop.generator.close()
        loop.generator.connect(ends)
        loop.prepare()
        result = loop.generator.run(SLOW, lambda: None)
        assert [d.received for d in result.directions] == [2500, 2500]
    assert unchanged() == ()


def test_a_client_that_dies_is_no_number(unchanged: Unchanged) -> None:
    with looped("trex") as loop:
        loop.prepare()
        client: Any = loop.generator.client
        timer = threading.Timer(1.5, os.kill, (client.pid, signal.SIGKILL))
        timer.start()
        with pytest.raises(GeneratorError, match="process of TRex's client failed"):
            loop.generator.run(LONG, lambda: None)
        timer.join()
    assert unchanged() == ()


def test_deployments_run_with_it(unchanged: Unchanged) -> None:
    with deployed("phy2phy_bridge", generator="trex") as deployment:
        result = run_trial(deployment, SLOW)
        assert not result.failed, result.failure
        assert [d.received for d in result.directions] == [2500, 2500]
    assert unchanged() == ()
