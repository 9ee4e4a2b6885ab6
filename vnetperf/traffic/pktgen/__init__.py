"""Pktgen-DPDK as a traffic generator."""
