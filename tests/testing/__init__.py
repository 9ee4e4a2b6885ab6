"""The contract kit's own parts, and the pages that plugin writers read."""
