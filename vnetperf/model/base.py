"""What every value of the project is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: immutable, comparable, and strict about its keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="null"
    )


def given(values: Frozen, plain: Frozen, *without: str) -> dict[str, Any]:
    """Fields whose values differ from those of `plain`, which has the defaults."""
    held = {name: getattr(values, name) for name in type(plain).model_fields if name not in without}
    return {name: value for name, value in held.items() if value != getattr(plain, name)}
