"""What watching a trial costs: processor time of all collectors, by trial and by second of it.

Run as root: `python -m benchmarks.watching [--trials 40] [--seconds 0.5]`; it takes seconds.

Processes of the benchmark poll, as a PMD does. The time is what a trial of the log has as
`watched_cpu_s`: it is paid before and after the traffic, whatever the trial's length.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time

from vnetperf.deployment.trial import CollectorSession
from vnetperf.model.scenario import Pollers


def poll() -> None:
    """Keep a processor busy until the end."""
    while True:
        sum(range(1000))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each trial")
    parser.add_argument("--pollers", type=int, default=2, help="processes that poll meanwhile")
    args = parser.parse_args()
    busy = [multiprocessing.Process(target=poll, daemon=True) for _ in range(args.pollers)]
    for one in busy:
        one.start()
    pollers = tuple(Pollers(role="pmd", pid=one.pid or 0, thread_prefix="") for one in busy)
    taken = []
    for _ in range(args.trials):
        session = CollectorSession(pollers)
        session.start()
        time.sleep(args.seconds)
        taken.append(session.stop()["watched_cpu_s"])
    for one in busy:
        one.terminate()
        one.join()
    middle, most = statistics.median(taken), max(taken)
    print(f"each trial: {1e3 * middle:.2f} ms of a processor (at most {1e3 * most:.2f} ms)")
    shares = (f"{100 * middle / seconds:.2g} % of {seconds:g} s" for seconds in (args.seconds, 1.0))
    print(f"a processor's share: {', '.join(dict.fromkeys(shares))}")


if __name__ == "__main__":
    main()
