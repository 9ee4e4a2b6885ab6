"""Fails unless each scenario named has a number in a run: a skipped test is green all the same.

`ci/measured.py RUN SCENARIO...`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def problems(results: dict[str, Any], scenarios: list[str]) -> list[str]:
    """What has no number.

    Args:
        results: Content of results.json.
        scenarios: Scenarios that must have one.

    Returns:
        One sentence for each that has none.
    """
    found = []
    failed = {s["scenario"]: s["error"] for s in results["scenarios"] if s["error"]}
    for name in scenarios:
        mine = [r for r in results["results"] if r["scenario"] == name]
        if any(r["status"] == "measured" for r in mine):
            continue
        why = next((r["why"] for r in mine if r["why"]), failed.get(name, "it was not run"))
        found.append(f"{name} has no number: {why}")
    return found


def main(argv: list[str]) -> int:
    """Check a run.

    Args:
        argv: Its folder, and scenarios.

    Returns:
        0; 1 when one has no number, 2 for wrong use.
    """
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(argv[0]) / "results.json"
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        print(f"measured: {path}: {error}", file=sys.stderr)
        return 1
    found = problems(results, argv[1:])
    for problem in found:
        print(f"measured: {problem}", file=sys.stderr)
    if not found:
        print(f"measured: {', '.join(argv[1:])}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
