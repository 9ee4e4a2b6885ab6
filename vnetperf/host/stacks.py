"""Call stacks of busy threads by `perf`, in trials of their own (`--profile`)."""

from __future__ import annotations

import re
import signal
from collections import Counter

from vnetperf.host.machine import Machine
from vnetperf.host.proc import busy_threads
from vnetperf.host.processes import ManagedProcess
from vnetperf.host.trust import refuse_untrusted
from vnetperf.model.errors import HostError
from vnetperf.model.scenario import Pollers

PERF = "perf"
#: Samples a second: no multiple of the kernel's tick, which would always meet the same work.
PROFILE_HZ = 499
#: Octets of the stack that are kept of each sample: DPDK's programs have no frame pointers.
_STACK_OCTETS = 4096
_LONGEST_PROFILE_S = 300
_FRAME = re.compile(
    r"^\s+[0-9a-f]+ (?P<symbol>.*?)(?:\+0x[0-9a-f]+)? \((?P<object>[^()]*)(?: \(deleted\))?\)$"
)


class StackSampler:
    """Call stacks of threads by `perf`, from `start` to `stop`; `reason` says why it has none."""

    def __init__(self, machine: Machine, pollers: tuple[Pollers, ...]) -> None:
        self.reason = ""
        self._machine = machine
        self._pollers = pollers
        self._process: ManagedProcess | None = None
        self._file = machine.run_dir / "profile.data"

    def start(self) -> None:
        """Begin to sample."""
        tids = [str(thread.tid) for _, thread in busy_threads(self._pollers)]
        if not tids:
            self.reason = "not measured: the vSwitch has no threads of its own, the kernel forwards"
            return
        argv = [PERF, "record", "--freq", str(PROFILE_HZ), "--tid", ",".join(tids)]
        argv += ["--call-graph", f"dwarf,{_STACK_OCTETS}", "--output", str(self._file)]
        argv += ["--no-buildid-cache"]  # which is in a home
        pause = ["sleep", str(_LONGEST_PROFILE_S)]
        try:
            refuse_untrusted(pause)  # perf starts it, and only perf is looked at
            self._process = self._machine.spawn(PERF, [*argv, "--", *pause])
        except HostError as error:
            self.reason = f"not measured: {error.what}"

    def stop(self) -> dict[str, int]:
        """End sampling; samples by call stack."""
        process, self._process = self._process, None
        if process is None:
            return {}
        try:
            ended = not process.alive()
            process.signal(signal.SIGINT)
            process.stop()  # perf writes what it has; the second signal is ignored meanwhile
            if ended:
                self.reason = f"not measured: perf ended: {process.log_tail(3)}"
                return {}
            argv = [PERF, "script", "--input", str(self._file), "--fields", "comm,tid,ip,sym,dso"]
            stacks = fold_stacks(self._machine.run(argv, timeout=_SCRIPT_S))
        except (HostError, OSError) as error:
            self.reason = f"not measured: {getattr(error, 'what', error)}"
            return {}
        finally:
            self._file.unlink(missing_ok=True)
        if not stacks:
            self.reason = "not measured: perf took no sample"
        return stacks


#: Longest time for turning samples into call stacks, seconds.
_SCRIPT_S = 90.0


def fold_stacks(text: str) -> dict[str, int]:
    """Samples by call stack, its names joined by ";", of `perf script`: thread, then frames.

    The text has fields comm, tid, ip, sym and dso: a line for each sample, then one for each frame
    from the innermost on. What has no symbol has its file's name in brackets.
    """
    samples: Counter[str] = Counter()
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        head, *frames = block.splitlines() or [""]
        names = []
        for line in frames:
            if frame := _FRAME.match(line):
                symbol, file = frame["symbol"].strip(), frame["object"].rpartition("/")[2]
                names.append(symbol if symbol != "[unknown]" else f"[{file.strip('[]')}]")
        if names:
            thread = head.strip().rpartition(" ")[0].strip() or head.strip()
            stack = (name.replace(";", ":") for name in (thread, *reversed(names)))
            samples[";".join(stack)] += 1
    return dict(samples)
