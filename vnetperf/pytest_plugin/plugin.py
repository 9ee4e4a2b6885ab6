"""The pytest plugin: hooks only; what they do is in the files beside this one.

It is loaded by every pytest on a machine that has vnetperf installed, so it imports little.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import (
    ReprEntryNative,
    ReprExceptionInfo,
    ReprFileLocation,
    ReprTraceback,
)

from vnetperf.config.settings import add_options
from vnetperf.model.errors import did_you_mean
from vnetperf.pytest_plugin import hooks

if TYPE_CHECKING:
    from vnetperf.pytest_plugin.session import BenchSession
    from vnetperf.runner.bench import Bench

_SESSION: pytest.StashKey[BenchSession] = pytest.StashKey()
_WRONG: pytest.StashKey[pytest.UsageError] = pytest.StashKey()
#: Names of the test functions that measure, and tests that the preset or --tests leaves out.
_FUNCTIONS: pytest.StashKey[set[str]] = pytest.StashKey()
_LEFT_OUT: pytest.StashKey[list[str]] = pytest.StashKey()

#: Longest wait for the cases of a pytest-xdist worker, seconds: they were sent before its ids.
COLLECTED_S = 1.0


def get_session(config: pytest.Config) -> BenchSession:
    """The session's state, made on first use."""
    if _SESSION not in config.stash:
        from vnetperf.pytest_plugin.session import BenchSession

        config.stash[_SESSION] = BenchSession(config)
    return config.stash[_SESSION]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("vnetperf", "vnetperf: benchmarks of virtual switches")
    add_options(group.addoption)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Refuse a misspelt option by its name, once those of conftests are known too."""
    done = yield
    names: list[str] = []
    add_options(lambda *strings, **_: names.extend(strings))
    for arg in parser.parse_known_and_unknown_args(args)[1]:
        if arg.startswith("--") and (near := did_you_mean(arg.partition("=")[0], names)):
            raise pytest.UsageError(f"{arg.partition('=')[0]} is not an option{near}")
    return done


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that conftests may implement."""
    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A plan is of each testbed, and made here: workers would print nothing."""
    if config.getoption("plan") and config.pluginmanager.hasplugin("xdist"):
        config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let conftests register their backends."""
    from vnetperf.model.errors import ConfigError
    from vnetperf.plugin import registry
    from vnetperf.pytest_plugin.cases import round_count

    config.addinivalue_line(
        "markers", "vnetperf(frame_sizes=(...)): sizes of a test case unless the user gives others"
    )
    config.addinivalue_line(
        "markers", "deployments(*names): a test case is for these deployments only"
    )
    config.addinivalue_line(
        "markers", "vary(key, values): compares variants: a setting, and the values it is given"
    )
    config.addinivalue_line(
        "markers", "transfers(kind): what sockets or ranks do in a test case without a `kind`"
    )
    config.addinivalue_line(
        "markers", "measures(test): a test case runs when the preset, or --tests, names the test"
    )
    round_count(config, None)
    if config.getoption("resume") == "":
        raise pytest.UsageError("--resume names no folder; name one, e.g. results/latest")
    if config.getoption("resume"):
        from vnetperf.pytest_plugin.session import select_run_cases

        select_run_cases(config)
    try:
        config.hook.pytest_vnetperf_register(register=registry.register)
    except ConfigError as error:
        raise pytest.UsageError(f"pytest_vnetperf_register: {error}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Refuse wrong options, and to measure all that vnetperf has, for days, where nobody chose it.

    A choice is what bounds the scenarios: a path, -k, cases of before. Options that say how they
    are measured (--tests, --frame-sizes, --preset, --vnf) leave thousands of cases.
    Before anything is collected, which takes long; others' tests are left alone.
    """
    config = session.config
    shipped = (Path(__file__).parents[1] / "testcases").resolve()
    start = config.invocation_params.dir
    paths = [(start / arg.partition("::")[0]).resolve() for arg in config.args]
    if not any(path.is_relative_to(shipped) for path in paths):
        return
    chosen = ("keyword", "markexpr", "lf", "stepwise", "resume", "collectonly", "setupplan", "plan")
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if not named and not any(config.getoption(name, False) for name in chosen):
        folder = "." if paths == [start.resolve()] else config.args[0]
        raise pytest.UsageError(_nothing_chosen(folder, config.invocation_params.args))
    if not hasattr(config, "workerinput"):  # its controller has
        _ = get_session(config).configuration


def _nothing_chosen(folder: str, typed: Sequence[str]) -> str:
    """What to type besides, so that it is known which scenarios are meant."""
    names: list[str] = []
    add_options(lambda *strings, **_: names.extend(strings))
    method_options = [name for name in names if any(arg.partition("=")[0] == name for arg in typed)]
    said = (
        f" ({', '.join(method_options)}: how it is measured, not which scenarios)"
        if method_options
        else ""
    )
    line = shlex.join(["pytest", folder, *typed])
    brief = "" if "--preset" in method_options else " --preset smoke"
    tries = {
        f"{line} -k phy2phy_bridge{brief}": "one vSwitch" + (", in a minute" if brief else ""),
        f"{line} -k pvp_dpdk --plan": "what a run would do",
        "vnetperf doctor": "what can run here",
    }
    width = max(map(len, tries))
    return "\n".join(
        (
            f"this would measure every scenario in {folder}, for days{said}; try one of",
            *(f"  {command:<{width}}   # {explanation}" for command, explanation in tries.items()),
            f"`{line}` measures everything that this machine can carry",
        )
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise tests that request `bench`."""
    if "bench" not in metafunc.fixturenames:
        return
    from vnetperf.pytest_plugin import cases

    config, definition = metafunc.config, metafunc.definition
    config.stash.setdefault(_FUNCTIONS, set()).add(definition.name)
    try:
        configuration = get_session(config).configuration_for(definition)
        variants = cases.combine_variants(definition, configuration.sources)
        test = cases.measured_test(definition)
        # Who types tests means these and no transfers; a file's are for runs of all kinds.
        runs = test in configuration.preset.tests or (
            test is None
            and not (cases.is_transfer(definition) and cases.tests_are_typed(configuration))
        )
        if not runs and cases.is_named(definition):
            runs = True
            if configuration.sources["tests"] != "default" and test is not None:
                raise pytest.UsageError(f"{definition.nodeid}: --tests does not name {test}")
    except pytest.UsageError as error:  # raised here it would be an error of each test
        config.stash[_WRONG] = error
        cases.parametrize(metafunc, None, cases.combine_variants(None, {}), runs=True)
        return
    if cases.parametrize(metafunc, configuration, variants, runs=runs) and not runs:
        config.stash.setdefault(_LEFT_OUT, []).append(test or definition.name)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Take away what a test without cases was given."""
    collected = yield
    if not isinstance(collected, list) or not _any_measures(collected):
        return collected
    from vnetperf.pytest_plugin.cases import find_selected

    return [item for item in collected if find_selected(item) is not None]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let -k name a variant, "rx_queues:2"."""
    if _measures(item):
        from vnetperf.pytest_plugin.cases import find_selected

        selected = find_selected(item)
        if selected is not None and selected.variant:
            item.extra_keyword_matches.add(selected.keyword)


# Last: nothing parts a scenario's cases again.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the cases of a scenario together."""
    if _WRONG in config.stash:
        _raise_wrong(config)
    if not _any_measures(items):
        return
    from vnetperf.pytest_plugin.cases import group_by_scenario, make_comparisons, not_meant

    if others := not_meant(config, items):
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]

    try:
        if any(item.get_closest_marker("vary") for item in items):
            ours = get_session(config)
            ours.expect(make_comparisons(items, ours.configuration.sources))
    except pytest.UsageError as error:
        _refuse(config, error)
    group_by_scenario(items)


