"""A mobile core as a VNF: what is asked of it, and the sessions its user plane carries."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from vnetperf.model.base import Frozen

GtpuMode = Literal["tun", "kernel"]
#: Addresses of the core and of the tester on Gn, from TEST-NET-1 (RFC 5737).
GN_CORE, GN_TESTER, GN_PREFIX = "192.0.2.1", "192.0.2.2", 24
#: Where UEs and servers are: the test networks beyond tester ports 0 and 1 (RFC 2544 C.2.2).
UE_NETWORK, SERVER_NETWORK = "198.18.0.0/16", "198.19.0.0/16"
#: File under conf/stacks/ of the core that is taken when none is named.
DEFAULT_STACK = "osmo-ggsn"
#: Sessions that a stream carries at most: addresses of UEs in 198.18.0.0/16.
MOST_SESSIONS = 65_000
#: What no file of a core can be called in its directory: its network namespace is there.
TAKEN = frozenset({"netns", ".", ".."})


class Bearers(Frozen):
    """Sessions whose tunnel endpoints and addresses rise by one.

    Attributes:
        teid: Tunnel endpoint of the first, at the core for uplink.
        ue: Address of the first one's UE.
        count: Number of sessions.
    """

    teid: int = Field(ge=0, lt=1 << 32)
    ue: str
    count: int = Field(ge=1)


class Program(Frozen):
    """One program of a stack.

    Attributes:
        role: What it is, "core".
        argv: Program and arguments; `${NAME}` stands for a value or the path of a file.
        ready: Text in its log that says that it is up.
        package: Distribution's package that has it.
    """

    role: str
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    ready: str
    package: str = ""


class Attach(Frozen):
    """How UEs attach to a stack.

    Attributes:
        by: "gtpc" for GTPv1-C to the core's Gn address, "command" for a program that prints
            a line of JSON for each session: {"ue": "198.18.0.1", "teid": 1}.
        apn: Access point name, for gtpc.
        argv: The program, for command.
    """

    by: Literal["gtpc", "command"] = "gtpc"
    apn: str = "internet"
    argv: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Attach:
        if (self.by == "command") != bool(self.argv):
            raise ValueError('argv is for by = "command", which needs it')
        return self


class Stack(Frozen):
    """A mobile core that can be deployed; a file under conf/stacks/.

    Attributes:
        name: Name of the file.
        description: One sentence for the report.
        programs: What runs, in order of its start; the first is the core's user plane.
        files: Name -> text of files that programs read, with `${NAME}` for values.
        gtpu_modes: Ways in which it forwards user traffic: "tun", "kernel" -> its own name for it.
        mode_marks: Mode -> library that the first program must be linked with to have it.
        max_sessions: Sessions that it has room for, one more kept for the UE of users' traffic.
        tun: Name of the interface that UEs' packets leave and enter the core's kernel by.
        image: Guest image that has it, where it runs in a VM.
        attach: How UEs attach.
        ue: A UE that makes itself an interface `${tun}` and routes by it, for users' own traffic.
    """

    name: str = ""
    description: str = ""
    programs: Annotated[tuple[Program, ...], Field(min_length=1)]
    files: dict[str, str] = Field(default_factory=dict)
    gtpu_modes: Annotated[dict[GtpuMode, str], Field(min_length=1)]
    mode_marks: dict[GtpuMode, str] = Field(default_factory=dict)
    max_sessions: int = Field(default=MOST_SESSIONS, ge=1, le=MOST_SESSIONS)
    tun: str
    image: str = "vepc"
    attach: Attach = Attach()
    ue: Program | None = None

    @field_validator("files")
    @classmethod
    def _plain_names(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if "/" in name or not name or name in TAKEN:
                raise ValueError(f"{name!r} is no plain name of a file in the core's directory")
        return files


class CoreOptions(Frozen):
    """What a scenario asks of its mobile core.

    Attributes:
        sessions: UEs that attach before anything is measured; user traffic is of all of them.
        ramp: Sessions asked for in a second; 0 for one after the other, as fast as they are made.
        gtpu_mode: "tun" forwards in the core's own program, "kernel" in the kernel's gtp module.
    """

    sessions: int = Field(default=1, ge=1, le=MOST_SESSIONS)
    ramp: float = Field(default=0.0, ge=0, le=100_000)
    gtpu_mode: GtpuMode = "tun"

    def given(self) -> dict[str, Any]:
        """Options that are set.

        Returns:
            Name -> value.
        """
        plain = CoreOptions()
        values = {name: getattr(self, name) for name in CoreOptions.model_fields}
        return {name: value for name, value in values.items() if value != getattr(plain, name)}
