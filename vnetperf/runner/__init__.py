"""Runs the cases of a session: tests are begun, driven trial by trial, logged and resumed."""
