"""Container networks: what joins pods on one host, and over hosts."""
