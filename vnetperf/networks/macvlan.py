"""Pods with an address of their own on the host's interface: no bridge and no veth pair."""

from __future__ import annotations

from typing import ClassVar

from vnetperf.model.scenario import Scenario
from vnetperf.model.testbed import KernelModule, MachineFacts
from vnetperf.plugin.network import Network, NetworkCapabilities, Pod, PodPort, pod_count
from vnetperf.virt.pod_host import PodHost

MACVLAN_MODULE = KernelModule(name="macvlan", purpose="macvlan", symbol="macvlan_common_newlink")
#: What the modes do between macvlans of one host: "bridge" hands frames over, "vepa" leaves them to
#: the switch outside, "private" drops them, "passthru" has the host's interface to itself.
MODES = ("bridge", "vepa", "private", "passthru")


def isolation_problem(mode: str, scenario: Scenario) -> str:
    """Why pods of one host do not reach each other by their macvlans; "" where they do."""
    shares_host = scenario.pod_hosts == "same" or pod_count(scenario) > 2
    if not shares_host or mode == "bridge":
        return ""
    return (
        f"macvlan in mode {mode} passes nothing between two pods of one host by itself; "
        "choose mode=bridge, or --hosts other"
    )


class MacvlanNetwork(Network):
    """A macvlan for each pod on its host's interface; mode bridge joins those of one host."""

    name: ClassVar[str] = "macvlan"
    kernel_modules: ClassVar[tuple[KernelModule, ...]] = (MACVLAN_MODULE,)
    capabilities: ClassVar[NetworkCapabilities] = NetworkCapabilities(
        port="macvlan", modes=MODES, agents=True
    )
    path: ClassVar[str] = "macvlan, hosts' link, macvlan"

    @classmethod
    def find_problem(cls, facts: MachineFacts, scenario: Scenario) -> str:
        """What keeps macvlans from joining the pods."""
        problem = isolation_problem(scenario.options.mode or MODES[0], scenario)
        return problem or cls.missing_requirement(facts)

    def attach(self, host: PodHost, pod: Pod) -> PodPort:
        """A macvlan."""
        return self.attach_child(host, pod, "macvlan", macvlan_mode=self.mode)
