"""Plans scenarios on a testbed, deploys them, and runs trials and transfers through them."""
