"""The variables that programs of a run get: a list of what is let through, and nothing else.

A variable that a user's shell sets changes what programs do, and nobody sees it in a result:
threads of OpenMP, transports of MPI, another library, another allocator. So an agent keeps what is
on the list, with what the testbed file names besides, and states the rest by name. What it names
has the value that the controller has, wherever the agent runs: `OMP_NUM_THREADS=2 pytest ...`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any

from vnetperf.host.trust import explain_root_refusal

log = logging.getLogger(__name__)

#: What says who and where the user is, which says nothing about results.
_OF_THE_USER = (
    *("HOME", "LOGNAME", "SHELL", "SUDO_COMMAND", "SUDO_GID", "SUDO_UID", "SUDO_USER", "TERM"),
    *("SSH_CONNECTION", "TMPDIR", "USER", "XDG_CACHE_HOME"),
    # By these tests tell what is left of their own workers' programs.
    *("PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER"),
)
#: What chooses programs, builds, downloads and texts; recorded with its value.
_RECORDED = (
    *("CC", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_PATH", "PATH", "TZ", "LANG"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE"),
)
_PROXIES = ("ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
#: What the loader takes code from, into every program (ld.so(8)).
_OF_THE_LOADER = ("LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD")
#: Names of variables whose values are nobody else's.
_SECRET = re.compile(
    r"PASS(?:WORD|WD|PHRASE)?S?(?:$|_)|PWD$|SECRET|TOKEN|CREDENTIAL|PSK|COMMUNITY|JWT|COOKIE"
    r"|(?:^|_)(?:KEYS?|PAT|AUTH)(?:$|_)|API_?KEY",
    re.I,
)
#: Who logs in at a server, and with what, in the address of one.
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
#: What programs are read in, whoever starts them: in other languages their texts have other words,
#: and their numbers a comma. The launcher's agent has it too.
_LOCALE = ("LC_ALL", "C.UTF-8")
#: Of vnetperf itself, and of the locale.
_PREFIXES = ("VNETPERF_", "LC_")


def is_let_through(name: str) -> bool:
    """Whether programs get a variable whatever the testbed file says."""
    listed = name in _OF_THE_USER or name in _RECORDED or name.upper() in _PROXIES
    return listed or name.startswith(_PREFIXES)


def _shown(name: str, value: str | None) -> str:
    if value is None:
        return "not set"
    return "set, not recorded" if _SECRET.search(name) else _LOGIN.sub("(login)@", value)


def _trusted(name: str, value: str) -> str:
    """What the loader is to take code from, without what root would run of other users'."""
    kept = []
    for part in re.split(r"[:\s]", value) if name != "LD_LIBRARY_PATH" else re.split("[:;]", value):
        is_name = "/" not in part and name != "LD_LIBRARY_PATH"  # looked for where libraries are
        if reason := "" if is_name else explain_root_refusal(part):
            log.warning(
                "no program of root takes code from %s of %s: %s", part or ".", name, reason
            )
        else:
            kept.append(part)
    return ":".join(kept)


def _is_set_by_agent(name: str) -> bool:
    """Whether a variable says who and where the agent is, so that no controller gives its value."""
    return name in _OF_THE_USER or name == "PATH" or name.startswith("VNETPERF_")


class Variables:
    """The variables that a process was started with, and which of them its programs get.

    Before `keep` its programs get all of them: it is no agent of its own.
    """

    def __init__(self) -> None:
        self._inherited: dict[str, str] = {}
        self._named: tuple[str, ...] = ()
        self._testbed_values: dict[str, str] = {}

    def keep(self) -> None:
        """Take what is not let through out of this process's environment, and remember it."""
        self._inherited = dict(os.environ)
        self._apply()

    def let_through(self, named: Mapping[str, str | None]) -> None:
        """Let variables through that the testbed file names, and none that it named before.

        Args:
            named: Their values at the controller; None for one that it has not, or may not give:
                the value counts with which this process was started.
        """
        for name in self._testbed_values:
            os.environ.pop(name, None)
            if name in self._inherited and self._is_kept(name):
                os.environ[name] = self._inherited[name]
        self._named = tuple(sorted(named))
        self._testbed_values = {
            n: v for n, v in named.items() if v is not None and not _is_set_by_agent(n)
        }
        self._apply()
        os.environ.update(self._testbed_values)
        for name in {*self._named} & {*_OF_THE_LOADER} & os.environ.keys():
            os.environ[name] = _trusted(name, os.environ[name])
        if missing := [name for name in self._named if name not in os.environ]:
            log.warning(
                "`environment` of the testbed names %s, set neither where the test run was started "
                "nor where the agent runs",
                ", ".join(missing),
            )
        if kept := self.facts()["kept from programs"]:
            log.info("variables kept from programs: %s", ", ".join(kept))

    def _apply(self) -> None:
        for name in self._inherited:
            if not self._is_kept(name):
                os.environ.pop(name, None)
            elif name in self._named:  # what is there stays: folders of others have left PATH
                os.environ.setdefault(name, self._inherited[name])
        name, value = _LOCALE
        os.environ[name] = self._inherited.get(name, value) if name in self._named else value

    def facts(self) -> dict[str, Any]:
        """What programs get, with values where they bear on results, and names of what was there.

        A proxy's value may hold a password, and so may one whose name says so.
        """
        environment = dict(os.environ)  # of PATH without folders that others could write to
        recorded = {n: v for n, v in environment.items() if n in _RECORDED or n.startswith("LC_")}
        return {
            "let through": dict(sorted(recorded.items())),
            "let through by the testbed": {n: _shown(n, environment.get(n)) for n in self._named},
            "kept from programs": sorted(n for n in self._inherited if not self._is_kept(n)),
        }

    def _is_kept(self, name: str) -> bool:
        return is_let_through(name) or name in self._named


#: Those of this process.
VARIABLES = Variables()
