"""`vnetperf publish RUN`: gives results to a TestAPI-like endpoint, or writes OpenMetrics text."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vnetperf.cli import read_records
from vnetperf.model.errors import ConfigError

if TYPE_CHECKING:
    from vnetperf.model.result import RunResults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "run", nargs="?", default="latest", help="a run's folder, or its name (default: latest)"
    )
    parser.add_argument("--openmetrics", metavar="FILE", help="write OpenMetrics text; - prints it")
    parser.add_argument("--testapi", metavar="URL", help="post to this address, .../api/v1/results")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file whose first line is the token; else the variable TESTAPI_TOKEN",
    )
    parser.add_argument(
        "--token-header", default="X-Auth-Token", help="header of the token (default: X-Auth-Token)"
    )
    parser.add_argument("--project", default="vnetperf", help="project the results are filed under")
    parser.add_argument("--pod", default="", help="name of the machines (default: the testbed's)")
    parser.add_argument(
        "--build-tag", default="", help="the CI job (default: the variable BUILD_TAG, or the start)"
    )
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for an answer (10)")
    parser.add_argument("--tries", type=int, default=4, help="times a document is posted (4)")
    parser.add_argument("--ca-file", metavar="FILE", help="trust these certificates instead")
    parser.add_argument(
        "--insecure", action="store_true", help="no check of certificates, tokens over plain HTTP"
    )


def run(arguments: argparse.Namespace) -> int:
    """Publish."""
    from vnetperf.analysis.results_from_log import derive
    from vnetperf.report import write_atomically
    from vnetperf.report.publish import openmetrics

    if not (arguments.openmetrics or arguments.testapi):
        raise ConfigError(
            "nothing was asked for", where="publish", accepted="--openmetrics FILE, --testapi URL"
        )
    results = derive(read_records(arguments.run)[1])
    if arguments.openmetrics == "-":
        sys.stdout.write(openmetrics(results))
    elif arguments.openmetrics:
        path = Path(arguments.openmetrics)
        write_atomically(path, openmetrics(results))
        print(path)
    if arguments.testapi:
        return _post_all(arguments, results)
    return 0


def _post_all(arguments: argparse.Namespace, results: RunResults) -> int:
    from vnetperf.report.publish import (
        PostEndpoint,
        TestApiNames,
        documents_for_testapi,
        post_document,
    )

    endpoint = PostEndpoint(
        url=arguments.testapi,
        token=_token(arguments.token_file),
        header=arguments.token_header,
        timeout_s=arguments.timeout,
        tries=arguments.tries,
        ca_file=Path(arguments.ca_file) if arguments.ca_file else None,
        insecure=arguments.insecure,
    )
    endpoint.check()
    names = TestApiNames(
        project=arguments.project,
        pod=arguments.pod,
        build_tag=arguments.build_tag or os.environ.get("BUILD_TAG", ""),
    )
    for document in documents_for_testapi(results, names):
        post_document(endpoint, document)
        print(f"posted: {document['case_name']}: {document['criteria']}", file=sys.stderr)
    return 0


#: More characters no token has.
_LONGEST_TOKEN = 1 << 16


def _token(file: str | None) -> str:
    """The token, from a file or the environment: a command line is seen by every user."""
    from vnetperf.config.files import read_user_text
    from vnetperf.report.publish import TOKEN_VARIABLE

    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    path = Path(file)
    try:
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            raise ConfigError(
                "others can read the token", where=file, cure=f"run `chmod 600 {path}`"
            )
        if path.is_fifo():  # as of `--token-file <(pass show token)`
            with path.open(encoding="utf-8") as pipe:
                lines = [pipe.readline(_LONGEST_TOKEN)]
        else:
            lines = read_user_text(path).splitlines()
    except (OSError, ValueError) as error:  # ValueError: no text, or a name that none can have
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"the token cannot be read: {reason}", where=file, cure="name its file"
        ) from None
    if not lines or not lines[0].strip():
        raise ConfigError("the file is empty", where=file, cure="put the token on its first line")
    return lines[0].strip()
