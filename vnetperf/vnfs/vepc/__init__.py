"""vepc: a mobile core's user plane between GTP-U at port 0 and plain packets at port 1."""

from vnetperf.vnfs.vepc.container import Vepc

__all__ = ["Vepc"]
