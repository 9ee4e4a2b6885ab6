"""The contract kit, run for every vSwitch that is registered."""
