"""The collector family: the contract and its backends."""
