"""What guests require of the machine, and what is in them."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.machine import facts
from vnetperf import config
from vnetperf.host.facts import is_unknown
from vnetperf.host.linux import boot_id
from vnetperf.model.errors import CapabilityError, DutError, HostError
from vnetperf.model.options import GuestOptions
from vnetperf.model.scenario import Placement, Scenario
from vnetperf.planning.capability_check import check_capabilities
from vnetperf.runner.scenarios import make_scenario
from vnetperf.traffic.loadgen.driver import Loadgen
from vnetperf.virt import guest_facts, guest_plan
from vnetperf.virt.domain import BootFiles, Domain, GuestNic, NetdevBacking, VfBacking
from vnetperf.virt.guest import Guest
from vnetperf.virt.guest_facts import disk_hash, guest_system, image_facts
from vnetperf.virt.guest_plan import CLUSTER_BITS, QCOW2_HEADER, QCOW2_MAGIC
from vnetperf.virt.images import Image
from vnetperf.vnfs.vloop import guest_requirements
from vnetperf.vnfs.vloop.guest_forwarders import GUEST_HUGEPAGES, NOIOMMU, GuestTestpmd
from vnetperf.vnfs.vloop.vm import VmVloop
from vnetperf.vswitches.bridge import LinuxBridge
from vnetperf.vswitches.dpdk import OvsDpdk

SHIPPED = Path(__file__).parents[2] / "conf/guest"


def asked(*guest: str, scenario: str = "pvp_bridge", **settings: Any) -> Scenario:
    given = {"vnf": "vloop:vm", "guest": guest, **settings}
    return make_scenario(scenario, config.load(given, environment={}))


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (asked("vcpu_pins=['0']", "vcpus=2"), "vcpu_pins has 1 entries for 2 vCPUs"),
        (asked("vcpu_pins=['0','500']"), "vcpu_pins names processor 500"),
        (asked("emulator_pin='0-900'"), "emulator_pin names processor"),
        (asked("iothread_pins=['77']"), "iothread_pins names processor 77"),
        (asked("vhost_pin='64'"), "vhost_pin names processor 64"),
        (asked("node=7"), "there is no node 7"),
        (asked("nic=e1000", "csum=false"), "csum is an option of virtio NICs, and nic is e1000"),
        (asked("nic=e1000", set=("rx_queues=2",)), "e1000 has one queue pair; leave rx_queues"),
        (asked("nic=rtl8139"), "DPDK has no driver of the rtl8139, and mode io is testpmd's"),
        (
            asked("nic=rtl8139", vnf_mode="bridge", frame_sizes=(9018,)),
            "MTU of at most 4096, not 9000",
        ),
        (asked("gro=false"), "gro is done by the guest's kernel, which has no part in mode io"),
        (asked("nic=e1000", "vhost=true"), "vhost is for virtio NICs, and nic is e1000"),
        (asked("vhost=false", "vhost_pin='0'"), "vhost_pin has nothing to pin with vhost off"),
        (asked(set=("vf_driver=kernel",)), "leaves virtual functions to the host"),
        (asked("memory_mib=128"), "a guest of 128 MiB is too small"),
        (asked(vnf_mode="buildin"), "name it: --guest image=/path/NAME.qcow2"),
        (asked("image=/x/y.qcow2"), "y.qcow2 is a disk image"),
        (asked("image=/x/y.qcow2", vnf_mode="buildin"), "image /x/y.qcow2 cannot be read"),
        (asked("cmdline=quiet"), "cmdline is for a disk image of yours"),
        (asked(), ""),
        (asked("nic=e1000"), ""),
        (asked("nic=rtl8139", vnf_mode="route"), ""),
        (asked("gro=false", vnf_mode="bridge"), ""),
        (asked("vcpu_pins=['0','2-3']", "vhost_pin='1'", "csum=false", "packed=true"), ""),
    ],
    ids=lambda value: value.replace(" ", "-")[:40] if isinstance(value, str) else "",
)
def test_what_cannot_be_had_is_told_before_anything_is_done(scenario: Scenario, says: str) -> None:
    told = guest_requirements.guest_problem(scenario, facts(), 192)
    assert says in told
    assert bool(told) == bool(says)


def test_vhost_needs_its_module() -> None:
    machine = facts(modules={"vhost_net": "it is not there"})
    assert "vhost_net, which vhost needs" in guest_requirements.guest_problem(
        asked("vhost=true"), machine, 0
    )


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (asked("nic=e1000", scenario="pvp_dpdk"), "vhost-user; vloop:vm with e1000 accepts tap"),
        (asked(scenario="pvp_dpdk"), ""),
        (asked("nic=e1000"), ""),
        (asked("tx_ring=256"), ""),
        (asked("tx_ring=1024"), "tap; vloop:vm with tx_ring=1024 accepts vhost-user"),
        (asked("tx_ring=1024", scenario="pvp_dpdk"), ""),
    ],
)
def test_a_model_without_virtio_cannot_be_at_a_vhost_user_socket(
    scenario: Scenario, says: str
) -> None:
    vswitch = OvsDpdk if scenario.vswitch == "dpdk" else LinuxBridge
    if not says:
        check_capabilities(scenario, vswitch, VmVloop, Loadgen)
        return
    with pytest.raises(CapabilityError, match=says):
        check_capabilities(scenario, vswitch, VmVloop, Loadgen)


def test_virtio_options_say_nothing_to_a_function_that_is_passed_through() -> None:
    kinds = ("tap", "vf")
    assert guest_requirements.fitting_kinds(GuestOptions(packed=True), kinds) == ("tap",)
    assert guest_requirements.fitting_kinds(GuestOptions(memory_mib=1024), kinds) == kinds


def qcow2(path: Path, *, backing: int = 0, features: int = 0) -> Path:
    fields = (QCOW2_MAGIC, 3, backing, 0, CLUSTER_BITS, 1 << 20, 0, 1, 0, 0, 0, 0, 0)
    path.write_bytes(struct.pack(QCOW2_HEADER, *fields) + struct.pack(">Q", features))
    return path


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"backing": 104}, "stands on another image"),
        ({"features": 4}, "has its data in another file"),
        ({"features": 1}, ""),  # it was not closed: QEMU mends that
    ],
)
def test_a_disk_that_names_another_file_is_refused(
    tmp_path: Path, header: dict[str, int], says: str
) -> None:
    disk = qcow2(tmp_path / "own.qcow2", **header)
    told = guest_requirements.guest_problem(asked(f"image={disk}", vnf_mode="buildin"), facts(), 0)
    assert (says in told) if says else not told
    if says:
        assert "qemu-img convert" in told
        with pytest.raises(HostError, match=says):  # whoever looked before
            guest_plan.disk_boot(GuestOptions(image=str(disk)), tmp_path)


def test_files_of_another_machine_are_its_agents_to_read(tmp_path: Path) -> None:
    scenario = asked("image=/x/y.qcow2", vnf_mode="buildin")
    there = facts().model_copy(update={"boot": "another machine's"})
    here = there.model_copy(update={"boot": boot_id()})
    assert guest_requirements.guest_problem(scenario, there, 0) == ""
    assert "cannot be read" in guest_requirements.guest_problem(scenario, here, 0)
    twin = qcow2(tmp_path / "twin.qcow2", backing=104)
    of_other = asked(f"image={twin}", vnf_mode="buildin")
    assert guest_requirements.guest_problem(of_other, there, 0) == ""
    disk = qcow2(tmp_path / "own.qcow2")
    beside = GuestOptions(image=str(disk), kernel=tmp_path / "vmlinuz")
    with pytest.raises(HostError, match="cannot be read"):
        guest_plan.disk_boot(beside, tmp_path)


PLACEMENT = Placement(mode="dedicated", reason="", cores={"vnf0": (3, 4)}, housekeeping=(0,))


def test_the_plan_shows_where_a_guest_goes() -> None:
    line = guest_plan.pins_line(GuestOptions(vcpus=3), PLACEMENT, "vnf0", vhost_net=False)
    assert line.split(", ")[:4] == ["vCPU 0 on 0", "vCPU 1 on 3", "vCPU 2 on 4", "emulator on 0"]
    assert "512 MiB" in line
    pinned = GuestOptions(vcpu_pins=("1", "2-3"), vhost_pin="5", iothread_pins=("6",), node=1)
    line = guest_plan.pins_line(pinned, PLACEMENT, "vnf0", vhost_net=True)
    assert "vCPU 1 on 2-3" in line
    assert "vhost threads of taps on 5" in line
    assert "I/O thread 1 on 6" in line
    assert "on node 1" in line


@pytest.mark.parametrize(
    ("guest", "queues", "threads"),
    [((), 1, 1), (("vcpus=3",), 1, 2), (("vcpus=8",), 2, 4), (("vcpus=1",), 2, 1)],
)
def test_as_many_processors_as_vcpus_that_have_a_queue(
    guest: tuple[str, ...], queues: int, threads: int
) -> None:
    (demand,) = VmVloop.roles(asked(*guest, set=(f"rx_queues={queues}",)), 0)
    assert demand.threads == threads


def test_relative_paths_are_those_of_whoever_typed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = GuestOptions(image="mine.qcow2", kernel=Path("vmlinuz"))
    assert (options.disk, options.kernel) == (tmp_path / "mine.qcow2", tmp_path / "vmlinuz")
    assert GuestOptions().disk is None


def test_features_are_read_from_what_ethtool_prints() -> None:
    said = (
        "Features for eth0:\nrx-checksumming: on [fixed]\ntx-checksumming: off\n"
        "\ttx-checksum-ipv4: off [fixed]\ngeneric-receive-offload: on\n"
    )
    found = guest_facts.parse_ethtool(said)
    assert found["rx-checksumming"] == "on (fixed)"
    assert found["tx-checksumming"] == "off"
    assert found["generic-receive-offload"] == "on"
    assert found["tcp-segmentation-offload"] == "unknown"


def test_features_of_virtio_are_read_from_its_bits() -> None:
    bits = "".join("1" if bit in (0, 15, 34) else "0" for bit in range(64))
    said = guest_facts.parse_virtio_bits(bits)
    features = {word.removesuffix(" on") for word in said.split(", ") if word.endswith(" on")}
    assert features == {"checksum", "mergeable buffers", "packed rings"}
    assert said.count(" off") == 4


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
def test_every_file_that_is_shipped_asks_for_what_can_be_had(file: Path) -> None:
    guest = asked(file.stem, vnf_mode="bridge")
    assert guest.guest.name == file.stem
    assert guest.guest.description
    assert guest_requirements.guest_problem(guest, facts(), 0) == ""


def test_a_guest_goes_where_vnfs_are_to_be() -> None:
    far = PLACEMENT.model_copy(update={"vnf_node": 1, "nodes": (0, 1)})
    line = guest_plan.pins_line(GuestOptions(), far, "vnf0", vhost_net=False)
    assert "on node 1" in line
    cores = {role: cpus for role, cpus in PLACEMENT.cores.items() if role != "vnf0"}
    loose = far.model_copy(update={"cores": cores, "unpinned": {"vnf0": (0, 1, 2, 3)}})
    line = guest_plan.pins_line(GuestOptions(), loose, "vnf0", vhost_net=True)
    assert line.split(", ")[:3] == ["vCPU 0 on 0-3", "vCPU 1 on 0-3", "emulator on 0-3"]
    assert "on any node" in line
    assert guest_plan.guest_pins(GuestOptions(node=1), loose, "vnf0").node == 1


def test_a_guest_of_half_a_page_is_refused() -> None:
    half = asked("hugepage_kb=1048576", scenario="pvp_dpdk")
    text = guest_requirements.guest_problem(half, facts(), 0)
    for words in ("memory_mib=512", "1024 MiB", "--guest memory_mib=1024"):
        assert words in text
    whole = asked("hugepage_kb=1048576", "memory_mib=1024", scenario="pvp_dpdk")
    assert guest_requirements.guest_problem(whole, facts(), 0) == ""


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


MACS = ("02:76:61:00:00:00", "02:76:61:01:00:00")
#: The second NIC has the lower address: DPDK numbers it first.
PCIS = {"eth0": "0000:06:00.0", "eth1": "0000:05:00.0"}


class FakeAgent:
    """An agent that takes notes; its kernel has vfio without an IOMMU, or has not."""

    def __init__(self, *, noiommu: bool) -> None:
        self.noiommu = noiommu
        self.ran: list[str] = []
        self.written: list[tuple[str, str]] = []

    def run(self, argv: Sequence[str]) -> str:
        self.ran.append(" ".join(argv))
        name = argv[-1].split("/")[-2] if argv[0] == "readlink" else ""
        return f"/sys/devices/pci0000:00/{PCIS[name]}/virtio1\n" if name else ""

    def read(self, path: str) -> str:
        raise HostError("there is no such file", where=path)

    def write(self, path: str, text: str) -> None:
        if path == NOIOMMU and not self.noiommu:
            raise DutError("no such file", where=path)
        self.written.append((path, text))


def taken(
    backing: NetdevBacking | VfBacking, *, noiommu: bool
) -> tuple[GuestTestpmd, FakeAgent, list[str]]:
    agent = FakeAgent(noiommu=noiommu)
    domain = Domain(
        name="vnf0",
        accelerator="tcg",
        emulator=Path("/q"),
        vcpus=2,
        memory_mib=512,
        boot=BootFiles(kernel=Path("/k")),
        nics=tuple(GuestNic(mac=mac, backing=backing, queues=2) for mac in MACS),
        console=Path("/c"),
    )
    names = dict(zip(MACS, PCIS, strict=True))
    guest = SimpleNamespace(agent=agent, domain=domain, interface=names.__getitem__)
    testpmd = GuestTestpmd(cast("Guest", guest), "vnf0", {})
    return testpmd, agent, list(testpmd.take_nics(1500))


VF = VfBacking(pci="0000:41:10.0")


@pytest.mark.parametrize(
    ("backing", "noiommu", "driver"),
    [
        (NetdevBacking(netdev="t"), True, "vfio-pci"),
        (NetdevBacking(netdev="t"), False, "uio_pci_generic"),
        (VF, True, "vfio-pci"),
    ],
)
def test_it_drives_nics_itself_where_a_driver_gives_them_away(
    backing: NetdevBacking | VfBacking, noiommu: bool, driver: str
) -> None:
    testpmd, agent, devices = taken(backing, noiommu=noiommu)
    assert devices == ["-a0000:06:00.0", "-a0000:05:00.0"]
    assert (testpmd.number(0), testpmd.number(1)) == (1, 0)
    assert testpmd.driver == driver
    overridden = [text for path, text in agent.written if path.endswith("driver_override")]
    assert overridden == [driver, driver]


def test_a_function_without_an_interrupt_line_stays_the_kernels() -> None:
    testpmd, agent, devices = taken(VF, noiommu=False)
    assert [device.partition(",framesz")[0] for device in devices] == [
        "--vdev=net_af_packet0,iface=eth0",
        "--vdev=net_af_packet1,iface=eth1",
    ]
    assert (testpmd.number(0), testpmd.number(1)) == (0, 1)
    assert all(device.endswith(",qpairs=2") for device in devices)  # one socket for each queue
    assert "packet sockets" in testpmd.driver
    assert "ip link set dev eth1 mtu 1500 up" in agent.ran
    assert not any(path.endswith("unbind") for path, _ in agent.written)


@pytest.mark.parametrize("kb", [4, 16, 64])
def test_rings_in_a_guest_are_of_its_own_pages(kb: int, monkeypatch: pytest.MonkeyPatch) -> None:
    smaps = f"00400000-00452000 r-xp 00000000 08:02 1 /x\nKernelPageSize:    {kb:>4} kB\n"
    monkeypatch.setattr(FakeAgent, "read", lambda *_: smaps)
    _, _, devices = taken(VF, noiommu=False)
    for device in devices:
        (block,) = re.findall(r"blocksz=(\d+)", device)
        assert int(block) % (kb << 10) == 0


class PagesAgent:
    """A guest whose kernel fills its pool by and by, of pages of some size."""

    def __init__(self, size_kb: int, *fills: int) -> None:
        self.size_kb, self.fills = size_kb, list(fills)
        self.got, self.asked = 0, list[int]()

    def read(self, path: str) -> str:
        if path == "/proc/meminfo":
            size = f"Hugepagesize:    {self.size_kb} kB\n" if self.size_kb else ""
            return f"MemTotal:  1000 kB\n{size}"
        return f"{self.got}\n"

    def write(self, path: str, text: str) -> None:
        if path == GUEST_HUGEPAGES:
            self.asked.append(int(text))
            self.got = min(int(text), self.fills.pop(0) if len(self.fills) > 1 else self.fills[0])


def reserved(agent: PagesAgent) -> None:
    def error(what: str, cure: str = "") -> DutError:
        return DutError(what, cure=cure)

    guest = SimpleNamespace(agent=agent, error=error)
    GuestTestpmd(cast("Guest", guest), "vnf0", {}).reserve(128)


@pytest.mark.parametrize(("size_kb", "pages"), [(2048, 64), (524288, 1), (65536, 2)])
def test_a_guest_has_pages_of_its_kernels_size(size_kb: int, pages: int) -> None:
    agent = PagesAgent(size_kb, 1000)
    reserved(agent)
    assert agent.asked == [pages]


def test_a_pool_that_a_guests_kernel_fills_partly_is_tried_again() -> None:
    agent = PagesAgent(2048, 60, 63, 64)
    reserved(agent)
    assert agent.asked == [64, 64, 64]
    with pytest.raises(DutError, match="has only 120 of the 128 MiB"):
        reserved(PagesAgent(2048, 60))
    with pytest.raises(DutError, match="no hugepages"):
        reserved(PagesAgent(0, 0))
