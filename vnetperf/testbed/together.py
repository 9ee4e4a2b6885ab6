"""Doing the same to all VNFs at once: eight guests boot in about the time of the slowest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait


def all_or_first_error(calls: Iterable[Callable[[], object]]) -> None:
    """Make calls at the same time, and return when all have.

    Args:
        calls: What to call.

    Raises:
        Exception: What the first of them raised, at once. The others go on: whoever is told of the
            error ends what they wait for.
    """
    with _running(calls) as futures:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done:
                future.result()


def every_error(calls: Iterable[Callable[[], object]]) -> list[Exception]:
    """Make calls at the same time, each to its end.

    Args:
        calls: What to call.

    Returns:
        What they raised, in the order of the calls.
    """
    with _running(calls) as futures:
        wait(futures)
        errors = (future.exception() for future in futures)
        return [error for error in errors if isinstance(error, Exception)]


@contextlib.contextmanager
def _running(calls: Iterable[Callable[[], object]]) -> Iterator[list[Future[object]]]:
    """Start each call in a thread of its own; a single one needs none."""
    every = list(calls)
    if len(every) == 1:
        yield [_made(every[0])]
        return
    pool = ThreadPoolExecutor(max(1, len(every)), thread_name_prefix="vnf")
    try:
        yield [pool.submit(call) for call in every]
    finally:
        pool.shutdown(wait=False)


def _made(call: Callable[[], object]) -> Future[object]:
    future: Future[object] = Future()
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - handed to the caller
        future.set_exception(error)
    return future
