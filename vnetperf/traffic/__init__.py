"""The traffic generator family: the contract and its backends."""
