"""Tokens in place of names and addresses."""

from __future__ import annotations

import base64
import json
import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetperf.log.pseudonyms import Pseudonyms, names_in

MACS = st.lists(st.integers(0, 255), min_size=6, max_size=6).map(
    lambda octets: ":".join(f"{o:02x}" for o in octets)
)


def tokens(**names: str) -> Pseudonyms:
    made = Pseudonyms()
    for kind, name in names.items():
        made.know(kind, name)  # type: ignore[arg-type]
    return made


def test_the_same_name_has_the_same_token_everywhere() -> None:
    made = tokens(hosts="Rack7-Node3")
    text = made.plain("ssh Rack7-Node3; vg rack7--node3--vg-root; rack7-node3:4500")
    assert text.split("; ") == ["ssh host-1", "vg host-1--vg-root", "host-1:4500"]
    assert made.counts == {"host name": 1}


def test_a_short_name_is_no_part_of_a_word() -> None:
    made = tokens(hosts="box")
    words = made.plain("box, sandbox, box-2, box_vg").split(", ")
    assert words == ["host-1", "sandbox", "host-1-2", "host-1_vg"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3c:fd:fe:9e:7a:01", "02:5e:53:00:00:01"),
        ("3C-FD-FE-9E-7A-01", "02:5e:53:00:00:01"),
        ("enx3cfdfe9e7a01", "enx025e53000001"),
        ("02:76:61:00:00:01", "02:76:61:00:00:01"),  # the project's own
        ("0000:3b:00.0 at 3b:00.0, 5e53:00:01.0", "5e53:00:01.0 at 5e53:00:01.0, 5e53:00:01.0"),
        ("aa:bb:cc:dd:ee", "aa:bb:cc:dd:ee"),
        ("10.20.30.40:830", "203.0.113.1:830"),
        ("it has 10.20.30.40.", "it has 203.0.113.1."),
        ("198.18.0.1 127.0.0.1 0.0.0.0", "198.18.0.1 127.0.0.1 0.0.0.0"),
        ("fe80::3efd:feff:fe9e:7a01/64", "2001:db8::1/64"),
        ("2001:2::1", "2001:2::1"),
        ("std::vector 12:34:56", "std::vector 12:34:56"),
        ("2026-11-22T05:51:04+00:00", "2026-11-22T05:51:04+00:00"),
        ("/home/alice/x /home/alice", "/path-1 /path-2"),
        (
            "a4bf.0112.3456 A4-BF-01-12-34-56 a4bf01123456",
            "02:5e:53:00:00:01 " * 2 + "02:5e:53:00:00:01",
        ),
        ("a4bf01-123456", "02:5e:53:00:00:01"),
        ("b8:ce:f6:03:00:9a:bc:de 0xb8cef603009abcde", "serial-1 serial-2"),
        ("wwn-0x5000c500a1b2c3d4 naa.5000c500a1b2c3d4", "serial-1 serial-2"),
        (
            "initiator=iqn.2001-04.com.acmecorp:dut42 nqn.2014-08.org.x:y",
            "initiator=serial-1 serial-2",
        ),
        ("S/N: CN0PJK3X7414, serial number=X1", "S/N: serial-1, serial number=serial-2"),
        ("0123456789abcdef0123456789abcdef", "serial-1"),
        ("root=LABEL=ACMEROOT7 PARTUUID=5e2a77f1-02", "root=LABEL=serial-1 PARTUUID=serial-2"),
        ("docker-" + "4f5e6a7b8c9d0e1f" * 4 + ".scope", "docker-serial-1.scope"),
        (
            "gen7.lab.acmecorp.example.internal:830, vnetperf.host.guardian",
            "host-1:830, vnetperf.host.guardian",
        ),
        (
            "osmo-ggsn.cfg net.ipv4.ip_forward results.json",
            "osmo-ggsn.cfg net.ipv4.ip_forward results.json",
        ),
        (
            "https://ci:tok@git.acme.internal/x http://127.0.0.1:8/x",
            "https://(redacted) http://127.0.0.1:8/x",
        ),
        (
            "unix:/run/vnetperf/2026-1/db.sock /usr/bin/ip",
            "unix:/run/vnetperf/2026-1/db.sock /usr/bin/ip",
        ),
        ("/srv/acme/x: no such file, /srv/acme/x", "/path-1: no such file, /path-1"),
        ("/sys/bus/pci/devices/0000:3b:00.1/x", "/sys/bus/pci/devices/5e53:00:01.0/x"),
        ("session: /autogroup-18 ${directory}/x", "session: /autogroup-18 ${directory}/x"),
        ("frames/s, 64/128 octets, rx/tx", "frames/s, 64/128 octets, rx/tx"),
        ("root=UUID=8b6d1cb6-12aa-4e3c-9d0e-0242ac120002", "root=UUID=serial-1"),
        ("mail bob@acme.example now", "mail user-1 now"),
        ("1.2.3 and 6.12.95+deb12", "1.2.3 and 6.12.95+deb12"),
    ],
)
def test_patterns(text: str, expected: str) -> None:
    assert Pseudonyms().plain(text) == expected


