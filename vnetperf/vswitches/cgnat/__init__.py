"""Carrier-grade NAT: `switch` names its modes, `kernel` is that of nft and iptables."""
