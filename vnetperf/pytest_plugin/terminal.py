"""Terminal output while cases run, and the plans that `--plan` prints."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest

from vnetperf.model.errors import CapabilityError, ConfigError, VnetperfError
from vnetperf.model.frames import LinkSpeed, l1_bits_per_frame
from vnetperf.model.profile import IMIX
from vnetperf.model.trial import LiveCounts, TrialSpec
from vnetperf.procedures import DurationEstimate, duration_estimate
from vnetperf.search.confirmation import confirming_trials

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vnetperf.model.preset import Preset
    from vnetperf.model.profile import TrafficProfile
    from vnetperf.model.scenario import Plan
    from vnetperf.pytest_plugin.cases import Selected
    from vnetperf.pytest_plugin.session import BenchSession
    from vnetperf.results.records import BeginRecord, TrialRecord

NOTHING = LiveCounts(elapsed_s=0.0, sent=0, refused=0, received=0)


class LiveProgress:
    """One status line that follows the search; replaced by plain lines when it is no terminal."""

    def __init__(self, terminal: Any, *, live: bool) -> None:
        self.terminal = terminal
        self.live = bool(live)  # pytest has a kind of its own
        self._status: Any = None
        self._spinner: Any = None
        self._tty: Any = None
        self._case: tuple[str, str, int] | None = None
        self._again = ""
        self._trials = 0
        self._began = 0.0
        self._last = ""
        self._reported = ""
        self._trial = ""
        self._before = NOTHING

    def say(self, text: str) -> None:
        """Show what is being done now."""
        if self.live:
            self._show(text)
        # There may be nothing to draw on; a wait is reported ten times a second.
        if not self.live and text != self._reported:
            self.line(text)
        self._reported = text

    def line(self, text: str) -> None:
        """Print a line of its own, and not behind the dots of tests."""
        # pytest ends a line of dots itself where a file's name began it: not with -q.
        begun = getattr(getattr(self.terminal, "_tw", None), "width_of_current_line", 0)
        if begun and not getattr(self.terminal, "currentfspath", None):
            self.terminal.line("")
        self.terminal.write_line(f"vnetperf: {text}")

    def test_begins(self, test: BeginRecord) -> None:
        """A search or another test begins, or begins again with a smaller largest load."""
        case = (test.scenario, test.test, test.frame_size)
        again = self._case == case and self._trials > 0
        self._again = "again, below what the generator did not offer; " if again else ""
        self._case = case
        self._trials, self._began, self._last = 0, time.monotonic(), ""

    def trial_begins(self, test: BeginRecord, spec: TrialSpec) -> None:
        """A trial begins."""
        if not self.live:
            return
        gbps = spec.load_fps * test.in_sum * l1_bits_per_frame(test.wire_size) / 1e9
        size = IMIX if test.imix else f"{test.frame_size} B"
        what = f"{rate_text(spec.load_fps)} per direction ({gbps:.2f} Gbit/s L1 in sum)"
        if spec.burst:
            what = f"burst of {spec.burst} frames"
        if spec.event is not None:
            what += f", {spec.event.what} is reset"
        spent = time.monotonic() - self._began
        self._before = NOTHING
        self._trial = (
            f"{test.scenario} {size} {test.test}: {self._again}trial {self._trials + 1}, {what}, "
            f"{spec.duration_s:.3g} s; {spent:.0f} s so far"
        )
        self._show(f"{self._trial}{self._last}")

    @property
    def follows(self) -> bool:
        """Whether a trial that is going on is looked at."""
        return self.live

    def trial_runs(self, counts: LiveCounts) -> None:
        """A trial is going on: show its rates of now, between two looks."""
        before = self._before if self._before.elapsed_s < counts.elapsed_s else NOTHING
        self._before = counts
        seconds = counts.elapsed_s - before.elapsed_s
        if not self.live or seconds <= 0:
            return
        sent, received = counts.sent + counts.refused, counts.received
        now = (sent - before.sent - before.refused, received - before.received)
        there, back = (rate_text(frames / seconds) for frames in now)
        self._show(
            f"{self._trial}; now {there} sent, {back} received, {sent - received} lost or under way"
        )

    def trial_ends(self, test: BeginRecord, trial: TrialRecord) -> None:
        """A trial has its verdict."""
        self._trials += 1
        loss = f"loss {trial.result.worst_loss_ratio():.3%}" if trial.result.directions else ""
        verdict = "" if trial.verdict == "VALID" else f" {trial.verdict}"
        spec = trial.spec
        load = f"{spec.burst} frames" if spec.burst else rate_text(spec.load_fps)
        self._last = f"; last: {load} {loss}{verdict}"

    def _show(self, text: str) -> None:
        if self._status is None:
            from rich.console import Console
            from rich.live import Live
            from rich.spinner import Spinner

            # While a test runs, pytest captures stdout: the terminal itself is what is drawn on.
            try:
                self._tty = open("/dev/tty", "w")  # noqa: PTH123, SIM115 - closed in `stop`
                columns = os.get_terminal_size(self._tty.fileno()).columns or 80
            except OSError:
                self.live = False
                return
            console = Console(file=self._tty, width=columns)
            self._spinner = Spinner("dots", text, style="status.spinner")
            # sys.stdout is pytest's while a test runs: to put it back later would give it a closed
            # file.
            self._status = Live(
                self._spinner,
                console=console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._tty.write("\n")
            self._status.start()
        self._spinner.update(text=text)

    def stop(self) -> None:
        """Take the status line away, before pytest prints."""
        if self._status is None:
            return
        status, self._status = self._status, None
        with suppress(OSError):  # the terminal may have gone; the run goes on
            status.stop()
        with suppress(OSError):
            self._tty.close()


def rate_text(fps: float) -> str:
    """A rate in the unit that reads best."""
    if fps >= 1e6:
        return f"{fps / 1e6:.3f} Mfps"
    if fps >= 1e3:
        return f"{fps / 1e3:.1f} kfps"
    return f"{fps:.0f} fps"


def print_plans(
    session: BenchSession, wanted: Sequence[tuple[Selected, bool]], terminal: Any
) -> None:
    """Plan scenarios and print the plans; nothing on the machine is touched."""
    from vnetperf.agent.hosts import connect
    from vnetperf.deployment.planner import make_plan
    from vnetperf.pytest_plugin.cases import round_count, scenario_of
    from vnetperf.runner.transfers import endpoint_scenario

    configuration = session.configuration
    media = LinkSpeed(configuration.testbed.media.bits_per_second)
    client = connect(configuration.testbed, read_only=True)
    try:
        try:
            facts = client.inventory()
        except VnetperfError as error:
            raise pytest.UsageError(str(error)) from None
        for selected, endpoints in wanted:
            terminal.section(f"plan of {selected.id}")
            for option in selected.variant.typed:
                terminal.line(f"variant     {option}")
            try:
                scenario = scenario_of(configuration, selected, facts)
                if endpoints:
                    scenario = endpoint_scenario(configuration, scenario)
                plan = make_plan(scenario, configuration.testbed, facts)
            except CapabilityError as error:
                terminal.line(f"would be skipped: {error}")
                continue
            except ConfigError as error:
                if selected.variant:
                    terminal.line(f"would fail: {error}")
                    continue
                raise pytest.UsageError(str(error)) from None
            for line in describe(plan, configuration.preset, media):
                terminal.line(line)
            if rounds := round_count(session.config, configuration):
                terminal.line(f"            all of it in each of {rounds} deployments (--repeat)")
    finally:
        client.close()


def describe(plan: Plan, preset: Preset, media: LinkSpeed) -> list[str]:
    """A plan as lines of text."""
    placement, scenario = plan.placement, plan.scenario
    lines = [
        f"deployment  {scenario.deployment.name}: {scenario.deployment.vnf_count} VNF(s), "
        f"{scenario.deployment.chains} chain(s), tester at "
        f"{' and '.join(str(end) for end in scenario.deployment.ends)}",
        f"forwarding  {'; '.join(str(hop) for hop in scenario.deployment.hops)}",
        *([f"conditions  {', '.join(scenario.conditions)}"] if scenario.conditions else []),
        *_hosts(plan),
        *([f"clocks      {plan.tester_text}"] if plan.tester_text else []),
        f"wires       {_wires(plan)}"
        if scenario.deployment.phy_ports
        else "wires       none: the tester is in the place of VNFs",
        *(f"            wire {nic.wire}: {nic}" for nic in plan.nics),
        f"traffic     {scenario.traffic.name}: {scenario.traffic.description}",
        f"cores       {placement.mode}: {placement.reason}",
        *(
            f"            {role} on {', '.join(map(str, cpus))}"
            for role, cpus in placement.cores.items()
        ),
        *(
            f"            {role} anywhere on {', '.join(map(str, cpus))}"
            for role, cpus in placement.unpinned.items()
        ),
    ]
    if placement.shared:
        slices = f"{placement.slice_us} us" if placement.slice_us else placement.slice_note
        lines.append(f"            scheduler slices: {slices or 'the kernel own'}")
    for memory in plan.memory:
        users = ", ".join(f"{user} {mib} MiB" for user, mib in memory.users.items())
        lines.append(
            f"memory      {memory.pages} hugepages of {memory.size_kb} KiB free on node "
            f"{memory.node}: {users}"
        )
    lines += [f"command     {name}: {line}" for name, line in plan.commands.items()]
    return [*lines, *_times(preset, scenario.traffic, media)]


def _wires(plan: Plan) -> str:
    """Kinds of wire and cable."""
    if not plan.hosts:
        return f"{plan.wire}, one per physical port"
    (kind,) = {part.wire for part in plan.hosts}
    graph = plan.scenario.deployment
    elsewhere = (graph.tester_vnf_ports or kind != plan.wire) and not plan.scenario.apart
    looped = f"; the tester is calibrated over {plan.wire}" if elsewhere else ""
    return f"{kind}, those between hosts are cables{looped}"


def _hosts(plan: Plan) -> list[str]:
    """What each host has, where there are several."""
    lines = []
    for part in plan.hosts:
        scenario = part.scenario
        vnfs = [f"vnf{number}" for number in scenario.deployment.vnf_numbers]
        of_dut = f" ({', '.join([f'vSwitch {scenario.vswitch}', *vnfs])})" if part.has_dut else ""
        port = f"'s port {part.ends[0]}" if part.ends and part.has_tester else ""
        parts = " and ".join(f"{one}{port}" if one == "tester" else one for one in part.parts)
        lines.append(f"host        {part.host}: {parts}{of_dut}")
        lines += [f"            {use}" for use in part.cables]
        lines += [f"            {nic}" for nic in part.nics]
        lines += [
            f"            {scenario.tunnel} at {end.port}: {end.local} to {end.remote}"
            for end in scenario.tunnel_ends
            if part.has_dut
        ]
        own = {role: cpus for role, cpus in part.placement.cores.items() if ":" not in role}
        lines += [
            f"            {role} on {', '.join(map(str, cpus))}" for role, cpus in own.items()
        ]
    return lines


def _times(preset: Preset, traffic: TrafficProfile, media: LinkSpeed) -> list[str]:
    sizes = ", ".join(map(str, preset.frame_sizes)) if traffic.mix is None else IMIX
    lines = [
        f"tests       {', '.join(preset.tests)}",
        f"search      {preset.algorithm}, frame sizes {sizes}",
    ]
    too_small = [size for size in preset.frame_sizes if size < traffic.least_frame_size]
    if too_small:
        small = ", ".join(map(str, too_small))
        lines.append(f"            but not {small}: {traffic.why_that_size}")
    lines += [
        f"            goal {g.name}: loss {g.loss_ratio:g}, width {g.width:g}, trials of "
        f"{g.initial_trial_s:g} to {g.final_trial_s:g} s, {g.duration_sum_s:g} s a load"
        for g in preset.goals
    ]
    lines += [
        f"wall time   {_longest(test, preset, traffic, media)}"
        for test in preset.tests
        if any(size not in too_small for size in preset.sizes_of(test))
    ]
    return lines


def _longest(test: str, preset: Preset, traffic: TrafficProfile, media: LinkSpeed) -> str:
    """The longest that a test can take."""
    sizes = [size for size in preset.sizes_of(test) if size >= traffic.least_frame_size]
    at = f"at each of {len(sizes)} frame sizes" if len(sizes) > 1 else f"at {sizes[0]} octets"
    if test == "throughput":
        seconds = preset.time_budget_s or preset.max_trial_seconds
        count, traffic_s = confirming_trials(preset.goals, preset.confirm)
        after = DurationEstimate(count, traffic_s).wall_s(preset) + preset.confirm.idle_s
        confirming = (
            f"; confirming bounds that hold at most {duration_text(after)}" if count else ""
        )
        if seconds is None:
            return f"{test}: not limited by the preset (max_trial_seconds){confirming}"
        if preset.time_budget_s is None:  # its limit is of traffic: the waits of all trials besides
            trials = ceil(seconds / min(goal.initial_trial_s for goal in preset.goals))
            seconds = DurationEstimate(trials, seconds).wall_s(preset)
        else:
            confirming = ""  # in the budget
        waits = f"with all waits{confirming}, deployment besides"
        return f"{test}: at most {duration_text(seconds)} {waits}, {at}"
    found = duration_estimate(test, preset, media.max_frame_rate(min(sizes)))
    if found is None:
        return f"{test}: as many trials as it takes"
    return (
        f"{test}: at most {found.trials} trials, {duration_text(found.wall_s(preset))} with "
        f"all waits, deployment besides, {at}"
    )


def duration_text(seconds: float) -> str:
    """A time in the unit that reads best."""
    return f"{seconds / 60:.1f} min" if seconds >= 100 else f"{seconds:.3g} s"
