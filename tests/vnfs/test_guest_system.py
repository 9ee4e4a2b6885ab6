"""A guest's system in the record: read from inside, or why not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from vnetperf.host.facts import is_unknown
from vnetperf.model.errors import HostError
from vnetperf.virt.guest_facts import disk_hash, guest_system, image_facts
from vnetperf.virt.images import Image

FILES = {
    "/etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\n',
    "/proc/sys/kernel/osrelease": "6.12.95\n",
    "/proc/sys/kernel/version": "#1 SMP\n",
    "/proc/cmdline": "console=ttyS0 isolcpus=1\n",
    "/proc/meminfo": "MemTotal:  498000 kB\nMemFree: 1 kB\n",
    "/sys/devices/system/cpu/online": "0-1\n",
}


class Agent:
    def read(self, path: str) -> str:
        if path in FILES:
            return FILES[path]
        raise HostError("there is no such file", where=path, cure="none")


def test_what_a_guest_tells_of_its_system() -> None:
    found = guest_system(Agent())
    assert found["distribution"] == "Debian GNU/Linux 12"
    assert found["kernel"] == "6.12.95"
    assert found["boot options"]["isolcpus"]["value"] == "1"
    assert found["memory, kB"] == 498000
    assert is_unknown(found["clock source"])  # one that is missing does not cost the others
    assert "no such file" in found["clock source"]


def test_a_built_image_without_os_release_names_its_packages(tmp_path: Path) -> None:
    packages = {"libc6": "2.36-9+deb12u14", "dpdk-dev": "22.11", "dash": "1"}
    image = Image("vloop", "17ab", tmp_path, tmp_path, tmp_path, "", {"packages": packages})
    assert "libc6 2.36-9+deb12u14" in guest_system(None, image)["distribution"]
    assert set(image_facts(image, Path("vloop"))["packages"]) == {"libc6", "dpdk-dev"}


def test_a_guest_that_does_not_answer_says_so_everywhere() -> None:
    found = guest_system(None)
    assert found.keys() == guest_system(Agent()).keys()
    assert all(is_unknown(value) for value in found.values())


def test_a_disk_of_the_users_has_the_hash_of_its_octets(tmp_path: Path) -> None:
    disk = tmp_path / "own.raw"
    disk.write_bytes(b"disk" * 1000)
    facts = image_facts(None, disk)
    assert facts["hash"] == hashlib.sha256(disk.read_bytes()).hexdigest()
    assert is_unknown(disk_hash(disk, most=10))
    assert is_unknown(image_facts(None, tmp_path / "none")["hash"])


@pytest.mark.parametrize("facts", [{}, {"packages": {"dpdk-dev": "22.11"}}])
def test_a_built_image_has_its_key(tmp_path: Path, facts: dict[str, object]) -> None:
    image = Image("vloop", "17ab", tmp_path, tmp_path, tmp_path, "", dict(facts))
    found = image_facts(image, Path("vloop"))
    assert (found["name"], found["hash"]) == ("vloop", "17ab")
    assert is_unknown(found["packages"]) is (not facts)