@pytest.mark.parametrize("text", ["8b223755d7ea", "4f5e6a7b8c9d0e1f" * 4])
def test_hashes_stay_where_hashes_stand(text: str) -> None:
    assert Pseudonyms().plain(text, hashes=True) == text
    assert Pseudonyms().plain(text) != text


def test_a_redacted_text_stays_as_it_is() -> None:
    made = Pseudonyms()
    once = made.plain("/srv/x a4bf.0112.3456 0000:3b:00.1 LABEL=x git.acme.internal S/N: 7")
    assert made.plain(once) == once


def test_four_numbers_are_a_version_where_versions_stand() -> None:
    assert Pseudonyms().plain("218.0.152.0", versions=True) == "218.0.152.0"
    assert Pseudonyms().plain("10.1.2.3") == "203.0.113.1"
    both = Pseudonyms().plain("218.0.219.13/pkg 218.0.221.0 at 10.1.2.3", versions=True)
    versions, _, address = both.partition(" at ")
    assert versions == "218.0.219.13/pkg 218.0.221.0"
    assert address == "203.0.113.1"


def test_a_name_in_base64_is_hidden() -> None:
    made = tokens(hosts="rack7-node3")
    blob = base64.b64encode(b"exec sh /srv/rack7-node3/prepare.sh --now").decode()
    other = base64.b64encode(b"exec sh /srv/somewhere-else/prepare.sh -n").decode()
    assert made.plain(f"virtme.exec=`{blob}`") == "virtme.exec=`(redacted)`"
    assert made.plain(other) == other


def test_kinds_that_are_kept() -> None:
    made = Pseudonyms(kept=("macs", "addresses"))
    made.know("macs", "x")
    text = "3c:fd:fe:9e:7a:01 10.1.2.3 enx3cfdfe9e7a01 /home/alice"
    assert made.plain(text) == text.replace("/home/alice", "/path-1")


def test_what_survived_is_told_by_its_kind() -> None:
    made = tokens(hosts="rack7-node3", users="alice")
    made.plain("rack7-node3 alice 3c:fd:fe:9e:7a:01")
    assert made.survivors("nothing of it") == []
    assert made.survivors("Rack7-Node3 and 3c:fd:fe:9e:7a:01") == ["MAC address", "host name"]


@given(st.lists(MACS, max_size=5), st.text("xyz ,", max_size=4))
def test_no_mac_survives(macs: list[str], between: str) -> None:
    text = Pseudonyms().plain(f" {between} ".join(macs))
    assert not [m for m in macs if m in text and not m.startswith(("02:76:", "02:5e:53:"))]


#: Octets of a MAC address, an EUI-64 and InfiniBand's, each with a letter among its digits.
OCTETS = st.sampled_from((6, 8, 20)).flatmap(
    lambda n: st.lists(st.integers(0, 255), min_size=n, max_size=n)
)


