"""Tokens in place of what must not be published, found in a text by its form."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final, Literal, cast
from urllib.parse import unquote


def split_words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


Put = Callable[[re.Match[str]], str]
Kind = Literal[
    "hosts",
    "users",
    "testbeds",
    "macs",
    "serials",
    "secrets",
    "addresses",
    "devices",
    "paths",
    "texts",
    "words",
]

#: Kind -> what one value of it is called.
KINDS: Final[Mapping[Kind, str]] = {
    "hosts": "host name",
    "users": "user name",
    "testbeds": "testbed name",
    "macs": "MAC address",
    "serials": "serial number",
    "secrets": "key, token or password",
    "addresses": "IP address",
    "devices": "PCI address",
    "paths": "path",
    "texts": "text of the operator",
    "words": "word that was named",
}
_PSEUDONYMS: Final[Mapping[Kind, str]] = {
    "hosts": "host-{}",
    "users": "user-{}",
    "testbeds": "testbed-{}",
    "serials": "serial-{}",
    "secrets": "(redacted secret {})",
    "paths": "/path-{}",
    "texts": "(redacted text {})",
    "words": "word-{}",
}
#: Names that are on every machine.
EVERYWHERE: Final = (
    *("localhost", "vnetperf-lab", "root", "local", "lab", "tester", "dut", "self"),
    *("east", "west"),  # of the shipped testbed with two hosts
    *("user", "users", "admin", "git", "nobody", "daemon", "getty", "ubuntu", "debian", "fedora"),
)
#: The project's own (model/deployment.py): they are the same on every machine.
_OWN_MAC: Final = "02:76:"
#: Those of tokens: a copy of a copy has them as they are.
_PSEUDO_MAC: Final = "02:5e:53:"
#: What looks like a token. A machine may have such a name too: only a copy's are tokens.
TOKEN: Final = re.compile(
    r"(?:(?:host|user|testbed|serial|word|nic)-\d+|/path-\d+)(?![\w-])"
    r"|\(redacted (?:text|secret) \d+\)"
)
#: Ranges for benchmarks and documents, loopback, masks, multicast: none shows where a machine is.
_PUBLIC: Final = tuple(
    ip_network(text)
    for text in (
        *("198.18.0.0/15", "127.0.0.0/8", "0.0.0.0/32", "224.0.0.0/3", "192.0.2.0/24"),
        *("198.51.100.0/24", "203.0.113.0/24", "2001:2::/48", "2001:db8::/32"),
        *("::/128", "::1/128", "ff00::/8"),
    )
)
_PACKAGE: Final = Path(__file__).parents[1]
_LONG_NAME: Final = 6
_EDGE: Final = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
_HEX: Final = "[0-9a-f]"

# Keys, tokens and passwords.
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END[A-Z0-9 ]*(?:-----)?|\Z)", re.DOTALL
)
_SSH_KEY: Final = re.compile(r"\bAAAA[A-Za-z0-9+/]{20,}={0,2}")
_FINGERPRINT: Final = re.compile(
    r"\b(?:SHA\d+:[A-Za-z0-9+/]{27,}={0,2}|MD5:[0-9a-f]{2}(?::[0-9a-f]{2}){15})(?![\w+/])"
)
_JWT: Final = re.compile(r"\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)*")
#: A vendor's mark before a random part: ghp_, github_pat_, glpat-, xoxb-, AKIA, AIza, npm_, hf_.
_MARKED_TOKEN: Final = re.compile(
    r"\b(?:gh[a-z]_|github_pat_|gl[a-z]{2,6}-|xox[a-z]-|sk-|rk_|sk_|pk_|pypi-|npm_|hf_|dckr_pat_|hvs\."
    r"|glsa_|dop_v1_|shp[a-z]{2}_|ya29\.|SG\.)(?=[\w-]*\d)[\w.-]{16,}"
    r"|\bA(?:KIA|SIA|IDA|ROA)[A-Z0-9]{16}\b|\bAIza[\w-]{35}"
)
#: A long run of small and capital letters and digits is random.
_RANDOM: Final = re.compile(
    r"(?<![\w+/])(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=[A-Za-z]*\d)[A-Za-z0-9]{32,}(?![\w+/=])"
)
#: Digests of passwords (crypt), hashed hosts of ssh, keys of age; 32 octets in base64 are a key.
_PLAIN_SECRET: Final = re.compile(
    r"\$(?:\d\w?|g?y|apr1|argon2\w*|pbkdf2[\w-]*|scrypt|sha\d)\$[^\s:,;\"']+"
    r"|\|1\|[A-Za-z0-9+/]+={0,2}\|[A-Za-z0-9+/]+={0,2}|\bAGE-SECRET-KEY-1[A-Z0-9]+"
    r"|\b(?:[A-Z0-9]{5}-){4}[A-Z0-9]{5}\b",
)
_KEY_OF_OCTETS: Final = re.compile(
    r"(?<![\w+/=])(?=[A-Z0-9+/]*[a-z])(?=[a-z0-9+/]*[A-Z])(?=[A-Za-z+/]*\d)"
    r"(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9][A-Za-z0-9+/]{39})(?![\w+/=])"
)
#: Values in base64 of kubeconfig, of docker's logins and of WireGuard; cookies; communities.
_STATED_ENCODED: Final = re.compile(
    r"(?<![A-Za-z])((?:auth|[\w-]{1,40}-data|(?:public|preshared|account|shared|client)[_-]?key)"
    r"\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']?)([A-Za-z0-9+/_-]{8,}={0,2})"
    r"|\b((?:Set-)?Cookie:\s{0,9})([^\r\n]+)|\b(community\s{1,9})(?!\(|is\b)([^\s\"',;:=]+)"
    r"|(?<![\w-])(sig=)([\w%+/=-]{8,})",
    re.I,
)
_STATED_LOGIN: Final = re.compile(r"\b(login\s{1,9}\S+\s{1,9}password\s{1,9})([^\s(]\S*)")
#: Commands that take a login or password behind a letter.
_COMMAND_WITH_LOGIN: Final = re.compile(
    r"\b(?:curl|wget|ipmitool|sshpass|mysql\w*|ldap\w+|smbclient|redis-cli)\s[^\n;|&]*"
)
_LOGIN_OPTION: Final = re.compile(
    r"((?<!\S)-[uUpPwa]\s{0,9}|(?<!\S)--(?:user|proxy-user)[\s=]{1,9})(?!\(redacted)([^\s-]\S*)"
)
_AUTHORIZATION: Final = re.compile(
    r"\b((?:Proxy-)?Authorization\s*[:=]\s*(?:\w+\s+)?|Bearer\s+|X-[\w-]*(?:Token|Key)\s*:\s*)"
    r"([^\s\"',;]+)",
    re.I,
)
_NAMES_OF_CREDENTIALS: Final = (
    r"[a-z]{0,16}passw(?:or)?d|[a-z]{0,16}secret|[a-z]{1,16}_pass|pass(?:word|wd|phrase|code)?|pwd|secret|token|psk|community|credentials?|api[_-]?key"
    r"|(?:access|private|secret|auth|ssh)[_-]?key"
)
#: What is said of a password or token in a message, in place of its value.
_SAID_INSTEAD: Final = (
    r"(?:a|an|the|no|not|now|too|in|of|for|from|only|set|unset|sent|given|missing|empty|wrong|invalid"
    r"|valid|expired|required|needed|unknown|refused|rejected|accepted|used|unused|hidden)(?![\w-])"
)
#: A quoted value ends at its quote, one behind `=` or of an option at a blank: a password may have
#: commas. A number behind `pass:` or `tokens:` is a count.
_VALUE: Final = r"\"[^\"\n]+\"|'[^'\n]+'"
_STATED_SECRET: Final = re.compile(
    rf"(?<![A-Za-z])((?:{_NAMES_OF_CREDENTIALS})s?[\"']?\s{{0,9}}=\s{{0,9}})(?![\"']?\(redacted)({_VALUE}|[\"']{{0,2}}[^\s\"']\S*)"
    rf"|(?<![A-Za-z])(?!(?:pass|[a-z_-]{{2,20}}s)\s{{0,9}}:\s{{0,9}}\d+(?![\w-]))"
    rf"((?:{_NAMES_OF_CREDENTIALS})s?\\?[\"']?\s{{0,9}}:\s{{0,9}}(?:\\(?=[\"']))?)(?![\"']?\(redacted)({_VALUE}|[\"']?[^\s\"',;&\\]+)"
    rf"|(?<![A-Za-z])((?:{_NAMES_OF_CREDENTIALS})s?\s{{1,9}}is\s{{1,9}})(?![\"']?\(redacted|{_SAID_INSTEAD})"
    rf"({_VALUE}|[\"']?[^\s\"',;&]+)"
    rf"|(?<![\w-])(--[\w-]{{0,64}}(?:{_NAMES_OF_CREDENTIALS})[\s=]+)(?![\"']?\(redacted)({_VALUE}|[\"']{{0,2}}[^\s\"']\S*)",
    re.I,
)
#: Keys of facts and settings whose values are secrets.
SECRET_KEY: Final = re.compile(rf"(?<![A-Za-z])(?:{_NAMES_OF_CREDENTIALS})$", re.I)

# Serial numbers and other numbers that identify one thing.
#: With a dash or an underscore between the groups, in braces, behind a word (`pod8f3c2a11_...`).
_UUID: Final = re.compile(
    rf"{_HEX}{{8}}([-_]){_HEX}{{4}}(?:\1{_HEX}{{4}}){{2}}\1{_HEX}{{12}}(?!\w)", re.I
)
#: Digits without a separator: MAC (12), EUI-64 and WWN (16), machine-id, UUID and GID (32),
#: InfiniBand (40), container id (64).
_DIGITS: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:0x)?(?:(?=\d*[a-f])(?:{_HEX}{{64}}|{_HEX}{{40}}|{_HEX}{{32}}|{_HEX}{{16}}"
    rf"|{_HEX}{{12}})|\d{{32}}|\d{{64}})(?![A-Za-z0-9])",
    re.I,
)
_MACHINE_ID: Final = re.compile(rf"(?<=machine_id=){_HEX}{{32}}", re.I)
#: Names of storage: iSCSI (RFC 3720), NVMe, T10; World Wide Names.
_STORAGE: Final = re.compile(
    r"\b(?:iqn|nqn)\.\d{4}[-.]\d\d\.[^\s\"',]+|\b(?:eui|naa)\.[0-9a-f]{16,32}\b"
    r"|\bwwn-0x[0-9a-f]+|\bscsi-[0-9a-f]{17,33}\b|\b(?:ata|nvme|scsi|usb)-[a-z0-9][\w.+-]*_[\w.+-]+"
    r"|(?<!\w)0x[1256]\d{15}(?!\w)|(?<![\w.])\d [0-9a-f]{6} [0-9a-f]{9}(?![\w.])",
    re.I,
)
#: Accounts and things of clouds, fingerprints in groups of four, octets as programs print them.
_IDENTITY: Final = re.compile(
    r"\barn:[\w-]+:[\w-]*:[\w-]*:\d{12}:[^\s\"',]+"
    r"|\b(?:i|vpc|eni|subnet|sg|vol|ami|rtb|igw|snap|eipalloc)-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![\w-])"
    r"|(?<!\w)(?:[0-9A-F]{4} {1,2}){9}[0-9A-F]{4}(?!\w)"
    rf"|(?:\\x{_HEX}{{2}}){{6,}}|\b0x{_HEX}{{2}}(?:,?\s{{1,4}}0x{_HEX}{{2}}){{5,}}(?!\w)"
)
_STATED_WWN: Final = re.compile(
    rf"\b((?:wwp?n?n?|(?:port|node|fabric)_(?:name|guid)|guid|duid|eui)\W{{1,9}})((?:0x)?{_HEX}{{16,40}})(?!\w)",
    re.I,
)
_SERIAL_WORD: Final = (
    r"s/n|sn|serial(?:[ _-]?(?:no\.?|number|num|short))?|iserial\s{1,20}\d{1,3}"
    r"|asset(?:[ _-]?(?:tag|no\.?|number))?|(?:service|svc)[ _-]?tag|p/n"
)
#: Behind a blank alone only what has a digit and a capital letter, or many digits, is a number.
_STATED_SERIAL: Final = re.compile(
    rf"(?<![A-Za-z0-9/])((?i:{_SERIAL_WORD})[\]\"']?(?:\s*[:=#]\s*)[\"']?)([\w.-]+)"
    rf"|(?<![A-Za-z0-9/])((?i:{_SERIAL_WORD})\]?\s+)(?!serial-)((?=[\w-]*\d)(?=[\w-]*[A-Z]|\d{{5}})[\w-]{{5,}})"
)
_LABEL: Final = re.compile(r"\b((?:PART)?(?:LABEL|UUID)=)([^\s\"',]+)")
#: Identities of SIM cards, phones and subscribers (3GPP TS 23.003), where they are named.
_STATED_SUBSCRIBER: Final = re.compile(
    r"\b((?:imsi|imei(?:sv)?|iccid|msisdn|supi|suci|gpsi|meid)(?:\W{1,3}|-)(?:imsi-)?)(?!00101)(\+?\d[\d-]{4,}\d)",
    re.I,
)
#: 15 digits: IMSI or IMEI; 19 or 20 that begin with 89: a SIM card. 001-01 is the test network.
_SUBSCRIBER: Final = re.compile(r"(?<![\w.])(?!00101)(?:\d{15}|89\d{17,18})(?![\w.])")
_PHONE: Final = re.compile(r"(?<![\w.+-])\+[1-9]\d{0,2}(?:[-/ ]\d{1,4}){2,4}(?![\w.-])")

# Addresses of hardware and machines.
#: Groups of two hexadecimal digits; 6 are a MAC address, 8 an EUI-64, 16 a GID, 20 InfiniBand's.
_OCTETS: Final = re.compile(
    _EDGE.format(rf"{_HEX}{{2}}(\\?[:-]){_HEX}{{2}}(?:\1{_HEX}{{2}}){{4,}}(?!\1)"), re.I
)
#: With separators that stand in versions and lists too: at least one letter.
_RARE_OCTETS: Final = re.compile(
    _EDGE.format(rf"{_HEX}{{2}}([._ ]){_HEX}{{2}}(?:\1{_HEX}{{2}}){{4,}}(?!\1{_HEX})"),
    re.I,
)
#: Octets without their leading zero.
_SHORT_OCTETS: Final = re.compile(
    r"(?<![A-Za-z0-9:.])(?=[\d:]*[a-f])(?:[0-9a-f]{1,2}:){5}[0-9a-f]{1,2}(?![A-Za-z0-9:.])", re.I
)
#: Groups of four: 3 are a MAC address, 4 an EUI-64, 10 InfiniBand's; 8 are IPv6.
_QUADS: Final = re.compile(
    rf"(?<![A-Za-z0-9:])(?:{_HEX}{{4}}([.:-]){_HEX}{{4}}\1{_HEX}{{4}}"
    rf"(?:\1{_HEX}{{4}}|(?:\1{_HEX}{{4}}){{7}})?)(?![A-Za-z0-9]|[:]{_HEX})",
    re.I,
)
_HALVES: Final = re.compile(_EDGE.format(rf"{_HEX}{{6}}[:-]{_HEX}{{6}}"), re.I)
#: Digits alone are an address with colons, or with a zero before as no version has.
_SEPARATED_NUMBERS: Final = re.compile(r"(?!0\d{3}\.)\d+(?:[._ -]\d+)+|\d{6}:\d{6}")
#: They are one in any spelling where a word or key before them says so.
DIGITS_OF_MAC: Final = (
    r"\d{12}|\d{6}[:-]\d{6}|\d{4}(?P<quad>[.:-])\d{4}(?P=quad)\d{4}"
    r"|\d\d(?P<octet>[:._ -])\d\d(?:(?P=octet)\d\d){4}"
)
_NAMES_OF_MAC: Final = (
    r"(?:(?:src|dst|perm|dut|peer|tester|local|remote)[_-]?)?(?:macs?|hwaddr|lladdr|ether|bssid)"
    r"|(?:mac|hw|hardware|ethernet|link[ _-]layer|perm(?:anent)?|physical)"
    r"[ _-]?addr(?:ess(?:es)?)?|link/ether"
)
#: Keys of facts and settings whose values are hardware addresses.
MAC_KEY: Final = re.compile(rf"(?:^|[\s_-])(?:{_NAMES_OF_MAC}|addr(?:ess(?:es)?)?)$", re.I)
_STATED_MAC: Final = re.compile(
    rf"(?<![A-Za-z])(?:{_NAMES_OF_MAC})[\"']?(?:\s?[=:]|\sis)?\s?[\"'\[]{{0,2}}"
    rf"(?P<mac>{DIGITS_OF_MAC})(?![\w.:-]?\d)",
    re.I,
)
_LINK_BY_MAC: Final = re.compile(rf"(?<=enx){_HEX}{{12}}(?!{_HEX})", re.I)
PCI: Final = re.compile(
    r"(?<![\w:.])(?:[0-9a-f]{4,5}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?!\w)", re.I
)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_DASHED_IPV4: Final = re.compile(r"(?<![\w-])ip(?:-\d{1,3}){4}(?![\w-])", re.I)
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*(?![\w:])", re.I)
#: What stands before four numbers that are a version: nothing, another number, or one of these.
_VERSION_BEFORE: Final = re.compile(
    r"(?:^|[\d)/(,;]|\b(?:v|ver|version|rev|release|fw|firmware|pkg|package|nvm|bc|phy|api|build|bios|boot|rom"
    r"|driver|ncsi|mfw|mcp|ucode|microcode|software))[\s:=/(v-]*$",
    re.I,
)

# People, and the names of machines.
_HOME: Final = re.compile(
    r"(?<=/home/)[^/\s'\"\\:=,;]+|(?<=/Users/)[^/\s'\"\\:=,;]+|(?<=:\\Users\\)[^/\s'\"\\]+"
    r"|(?:(?<=^~)|(?<=[\s=:'\"(,]~))[A-Za-z][\w.-]*(?=/)"
)
#: What follows @ in `ip link`: the interface below a VLAN or the peer of a pair.
_LOWER_LINK: Final = (
    r"(?:NONE|lo|if\d+|en[ops]\d\w*|enx[0-9a-f]{12}|(?:eth|bond|team|br|wlan|wlp|ib|veth|tap|tun"
    r"|dummy|vnet|vlan|macvlan|ipvlan|vxlan|phy)\d[\dfnpsv]*)(?:\.\d+)?(?![\w@-]|\.\w)"
)
_LABEL_OF_HOST: Final = r"[^\W_](?:[\w-]{0,62}\w)?"
_MAIL: Final = re.compile(
    rf"(?<![\w.+-])(?=[._+-]{{0,64}}[^\W_])([\w.+-]{{1,64}})@(?!{_LOWER_LINK})"
    rf"({_LABEL_OF_HOST}(?:\.{_LABEL_OF_HOST})+)"
)
#: A login without a domain.
_LOGIN: Final = re.compile(
    rf"(?<![\w.+@-])([^\W\d_][\w.+-]{{0,63}})@(?!{_LOWER_LINK})([^\W\d_][\w-]*)(?![\w@])"
)
#: An option's name stands in front of a blank too; `systemctl --user` has no name behind it.
_THING: Final = "(?:host|node|pod|container)"
_STATED_NAME: Final = re.compile(
    r"(?<![A-Za-z])((?:(?:SUDO_|LOG)?NAME|(?i:(?:SUDO_)?USER(?:NAME)?|LOGNAME|HOSTNAME))=)([\w.@-]+)"
    rf"|([\"'](?i:{_THING}_?name)[\"']\s?[:=]\s?[\"'])(?!unknown|not |none)([\w.-]+)"
    rf"|(?<![\w-])({_THING}(?:Name|_name)\s?[:=]\s?[\"']?)(?!unknown|not |none)([\w.-]+)"
    # As messages have them: of ssh and curl, sudo, id, and whoever puts a name into quotes.
    r"|((?:resolve host(?:name)?:?|connect to host)\s['\"]?)(?!unknown|name)([\w.-]+)"
    r"|((?:[ug]id|groups)=\d+\()([A-Za-z_][\w.-]*)(?=\))"
    rf"|({_THING}\s['\"])(?!(?:vnf|pod|phy|node)\d|vnetperf)([\w.-]+)(?=['\"])"
    r"|(?<!ctl )(?<!install )(?<![\w-])(--(?:user(?:name)?|login)[ =])([A-Za-z_][\w.@-]*)"
)
_OF_A_HOST: Final = re.compile(_THING, re.I)
_WITH_AT: Final = (_MAIL, _LOGIN)
_DIRECTORY_NAME: Final = re.compile(
    r"\b(?:cn|uid|ou|dc|sn)=[^,\s]+(?:,\s*(?:cn|uid|ou|dc|o|c|l|st)=[^,\s]+)+", re.I
)
_NT_ACCOUNT: Final = re.compile(r"(?<![\w\\])[A-Z][A-Z0-9-]{2,14}\\[a-z][\w.-]+")
_URL: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]+", re.I)
_LOOPBACK_URL: Final = re.compile(r"[a-z]+://(?:localhost|127\.[\d.]+|\[::1\])(?=[:/]|$)", re.I)
_REVERSE: Final = re.compile(r"(?<![\w.])(?:[0-9a-f]+\.)+(?:in-addr|ip6)\.arpa(?!\w)", re.I)
#: No letter or mark of a script: ASCII, and the signs of Latin-1, of punctuation and mathematics.
_SIGNS: Final = (
    r"\x00-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7\u2000-\u2bff\u3000-\u303f\uff00-\uff65\s"
)
#: A domain by its structure: labels with dots between, the last one letters alone, or punycode.
#: `_is_same_everywhere` tells files, modules and versions from it.
_DOTTED: Final = re.compile(
    rf"(?<![\w+~-])(?!-)(?:(?:[A-Za-z0-9_-]|[^{_SIGNS}]){{1,64}}[.\u3002\uff0e\uff61]){{1,127}}"
    rf"(?:xn--[a-z0-9-]*[a-z0-9]|[a-z]{{2,24}}|[^{_SIGNS}]{{1,63}})(?![\w-])(?![.\u3002]\w)",
    re.I,
)
#: Endings of files and units. One dot: with more, a country's ending is a host's (`a.b.py`).
_FILE_ENDINGS: Final = split_words("""
    automount bin cfg cnf conf config csv ctl data db deb device dll dtb efi elf env exe fd gz
    hex hpp html img ini iso jar js json jsonl ko lock log map mount obj out path pc pcap
    pcapng pem pid png pyc raw rom rpm rst rules scope slice sock socket service sql svg
    swap tar target tgz timer tmp toml ts txt vmdk whl xml xz yaml yml zst
