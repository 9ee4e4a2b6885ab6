"""`vnetperf redact RUN -o COPY`: a copy of a run without names, MACs, serials and addresses."""

from __future__ import annotations

import argparse
import getpass
import pwd
import socket
from collections.abc import Iterator
from pathlib import Path

from vnetperf.cli import add_results_dir, find_runs_folder
from vnetperf.log.pseudonyms import KINDS, Kind
from vnetperf.model.errors import LogError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("run", help="a run's folder, or its name in the folder of results")
    parser.add_argument("-o", "--output", required=True, help="folder of the copy; made")
    parser.add_argument(
        "--word",
        action="append",
        default=[],
        help="a word that must not be told either, e.g. a company's name (may be repeated)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        choices=sorted(KINDS),
        help="what is left as it is (may be repeated)",
    )
    add_results_dir(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the copy."""
    from vnetperf.analysis.runs import find_run

    run = find_run(arguments.run, find_runs_folder([arguments.run], arguments.results_dir))
    source = run.parent if run.is_file() else run
    copy = redact(source, Path(arguments.output), arguments.word, arguments.keep)
    for line in copy:
        print(line)
    return 0


def redact(source: Path, target: Path, words: list[str], keep: list[Kind]) -> list[str]:
    """Make a redacted copy of a run."""
    from vnetperf.analysis.results_from_log import derive
    from vnetperf.log.folder import read_run
    from vnetperf.log.redaction import Redactor
    from vnetperf.log.trial_log import LOG_NAME, encode_records, read_log
    from vnetperf.report import write_all

    records = read_run(source)  # first: a log that was edited is not given away as a good one
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LogError(
            "the folder for the copy is in use", where=str(target), cure="name one that is not"
        )
    redactor = Redactor(
        records,
        kept=keep,
        words=words,
        names=_machine_names(),
        accounts=_accounts(),
        public=_shipped_texts(),
    )
    dropped = {redactor.tokens.plain(name): reason for name, reason in _dropped(source)}
    redacted_records = redactor.redacted(dropped)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = target / LOG_NAME
    with log.open("xb") as file:
        file.writelines(encode_records(redacted_records))
    log.chmod(0o600)
    results = derive(read_log(log))
    written = [log, *write_all(results, target)]
    for path in written:
        if survivors := redactor.tokens.survivors(path.read_text(errors="replace")):
            for made_here in written:
                made_here.unlink()
            raise LogError(
                f"a {' and a '.join(survivors)} would still stand in {path.name}; there is no copy",
                where=str(source),
                cure="name it with --word if it is written in another way; tell the maintainers",
            )
    said = [f"{number} x {kind}" for kind, number in redactor.tokens.counts.items()]
    lines = [f"{target}: {len(written)} files; replaced: {', '.join(said) or 'nothing'}"]
    lines += [f"not replaced everywhere: {text}" for text in redactor.limited.values()]
    lines += [f"left out: {name}: {reason}" for name, reason in dropped.items()]
    return lines


def _machine_names() -> Iterator[tuple[Kind, str]]:
    """Names of the machine that makes the copy, and of who does: often those of the run too."""
    yield "hosts", socket.gethostname()
    try:
        yield "users", getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return


#: Numbers that people's accounts have, not those of the system and of guests' users.
_PEOPLE = range(1000, 60_000)


def _accounts() -> Iterator[str]:
    """Users of this machine, by their number or their home."""
    for account in pwd.getpwall():
        if account.pw_uid in _PEOPLE or Path(account.pw_dir).parent == Path("/home"):
            yield account.pw_name


def _shipped_texts() -> Iterator[str]:
    """What the testbeds that come with the project say: it is the same for everybody."""
    from vnetperf.config.files import conf_dirs, read_toml

    for path in (conf_dirs()[-1] / "testbeds").glob("*.toml"):
        content = read_toml(path)
        yield from (str(content.get(key, "")) for key in ("description", "isolation"))


def _dropped(source: Path) -> Iterator[tuple[str, str]]:
    """Files that are not given away, and why."""
    from vnetperf.report import REPORTS

    for path in sorted(source.rglob("*")):
        name = str(path.relative_to(source))
        if path.is_dir() or name in REPORTS or path.match("trials*.jsonl"):
            continue
        if path.suffix == ".pcap":
            yield name, "captured frames hold addresses and are not looked through"
        else:
            yield name, "it is no report of vnetperf, and is not looked through"
