"""Pktgen-DPDK's driver, against a double that behaves as the program was seen to."""
