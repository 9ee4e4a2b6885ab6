"""The table of vSwitches, from their capabilities: `python -m tests.testing.backends_page`."""

from __future__ import annotations

from pathlib import Path

from vnetperf import registry

PAGE = Path(__file__).parents[2] / "docs/backends/README.md"
HEAD = """# Backends

The table has the declared capabilities of each vSwitch. `vnetperf doctor` reports what this machine
supports, and how to install what is missing. Each backend's page has its requirements, options and
pitfalls. To add a vSwitch, write a plugin: [plugins.md](../plugins.md).

`python -m tests.testing.backends_page` writes this page, and a test compares it.

"""
COLUMNS = (
    *("Name", "What it is", "Wires", "Attachments", "Modes", "Rules", "Forwarding", "Tunnels"),
    *("Options", "Largest frame"),
)


def render() -> str:
    """The page.

    Returns:
        Markdown.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_row, _ours())]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _ours() -> list[str]:
    """Names of the backends of this package; others may be installed beside it."""
    names = registry.names("vswitches")
    modules = {name: registry.load("vswitches", name).__module__ for name in names}
    return [name for name in names if modules[name].startswith("vnetperf.vswitches.")]


def _row(name: str) -> tuple[str, ...]:
    backend = registry.load("vswitches", name)
    can = backend.capabilities
    pages = (f"{name}.md", f"../{name}.md")
    page = next((page for page in pages if (PAGE.parent / page).exists()), None)
    lists = (can.wires, can.attachments, can.modes, can.rules, can.forwarding, can.tunnels)
    return (
        f"[`{name}`]({page})" if page else f"`{name}`",
        (backend.__doc__ or "").strip().splitlines()[0].rstrip("."),
        *(", ".join(values) or "-" for values in lists),
        ", ".join(f"`{o}`" for o in (*can.options, *backend.Options.model_fields)) or "-",
        str(can.max_frame_size),
    )


if __name__ == "__main__":
    PAGE.write_text(render())
