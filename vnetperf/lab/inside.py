"""The script that the guest runs: it makes a root directory of its own, then the command in it.

virtme-ng's root is read-only but for some directories, and reads every file anew from the host.
The lab's own root is the host's, read once and kept (the host's files are taken not to change
under a running lab), and all that is written goes to memory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from vnetperf.lab.boot import ROOT_TAG, share_tag

#: Loaded at the start: device files of these are opened by programs that expect them to be there.
MODULES = ("tun", "vhost_net", "vfio-pci", "vfio_iommu_type1", "igb", "openvswitch", "macvtap")
#: Ports between host and guest, as QEMU and the guest call them.
PORTS = ("in", "out", "err", "ctl")
#: Directories of the host that a guest must not see, since it would act on what is in them.
HIDDEN = ("/var/lib/vnetperf",)

_STAGE1 = (
    "mount -t tmpfs none /mnt && mkdir /mnt/host && "
    "mount -t 9p -o ro,version=9p2000.L,trans=virtio,msize=512000,cache=loose {tag} /mnt/host "
    "&& exec sh /mnt/host{script}"
)

_SAY = r"""
say() { printf '%s\n' "$*" >&9; }
give_up() { say "failed $*"; sleep 5; exit 125; }
"""

_STAGE2 = (
    r"""exec 9<>/dev/virtio-ports/vnetperf.ctl
"""
    + _SAY
    + r"""
# overlay DIRECTORY: the host's, read once and kept, with all that is written going to memory.
overlay() {
    m=$(mktemp -d /mnt/memory.XXXXXX) && mkdir "$m/upper" "$m/work" && cd "/mnt/host$1" &&
        mount -t overlay -o "lowerdir=.,upperdir=$m/upper,workdir=$m/work" lab "/mnt/root$1" ||
        give_up "the kernel cannot lay memory over $1"
}
mkdir /mnt/root && overlay /
for d in dev sys run; do
    mkdir -p /mnt/root/$d && mount --rbind /$d /mnt/root/$d || give_up "cannot mount /$d"
done
mount -t proc proc /mnt/root/proc || give_up "cannot mount /proc"
modules="/mnt/root/usr/lib/modules/$(uname -r)"
mkdir -p "$modules" && mount --bind /mnt/host@MODULES@ "$modules" ||
    give_up "the kernel's modules are not where they were"
for d in @HIDDEN@; do
    [ ! -d "/mnt/root$d" ] || mount -t tmpfs -o mode=700 none "/mnt/root$d"
done
share() {
    mkdir -p "/mnt/root$2" &&
        mount -t 9p -o version=9p2000.L,trans=virtio,msize=512000 "$1" "/mnt/root$2" ||
        give_up "cannot mount $2"
}
@SHARES@
@KEPT@
cd /
# virtme-ng points these at ports that only one program at a time can open.
for n in 0:stdin 1:stdout 2:stderr; do ln -sf /proc/self/fd/${n%%:*} /dev/${n#*:}; done
exec unshare --mount --propagation private sh /mnt/host@DIRECTORY@/run.sh
"""
)

_STAGE3 = (
    _SAY
    + r"""
mkdir -p /mnt/root/mnt && cd /mnt/root && pivot_root . mnt && cd / && umount -l /mnt ||
    give_up "cannot change the root directory"
for m in @LOADED@; do modprobe -q "$m" || echo "lab: no module $m" >/dev/kmsg; done
mkfifo /run/lab.out /run/lab.err
cat /run/lab.out >/dev/virtio-ports/vnetperf.out & out=$!
cat /run/lab.err >/dev/virtio-ports/vnetperf.err & err=$!
exec 7<>/run/lab.out 8<>/run/lab.err
(
    exec 7>&- 8>&-
    while read -r name <&9; do kill -"$name" -- "-$(cat /run/lab.pid)" 2>/dev/null; done
) & listener=$!
cd @CWD@ || give_up "the guest has no such directory: "@CWD@
say ready
env -i @ENVIRONMENT@ @LAUNCH@ </dev/virtio-ports/vnetperf.in >&7 2>&8 7>&- 8>&- 9>&-
status=$?
kill $listener 2>/dev/null
exec 7>&- 8>&-
# Whoever still holds the command's output must not hold the lab.
( sleep 5; kill $out $err ) 2>/dev/null & limit=$!
wait $out $err
kill $limit 2>/dev/null
sync
say "exit $status"
sleep 5
"""
)

_PID_FILE = "echo $$ >/run/lab.pid; "


def write_scripts(
    directory: Path,
    *,
    modules: Path,
    shares: Sequence[Path],
    kept: Sequence[Path],
    cwd: Path,
    environment: Mapping[str, str],
    argv: Sequence[str],
    terminal: tuple[int, int] | None,
) -> str:
    """Write the guest's scripts.

    Args:
        directory: Where to; the guest reads them by the host's root directory.
        modules: The kernel's modules on the host.
        shares: Directories that the guest may write to.
        kept: Directories below them that it may not.
        cwd: Where the command starts.
        environment: The command's whole environment.
        argv: The command.
        terminal: Rows and columns when the command is to have a terminal, else None.

    Returns:
        The short shell command that starts them, for the kernel's command line.
    """
    first = {
        "MODULES": shlex.quote(str(modules)),
        "HIDDEN": " ".join(HIDDEN),
        "SHARES": "\n".join(
            f"share {share_tag(number)} {shlex.quote(str(path))}"
            for number, path in enumerate(shares)
        ),
        "KEPT": "\n".join(f"overlay {shlex.quote(str(path))}" for path in kept),
        "DIRECTORY": shlex.quote(str(directory)),
    }
    then = {
        "LOADED": " ".join(MODULES),
        "CWD": shlex.quote(str(cwd)),
        "ENVIRONMENT": shlex.join(f"{key}={value}" for key, value in environment.items()),
        "LAUNCH": shlex.join(_launch(argv, terminal)),
    }
    (directory / "prepare.sh").write_text(_filled(_STAGE2, first))
    (directory / "run.sh").write_text(_filled(_STAGE3, then))
    return _STAGE1.format(tag=ROOT_TAG, script=shlex.quote(str(directory / "prepare.sh")))


def _launch(argv: Sequence[str], terminal: tuple[int, int] | None) -> list[str]:
    """The command as leader of a session, which a signal from the host then reaches whole."""
    if terminal is None:
        return ["setsid", "sh", "-c", f'{_PID_FILE}exec "$@"', "sh", *argv]
    rows, columns = terminal
    size = f"stty rows {rows} cols {columns}; "
    return ["script", "-qec", f"{_PID_FILE}{size}exec {shlex.join(argv)}", "/dev/null"]


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its places filled, each once, so that no value is taken for a place."""
    pattern = re.compile("|".join(f"@{key}@" for key in values))
    return pattern.sub(lambda place: values[place[0].strip("@")], template)
