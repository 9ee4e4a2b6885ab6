"""Wires between the tester and the DUT."""
