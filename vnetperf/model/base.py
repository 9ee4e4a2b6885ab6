"""What every value of the project is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError, to_json


class Frozen(BaseModel):
    """A value: immutable, comparable, and strict about its keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="null"
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values of some fields, whose names are checked; values are not.

        Args:
            update: Field -> value.
            deep: As pydantic has it.

        Returns:
            The copy.

        Raises:
            TypeError: The model has no field of a name.
        """
        unknown = sorted({*(update or ())} - type(self).model_fields.keys())
        if unknown and type(self).model_config.get("extra") != "allow":
            raise TypeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        return super().model_copy(update=update, deep=deep)

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """Its JSON; octets that are no UTF-8, of a file's name or a variable, are written in ASCII.

        Args:
            indent: Blanks for each depth; None for one line.
            **options: As pydantic has them.

        Returns:
            The text.
        """
        try:
            return super().model_dump_json(indent=indent, **options)
        except PydanticSerializationError:
            plain = _encodable(self.model_dump(**options))
            return to_json(plain, indent=indent, inf_nan_mode="null").decode()


def _encodable(value: Any) -> Any:
    """Values whose texts can be written as UTF-8."""
    if isinstance(value, PurePath):
        value = str(value)
    if isinstance(value, str):
        return _written(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(inner) for inner in value]
    return value


def _written(text: str) -> str:
    try:
        octets = text.encode(errors="surrogateescape")  # as it was before Python read it (PEP 383)
    except UnicodeEncodeError:  # half of a pair of UTF-16
        octets = text.encode(errors="backslashreplace")
    return octets.decode(errors="backslashreplace")


#: Pattern of a text -> what it accepts, in words: an error says these.
FORMS: dict[str, str] = {}


def text_like(pattern: str, words: str, *, longest: int | None = None) -> Any:
    """A text's form, and what to say where a value has another.

    Args:
        pattern: Regular expression.
        words: What it accepts: "letters and digits", "processors as in 2-3,8".
        longest: Most characters.

    Returns:
        What stands beside `str` in an annotation.
    """
    FORMS[pattern] = words
    return Field(pattern=pattern, max_length=longest)


#: Names that a value was made with -> the one set of them that all such values have.
_FIELD_SETS: dict[frozenset[str], set[str]] = {}
_PLAIN: Final = frozenset((str, int, float, bool, type(None)))


def share_field_sets(value: Any) -> None:
    """Have values share pydantic's sets of the fields that they were made with.

    Each value has one of its own, which is larger than the fields of most: of many values that are
    kept, as a log's, half the memory. Nothing changes them, since a copy has a copy.
    """
    if isinstance(value, BaseModel):
        fields = value.__pydantic_fields_set__
        shared = _FIELD_SETS.setdefault(frozenset(fields), fields)
        object.__setattr__(value, "__pydantic_fields_set__", shared)
        inner: Iterable[Any] = value.__dict__.values()
    elif isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    else:
        return
    for member in inner:
        if member.__class__ not in _PLAIN:
            share_field_sets(member)


def _check_hugepage_size(kb: int) -> int:
    if kb < LEAST_HUGEPAGE_KB or kb & (kb - 1):
        raise ValueError(
            f"{kb} KiB is no size of hugepages: these are powers of two from 64 on, such as 2048 "
            "or 1048576 on x86; /sys/kernel/mm/hugepages has those of a kernel"
        )
    return kb


#: The least that any kernel calls a hugepage, KiB.
LEAST_HUGEPAGE_KB = 64
#: Size of a hugepage, KiB. Which there are depends on processor and kernel: plans look.
HugepageSize = Annotated[int, AfterValidator(_check_hugepage_size)]


def given(values: Frozen, plain: Frozen, *without: str) -> dict[str, Any]:
    """Fields whose values differ from those of `plain`, which has the defaults."""
    fields = {
        name: getattr(values, name) for name in type(plain).model_fields if name not in without
    }
    return {name: value for name, value in fields.items() if value != getattr(plain, name)}
