"""Virtual machines by libvirt: a typed description, a private session, the guest's agent."""
