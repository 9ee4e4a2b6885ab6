"""A redacted copy of a run: no planted name survives in any file, and the numbers are the same."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.runner.support import Bench
from vnetperf import cli
from vnetperf.analysis.results_from_log import derive
from vnetperf.host import kernel
from vnetperf.log import redaction
from vnetperf.log.folder import read_run
from vnetperf.log.records import (
    EnvironmentRecord,
    NotMeasuredRecord,
    Record,
    RunRecord,
    ScenarioRecord,
    TrialRecord,
)
from vnetperf.log.trial_log import LOG_NAME, encode_records, read_log
from vnetperf.model.options import GuestOptions
from vnetperf.model.result import RunResults
from vnetperf.model.testbed import AgentConfig, Testbed

HOST, USER, TESTBED = "qx7-node3", "alicem", "acme-rack9"
MAC, ADDRESS, SERIAL, COMPANY = "3c:fd:fe:9e:7a:01", "10.20.30.40", "CZJ0450QWE", "Quixotech"
NOTES = f"measured by {USER}@acme.example in room 4.17"
#: What a machine of a company may have anywhere, by what it is.
CANARIES = {
    "a path outside of home": "/data/users/jqdoe/acmewidget/tb.toml",
    "a workspace": "/srv/jenkins/workspace/AcmeSecretProject",
    "a host in the command": "gen7.lab.acmecorp.example.internal",
    "a password": "hunter2secret",
    "credentials in a URL": "https://ci-bot:tok3nABCDEF@git.acmecorp.internal/x",
    "a login with a port": "labadmin@dut42q",
    "another login": "jumpuser9",
    "a program": "/nfs/tools_jqdoe/dpdk/testpmd",
    "a folder of a client": "/mnt/acme-nas01/trex",
    "a volume group": "vgacme",
    "an NFS root": "10.20.30.41:/export/jqdoe",
    "a host of systemd": "dut42q",
    "an IQN": "iqn.2001-04.com.acmecorp:dut42",
    "a CHAP user": "chapuser",
    "a CHAP password": "chapS3cret",
    "a PARTUUID": "5e2a77f1-02",
    "a label": "ACMEROOT7",
    "an option nobody knows": "acme.token",
    "a MAC address as Cisco writes it": "a4bf.0112.3457",
    "a MAC address without separators": "a4bf01123458",
    "a MAC address in two halves": "a4bf01-123459",
    "a GUID": "b8:ce:f6:03:00:9a:bc:de",
    "an EUI-64": "b8cef603009abcdf",
    "a WWN": "wwn-0x5000c500a1b2c3d4",
    "a serial in a text": "CN0PJK3X7414",
    "an asset": "ACME-12345",
    "a PCI address": "0000:3b:00.1",
    "a container": "4f5e6a7b8c9d0e1f2a3b4c5d6e7f80910a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "a machine-id": "0123456789abcdef0123456789abcdef",
    "an FQDN in a failure": "nas01.acmecorp.com",
    "a disk of a user": "/vm/jqdoe/golden.qcow2",
    "an option in a guest": "acmekey",
    "another host": "qx9-node4",
    "a password of a guest": "guestS3cret",
    "a host of libvirt": "jumphost9q",
}
#: Texts that tools print, and what of each must not leave; found by its form alone.
FORMS = {
    "a UUID": ("VM 123e4567-e89b-12d3-a456-426614174000 up", "e89b|12d3|426614174000|123e4567"),
    "a GUID in braces": ("{9F2D1A77-0C11-4D7E-9A01-5577AABBCCDD}", "9F2D1A77|0C11|5577AABBCCDD"),
    "a pod": ("kubepods-pod8f3c2a11_77aa_4b1c_9d22_0011aabbccdd.slice", "8f3c2a11|0011aabbccdd"),
    "a GUID without hyphens": ("node 12345678901234567890123456789012", "1234567890"),
    "a MAC address with dots": ("ether a4.bf.01.12.34.61", "a4.bf|34.61"),
    "a MAC address with blanks": ("dump a4 bf 01 12 34 62", "bf 01|34 62"),
    "a MAC address with underscores": ("port a4_bf_01_12_34_63", "a4_bf|34_63"),
    "a MAC address without zeros": ("0:1b:21:a:b:c5", "1b:21:a|b:c5"),
    "an address of InfiniBand": (
        "80:00:02:08:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:9a:bc:d1",
        "b8:ce:f6|9a:bc:d1",
    ),
    "a node's GUID": ("node_guid b8ce:f603:009a:bcd2", "b8ce:f603|bcd2"),
    "a serial number of PCI": ("[SN] Serial number: MT2031X04567", "MT2031X04567"),
    "a serial number without a colon": ("SN MT2031X04999", "MT2031X04999"),
    "a service tag": ("PowerEdge R740 svctag 7XK3Q2Z", "7XK3Q2Z"),
    "an asset": ("ASSET ACME-4455", "ACME-4455"),
    "a name in another domain": ("gen17.acme.systems refuses", "gen17|acme"),
    "a name of a bank": ("core7.acme.bank", "core7"),
    "a name with an underscore": ("lab_gen7.acme.co.kr", "lab_gen7"),
    "a service's name": ("_sip._tcp.acmevoip.sk", "acmevoip"),
    "a name with its last dot": ("gen19.acme.consul.", "gen19"),
    "an international name": ("서버1.회사.한국", "서버1|회사"),
    "an international name of marks": ("เซิร์ฟเวอร์.ไทย", "เซิร์ฟเวอร์"),
    "a name in punycode": ("xn--kim-abc.xn--3e0b707e", "xn--kim"),
    "a name of an APN": ("lte.sktelecom-lab.mnc005.mcc450.gprs", "sktelecom-lab"),
    "a name backwards": ("69.55.44.10.in-addr.arpa", "69.55.44"),
    "an address in a name": ("ip-10-44-55-68", "10-44-55-68"),
    "an address with zeros": ("010.044.055.070", "044.055"),
    "a login": ("kimjwz@dut44q: refused", "kimjwz|dut44q"),
    "a directory's name": ("cn=kimjwy,ou=netlab,dc=acmetel,dc=co", "kimjwy|acmetel"),
    "an account of Windows": ("ACMECORP\\leesh", "leesh"),
    "a variable": ("USER=jqkim LOGNAME=jqkim HOSTNAME=qx77", "jqkim|qx77"),
    "a path of Windows": ("C:\\Users\\parkmh\\bench", "parkmh"),
    "a path home": ("~choihk/bench/tb.toml", "choihk"),
    "a path upwards": ("../jungyh/secretproj/x", "jungyh|secretproj"),
    "a path of a compiler": ("-I/home/jqroe/dpdk -ffile-prefix-map=/home/jqroe=.", "jqroe"),
    "a key of ssh": (
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx7Kq0h9c1Yl3ZC2q9Q1xS8pYkqk9s9m jwkim@benchpc",
        "AAAAC3Nza|jwkim|benchpc",
    ),
    "a fingerprint": ("SHA256:pV3mY0q1dX9mJx0b1s2kGqzZ0LwP7T8QyH6e5r4u3i2", "pV3mY0q1"),
    "a private key": ("-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNz aC1r -----END", "b3BlbnNz"),
    "a JWT": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJraW0ifQ.c2lnbmF0dXJl", "eyJzdWIi|c2lnbmF0"),
    "a token of GitHub": ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F"),
    "a key of AWS": ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSF"),
    "a header": ("Authorization: Bearer abc123DEF456", "abc123DEF456"),
    "a password in a text": ("login failed: password=S3cretPw!", "S3cretPw"),
    "a random text": ("key 9aB3dE5fG7hJ1kL2mN4pQ6rS8tU0vW2xY", "9aB3dE5f"),
    "an IMSI": ("imsi=450051234567890", "450051234567890"),
    "an IMEI": ("modem 356938035643809", "356938035643809"),
    "a phone": ("call +82-2-555-0199", "555-0199"),
    "a host that is called as a pod": ("pod1.acme: refused", "pod1.acme"),
    "a MAC address of digits": ("hwaddr: 00.11.22.33.44.66", "00.11|44.66"),
    "JSON in JSON": (
        '{"m": "{\\"nodeName\\": \\"gw77q\\", \\"password\\": \\"hunt er2\\"}\\nby kimjwa@dut46q"}',
        "gw77q|hunt|er2|kimjwa|dut46q",
    ),
    "a letter in JSON": ('{"hostname": "r\\u00e4ck9q", "x": "on r\\u00e4ck9q"}', "ck9q"),
    "a port behind an address": ("IP6 2a02:8109:9cc0:1::17.443 >", "8109:9cc0"),
    "a World Wide Name": ("port_name 5006016012345678 0x5006016012345679", "50060160123456"),
    "a World Wide Name in parts": ("LU WWN Device Id: 5 0014ee 2b1234567", "0014ee 2b"),
    "a disk": ("ata-WDC_WD40EFRX-68WT0N0_WD-WCC4E1234567", "WCC4E1234567"),
    "a disk of SCSI": ("scsi-3600601601234567890abcdef12345678", "60060160"),
    "a device of NVMe": ("nqn.2014.08.org.nvmexpress:144d144dS4EVNX0M1", "S4EVNX0M1"),
    "a GUID of digits": ("Node GUID: 0x2480070300151234", "2480070300151234"),
    "a MAC address of nmcli": (r"hw a4\:bf\:01\:12\:34\:57", r"bf\\:01|34\\:57"),
    "a MAC address of a URL": ("mac=a4%3Abf%3A01%3A12%3A34%3A59", "bf%3A01|34:59"),
    "a MAC address of bytes": (r"b'\xa4\xbf\x01\x12\x34\x5a'", r"xa4|x34"),
    "numbers of a program": ("0xa4, 0xbf, 0x01, 0x12, 0x34, 0x5b", "0xbf|0x34"),
    "a DUID": ("DUID 00020000ab11a1b2c3d4e5f60718", "00020000ab11"),
    "a PCI address of a VMD": ("10000:01:00.0 nvme", "10000:01"),
    "an account of a cloud": ("arn:aws:iam::123456789012:user/jdoeq", "123456789012|jdoeq"),
    "things of a cloud": ("i-0abcd1234ef567890 vpc-0a1b2c3d", "0abcd1234|0a1b2c3d"),
    "a secret key of AWS": ("key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUt|bPxRfi"),
    "a login of curl": ("curl -u adminq:s3cr3tq https://x", "adminq|s3cr3tq"),
    "a login of ipmitool": ("ipmitool -U admq -P hunter29 sensor", "admq|hunter29"),
    "a login of netrc": ("machine x login jwq password hunter33", "hunter33"),
    "a known host": ("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7s=", "F1E1KeoE|3988QV0V"),
    "a key of kubeconfig": ("client-key-data: LS0tLS1CRUdJTg==", "LS0tLS1C"),
    "a certificate of kubeconfig": ("certificate-authority-data: LS0tLS1DRUdJT", "LS0tLS1D"),
    "a login of docker": ('{"auths":{"r":{"auth":"a2ltOnMzY3IzdA=="}}}', "a2ltOnMz"),
    "a key of WireGuard": ("peer xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "xTIBA5rb"),
    "a shared key": ("PresharedKey=FpCyhws9cxwWoV4xELtfJvjJN", "FpCyhws9"),
    "a community": ("snmp-server community s3cr3tcomm RO", "s3cr3tcomm"),
    "a digest of a password": ("root:$6$abcdefgh$ZxQ0Uw1pWv:19000", "abcdefgh|ZxQ0Uw1p"),
    "a digest of Apache": ("web:$apr1$abcq$ZxQ0Uw1pWz", "ZxQ0Uw1pWz"),
    "a cookie": ("Set-Cookie: sid=abcdef123456780; Path=/", "abcdef12345678"),
    "a password of a database": ("PGPASSWORD=hunter27", "hunter27"),
    "escaped JSON": (r"{\"password\": \"hunter31\"}", "hunter31"),
    "a signature": ("se=2026&sig=abcd%2Fefgh1234", "efgh1234"),
    "a key of a licence": ("key: ABCDE-FGHIJ-KLMNO-PQRST-UVWXY", "FGHIJ|PQRST"),
    "a fingerprint of GPG": ("1A2B 3C4D 5E6F 7081 92A3  B4C5 D6E7 F809 1A2B 3C4D", "92A3|D6E7"),
    "a serial number in JSON": ('"serial_number":"MT2031X04568"', "MT2031X04568"),
    "a serial number of lshw": ('"serial" : "S4EVNX0M123456",', "S4EVNX0M123456"),
    "a serial number of udev": ("ID_SERIAL_SHORT=S675NX0T123456", "S675NX0T123456"),
    "a serial number of USB": ("iSerial 3 4C530001234567", "4C530001234567"),
}
PARTS = ("acmecorp", "jqdoe", "labadmin", "AcmeSecret", "acmewidget", "golden", "tok3nABC", "nas01")
C = CANARIES
COMMAND = (
    "/usr/bin/pytest testcases/ -k pvp_dpdk --preset smoke "
    f"--testbed {C['a path outside of home']} --results-dir {C['a workspace']} "
    f"--trex-server {C['a host in the command']} "
    f"-o password={C['a password']} --core apn={C['credentials in a URL']} "
    f"--guest image={C['a disk of a user']}"
)
CMDLINE = (
    f"BOOT_IMAGE=/vmlinuz root=/dev/mapper/{C['a volume group']}-root isolcpus=1-3 quiet "
    f"nfsroot={C['an NFS root']}/root systemd.hostname={C['a host of systemd']} "
    f"rd.iscsi.initiator={C['an IQN']} {C['an option nobody knows']}=1 "
    f"netroot=iscsi:{C['a CHAP user']}:{C['a CHAP password']}@10.20.30.41::3260::x "
    f"root=PARTUUID={C['a PARTUUID']} root=LABEL={C['a label']} hugepages=4"
)
PLANTED = (HOST, USER, TESTBED, MAC, ADDRESS, SERIAL, COMPANY, "room 4.17", "acme.example")


def with_names(record: Record) -> Record:
    """The record as a machine with names would have made it."""
    if isinstance(record, RunRecord):
        testbed = record.testbed.model_copy(
            update={
                "name": TESTBED,
                "isolation": f"the lab network of {COMPANY} has no uplink",
                "agent": AgentConfig(
                    transport=f"ssh=-p 2222 -l {C['another login']} {C['a login with a port']}"
                    f"//python={C['a program']}"
                ),
                "programs": {"testpmd": C["a program"]},
                "trex": {"client": C["a folder of a client"], "server": ""},
            }
        )
        identity = record.identity.model_copy(
            update={
                "command": f"{COMMAND} --notes '{NOTES}' --config {TESTBED}",
                "notes": NOTES,
                "testbed": TESTBED,
                "isolation": testbed.isolation,
            }
        )
        settings = record.settings | {
            "testbed": {"value": TESTBED, "source": f"/home/{USER}/vnetperf.toml"},
            "notes": {"value": NOTES, "source": "command line"},
            "results_dir": {"value": C["a workspace"], "source": "command line"},
            "guest": {
                "value": [f"image={C['a disk of a user']}", f"cmdline={CMDLINE}"],
                "source": "command line",
            },
        }
        return record.model_copy(
            update={"testbed": testbed, "identity": identity, "settings": settings}
        )
    if isinstance(record, EnvironmentRecord):
        facts: dict[str, Any] = {
            "hostname": HOST,
            "firmware": {"serial": SERIAL, "asset": C["an asset"]},
            "kernel": {"cmdline": CMDLINE, "release": "6.1.0.44"},
            "nics": [
                {
                    "pci": "0000:3b:00.0",
                    "mac": MAC,
                    "firmware": "218.0.152.0",
                    "mac_cisco": C["a MAC address as Cisco writes it"],
                    "mac_plain": C["a MAC address without separators"],
                    "mac_halves": C["a MAC address in two halves"],
                    "node_guid": C["a GUID"],
                    "eui": f"0x{C['an EUI-64']}",
                    "wwn": C["a WWN"],
                    "part": f"S/N: {C['a serial in a text']}",
                    "slot": C["a PCI address"],
                }
            ],
            "programs": {"testpmd": {"path": C["a program"], "build id": "4f5e" * 10}},
            "container": f"docker-{C['a container']}.scope",
            "machine": C["a machine-id"],
            "printed": {what: text for what, (text, _) in FORMS.items()},
            "nic model": "CX6, management 10.44.55.71",
            "agent": {"password": "onlyakeysays"},
            "other hosts": {"east": {"hostname": C["another host"], "load": C["another host"]}},
        }
        return record.model_copy(update={"facts": facts})
    if isinstance(record, ScenarioRecord):
        launch = f"ovs --db /home/{USER}/run --remote {ADDRESS}:6640 --host {HOST}"
        facts = {
            "vswitch": {"launch line": launch, "ports": {MAC: "phy0"}},
            "vnfs": [{"system": {"command line": f"ro {C['an option in a guest']}=1"}}],
        }
        plan = record.facts.plan | {"testbed": {"name": TESTBED, "description": COMPANY}}
        told = record.facts.model_copy(update={"facts": facts, "plan": plan})
        guest = GuestOptions(
            image=C["a disk of a user"],
            cmdline=f"net.pass={C['a password of a guest']}",
            uri=f"qemu+ssh://{C['a host of libvirt']}/system",
        )
        scenario = record.scenario.model_copy(update={"guest": guest})
        return record.model_copy(update={"facts": told, "scenario": scenario})
    if isinstance(record, TrialRecord) and record.number == 2:
        failure = f"{HOST}: no answer from {ADDRESS}, {C['an FQDN in a failure']}"
        result = record.result.model_copy(update={"failure": failure})
        update = {"result": result, "reason": f"{USER} was there", "captures": ("captures/a.pcap",)}
        return record.model_copy(update=update)
    return record


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path)


def make_run(above: Path) -> Path:
    folder = above / "run"
    folder.mkdir()
    bench = Bench(folder)
    bench.throughput(64, "pvp_dpdk")
    bench.run.close()
    log = folder / LOG_NAME
    told = f"{HOST} refuses {MAC}"
    error = NotMeasuredRecord(scenario="pvp_vpp", test="throughput", frame_size=64, why=told)
    records = [*map(with_names, read_log(log)), error]
    log.write_bytes(b"".join(encode_records(records)))
    (folder / "captures").mkdir()
    (folder / "captures/a.pcap").write_bytes(b"frames")
    (folder / f"{HOST}.txt").write_text("a file of the user's")
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.rglob("*") if p.is_file()}


def redact(run: Path, *options: str) -> Path:
    copy = run.parent / "copy"
    assert cli.main(["redact", str(run), "-o", str(copy), *options]) == 0
    return copy


def numbers(results: RunResults) -> Any:
    return [
        (r.scenario, r.frame_size, [(g.lower_bound_fps, g.upper_bound_fps) for g in r.goals])
        for r in results.results
    ], [(t.number, t.load_fps, t.loss_ratio, t.verdict) for t in results.trials]


def test_no_planted_name_survives_in_any_file(run: Path) -> None:
    copy = redact(run, "--word", COMPANY)
    written = texts(copy)
    assert {"trials.jsonl", "results.json", "report.html", "report.md", "junit.xml"} <= set(written)
    for name, text in written.items():
        assert [p for p in PLANTED if p.casefold() in text.casefold()] == [], name
    assert not (copy / "captures").exists()
    assert not [name for name in written if HOST in name]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return texts(redact(make_run(tmp_path_factory.mktemp("canaries"))))


@pytest.mark.parametrize("what", CANARIES)
def test_no_canary_leaves(what: str, copied: dict[str, str]) -> None:
    canary = CANARIES[what].casefold()
    found = {n for n, t in copied.items() for s in (t, unescape(t)) if canary in s.casefold()}
    assert not found


@pytest.mark.parametrize("what", FORMS)
def test_nothing_of_a_known_form_leaves(what: str, copied: dict[str, str]) -> None:
    for text in (one.casefold() for t in copied.values() for one in (t, unescape(t))):
        assert not [part for part in FORMS[what][1].casefold().split("|") if part in text]


def test_addresses_below_a_model_and_values_of_secret_keys_do_not_leave(
    copied: dict[str, str],
) -> None:
    assert not [name for name, text in copied.items() if re.search("44.55.71|onlyakey", text)]


def test_a_host_that_is_called_as_a_token_is_has_one(run: Path) -> None:
    log = run / LOG_NAME
    records = read_log(log)
    for n, record in enumerate(records):
        if isinstance(record, EnvironmentRecord):
            facts = record.facts | {"hostname": "host-1", "peer": "host-1 and host-2.acme.bank"}
            records[n] = record.model_copy(update={"facts": facts})
    log.write_bytes(b"".join(encode_records(records)))
    text = (redact(run) / LOG_NAME).read_text()
    assert not re.search(r"\bhost-[12]\b", text)
    assert "host-3" in text


def test_a_copy_of_a_copy_has_the_tokens_of_the_first(run: Path) -> None:
    first = redact(run)
    second = first.parent / "second"
    assert cli.main(["redact", str(first), "-o", str(second), "--word", "octets"]) == 0
    hosts = [
        record.facts["hostname"]
        for folder in (first, second)
        for record in read_log(folder / LOG_NAME)
        if isinstance(record, EnvironmentRecord)
    ]
    assert hosts[0] == hosts[1]


@pytest.mark.parametrize("part", PARTS)
def test_no_part_of_a_canary_leaves(part: str, copied: dict[str, str]) -> None:
    for name, text in copied.items():
        places = [m.start() for m in re.finditer(part, text, re.IGNORECASE)]
        assert [text[p - 60 : p + 40] for p in places] == [], name


def test_what_bears_on_results_stays_in_command_lines(copied: dict[str, str]) -> None:
    results = RunResults.model_validate_json(copied["results.json"])
    assert results.run.command == (
        "pytest testcases/ -k pvp_dpdk --preset smoke --testbed (redacted) "
        "--results-dir (redacted) (redacted) (redacted) -o (redacted) --core (redacted) "
        "--guest (redacted) "
        "--notes (redacted) (redacted) (redacted)"
    )
    assert results.environment["kernel"]["cmdline"] == (
        "(redacted) (redacted) isolcpus=1-3 quiet " + "(redacted) " * 7 + "hugepages=4"
    )
    assert results.environment["programs"]["testpmd"]["build id"] == "4f5e" * 10


def test_how_several_hosts_are_reached_has_tokens(run: Path) -> None:
    first, *others = read_log(run / LOG_NAME)
    assert isinstance(first, RunRecord)
    hosts = {
        name: {"transport": f"ssh={user}@{name}.lab//python=/opt/{user}/python"}
        for name, user in (("qa1", "jdoe"), ("qa2", "jroe"))
    }
    cables = [{"ends": [f"qa1:c{n}", f"qa2:c{n}"]} for n in (0, 1)]
    testbed = Testbed.model_validate({"name": "t", "hosts": hosts, "cables": cables})
    records = [first.model_copy(update={"testbed": testbed}), *others]
    text = redaction.Redactor(records).redacted()[0].model_dump_json()
    assert not re.search(r"jdoe|jroe|qa\d\.lab", text)


def test_what_the_file_says_of_hosts_cables_and_the_external_dut_has_tokens(run: Path) -> None:
    first, *others = read_log(run / LOG_NAME)
    assert isinstance(first, RunRecord)
    hosts = {
        "gandalf": {"transport": "ssh=-l jumpuser9 qx8node4", "isolation": "Globex: no uplink"},
        "frodo42": {"transport": "ssh=alicem@qx7node3"},
    }
    ports = [{"tester": f"glbx{n}", "dut": "rack 7-b", "gateway": "10.1.2.3"} for n in (0, 1)]
    testbed = Testbed.model_validate(
        {
            "name": "t",
            "hosts": hosts,
            "cables": [{"ends": [f"gandalf:initech{n}", f"frodo42:enp3s0f{n}"]} for n in (0, 1)],
            "trex": {"server": "qx9trex:4501:4500"},
            "external": {
                "name": "Umbra-9K",
                "version": "17.3b of Globex",
                "facts": {"place": "room 4.17, Springfield", "site": "corelab", "os": "Switch"},
                "ports": ports,
            },
        }
    )
    failure = "gandalf: initech1 is down; Umbra-9K in rack 7-b does not reply; qx9trex; a switch"
    trial = next(n for n, r in enumerate(others) if isinstance(r, TrialRecord))
    result = others[trial].result.model_copy(update={"failure": failure})  # type: ignore[union-attr]  # a trial
    others[trial] = others[trial].model_copy(update={"result": result})
    records = [first.model_copy(update={"testbed": testbed}), *others]
    made = redaction.Redactor(records).redacted()
    text = "".join(record.model_dump_json() for record in made)
    planted = "corelab|qx9trex|springfield|10.1.2.3|gandalf|frodo42"
    planted += "|qx8node4|qx7node3|jumpuser9|alicem|globex|initech|umbra|rack 7|glbx"
    assert not re.findall(planted, text, re.IGNORECASE)
    assert "enp3s0f1" in text
    # Only where it stands as the operator's.
    assert "a switch" in text
    assert '"os":"(redacted text' in text
    Testbed.model_validate_json(made[0].testbed.model_dump_json())  # type: ignore[union-attr]  # is one still


def environment_with(run: Path, **facts: object) -> str:
    """The redacted environment of a run with further facts; alice and runner have accounts."""
    records = [
        record.model_copy(update={"facts": {**record.facts, **facts}})
        if isinstance(record, EnvironmentRecord)
        else record
        for record in read_log(run / "trials.jsonl")
    ]
    made = redaction.Redactor(records, accounts=("alice", "runner", "bob")).redacted()
    return next(r.model_dump_json() for r in made if isinstance(r, EnvironmentRecord))


@pytest.mark.parametrize(
    ("key", "spelled"),
    [
        ("mac", "001122334455"),
        ("perm_address", "00:11:22:33:44:55"),
        ("hwaddr", "0011.2233.4455"),
        ("address", "001122-334455"),
        ("macs", "00 11 22 33 44 55"),
    ],
)
def test_digits_alone_are_an_address_where_their_key_says_so(
    run: Path, key: str, spelled: str
) -> None:
    text = environment_with(run, nic={key: [spelled], "a version": spelled.replace(":", ".")})
    assert f'"{key}":["02:5e:53:' in text
    assert spelled.replace(":", ".") in text or ":" not in spelled


def test_a_hosts_own_name_has_a_token_in_any_case_and_any_text(run: Path) -> None:
    named = {"hostname": "Gw7q", "a": "\ngw7q: no", "b": '{"m": "{\\"x\\": \\"GW7Q\\"}\\ngw7q"}'}
    assert "gw7q" not in environment_with(run, **named).casefold()


def test_accounts_of_the_machine_have_tokens_where_a_path_has_their_name(run: Path) -> None:
    text = environment_with(
        run,
        a="/usr/local/home/alice/bin /usr/lib/alice/x",
        b="alice and bob",
        c="/usr/lib/python3/dist-packages/vnetperf/runner/run.py, vnetperf.runner.run",
    )
    assert "alice" not in text
    assert "bob" in text  # a word like any other: no path has it
    assert "vnetperf.runner.run" in text


def test_nodes_of_a_cluster_are_hosts_wherever_they_stand(run: Path) -> None:
    records = read_log(run / LOG_NAME)
    at = next(n for n, record in enumerate(records) if isinstance(record, ScenarioRecord))
    there = records[at]
    assert isinstance(there, ScenarioRecord)
    network = {"cluster": {"nodes": ["qx5rack"]}, "pods": {"pod0": {"in": "node qx5rack"}}}
    facts = there.facts.model_copy(update={"facts": {"vswitch": network}})
    records[at] = there.model_copy(update={"facts": facts})
    made = "".join(r.model_dump_json() for r in redaction.Redactor(records).redacted())
    assert "qx5rack" not in made
    assert '"in":"node host-' in made


def test_known_options_of_the_kernel_are_those_that_the_facts_explain() -> None:
    assert set(kernel.BOOT_OPTIONS) <= redaction.KERNEL_OPTIONS


def test_planted_names_are_in_the_run_itself(run: Path) -> None:
    text = (run / LOG_NAME).read_text()
    assert all(planted in text for planted in (*PLANTED, *CANARIES.values(), *PARTS))


def test_the_same_name_has_the_same_token_and_group_10_tells(run: Path) -> None:
    copy = redact(run, "--word", COMPANY)
    results = RunResults.model_validate_json((copy / "results.json").read_text())
    host = results.environment["hostname"]
    assert host.startswith("host-")
    assert host in results.scenarios[0].facts["vswitch"]["launch line"]
    assert results.redacted is not None
    assert results.redacted.values["MAC address"] == 9
    assert {"captures/a.pcap", f"{host}.txt"} <= set(results.redacted.dropped)
    assert "removed by redaction" in (copy / "report.md").read_text()


def test_versions_and_numbers_stay(run: Path) -> None:
    copy = redact(run)
    records = read_run(copy)  # its checksums hold
    assert numbers(derive(records)) == numbers(derive(read_run(run)))
    [environment] = [r for r in records if isinstance(r, EnvironmentRecord)]
    assert environment.facts["nics"][0]["firmware"] == "218.0.152.0"
    assert environment.facts["kernel"]["release"] == "6.1.0.44"


def test_what_is_kept_stays(run: Path) -> None:
    copy = redact(run, "--keep", "macs", "--keep", "hosts")
    text = (copy / LOG_NAME).read_text()
    assert MAC in text
    assert HOST in text
    assert USER not in text


def test_a_name_that_is_a_word_of_the_log_does_not_break_it(run: Path) -> None:
    log = run / LOG_NAME
    records = read_log(log)
    for n, record in enumerate(records):
        if isinstance(record, EnvironmentRecord):
            records[n] = record.model_copy(update={"facts": record.facts | {"hostname": "dpdk"}})
    log.write_bytes(b"".join(encode_records(records)))
    results = RunResults.model_validate_json((redact(run) / "results.json").read_text())
    assert results.environment["hostname"].startswith("host-")
    assert results.results[0].scenario == "pvp_dpdk"
    assert results.redacted is not None
    assert results.redacted.limited


def test_a_copy_is_not_continued_and_keeps_its_folder_private(run: Path) -> None:
    copy = redact(run)
    [opening] = [r for r in read_log(copy / LOG_NAME) if isinstance(r, RunRecord)]
    assert opening.fingerprint == "redacted"
    assert copy.stat().st_mode & 0o777 == 0o700


def test_a_run_is_found_by_its_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--results-dir", str(run.parent)]
    assert cli.main(["redact", run.name, "-o", str(run.parent / "copy"), *where]) == 0
    assert cli.main(["redact", f"{run.name}x", "-o", str(run.parent / "other"), *where]) == 1
    assert f"did you mean '{run.name}'" in capsys.readouterr().err
    assert not (run.parent / "other").exists()


def test_a_folder_in_use_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["redact", str(run), "-o", str(run)]) == 1
    assert "in use" in capsys.readouterr().err


def test_an_edited_log_is_not_given_away(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = run / LOG_NAME
    log.write_text(log.read_text().replace('"received":', '"received":1', 1))
    assert cli.main(["redact", str(run), "-o", str(run.parent / "copy")]) == 1
    assert "checksum" in capsys.readouterr().err
    assert not (run.parent / "copy").exists()
