"""The engine as a program: built on first use."""

from __future__ import annotations

import sys
from pathlib import Path

from vnetperf.host.build import DpdkProgram
from vnetperf.model.errors import VnetperfError

ENGINE = DpdkProgram("loadgen", Path(__file__).with_name("engine"))


def main() -> int:
    """Build the engine for this machine, unless it is built; what `make engine` calls."""
    try:
        print(f"engine: {ENGINE.executable()}")  # noqa: T201 - a command of its own
    except VnetperfError as error:
        print(f"engine: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
