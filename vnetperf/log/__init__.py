"""The trial log and what is derived from it."""
