"""The agent that changes a machine, its client on the controller, its inventory of the machine."""
