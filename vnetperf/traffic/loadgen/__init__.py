"""The built-in traffic generator: a DPDK engine in C, driven over DPDK's telemetry socket."""
