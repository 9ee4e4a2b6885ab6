"""Posts documents over HTTP: with a limit of time, again when that may help, and a clear end."""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from vnetperf.model.errors import VnetperfError

TOKEN_VARIABLE: Final = "TESTAPI_TOKEN"  # noqa: S105 - the variable's name
#: Answers after which the same document may be taken: overload, restarts, gateways.
_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_SHOWN: Final = 200


class PublishError(VnetperfError):
    """Results could not be given away; they are still where they were."""


@dataclass(frozen=True)
class Endpoint:
    """Where documents go, and how long it is tried.

    Attributes:
        url: Address that documents are posted to.
        token: What proves who posts; "" for nothing. It is in no message and no repr.
        header: Header that carries it; "Authorization" has it as a bearer token.
        timeout_s: Longest wait for an answer, seconds.
        tries: Times a document is posted before giving up.
        ca_file: Certificates to trust instead of the system's.
        insecure: True sends tokens over plain HTTP, and trusts any certificate.
    """

    url: str
    token: str = field(default="", repr=False)
    header: str = "X-Auth-Token"
    timeout_s: float = 10.0
    tries: int = 4
    ca_file: Path | None = None
    insecure: bool = False

    def check(self) -> None:
        """Refuse an address that cannot be posted to, or not with a secret.

        Raises:
            PublishError: With the cure.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PublishError(
                f"{_shown(parts)!r} is no address to post to",
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
        if self.token and parts.scheme == "http" and not (self.insecure or _is_here(parts)):
            raise PublishError(
                f"the token would go to {parts.hostname} over plain HTTP, for everybody to read",
                where="--testapi",
                cure="use https://, or --insecure if the network is trusted",
            )


def post(
    endpoint: Endpoint, document: Mapping[str, Any], sleep: Callable[[float], None] = time.sleep
) -> str:
    """Post one document.

    Args:
        endpoint: Where to.
        document: JSON values.
        sleep: Waits between tries.

    Returns:
        What the endpoint answers, at most a few words of it.

    Raises:
        PublishError: It was refused, or nothing answered in time however often it was tried.
    """
    endpoint.check()
    body = json.dumps(document, sort_keys=True).encode()
    opener = _opener(endpoint)
    where, problem = _shown(urlsplit(endpoint.url)), ""
    for attempt in range(1, max(1, endpoint.tries) + 1):
        pause = min(_FIRST_PAUSE_S * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
        try:
            with opener.open(_request(endpoint, body), timeout=endpoint.timeout_s) as answer:
                return str(answer.read(_SHOWN).decode(errors="replace")).strip()
        except urllib.error.HTTPError as error:
            problem = _refusal(error, endpoint.token)
            if error.code not in _AGAIN:
                raise PublishError(problem, where=where, cure=_cure(error.code)) from None
            pause = max(pause, _asked_to_wait(error.headers))
        except (urllib.error.URLError, TimeoutError, OSError) as error:
            problem = _unreached(error, endpoint.timeout_s)
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


def _opener(endpoint: Endpoint) -> urllib.request.OpenerDirector:
    try:
        context = ssl.create_default_context(
            cafile=str(endpoint.ca_file) if endpoint.ca_file else None
        )
    except OSError as error:
        raise PublishError(
            f"the certificates cannot be read: {error.strerror or error}",
            where=str(endpoint.ca_file),
            cure="name a file of PEM certificates with --ca-file",
        ) from None
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return urllib.request.build_opener(_NoRedirect(), urllib.request.HTTPSHandler(context=context))


def _request(endpoint: Endpoint, body: bytes) -> urllib.request.Request:
    request = urllib.request.Request(endpoint.url, data=body, method="POST")  # noqa: S310 - checked
    request.add_header("Content-Type", "application/json")
    request.add_header("Accept", "application/json")
    if endpoint.token:
        bearer = endpoint.header.lower() == "authorization"
        # Unredirected: urllib then never copies it to another request.
        request.add_unredirected_header(
            endpoint.header, f"Bearer {endpoint.token}" if bearer else endpoint.token
        )
    return request


def _refusal(error: urllib.error.HTTPError, token: str) -> str:
    try:
        said = error.read(_SHOWN).decode(errors="replace").strip()
    except OSError:
        said = ""
    if token:
        said = said.replace(token, "(token)")  # an endpoint may quote what it refuses
    to = error.headers.get("Location", "") if 300 <= error.code < 400 else ""
    try:
        phrase = HTTPStatus(error.code).phrase
    except ValueError:
        phrase = "unknown status"
    rest = f", and sends to {to}" if to else f": {' '.join(said.split())}" if said else ""
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
    return "the answer says what it does not take; project, case and pod must be known there"


def _unreached(error: OSError, timeout_s: float) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    return f"the endpoint cannot be reached: {reason}"


def _is_certificate(error: OSError) -> bool:
    return isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)


def _asked_to_wait(headers: Message) -> float:
    """Seconds that the endpoint asks for, no more than is reasonable."""
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdecimal() else 0.0


def _shown(parts: SplitResult) -> str:
    """An address as messages have it: without user, password and query."""
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}" if host else parts.path


def _is_here(parts: SplitResult) -> bool:
    """Whether an address is this machine's own."""
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