""")
#: Endings of files that are domains as well: a file's where a path stands before, or a name that
#: no domain has (`test_x.py`, `librte_net.so`, `README.md`).
_FILES_OR_DOMAINS: Final = split_words("bz dev md mp py sh so zip")
_OWN_FILE: Final = re.compile(
    r"[A-Za-z0-9-]*_[\w-]*\.\w+|(?:conftest|setup)\.py|lib\w+\.so|[A-Z]+\.md"
)
#: The project's tests, functions of Python's modules and the kernel's settings, to their end: a
#: host may be called `docker` or `net.core` too. Classes are told by their capital letters.
_OWN_DOTTED: Final = re.compile(
    r"(?:tests|testcases|benchmarks)\.(?:\w+\.)*[A-Za-z0-9]*_\w*"
    r"|(?:os\.(?:path|environ|error|kill|fork|open|read|write)|json\.(?:dumps|loads|decoder|encoder)"
    r"|socket\.(?:timeout|gaierror|herror|error|socket)|subprocess\.(?:run|check)|asyncio\.(?:run|tasks|exceptions)"
    r"|pytest\.(?:fail|skip|exit|mark)|sys\.(?:argv|exit|stdin|stdout|stderr|modules|executable)"
    r"|concurrent\.futures|importlib\.(?:metadata|resources)|urllib\.(?:request|error|parse))"
    r"|(?:vnf|pod|phy)\d+\.(?:rx|tx|tun|gtp)"
    r"|(?:net\.(?:ipv[46]|core|bridge|netfilter|unix|mptcp)|kernel|vm|fs|dev|user)\.(?:[\w-]+\.)*[a-z0-9]*_\w*"
    r"|net\.(?:ipv[46]|core|bridge|netfilter)\.(?:[\w-]+\.)*(?:forwarding|somaxconn|autoconf|mtu|tag|bindv6only)"
)
#: Paths that every machine has, and the project's own; whatever else is a path has a token.
_SYSTEM_PATHS: Final = (
    r"usr/(?:bin|sbin|lib|lib64|libexec|share|local/s?bin)|bin|sbin|lib|lib64|proc|sys"
)
_SAME_PATHS: Final = (
    rf"(?:{_SYSTEM_PATHS}"
    r"|run/vnetperf|var/(?:lib|log)/vnetperf|etc/vnetperf|tmp/vnetperf|root/\.cache/vnetperf|autogroup-\d+|path-\d+"
    r"|etc/(?:passwd|group|hosts|os-release|sudoers\.d)"
    r"|dev/(?:vfio|uio\d*|hugepages|shm|kvm|net|null|zero|vhost-net|vhost-vsock|infiniband))"
)
_LONGEST_PATH: Final = 1024  # what is looked at before a name, octets
_BELOW_SAME_PATH: Final = re.compile(rf"(?<![\w/.])/(?:{_SYSTEM_PATHS})/(?:[^\s'\"]*/)?$")
#: A compiler's options have the path without a separator (`-I/home/...`); a home directory is one
#: wherever it stands, and a path that leads up or home too.
_PATH: Final = re.compile(
    rf"(?:(?<![\w/.)%\]}}])|(?<=(?<![\w-])-[A-Za-z]))/(?!{_SAME_PATHS}(?![\w.-]))[\w.+~@-]+(?:/[\w.+~@%:-]*)*(?<![.:])"
    r"|/(?:[\w.+~-]+/)*(?:home|Users)/[\w.+~@%:/-]+(?<![.:])"
    r"|(?<![\w/.)])(?:\.\.?(?:/\.\.)*|~[\w.-]*)/[\w.+~@-]+(?:/[\w.+~@%:-]*)*(?<![.:])"
    r"|(?<!\w)[A-Za-z]:\\[^\s\"'<>|]+|(?<![\w\\])\\\\[\w.-]+\\[^\s\"'<>|]+"
)
#: Characters of addresses and logins as a URL has them.
_ESCAPED: Final = re.compile(r"%(?:3A|40|2F|5B|5D)", re.I)
_BLOB: Final = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
HIDDEN: Final = "(redacted)"
#: PCI domain of tokens: no machine has so many.
_PSEUDO_DOMAIN: Final = "5e53"


#: What a JSON text within a text has in place of quotes, line ends and other characters.
_ESCAPE: Final = re.compile(r"(?<!\\)\\+(?:[\"/nrtbf]|u[0-9a-fA-F]{4})")
_ESCAPE_OR_QUOTE: Final = re.compile(rf'{_ESCAPE.pattern}|"')
#: Signs of which no text of ours has one: control pictures, no letters to any pattern here.
_STAND_INS: Final = tuple(map(chr, range(0x2400, 0x2427)))


def _find_inner_quotes(text: str) -> list[str]:
    """How the quotes of JSON texts within a text are written, for each depth of them."""
    escapes = dict.fromkeys(_ESCAPE.findall(text)) if "\\" in text else {}
    return [*(escape for escape in escapes if escape.endswith('"')), '"'] if escapes else []


def _read_inner_text(text: str, quote: str) -> tuple[str, dict[int, str]]:
    """A text as a JSON text within it reads, and what makes it a text of its own again.

    Quotes are quotes there and letters are letters; what else is escaped is a sign of no name.
    """
    signs = (sign for sign in _STAND_INS if sign not in text)
    to, back = {quote: '"'}, {ord('"'): quote}
    for piece in dict.fromkeys(_ESCAPE_OR_QUOTE.findall(text)):
        if "u" in piece and (letter := chr(int(piece[-4:], 16))).isalnum():
            to[piece] = letter
        elif piece not in to and (sign := next(signs, "")):
            to[piece], back[ord(sign)] = sign, piece
    return _ESCAPE_OR_QUOTE.sub(lambda match: to.get(match[0], match[0]), text), back


def names_in(text: str) -> Iterator[tuple[Kind, str]]:
    """Names that a text reveals by where they stand: below /home, in a mail address, a domain."""
    for quote in _find_inner_quotes(text):
        yield from _names_in(_read_inner_text(text, quote)[0])
    yield from _names_in(text)


def _names_in(text: str) -> Iterator[tuple[Kind, str]]:
    yield from (("users", name) for name in _HOME.findall(text))
    for match in _STATED_NAME.finditer(text):
        if _is_name(name := _stated(match)[1]):
            yield _choose_name_kind(match), name
    if "@" in text:
        for user, domain in (*_MAIL.findall(text), *_LOGIN.findall(text)):
            yield "users", user
            yield "hosts", domain
    text = _STORAGE.sub(" ", text)  # which is replaced as a whole
    yield from (("hosts", m[0]) for m in _DOTTED.finditer(text) if not _is_same_everywhere(m))


def _stated(match: re.Match[str]) -> tuple[str, str]:
    """What names a value, and the value."""
    word, value = (group for group in match.groups() if group is not None)
    return word, value


def _choose_name_kind(match: re.Match[str]) -> Kind:
    return "hosts" if _OF_A_HOST.search(_stated(match)[0]) else "users"


def _is_name(text: str) -> bool:
    """Whether it is somebody's name: `user=0.02` is a time, `user=root` is on every machine."""
    return not re.fullmatch(r"[\d.]+(?:%|[a-z]{1,2})?", text) and text.casefold() not in EVERYWHERE


