"""`vnetperf image`: guest images, built from the distribution's packages."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from vnetperf.model.errors import HostError

if TYPE_CHECKING:
    from vnetperf.virt.images import Image, ImageEntry

ACTIONS = {
    "build": "build an image, unless it is there of the very same packages",
    "list": "the images that are there, the newest first",
    "verify": "read every image and compare it with what was built",
    "gc": "remove what is not the newest of its name, damaged or left by a killed build",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add actions and options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary)
        if name == "build":
            action.add_argument("name", metavar="NAME", help="e.g. vloop")


def run(arguments: argparse.Namespace) -> int:
    """Run an action."""
    from vnetperf.virt import images

    if arguments.action == "build":
        _print(images.build(arguments.name, _print_progress))
        return 0
    if arguments.action == "gc":
        for image in images.remove_old():
            print(f"removed {image.name} {image.key}")
        return 0
    entries = images.list_entries()
    if not entries:
        _print_progress("there is none; `vnetperf image build vloop` makes one")
    if arguments.action == "verify":
        intact = [_verify(image) for image in entries]
        return int(not all(intact))
    for image in entries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(image.built))
        size = sum(path.stat().st_size for path in image.folder.iterdir())
        print(f"{image.name:<12} {image.key}  {when}  {size / 1e6:6.1f} MB  {image.folder}")
    return 0


def _verify(image: ImageEntry) -> bool:
    from vnetperf.virt import images

    try:
        images.verified_manifest(image)
    except HostError as error:
        print(f"{image.name:<12} {image.key}  {error}")
        return False
    print(f"{image.name:<12} {image.key}  as it was built")
    return True


def _print(image: Image) -> None:
    print(f"{image.name} {image.key}")
    print(f"  kernel    {image.facts['kernel_release']}")
    print(f"  packages  {len(image.facts['packages'])}")
    print(f"  size      {image.facts['size'] / 1e6:.1f} MB")
    print(f"  in        {image.kernel.parent}")


def _print_progress(text: str) -> None:
    print(f"image: {text}", file=sys.stderr, flush=True)
