"""Flame graphs: where the threads of a vSwitch spend their time, as an SVG file of its own.

Each box is a function; its width is the share of the samples in which it, or what it called, ran.
Boxes stand on their callers. The file needs no script and nothing from elsewhere.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from vnetperf.model import units
from vnetperf.model.result import Profile
from vnetperf.report import write_atomically

#: Folder of a run's flame graphs.
PROFILES_FOLDER = "profiles"
_WIDTH, _ROW, _MARGIN, _HEAD = 1200.0, 17, 10, 52
#: Boxes narrower than this, in pixels, are left out.
_LEAST_WIDTH = 0.4
_CHARACTER = 6.6
_MOST_TOP = 5
_STYLE = (
    "text{font:11px monospace;fill:#222}text.title{font:bold 15px sans-serif}"
    "text.about{font:12px sans-serif;fill:#555}rect{stroke:#fff;stroke-width:.5}"
    "g:hover rect{stroke:#000;stroke-width:1}"
)


@dataclass(slots=True)
class _Box:
    name: str
    samples: int = 0
    above: dict[str, _Box] = field(default_factory=dict)


def _tree(stacks: Mapping[str, int]) -> _Box:
    root = _Box("all", sum(stacks.values()))
    for stack, samples in stacks.items():
        box = root
        for name in stack.split(";"):
            box = box.above.setdefault(name, _Box(name))
            box.samples += samples
    return root


def top_functions(stacks: Mapping[str, int]) -> tuple[tuple[str, float], ...]:
    """The functions in which most samples ended, and their share of all."""
    ends: Counter[str] = Counter()
    for stack, samples in stacks.items():
        ends[stack.rpartition(";")[2]] += samples
    total = ends.total() or 1
    return tuple((name, count / total) for name, count in ends.most_common(_MOST_TOP))


def _depth(box: _Box) -> int:
    return 1 + max(map(_depth, box.above.values()), default=0)


def _colour(name: str) -> str:
    """Warm colours, the same for a name in every graph; greys for what has no symbol."""
    shade = zlib.crc32(name.encode())
    if name.startswith("["):
        return f"hsl(210,8%,{74 + shade % 12}%)"
    return f"hsl({10 + shade % 42},{78 + shade // 64 % 14}%,{62 + shade // 4096 % 14}%)"


def _boxes(box: _Box, x: float, level: int, scale: float, floor: float) -> Iterator[str]:
    width = box.samples * scale
    if width < _LEAST_WIDTH:
        return
    y = floor - (level + 1) * _ROW
    share = units.percent(box.samples * scale / (_WIDTH - 2 * _MARGIN), 3)
    about = escape(f"{box.name}: {box.samples} samples, {share}")
    room = int((width - 4) / _CHARACTER)
    shown = box.name if len(box.name) <= room else f"{box.name[: room - 2]}.." if room > 3 else ""
    yield (
        f'<g><title>{about}</title><rect x="{x:.2f}" y="{y}" width="{width:.2f}" '
        f'height="{_ROW - 1}" fill="{_colour(box.name)}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 12}">{escape(shown)}</text></g>'
    )
    for above in sorted(box.above.values(), key=lambda callee: callee.name):
        yield from _boxes(above, x, level + 1, scale, floor)
        x += above.samples * scale


def flame_graph(stacks: Mapping[str, int], title: str, about: str) -> str:
    """The SVG of call stacks, each from the outermost on joined by ";", with their samples."""
    root = _tree(stacks)
    height = _HEAD + _depth(root) * _ROW + _MARGIN
    scale = (_WIDTH - 2 * _MARGIN) / (root.samples or 1)
    boxes = "\n".join(_boxes(root, _MARGIN, 0, scale, height - _MARGIN))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height}" '
        f'width="{_WIDTH:g}" height="{height}" role="img" aria-label="{escape(title)}">\n'
        f'<style>{_STYLE}</style>\n<rect width="100%" height="100%" fill="#fdfdfb"/>\n'
        f'<text class="title" x="{_MARGIN}" y="22">{escape(title)}</text>\n'
        f'<text class="about" x="{_MARGIN}" y="40">{escape(about)}</text>\n{boxes}\n</svg>\n'
    )


def write_flame_graph(folder: Path, profile: Profile, stacks: Mapping[str, int]) -> str:
    """Write the flame graph of a profile, and its call stacks as other tools read them.

    Returns its file, relative to the run's folder.
    """
    goals = "-".join(profile.goals)
    name = f"{profile.scenario}-{profile.frame_size}-{goals}-{profile.bound}"
    name = "".join(c if c.isalnum() or c in "-_.," else "_" for c in name)
    title = (
        f"{profile.scenario}, {profile.frame_size} octets, {profile.bound} bound of "
        f"{', '.join(profile.goals)}"
    )
    lost = "" if profile.loss_ratio is None else f", {units.percent(profile.loss_ratio, 3)} lost"
    about = (
        f"{units.fps(profile.load_fps)} per interface{lost}; {profile.samples} samples of the "
        "vSwitch's threads by perf. Width: share of samples."
    )
    (folder / PROFILES_FOLDER).mkdir(exist_ok=True)
    path = folder / PROFILES_FOLDER / f"{name}.svg"
    for file in (path, path.with_suffix(".folded")):
        if file.is_symlink():  # its target is not ours, and a run does not end because of it
            file.unlink()
    write_atomically(path, flame_graph(stacks, title, about))
    folded = (f"{stack} {samples}" for stack, samples in sorted(stacks.items()))
    write_atomically(path.with_suffix(".folded"), "\n".join(folded) + "\n")
    return f"{PROFILES_FOLDER}/{path.name}"
