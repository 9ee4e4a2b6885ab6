"""The virtual lab: a guest with a stock kernel, two NUMA nodes and SR-IOV NICs."""
