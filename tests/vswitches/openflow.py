"""OpenFlow as far as the rules of a deployment go: what a switch would do with a frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from vnetperf.model.traffic import FlowKey
from vnetperf.vswitches.openvswitch.openflow import TUNNEL_OFPORT, ofport

__all__ = ["TUNNEL_OFPORT", "Frame", "Switch", "ofport"]


@dataclass(frozen=True)
class Frame:
    """A frame's fields that rules match and write."""

    dl_src: str
    dl_dst: str
    nw_src: str
    nw_dst: str
    tp_src: str
    tp_dst: str
    ttl: int = 64

    @classmethod
    def of(cls, flow: FlowKey) -> Frame:
        return cls(*(str(value) for value in flow))


class Switch:
    """A table of rules, looked up by what they match."""

    def __init__(self, rules: Iterable[str]) -> None:
        self.table: dict[frozenset[tuple[str, str]], str] = {}
        for rule in rules:
            match, _, actions = rule.partition("actions=")
            parts = [part.partition("=") for part in match.strip(",").split(",")]
            key = frozenset((name, value) for name, _, value in parts if value)
            assert key not in self.table, f"two rules match the same: {rule}"
            self.table[key] = actions
        self.masks = {frozenset(name for name, _ in key) for key in self.table}

    def forward(self, in_port: int, frame: Frame) -> tuple[int | str, Frame] | None:
        """Port it leaves by and how it leaves; None when it is dropped."""
        fields = {**frame.__dict__, "in_port": str(in_port), "nw_proto": "17"}
        keys = [frozenset((name, str(fields[name])) for name in mask) for mask in self.masks]
        found = [self.table[key] for key in keys if key in self.table]
        assert len(found) <= 1  # else two rules of one priority take the same frame
        if not found:
            return None
        for action in found[0].split(","):
            name, _, value = action.partition(":")
            if name == "output":
                return int(value), frame
            if name == "dec_ttl":
                frame = replace(frame, ttl=frame.ttl - 1)
            elif name in ("mod_dl_src", "mod_dl_dst"):
                frame = replace(frame, **{name[4:]: value})
            else:
                return action, frame
        raise AssertionError(f"no output in {found[0]}")
