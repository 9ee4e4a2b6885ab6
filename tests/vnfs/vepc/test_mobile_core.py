"""A UE of its own in place of the tester: what its program leaves to do, by version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

from vnetperf import config
from vnetperf.runner.scenarios import make_scenario
from vnetperf.vnfs.vepc import mobile_core, stack

#: `ip -4 -o address show` in the UE's namespace after the attach, and the end of sgsnemu's log.
ADDRESS = (
    "3: ue0    inet 198.18.0.2/32 scope global ue0\\       valid_lft forever preferred_lft forever"
)
LOGS = {
    "1.9": (True, "<0001> tun.c:188 tun ue0 configured\ngtp_newgsn() started at 198.18.128.1"),
    "1.13": (
        False,
        "<000d> gsn.c:468 GTP: gtp_newgsn() started at 198.18.128.1\n"
        "<0001> tun.c:146 tun ue0 configured\n"
        "<0005> netdev.c:967 NETDEV(ue0,if=ue0/3,ns=): Adding address 198.18.0.2/32 to dev ue0\n"
        "<0001> netdev.c:81 errno=100/Network is down ioctl(SIOCADDRT) failed\n"
        "<0003> sgsnemu.c:1658 Failed adding default route to 198.18.0.2\n",
    ),
}


class Namespace:
    """A namespace with the interface that sgsnemu makes, as `ip` sees it."""

    def __init__(self, *_: object) -> None:
        self.up, self.log, self.routes = False, "", set[str]()
        self.directory = Path("/run/ue")

    def spawn(self, _: str, argv: Sequence[str]) -> MagicMock:
        process = MagicMock()
        process.log_text.return_value = self.log
        process.wait_for.side_effect = lambda ready, **_: ready() or pytest.fail("not attached")
        return process

    def run(self, argv: Sequence[str]) -> str:
        words = list(argv)
        if words[:2] == ["ip", "link"] and "ue0" in words:
            self.up = self.up or "up" in words
        if words[:3] == ["ip", "route", "replace"] and words[-1] == "ue0":
            assert self.up, "RTNETLINK answers: Network is down"
            self.routes.add(words[3])
        return ADDRESS if "show" in words else ""

    def create(self, **_: object) -> None: ...
    def take(self, *_: object, **__: object) -> None: ...
    def give_back(self, *_: object, **__: object) -> None: ...


@pytest.mark.parametrize("version", LOGS)
def test_a_ue_has_an_interface_that_is_up_and_a_default_route(version: str) -> None:
    """sgsnemu 1.13 leaves both to others, and its packets went nowhere."""
    vnf, core = MagicMock(), make_scenario("vepc_bridge", config.load({}, environment={})).stack
    assert core is not None
    vnf.machine.link.return_value = MagicMock(mtu=1500, mac="02:00:00:00:00:01")
    with (
        patch.object(mobile_core, "Container", Namespace),
        patch.object(mobile_core, "ue_problem", return_value=""),
        patch.object(mobile_core, "_veth_netdevs", return_value=("veth0", "veth1")),
        patch.object(mobile_core.UeAndServer, "_plug_in"),
        patch.object(mobile_core.UeAndServer, "_unplug"),
    ):
        there = mobile_core.UeAndServer(vnf, core)
        radio = there.radio
        assert isinstance(radio, Namespace)
        radio.up, radio.log = LOGS[version]
        with (
            patch.object(stack, "program_argv", return_value=("sgsnemu",)),
            there.attached(()) as pair,
        ):
            assert pair.client.address == "198.18.0.2"
            assert radio.up
            assert radio.routes == {"default"}
