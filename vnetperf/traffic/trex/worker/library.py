"""Imports TRex's client from where it was found, and says clearly why it cannot be."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

#: Kinds of trouble that the other end of the socket has words for.
MISSING, BROKEN, TOO_OLD = "missing", "broken", "too-old"


class TroubleError(Exception):
    """What the other end is told instead of a result.

    Args:
        kind: What went wrong, for a program: "missing", "owned", "gone", "version" ...
        text: What was said about it, for a person.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


class GivenUpError(Exception):
    """The other end has gone, or wants the trial to end."""


OUR_OWN = (TroubleError, GivenUpError)


class Saying:
    """Turns whatever the client raises into trouble: most of it is of one class, and some of none.

    Args:
        trouble_of: Makes trouble of an exception.
    """

    def __init__(self, trouble_of: Callable[[BaseException], TroubleError]) -> None:
        self._trouble_of = trouble_of

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Its thread interrupts us when the connection is lost: that is trouble as well.
        if isinstance(error, (Exception, KeyboardInterrupt)) and not isinstance(error, OUR_OWN):
            raise self._trouble_of(error) from None


def load(place: str) -> Any:
    """Import the client's stateless API.

    Args:
        place: Directory that has the package `trex`; "" when it is installed.

    Returns:
        The module `trex.stl.api`.

    Raises:
        TroubleError: It is not there, cannot be imported by this interpreter, or is of a kind
            that no server of today talks to.
    """
    if place:
        sys.path.insert(0, place)
        here = Path(place)
        if (here / "trex_stl_lib").is_dir() and not (here / "trex").is_dir():
            raise TroubleError(
                TOO_OLD, "trex-stl-lib speaks a protocol that no server of today knows"
            )
    with Saying(_cannot_import):
        return importlib.import_module("trex.stl.api")


def _cannot_import(error: BaseException) -> TroubleError:
    nowhere = isinstance(error, ImportError) and (error.name or "").split(".")[0] == "trex"
    return TroubleError(MISSING if nowhere else BROKEN, f"{type(error).__name__}: {error}")


def versions(api: Any) -> dict[str, str]:
    """What is known about the client that was imported.

    Args:
        api: The module.

    Returns:
        Python's version, and the directory it came from.
    """
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "client": str(Path(api.__file__).parents[2]),
    }