def spellings(octets: list[int]) -> list[str]:
    """Every way in which tools write them."""
    digits = "".join(f"{o:02x}" for o in octets)
    pairs, fours = re.findall("..", digits), re.findall("....", digits)
    found = [mark.join(pairs) for mark in ":-._ "]
    found += [mark.join(fours) for mark in ":-."]
    found += [digits, f"0x{digits}"]
    if len(octets) == 6:
        found += [f"{digits[:6]}-{digits[6:]}", ":".join(f"{o:x}" for o in octets)]
    return found


@given(OCTETS, st.data())
def test_no_spelling_of_a_hardware_address_stays(octets: list[int], data: st.DataObject) -> None:
    octets[0] = octets[0] & 0x0F | 0xA0  # a letter and a digit: digits alone are numbers
    octets[-1] = octets[-1] & 0x0F | 0x10
    spelled = data.draw(st.sampled_from(spellings(octets)))
    spelled = data.draw(st.sampled_from((spelled, spelled.upper().replace("X", "x"))))
    before, after = (data.draw(st.sampled_from((" ", "(", "=", "'", "", ","))) for _ in "ab")
    text = Pseudonyms().plain(f"port{before or ' '}{spelled}{after}")
    assert not re.search(re.escape(spelled), text)
    ours = re.sub("02.?5e.?53|serial-[0-9]+", "", text)
    octet, separator = "[0-9a-f]{2}", "[:._ -]"
    assert not re.search(separator.join([octet] * 4), ours)


@given(st.uuids(), st.sampled_from(("-", "_", "")), st.sampled_from(("{}", "pod{}.x", "({})")))
def test_no_part_of_a_uuid_stays(uuid: UUID, mark: str, around: str) -> None:
    parts = str(uuid).split("-")
    text = Pseudonyms().plain(around.format(mark.join(parts)) if mark else f"id {uuid.hex}")
    assert not [part for part in (parts[0], parts[4]) if part in text]


LABELS = st.from_regex(r"[a-z][a-z0-9_-]{2,8}[a-z0-9]", fullmatch=True) | st.text(
    st.characters(categories=("Lo",)), min_size=2, max_size=8
)
LAST = st.from_regex(r"[a-z]{2,12}|xn--[a-z0-9]{4,9}", fullmatch=True)


@given(st.lists(LABELS, min_size=2, max_size=4), LAST, st.sampled_from((" ", ":830", ".", ")")))
def test_no_domain_stays(labels: list[str], last: str, after: str) -> None:
    labels[0] = f"qxz{labels[0]}"  # no kernel setting's, or project's, first part
    text = Pseudonyms().plain(f"from {'.'.join([*labels, last])}{after}")
    assert labels[0] not in text


NUMBERS = st.lists(st.integers(0, 9999).map(str), min_size=2, max_size=3).map(".".join)


@given(NUMBERS, st.sampled_from(("", "-rc1", "+deb12u3", "-427.13.1.el9_4", "~beta2", "-0ubuntu5")))
@pytest.mark.parametrize("around", ["{}", "v{}", "DPDK {}, OVS", "{}.x86_64", "{}.noarch", "{} us"])
def test_versions_and_numbers_stay(around: str, number: str, more: str) -> None:
    text = around.format(number + more)
    assert Pseudonyms().plain(text) == text
    assert Pseudonyms().plain(text, versions=True) == text


@given(st.text())
def test_a_text_is_redacted_once(text: str) -> None:
    made = Pseudonyms()
    once = made.plain(text)
    assert made.counts or once == text


@pytest.mark.parametrize("after", ["-427.13.1.el9_4", ", fabric", " bytes", "-a", " a"])
@pytest.mark.parametrize("number", ["4523.9925.1625", "123456-654321", "10.20.30.40.50.60"])
def test_a_letter_behind_numbers_makes_no_hardware_address_of_them(number: str, after: str) -> None:
    assert Pseudonyms().plain(number + after).startswith(number)


