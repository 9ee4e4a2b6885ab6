"""What is put back of an interface that a run had, and that nothing else is touched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vnetperf.host.nic import netdev

WAS: dict[str, Any] = {
    "name": "eth1",
    "mac": "52:54:00:00:00:01",
    "mtu": 1500,
    "flags": 0x1001,
    "offloads": {"gro": 1},
    "queues": [0, 0, 1, 4],
    "addresses": [],
    "routes": [],
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(netdev.links, "get", lambda _: SimpleNamespace(index=7))
    monkeypatch.setattr(netdev, "request_link", lambda _, **what: found.append(what))
    monkeypatch.setattr(netdev, "_put_addresses_back", lambda *_: False)
    for name in ("set_offloads", "set_channels"):
        monkeypatch.setattr(
            netdev.ethtool, name, lambda _, what, name=name: found.append((name, what))
        )
    return found


def test_what_is_as_before_is_left(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netdev, "read_state", lambda _: WAS)
    assert netdev.restore_state("eth1", WAS) == "already as before"
    assert calls == []


def test_all_that_a_run_changes_is_put_back(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {**WAS, "mtu": 9000, "flags": 0x80, "offloads": {"gro": 0}, "queues": [0, 0, 1, 2]}
    monkeypatch.setattr(netdev, "read_state", lambda _: now)
    assert netdev.restore_state("dev0", WAS) == "put back: name, mtu, offloads, queues, flags"
    assert ("set_channels", [0, 0, 1, 4]) in calls
    assert ("set_offloads", {"gro": 1}) in calls
    assert calls[-1]["flags"] == 0x1001, "it comes up when all else is set"


def test_a_journal_of_an_earlier_version_and_a_driver_without_queues(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netdev, "read_state", lambda _: WAS)
    netdev.restore_state("eth1", {key: WAS[key] for key in WAS if key != "queues"})
    netdev.restore_state("eth1", {**WAS, "queues": []})
    assert calls == []
