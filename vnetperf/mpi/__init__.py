"""Programs of MPI, whose ranks run in pods."""