def _is_same_everywhere(match: re.Match[str]) -> bool:
    """Whether a name with dots is a file's, a module's, a setting's of the kernel or a version."""
    labels = match[0].split(".")
    endings = {label.lower() for label in labels[1:] if not label.isdigit()}
    if _is_package_module(labels) or _OWN_DOTTED.fullmatch(match[0]) or endings <= _FILE_ENDINGS:
        return True
    is_file = match.string.startswith("/", match.start() - 1) or _OWN_FILE.fullmatch(match[0])
    if is_file and endings <= _FILE_ENDINGS | _FILES_OR_DOMAINS:
        return True
    is_option = len(labels) == 2 and match.string.startswith("=", match.end())
    if is_option or _BELOW_SAME_PATH.search(
        match.string, max(0, match.start() - _LONGEST_PATH), match.start()
    ):
        return True
    if re.search("[a-z][A-Z]", labels[-1]):  # a class
        return True
    is_version = re.fullmatch(r"v?\d+", labels[0]) and re.match(r"\d", labels[1])
    return bool(is_version) and sum(label.isalpha() for label in labels) <= 1


def _is_package_module(labels: list[str]) -> bool:
    """Whether a file of the package has this name, with at most two names within it behind."""
    if labels[0] != _PACKAGE.name:
        return False
    place = _PACKAGE
    for n, label in enumerate(labels[1:], 2):
        place /= label
        if place.with_suffix(".py").is_file():
            return len(labels) - n <= 2
        if not place.is_dir():
            return False
    return True