@pytest.mark.parametrize(
    "spelled", ["AABBCCDDEEFF", "aabbccddeeff", "0xaabbccddeeff", "0011.2233.4455"]
)
def test_a_mac_address_of_letters_or_of_digits_alone(spelled: str) -> None:
    assert Pseudonyms().plain(f"at {spelled}, up") == "at 02:5e:53:00:00:01, up"


#: A host may be called as a module, a part of the project, a setting or a file is.
HOSTS = """
    docker.acme-corp.com tests.acme.internal libvirt.acme.com os.acme.com json.acme.com
    pod1.acme.com pod1.corp pod1.kr phy1.corp.acme.com net.core.acme.com web01.dev web01.zip
    pod1.acme vnf0.cloud phy1.bank
    vnetperf.acme.com vnetperf.host.acme.com testcases.acme.com kernel.lab_7.acme.com
    socket.timeout.acme.com gen7.sh gen7.py subprocess.acme.bank
"""


@pytest.mark.parametrize("name", HOSTS.split())
def test_a_host_that_is_called_as_a_module_or_file_has_a_token(name: str) -> None:
    assert Pseudonyms().plain(f"from {name}: no") == "from host-1: no"
    assert ("hosts", name) in names_in(f"from {name}")


@pytest.mark.parametrize(
    "text",
    [
        *("vnetperf.host.guardian", "vnetperf.log.pseudonyms.Pseudonyms.plain", "os.kill"),
        *("tests.log.test_tokens", "test_x.py", "tests/prepare.sh", "librte_net.so"),
        *("net.ipv4.conf.all.forwarding", "kernel.sched_rt_runtime_us", "README.md"),
        *("json.decoder.JSONDecodeError", "multi-user.target", "net.core.rmem_max"),
        *("vnf0.tun", "vnf0.gtp-u (inside)", "pod0.rx", "/run/vnetperf/2026-1/ovs/vswitchd.ctl"),
    ],
)
def test_modules_files_and_settings_stay(text: str) -> None:
    assert Pseudonyms().plain(f"at {text} it") == f"at {text} it"


@pytest.mark.parametrize(
    "text",
    [
        "taskset -p 0x3",
        "flags 0x0000000000000001 0xffff",
        "pmd-c01/id:8 3 isolated",
        "ethtool -C eth0 rx-usecs 50",
        "usb-storage nvme-core scsi-mod",
        "vhost-user-blk sg-3 vol-1",
        "5 1024 2048",
        "100%40 of 200",
        "sha 0x12 0x34",
    ],
)
def test_numbers_and_options_of_programs_stay(text: str) -> None:
    assert Pseudonyms().plain(text).replace("100@", "100%40") == text


def test_a_domain_below_a_folder_of_runs_has_a_token() -> None:
    assert "gen7" not in Pseudonyms().plain("/var/log/vnetperf/gen7.acme.com/x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('password: "hunter 2 three" x', 'password: "{}" x'),
        ("the password is 'hunter 2' x", "the password is '{}' x"),
        ("password=abc,def;g&h x", "password={} x"),
        ('--password "a b" x', '--password "{}" x'),
        ('{"token": "a b", "x": 1}', '{"token": "{}", "x": 1}'),
        ("psk = abc,def", "psk = {}"),
        ('cut off: password="abc', "cut off: password={}"),
        ("cut off: password: 'abc", "cut off: password: {}"),
        ("password: 12345", "password: {}"),
        ("the token is abc", "the token is {}"),
        *((text, text) for text in ("pass: 12, fail: 0", "tokens: 5", "the token is missing")),
        *((text, text) for text in ("api_keys: 3", "the password is not set", "a secret is wrong")),
    ],
)
def test_a_secret_ends_where_its_quote_or_word_does(text: str, expected: str) -> None:
    made = Pseudonyms().plain(text)
    assert made == expected.replace("{}", "(redacted secret 1)")
    assert Pseudonyms().plain(made) == made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mac 001122334455", "mac {}"),
        ('"mac": "001122334455"', '"mac": "{}"'),
        ("link/ether 00 11 22 33 44 55 brd", "link/ether {} brd"),
        ("mac address is 0011.2233.4455", "mac address is {}"),
        *((text, text) for text in ("macs: 5", "machine 001122334455", "ether 0.1", "mac 1.2.3")),
        *((text, text) for text in ("mac 027600000001", "mac 0011223344556677 frames")),
    ],
)
def test_digits_that_are_said_to_be_an_address(text: str, expected: str) -> None:
    made = Pseudonyms().plain(text, hashes=True)
    assert made == expected.format("02:5e:53:00:00:01")
    assert Pseudonyms().plain(made, hashes=True) == made


