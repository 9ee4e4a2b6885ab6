"""Files of captured frames, in the run's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vnetperf.model.errors import LogError

FOLDER = "captures"


def write_captures(log: Path, trial: int, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write what was captured in a trial; frames may be anybody's, so only the user reads them.

    Args:
        log: The trial log, in the run's folder.
        trial: Number of the trial in that log.
        files: Name such as "port0-sent.pcap" -> octets.

    Returns:
        Paths, relative to the run's folder: "captures/trials-00012-port0-sent.pcap".

    Raises:
        LogError: They cannot be written.
    """
    folder = log.parent / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        names = [f"{log.stem}-{trial:05d}-{name}" for name in files]
        for name, octets in zip(names, files.values(), strict=True):
            _write(folder / name, octets)
    except OSError as error:
        raise LogError(
            f"captured frames cannot be written: {error.strerror}",
            where=str(folder),
            cure="make room, or leave --pcap out",
        ) from error
    return tuple(f"{FOLDER}/{name}" for name in names)


def _write(path: Path, octets: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(octets)


def told(folder: Path) -> str:
    """What to tell a user about a run's captures.

    Args:
        folder: The run's folder.

    Returns:
        A line; "" when there are none.
    """
    files = sorted((folder / FOLDER).glob("*.pcap"))
    return f"captures: {len(files)} pcap files in {folder / FOLDER}" if files else ""
