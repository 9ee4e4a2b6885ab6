"""Cases of a test.

Scenarios, variants, rounds and sizes it is parametrised over, and the order in which they run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import pytest

from vnetperf.config import CommandLine, Configuration, validate
from vnetperf.config.settings import CHANGE_SETTINGS, read_options
from vnetperf.model.deployment import ALL_DEPLOYMENTS, takes_vnfs
from vnetperf.model.errors import CapabilityError, ConfigError, VnetperfError, did_you_mean
from vnetperf.model.parameters import THROUGHPUT
from vnetperf.model.profile import IMIX
from vnetperf.model.scenario import Comparison, Value, Variant, split_id, variant_id
from vnetperf.plugin import registry
from vnetperf.plugin.dut import load_dut
from vnetperf.runner.scenarios import (
    check_mode,
    check_names,
    exists,
    make_scenario,
    possible_ids,
    scenario_ids,
)

if TYPE_CHECKING:
    from vnetperf.model.scenario import Scenario
    from vnetperf.model.testbed import MachineFacts


@contextmanager
def usage_errors(about: str = "") -> Iterator[None]:
    """Raise what is wrong with the user's choice as pytest's own error, after what it is about."""
    try:
        yield
    except VnetperfError as error:
        raise pytest.UsageError(f"{about}{error}") from None


def round_count(config: pytest.Config, configuration: Configuration | None) -> int:
    """How often each case is to be deployed and measured; 0 for once, without rounds."""
    with usage_errors():
        options = read_options(config.option, CommandLine)
        typed = validate(CommandLine, options, "command line").repeat
    planned = configuration.preset.repeat if configuration is not None else 1
    count = planned if typed is None else typed
    return count if count > 1 else 0


#: What an id may hold: it stands in test ids, where brackets and blanks have a meaning.
_ID = re.compile(r"[\w=:.,+%/-]+", re.ASCII)
#: Keys of the mark that are no setting of a variant.
_OWN = ("frame_sizes",)
_PARAM = type(pytest.param())
_HOW = (
    '@pytest.mark.vary takes the name of a setting and a list of its values: vary("set", '
    '["rx_queues=1", "rx_queues=2"]), each a text, a tuple of texts, or a pytest.param of one'
)


@dataclass(frozen=True)
class Selected:
    """What `bench` is parametrised with: a scenario, or a variant; its round, 0 for none."""

    scenario: str
    variant: Variant = field(default_factory=Variant)
    round: int = 0

    @property
    def id(self) -> str:
        """Name as it stands in results: "pvp_dpdk,rx_queues=2"."""
        return variant_id(self.scenario, self.variant.id)

    @property
    def in_test_id(self) -> str:
        """Name as it stands in test ids, where a hyphen parts parameters."""
        round_ = f"round{self.round}" if self.round else ""
        return "-".join(part for part in (self.scenario, self.variant.id, round_) if part)

    @property
    def keyword(self) -> str:
        """Name by which -k selects a variant: it takes no equals sign."""
        return self.in_test_id.replace("=", ":") if self.variant else ""


def combine_variants(
    node: Any, sources: Mapping[str, str]
) -> list[tuple[Variant, tuple[Any, ...]]]:
    """All combinations of what a test case varies."""
    marks = (
        list(node.iter_markers("vary"))[::-1] if node else []
    )  # the first written is the last applied
    settings = _case_settings(node, sources) if marks else ()
    variants = []
    for combination in product(*(list(_read_variants(mark, node.nodeid)) for mark in marks)):
        variant, decorations = Variant(settings=settings), ()
        for part, extra in combination:
            variant, decorations = variant.and_also(part), (*decorations, *extra)
        variants.append((variant, decorations))
    ids = [variant.id for variant, _ in variants]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise pytest.UsageError(
            f"{node.nodeid}: two variants are called {twice!r}; give pytest.param(..., id=...)"
        )
    return variants


def _case_settings(node: Any, sources: Mapping[str, str]) -> tuple[tuple[str, Value], ...]:
    mark = node.get_closest_marker("vnetperf")
    settings = mark.kwargs if mark is not None else {}
    wrong = next(
        (key for key, value in settings.items() if key not in _OWN and not _is_value(value)), ""
    )
    if wrong:
        raise pytest.UsageError(f"{node.nodeid}: @pytest.mark.vnetperf: {wrong} is no text")
    return tuple(
        (key, value)
        for key, value in settings.items()
        if key not in _OWN and sources.get(key, "default") == "default"
    )


def _read_variants(mark: pytest.Mark, where: str) -> Iterator[tuple[Variant, tuple[Any, ...]]]:
    if len(mark.args) != 2 or mark.kwargs or not isinstance(mark.args[0], str):
        raise pytest.UsageError(f"{where}: {_HOW}")
    key, values = mark.args
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise pytest.UsageError(f"{where}: {_HOW}; {values!r} is no list")
    values = list(values)
    if not values:
        raise pytest.UsageError(f"{where}: {_HOW}; the list is empty")
    for value in values:
        yield _variant(key, value, where)


def _variant(key: str, value: Any, where: str) -> tuple[Variant, tuple[Any, ...]]:
    is_param = isinstance(value, _PARAM)
    arguments: Any = value.values if is_param else (value,)
    name: Any = value.id if is_param else None
    if len(arguments) != 1 or not _is_value(arguments[0]):
        raise pytest.UsageError(f"{where}: {_HOW}; {arguments!r} is none")
    setting: Value = tuple(arguments[0]) if isinstance(arguments[0], list) else arguments[0]
    texts = setting if isinstance(setting, tuple) else (str(setting),)
    if name is None:
        name = ",".join(text if "=" in text else f"{key}={text}" for text in texts)
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise pytest.UsageError(
            f"{where}: {name!r} cannot be the id of a variant; use letters, digits and =:.,+%/-"
            " in pytest.param(..., id=...)"
        )
    variant = Variant(id=name, settings=((key, setting),))
    return variant, tuple(value.marks) if is_param else ()


def _is_value(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(isinstance(part, str) for part in value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def make_comparisons(items: Iterable[pytest.Item], sources: Mapping[str, str]) -> list[Comparison]:
    """The comparisons that tests belong to, of the variants that are selected."""
    items = [*items]
    selected_ids = {chosen.id for chosen in map(find_selected, items) if chosen is not None}
    comparisons: dict[tuple[str, str], Comparison] = {}
    meant: dict[str, tuple[Variant, str]] = {}
    for item in items:
        selected = find_selected(item)
        if selected is None or not selected.variant:
            continue
        before, where = meant.setdefault(selected.id, (selected.variant, item.nodeid))
        if before != selected.variant:
            raise pytest.UsageError(
                f"{where} and {item.nodeid} call different variants {selected.variant.id!r}; "
                "give one another id: pytest.param(..., id=...)"
            )
        function = getattr(item, "originalname", item.name)
        name = f"{item.path.stem}::{function}"
        if (name, selected.scenario) not in comparisons:
            doc = getattr(getattr(item, "function", None), "__doc__", None) or ""
            comparisons[name, selected.scenario] = Comparison(
                name=name,
                title=" ".join(doc.strip().partition("\n\n")[0].split()),
                scenario=selected.scenario,
                variants=tuple(
                    variant
                    for variant, _ in combine_variants(item, sources)
                    if variant_id(selected.scenario, variant.id) in selected_ids
                ),
                measures=(mark.args[0] if (mark := item.get_closest_marker("measures")) else ""),
            )
    return list(comparisons.values())


def find_selected(item: pytest.Item) -> Selected | None:
    """What a test measures."""
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    selected = params.get("bench")
    return selected if isinstance(selected, Selected) else None


def list_frame_sizes(items: Iterable[pytest.Item]) -> frozenset[int]:
    """Frame sizes, octets including FCS, of the tests that measure: of the preset and of marks."""
    params = [getattr(getattr(item, "callspec", None), "params", {}) for item in items]
    sizes = (
        case_params.get("frame_size")
        for case_params in params
        if case_params.get("bench") is not None
    )
    return frozenset(size for size in sizes if isinstance(size, int))


def group_throughput_sizes(items: Iterable[pytest.Item]) -> dict[str, tuple[int, ...]]:
    """Scenario -> frame sizes, octets including FCS, of the cases that search its throughput."""
    sizes_by_scenario: dict[str, dict[int, None]] = {}
    for item in items:
        selected = find_selected(item)
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        size = params.get("frame_size")
        if selected is not None and measured_test(item) == THROUGHPUT and isinstance(size, int):
            sizes_by_scenario.setdefault(selected.id, {})[size] = None
    return {name: tuple(sizes) for name, sizes in sizes_by_scenario.items()}


def check_variants(configuration: Configuration, comparisons: Iterable[Comparison]) -> None:
    """Refuse variants that are wrong whatever the machine is."""
    checked: set[Variant] = set()
    for comparison in comparisons:
        for variant in comparison.variants:
            if variant in checked:
                continue
            checked.add(variant)
            with usage_errors(f"{comparison.name}: "):
                check_names(configuration.varied(variant))


def build_scenario(
    configuration: Configuration, selected: Selected, facts: MachineFacts
) -> Scenario:
    """A scenario as the configuration and its variant have it."""
    from vnetperf.planning.capability_check import check_variant_effect

    varied = configuration.varied(selected.variant)
    try:
        check_mode(varied.settings)
    except ConfigError as error:  # what is wrong for a variant may be right for others
        raise CapabilityError(error.what, where=selected.id, accepted=error.accepted) from None
    scenario = make_scenario(selected.scenario, varied, selected.variant.id)
    check_variant_effect(scenario, selected.variant, facts)
    return scenario


def measured_test(definition: Any) -> str | None:
    """The test that a test function measures, by its mark."""
    mark = definition.get_closest_marker("measures")
    if mark is None:
        return None
    test_names = registry.test_names()
    if len(mark.args) != 1 or mark.kwargs or mark.args[0] not in test_names:
        raise pytest.UsageError(
            f"{definition.nodeid}: @pytest.mark.measures takes the name of one test: "
            f"{', '.join(test_names)}"
        )
    return str(mark.args[0])


def is_transfer(definition: Any) -> bool:
    """Whether a test function measures what sockets, ranks or guests do, and no test of frames."""
    parametrized = {mark.args[0] for mark in definition.iter_markers("parametrize") if mark.args}
    marked = definition.get_closest_marker("transfers") is not None
    return marked or bool({"kind", "message_size"} & {*parametrized, *definition.fixturenames})


def tests_are_typed(configuration: Configuration) -> bool:
    """Whether this command, or that of a run that goes on, names tests, and not all of them."""
    tests, source = configuration.settings.tests, configuration.sources["tests"]
    by_command = source == "command line" or source.startswith("run of ")
    return by_command and bool(tests) and {*tests} != {*registry.test_names()}


def is_named(definition: Any) -> bool:
    """Whether a test function stands on the command line, as "file.py::function"."""
    ids = (arg.rpartition("::") for arg in definition.config.args)
    return any(colons and name.partition("[")[0] == definition.name for _, colons, name in ids)


def keyword_filter(
    definition: Any, others: Collection[str] = ()
) -> Callable[[Iterable[str]], bool]:
    """Whether -k can select a case of a test function that has these names besides.

    Words that are names of other scenarios select nothing: pvp_dpdk is no pvp2pvp_dpdk. The
    expression is evaluated by pytest itself. Where that is not possible, every case is made and
    pytest deselects: slower, with the same outcome.
    """
    expression = definition.config.option.keyword.strip()
    if not expression or definition.get_closest_marker("parametrize") is not None:
        return lambda _: True
    try:
        from _pytest.mark import KeywordMatcher, _parse_expression

        compiled = _parse_expression(expression, "-k")
    except (ImportError, pytest.UsageError):  # pytest reports what is wrong with it
        return lambda _: True
    of_the_function = cache(KeywordMatcher.from_item(definition))

    def selects(names: Iterable[str]) -> bool:
        lower = [name.lower() for name in names]

        def matches(word: str, /, **arguments: Any) -> bool:
            if word.lower() in others:
                return False
            return of_the_function(word, **arguments) or any(word.lower() in n for n in lower)

        return compiled.evaluate(matches)

    return selects


def _words(config: pytest.Config) -> set[str]:
    """Names in -k."""
    try:
        from _pytest.mark import _parse_expression

        return {*_parse_expression(config.option.keyword.strip() or "x", "-k").idents()}
    except (ImportError, AttributeError, pytest.UsageError):  # of another pytest
        return set()


def unknown_keywords(config: pytest.Config, functions: set[str]) -> list[str]:
    """What names in -k that no case has may stand for."""
    if not (expression := config.option.keyword.strip()):
        return []
    switches = (*registry.names("vswitches"), *registry.names("networks"))
    names = [*scenario_ids(), *ALL_DEPLOYMENTS, *switches, *functions]
    lines = [
        f"vnetperf: no case has the name {word!r}{near}; `vnetperf list` prints the names"
        for word in sorted(_words(config))
        if (near := did_you_mean(word, names))
    ]
    return lines or [
        f"vnetperf: no case is selected by -k {expression!r}; `vnetperf list scenarios` prints the "
        "names of scenarios, --collect-only without -k those of all cases"
    ]


def _sizes(metafunc: pytest.Metafunc, configuration: Configuration | None) -> dict[str, Any]:
    """Fixture -> sizes by the name that they have in test ids."""
    sizes_by_fixture: dict[str, Any] = {}
    parametrized = {
        mark.args[0] for mark in metafunc.definition.iter_markers("parametrize") if mark.args
    }
    if "frame_size" in metafunc.fixturenames:
        test = measured_test(metafunc.definition) if configuration else None
        sizes = configuration.preset.sizes_of(test or "") if configuration else ()
        mixed = configuration is not None and configuration.traffic.mix is not None
        sizes_by_fixture["frame_size"] = {IMIX if mixed else str(size): size for size in sizes}
    if "message_size" in metafunc.fixturenames and "message_size" not in parametrized:
        sizes = configuration.settings.message_sizes if configuration else ()
        sizes_by_fixture["message_size"] = {str(size): size for size in sizes}
    return sizes_by_fixture


def parametrize(
    metafunc: pytest.Metafunc,
    configuration: Configuration | None,
    variants: Sequence[tuple[Variant, tuple[Any, ...]]],
    *,
    runs: bool,
) -> bool:
    """Parametrise a test that requests `bench` (and `frame_size` or `message_size`).

    The scenario is the outer parameter, so that cases of one scenario follow each other. Scenarios
    that -k cannot select get no case. A test without a case gets one that the plugin takes away;
    returns whether -k can select a case of the test.
    """
    definition = metafunc.definition
    sizes = _sizes(metafunc, configuration)
    ends = list(product(*sizes.values())) or [()]
    only = definition.get_closest_marker("deployments")
    deployments = ALL_DEPLOYMENTS if only is None else only.args
    selects, scenario_names = keyword_filter(definition), possible_ids()
    named = {word.lower() for word in _words(metafunc.config)} & {*scenario_names}
    rounds = range(1, round_count(metafunc.config, configuration) + 1) or (0,)

    def selectable() -> Iterator[Any]:
        for scenario in scenario_names:
            if split_id(scenario)[0] not in deployments:
                continue
            others = {name for name in named if name in scenario and name != scenario}
            meant = keyword_filter(definition, others) if others else selects
            for (variant, marks), number in product(variants, rounds):
                selected = Selected(scenario, variant, number)
                ids = (
                    f"{definition.name}[{'-'.join((selected.in_test_id, *end))}]" for end in ends
                )
                keywords = (selected.keyword, *(mark.name for mark in marks))
                if any(meant((name, *keywords)) for name in ids) and exists(scenario):
                    yield pytest.param(selected, id=selected.in_test_id, marks=marks)

    params = list(selectable() if runs else islice(selectable(), 1))
    cases = params if runs and params else [pytest.param(None, id="")]
    metafunc.parametrize("bench", cases, indirect=True, scope="session")
    for fixture, values in sizes.items():
        metafunc.parametrize(fixture, list(values.values()), ids=list(values))
    return bool(params)


def not_meant(config: pytest.Config, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Cases that -k selects only by a part of their scenario's name that is another scenario's.

    They are of functions with parameters of their own, of which all cases are made.
    """
    named = {word.lower() for word in _words(config)} & {*possible_ids()}
    if not named:
        return []
    from _pytest.mark import KeywordMatcher, _parse_expression

    compiled = _parse_expression(config.option.keyword.strip(), "-k")
    unmeant = []
    for item in items:
        selected = find_selected(item)
        name = selected.scenario if selected is not None else ""
        others = {word for word in named if word in name and word != name}
        if not others:
            continue
        if not compiled.evaluate(_ExactNames(KeywordMatcher.from_item(item), others)):
            unmeant.append(item)
    return unmeant


