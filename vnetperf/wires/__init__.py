"""Wires between tester and DUT."""

from vnetperf.wires.external import ToExternal as ToExternal
from vnetperf.wires.memif import Memif as Memif
from vnetperf.wires.nic import Nic as Nic
from vnetperf.wires.veth import Veth as Veth
