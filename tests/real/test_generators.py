"""Every registered generator keeps the contract, looped to itself over every wire it is good for.

One that is not here is skipped with the reason; programs that are not on PATH are named in the
testbed file that VNETPERF_TESTBED names.
"""

from __future__ import annotations

import pytest

from vnetperf.plugin import registry
from vnetperf.testing import GeneratorContract

WIRES = ("memif", "veth")

for _name in registry.names("traffic"):
    for _wire in WIRES:
        _members = {"generator": _name, "wire": _wire, "__module__": __name__}
        _class = type(f"Test_{_name}_{_wire}", (GeneratorContract,), _members)
        # Other generators, and other wires than the one that most deployments have, are daily.
        _merge = (_name, _wire) == ("loadgen", "memif")
        globals()[_class.__name__] = _class if _merge else pytest.mark.daily(_class)