@dataclass(frozen=True)
class _ExactNames:
    """Evaluates words of -k; those that name other scenarios are none of a case's."""

    of_the_case: Callable[..., bool]
    others: set[str]

    def __call__(self, word: str, /, **arguments: str | int | bool | None) -> bool:
        return word.lower() not in self.others and self.of_the_case(word, **arguments)


def check_selection(configuration: Configuration, items: Iterable[pytest.Item]) -> list[str]:
    """Refuse what the user chose and no selected scenario can have.

    Where one can, the others are skipped with the reason, as are frame sizes of the preset.
    Returned is a line for frame sizes that scenarios cannot carry.
    """
    from vnetperf.planning.capability_check import find_size_problem
    from vnetperf.planning.planner import largest_frame

    scenarios: dict[Selected, Scenario | None] = {}
    carried: dict[int, bool] = {}
    left_out: dict[tuple[str, str], dict[int, None]] = {}
    typed: set[str] = set()
    for item in items:
        typed |= {str(word).partition("=")[0] for word in item.config.invocation_params.args}
        selected = replace(find_selected(item) or Selected(""), round=0)
        if selected not in scenarios:
            scenarios[selected] = _scenario_if_any(configuration, selected)
        scenario = scenarios[selected]
        size = getattr(getattr(item, "callspec", None), "params", {}).get("frame_size")
        if not isinstance(size, int):
            continue
        problem = find_size_problem(scenario, size, largest_frame(scenario)) if scenario else ""
        carried[size] = carried.get(size, False) or not problem
        if problem:
            left_out.setdefault((selected.id, problem), {})[size] = None
    possible = [scenario for scenario in scenarios.values() if scenario is not None]
    if len(possible) == len(scenarios):
        _refuse_for_all(possible, configuration, typed)
    lines = [
        f"{name}: not {', '.join(map(str, sizes))}: {problem}"
        for (name, problem), sizes in left_out.items()
    ]
    source = configuration.sources["frame_sizes"]
    none = [size for size, can in carried.items() if not can]
    if none and source not in ("default", "test case"):
        raise pytest.UsageError(
            f"frame_sizes ({source}): no selected scenario has frames of "
            f"{', '.join(map(str, none))} octets; {'; '.join(lines)}"
        )
    return lines


