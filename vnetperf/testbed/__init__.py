"""Plan, core placement, deployment, agent (machine side) and client (controller side)."""
