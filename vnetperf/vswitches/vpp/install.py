"""Where the parts of an installed VPP are: plugins, libraries, message definitions.

All is found from the binary, so that a VPP in /usr, in /opt and in a build tree are alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vnetperf.model.errors import DutError

SUPPORTED = ((23, 6), (27, 99))
#: From this version on a running VPP tells its messages itself.
TELLS_MESSAGES = (24, 6)


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed VPP.

    Attributes:
        binary: The program.
        plugin_dir: Its plugins; None when they are not beside it.
        api_dir: Its message definitions (*.api.json); None when they are not beside it.
        plugins: File names of the plugins that are there.
    """

    binary: Path
    plugin_dir: Path | None
    api_dir: Path | None
    plugins: frozenset[str]

    @property
    def library_dir(self) -> Path | None:
        """Its libraries; None when the system's loader knows them."""
        if self.plugin_dir is None or self.plugin_dir.is_relative_to("/usr/lib"):
            return None
        return self.plugin_dir.parent

    def has(self, plugin: str) -> bool:
        """Whether a plugin is there.

        Args:
            plugin: Its name, e.g. "memif".

        Returns:
            True when it is, and when nothing is known of the plugins.
        """
        return self.plugin_dir is None or plugin_file(plugin) in self.plugins


def plugin_file(plugin: str) -> str:
    """File name of a plugin.

    Args:
        plugin: Its name, e.g. "memif".

    Returns:
        E.g. "memif_plugin.so".
    """
    return f"{plugin}_plugin.so"


def find_installation(binary: str) -> Installation:
    """Look around a VPP binary.

    Args:
        binary: Its path.

    Returns:
        What is there.
    """
    real = Path(binary).resolve()
    prefix = real.parent.parent
    places = [*sorted(prefix.glob("lib*/vpp_plugins")), *sorted(prefix.glob("lib*/*/vpp_plugins"))]
    plugin_dir = next((place for place in places if place.is_dir()), None)
    api_dir = prefix / "share/vpp/api"
    names = (p.name for p in plugin_dir.glob("*_plugin.so")) if plugin_dir else ()
    return Installation(
        binary=real,
        plugin_dir=plugin_dir,
        api_dir=api_dir if api_dir.is_dir() else None,
        plugins=frozenset(names),
    )


def parse_version(text: str) -> tuple[int, int]:
    """Version of VPP.

    Args:
        text: "VPP 26.06" or "v26.06-rc2~3-g0123abc".

    Returns:
        Year, month.

    Raises:
        DutError: When no version is in the text.
    """
    match = re.search(r"(?<!\d)(\d\d)\.(\d\d)(?!\d)", text)
    if match is None:
        raise DutError(f"no version in {text.strip()[:80]!r}", where="vpp")
    return int(match[1]), int(match[2])
