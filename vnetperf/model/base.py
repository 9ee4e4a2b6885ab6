"""What every value of the project is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: immutable, comparable, and strict about its keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="null"
    )
