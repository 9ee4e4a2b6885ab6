"""Wires between tester and DUT."""
