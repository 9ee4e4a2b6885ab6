"""Whole runs on real software; they need root, OVS-DPDK, testpmd and a C compiler."""
