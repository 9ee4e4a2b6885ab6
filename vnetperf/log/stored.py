"""Values that stay in a file, and are read again when they are used.

A log of a long run is larger than the memory that its values should take, many times over as
objects. What is used again and again, a test's trials while they are looked at, stays as it is.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from pydantic import BaseModel
from pydantic_core import to_json

from vnetperf.log.records import TrialRecord
from vnetperf.model.errors import LogError, VnetperfError

#: Octets of lines whose values stay: those of all but the largest tests. As objects ten times that.
KEPT_OCTETS = 2**20

#: Where a temporary file is no memory.
_ON_DISK = "/var/tmp"  # noqa: S108 - for files that have no name

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)


#: Values that are made before Python looks for cycles among them.
_MADE_BETWEEN = 100_000


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Have Python look for cycles rarely where many values are made.

    They hold none, and looking through them takes a third of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _MADE_BETWEEN), 5, 2)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class StoredLines(Generic[Value]):
    """The values of lines of a file, those used last without reading them again.

    Args:
        fd: The file, which is closed with this.
        parse: Makes a line's value.
        where: What an error names.
    """

    def __init__(self, fd: int, parse: Callable[[bytes], Value], where: str) -> None:
        self._fd = fd
        self._parse = parse
        self._where = where
        self._kept: OrderedDict[int, tuple[Value, int]] = OrderedDict()
        self._octets = 0
        weakref.finalize(self, os.close, fd)

    def read(self, start: int, length: int) -> Value:
        """The value of the line of so many octets that begins at an octet of the file."""
        kept = self._kept.get(start)
        if kept is not None:
            self._kept.move_to_end(start)
            return kept[0]
        try:
            value = self._parse(os.pread(self._fd, length, start))
        except (OSError, ValueError, VnetperfError) as error:
            raise LogError(
                f"what was written cannot be read again: {error}",
                where=self._where,
                cure="see whether the file is as it was written, with `vnetperf report`",
            ) from error
        self.keep(start, length, value)
        return value

    def keep(self, start: int, length: int, value: Value) -> None:
        """Note a value that was made of a line, or is written as one."""
        self._kept[start] = value, length
        self._octets += length
        while self._octets > KEPT_OCTETS and len(self._kept) > 1:
            _, (_, octets) = self._kept.popitem(last=False)
            self._octets -= octets


class StoredTrial(TrialRecord):
    """A trial of which the numbers are at hand, and all else is in its log.

    It is used as any other, and has what that has.
    """

    @classmethod
    def at(
        cls, lines: StoredLines[Any], start: int, length: int, record: TrialRecord
    ) -> StoredTrial:
        """The trial whose line is at a place; `record` is what it holds, of which nothing stays."""
        return cls._make(lines, start, length, {"number": record.number, "search": record.search})

    @classmethod
    def _make(
        cls, lines: StoredLines[Any], start: int, length: int, values: dict[str, Any]
    ) -> StoredTrial:
        trial = cls.__new__(cls)
        state = values | {"_line": (lines, start, length)}
        object.__setattr__(trial, "__dict__", state)
        object.__setattr__(trial, "__pydantic_fields_set__", _ALL_FIELDS)
        object.__setattr__(trial, "__pydantic_extra__", None)
        object.__setattr__(trial, "__pydantic_private__", None)
        return trial

    def __getattr__(self, name: str) -> Any:
        """A field that is not at hand."""
        if name not in _ALL_FIELDS:
            raise AttributeError(f"a trial has no {name!r}")
        lines, start, length = self.__dict__["_line"]
        return getattr(lines.read(start, length), name)

    @property
    def whole(self) -> TrialRecord:
        """The trial with everything that it has."""
        values = {name: value for name, value in self.__dict__.items() if name != "_line"}
        lines, start, length = self.__dict__["_line"]
        trial: TrialRecord = lines.read(start, length)
        changed = {name: value for name, value in values.items() if value != getattr(trial, name)}
        return trial.model_copy(update=changed) if changed else trial

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Any:
        """Likewise stored, with other values of some fields."""
        values = {**self.__dict__, **(update or {})}
        lines, start, length = values.pop("_line")
        return self._make(lines, start, length, values)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """What a trial that is at hand gives."""
        return self.whole.model_dump(**options)

    def model_dump_json(self, **options: Any) -> str:
        """What a trial that is at hand gives."""
        return self.whole.model_dump_json(**options)

    def __eq__(self, other: object) -> bool:
        record = other.whole if isinstance(other, StoredTrial) else other
        return self.whole == record

    __hash__ = None  # type: ignore[assignment]  # as of any trial, which holds dictionaries


def complete_trials(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Trials with everything that they have, to be looked at many times."""
    return [trial.whole if isinstance(trial, StoredTrial) else trial for trial in trials]


