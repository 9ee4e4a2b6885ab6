"""Waits for a calm machine before something is measured on it.

It chooses when a measurement begins, and never what of it counts.
"""

from __future__ import annotations

import logging
import time

from vnetperf.analysis.disturbance import disturbing_share
from vnetperf.model.errors import VnetperfError
from vnetperf.runner.run import Run

log = logging.getLogger(__name__)

#: How long the machine must be calm, and longest waits: before one measurement, and of a run in
#: all, seconds.
CALM_S, LONGEST_S, LONGEST_IN_ALL_S = 1.0, 15.0, 45.0
#: What waiting is accounted as among the run's times.
WAITED = "calm"


def await_calm(run: Run) -> None:
    """Wait until others leave the pollers' processors alone, for as long as there is time to.

    Nothing is waited for by a preset that is no benchmark.
    """
    preset = run.configuration.preset
    limit = disturbing_share(preset.goals)
    waited_s = 0.0
    while preset.benchmark and waited_s < LONGEST_S:
        if run.spent.get(WAITED, 0.0) >= LONGEST_IN_ALL_S:
            return
        began = time.monotonic()
        try:
            disturbances = run.client.watch(CALM_S).taken
        except VnetperfError as error:  # the first trial finds what is wrong, and who it is of
            log.warning("the machine cannot be watched: %s", error)
            return
        texts = [text for disturbance in disturbances.values() for text in disturbance.texts(limit)]
        if not texts:
            return
        if not waited_s:
            text = f"waiting for a calm machine: {'; '.join(texts)}"
            log.info("%s", text)
            run.progress.say(text)
        seconds = time.monotonic() - began
        waited_s += seconds
        run.spend(WAITED, seconds)
