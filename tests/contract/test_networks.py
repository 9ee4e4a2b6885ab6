"""Every registered container network keeps the contract, as far as this machine can carry it."""

from __future__ import annotations

import pytest

from vnetperf.plugin import registry
from vnetperf.testing import NetworkContract

#: Those with the code of others, as those with a process that polls on each host have, and one
#: whose daemons take seconds to start; daily too.
OVS_ALIKE = ("ovs_flat", "ovs_geneve", "ovs_gre", "ovs_vlan")
DAILY = (*OVS_ALIKE, "docker_overlay", "memif", "vhost_user", "vhost_user_vxlan")
#: Networks whose options change what is made; beside those in their own way, and only daily.
OPTIONS = {
    "cni": ("conflist=ptp", "conflist=macvlan"),
    "macvlan": ("mode=vepa", "mode=private", "mode=passthru"),
    "ipvlan": ("mode=l3",),  # l3s has sockets alone
    **dict.fromkeys(("ovs_vxlan", *OVS_ALIKE), ("mode=kernel",)),
}


def _add(name: str, *options: str) -> None:
    title = "_".join(["Test", name, *(one.partition("=")[2] for one in options)])
    members = {"network": name, "options": options, "__module__": __name__}
    made = pytest.mark.real(type(title, (NetworkContract,), members))
    globals()[title] = pytest.mark.daily(made) if options or name in DAILY else made


#: Of pods without ports for frames there is nothing to try.
CARRIERS = [
    n for n in registry.names("networks") if registry.load("networks", n).capabilities.frames
]

for _name in CARRIERS:
    _add(_name)
    for _option in OPTIONS.get(_name, ()):
        _add(_name, _option)
