"""Deploys a plan of one host, up to the check that frames come through."""

from __future__ import annotations

import contextlib
import logging
from typing import Unpack

from vnetperf.deployment.deploy import LiveDeployment, RunOptions
from vnetperf.deployment.path_check import check_path
from vnetperf.model.scenario import Plan
from vnetperf.model.testbed import MachineFacts

log = logging.getLogger(__name__)


def deploy_plan(plan: Plan, facts: MachineFacts, **options: Unpack[RunOptions]) -> LiveDeployment:
    """Deploy a plan of one host; when anything fails, the machine is as it was."""
    deployment = LiveDeployment.open(plan, facts, **options)
    with contextlib.ExitStack() as on_error:
        on_error.callback(deployment.teardown)
        on_error.callback(lambda: log.error("undoing the deployment of %s", plan.scenario.id))
        deployment.bring_up()
        path_facts = check_path(deployment)
        log.info("frames come through: %s", path_facts)
        deployment.note_facts(path_facts)
        on_error.pop_all()
    return deployment
