"""All that touches a machine; every lasting change goes through the journal.

Nothing is imported here: the guardian must start fast and needs few of these modules. Import the
module of the concern, e.g. ``from vnetperf.host.session import HostRun``.
"""