_ALL_FIELDS = set(TrialRecord.model_fields)


class Shelf(Sequence[Model]):
    """Values one after the other; more than a few are in a temporary file, read when they are used.

    Args:
        kind: What they are.
        in_memory: How many stay in memory. Where there are more, all are in the file.
    """

    def __init__(self, kind: type[Model], in_memory: int) -> None:
        self._kind = kind
        self._in_memory = in_memory
        self._values: list[Model] = []
        self._file: _ShelfFile[Model] | None = None
        self._places, self._lengths = array("q"), array("q")

    def append(self, value: Model) -> None:
        """Put a value behind the others."""
        if self._file is None:
            self._values.append(value)
            if len(self._values) > self._in_memory:
                self._file = _ShelfFile(self._kind)
                for earlier in self._values:
                    self._write(self._file, earlier)
                self._values.clear()
        else:
            self._write(self._file, value)

    def _write(self, file: _ShelfFile[Model], value: Model) -> None:
        start, length = file.write(value)
        self._places.append(start)
        self._lengths.append(length)

    def by(self, keys: Sequence[Any]) -> Sequence[Model]:
        """The same values ordered by keys, of which each value has one."""
        return self.some(sorted(range(len(keys)), key=keys.__getitem__))

    def some(self, numbers: Iterable[int]) -> Sequence[Model]:
        """Those with some numbers, from 0, in that order: a tuple of what is in memory."""
        if self._file is None:
            return tuple(self._values[number] for number in numbers)
        shelf = Shelf(self._kind, self._in_memory)
        shelf._file = self._file
        for number in numbers:
            shelf._places.append(self._places[number])
            shelf._lengths.append(self._lengths[number])
        return shelf

    def __len__(self) -> int:
        return len(self._values) if self._file is None else len(self._places)

    @overload
    def __getitem__(self, index: int) -> Model: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Model]: ...

    def __getitem__(self, index: int | slice) -> Model | Sequence[Model]:
        if isinstance(index, slice):
            return self.some(range(len(self))[index])
        if self._file is None:
            return self._values[index]
        return self._file.lines.read(self._places[index], self._lengths[index])

    def __iter__(self) -> Iterator[Model]:
        return (self[place] for place in range(len(self)))


class _ShelfFile(Generic[Model]):
    """The file of shelves, which is gone with the last of them."""

    def __init__(self, kind: type[Model]) -> None:
        # Not /tmp, which is memory on many machines.
        place = _ON_DISK if os.access(_ON_DISK, os.W_OK) else None
        with tempfile.TemporaryFile(dir=place) as file:
            self._fd = os.dup(file.fileno())
        where = f"temporary file of {kind.__name__}"
        self.lines = StoredLines(self._fd, kind.model_validate_json, where)
        self._end = 0

    def write(self, value: Model) -> tuple[int, int]:
        """Write a value; where it is, and how long."""
        start = self._end
        # As plain values: a model's own JSON has null where a number is infinite or none.
        rest = memoryview(to_json(value.model_dump(), inf_nan_mode="constants"))
        while rest:
            written = os.pwrite(self._fd, rest, self._end)
            self._end, rest = self._end + written, rest[written:]
        return start, self._end - start
