"""The kernel itself as a traffic generator for veth: an XDP program makes and counts frames."""

from vnetperf.traffic.xdpgen.driver import Xdpgen

__all__ = ["Xdpgen"]
