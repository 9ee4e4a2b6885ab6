"""The record that opens a run's log: who and what made it, and with which values."""

from __future__ import annotations

import shlex
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from vnetperf import __version__
from vnetperf.bench.continued import NOT_OF_TRIALS
from vnetperf.config import Configuration
from vnetperf.model.result import RunIdentity
from vnetperf.results.records import RunRecord


def opening(configuration: Configuration, *, resumed: bool) -> RunRecord:
    """The record of a run that begins now.

    Args:
        configuration: What to do.
        resumed: Whether it continues a log.

    Returns:
        The record.
    """
    c = configuration
    return RunRecord(
        identity=RunIdentity(
            tool=f"vnetperf {__version__}",
            git=_git_commit(),
            command=shlex.join(sys.argv),
            started=utc_now(),
            isolation=c.testbed.isolation_statement,
            testbed=c.testbed.name,
            notes=c.settings.notes,
        ),
        preset=c.preset,
        testbed=c.testbed,
        settings=c.as_record(),
        fingerprint=fingerprint_of(c),
        resumed=resumed,
    )


def fingerprint_of(configuration: Configuration) -> str:
    """What must be equal for trials of two runs to be mixed.

    Args:
        configuration: What to do.

    Returns:
        A digest of version, preset, testbed and the settings that shape traffic.
    """
    c = configuration
    chosen = c.settings.model_dump_json(exclude=set(NOT_OF_TRIALS))
    preset = c.preset.model_dump_json(exclude={"frame_sizes", "tests"})
    text = "\n".join(
        [
            *(__version__, preset, c.testbed.model_dump_json(), c.traffic.model_dump_json()),
            *(c.switch.model_dump_json(), chosen),
        ]
    )
    return sha256(text.encode()).hexdigest()[:16]


def utc_now() -> str:
    """The time.

    Returns:
        UTC, ISO 8601, milliseconds.
    """
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _git_commit() -> str:
    """Commit of the tool when it runs from a checkout."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists():
        return "unknown: vnetperf is installed, not run from a checkout"
    argv = ["git", "-C", str(top), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    return done.stdout.strip() or f"unknown: {done.stderr.strip()[:80]}"
