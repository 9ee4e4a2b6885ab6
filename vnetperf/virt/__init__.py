"""Where VNFs run besides as a process: containers and VMs; guest images; the virtual lab."""
