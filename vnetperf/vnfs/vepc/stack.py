"""A stack's description made concrete: its files and command lines with values in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vnetperf.model.core import (
    GN_CORE,
    GN_PREFIX,
    GN_TESTER,
    SERVER_NETWORK,
    UE_NETWORK,
    CoreOptions,
    Program,
    Stack,
)
from vnetperf.model.errors import ConfigError

#: A value's place: its name may be that of a file, with a point.
PLACE = re.compile(r"\$\{([^{}]*)\}")
#: First address beyond tester port 1: the server, which is the resolver that UEs are told too.
SERVER = "198.19.0.1"
#: Where the SGSN's signalling comes from: an address of the core's own loopback interface.
SGSN = "127.0.0.2"
#: Interface that the packets of a UE of users' traffic leave by.
UE_TUN = "ue0"


@dataclass(frozen=True)
class Interfaces:
    """Names of the core's interfaces.

    Attributes:
        gn: Towards the radio network.
        sgi: Towards the Internet.
    """

    gn: str
    sgi: str


def values(
    stack: Stack, options: CoreOptions, interfaces: Interfaces, directory: Path
) -> dict[str, str]:
    """What `${NAME}` can stand for, besides the names of the stack's files.

    Args:
        stack: The stack.
        options: What is asked of it.
        interfaces: The core's.
        directory: Its directory.

    Returns:
        Name -> value.
    """
    return {
        "apn": stack.attach.apn,
        "directory": str(directory),
        "dns": SERVER,
        "gn": interfaces.gn,
        "gn_address": GN_CORE,
        "gn_prefix": str(GN_PREFIX),
        "gtpu_mode": stack.gtpu_modes.get(options.gtpu_mode, ""),
        "radio_address": GN_TESTER,
        "ramp": f"{options.ramp:g}",
        "server": SERVER,
        "server_network": SERVER_NETWORK,
        "sessions": str(options.sessions),
        "sgi": interfaces.sgi,
        "sgsn_address": SGSN,
        "tun": stack.tun,
        "ue_network": UE_NETWORK,
    }


def ue_values(stack: Stack, radio: str, directory: Path) -> dict[str, str]:
    """What `${NAME}` can stand for in the command line of a UE, besides the stack's files.

    Args:
        stack: The stack.
        radio: The UE's interface towards the core.
        directory: Its directory.

    Returns:
        Name -> value.
    """
    return {
        "apn": stack.attach.apn,
        "directory": str(directory),
        "gn": radio,
        "gn_address": GN_CORE,
        "gn_prefix": str(GN_PREFIX),
        "radio_address": GN_TESTER,
        "server": SERVER,
        "server_network": SERVER_NETWORK,
        "tun": UE_TUN,
        "ue_network": UE_NETWORK,
    }


def fill(text: str, known: Mapping[str, str], where: str) -> str:
    """Put values into a text.

    Args:
        text: Text with `${NAME}`.
        known: Name -> value.
        where: What the text is, for the message.

    Returns:
        The text.

    Raises:
        ConfigError: A name is unknown.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ConfigError(
                f"${{{match[1]}}} stands for nothing", where=where, accepted=", ".join(known)
            )
        return known[match[1]]

    return PLACE.sub(value, text)


def files_of(stack: Stack, known: Mapping[str, str]) -> dict[str, str]:
    """The stack's files with values in them.

    Args:
        stack: The stack.
        known: Name -> value.

    Returns:
        Name -> text.

    Raises:
        ConfigError: A name in one is unknown.
    """
    where = f"conf/stacks/{stack.name}.toml"
    return {name: fill(text, known, f"{where}: {name}") for name, text in stack.files.items()}


def command(
    program: Program | tuple[str, ...], known: Mapping[str, str], stack: Stack
) -> tuple[str, ...]:
    """A command line with values, and paths of files, in it.

    Args:
        program: The program, or a bare command line.
        known: Name -> value, the files' paths among them.
        stack: The stack.

    Returns:
        Program and arguments.

    Raises:
        ConfigError: A name in it is unknown.
    """
    argv = program.argv if isinstance(program, Program) else program
    return tuple(fill(word, known, f"conf/stacks/{stack.name}.toml: {argv[0]}") for word in argv)


def trouble(stack: Stack, options: CoreOptions) -> str:
    """What is wrong with a stack, or with what is asked of it, before anything is started.

    Args:
        stack: The stack.
        options: What is asked of it.

    Returns:
        "" when nothing is; otherwise what and the cure, in one sentence.
    """
    if options.gtpu_mode not in stack.gtpu_modes:
        return (
            f"{stack.name} has no gtpu_mode {options.gtpu_mode}; "
            f"accepted: {', '.join(stack.gtpu_modes)}"
        )
    if options.sessions > stack.max_sessions:
        return (
            f"{stack.name} has no room for {options.sessions} sessions; "
            f"accepted: --core sessions=N with N up to {stack.max_sessions}"
        )
    known = values(stack, options, Interfaces("gn", "sgi"), Path("/"))
    for name in known.keys() & stack.files.keys():
        return (
            f"the file {name!r} in conf/stacks/{stack.name}.toml is called like a value: "
            f"${{{name}}} would be either; call it otherwise"
        )
    paths = known | {name: f"/{name}" for name in stack.files}
    try:
        files_of(stack, known)
        for program in stack.programs:
            command(program, paths, stack)
        if stack.attach.argv:
            command(stack.attach.argv, paths, stack)
        if stack.ue is not None:
            command(stack.ue, ue_values(stack, "gn", Path("/")), stack)
    except ConfigError as error:
        return str(error)
    return ""
