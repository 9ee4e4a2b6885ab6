"""The launcher: the one program that sudo starts as root for users who may not become root.

A user who may start any Python by sudo is root. The launcher belongs to root, runs the agent of an
installation that belongs to root, executes nothing that its controller sends but the agent's calls,
and starts only what root has installed or named below /etc/vnetperf (docs/security.md).
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import sysconfig
from pathlib import Path
from typing import Any

from execnet import gateway_base

from vnetperf.config.files import SHIPPED, SYSTEM, load_model
from vnetperf.config.settings import read_testbed
from vnetperf.host.linux import (
    CALLER,
    parse_json,
    raise_limits,
    read_file,
)
from vnetperf.host.programs import EXTRA_PATH
from vnetperf.host.trust import explain_distrust, explain_distrust_below
from vnetperf.model.errors import HostError
from vnetperf.model.options import GuestOptions, MobileCore
from vnetperf.model.scenario import Plan, Scenario
from vnetperf.model.testbed import Testbed
from vnetperf.plugin import registry
from vnetperf.virt.images import store_dir

SUDOERS = Path("/etc/sudoers.d/vnetperf")
_CURE = f"have root put it into {SYSTEM}, or run as root"
_SERVE = "from vnetperf.agent.agent import serve; serve(channel, restricted=True)"


def script(python: str) -> str:
    """The launcher's text; its arguments, execnet's, are not looked at."""
    return (
        f"#!{python} -I\n"
        "# Made by `vnetperf launcher --install`.\n"
        "from vnetperf.agent.launcher import main\n\n"
        "main()\n"
    )


def sudoers(launcher: Path, user: str) -> str:
    """The line that lets a user, or the members of a %group, start it."""
    return (
        "# Made by `vnetperf launcher --install`; docs/security.md describes what it allows.\n"
        f"{user} ALL=(root) NOPASSWD:NOSETENV: {launcher}\n"
    )


def installation_problem(launcher: Path) -> str:
    """Who but root could change what the launcher would run; "" when nobody can.

    Every file below the package and the directories of the import path is looked at: modules,
    libraries, C sources that are built, templates.
    """
    package = Path(__file__).parents[1]
    python = Path(sys.executable), Path(sys.prefix), launcher.parent
    library = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY"))
    alone = (*python, library) if library.exists() else python
    path = [Path(p) for p in sys.path if p.startswith("/") and Path(p).exists()]
    problem = explain_distrust_below(package, *path)
    return problem or next(filter(None, (explain_distrust(p, only_root=True) for p in alone)), "")


def closed_to_users(python: Path) -> str:
    """The directory that keeps other users from starting an installation's Python; "" for none."""
    places = (python.absolute().parent, python.resolve().parent)
    return next(
        (str(d) for p in places for d in (p, *p.parents) if not d.stat().st_mode & stat.S_IXOTH), ""
    )


class _Gateway(gateway_base.WorkerGateway):
    """Runs the agent, whatever its controller sends to be run."""

    def executetask(self, item: tuple[Any, Any]) -> None:
        super().executetask((item[0], (_SERVE, None, None, {})))


def main() -> None:
    """Serve one controller on standard input and output."""
    os.chdir("/")
    os.umask(0o077)
    raise_limits()
    # Variables choose libraries, compilers, folders: of the caller's only sudo's own are kept, by
    # which nothing is trusted.
    caller = {CALLER: os.environ.get("SUDO_UID", ""), "SUDO_USER": os.environ.get("SUDO_USER", "")}
    os.environ.clear()
    os.environ.update(PATH=EXTRA_PATH, HOME="/root", LANG="C.UTF-8", LC_ALL="C.UTF-8", **caller)
    sys.stdin.buffer.readline(4 << 20)  # execnet's own program, for a Python without it
    io: Any = gateway_base.init_popen_io(gateway_base.get_execmodel("main_thread_only"))
    io.write(b"1")
    _Gateway(io=io, id="vnetperf-agent", _startcount=2).serve()


def refuse_plugins(plugins: dict[Any, dict[str, str]]) -> None:
    """Refuse backends that are not part of the launcher's installation."""
    for family, backends in plugins.items():
        if foreign := sorted(set(backends) - set(registry.names(family))):
            raise HostError(
                f"{foreign[0]} is not installed where the launcher is",
                where=f"plugins: {family}",
                accepted=", ".join(registry.names(family)),
                cure="have root install it there, or run as root",
            )


