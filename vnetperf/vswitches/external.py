"""The external backend: whatever somebody else runs between the tester's two ports.

Nothing of it is deployed, counted or restarted here. What it is, and how frames must be addressed
to get through it, stands in the testbed file under `[external]`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ValidationError

from vnetperf.model.base import Frozen
from vnetperf.model.deployment import Attachment, Port, VnfPort, WireEnd
from vnetperf.model.errors import CapabilityError
from vnetperf.model.frames import MAX_FRAME_SIZE
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import ExternalDut, Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities


class External(VSwitch):
    """A DUT that is there already: a hardware switch, a cloud's chain, a colleague's VPP."""

    name: ClassVar[str] = "external"
    elsewhere: ClassVar[bool] = True
    deployments: ClassVar[tuple[str, ...]] = ("phy2phy",)
    capabilities: ClassVar[VSwitchCapabilities] = VSwitchCapabilities(
        wires=("external",),
        attachments=(),
        chains=False,
        max_frame_size=MAX_FRAME_SIZE,
        forwarding=("l2", "l3"),
    )
    Section: ClassVar[type[Frozen]] = ExternalDut

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario with the addresses and the VLAN of the testbed file.

        Args:
            scenario: The scenario.
            testbed: The testbed; without `[external]` the scenario stays as it is.

        Returns:
            The scenario.

        Raises:
            CapabilityError: The DUT cannot be reached by the frames of the scenario.
        """
        wire = cls.name if scenario.wire == "auto" else scenario.wire
        ports = cls.section_of(testbed).ports
        changes: dict[str, Any] = {"wire": wire}
        if len(ports) == 2:
            macs = tuple(port.mac for port in ports)
            if scenario.routed and not all(macs):
                missing = macs.index("")
                raise CapabilityError(
                    "a router takes only frames that are addressed to it, and the testbed file "
                    "does not have its address",
                    where=f"external.ports[{missing}].mac of testbed {testbed.name}",
                    cure="set mac to the address of the DUT's port (of the gateway) there",
                )
            changes["dut_macs"] = macs if any(macs) else ()
            if vlan := ports[0].vlan:
                changes["traffic"] = _tagged(scenario.traffic, vlan, scenario.id)
        return scenario.model_copy(update=changes)

    def start(self) -> None:
        """Nothing: it runs."""

    def stop(self) -> None:
        """Nothing: it goes on."""

    def add_phy_port(self, end: WireEnd) -> None:
        """Nothing: it has its ports.

        Args:
            end: Its end of a cable.
        """

    def remove_port(self, port: Port) -> None:
        """Refuse: its ports are somebody else's.

        Args:
            port: A port.
        """
        raise self.no_port(port, ())

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Refuse: it has none for VNFs.

        Args:
            port: A port.
            kind: Kind of attachment.
            queues: Queue pairs.

        Returns:
            Never.
        """
        del kind, queues
        raise self.no_port(port, ())

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Refuse: it has none for VNFs.

        Args:
            attachment: An attachment.
        """
        raise self.no_port(attachment.port, ())

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Nothing: somebody else has set its forwarding up.

        Args:
            streams: Streams of the traffic.
        """

    def links_down(self) -> tuple[str, ...]:
        """Nothing is known of its links.

        Returns:
            None.
        """
        return ()

    def counters(self) -> tuple[HopCounters, ...]:
        """Nothing is known of its counters.

        Returns:
            None.
        """
        return ()

    def facts(self) -> dict[str, Any]:
        """What the testbed file says of it.

        Returns:
            JSON values.
        """
        section = self.section
        return {
            "name": section.name,
            "version": section.version or "unknown: the testbed file does not say",
            "forwards in": "an external DUT, which somebody else runs",
            "deployed": "no: facts and addresses are those of the testbed file",
            "ports": [port.model_dump(mode="json") for port in section.ports],
            **section.facts,
        }


def _tagged(profile: TrafficProfile, vlan: int, where: str) -> TrafficProfile:
    """The profile with a VLAN tag in its frames."""
    if "vlan" in profile.headers:
        return profile
    ethernet, *rest = profile.headers
    change = {"headers": (ethernet, "vlan", *rest), "values": {**profile.values, "vlan_id": vlan}}
    try:
        return TrafficProfile.model_validate(profile.model_dump() | change)
    except ValidationError as error:
        raise CapabilityError(
            f"frames of traffic profile {profile.name} cannot carry the tag of VLAN {vlan}: "
            + "; ".join(one["msg"] for one in error.errors()),
            where=where,
            cure="choose another profile with --traffic, or ports without a tag",
        ) from error