def _measures(item: pytest.Item) -> bool:
    return "bench" in getattr(item, "fixturenames", ())


def _any_measures(items: list[pytest.Item]) -> bool:
    return any(map(_measures, items))


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Report which tests do not run, and what a name that selects nothing may stand for."""
    if _FUNCTIONS not in config.stash or _WRONG in config.stash:
        return []
    from vnetperf.plugin import registry

    lines = _preset_lines(config) if items else []
    unselected = config.stash.get(_LEFT_OUT, [])
    frame_tests = registry.test_names()
    if others := list(dict.fromkeys(name for name in unselected if name not in frame_tests)):
        lines.append(
            f"vnetperf: --tests leaves out {', '.join(others)}, which measure no test of frames; "
            "leave --tests out to run them"
        )
    if left_out := [test for test in frame_tests if test in unselected]:
        ours = get_session(config).configuration
        by_preset = ours.sources["tests"] == "default"
        whose = f"preset {ours.preset.name}" if by_preset else "--tests"
        lines.append(
            f"vnetperf: {whose} leaves out {', '.join(left_out)}; "
            f"--tests {left_out[0]} or --tests all runs them"
        )
    elif not items and not others:
        from vnetperf.pytest_plugin.cases import unknown_keywords

        lines += unknown_keywords(config, config.stash[_FUNCTIONS])
    return lines


def _preset_lines(config: pytest.Config) -> list[str]:
    """What is measured where nobody said it and it is not what a lab measures."""
    from vnetperf.config import shared_processors

    ours = get_session(config).configuration
    number = shared_processors()
    if ours.sources["preset"] != "default" or ours.preset.name != "shared" or not number:
        return []
    plural = "s" if number > 1 else ""
    return [
        f"vnetperf: preset shared, since pollers share {number} processor{plural} here: "
        "throughputs with a loss of 0.5 %, as ranges; --preset quick has one without loss"
    ]


def _raise_wrong(config: pytest.Config) -> None:
    """Refuse the session, unless this is a worker of xdist and its controller will."""
    if get_session(config).worker:
        try:
            _ = get_session(config).configuration
        except pytest.UsageError:
            return
    _refuse(config, config.stash[_WRONG])


def _refuse(config: pytest.Config, error: pytest.UsageError) -> None:
    """End the session; a worker of xdist cannot, and fails each case."""
    if not get_session(config).worker:
        raise error
    get_session(config).refused = str(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With `--plan`, print the plans instead of running anything."""
    config = session.config
    if config.getoption("collectonly"):
        return None
    if not _any_measures(session.items) and not config.getoption("plan"):
        return None
    from vnetperf.pytest_plugin.cases import check_selection, find_selected

    measuring = [item for item in session.items if find_selected(item) is not None]
    ours = get_session(config)
    if measuring:
        try:
            left_out = check_selection(ours.configuration, measuring)
        except pytest.UsageError as error:
            _refuse(config, error)
            left_out = []
        if ours.progress:
            for line in left_out:
                ours.progress.line(line)
    if not config.getoption("plan"):
        if measuring:
            ours.check_resume()
            ours.interrupt_on_sigterm()
        return None
    from vnetperf.pytest_plugin.plans import print_plans

    terminal = config.pluginmanager.get_plugin("terminalreporter")
    print_plans(ours, measuring, terminal)
    return True


