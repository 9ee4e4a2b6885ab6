"""Runs that were recorded, with the reports that were made of them.

Each archive holds the log of a real run (two shared cores, no NIC), redacted, and what was derived
from it.
"""
