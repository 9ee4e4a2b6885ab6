"""Test cases that measure; run them with pytest."""