@pytest.fixture(scope="session")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The scenario under test, deployed for all its cases and taken away after the last."""
    session = get_session(request.config)
    measured = session.bench(request.param)
    yield measured
    measured.release()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test without a result by its own rules, and a size that cannot be had here.

    A size that the user gave and that no scenario can have was refused before. A case whose testbed
    is lost is run again on another.
    """
    if not _measures(item):
        return (yield)
    from vnetperf.model.errors import FrameSizeError, HostError, NoResultError

    try:
        try:
            return (yield)
        except HostError:
            if not _moves(item):
                raise
        while True:
            try:
                return item.runtest()
            except HostError:
                if not _moves(item):
                    raise
    except (NoResultError, FrameSizeError) as error:
        pytest.skip(str(error).replace("\n", ";"))


def _moves(item: pytest.Item) -> bool:
    """Whether a case that met a `HostError` can go on, on another testbed."""
    from vnetperf.pytest_plugin.cases import find_selected

    bench, selected = getattr(item, "funcargs", {}).get("bench"), find_selected(item)
    if bench is None or selected is None:
        return False
    return get_session(item.config).moves(bench, selected)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show our own errors as the message they are; `--tb=long` still shows the traceback."""
    if call.when == "call" and _measures(item):
        get_session(item.config).note_testbed(item)
    report = yield
    if call.excinfo is None or not report.failed:
        return report
    from vnetperf.model.errors import VnetperfError

    error = call.excinfo.value
    quiet = item.config.option.tbstyle != "long"
    if _measures(item) and quiet and item.config.option.showcapture == "all":
        # What was logged is in run.log, whole; here it would stand below what matters.
        report.sections = [part for part in report.sections if "Captured log" not in part[0]]
        if logs := get_session(item.config).run_logs:
            report.sections.append(("log of the run", " ".join(logs)))
    if _measures(item) and (trouble := get_session(item.config).log_trouble):
        # What cannot be written down need not be measured.
        item.session.shouldfail = f"vnetperf: {trouble}"
    if isinstance(error, VnetperfError) and quiet:
        notes = getattr(error, "__notes__", [])
        text = "\n".join([f"{type(error).__name__}: {error}", *notes])
        path, line, _ = item.location
        report.longrepr = _Message(text, path, line or 0)
    return report


class _Message(ReprExceptionInfo):
    """An error as the message it is; pytest's summary, which is last, has its first line too.

    It is of pytest's own kind, because a worker of pytest-xdist hands on nothing else but text,
    which has no line for the summary.
    """

    def __init__(self, text: str, path: str, line: int) -> None:
        lines = [f"{text_line}\n" for text_line in text.splitlines()]
        super().__init__(
            reprtraceback=ReprTraceback([ReprEntryNative(lines)], extraline=None, style="native"),
            reprcrash=ReprFileLocation(path, line + 1, text.partition("\n")[0]),
        )
        self.lines = lines

    def toterminal(self, tw: Any) -> None:
        for line in self.lines:
            tw.write(line, red=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Under pytest-xdist: refuse what cannot be measured so before any worker is started."""
    get_session(config).reserve_name()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under pytest-xdist: workers write into one results folder, each about its own testbed."""
    node.workerinput["vnetperf_run"] = get_session(node.config).reserve_name()
    node.workerinput["vnetperf_testbed"] = get_session(node.config).takes_testbed(node)
    node.workerinput["vnetperf_cases"] = node.gateway.newchannel()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the cases that are left, after `--lf` too; a worker sends them before all tests' ids."""
    config = session.config
    cases: dict[str, str] = {}
    if _any_measures(session.items):
        from vnetperf.pytest_plugin.cases import (
            find_selected,
            group_throughput_sizes,
            list_frame_sizes,
        )

        get_session(config).frame_sizes = list_frame_sizes(session.items)
        get_session(config).sizes_of = group_throughput_sizes(session.items)
        chosen = ((item.nodeid, find_selected(item)) for item in session.items)
        cases = {nodeid: selected.in_test_id for nodeid, selected in chosen if selected is not None}
    if cases:
        get_session(config).outcomes.cases.update(cases)
    channel = getattr(config, "workerinput", {}).get("vnetperf_cases")
    if channel is not None:
        channel.send((cases, pytest_report_collectionfinish(config, session.items)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Under pytest-xdist: a worker has ended; one that takes its place gets its testbed."""
    if _SESSION in node.config.stash:
        get_session(node.config).testbeds.pop(node, None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Under pytest-xdist: only now the controller knows whether anything will be measured."""
    channel = node.workerinput["vnetperf_cases"]
    # vnetperf is not installed where the worker runs, or the worker has ended.
    with suppress(channel.TimeoutError, channel.RemoteError, EOFError):
        get_session(node.config).collected_by_worker(*channel.receive(timeout=COLLECTED_S))
        get_session(node.config).follow_worker(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under pytest-xdist: keep a scenario's cases on one worker."""
    if config.getoption("dist") not in ("load", "loadgroup"):
        return None  # the user chose another order
    from vnetperf.pytest_plugin.xdist import LateScheduling, ScenarioScheduling

    session = get_session(config)
    scheduling = ScenarioScheduling(
        config,
        log,
        cases=session.outcomes.cases,
        testbeds=session.testbeds,
        measured_on=session.measured_on,
    )
    return LateScheduling(config, log, scheduling)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the run; the controller writes the reports."""
    if _SESSION in session.config.stash:
        ours = session.config.stash[_SESSION]
        if exitstatus == pytest.ExitCode.OK and ours.outcomes.nothing_measured:
            session.exitstatus = exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        cut = bool((session.shouldfail or session.shouldstop) and ours.outcomes.not_run)
        if ours.finish(int(exitstatus), cut=cut and not ours.worker):
            session.exitstatus = exitstatus = pytest.ExitCode.INTERRUPTED
        wrong = ours.trouble or ours.expecting.failed
        if wrong and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Show the table."""
    if _SESSION not in config.stash:
        return
    session = config.stash[_SESSION]
    if session.outcomes.nothing_measured:
        terminalreporter.line(session.outcomes.explanation(), red=True)
    if session.trouble:
        terminalreporter.line(session.trouble, red=True)
    results = session.results
    expected = list(session.expecting.lines())
    if expected:
        terminalreporter.section("vnetperf expectations")
    for line, markup in expected:
        terminalreporter.line(line, **markup)
    if results is None:
        return
    from vnetperf.report.terminal import terminal_text
    from vnetperf.runner import verdict

    terminalreporter.section("vnetperf results")
    # A file has no width: the widest table is whole at this one.
    width = max(80 if terminalreporter.isatty else 160, terminalreporter._tw.fullwidth)
    terminalreporter.write(terminal_text(results, width=width, plain=not terminalreporter.isatty))
    terminalreporter.line(f"results: {session.folder}")
    terminalreporter.line(f"report:  {session.folder}/report.html")
    if session.folder is not None and (line := verdict.captures_summary(session.folder)):
        terminalreporter.line(line)
    if exitstatus == pytest.ExitCode.INTERRUPTED:  # last: the tables may be many screens
        terminalreporter.write_line(
            f"vnetperf: the run was interrupted; to continue: {_make_resume_command(config)}",
            yellow=True,
        )


def _make_resume_command(config: pytest.Config) -> str:
    """The command that continues an interrupted run."""
    session = config.stash[_SESSION]
    # In one word: of two, pytest takes the folder for a path when it looks for its own files.
    command = ["pytest", f"--resume={session.folder}"]
    workers = getattr(config.option, "numprocesses", None)
    if resume := config.getoption("resume"):
        # With --resume alone a run has the options that it began with; this session had these.
        typed = (arg.removeprefix("--resume=") for arg in config.invocation_params.args)
        command += [arg for arg in typed if arg not in ("--resume", resume)]
    elif workers and len(session.configuration.settings.testbeds) > 1:
        command += ["-n", str(workers)]  # on one testbed a run goes on without workers
    return shlex.join(command)
