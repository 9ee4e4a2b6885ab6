"""vloop: a VNF that sends back what it receives, port 0 to port 1 and back."""

from vnetperf.vnfs.vloop.process import Vloop

__all__ = ["Vloop"]
