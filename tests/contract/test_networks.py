"""Every registered container network keeps the contract, as far as this machine can carry it."""

from __future__ import annotations

import pytest

from vnetperf import registry
from vnetperf.testing import NetworkContract

for _name in registry.names("networks"):
    _members = {"network": _name, "__module__": __name__}
    globals()[f"Test_{_name}"] = pytest.mark.real(
        type(f"Test_{_name}", (NetworkContract,), _members)
    )