class Pseudonyms:
    """Tokens for what must not be published."""

    def __init__(self, kept: Iterable[Kind] = (), standing: Iterable[str] = ()) -> None:
        """Begin with the kinds that are kept, and the tokens that stand in what is a copy."""
        self.kept = frozenset(kept)
        self._tokens = set(standing)
        self._tokens_by_kind: dict[Kind, dict[str, str]] = {kind: {} for kind in KINDS}
        self._names: re.Pattern[str] | None = None
        self._done: dict[tuple[str, bool, bool], str] = {}
        self._kind_of: dict[str, Kind] = {}

    @property
    def counts(self) -> dict[str, int]:
        """What a value is called -> how many different ones have a token."""
        return {KINDS[kind]: len(tokens) for kind, tokens in self._tokens_by_kind.items() if tokens}

    def know(self, kind: Kind, name: str) -> None:
        """Have a name replaced wherever it stands."""
        name = name.strip()
        if name and kind not in self.kept and name not in self._tokens:
            self._kind_of.setdefault(name.casefold(), kind)
            self._names = None
            self._done.clear()

    def token(self, kind: Kind, value: str) -> str:
        """The token of a value, or the value where its kind is kept or it is a token."""
        if kind in self.kept or value in self._tokens or value == HIDDEN:
            return value
        tokens = self._tokens_by_kind[kind]
        if value.casefold() not in tokens:
            number = len(tokens) + 1
            # A machine may be called as a token is: that name is another machine's.
            while (pseudonym := self._make(kind, value, number)) in self._tokens or (
                pseudonym.casefold() in self._kind_of
            ):
                number += 1
            self._tokens.add(pseudonym)
            tokens[value.casefold()] = pseudonym
        return tokens[value.casefold()]

    def survivors(self, text: str) -> list[str]:
        """Values with a token that a text still holds: none, unless something went wrong."""
        named: list[Kind] = ["hosts", "users", "testbeds", "words"]
        values: dict[str, str] = {}
        for kind in named:
            values |= {_pattern(v): kind for v in self._tokens_by_kind[kind] if v in self._kind_of}
        values |= {_pattern(v): "serials" for v in self._tokens_by_kind["serials"]}
        values |= {_pattern(v): "devices" for v in self._tokens_by_kind["devices"]}
        values |= {
            _EDGE.format("[:.-]?".join(v.replace(":", ""))): "macs"
            for v in self._tokens_by_kind["macs"]
        }
        if not re.search("|".join(values) or "(?!)", text, re.IGNORECASE):
            return []
        kinds = (kind for v, kind in values.items() if re.search(v, text, re.IGNORECASE))
        return sorted({KINDS[cast("Kind", kind)] for kind in kinds})

    def _make(self, kind: Kind, value: str, number: int) -> str:
        if kind == "macs":
            digits = f"{number:06x}"
            return f"02:5e:53:{digits[:2]}:{digits[2:4]}:{digits[4:]}"
        if kind == "devices" and not PCI.fullmatch(value):
            return f"nic-{number}"
        if kind == "devices":
            return f"{_PSEUDO_DOMAIN}:{number >> 5:02x}:{number & 31:02x}.0"
        if kind == "addresses":
            if ":" in value:
                return f"2001:db8::{number:x}"
            return f"203.0.113.{number}" if number < 255 else f"(address {number})"
        return _PSEUDONYMS[kind].format(number)

    def plain(self, text: str, *, versions: bool = False, hashes: bool = False) -> str:
        """A text without what must not be published.

        With `versions` four numbers with dots may be a version, with `hashes` long hexadecimal
        numbers identify a build or an octet string.
        """
        key = text, versions, hashes
        if key not in self._done:  # thread and port names stand in every trial
            changed = text
            for quote in _find_inner_quotes(text):
                read, back = _read_inner_text(changed, quote)
                if (hidden := self._plain(read, versions=versions, hashes=hashes)) != read:
                    changed = hidden.translate(back)
            self._done[key] = self._plain(changed, versions=versions, hashes=hashes)
        return self._done[key]

    def _plain(self, text: str, *, versions: bool, hashes: bool) -> str:
        changed = self._replace_names(_ESCAPED.sub(lambda m: unquote(m[0]), text))
        for pattern, put in self._patterns(hashes):
            if pattern not in _WITH_AT or "@" in changed:
                changed = pattern.sub(put, changed)
        is_version = versions and _IPV4.fullmatch(changed)
        if not is_version:
            changed = _IPV4.sub(self._unless_version if versions else self._address, changed)
        return _BLOB.sub(self._blob, changed)

    def _replace_names(self, text: str) -> str:
        """Replace known names, the longest first."""
        if self._names is None:
            names = sorted(self._kind_of, key=len, reverse=True)
            self._names = re.compile("|".join(map(_pattern, names)) or "(?!)", re.IGNORECASE)
        return self._names.sub(self._replace_name, text)

    def _replace_name(self, match: re.Match[str]) -> str:
        spelling = match[0].casefold()
        name = spelling if spelling in self._kind_of else spelling.replace("--", "-")
        return self.token(self._kind_of[name], name)

    def _patterns(self, hashes: bool) -> list[tuple[re.Pattern[str], Put]]:
        """What is looked for, in this order: what holds a smaller one comes before it."""
        patterns: list[tuple[re.Pattern[str], Put]] = [
            *((pattern, self._put("secrets")) for pattern in (_PEM, _SSH_KEY, _FINGERPRINT)),
            *((p, self._put("secrets")) for p in (_JWT, _MARKED_TOKEN, _PLAIN_SECRET)),
            *((pattern, self._put("serials")) for pattern in (_STORAGE, _IDENTITY)),
            (_COMMAND_WITH_LOGIN, self._command_with_login),
            (_URL, self._url),
            *((pattern, self._stated("secrets")) for pattern in (_STATED_ENCODED, _STATED_LOGIN)),
            *((pattern, self._stated("secrets")) for pattern in (_AUTHORIZATION, _STATED_SECRET)),
            (_STATED_WWN, self._stated("serials")),
            *((pattern, self._stated("serials")) for pattern in (_LABEL, _STATED_SERIAL)),
            (_STATED_SUBSCRIBER, self._stated("serials")),
            (_UUID, self._put("serials")),
            (_PATH, self._put("paths")),
            *((pattern, self._hardware) for pattern in (_OCTETS, _RARE_OCTETS, _SHORT_OCTETS)),
            *((pattern, self._hardware) for pattern in (_QUADS, _HALVES)),
            (_STATED_MAC, self._stated_mac),
            (_LINK_BY_MAC, self._link),
            (_MACHINE_ID, self._put("serials")),
            (_HOME, self._put("users")),
            (_STATED_NAME, self._name),
            *((pattern, self._put("users")) for pattern in (_DIRECTORY_NAME, _NT_ACCOUNT, _MAIL)),
            (_LOGIN, lambda m: f"{self.token('users', m[1])}@{self.token('hosts', m[2])}"),
            *((pattern, self._put("hosts")) for pattern in (_REVERSE, _DASHED_IPV4)),
            (_DOTTED, lambda m: m[0] if _is_same_everywhere(m) else self.token("hosts", m[0])),
            (PCI, self._device),
            (_IPV6, self._address),
            *((pattern, self._put("serials")) for pattern in (_SUBSCRIBER, _PHONE)),
        ]
        random = ((pattern, self._random) for pattern in (_RANDOM, _KEY_OF_OCTETS))
        return patterns if hashes else [*patterns, (_DIGITS, self._hardware), *random]

    def _put(self, kind: Kind) -> Put:
        """Replace the whole of what is found."""
        return lambda match: self.token(kind, match[0])

    def _stated(self, kind: Kind) -> Put:
        """Replace what stands behind the word that names it."""

        def put(match: re.Match[str]) -> str:
            word, value = _stated(match)
            quote = value[0] if value[0] in "\"'" and value[-1] == value[0] else ""
            return word + quote + self.token(kind, value.strip(quote or None)) + quote

        return put

    def _command_with_login(self, match: re.Match[str]) -> str:
        """Replace what stands behind a command's options for logins and passwords."""
        return _LOGIN_OPTION.sub(self._stated("secrets"), match[0])

    def _name(self, match: re.Match[str]) -> str:
        """Replace the name of a user or host behind the variable or option that gives it."""
        word, name = _stated(match)
        return word + self.token(_choose_name_kind(match), name) if _is_name(name) else match[0]

    def _device(self, match: re.Match[str]) -> str:
        if match[0].startswith(_PSEUDO_DOMAIN):
            return match[0]
        address = match[0] if match[0].count(":") == 2 else f"0000:{match[0]}"
        return match[0] if "devices" in self.kept else self.token("devices", address)

    def _url(self, match: re.Match[str]) -> str:
        if "hosts" in self.kept:
            return match[0]
        if _LOOPBACK_URL.match(match[0]):
            place, mark, _ = re.split(r"([?#]|$)", match[0], maxsplit=1)
            return place + (mark and f"{mark}{HIDDEN}")
        scheme = match[0].partition("://")[0]
        return f"{scheme}://{HIDDEN}"

    def _hardware(self, match: re.Match[str]) -> str:
        """Six octets are a MAC address in any spelling; others identify a thing as well."""
        is_rare = match.re in (_RARE_OCTETS, _QUADS, _HALVES)
        if is_rare and _SEPARATED_NUMBERS.fullmatch(match[0]):
            return match[0]
        digits = re.sub("[^0-9a-f]", "", match[0].lower().removeprefix("0x"))
        if pieces := re.split("[:]", match[0]) if match.re is _SHORT_OCTETS else []:
            digits = "".join(piece.lower().zfill(2) for piece in pieces)
        if len(digits) != 12:
            return self.token("serials", match[0])
        mac_token = self.mac(digits)
        return match[0] if mac_token == digits else mac_token

    def mac(self, text: str) -> str:
        """The token of what is known to be a MAC address, whatever separates its octets."""
        digits = re.sub("[^0-9a-f]", "", text.lower())
        plain = ":".join(digits[n : n + 2] for n in range(0, 12, 2))
        if plain.startswith((_OWN_MAC, _PSEUDO_MAC)) or "macs" in self.kept:
            return text
        return self.token("macs", plain)

    def _stated_mac(self, match: re.Match[str]) -> str:
        start = match.start("mac") - match.start()
        return match[0][:start] + self.mac(match["mac"])

    def _link(self, match: re.Match[str]) -> str:
        mac = ":".join(match[0][n : n + 2] for n in range(0, 12, 2)).lower()
        return match[0] if "macs" in self.kept else self.token("macs", mac).replace(":", "")

    def _address(self, match: re.Match[str]) -> str:
        try:
            # Leading zeros are some tools' way to align addresses.
            plain = re.sub(r"\b0+(?=\d)", "", match[0]) if ":" not in match[0] else match[0]
            address: IPv4Address | IPv6Address = ip_address(plain.rstrip("."))
        except ValueError:  # tcpdump puts a port behind a dot
            host, dot, port = match[0].rpartition(".")
            if not (dot and port.isdecimal() and ":" in host):
                return match[0]
            host_match = _IPV6.fullmatch(host)
            return f"{self._address(host_match)}.{port}" if host_match else match[0]
        if any(address in network for network in _PUBLIC if network.version == address.version):
            return match[0]
        rest = match[0][len(match[0].rstrip(".")) :]
        return self.token("addresses", str(address)) + rest

    def _unless_version(self, match: re.Match[str]) -> str:
        """Four numbers in a text about versions: the words before them tell which it is."""
        is_version = _VERSION_BEFORE.search(match.string[: match.start()])
        return match[0] if is_version else self._address(match)

    def _random(self, match: re.Match[str]) -> str:
        """A key, unless it is a text in base64, which is looked into."""
        return match[0] if _text_in(match[0]) else self.token("secrets", match[0])

    def _blob(self, match: re.Match[str]) -> str:
        """Base64, hidden where its text has something that must not be published."""
        text = _text_in(match[0])
        is_clean = self._replace_names(text) == text and not any(names_in(text))
        return match[0] if is_clean else HIDDEN


def _text_in(blob: str) -> str:
    """The text of base64; "" where it is none."""
    try:
        return base64.b64decode(blob, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _pattern(name: str) -> str:
    """A name as it may stand in a text; volumes have its hyphens doubled."""
    text = re.escape(name).replace(r"\-", "--?")
    # Tokens are alike: host-1 is no part of host-10.
    is_part = len(name) >= _LONG_NAME and not TOKEN.fullmatch(name)
    return text if is_part else _EDGE.format(text)
