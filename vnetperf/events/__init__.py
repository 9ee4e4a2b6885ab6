"""Events: what happens to the DUT in the middle of a trial."""
