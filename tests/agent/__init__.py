"""The agent, its client, its inventory."""
