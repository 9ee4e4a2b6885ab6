"""What plugin authors and our own tests use: the simulated DUT and the contract kits."""
