"""A benchmark session of pytest.

Results folder, run, thresholds, and what became of its cases.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from vnetperf.config import Configuration, load
from vnetperf.config.settings import read_options
from vnetperf.log import folder as folders
from vnetperf.model.errors import CapabilityError, ConfigError, HostError, LogError, VnetperfError
from vnetperf.model.units import duration
from vnetperf.pytest_plugin.cases import (
    Selected,
    build_scenario,
    check_variants,
    round_count,
    usage_errors,
)
from vnetperf.pytest_plugin.terminal import LiveProgress
from vnetperf.pytest_plugin.xdist import WorkerProgress
from vnetperf.runner.scenarios import can_be_loaded, check_backends, scenario_ids

if TYPE_CHECKING:
    from vnetperf.analysis.thresholds import Expectations, Judgement
    from vnetperf.model.result import RunResults
    from vnetperf.model.scenario import Comparison, Scenario
    from vnetperf.runner.bench import Bench
    from vnetperf.runner.run import Run


def testbed_number(pytest_config: pytest.Config) -> int | None:
    """Which of the testbeds a process measures on; None: there may be but one."""
    worker = getattr(pytest_config, "workerinput", None)
    if worker is not None:
        return int(worker.get("vnetperf_testbed", 0))
    several = pytest_config.pluginmanager.hasplugin("dsession") or pytest_config.getoption("plan")
    return 0 if several else None


def load_configuration(
    pytest_config: pytest.Config,
    test_case: Mapping[str, Any] | None = None,
    number: int | None = None,
) -> Configuration:
    """The configuration that options, environment and files add up to, on one testbed."""
    resume = pytest_config.getoption("resume", None)
    with usage_errors():
        loaded = load(
            read_options(pytest_config.option),
            test_case=test_case,
            resumed=(
                f"run of {resume}",
                folders.read_user_settings(Path(resume)) if resume else {},
            ),
            number=testbed_number(pytest_config) if number is None else number,
        )
        check_backends(loaded)
    return loaded


#: Options of pytest that choose tests, beside paths.
_CHOICES = ("keyword", "markexpr", "pyargs", "deselect", "ignore", "ignore_glob")


def select_run_cases(config: pytest.Config) -> None:
    """With --resume: how often and by what the run is judged; and its cases, if none are named."""
    option = config.option
    folder = Path(option.resume)
    logs: list[Path] = []
    with suppress(OSError):  # a name that is too long to be one
        logs += [log for log in folders.list_logs(folder) if log.stat().st_size]
    if not logs and not option.help:
        packed = folders.compressed_logs(folder)
        missing = LogError(
            "there is no run to resume here: trials.jsonl is "
            + ("compressed" if packed else "missing or empty"),
            where=f"--resume {folder}",
            cure="uncompress it" if packed else "name a results folder, e.g. results/latest",
        )
        raise pytest.UsageError(str(missing))
    if option.help:
        return
    from vnetperf.log.records import LOG_VERSION

    record = folders.first_record(folder)
    if not record or record["version"] != LOG_VERSION:
        _refuse_log(folder)
    selects = config.args_source is pytest.Config.ArgsSource.ARGS or bool(
        option.keyword or option.markexpr
    )
    try:
        program, *arguments = shlex.split(record["identity"]["command"]) or [""]
    except ValueError:  # a quote without its end
        program, arguments = "", []
    if "pytest" not in program and "py.test" not in program:  # a program that called pytest.main
        if selects:
            return
        raise pytest.UsageError(
            f"--resume {option.resume}: its log does not have the command; give its paths and -k"
        )
    earlier = config._parser.parse_known_args(_without_workers(arguments))
    if option.expect is None and earlier.expect and not Path(earlier.expect).exists():
        raise pytest.UsageError(
            f"--resume {option.resume}: its command has --expect {earlier.expect}, which is not "
            "there; give the file with its path, or --expect '' to judge nothing"
        )
    # What belongs to the run, and what chose its cases unless this command does. Lists hold what
    # the configuration of pytest adds to either command.
    for name in ("repeat", "expect", *(() if selects else _CHOICES)):
        current, its = getattr(option, name), getattr(earlier, name)
        if isinstance(current or its, list):
            setattr(option, name, list(dict.fromkeys([*(current or ()), *(its or ())])))
        elif current is None or (not current and name != "expect"):  # --expect '' is meant
            setattr(option, name, its)
    if not selects:
        config.args[:] = earlier.file_or_dir or config.args


def _refuse_log(folder: Path) -> NoReturn:
    """Say why the log of a run cannot be read, before anything is collected."""
    with usage_errors():
        folders.read_run(folder)
    raise pytest.UsageError(
        f"--resume {folder}: its log does not begin as that of a run; start a run without --resume"
    )


def _without_workers(arguments: Sequence[str]) -> list[str]:
    """A command without pytest-xdist's options that take a value: it may not be installed now."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument in ("-n", "--numprocesses", "--dist", "--tx", "--maxprocesses"):
            next(rest, None)
        else:
            kept.append(argument)
    return kept


