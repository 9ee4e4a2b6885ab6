"""The table of vSwitches, from their capabilities: `python -m tests.testing.backends_page`."""

from __future__ import annotations

from pathlib import Path

from vnetperf.plugin import registry

PAGE = Path(__file__).parents[2] / "docs/backends/README.md"
HEAD = """# Backends

**Which vSwitch can do what?** The tables have the declared capabilities of each, and its page has
requirements, options and pitfalls. `vnetperf doctor` reports what this machine supports, and how to
install what is missing. To add a vSwitch, write a plugin: [plugins.md](../plugins.md).

`python -m tests.testing.backends_page` writes this page, and a test compares it.

"""
COLUMNS = (
    *("Name", "What it is", "Wires", "Attachments", "Rules", "Forwarding", "Tunnels"),
    "Largest frame",
)
CHOICES = """
`--set mode=` selects one of the modes, the first by default; `--set OPTION=VALUE` sets an option
([all options](../configuration.md#vswitch-options)).

"""
CHOICE_COLUMNS = ("Name", "Modes", "Options")
#: Pages of backends that are not named after them.
PAGES = {"lb": "../services.md#load-balancing-of-services"}


def render() -> str:
    """The page.

    Returns:
        Markdown.
    """
    names = _ours()
    return (
        HEAD
        + _table(COLUMNS, [_capabilities(name) for name in names])
        + CHOICES
        + _table(CHOICE_COLUMNS, [_choices(name) for name in names])
    )


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _ours() -> list[str]:
    """Names of the backends of this package; others may be installed beside it."""
    names = registry.names("vswitches")
    modules = {name: registry.load("vswitches", name).__module__ for name in names}
    return [name for name in names if modules[name].startswith("vnetperf.vswitches.")]


def _page(name: str) -> str | None:
    pages = (f"{name}.md", f"../{name}.md")
    return PAGES.get(name) or next((p for p in pages if (PAGE.parent / p).exists()), None)


def _capabilities(name: str) -> tuple[str, ...]:
    backend = registry.load("vswitches", name)
    can, page = backend.capabilities, _page(name)
    lists = (can.wires, can.attachments, can.rules, can.forwarding, can.tunnels)
    return (
        f"[`{name}`]({page})" if page else f"`{name}`",
        (backend.__doc__ or "").strip().splitlines()[0].rstrip("."),
        *(", ".join(values) or "-" for values in lists),
        str(can.max_frame_size),
    )


def _choices(name: str) -> tuple[str, ...]:
    backend = registry.load("vswitches", name)
    can = backend.capabilities
    options = (*can.options, *backend.Options.model_fields)
    return (
        f"`{name}`",
        ", ".join(f"`{mode}`" for mode in can.modes) or "-",
        ", ".join(f"`{option}`" for option in options) or "-",
    )


if __name__ == "__main__":
    PAGE.write_text(render())
