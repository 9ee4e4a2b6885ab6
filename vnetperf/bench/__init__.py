"""The conductor: search, trial, verdict, log."""