@contextmanager
def _deferred_interrupt(progress: LiveProgress | None) -> Iterator[list[int]]:
    """Let a first Ctrl-C wait until the machine is restored; the list has it. A second one ends."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def first(number: int, _: object) -> None:
        pressed.append(number)
        restore()
        if progress:
            again = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
            progress.line(f"the machine is being restored; {again} once more does not wait for it")

    before = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed
    finally:
        restore()


class ThresholdCheck:
    """What this session expects."""

    def __init__(self, config: pytest.Config) -> None:
        file = config.getoption("expect", None)
        self._config = config
        self._expectations: Expectations | None = _load_thresholds(Path(file)) if file else None
        self._judged: list[Judgement] = []

    def attach(self, run: Run) -> None:
        """Have each case's result checked, where it shows all that is expected of it."""
        if self._expectations is not None and not self._needs_all(run.configuration):
            run.checks.append(self._expectations.check)

    def judge(self, results: RunResults, configuration: Configuration) -> None:
        """Judge what only all results together can show."""
        if self._expectations is not None:
            together = self._needs_all(configuration)
            self._judged = self._expectations.judge_run(results, cases_too=together)

    def _needs_all(self, configuration: Configuration) -> bool:
        """Whether a case's result is but one round's, or without the name of its testbed."""
        several = len(configuration.settings.testbeds) > 1
        return several or bool(round_count(self._config, configuration))

    @property
    def failed(self) -> bool:
        """Whether one of those is not met."""
        return any(judged.met is False for judged in self._judged)

    def lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What to print."""
        words: dict[bool | None, tuple[str, dict[str, Any]]] = {
            True: ("met", {"green": True}),
            False: ("FAILED", {"red": True}),
            None: ("not judged", {"yellow": True}),
        }
        for judged in self._judged:
            word, markup = words[judged.met]
            yield f"{word}: {judged}", markup


def _load_thresholds(path: Path) -> Expectations:
    from vnetperf.analysis.thresholds import Expectations

    with usage_errors():
        return Expectations.load(path, scenario_ids())


def _case_name(nodeid: str) -> str:
    """A case without the way up to its folders, which depends on where pytest was started."""
    file, colons, case = nodeid.partition("::")
    folders = (part for part in PurePath(file).parts if part not in ("..", "/"))
    return f"{PurePath(*folders)}{colons}{case}"


class OutcomeCounter:
    """What became of the session's bench cases, those of workers too; a plugin of pytest's."""

    def __init__(self, progress: LiveProgress | None) -> None:
        self._counts: Counter[str] = Counter()
        self._ran: set[str] = set()
        self._progress = progress
        self._began = time.monotonic()
        #: Test whose end was not printed yet -> its outcome, seconds and testbed: reports of
        #: several workers come between each other.
        self._ended: dict[str, tuple[str, float, str]] = {}
        #: Testbeds that were given up, and why.
        self.lost: dict[str, str] = {}
        #: Id of each test of the session that measures, and what is deployed for it.
        self.cases: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a case; other tests are left out."""
        if self._progress:
            self._progress.stop()
        if report.nodeid in self.cases and (report.when == "call" or not report.passed):
            self._counts[report.outcome] += 1
            self._ran.add(report.nodeid)
            about = dict(report.user_properties)
            testbed = str(about.get(TESTBED, ""))
            self._ended[report.nodeid] = (report.outcome, report.duration, testbed)
            lost_testbeds = about.get(LOST)
            lost = lost_testbeds if isinstance(lost_testbeds, dict) else {}
            lost = {name: reason for name, reason in lost.items() if name not in self.lost}
            self.lost |= lost
            for name, reason in lost.items():
                if self._progress:
                    self._progress.line(
                        f"testbed {name} is lost, others take its cases: {' '.join(reason.split())}"
                    )

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Take the status line away before pytest prints what was interrupted."""
        if self._progress:
            self._progress.stop()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Print a line for a case where no status line can follow it."""
        if self._progress is None or self._progress.follows or nodeid not in self.cases:
            return
        done, spent = self._counts.total(), time.monotonic() - self._began
        outcome, seconds, testbed = self._ended.pop(nodeid, ("", 0.0, ""))
        total = len(self.cases)
        remaining_s = spent / max(done, 1) * (total - done)
        where = f"{testbed}: " if testbed else ""
        case = f"{done}/{total} {where}{nodeid.rpartition('::')[2]}"
        to_go = f", about {duration(remaining_s)} to go" if done < total else ""
        self._progress.line(
            f"{case} {outcome} in {duration(seconds)}; {duration(spent)} so far{to_go}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The session's cases as the log has them."""
        return tuple(map(_case_name, self.cases))

    @property
    def not_run(self) -> tuple[str, ...]:
        """Those that did not run."""
        return tuple(_case_name(nodeid) for nodeid in self.cases if nodeid not in self._ran)

    @property
    def nothing_measured(self) -> bool:
        """Whether cases were selected and every one was skipped."""
        return bool(self._counts["skipped"]) and set(self._counts) == {"skipped"}

    def explanation(self) -> str:
        """Why the session is not green."""
        return (
            f"vnetperf: nothing was measured: all {self._counts['skipped']} selected cases were "
            "skipped, for the reasons that `-rs` lists; `vnetperf doctor` lists what is missing"
        )


#: Properties of a test report under several testbeds: where it was measured, and testbeds that its
#: process has given up.
TESTBED, LOST = "testbed", "testbeds lost"
#: Longest wait of a pytest-xdist worker for its turn on a testbed, seconds.
WORKER_PATIENCE_S = 86_400.0


class BenchSession:
    """Made when the first test requests `bench`; most sessions of pytest never have one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        #: Name of this worker of pytest-xdist, "" for none.
        self.worker: str = getattr(config, "workerinput", {}).get("workerid", "")
        self._configuration: Configuration | None = None
        self._configurations: dict[str, Configuration] = {}
        #: Runs by the number of their testbed; a worker has others than its own where it takes
        #: cases to another testbed.
        self._runs: dict[int, Run] = {}
        #: In the controller of several testbeds: worker -> number of its own.
        self.testbeds: dict[Any, int] = {}
        self._comparisons: Sequence[Comparison] = ()
        #: Frame sizes of all cases that measure.
        self.frame_sizes: frozenset[int] = frozenset()
        self.sizes_of: dict[str, tuple[int, ...]] = {}
        self.expecting = ThresholdCheck(config)
        #: Of a resumed run on several testbeds: scenario -> number of the testbed it was on.
        self.measured_on: dict[str, int] = {}
        self.folder: Path | None = None
        self.results: Any = None
        #: Under pytest-xdist: why a worker must not measure.
        self.refused = ""
        #: Why there are no reports.
        self.trouble = ""
        self._name = ""
        self._lines: set[str] = set()
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        # A worker of xdist has no terminal, and its controller no trials; a CI log or `-q` into a
        # file is no place for a spinner.
        drawable = terminal is not None and terminal.isatty and testbed_number(config) is None
        live = drawable and os.environ.get("TERM", "dumb") != "dumb"
        self.progress = LiveProgress(terminal, follows=live) if terminal else None
        self.outcomes = OutcomeCounter(self.progress)
        config.pluginmanager.register(self.outcomes, "vnetperf-outcomes")

    @property
    def configuration(self) -> Configuration:
        """The configuration, loaded once."""
        if self._configuration is None:
            self._configuration = self._configuration_on(None)
        return self._configuration

    def _configuration_on(self, number: int | None) -> Configuration:
        """The configuration on a testbed; None: this process's own."""
        loaded = load_configuration(self.config, number=number)
        if self.worker:  # workers that share a testbed take turns, a scenario at a time
            patient = loaded.testbed.model_copy(update={"lock_timeout_s": WORKER_PATIENCE_S})
            loaded = replace(loaded, testbed=patient)
        return loaded

    @property
    def number(self) -> int:
        """Number of this process's testbed."""
        return testbed_number(self.config) or 0

    def takes_testbed(self, node: Any) -> int:
        """Under pytest-xdist: the testbed of a worker, the first that no other has."""
        with suppress(pytest.UsageError):  # reported when a worker has collected
            if (count := len(self.configuration.settings.testbeds)) > 1:
                used = set(self.testbeds.values())
                free = (n for n in range(count) if n not in used)
                self.testbeds[node] = next(free, count - 1)
        return self.testbeds.get(node, 0)

    def _check_testbeds(self) -> None:
        """Refuse testbeds that cannot be measured on at once, before anything is measured."""
        names = self.configuration.settings.testbeds
        source = f"testbed ({self.configuration.sources['testbed']})"
        if len(names) == 1:
            return
        if len(self.testbeds) > len(names):
            raise pytest.UsageError(
                f"-n {len(self.testbeds)}, and {source} names {len(names)}: each worker measures "
                f"on a testbed of its own; give -n {len(names)}, or name more testbeds"
            )
        testbed_names = [
            self._configuration_on(number).testbed.name for number in range(len(names))
        ]
        self._check_names(testbed_names, source)
        self._check_resumed(testbed_names)
        if self.progress and (unused := testbed_names[len(self.testbeds) :]):
            self.progress.line(
                f"-n {len(self.testbeds)} leaves {', '.join(unused)} out until another testbed is "
                "lost"
            )

    def _check_names(self, names: Sequence[str], source: str) -> None:
        """Refuse testbeds that results, or the files of their logs, would not tell apart."""
        logs = [folders.log_path(Path(), testbed=name).name for name in names]
        shared_log = next((log for log in logs if logs.count(log) > 1), "")
        twice = [name for name, log in zip(names, logs, strict=True) if log == shared_log]
        if twice and len(set(twice)) == 1:
            problem = f"two testbeds are called {twice[0]!r}, and results name them so"
        elif twice:
            problem = f"{' and '.join(map(repr, twice))} would have one log, {shared_log}"
        else:
            return
        raise pytest.UsageError(f'{source}: {problem}; give one another name = "..." in its file')

    def _check_resumed(self, names: Sequence[str]) -> None:
        """Refuse to go on with logs of other testbeds; note where each scenario was measured."""
        from vnetperf.runner.resume import ResumedRun
        from vnetperf.runner.run import run_record

        if not (resume := self.config.getoption("resume")):
            return
        logs = folders.testbed_logs(Path(resume))
        if len(self.testbeds) < len(logs):
            raise pytest.UsageError(
                f"-n {len(self.testbeds)}, and the run of --resume {resume} has logs of "
                f"{len(logs)} testbeds, each of which goes on with a worker of its own; give "
                f"-n {len(logs)}"
            )
        ended: Counter[tuple[str, int]] = Counter()
        for number, name in enumerate(names):
            if (log := folders.log_path(Path(resume), testbed=name)) not in logs:
                continue
            now = run_record(self._configuration_on(number), "", resumed=True)
            with usage_errors():
                resumed = ResumedRun.read(log, now)
            for test in (test for tests in resumed.rounds.values() for test in tests if test.final):
                ended[test.case[0].partition(",")[0], number] += test.end is not None
            for transfers in (transfers for moved in resumed.moved.values() for transfers in moved):
                ended[transfers.scenario.partition(",")[0], number] += len(transfers.transfers)
        # Where most of a scenario was finished, it goes on; the first testbed of those alike.
        for scenario, number in sorted(ended, key=lambda finished: (ended[finished], -finished[1])):
            self.measured_on[scenario] = number

    def _refuse_other_testbeds(self) -> None:
        """Refuse to continue a run on one testbed on several, and the other way round."""
        resume = Path(self.config.getoption("resume"))
        logs, count = folders.testbed_logs(resume), len(self.configuration.settings.testbeds)
        on_one = folders.log_path(resume) in logs
        if on_one == (count == 1):
            return
        named = f"testbed ({self.configuration.sources['testbed']}) names {count}"
        testbed = str(folders.read_user_settings(resume).get("testbed", ""))
        again = f"--testbed {testbed}" if testbed else "the --testbed of that run"
        workers = "" if on_one else f" and -n {max(len(logs), len(testbed.split(',')))}"
        raise pytest.UsageError(
            f"--resume {resume}: this run is one on {'one testbed' if on_one else 'several'}, and "
            f"{named}; name the testbeds of that run: {again}{workers}"
        )

    def configuration_for(self, item: pytest.Item) -> Configuration:
        """The configuration of a test case, its own sizes being the lowest layer."""
        marker = item.get_closest_marker("vnetperf")
        if marker is None:
            return self.configuration
        varies = item.get_closest_marker("vary") is not None
        if marker.args or (set(marker.kwargs) - {"frame_sizes"} and not varies):
            raise pytest.UsageError(
                f"{item.nodeid}: @pytest.mark.vnetperf takes frame_sizes=(...) and nothing else "
                "in a test case that varies nothing: all other settings belong to the whole run"
            )
        sizes = {key: value for key, value in marker.kwargs.items() if key == "frame_sizes"}
        if not sizes:
            return self.configuration
        key = repr(sizes)
        if key not in self._configurations:
            self._configurations[key] = load_configuration(self.config, sizes)
        return self._configurations[key]

    def results_folder(self) -> Path:
        """The run's folder: the one to resume, the one xdist's controller named, or a new one."""
        if self.folder is None:
            of_controller = getattr(self.config, "workerinput", {}).get("vnetperf_run")
            resume = self.config.getoption("resume")
            if of_controller:
                self.folder = folders.make_folder(self._named(of_controller))
            elif resume:
                self.folder = Path(resume).resolve()
                # Of a run under pytest-xdist that was killed.
                folders.merge_worker_logs(self.folder)
                if not self.worker:
                    self._refuse_other_testbeds()
            else:
                self.folder = folders.new_folder(Path(self.configuration.settings.results_dir))
        return self.folder

    def interrupt_on_sigterm(self) -> None:
        """Let a first SIGTERM end the session as Ctrl-C does: with reports, and how to go on."""
        in_main = threading.current_thread() is threading.main_thread()
        handled = not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        if handled or self.worker:  # a worker is ended by its controller
            return

        def restore() -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def first(*_: object) -> None:
            restore()
            raise KeyboardInterrupt("SIGTERM")

        signal.signal(signal.SIGTERM, first)
        self.config.add_cleanup(restore)

    def reserve_name(self) -> str:
        """Under pytest-xdist: name the folder that the first worker that measures will make."""
        self._refuse_rounds(None)
        if not self._name and (resume := self.config.getoption("resume")):
            with usage_errors():  # a log is damaged, or its session goes on
                folders.merge_worker_logs(Path(resume))  # of a session that was killed
            self._refuse_other_testbeds()
            if len(self.configuration.settings.testbeds) == 1:
                raise pytest.UsageError(
                    "--resume continues a log in the order it was written; leave -n out: one "
                    "testbed measures one case after the other"
                )
            self._name = str(Path(resume).resolve())
        self._name = self._name or folders.reserve_name()
        return self._name

    def _refuse_rounds(self, configuration: Configuration | None) -> None:
        if round_count(self.config, configuration):
            raise pytest.UsageError(
                "--repeat (or the preset's own) deploys one case after the other, in turn; "
                "leave -n out, or give --repeat 1"
            )

    def collected_by_worker(self, cases: Mapping[str, str], lines: Sequence[str]) -> None:
        """Under pytest-xdist: a worker has collected; refuse wrong options before it measures."""
        if self.progress and (new := [line for line in lines if line not in self._lines]):
            self.progress.terminal.ensure_newline()
            for line in new:
                self.progress.terminal.write_line(line)
            self._lines.update(new)
        self.outcomes.cases.update(cases)
        if cases and self.folder is None:
            self._refuse_rounds(self.configuration)
            self._check_testbeds()
            self.folder = self._named(self._name)
            self.interrupt_on_sigterm()

    def follow_worker(self, node: Any) -> None:
        """Under pytest-xdist: print what a worker waits for."""

        def print_line(text: object) -> None:  # by a worker that measures: there is a configuration
            number, names = self.testbeds.get(node), self.configuration.settings.testbeds
            where = f"{names[number]}: " if number is not None and len(names) > 1 else ""
            if self.progress and isinstance(text, str):
                self.progress.line(f"{where}{text}")

        node.workerinput["vnetperf_cases"].setcallback(print_line)

    def _named(self, name: str) -> Path:
        return Path(self.configuration.settings.results_dir).resolve() / name

    def check_resume(self) -> None:
        """Refuse a run that cannot be continued before the first case, and not in each."""
        if self.config.getoption("resume") and not self.worker:  # its controller has
            try:
                run = self.run()
            except VnetperfError as error:
                self._refuse_resume(error)
            try:
                run.facts()
            except ConfigError as error:  # the machine has changed
                self._refuse_resume(error)
            except VnetperfError:
                pass  # the agent cannot be started: each case reports it

    def _refuse_resume(self, error: VnetperfError) -> NoReturn:
        """End the session, and leave the run that it names with the reports that it has."""
        self.folder = None
        raise pytest.UsageError(str(error)) from None

    def run(self, number: int | None = None) -> Run:
        """The run on a testbed, begun on first use; on this process's own without a number."""
        number = self.number if number is None else number
        if number not in self._runs:
            from vnetperf.runner.run import Run

            local = number == self.number
            configuration = self.configuration if local else self._configuration_on(number)
            several = len(configuration.settings.testbeds) > 1
            # Each testbed has one log; who visits another's writes what is merged into it.
            worker = "" if several and local else self.worker
            log = folders.log_path(
                self.results_folder(), worker, configuration.testbed.name if several else ""
            )
            # A worker's own arguments are xdist's; those of its controller can be typed again.
            argv = getattr(self.config, "workerinput", {}).get("mainargv")
            cases = self.outcomes.names
            if self.progress is not None:
                self.progress.rounds = configuration.preset.rounds
            progress: Any = self.progress or WorkerProgress(self.config)
            run = Run(configuration, log, progress=progress, argv=argv, cases=cases)
            run.note_comparisons(self._comparisons)
            run.frame_sizes, run.sizes_of = self.frame_sizes, self.sizes_of
            self.expecting.attach(run)
            self._runs[number] = run
        return self._runs[number]

    @property
    def log_trouble(self) -> str:
        """Why the trial log takes no more records; "" while it does."""
        return next((run.log.trouble for run in self._runs.values() if run.log.trouble), "")

    @property
    def run_logs(self) -> tuple[str, ...]:
        """The logs of what was done, of this process's runs."""
        paths = (folders.run_log(run.log.path) for run in self._runs.values())
        return tuple(os.path.relpath(path) for path in paths if path.is_file())

    def expect(self, comparisons: Sequence[Comparison]) -> None:
        """Note which comparisons the session's cases belong to."""
        check_variants(self.configuration, comparisons)
        self._comparisons = comparisons

    def bench(self, selected: Selected) -> Bench:
        """A scenario to measure; skips it when no testbed can carry it."""
        from vnetperf.runner.bench import Bench

        if self.refused:
            raise ConfigError(self.refused)
        return Bench(*self._choose_testbed(selected), selected.variant)

    def _choose_testbed(self, selected: Selected) -> tuple[Run, Scenario]:
        """A scenario on this process's testbed, or on the next one that can carry it."""
        names = self.configuration.settings.testbeds
        lost: HostError | None = None
        cannot: dict[str, tuple[Run, str]] = {}
        for step in range(len(names)):
            number = (self.number + step) % len(names)
            run = self.run(number)
            if run.lost:
                continue
            if selected.round or max(run.resumed.rounds, default=1) > 1:
                # Without rounds a run that had some goes on in its first, and not in its last.
                planned = round_count(self.config, self.configuration) or 1
                run.begin_round(selected.round or 1, planned)
            try:
                scenario = build_scenario(run.configuration, selected, run.facts())
                run.plan(scenario)
            except HostError as error:
                if len(names) == 1:
                    raise
                run.lost = str(error)
                lost = lost or error
            except CapabilityError as error:
                cannot[names[number]] = run, str(error).replace("\n", ";")
            except ConfigError as error:
                if self.worker or selected.variant or not can_be_loaded(selected.scenario):
                    raise
                # As wrong for every other case: reported once.
                pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
            else:
                return run, scenario
        for run, reason in cannot.values():
            run.note_skipped(selected.id, reason)  # it is in the log and in every report
        if cannot:
            single = len(names) == 1
            pytest.skip("; ".join(w if single else f"{n}: {w}" for n, (_, w) in cannot.items()))
        raise lost or HostError(
            "every testbed is lost: " + "; ".join(run.lost for run in self._runs.values())
        )

    def moves(self, bench: Bench, selected: Selected) -> bool:
        """After a `HostError`: take a scenario to another testbed, where this one is lost."""
        if len(self.configuration.settings.testbeds) == 1 or bench.run.still_answers():
            return False
        bench.move(*self._choose_testbed(selected))
        return True

    def note_testbed(self, item: pytest.Item) -> None:
        """Let the controller know where a case was measured, and which testbeds are lost."""
        bench = getattr(item, "funcargs", {}).get("bench")
        if len(self.configuration.settings.testbeds) > 1 and bench is not None:
            runs = [*self._runs.values()]
            lost = {run.configuration.testbed.name: run.lost for run in runs if run.lost}
            item.user_properties += [(TESTBED, bench.testbed), *([(LOST, lost)] if lost else [])]

    def finish(self, exit_status: int, *, cut: bool) -> bool:
        """End the run and write the reports; returns whether Ctrl-C was pressed meanwhile.

        `cut` is True when -x or --maxfail left cases out.
        """
        if self.progress:
            self.progress.stop()
        with _deferred_interrupt(self.progress) as interrupts:
            self._finish(exit_status, cut=cut)
        return bool(interrupts)

    def _finish(self, exit_status: int, *, cut: bool) -> None:
        for run in self._runs.values():
            try:
                run.close(exit_status, cut=cut, not_run=self.outcomes.not_run)
            except VnetperfError as error:  # the log is closed, and the reports can be written
                if self.progress:
                    self.progress.say(str(error))
        try:
            self.results = self._write_reports()
            if self.results is not None:
                self.expecting.judge(self.results, self.configuration)
        except (OSError, VnetperfError) as error:
            self.trouble = (
                f"vnetperf: the reports were not written: {error}; the trials are safe: "
                f"once the cause is gone, run `vnetperf report {self.folder}`"
            )

    def _write_reports(self) -> Any:
        """Merge the workers' logs and derive every report."""
        if self.folder is None or self.worker or not self.folder.is_dir():
            return None
        from vnetperf.analysis.results_from_log import derive
        from vnetperf.report import write_all

        folders.merge_worker_logs(self.folder)
        if not folders.testbed_logs(self.folder):
            return None
        results = derive(folders.read_run(self.folder))
        write_all(results, self.folder)
        return results
