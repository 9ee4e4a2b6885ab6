"""What of two sides can be compared, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetperf.bench.quantity import Key, Quantity

Numbers = Mapping[Key, Sequence[Quantity]]


def name_of(scenario: str, key: Key) -> str:
    """A number in a sentence.

    Args:
        scenario: "pvp_dpdk".
        key: Test, size and name.

    Returns:
        "pvp_dpdk, throughput, 64, ndr".
    """
    test, size, name = key
    return ", ".join(part for part in (scenario, test, size, name) if part)


def only_one_has(name: str, known: Numbers, also: Numbers) -> list[str]:
    """What only one side has.

    Args:
        name: The scenario.
        known: Numbers of the first side.
        also: Those of the second.

    Returns:
        A sentence for each test and reason.
    """
    said: list[str] = []
    for letter, mine, other in (("A", known, also), ("B", also, known)):
        said += [f"{name_of(name, k)}: {_missing(letter, q)}" for k, q in mine.items() if not k[2]]
        missing = [key for key, found in mine.items() if key not in other and found[0].main]
        if not other and missing:
            said.append(f"{name}: only {letter} has it")
            continue
        sizes = {key[:2] for key in other}
        whole: dict[str, list[str]] = {}
        for test, size, number in missing:
            if (test, size) not in sizes:
                whole.setdefault(test, []).append(size)
            elif number and (test, size, "") not in other:
                said.append(f"{name_of(name, (test, size, number))}: only {letter} has it")
        said += [
            f"{name}, {test}: only {letter} has frame size {', '.join(dict.fromkeys(found))}"
            for test, found in whole.items()
        ]
    return said


def why_not(ours: Sequence[Quantity], theirs: Sequence[Quantity]) -> str:
    """What keeps a number of both sides from being compared.

    Args:
        ours: Those of the first side.
        theirs: Those of the second.

    Returns:
        The reason; "" when nothing does.
    """
    for letter, side in (("A", ours), ("B", theirs)):
        if all(q.measured is None for q in side):
            return _missing(letter, side)
    conditions = [q.asked for q in (*ours, *theirs)]
    for key in dict.fromkeys(key for asked in conditions for key in asked):
        a, b = (sorted({str(q.asked.get(key, "none")) for q in side}) for side in (ours, theirs))
        if a != b or len(a) > 1:
            return f"not asked alike: {key} is {', '.join(a)} in A and {', '.join(b)} in B"
    return ""


def _missing(letter: str, side: Sequence[Quantity]) -> str:
    why = next((q.why for q in side if q.why), "no number")
    return f"not measured in {letter}: {why.splitlines()[0]}"
