"""Where TRex's Python client is, and which interpreter it needs."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import vnetperf

#: Where the client's package is below a directory that a user may name: the directory itself,
#: a server's tree, a checkout of TRex, what `pip install --target` makes.
BELOW = (
    ".",
    "automation/trex_control_plane/interactive",
    "scripts/automation/trex_control_plane/interactive",
    "lbr_trex_client/interactive",
)
#: The same in a virtual environment, whose own interpreter is then the client's.
IN_ENVIRONMENT = "lib/python3*/site-packages"
PYPI = "lbr_trex_client"
#: First version of Python that the client from PyPI cannot be imported by: `imp` has gone there.
PYPI_ENDS = (3, 12)


@dataclass(frozen=True)
class ClientPlace:
    """A client and its interpreter.

    Attributes:
        path: Directory that has the package `trex`.
        python: Interpreter.
        source: Where it comes from, for people.
    """

    path: Path
    python: Path
    source: str

    def argv(self, socket: Path) -> list[str]:
        """Command line of the client's process.

        Our own packages come last in its path: under another interpreter they are of no use.

        Args:
            socket: Where it is to connect to.

        Returns:
            Program and arguments.
        """
        ours = Path(vnetperf.__file__).parents[1]
        program = (
            "import sys; sys.path.append(sys.argv[1]); "
            "from vnetperf.traffic.trex.worker.main import main; "
            "sys.exit(main(sys.argv[2], sys.argv[3]))"
        )
        return [str(self.python), "-I", "-c", program, str(ours), str(socket), str(self.path)]


def find_client(named: str, server: str) -> ClientPlace | str:
    """Find TRex's client.

    Args:
        named: Directory from the testbed file: the client's, a tree of TRex, or a virtual
            environment that `lbr-trex-client` is installed in; "" to search.
        server: Path of the server's binary; "" when there is none here.

    Returns:
        The place, or what is wrong in one sentence with its cure.
    """
    if named:
        found = _in_directory(Path(named))
        return found or (
            f"there is no TRex client in {named}; name the directory that has trex/stl/api.py, "
            "a TRex tree, or a virtual environment with lbr-trex-client"
        )
    if server:
        if found := _in_directory(Path(server).parent):
            return found
        if found := _in_directory(Path(server).resolve().parent):
            return found
    spec = importlib.util.find_spec(PYPI)
    if spec is None or not spec.submodule_search_locations:
        return (
            "TRex's Python client was not found beside its server; name its directory as client "
            "under [trex] of the testbed file, or install lbr-trex-client"
        )
    place = Path(next(iter(spec.submodule_search_locations))) / "interactive"
    return _fitting(ClientPlace(place, Path(sys.executable), PYPI), sys.version_info[:2])


def _in_directory(directory: Path) -> ClientPlace | str | None:
    for below in BELOW:
        if (directory / below / "trex" / "stl" / "api.py").is_file():
            place = ClientPlace(directory / below, Path(sys.executable), str(directory))
            if PYPI in place.path.parts:
                return _fitting(place, sys.version_info[:2])
            return place
    for packages in sorted(directory.glob(IN_ENVIRONMENT)):
        path = packages / PYPI / "interactive"
        python = directory / "bin" / "python"
        if (path / "trex").is_dir() and python.is_file():
            match = re.fullmatch(r"python(\d+)\.(\d+)", packages.parent.name)
            version = (int(match[1]), int(match[2])) if match else (0, 0)
            return _fitting(ClientPlace(path, python, str(directory)), version)
    return None


def _fitting(place: ClientPlace, version: tuple[int, ...]) -> ClientPlace | str:
    if version >= PYPI_ENDS:
        return (
            f"lbr-trex-client cannot be imported by Python {version[0]}.{version[1]}; use the "
            "client of the server's tree, or one in a virtual environment of Python 3.11 or older "
            "(client under [trex] of the testbed file)"
        )
    return place
