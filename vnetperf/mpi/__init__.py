"""Programs of MPI, whose ranks run in pods: a contract (`base.py`) and the programs."""