def refuse_testbed(testbed: Testbed) -> None:
    """Refuse programs, sections and permissions that root has not written down."""
    if testbed.hosts:
        raise HostError(
            "the launcher serves testbeds of one host, and this one has several",
            where=f"testbed {testbed.name}: hosts",
            cure="a testbed of one host, or the agent's own Python by sudo (docs/machines.md)",
        )
    powers = _powers(testbed)
    if powers == _powers(Testbed()):
        return
    file = SYSTEM / "testbeds" / f"{Path(testbed.name).name}.toml"
    if file.is_file() and not explain_distrust(file, only_root=True):
        allowed = read_testbed(str(file))
        if powers == _powers(allowed) and (not testbed.isolated or testbed.nics == allowed.nics):
            return
    raise HostError(
        "the launcher starts no programs, and gives no permissions, that a testbed file of a "
        "user names",
        where=f"testbed {testbed.name}: programs, isolated, sections of backends",
        accepted=f"their defaults, or what root's file {file} has",
        cure=_CURE,
    )


def _powers(testbed: Testbed) -> tuple[Any, ...]:
    """What of a testbed decides on what root starts and takes."""
    full_testbed = registry.completed(testbed)
    programs = {name: path for name, path in full_testbed.programs.items() if path}
    return programs, full_testbed.sections, full_testbed.isolated


def refuse_scenario(scenario: Scenario) -> None:
    """Refuse command lines and files that root has not written down."""
    if scenario.stack is not None and scenario.stack not in _stacks():
        raise HostError(
            "the launcher starts no mobile core that a stack file of a user describes",
            where=f"stack {scenario.stack.name}",
            accepted="a stack that is shipped, or in " + str(SYSTEM / "stacks"),
            cure=_CURE,
        )
    if (conflist := scenario.options.given().get("conflist")) and conflist not in _conflists():
        raise HostError(
            "the launcher starts no CNI plugins that a conflist of a user names",
            where=f"conflist {conflist.get('name', '')}",
            accepted="one that is shipped, or in " + str(SYSTEM / "cni"),
            cure=_CURE,
        )
    _refuse_guest(scenario.guest)


def _conflists() -> list[Any]:
    conflists = []
    for file in (*SHIPPED.glob("cni/*.conflist"), *SYSTEM.glob("cni/*.conflist")):
        if not explain_distrust(file, only_root=True):
            with contextlib.suppress(OSError, ValueError):  # a broken file allows nothing
                conflists.append(parse_json(read_file(file, errors="strict")))
    return conflists


def refuse_part(plan: Plan) -> None:
    """Refuse a host's part of a deployment over several, which no host alone can plan."""
    if plan.host:
        raise HostError(
            "the launcher deploys only what it plans itself, and this is one host's part of a "
            "deployment over several",
            where=f"plan of host {plan.host}",
            cure=f"a testbed of one host, or the agent's own Python by sudo in hosts.{plan.host}."
            "transport (docs/machines.md)",
        )


def refuse_plan(plan: Plan, local_plan: Plan) -> None:
    """Refuse a plan that is not the one the agent makes of the same scenario and testbed."""
    # Scenario and testbed were checked; launch lines are for the reader of --plan.
    decided = set(Plan.model_fields) - {"scenario", "testbed", "commands"}
    if differ := sorted(key for key in decided if getattr(plan, key) != getattr(local_plan, key)):
        raise HostError(
            "the plan is not what the launcher's agent plans itself on the machine as it is now",
            where=f"plan: {', '.join(differ)}",
            cure="run again: NICs or processors changed since it was planned; if it stays so, "
            "install the launcher's version of vnetperf",
        )


def _stacks() -> list[MobileCore]:
    stacks = []
    for file in (*SHIPPED.glob("stacks/*.toml"), *SYSTEM.glob("stacks/*.toml")):
        if not explain_distrust(file, only_root=True):
            with contextlib.suppress(Exception):  # a broken file allows nothing
                stacks.append(load_model(MobileCore, file))
    return stacks


def _guest_files(guest: GuestOptions) -> set[Path]:
    return {file for file in (guest.disk, guest.kernel, guest.initrd) if file is not None}


def _refuse_guest(guest: GuestOptions) -> None:
    named: set[Path] = set()
    for path in SYSTEM.glob("guest/*.toml"):
        if not explain_distrust(path, only_root=True):
            with contextlib.suppress(Exception):  # a broken file allows nothing
                named |= _guest_files(load_model(GuestOptions, path))
    for file in sorted(_guest_files(guest)):
        # What root alone may write to, root alone may be meant to read.
        if file not in named and not file.resolve().is_relative_to(store_dir().resolve()):
            raise HostError(
                "the launcher gives a guest no file that root has not named",
                where=str(file),
                accepted=f"a built image, or files that a file in {SYSTEM / 'guest'} names",
                cure=_CURE,
            )
        if reason := explain_distrust(file, only_root=True):
            raise HostError(
                f"the launcher gives a guest no file that is not root's: {reason}",
                where=str(file),
                accepted="an image or files that only root may write to",
                cure=_CURE,
            )
    if guest.uri:
        raise HostError(
            "the launcher uses no libvirt but its own",
            where=f"uri={guest.uri}",
            accepted='uri=""',
            cure="run as root",
        )
