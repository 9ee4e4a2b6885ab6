"""Where a VNF runs besides as a process: in a VM, in a container."""
