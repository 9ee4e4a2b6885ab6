"""Endpoint tools: programs that measure between two sockets."""
