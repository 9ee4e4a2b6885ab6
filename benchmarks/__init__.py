"""Figures of docs/performance.md, measured on the machine they are run on."""
