"""Endpoint tools: programs that talk between two sockets, and what their words mean."""
