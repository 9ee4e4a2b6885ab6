"""The built-in generator: an engine in C on DPDK, compiled on first use."""
