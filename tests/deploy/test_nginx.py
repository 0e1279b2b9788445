"""deploy/nginx.conf before replicas that only say who they are: limits, files, cookies, and where newcomers go."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.deploy.replicas import NGINX, before

pytestmark = pytest.mark.skipif(NGINX is None, reason="install nginx: apt-get install nginx-light")
SCRIPT = b"export const a = 1;\n" * 1000
SOCKETS = ("/_stcore/stream", "/channel")
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


class Replica(ThreadingHTTPServer):
    """It answers with its name; ready: what /ready says. asked: the paths that it was asked for."""

    daemon_threads = True
    request_queue_size = 1000

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.name, self.ready, self.asked = name, True, Counter[str]()
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Replica

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        self.server.asked["proto " + self.headers.get("X-Forwarded-Proto", "")] += 1
        if self.path in SOCKETS:
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.close_connection = True
            return self.end_headers()
        ready = self.path != "/ready" or self.server.ready
        is_file = self.path.startswith(("/static/", "/web/"))
        body = SCRIPT if is_file else self.server.name.encode()
        old = self.path.startswith("/web/2/") and self.server.name != "2"
        self.send_response(404 if old else 200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Vitrine-Replica", self.server.name)
        self.send_header("Content-Type", "text/javascript" if is_file else "text/html")
        kept = is_file and not old
        self.send_header("Cache-Control", "public, immutable, max-age=31536000" if kept else "no-cache")
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_given: Any) -> None:
        pass


@pytest.fixture
def two(tmp_path) -> Iterator[SimpleNamespace]:
    with ExitStack() as stack:
        replicas = [Replica("1"), Replica("2")]
        for each in replicas:
            stack.callback(each.server_close)
            stack.callback(each.shutdown)
        address = stack.enter_context(before(tmp_path, *(each.server_port for each in replicas)))
        yield SimpleNamespace(replicas=replicas, place=urlsplit(address).netloc)


def asked(place: str, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str) -> HTTPResponse:
    connection = HTTPConnection(place, timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    if answer.status != 101:
        answer.text = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def first_visit(place: str) -> Counter[int]:
    """How often each status came, for what one browser asks for at its first visit, and an upload of five files."""
    connection, statuses = HTTPConnection(place, timeout=60), Counter[int]()
    paths = ["/", *(f"/static/js/{number}.js" for number in range(95)), "/_stcore/health", "/_stcore/host-config"]
    paths += [f"/web/1/{number}.js" for number in range(30)]
    asks = [("GET", path) for path in paths] + [("PUT", f"/_stcore/upload_file/a/{number}") for number in range(5)]
    for method, path in asks:
        connection.request(method, path, b"1" if method == "PUT" else None, {"Cookie": "vitrine_place=1"})
        answer = connection.getresponse()
        answer.read()
        statuses[answer.status] += 1
    connection.close()
    for path in SOCKETS:
        statuses[asked(place, path, **UPGRADE).status] += 1
    return statuses


def test_thirty_visitors_of_one_address_who_come_at_once_get_all_they_ask_for(two):
    with ThreadPoolExecutor(30) as pool:
        statuses = sum(pool.map(first_visit, [two.place] * 30), Counter[int]())
    assert statuses == {200: 30 * 133, 101: 30 * 2}
    files = sum(
        count for each in two.replicas for path, count in each.asked.items() if path.startswith(("/static/", "/web/"))
    )
    assert 125 <= files < 5 * 125  # each once, but for those who waited too long for the first to have it


def test_websockets_and_uploads_have_limits_of_their_own(two):
    def statuses(count: int, path: str, method: str, **headers: str) -> Counter[int]:
        with ThreadPoolExecutor(30) as pool:
            ask = [pool.submit(asked, two.place, path, method, b"1", **headers) for _ in range(count)]
        return Counter(each.result().status for each in ask)

    for path, method, headers in (("/channel", "GET", UPGRADE), ("/_stcore/upload_file/a/b", "PUT", {})):
        refused = statuses(700, path, method, **headers)[429]
        assert 0 < refused <= 400  # 300 at once, and some a second


def test_a_file_is_compressed_and_kept_for_the_second_visit(two):
    packed = asked(two.place, "/static/js/a.js", Accept_Encoding="gzip, br")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.text) == SCRIPT
    assert packed.headers["Cache-Control"] == "public, immutable, max-age=31536000"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["Set-Cookie"] is None
    plain = asked(two.place, "/static/js/a.js")
    assert (plain.headers["Content-Encoding"], plain.text) == (None, SCRIPT)
    assert sum(each.asked["/static/js/a.js"] for each in two.replicas) == 1


def test_a_module_of_a_newer_version_is_asked_of_the_replica_that_has_it(two):
    answers = [asked(two.place, f"/web/2/{number}.js") for number in range(6)]
    assert {(each.status, each.text) for each in answers} == {(200, SCRIPT)}
    assert two.replicas[0].asked.total() > 0


def test_newcomers_are_shared_out_and_stay_where_they_are(two):
    for number in range(4):
        answer = asked(two.place)
        cookie, *rules = answer.headers["Set-Cookie"].split("; ")
        assert cookie == f"vitrine_place={answer.text.decode()}"
        assert rules == ["Path=/", "HttpOnly", "SameSite=Lax"]
        again = [asked(two.place, path, Cookie=cookie) for path in ("/", "/a", "/_stcore/health")]
        assert {each.text for each in again} == {answer.text}
        assert all(each.headers["Set-Cookie"] is None for each in again), number
    assert [each.asked["/a"] for each in two.replicas] == [2, 2]
    assert asked(two.place, Cookie="vitrine_place=127.0.0.1:1").headers[
        "Set-Cookie"
    ]  # what was not given counts for nothing


def test_a_replica_that_is_to_end_keeps_its_visitors_and_gets_no_newcomers(two):
    two.replicas[0].ready = False
    assert [asked(two.place).text for _ in range(6)] == [b"2"] * 6
    assert asked(two.place, Cookie="vitrine_place=1").text == b"1"
    assert asked(two.place, "/channel", Cookie="vitrine_place=1", **UPGRADE).status == 101
    two.replicas[1].ready = False
    nobody = asked(two.place)
    assert (nobody.status, nobody.headers["Retry-After"], nobody.headers["Set-Cookie"]) == (503, "5", None)
    assert asked(two.place, Cookie="vitrine_place=2").text == b"2"


def test_visitors_of_a_replica_that_is_gone_are_sent_to_the_other(two):
    two.replicas[0].shutdown()
    two.replicas[0].server_close()
    assert [asked(two.place, Cookie="vitrine_place=1").text for _ in range(3)] == [b"2"] * 3
    assert [asked(two.place).text for _ in range(3)] == [b"2"] * 3


def test_cookies_go_through_tls_alone_where_a_proxy_before_nginx_has_the_certificate(two):
    assert asked(two.place, X_Forwarded_Proto="https").headers["Set-Cookie"].endswith("; Secure")
    assert sum(each.asked["proto https"] for each in two.replicas) >= 1
    assert "Secure" not in asked(two.place, X_Forwarded_Proto="other").headers["Set-Cookie"]
    assert sum(each.asked["proto other"] for each in two.replicas) == 0


def test_what_is_not_for_visitors_is_not_there_and_only_uploads_are_large(two):
    for path in ("/metrics", "/_stcore/metrics", "/ready", "/admission", "//metrics", "/%6detrics"):
        assert asked(two.place, path).status == 404
    assert all(set(each.asked) <= {"/ready", "proto http"} for each in two.replicas)
    assert asked(two.place, "/a", "PUT", bytes(2 << 20)).status == 413
    assert asked(two.place, "/_stcore/upload_file/a/b", "PUT", bytes(2 << 20)).status == 200
