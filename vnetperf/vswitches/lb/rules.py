"""Services by rules of nftables or iptables: those that kube-proxy has for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from vnetperf.model.balancing import (
    BACKEND_PORT,
    CLUSTER,
    SERVICE_PORT,
    VIRTUAL,
    Services,
)
from vnetperf.vswitches.conntrack import TrackingRouter
from vnetperf.vswitches.lb.base import BalancingSwitch

#: Bit of a packet's mark that requests another source address, as kube-proxy has it.
MASQUERADE = "0x4000"
#: Address of the node for services at a port of every node: documentation's own (RFC 5737).
NODE = "192.0.2.1"


def nft_rules(services: Services, protocol: str) -> str:
    """Rules of kube-proxy's mode nftables: one look-up of the service, whichever it is."""
    elements: list[str] = []
    chains: list[str] = []
    for number in range(services.services):
        virtual, name = services.virtual(number), f"ns/svc{number}/{protocol}/p"
        ends = dict(enumerate(services.service_backends(number)))
        service = f"service-{number:08X}-{name}"
        target = {
            index: f"endpoint-{number:08X}-{name}__{address}/{BACKEND_PORT}"
            for index, address in ends.items()
        }
        elements.append(f"{virtual} . {protocol} . {SERVICE_PORT} : goto {service}")
        chosen = ", ".join(f"{index} : goto {chain}" for index, chain in target.items())
        chains += (
            f"  chain {service} {{\n"
            f"    ip daddr {virtual} {protocol} dport {SERVICE_PORT} ip saddr != {CLUSTER} "
            "jump mark-for-masquerade\n"
            f"    numgen random mod {services.backends} vmap {{ {chosen} }}\n"
            "  }\n",
            *(
                f"  chain {chain} {{\n"
                f"    ip saddr {ends[index]} jump mark-for-masquerade\n"
                f"    meta l4proto {protocol} dnat to {ends[index]}:{BACKEND_PORT}\n"
                "  }\n"
                for index, chain in target.items()
            ),
        )
    all_virtual = ", ".join(str(services.virtual(number)) for number in range(services.services))
    return f"""table ip kube-proxy {{
  set cluster-ips {{
    type ipv4_addr
    elements = {{ {all_virtual} }}
  }}
  set nodeport-ips {{
    type ipv4_addr
    elements = {{ {NODE} }}
  }}
  map firewall-ips {{
    type ipv4_addr . inet_proto . inet_service : verdict
  }}
  map no-endpoint-nodeports {{
    type inet_proto . inet_service : verdict
  }}
  map no-endpoint-services {{
    type ipv4_addr . inet_proto . inet_service : verdict
  }}
  map service-nodeports {{
    type inet_proto . inet_service : verdict
  }}
  map service-ips {{
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = {{ {", ".join(elements)} }}
  }}
  chain mark-for-masquerade {{
    meta mark set meta mark or {MASQUERADE}
  }}
  chain masquerading {{
    meta mark and {MASQUERADE} == 0 return
    meta mark set meta mark xor {MASQUERADE}
    masquerade fully-random
  }}
  chain reject-chain {{
    reject
  }}
{"".join(chains)}  chain services {{
    ip daddr . meta l4proto . th dport vmap @service-ips
    ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
  }}
  chain firewall-check {{
    ip daddr . meta l4proto . th dport vmap @firewall-ips
  }}
  chain service-endpoints-check {{
    ip daddr . meta l4proto . th dport vmap @no-endpoint-services
  }}
  chain nodeport-endpoints-check {{
    ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
  }}
  chain cluster-ips-check {{
    ip daddr @cluster-ips reject
    ip daddr {{ {VIRTUAL} }} drop
  }}
  chain filter-prerouting-pre-dnat {{
    type filter hook prerouting priority dstnat - 10; policy accept;
    ct state new jump firewall-check
  }}
  chain filter-forward {{
    type filter hook forward priority 0; policy accept;
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }}
  chain filter-input {{
    type filter hook input priority 0; policy accept;
    ct state new jump nodeport-endpoints-check
    ct state new jump service-endpoints-check
  }}
  chain nat-prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }}
  chain nat-postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    jump masquerading
  }}
}}
"""


