"""The guest's agent, spoken to through a stand-in: what is asked, and what comes of answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from vnetperf.model.errors import DutError, HostError
from vnetperf.virt.guest import memory_by_node
from vnetperf.virt.guest_agent import GuestAgent


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def agent(*answers: Any) -> tuple[GuestAgent, list[dict[str, Any]]]:
    """An agent that gives these answers in turn, and what it is asked."""
    asked: list[dict[str, Any]] = []
    left = list(answers)

    def ask(command: str, seconds: int) -> str:
        assert seconds > 0
        asked.append(json.loads(command))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps({"return": answer})

    return GuestAgent("g", ask), asked


def test_a_program_is_run_to_its_end_and_its_output_is_the_answer() -> None:
    guest, asked = agent(
        {"pid": 7}, {"exited": False}, {"exited": True, "exitcode": 0, "out-data": coded("hi")}
    )
    assert guest.run(["echo", "hi"]) == "hi"
    assert asked[0] == {
        "execute": "guest-exec",
        "arguments": {"path": "echo", "arg": ["hi"], "capture-output": True},
    }
    assert [a["execute"] for a in asked[1:]] == ["guest-exec-status"] * 2


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ({"exitcode": 3, "err-data": coded("no such device")}, "status 3: no such device"),
        ({"signal": 9}, "status 137"),
    ],
)
def test_a_program_that_fails_is_an_error_with_its_words(end: dict[str, Any], says: str) -> None:
    guest, _ = agent({"pid": 7}, {"exited": True, **end})
    with pytest.raises(DutError, match=rf"g: ip link: failed with {says}"):
        guest.run(["ip", "link"])


def test_a_program_that_does_not_end_is_an_error() -> None:
    guest, _ = agent({"pid": 7}, {"exited": False})
    with pytest.raises(DutError, match="did not end within 0 s"):
        guest.run(["sleep", "9"], timeout_s=0)


def test_a_silent_agent_is_no_answer() -> None:
    guest, _ = agent(HostError("Guest agent is not responding"))
    assert not guest.answers()


def test_interfaces_are_known_by_address() -> None:
    guest, _ = agent([{"name": "lo"}, {"name": "eth0", "hardware-address": "02:76:61:00:00:AA"}])
    assert guest.interfaces() == {"02:76:61:00:00:aa": "eth0"}


def test_a_file_is_read_to_its_end_and_closed() -> None:
    guest, asked = agent(5, {"buf-b64": coded("ab")}, {"buf-b64": coded("c")}, {"buf-b64": ""}, {})
    assert guest.read("/f") == "abc"
    assert asked[-1] == {"execute": "guest-file-close", "arguments": {"handle": 5}}


def test_a_file_is_closed_when_it_cannot_be_written() -> None:
    guest, asked = agent(5, HostError("no space"), {})
    with pytest.raises(HostError, match="no space"):
        guest.write("/f", "x")
    assert asked[-1]["execute"] == "guest-file-close"


def test_memory_is_that_of_the_largest_mapping() -> None:
    maps = (
        "7f00 default file=/memfd:pc.ram huge dirty=4 N0=64 N1=192 kernelpagesize_kB=2048\n"
        "7f01 default anon=3 N0=900 kernelpagesize_kB=4\n"
        "7f02 default file=/usr/bin/qemu\n"
    )
    assert memory_by_node(maps, 512) == {"node 0": 128, "node 1": 384}
    assert memory_by_node("7f01 default anon=3 N0=900 kernelpagesize_kB=4\n", 512) == {}
