"""Load balancing of services: `switch` names the modes."""
