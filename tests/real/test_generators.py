"""Every registered generator keeps the contract, looped to itself over every wire it is good for.

One that is not here is skipped with the reason; programs that are not on PATH are named in the
testbed file that VNETPERF_TESTBED names.
"""

from __future__ import annotations

from vnetperf import registry
from vnetperf.testing import GeneratorContract

WIRES = ("memif", "veth")

for _name in registry.names("traffic"):
    for _wire in WIRES:
        _members = {"generator": _name, "wire": _wire, "__module__": __name__}
        globals()[f"Test_{_name}_{_wire}"] = type(
            f"Test_{_name}_{_wire}", (GeneratorContract,), _members
        )