def iptables_rules(services: Services, protocol: str) -> Iterator[str]:
    """Rules of kube-proxy's mode iptables: one after the other until the service is found."""

    def named(text: str) -> str:
        return f'-m comment --comment "{text}"'

    new, portals = "-m conntrack --ctstate NEW", named("kubernetes service portals")
    yield "*filter"
    for chain in ("FORWARD", "SERVICES", "EXTERNAL-SERVICES", "NODEPORTS", "PROXY-FIREWALL"):
        yield f":KUBE-{chain} - [0:0]"
    firewall = named("kubernetes load balancer firewall")
    outside = named("kubernetes externally-visible service portals")
    yield f"-A INPUT {new} {firewall} -j KUBE-PROXY-FIREWALL"
    yield f"-A INPUT {named('kubernetes health check service ports')} -j KUBE-NODEPORTS"
    yield f"-A INPUT {new} {outside} -j KUBE-EXTERNAL-SERVICES"
    yield f"-A FORWARD {new} {firewall} -j KUBE-PROXY-FIREWALL"
    yield f"-A FORWARD {named('kubernetes forwarding rules')} -j KUBE-FORWARD"
    yield f"-A FORWARD {new} {portals} -j KUBE-SERVICES"
    yield f"-A FORWARD {new} {outside} -j KUBE-EXTERNAL-SERVICES"
    mark = f"--mark {MASQUERADE}/{MASQUERADE}"
    yield "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP"
    yield f"-A KUBE-FORWARD {named('kubernetes forwarding rules')} -m mark {mark} -j ACCEPT"
    yield (
        f"-A KUBE-FORWARD {named('kubernetes forwarding conntrack rule')} "
        "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
    )
    yield "COMMIT"
    yield "*nat"
    for chain in ("SERVICES", "NODEPORTS", "POSTROUTING", "MARK-MASQ"):
        yield f":KUBE-{chain} - [0:0]"
    numbers = range(services.services)
    for number in numbers:
        yield f":KUBE-SVC-{number:016X} - [0:0]"
        yield from (
            f":KUBE-SEP-{number:08X}{index:08X} - [0:0]" for index in range(services.backends)
        )
    yield f"-A PREROUTING {portals} -j KUBE-SERVICES"
    yield f"-A OUTPUT {portals} -j KUBE-SERVICES"
    yield f"-A POSTROUTING {named('kubernetes postrouting rules')} -j KUBE-POSTROUTING"
    yield f"-A KUBE-MARK-MASQ -j MARK --or-mark {MASQUERADE}"
    yield f"-A KUBE-POSTROUTING -m mark ! {mark} -j RETURN"
    yield f"-A KUBE-POSTROUTING -j MARK --xor-mark {MASQUERADE}"
    yield (
        f"-A KUBE-POSTROUTING {named('kubernetes service traffic requiring SNAT')} "
        "-j MASQUERADE --random-fully"
    )
    for number in numbers:
        to = f"-d {services.virtual(number)}/32 -p {protocol} -m {protocol} --dport {SERVICE_PORT}"
        cluster_ip = named(f"ns/svc{number}:p cluster IP")
        yield f"-A KUBE-SERVICES {cluster_ip} {to} -j KUBE-SVC-{number:016X}"
    last = named("kubernetes service nodeports; NOTE: this must be the last rule in this chain")
    yield f"-A KUBE-SERVICES {last} -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
    for number in numbers:
        service, name = f"KUBE-SVC-{number:016X}", f"ns/svc{number}:p"
        to = f"-d {services.virtual(number)}/32 -p {protocol} -m {protocol} --dport {SERVICE_PORT}"
        yield f"-A {service} {named(f'{name} cluster IP')} {to} ! -s {CLUSTER} -j KUBE-MARK-MASQ"
        for index, backend in enumerate(services.service_backends(number)):
            end, remaining = f"KUBE-SEP-{number:08X}{index:08X}", services.backends - index
            which = named(f"{name} -> {backend}:{BACKEND_PORT}")
            chance = (
                f" -m statistic --mode random --probability {1 / remaining:.10f}"
                if remaining > 1
                else ""
            )
            yield f"-A {service} {which}{chance} -j {end}"
            yield f"-A {end} {named(name)} -s {backend}/32 -j KUBE-MARK-MASQ"
            yield (
                f"-A {end} {named(name)} -m {protocol} -p {protocol} "
                f"-j DNAT --to-destination {backend}:{BACKEND_PORT}"
            )
    yield "COMMIT\n"


class RuleBalancer(BalancingSwitch, TrackingRouter):
    """kube-proxy's rules: destination NAT of each new flow, which conntrack holds from then on."""

    does_it: ClassVar[str] = "kube-proxy's rules for"
    tables: ClassVar[tuple[str, ...]] = ("filter", "nat")
    fewer_sessions: ClassVar[str] = "--lb flows=N"

    @property
    def max_sessions(self) -> int:
        """Flows that the table of connections has room for."""
        return self.services.flows

    def rules(self) -> str:
        """What the mode's program reads."""
        if self.mode == "nft":
            return nft_rules(self.services, self.protocol)
        return "\n".join(iptables_rules(self.services, self.protocol))

    def facts(self) -> dict[str, Any]:
        """Rules, room of the table, timers."""
        return {**super().facts(), "services": str(self.services)}