def _scenario_if_any(configuration: Configuration, selected: Selected) -> Scenario | None:
    """A scenario as far as it can be made; what is wrong with it is reported in its own cases."""
    try:
        return make_scenario(
            selected.scenario, configuration.varied(selected.variant), selected.variant.id
        )
    except (VnetperfError, ValueError):
        return None


def _may_have_guests(scenario: Scenario) -> bool:
    graph = scenario.deployment
    in_place = graph.apart and scenario.vnf.endswith(":vm")  # endpoints in the places of VMs
    return scenario.has_guests or bool(graph.guests or graph.gtp) or in_place


def _makes_change(setting: str) -> Callable[[Scenario], bool]:
    return lambda scenario: isinstance(scenario.change, CHANGE_SETTINGS[setting])


#: Options that are for some scenarios: key -> whether it is for a scenario, what others are not,
#: and how to have one.
_FOR_SOME: dict[str, tuple[Callable[[Scenario], object], str, str]] = {
    "nat": (_makes_change("nat"), "is a NAT", "-k phy2phy_cgnat"),
    "lb": (_makes_change("lb"), "balances the load of services", "-k phy2phy_lb"),
    "guest": (_may_have_guests, "has guests", "with --vnf vloop:vm"),
    "core": (lambda scenario: scenario.deployment.gtp, "has a mobile core", "-k vepc_bridge"),
    "tunnel": (
        lambda scenario: scenario.deployment.tunnelled,
        "is an overlay, or has cables between vSwitches",
        "-k op2p_dpdk",
    ),
    "vnfs": (
        lambda scenario: takes_vnfs(scenario.deployment.name),
        "lets the number of VNFs be chosen",
        "-k pvvp_dpdk",
    ),
    "hosts": (
        lambda scenario: scenario.deployment.dut_family == "networks",
        "has pods",
        "-k bmp2bmp_vxlan",
    ),
}


