"""The agent that changes a machine, its client on the controller, and its inventory of the machine."""
