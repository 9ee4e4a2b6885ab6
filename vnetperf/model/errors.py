"""The one shape of an error a user sees: what, where, what is accepted, how to cure it."""

from __future__ import annotations

import errno
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """What follows an unknown name: ", did you mean 'pvp_dpdk'?"; "" when no known one is near."""
    names = {other.lstrip("-"): other for other in choices}
    if name in names.values():
        return ""
    word = name.lstrip("-")  # dashes alone make no names alike
    # Of near names the one with the same letters: a swap of two is the commonest slip of a hand.
    near = sorted(get_close_matches(word, names, 5), key=lambda other: _apart(word, other))
    return f", did you mean {names[near[0]]!r}?" if near else ""


#: Names that a message lists in full, and how many of more.
_FEW, _NEAREST = 20, 3


def accepted_names(name: str, choices: Iterable[str], all_of_them: str = "") -> str:
    """Names to choose from: all where they are few, else the nearest and how many others.

    `all_of_them` is what prints them, or where they stand.
    """
    names = list(dict.fromkeys(choices))
    if len(names) <= _FEW:
        return ", ".join(names)
    near = get_close_matches(name.lstrip("-"), names, _NEAREST, cutoff=0.0)
    where = f": {all_of_them}" if all_of_them else ""
    return f"{', '.join(near)}, and {len(names) - len(near)} others{where}"


def _apart(word: str, other: str) -> int:
    """How many letters two words do not have in common."""
    letters, others = Counter(word), Counter(other)
    return ((letters - others) + (others - letters)).total()


class VnetperfError(Exception):
    """A failure told to the user in one clear message.

    Args:
        what: What is wrong, with the value that is wrong.
        where: File and key, command or device it was found at.
        accepted: The values or conditions that would be accepted.
        cure: What the user can do about it.
    """

    def __init__(self, what: str, *, where: str = "", accepted: str = "", cure: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.accepted = accepted
        self.cure = cure

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.accepted:
            text += f"; accepted: {self.accepted}"
        if self.cure:
            text += f"\n  cure: {self.cure}"
        return text

    @classmethod
    @contextmanager
    def explain_os_error(
        cls, failure: str, *, where: str = "", accepted: str = "", cure: str = ""
    ) -> Iterator[None]:
        """Raise what the system refuses in the body as an error of this kind, with the reason.

        Args:
            failure: What cannot be done; the system's reason is put behind it.
            where: File and key, command or device.
            accepted: The values or conditions that would be accepted.
            cure: What the user can do about it.
        """
        try:
            yield
        except OSError as error:
            text = f"{failure}: {error.strerror or error}"
            raise cls(text, where=where, accepted=accepted, cure=cure) from error


def full_text(error: BaseException) -> str:
    """An error with the notes that were added to it on its way."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


class ConfigError(VnetperfError):
    """Configuration is wrong; nothing on the machine has been touched."""


def join_errors(errors: Sequence[ConfigError]) -> ConfigError:
    """One error with a line for each of several, none of them twice."""
    first, *others = {str(error): error for error in errors}.values()
    if not others:
        return first
    text = str(first).removeprefix(f"{first.where}: ")
    lines = (textwrap.indent(str(other), "  ") for other in others)
    return ConfigError("\n".join((text, *lines)), where=first.where)


class CapabilityError(VnetperfError):
    """This testbed cannot carry the scenario; the test is skipped with this reason."""


class FrameSizeError(CapabilityError):
    """Frames of a size cannot be sent or carried; others of the same scenario can.

    A case is skipped with this reason; a size that no selected scenario can have is refused before.
    """


class NoResultError(CapabilityError):
    """A test has no result here by its own rules, e.g. a buffer that cannot be filled.

    A case is skipped with this reason.
    """


class HostError(VnetperfError):
    """The machine refused a change or lacks something."""


class UntrustedProgramError(HostError, PermissionError):
    """A program was not started, since others than root could have written it.

    To who starts an optional one, it is a program that cannot be started: like any error of the
    system it has a number, a reason and a file.

    Args:
        what: The program, and why it is not run.
        where: The command line that would start it.
        accepted: What would be accepted.
        cure: What the user can do about it.
        filename: Path of the program.
    """

    def __init__(
        self, what: str, *, where: str = "", accepted: str = "", cure: str = "", filename: str = ""
    ) -> None:
        super().__init__(what, where=where, accepted=accepted, cure=cure)
        self.errno = errno.EACCES
        self.strerror = what
        self.filename = filename or None


class GeneratorError(VnetperfError):
    """The traffic generator failed; what it measured is not a number."""


class TrialTimeoutError(GeneratorError):
    """A trial did not end; what was counted by then is not a number."""


class DutError(VnetperfError):
    """The DUT (vSwitch or VNF) failed to start, died or misbehaved."""


class TestbedBusyError(VnetperfError):
    """Another run holds the testbed."""

    __test__ = False  # pytest would otherwise try to collect the name


class LogError(VnetperfError):
    """A trial log cannot be used: damaged, foreign or of a newer version."""