def _refuse_for_all(
    scenarios: Sequence[Scenario], configuration: Configuration, typed: Collection[str]
) -> None:
    """Refuse a mode, or an option that is for some scenarios, that none of these can have."""
    from vnetperf.planning.capability_check import mode_error

    if not scenarios or any(scenario.variant for scenario in scenarios):
        return  # what is wrong for a variant may be right for others
    for key, (is_for, feature, example) in _FOR_SOME.items():
        value, source = getattr(configuration.settings, key), configuration.sources[key]
        # A file, the environment or pytest's `addopts` may hold options for other runs, too.
        if key not in CHANGE_SETTINGS and f"--{key}" not in typed:
            continue
        if value in ((), None, "auto") or any(map(is_for, scenarios)):
            continue
        named = (
            scenario.vswitch if key in CHANGE_SETTINGS else scenario.deployment.name
            for scenario in scenarios
        )
        raise pytest.UsageError(
            f"--{key} ({source}): no selected scenario {feature} "
            f"({', '.join(dict.fromkeys(named))}); "
            f"leave it out, or measure one, e.g. {example}"
        )
    wrong = [
        mode_error(scenario, load_dut(scenario.deployment, scenario.vswitch).capabilities)
        for scenario in scenarios
    ]
    if all(wrong):
        raise pytest.UsageError(
            "; ".join(dict.fromkeys(f"--set {error}" for error in wrong if error is not None))
        )


def group_by_scenario(items: list[pytest.Item]) -> None:
    """Bring the cases of a scenario, and of each variant, together, so that it is deployed once.

    Where cases are repeated that holds within a round, and rounds follow each other: A B A B.
    """
    order = {scenario: number for number, scenario in enumerate(possible_ids())}
    variants: dict[Selected, int] = {}

    def find_place(item: pytest.Item) -> tuple[int, int, int]:
        selected = find_selected(item)
        if selected is None:
            return 0, -1, 0
        variant_number = variants.setdefault(replace(selected, round=0), len(variants) + 1)
        place = order.get(selected.scenario, -1)
        return selected.round, place, variant_number if selected.variant else 0

    items.sort(key=find_place)
