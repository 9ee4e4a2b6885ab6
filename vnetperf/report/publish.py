"""Results in the formats of other systems: OpenMetrics text, documents for OPNFV's TestAPI."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import re
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from vnetperf.analysis.metrics import (
    Metric,
    explain_missing_number,
    list_goal_metrics,
    list_named_metrics,
)
from vnetperf.analysis.run_metrics import OtherCase, other_cases
from vnetperf.model.errors import VnetperfError
from vnetperf.model.outcomes import Spread
from vnetperf.model.result import GoalResult, Result, RunResults
from vnetperf.report import summary

#: Ends every text, so that a cut one is known.
OPENMETRICS_END: Final = "# EOF\n"
_LABEL_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
Labels = Mapping[str, str]


@dataclass
class MetricFamily:
    """Samples of one name."""

    name: str
    text: str  # What it is
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float | None) -> None:
        """Add a sample; nothing where there is no number."""
        if value is not None:
            self.samples.append(({k: v for k, v in labels.items() if v}, float(value)))

    def lines(self) -> Iterator[str]:
        """The text of the family, without ends of lines; none without samples."""
        if not self.samples:
            return
        yield f"# TYPE {self.name} gauge"
        yield f"# HELP {self.name} {_escape_label(self.text)}"
        for labels, value in self.samples:
            inside = ",".join(
                f'{_LABEL_NAME.sub("_", k)}="{_escape_label(v)}"' for k, v in labels.items()
            )
            yield f"{self.name}{{{inside}}} {value:.10g}"


def openmetrics(results: RunResults) -> str:
    """The numbers of a run."""
    families = {
        name: MetricFamily(f"vnetperf_{name}", text)
        for name, text in (
            # The text format of Prometheus has no type "info", and collectors of files refuse it.
            ("run_info", "The run that these numbers are of."),
            ("run_start_time_seconds", "When the run began, seconds since 1970."),
            ("run_end_time_seconds", "When it ended; absent when it was interrupted."),
            ("case_measured", "1 where a case has a result, 0 where it has none."),
            ("case_trial_seconds", "Seconds of traffic."),
            ("case_trials", "Trials run."),
            ("throughput_fps", "Load of a bound, aggregate frames/s (RFC 2544 26.1)."),
            ("throughput_direction_fps", "The same for each direction."),
            ("throughput_regular", "0 where a bound is missing or the width not met."),
            ("latency_seconds", "Latency at the lower bound."),
            ("quantity", "What else was found, with the unit as a label."),
        )
    }
    _run_samples(families, results)
    # Of a case several results are transfers that failed: it is not measured, and said once.
    cases = {(r.scenario, r.test, r.size_name): r for r in results.results}
    for result in cases.values():
        _result_samples(families, result)
    _other_samples(families, results)
    lines = [line for family in families.values() for line in family.lines()]
    return "\n".join(lines) + f"\n{OPENMETRICS_END}"


def _run_samples(families: Mapping[str, MetricFamily], results: RunResults) -> None:
    run = results.run
    labels_of_run = {
        "tool": run.tool,
        "git": run.git,
        "preset": results.preset,
        "benchmark": "yes" if summary.is_benchmark(results) else "no",
        "testbed": run.testbed,
        "virtual_lab": "yes" if results.virtual_lab else "no",
        "redacted": "yes" if results.redacted else "no",
    }
    families["run_info"].add(labels_of_run, 1)
    families["run_start_time_seconds"].add({}, _unix_seconds(run.started))
    families["run_end_time_seconds"].add({}, _unix_seconds(run.ended))


def _unix_seconds(when: str) -> float | None:
    return datetime.fromisoformat(when).timestamp() if when else None


def _result_samples(families: Mapping[str, MetricFamily], result: Result) -> None:
    labels = {"scenario": result.scenario, "test": result.test, "frame_size": result.size_name}
    families["case_measured"].add(labels, not explain_missing_number(result))
    if result.status != "measured":
        return
    families["case_trials"].add(labels, result.trial_count)
    families["case_trial_seconds"].add(labels, result.trial_seconds)
    for goal in result.goals:
        _goal_samples(families, labels | {"goal": goal.name}, result, goal)
    for metric in list_named_metrics(result):
        metric_labels = labels | {
            "item": metric.item,
            "direction": metric.direction,
            "name": metric.name,
            "unit": metric.unit,
        }
        _quantity(families, metric_labels, metric)


def _quantity(families: Mapping[str, MetricFamily], labels: Labels, metric: Metric) -> None:
    families["quantity"].add(labels, metric.number)
    if isinstance(metric.value, Spread):
        for end in ("low", "high"):
            families["quantity"].add({**labels, "interval": end}, getattr(metric.value, end))


def _other_samples(families: Mapping[str, MetricFamily], results: RunResults) -> None:
    """Of transfers and pods; a case is measured where no transfer of its kind and size failed."""
    cases = {(r.scenario, r.test, r.size_name) for r in results.results}
    for case in other_cases(results):
        labels = {"scenario": case.scenario, "test": case.test, "frame_size": case.size}
        if (case.scenario, case.test, case.size) not in cases:
            cases.add((case.scenario, case.test, case.size))
            families["case_measured"].add(labels, 1)
        about = {key: str(value) for key, value in case.conditions.items() if value is not None}
        for metric in case.metrics:
            _quantity(families, labels | about | {"name": metric.name, "unit": metric.unit}, metric)


def _goal_samples(
    families: Mapping[str, MetricFamily], labels: Labels, result: Result, goal: GoalResult
) -> None:
    for metric in list_goal_metrics(result, goal):
        metric_labels, value = {**labels, "direction": metric.direction}, metric.number
        bound = metric.name.removesuffix("_throughput").removesuffix("_bound")
        if metric.name == "regular":
            families["throughput_regular"].add(metric_labels, value)
        elif metric.unit == "ns" and value is not None:
            part = metric.name.removeprefix("latency_")
            is_level = part.startswith("p")
            metric_labels |= {"percentile": part[1:]} if is_level else {"statistic": part}
            families["latency_seconds"].add(metric_labels, value / 1e9)
        elif metric.direction and bound == "lower":
            families["throughput_direction_fps"].add(metric_labels | {"bound": bound}, value)
        elif metric.unit == "fps" and not metric.direction:
            metric_labels |= {"bound": bound, "qualifier": goal.qualifier}
            families["throughput_fps"].add(metric_labels, value)
        elif metric.unit != "fps":
            families["quantity"].add(
                metric_labels | {"name": metric.name, "unit": metric.unit}, value
            )


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


_CASE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class TestApiNames:
    """What results are filed under; the endpoint must know project, case and pod."""

    __test__ = False  # pytest would otherwise try to collect the name

    project: str = "vnetperf"
    pod: str = ""  # The machines; "" for the testbed's name
    build_tag: str = ""  # The job that made the run; "" for the time it began
    installer: str = "none"  # What installed the DUT


def documents_for_testapi(results: RunResults, names: TestApiNames) -> Iterator[dict[str, Any]]:
    """The documents of a run."""
    cases: dict[tuple[str, str], list[Result]] = {}
    for result in results.results:
        cases.setdefault((result.scenario, result.test), []).append(result)
    others: dict[tuple[str, str], list[OtherCase]] = {}
    for case in other_cases(results):
        others.setdefault((case.scenario, case.test), []).append(case)
    run = results.run
    for scenario, test in dict.fromkeys((*cases, *others)):
        members = cases.get((scenario, test), [])
        sizes: dict[str, dict[str, Any]] = {}
        for case in others.get((scenario, test), ()):
            details = sizes.setdefault(case.size, {"status": "measured", "found": []})
            details["found"] += [_other_document(case, metric) for metric in case.metrics]
        for result in members:
            size = result.full_size_name
            sizes[size] = sizes.get(size, {}) | _result_details(result)
        yield {
            "project_name": names.project,
            "case_name": _CASE_NAME.sub("_", f"{scenario}_{test}"),
            "pod_name": names.pod or run.testbed or "none",
            "installer": names.installer,
            "version": run.tool,
            "scenario": scenario,
            "build_tag": names.build_tag or run.started,
            "start_date": _testapi_date(run.started),
            "stop_date": _testapi_date(run.ended),
            "criteria": "PASS" if all(map(_passed, members)) else "FAIL",
            "details": {
                "preset": results.preset,
                "benchmark": summary.is_benchmark(results),
                "virtual_lab": results.virtual_lab,
                "git": run.git,
                "warnings": list(results.warnings),
                "frame_sizes": sizes,
            },
        }


def _testapi_date(when: str) -> str:
    """A time as TestAPI has it, "2026-11-22 05:50:51"; UTC."""
    return when[:19].replace("T", " ")


def _passed(result: Result) -> bool:
    missed = any(goal.lower_bound_fps is None for goal in result.goals)
    return not missed and not explain_missing_number(result)


#: Units whose names stand behind those of numbers.
_UNIT_NAMES: Final = {"fps": "_fps", "bit/s": "_bps", "ns": "_ns", "s": "_s"}


def _goal_numbers(metrics: Iterable[Metric]) -> dict[str, Any]:
    """The numbers of a goal: of all directions by name, those of one as they are found."""
    goal_metrics = list(metrics)
    totals = {
        m.name + _UNIT_NAMES.get(m.unit, ""): m.number for m in goal_metrics if not m.direction
    }
    parts = [_metric_document(m) for m in goal_metrics if m.direction]
    return totals | ({"directions": parts} if parts else {})


def _metric_document(metric: Metric) -> dict[str, Any]:
    """One line of the table of metrics; what it does not have is left out."""
    document = {
        "item": metric.item,
        "direction": metric.direction,
        "name": metric.name,
        "unit": metric.unit,
        "value": metric.number,
        "note": metric.note,
        "qualifiers": [*metric.qualifiers, *filter(None, [metric.partial])] or None,
    }
    if isinstance(metric.value, Spread):
        document |= {key: getattr(metric.value, key) for key in ("n", "low", "high", "stdev")}
    return {key: value for key, value in document.items() if value not in (None, "")}


def _other_document(case: OtherCase, metric: Metric) -> dict[str, Any]:
    about = {key: value for key, value in case.conditions.items() if value is not None}
    return _metric_document(metric) | ({"conditions": about} if about else {})


def _result_details(result: Result) -> dict[str, Any]:
    if result.status != "measured":
        return {"status": result.status, "why": result.why}
    goals = {
        goal.name: {
            "loss_ratio": goal.loss_ratio,
            "exceed_ratio": goal.exceed_ratio,
            "qualifier": goal.qualifier,
            "reason": goal.reason,
            "repeatable": goal.repeatable,
            **_goal_numbers(list_goal_metrics(result, goal)),
        }
        for goal in result.goals
    }
    quantities = [_metric_document(metric) for metric in list_named_metrics(result)]
    return {
        "status": result.status,
        "trials": result.trial_count,
        "trial_seconds": result.trial_seconds,
        **({"goals": goals} if goals else {}),
        **({"found": quantities} if quantities else {}),
    }


TOKEN_VARIABLE: Final = "TESTAPI_TOKEN"  # noqa: S105 - the variable's name
#: Answers after which the same document may be taken: overload, restarts, gateways.
_RETRY_STATUS: Final = (408, 425, 429, 500, 502, 503, 504)
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_SHOWN_OCTETS: Final = 200
_READ_OCTETS: Final = 1 << 20
#: Visible ASCII (RFC 9110, 5.5, without spaces, which no token has).
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]+")


class PublishError(VnetperfError):
    """Results could not be given away; they are still where they were."""


_LONGEST_WAIT_S = 3600


@dataclass(frozen=True)
class PostEndpoint:
    """Where documents go, and how long it is tried."""

    url: str  # Address that documents are posted to
    #: What proves who posts; "" for nothing. It is in no message and no repr.
    token: str = field(default="", repr=False)
    header: str = "X-Auth-Token"  # Header that carries it; "Authorization" has it as a bearer token
    timeout_s: float = 10.0  # Longest wait for an answer, seconds
    tries: int = 4  # Times a document is posted before giving up
    ca_file: Path | None = None  # Certificates to trust instead of the system's
    insecure: bool = False  # True sends tokens over plain HTTP, and trusts any certificate

    def check(self) -> None:
        """Refuse an address that cannot be posted to, or not with a secret."""
        parts = _split_url(self.url)
        if not 0 < self.timeout_s <= _LONGEST_WAIT_S:
            raise PublishError(
                f"{self.timeout_s:g} s is no time to wait for an answer",
                where="--timeout",
                accepted=f"seconds above 0, at most {_LONGEST_WAIT_S}",
            )
        if self.token and not _HEADER_VALUE.fullmatch(self.token):
            raise PublishError(
                "the token has characters that no header may have (spaces, ends of lines, quotes "
                "of word processors)",
                where="--token-file",
                cure=f"put the token alone into {TOKEN_VARIABLE}, or on the first line of the file",
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PublishError(
                f"{_shown_url(parts)!r} is no address to post to",
                where="--testapi",
                accepted="https://HOST[:PORT]/PATH or http://HOST[:PORT]/PATH",
            )
        if parts.username or parts.password:
            raise PublishError(
                "an address with a user name or a password would be seen by every user of the "
                "machine",
                where="--testapi",
                cure=f"take it out; put a token into {TOKEN_VARIABLE} or a file for --token-file",
            )
        if self.token and parts.scheme == "http" and not (self.insecure or _is_loopback(parts)):
            raise PublishError(
                f"the token would go to {parts.hostname} over plain HTTP, for everybody to read",
                where="--testapi",
                cure="use https://, or --insecure if the network is trusted",
            )


def post_document(
    endpoint: PostEndpoint, document: Mapping[str, Any], sleep: Callable[[float], None] = time.sleep
) -> str:
    """Post one document."""
    endpoint.check()
    body = json.dumps(document, sort_keys=True).encode()
    opener = _opener(endpoint)
    where, problem = _shown_url(_split_url(endpoint.url)), ""
    for attempt in range(1, max(1, endpoint.tries) + 1):
        pause = min(_FIRST_PAUSE_S * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
        try:
            with opener.open(_request(endpoint, body), timeout=endpoint.timeout_s) as answer:
                octets = answer.read(_READ_OCTETS)
                if len(octets) < _READ_OCTETS and answer.length:
                    raise http.client.IncompleteRead(octets, answer.length)
                return str(octets[:_SHOWN_OCTETS].decode(errors="replace")).strip()
        except urllib.error.HTTPError as error:
            problem = _refusal_text(error, endpoint.token)
            if error.code not in _RETRY_STATUS:
                raise PublishError(problem, where=where, cure=_cure(error.code)) from None
            pause = max(pause, _retry_after_s(error.headers))
        except http.client.HTTPException as error:
            problem = f"the endpoint's answer is no whole answer of HTTP ({type(error).__name__})"
        except OSError as error:
            problem = _unreachable_text(error, endpoint.timeout_s)
            if _is_certificate(error):
                raise PublishError(
                    problem, where=where, cure="name its authority's certificate with --ca-file"
                ) from None
        if attempt < endpoint.tries:
            sleep(pause)
    raise PublishError(
        f"{problem}; tried {max(1, endpoint.tries)} times",
        where=where,
        cure="publish the run again later: `vnetperf publish RUN`; nothing of it is lost",
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would make a GET of a POST, and carry the token to another machine."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _opener(endpoint: PostEndpoint) -> urllib.request.OpenerDirector:
    with PublishError.explain_os_error(
        "the certificates cannot be read",
        where=str(endpoint.ca_file),
        cure="name a file of PEM certificates with --ca-file",
    ):
        context = ssl.create_default_context(
            cafile=str(endpoint.ca_file) if endpoint.ca_file else None
        )
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    parts = _split_url(endpoint.url)
    # A proxy sees what goes over plain HTTP; and it has another machine for "localhost".
    direct = _is_loopback(parts) or (parts.scheme == "http" and bool(endpoint.token))
    return urllib.request.build_opener(
        _NoRedirect(),
        urllib.request.HTTPSHandler(context=context),
        *([urllib.request.ProxyHandler({})] if direct else []),
    )


def _request(endpoint: PostEndpoint, body: bytes) -> urllib.request.Request:
    request = urllib.request.Request(endpoint.url, data=body, method="POST")  # noqa: S310 - checked
    request.add_header("Content-Type", "application/json")
    request.add_header("Accept", "application/json")
    # The same for the same document, today and in a month: an endpoint that knows the header
    # (draft-ietf-httpapi-idempotency-key-header) takes the document once.
    key = uuid.uuid5(uuid.NAMESPACE_URL, f"{endpoint.url} {hashlib.sha256(body).hexdigest()}")
    request.add_header("Idempotency-Key", f'"{key}"')
    if endpoint.token:
        bearer = endpoint.header.lower() == "authorization"
        # Unredirected: urllib then never copies it to another request.
        request.add_unredirected_header(
            endpoint.header, f"Bearer {endpoint.token}" if bearer else endpoint.token
        )
    return request


def _refusal_text(error: urllib.error.HTTPError, token: str) -> str:
    try:
        body = error.read(_SHOWN_OCTETS).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        body = ""
    if token:
        body = body.replace(token, "(token)")  # an endpoint may quote what it refuses
    to = error.headers.get("Location", "") if 300 <= error.code < 400 else ""
    try:
        phrase = HTTPStatus(error.code).phrase
    except ValueError:
        phrase = "unknown status"
    rest = f", and sends to {to}" if to else f": {' '.join(body.split())}" if body else ""
    return f"the endpoint answers {error.code} ({phrase}){rest}"


def _cure(status: int) -> str:
    if status in (401, 403):
        return f"put a token that is allowed to post into {TOKEN_VARIABLE} or --token-file"
    if 300 <= status < 400:
        return "give the address that it sends to"
    if status == 404:
        return (
            "check the address: TestAPI's ends in /api/v1/results; project, case and pod must "
            "be known there"
        )
    return "the answer names what it does not take; project, case and pod must be known there"


def _unreachable_text(error: OSError, timeout_s: float) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    return f"the endpoint cannot be reached: {reason}"


def _is_certificate(error: OSError) -> bool:
    return isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)


def _retry_after_s(headers: Message) -> float:
    """Seconds that the endpoint requires, no more than is reasonable."""
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdecimal() else 0.0


def _split_url(url: str) -> SplitResult:
    """The parts of an address that can be posted to at all."""
    try:
        parts = urlsplit(url)
        is_usable = (parts.port or 1) and url.isascii() and not re.search(r"[\s\x00-\x1f\x7f]", url)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise PublishError(
            "that is no address: its port, brackets or characters are wrong",
            where="--testapi",
            accepted="https://HOST[:PORT]/PATH; other characters than ASCII's as %XX",
        )
    return parts


def _shown_url(parts: SplitResult) -> str:
    """An address as messages have it: without user, password and query."""
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}" if host else parts.path


def _is_loopback(parts: SplitResult) -> bool:
    """Whether an address is this machine's own."""
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
