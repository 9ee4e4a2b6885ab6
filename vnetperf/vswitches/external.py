"""The external backend: whatever somebody else runs between the tester's two ports.

Nothing of it is deployed, counted or restarted here. What it is, and how frames must be addressed
to get through it, stands in the testbed file under `[external]`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from vnetperf.config.files import validate
from vnetperf.model.base import Frozen, text_like
from vnetperf.model.deployment import Attachment, MacAddress, Port, VnfPort, WireEnd
from vnetperf.model.errors import CapabilityError, ConfigError
from vnetperf.model.frames import DEFAULTS, MAX_FRAME_SIZE, index_of
from vnetperf.model.nat import Nat
from vnetperf.model.profile import TrafficProfile
from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.model.traffic import Stream
from vnetperf.model.trial import HopCounters
from vnetperf.plugin.vswitch import VSwitch, VSwitchCapabilities


class ExternalPort(Frozen):
    """A port of the tester, and what it must know of the external DUT's port that it is cabled to.

    Attributes:
        tester: The tester's interface: a name such as "eth2" in this machine's own namespace.
        dut: What the other end of the cable is called there, for the report.
        mac: Address that frames into the DUT carry there: the router's, the gateway's; "" for a
            DUT that switches by the address of the tester's other port.
        gateway: IP address of the DUT there, for the report: the tester does not resolve it.
        vlan: Tag of the frames there, 1 to 4094, the same at both ports; 0 for none.
    """

    tester: Annotated[str, text_like(r"^[^\s/:]{1,15}$", "an interface such as eth2")]
    dut: str = ""
    mac: MacAddress | Literal[""] = ""
    gateway: str = ""
    vlan: int = Field(default=0, ge=0, le=4094)


class ExternalDut(Frozen):
    """`[external]` of a testbed file: a DUT that somebody else runs between the tester's ports.

    Attributes:
        name: What somebody else runs between the tester's ports, such as "switch in rack 7, model
            X"; see [external](backends/external.md).
        version: Its version (firmware, release), for the report.
        facts: More of it for the report.
        nat: It is a [NAT](cgnat.md): the subscribers of `--nat` are behind port 0, servers behind
            port 1; with `--nat mapping=learnt` it may choose addresses and ports as it likes.
        ports: `[[external.ports]]` with `tester`, and `dut`, `mac`, `gateway`, `vlan` where needed:
            of tester port 0, then of port 1.
    """

    name: str = ""
    version: str = ""
    facts: dict[str, str] = Field(default_factory=dict)
    nat: bool = False
    ports: tuple[ExternalPort, ...] = ()

    @property
    def problem(self) -> str:
        """What is missing of it, with the cure; "" when nothing is."""
        if not (self.name and self.ports):
            return (
                "the testbed file describes no external DUT; add [external] with its name, and "
                "[[external.ports]] with tester = an interface for each of the tester's two ports"
            )
        if len(self.ports) != 2 or self.ports[0].tester == self.ports[1].tester:
            return (
                f"[[external.ports]] name {len({p.tester for p in self.ports})} of the tester's "
                "two ports; add one entry for each, with interfaces that differ"
            )
        if self.ports[0].vlan != self.ports[1].vlan:
            return (
                "[[external.ports]] have different VLANs, and a frame that comes back with another "
                "tag than it was sent with counts as lost; give both the same vlan, or make one "
                "an access port"
            )
        return ""


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
        frame_change=Nat.key,
    )
    Section: ClassVar[type[Frozen]] = ExternalDut

    @classmethod
    def adapted(cls, scenario: Scenario, testbed: Testbed) -> Scenario:
        """The scenario with the addresses and the VLAN of the testbed file; a NAT is a router.

        Without `[external]` it stays as it is.
        """
        wire = cls.name if scenario.wire == "auto" else scenario.wire
        section = cls.read_section(testbed)
        ports = section.ports
        changes: dict[str, Any] = {"wire": wire}
        changes |= {"forwarding": "l3"} if section.nat else {"change": None}
        scenario = scenario.model_copy(update=changes)
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
        """Nothing: it has its ports."""

    def remove_port(self, port: Port) -> None:
        """Refuse: its ports are somebody else's."""
        raise self.no_port(port, ())

    def offer_vnf_port(self, port: VnfPort, kind: str, queues: int = 1) -> Attachment:
        """Refuse: it has none for VNFs."""
        raise self.no_port(port, ())

    def add_vnf_port(self, attachment: Attachment) -> None:
        """Refuse: it has none for VNFs."""
        raise self.no_port(attachment.port, ())

    def connect(self, streams: tuple[Stream, ...]) -> None:
        """Nothing: somebody else has set its forwarding up."""

    def links_down(self) -> tuple[str, ...]:
        """Nothing is known of its links."""
        return ()

    def counters(self) -> tuple[HopCounters, ...]:
        """Nothing is known of its counters."""
        return ()

    def facts(self) -> dict[str, Any]:
        """What the testbed file says of it."""
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
    cure = "choose another profile with --traffic, or ports without a tag"
    if {"vlan", "qinq"} & {*profile.headers}:
        vlan_id = profile.value("vlan_id", 0)
        # The first header's successor: a tag in a tunnel is none of the port's.
        varies = profile.flows > 1 and "vlan_id" in profile.vary
        outermost = index_of("vlan_id", profile.headers) == 1 and not varies
        if outermost and (DEFAULTS["vlan_id"] if vlan_id is None else vlan_id) == vlan:
            return profile
        raise CapabilityError(
            f"frames of traffic profile {profile.name} have tags of their own, which are not that "
            f"of VLAN {vlan} alone",
            where=where,
            cure=cure,
        )
    ethernet, *rest = profile.headers
    change = {"headers": (ethernet, "vlan", *rest), "values": {**profile.values, "vlan_id": vlan}}
    try:
        return validate(TrafficProfile, profile.model_dump() | change, where)
    except ConfigError as error:
        raise CapabilityError(
            f"frames of traffic profile {profile.name} cannot carry the tag of VLAN {vlan}: "
            f"{error.what}",
            where=error.where,
            accepted=error.accepted,
            cure=cure,
        ) from error
