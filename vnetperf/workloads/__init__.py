"""What programs do in a deployment in place of the tester's frames, a workload each."""
