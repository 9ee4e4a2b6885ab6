"""Which versions of Open vSwitch are supported."""

from __future__ import annotations

import re

from vnetperf.model.errors import DutError
from vnetperf.model.machine import MachineFacts

SUPPORTED = ((2, 17), (4, 99))
#: Tools of the private instance and the packages that have them.
TOOLS = (
    ("ovsdb-server", "openvswitch-common"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-common"),
    ("ovsdb-tool", "openvswitch-common"),
)


def parse_version(text: str) -> tuple[int, int]:
    """Version of OVS.

    Args:
        text: What `ovs-vswitchd --version` prints.

    Returns:
        Major, minor.

    Raises:
        DutError: When no version is in the text.
    """
    match = re.search(r"\(Open vSwitch\)\s+(\d+)\.(\d+)", text)
    if match is None:
        raise DutError(f"no version in {text.strip()[:80]!r}", where="ovs-vswitchd --version")
    return int(match[1]), int(match[2])


def missing_programs(facts: MachineFacts, daemon: str, package: str, key: str) -> str:
    """What keeps a private OVS from being started.

    Args:
        facts: The machine.
        daemon: Name of the daemon among the machine's programs.
        package: The package that has it.
        key: Its key under [programs] of the testbed file.

    Returns:
        "" or what is missing with its cure.
    """
    for program, source in ((daemon, package), *TOOLS):
        if problem := facts.missing_program(program, source):
            return problem
    try:
        version = parse_version(facts.versions[daemon])
    except DutError as error:
        return str(error)
    low, high = SUPPORTED
    if low <= version <= high:
        return ""
    return (
        f"OVS {version[0]}.{version[1]} is not supported; "
        f"accepted: {low[0]}.{low[1]} to {high[0]}.x; install another version and name it "
        f"in the testbed file under [programs] {key}"
    )
