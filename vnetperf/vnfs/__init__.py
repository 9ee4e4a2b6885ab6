"""The VNF family: the contract and its backends."""