LEAVES = st.sampled_from(
    ("gw7", "Räck7", "alice@gw7", "x\ngw7", "/home/alice/x", 'a "gw7" b', "\\gw7")
)
NESTED = st.lists(LEAVES, max_size=3) | st.dictionaries(
    st.sampled_from(("x", "gw7", "hostname")), LEAVES, max_size=3
)


@given(NESTED, st.integers(1, 3))
def test_no_known_name_stays_in_json_within_json(value: object, depth: int) -> None:
    text = value
    for _ in range(depth):
        text = json.dumps({"m": text})
    made = tokens(hosts="gw7", users="alice")
    made.know("hosts", "räck7")
    plain = made.plain(str(text))
    assert not re.search(r"gw7|alice|ck7", plain, re.IGNORECASE)
    found: object = plain
    for _ in range(depth):  # it is JSON as before
        found = json.loads(str(found))["m"]


@pytest.mark.parametrize("link", ["vlan10@eth0", "eth0.10@eth0", "mgmt@bond0", "lo@NONE"])
def test_an_interface_upon_another_is_no_login(link: str) -> None:
    text = f"13: {link}: <BROADCAST>, a@enp3s0f0np0.7, veth0@if7"
    assert Pseudonyms().plain(text) == text
    assert not list(names_in(text))


def test_logins_beside_interfaces_are_found() -> None:
    text = "alice@enoch bob@dut42q carol@eth0.acme.com"
    assert not re.search("alice|enoch|bob|dut42q|carol|acme", Pseudonyms().plain(text))


@pytest.mark.parametrize(
    "text",
    [
        "--user alice",
        "--user=alice",
        "user=alice",
        "USER=alice",
        "--username alice",
        "logname=alice",
    ],
)
def test_a_name_behind_its_option_or_variable(text: str) -> None:
    assert Pseudonyms().plain(text) == text.replace("alice", "user-1")
    assert ("users", "alice") in names_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "ssh: connect to host gw7q port 22: refused",
        "ssh: Could not resolve hostname gw7q: Name or service not known",
        "curl: (6) Could not resolve host: gw7q",
        "sudo: unable to resolve host gw7q: Name or service not known",
        "in use by container 'gw7q'",
        "uid=1000(gw7q) gid=1000(gw7q) groups=1000(gw7q),27(sudo)",
    ],
)
def test_a_name_that_a_message_states_is_replaced_wherever_it_stands(text: str) -> None:
    made = Pseudonyms()
    for kind, name in names_in(text):
        made.know(kind, name)
    plain = made.plain(f"{text}; on gw7q")
    assert "gw7q" not in plain
    assert "sudo" in plain or "sudo" not in text
    assert "Name or service" in plain or "Name or service" not in text


@pytest.mark.parametrize(
    "text",
    [
        "user=0.02s",
        "user=12%",
        "systemctl --user status x",
        "--user 1000:1000",
        "user=root",
        "uid=0(root)",
    ],
)
def test_what_is_nobodys_name_stays(text: str) -> None:
    assert Pseudonyms().plain(text) == text
    assert not list(names_in(text))


@pytest.mark.parametrize(
    "part", ["a.", "-", "1.", "ab12", "0", "_", "a-", "a@", "a:", "11 ", "--a", "/proc/a.bb ", "a"]
)
def test_a_long_text_is_read_in_time_of_its_length(part: str) -> None:
    # 64 kB of the worst kinds took minutes.
    text = part * (65536 // len(part))
    assert Pseudonyms().plain(text, versions=True)
    list(names_in(text))
