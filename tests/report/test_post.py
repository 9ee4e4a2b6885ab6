"""Documents over HTTP: taken, refused, late, redirected, and with a secret."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.publish_server import Api, serve
from tests.texts import Texts
from vnetperf.report.publish import PostEndpoint, PublishError, post_document

TOKEN = "s3cret-t0ken"  # noqa: S105 - made up
DOCUMENT = {"case_name": "pvp_dpdk_throughput", "criteria": "PASS"}


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as served:
        yield served


def endpoint(api: Api, **changed: object) -> PostEndpoint:
    endpoint = PostEndpoint(api.url, token=TOKEN, timeout_s=5.0, tries=3)
    return replace(endpoint, **changed)  # type: ignore[arg-type]  # the caller names its fields


def refused(target: PostEndpoint) -> tuple[str, list[float]]:
    pauses: list[float] = []
    with pytest.raises(PublishError) as caught:
        post_document(target, DOCUMENT, pauses.append)
    assert TOKEN not in str(caught.value)
    return str(caught.value), pauses


def test_a_document_arrives_with_its_token(api: Api) -> None:
    assert "href" in post_document(endpoint(api), DOCUMENT)
    [(method, path, headers)] = api.requests
    assert (method, path) == ("POST", "/api/v1/results")
    assert api.documents == [DOCUMENT]
    assert headers["X-Auth-Token"] == TOKEN
    assert headers["Content-Type"] == "application/json"


def test_a_bearer_token_and_none_at_all(api: Api) -> None:
    post_document(endpoint(api, header="Authorization"), DOCUMENT)
    post_document(endpoint(api, token=""), DOCUMENT)
    first, second = (headers for _, _, headers in api.requests)
    assert first["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in str(second)


def test_the_token_is_in_no_repr(api: Api) -> None:
    assert TOKEN not in repr(endpoint(api))


def test_an_overloaded_endpoint_is_tried_again(api: Api) -> None:
    api.answers = [503, 429, 200]
    pauses: list[float] = []
    post_document(endpoint(api), DOCUMENT, pauses.append)
    assert len(api.requests) == 3
    assert pauses == [0.5, 1.0]
    assert len(api.documents) == 1


def test_it_waits_as_long_as_the_endpoint_asks(api: Api) -> None:
    api.answers, api.headers = [503, 200], {"Retry-After": "7"}
    pauses: list[float] = []
    post_document(endpoint(api), DOCUMENT, pauses.append)
    assert pauses == [7.0]


def test_one_that_stays_overloaded_is_given_up(api: Api, texts: Texts) -> None:
    api.answers = [503]
    message, pauses = refused(endpoint(api))
    texts.check(message.replace(api.url, "URL"))
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("status", "cure"), [(401, "token"), (403, "token"), (404, "/api/v1/results"), (400, "known")]
)
def test_a_refusal_is_not_tried_again(api: Api, status: int, cure: str) -> None:
    api.answers, api.said = [status], f"no pod 'x' for {TOKEN}"
    message, pauses = refused(endpoint(api))
    assert f"answers {status}" in message
    assert "no pod 'x' for (token)" in message
    assert cure in message
    assert pauses == []
    assert len(api.requests) == 1


def test_a_redirect_is_not_followed_with_the_token(api: Api) -> None:
    with serve() as other:
        api.answers, api.headers = [302], {"Location": other.url}
        message, _ = refused(endpoint(api))
    assert f"sends to {other.url}" in message
    assert other.requests == []


def test_one_that_does_not_answer(api: Api, texts: Texts) -> None:
    api.slow_s = 0.4
    message, pauses = refused(endpoint(api, timeout_s=0.1, tries=2))
    texts.check(message.replace(api.url, "URL"))
    assert len(pauses) == 1


def test_one_that_is_not_there() -> None:
    with serve() as gone:
        pass
    message, _ = refused(endpoint(gone, tries=2))
    assert "cannot be reached" in message


def test_a_document_whose_answer_was_lost_is_taken_once(api: Api) -> None:
    api.lost = 1
    post_document(endpoint(api), DOCUMENT, lambda _: None)
    post_document(endpoint(api), DOCUMENT)  # the whole run, published again
    post_document(endpoint(api), DOCUMENT | {"criteria": "FAIL"})
    assert len(api.requests) == 4
    assert [d["criteria"] for d in api.documents] == ["PASS", "FAIL"]


@contextmanager
def answering(octets: bytes) -> Iterator[str]:
    """A server that answers every request with these octets and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_all() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(octets)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(1 << 16):  # what is left unread resets it
                            pass

        threading.Thread(target=serve_all, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("octets", "says"),
    [
        (b"HELLO\r\n\r\n", "no whole answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", "no whole answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "no whole answer"),
        (b"HTTP/1.1 500 x\r\n" + b"A" * 70000 + b"\r\n\r\n", "no whole answer of HTTP"),
        (b"HTTP/1.1 400 x\r\nContent-Length: 100\r\n\r\nabc", "answers 400"),
        (b"", "tried 2 times"),
    ],
    ids=["no HTTP", "cut body", "cut chunk", "long header", "cut refusal", "nothing"],
)
def test_every_fault_of_the_network_is_one_sentence(octets: bytes, says: str) -> None:
    with answering(octets) as url:
        message, _ = refused(PostEndpoint(url, token=TOKEN, timeout_s=5.0, tries=2))
    assert says in message


@pytest.mark.parametrize(
    "token", [f"{TOKEN}\rx", f"{TOKEN}\nsecond", f"{TOKEN}\u2019", f"{TOKEN} x", f"{TOKEN}\x0b"]
)
def test_a_token_that_is_no_header_is_in_no_traceback(api: Api, token: str) -> None:
    with pytest.raises(PublishError, match="no header may have") as caught:
        post_document(endpoint(api, token=token), DOCUMENT)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    assert api.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "https://host:abc/x",
        "https://host:99999/x",
        "http://127.0.0.1:1/a b",
        "http://127.0.0.1:1/\u00fc",
        "http://[::1/x",
        "http://127.0.0.1:1/a\nb",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    message, _ = refused(PostEndpoint(url, token=TOKEN))
    assert "that is no address" in message


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_time_that_is_none(api: Api, seconds: float) -> None:
    assert "--timeout" in refused(endpoint(api, timeout_s=seconds))[0]


def test_no_token_goes_to_a_proxy(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        post_document(endpoint(api), DOCUMENT)
        there = PostEndpoint("http://results.invalid/x", token=TOKEN, insecure=True, tries=1)
        assert "cannot be reached" in refused(there)[0]
        assert proxy.requests == []
        post_document(replace(there, token=""), DOCUMENT)
        assert len(proxy.requests) == 1
    assert len(api.documents) == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://results.example/x", "no address to post to"),
        ("results.example/x", "no address to post to"),
        ("https:///x", "no address to post to"),
        ("https://bob:hunter2@results.example/x", "a user name or a password"),
        ("http://results.example/x", "over plain HTTP"),
        ("http://127.0.0.1.results.example/x", "over plain HTTP"),
    ],
)
def test_addresses_that_are_refused(url: str, says: str) -> None:
    message, _ = refused(PostEndpoint(url, token=TOKEN))
    assert says in message
    assert "hunter2" not in message


def test_plain_http_without_a_token_or_when_trusted() -> None:
    PostEndpoint("http://results.example/x").check()
    PostEndpoint("http://results.example/x", token=TOKEN, insecure=True).check()
    PostEndpoint("http://[::1]:80/x", token=TOKEN).check()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    path = tmp_path / "own.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(path), "-out", f"{path}.crt"),
        ],
        check=True,
        capture_output=True,
    )
    return path


def test_certificates_are_checked(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", certificate)
    with serve(context) as api:
        message, pauses = refused(endpoint(api))
        assert "certificate" in message
        assert "--ca-file" in message
        assert pauses == []
        assert api.requests == []
        post_document(endpoint(api, ca_file=Path(f"{certificate}.crt")), DOCUMENT)
        post_document(endpoint(api, insecure=True), DOCUMENT | {"again": 1})
        assert len(api.documents) == 2


def test_certificates_that_cannot_be_read(api: Api, tmp_path: Path) -> None:
    message, _ = refused(endpoint(api, ca_file=tmp_path / "none.pem"))
    assert "cannot be read" in message
