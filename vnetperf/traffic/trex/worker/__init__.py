"""Runs in a process of its own, beside TRex's client, under whatever interpreter that one needs.

Nothing here imports the rest of the project but its own modules: TRex's client replaces scapy,
yaml and zmq in whoever imports it, and the interpreter may be an older one with neither pydantic
nor us installed.
"""
