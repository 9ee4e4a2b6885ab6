"""The vSwitch family: the contract and its backends."""
