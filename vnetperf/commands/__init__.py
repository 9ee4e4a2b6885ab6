"""Subcommands of `vnetperf`, one file each."""
