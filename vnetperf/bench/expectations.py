"""A file of expectations, held against results as they come and against all of a run together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from vnetperf.bench.judging import Judgement, judge
from vnetperf.bench.quantities import quantities
from vnetperf.bench.quantity import Quantity
from vnetperf.bench.reading import find_run, read_results
from vnetperf.config_files import load_model
from vnetperf.model.errors import ConfigError, VnetperfError
from vnetperf.model.expectation import Expectation, ExpectationFile
from vnetperf.model.result import Result


@dataclass(frozen=True)
class Expectations:
    """What is expected of a run.

    Attributes:
        path: The file.
        expected: The expectations, in its order.
        baselines: Stored runs' results, by the name that the file gives them.
    """

    path: Path
    expected: tuple[Expectation, ...]
    baselines: dict[str, tuple[Result, ...]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, scenarios: Sequence[str] = ()) -> Expectations:
        """Read a file, and the runs that it names.

        Args:
            path: The file.
            scenarios: Every scenario that can be; () to take any name.

        Returns:
            The expectations.

        Raises:
            ConfigError: Anything wrong in it, with file and key.
        """
        held = load_model(ExpectationFile, path)
        baselines: dict[str, tuple[Result, ...]] = {}
        for number, one in enumerate(held.expect):
            where = f"{path}: expect.{number}"
            _require_known(one.scenario, scenarios, f"{where}.scenario")
            if one.of_scenario:
                _require_known(one.of_scenario, scenarios, f"{where}.of_scenario")
            if one.of_run and one.of_run not in baselines:
                baselines[one.of_run] = _baseline(one.of_run, path, f"{where}.of_run")
        return cls(path, held.expect, baselines)

    def of_case(self, result: Result) -> list[Judgement]:
        """Judge a result as soon as it is there.

        Args:
            result: The result.

        Returns:
            What came of each expectation of it that needs no other scenario of the run.
        """
        return [
            judgement
            for number, one in enumerate(self.expected)
            if not one.needs_others
            for judgement in self._judge(number, one, [result])
        ]

    def of_run(self, results: Sequence[Result], *, cases_too: bool = False) -> list[Judgement]:
        """Judge what needs several scenarios of a run, when all are there.

        Args:
            results: All results of the run.
            cases_too: True for every expectation: a stored run, or one of several rounds.

        Returns:
            What came of each; one that no result is for is neither met nor failed.
        """
        found: list[Judgement] = []
        for number, one in enumerate(self.expected):
            judged = list(self._judge(number, one, results))
            if one.needs_others or cases_too:
                found += judged
            if not judged:
                found.append(
                    Judgement(self._where(number), None, f"{_asked(one)}: this run has no result")
                )
        return found

    def check(self, result: Result) -> None:
        """Fail a case whose result is not as expected.

        Args:
            result: The result.

        Raises:
            AssertionError: All that is not met, a line each.
        """
        __tracebackhide__ = True  # pytest shows the case, and not the code that judges it
        failed = [str(judged) for judged in self.of_case(result) if judged.met is False]
        if failed:
            raise AssertionError("\n".join(failed))

    def _judge(
        self, number: int, one: Expectation, results: Iterable[Result]
    ) -> Iterator[Judgement]:
        results, where = list(results), self._where(number)
        for result in results:
            for found in _meant(one, result):
                if not one.is_relative:
                    yield judge(one, found, where)
                    continue
                among = self.baselines[one.of_run] if one.of_run else results
                base = _base(one, found, among)
                if base is not None:
                    yield judge(one, found, where, base)
                else:
                    other = one.of_scenario or found.scenario
                    of = f"{one.of_run} has" if one.of_run else "this run has"
                    said = f"{_asked(one)}, {found.size}: {of} no such number of {other}"
                    yield Judgement(where, False if one.of_run else None, said)

    def _where(self, number: int) -> str:
        return f"{self.path}: expect.{number}"


def _require_known(pattern: str, known: Sequence[str], where: str) -> None:
    """Refuse a scenario that cannot be: a threshold that never applies guards nothing."""
    if not known or any(fnmatchcase(name, pattern.partition(",")[0]) for name in known):
        return
    near = get_close_matches(pattern, known, 1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"no scenario is called {pattern!r}{hint}",
        where=where,
        accepted=f"a scenario such as {known[0]}, or a pattern such as pvp_*",
    )


def _baseline(name: str, file: Path, where: str) -> tuple[Result, ...]:
    beside = file.parent / name
    try:
        found = beside if beside.exists() else find_run(name)
        return read_results(found).first.results
    except VnetperfError as error:
        raise ConfigError(f"the stored run cannot be read: {error}", where=where) from None


def _meant(one: Expectation, result: Result) -> list[Quantity]:
    """The numbers of a result that an expectation is for."""
    if result.test != one.test or not fnmatchcase(result.scenario, one.scenario):
        return []
    if one.frame_sizes and result.size_name not in map(str, one.frame_sizes):
        return []
    found = list(quantities(result))
    if result.status != "measured":
        return found
    if not one.number:
        return found[:1]
    return [quantity for quantity in found if fnmatchcase(quantity.name, one.number)]


def _base(one: Expectation, found: Quantity, among: Iterable[Result]) -> Quantity | None:
    """The number that another is to be a multiple of."""
    scenario = one.of_scenario or found.scenario
    return next(
        (
            quantity
            for result in among
            if result.scenario == scenario and result.test == one.test
            for quantity in quantities(result)
            if quantity.key == found.key
        ),
        None,
    )


def _asked(one: Expectation) -> str:
    of = f" against {one.of_scenario}" if one.of_scenario else ""
    return f"{one.scenario}, {one.test}{of}"
