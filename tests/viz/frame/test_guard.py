"""The guard: who is heard, and what every answer carries. What stands behind it only says that it was reached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from streamlit import config, net_util

from model.runtime.ledger import Ledger
from tests.event_loop import run
from viz.frame import guard
from viz.frame.guard import HEADERS, Guard, inline_scripts, is_own, policy
from viz.state import uploading
from viz.state.session import Session

HOST = "localhost:8501"


@pytest.fixture
def setting(monkeypatch):
    """Sets an option of Streamlit. By itself these names are allowed, and no other origin."""

    def give(name: str, value: Any) -> None:
        monkeypatch.setitem(config.get_config_options(), name, SimpleNamespace(value=value))

    give("server.allowedHosts", ["localhost", "127.0.0.1"])
    give("server.corsAllowedOrigins", [])
    return give


@pytest.fixture(autouse=True)
def no_lookup(monkeypatch):
    """No address of this machine is looked for in the network, whoever asks."""

    def called() -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(net_util, "get_external_ip", called)
    monkeypatch.setattr(net_util, "get_internal_ip", called)


class Asked:
    """What came of a request: status (of a websocket 101 or 403), headers, and those that the application saw."""

    def __init__(
        self,
        path: str = "/",
        kind: str = "http",
        method: str = "GET",
        client: str = "127.0.0.1",
        answer: dict[str, str] | None = None,
        **headers,
    ):
        self.answer = answer
        self.status, self.text, self.headers = 0, b"", Headers()
        self.seen: Headers | None = None
        given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        if headers.get("host", "") is None:
            del given["host"]
        scope = {"type": kind, "path": path, "root_path": "", "client": (client, 50000), "server": ("10.0.0.9", 8501)}
        scope |= {"query_string": b""}
        scope |= {"scheme": "ws" if kind == "websocket" else "http", "method": method}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in given.items()]
        run(Guard(self._behind)(scope, self._receive, self._send))

    async def _behind(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen = Headers(scope=scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await PlainTextResponse("reached", headers=self.answer)(scope, receive, send)

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self.status, self.headers = message["status"], Headers(raw=message["headers"])
        elif kind == "http.response.body":
            self.text += message["body"]
        else:
            self.status = {"websocket.accept": 101, "websocket.close": 403}[kind]


@pytest.mark.usefixtures("setting")
@pytest.mark.parametrize(
    ("origin", "own"),
    [
        ("http://localhost:8501", True),
        ("https://localhost:8501", True),  # a proxy in front of the server has the certificate
        (None, True),
        ("http://here:8502", False),
        ("http://localhost", False),  # another port is another's page
        ("http://localhost:3000", False),
        ("http://127.0.0.1:8501", False),
        ("http://tlocalhost:8501", False),
        ("http://localhost:8501.there", False),
        ("http://localhost:8501@there", False),
        ("null", False),
        ("", False),
        ("http://[", False),
    ],
)
def test_a_page_of_another_server_opens_no_websocket_and_changes_nothing(origin, own):
    assert is_own(origin, HOST) is own
    for path in ("/_stcore/stream", "/channel"):
        asked = Asked(path, "websocket", origin=origin)
        assert (asked.status, asked.seen is not None) == ((101, True) if own else (403, False))
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        asked = Asked("/_stcore/upload_file/a/b", method=method, origin=origin, content_length="1")
        assert asked.status == (200 if own else 403)
        assert own or f"A page of {origin} may not use this server" in asked.text.decode()
    assert Asked("/", origin=origin).status == 200  # without CORS its page cannot read it


def test_an_origin_that_is_allowed_comes_to_streamlit_as_its_own(setting):
    """Else Streamlit asks the network for its address before it looks into this list."""
    setting("server.corsAllowedOrigins", ["https://school.example"])
    asked = Asked("/_stcore/stream", "websocket", origin="https://school.example")
    assert asked.status == 101
    assert asked.seen is not None
    assert asked.seen.getlist("origin") == [f"https://{HOST}"]
    assert Asked("/_stcore/stream", "websocket", origin="https://other.example").status == 403
    own = Asked("/_stcore/stream", "websocket", origin=f"http://{HOST}")
    assert own.seen is not None
    assert own.seen["origin"] == f"http://{HOST}"


@pytest.mark.parametrize(
    ("allowed", "host", "heard"),
    [
        ([], "here:8501", True),
        (["there", "here"], "here:8501", True),
        (["there"], "here:8501", False),
        (["there"], None, False),
        (["*"], "here:8501", True),
        (["*.here"], "a.here:8501", True),
        (["*.here"], "here:8501", False),
        (["here"], "[", False),
    ],
)
def test_the_names_of_the_server_are_those_that_streamlit_is_told(setting, allowed, host, heard):
    setting("server.allowedHosts", allowed)
    for path, kind in (("/", "http"), ("/media/a.png", "http"), ("/channel", "websocket")):
        assert (Asked(path, kind, host=host).status < 400) is heard
    assert Asked("/", host=host).headers["content-security-policy"]
    assert Asked("/health", host=host).status == Asked("/ready", host=host).status == 200  # of an orchestrator


@pytest.mark.parametrize("path", ["/metrics", "/_stcore/metrics"])
def test_figures_of_the_server_are_for_its_own_machine(setting, monkeypatch, path):
    assert Asked(path).status == 200
    assert Asked(path, client="::1").status == Asked(path, client="::ffff:127.0.0.1").status == 200
    assert Asked(path, client="10.1.2.3").status == 403
    assert Asked(path, x_forwarded_for="10.1.2.3").status == 403  # a proxy on this machine asks for somebody
    monkeypatch.setenv("VITRINE_METRICS", "10.0.0.0/8, fd00::/8")
    assert Asked(path, client="10.1.2.3").status == Asked(path, client="fd00::5").status == 200
    assert Asked(path, client="::ffff:10.1.2.3").status == 200
    assert Asked(path, client="11.1.2.3").status == 403
    for header in ("x_forwarded_for", "forwarded", "via", "x_real_ip"):  # a proxy of that network asks for somebody
        assert Asked(path, client="10.1.2.3", **{header: "10.1.2.3"}).status == 403
    monkeypatch.setenv("VITRINE_METRICS", "everybody")
    assert Asked(path, client="10.1.2.3").status == 403


@pytest.mark.parametrize("path", ["/metrics", "/_stcore/metrics"])
def test_figures_of_the_server_are_given_under_its_own_names_and_its_address(setting, path):
    assert Asked(path, host="10.0.0.9:8501").status == 200  # asked by its address, as Prometheus does
    for host in ("attacker.example", "attacker.example:8501", "10.0.0.8:8501", "10.0.0.9.example", "[", "", None):
        assert Asked(path, host=host).status == 403
    setting("server.allowedHosts", ["figures.example"])
    assert Asked(path, host="figures.example:8501").status == 200
    assert Asked("/", host="10.0.0.9:8501").status == 403  # a page only under a name


def cookies(asked: Asked) -> list[str]:
    return asked.headers.getlist("set-cookie")


@pytest.mark.usefixtures("setting")
def test_a_browser_is_given_a_cookie_of_ours_once_with_answers_that_no_cache_shares():
    asked = Asked("/")
    ((cookie),) = cookies(asked)
    assert cookie.startswith("vitrine_browser=")
    assert "; HttpOnly" in cookie
    assert "; Secure" not in cookie
    assert asked.headers["cache-control"] == "private, no-cache"
    known = Asked("/", cookie=f"a=b; {cookie.partition(';')[0]}")
    assert not cookies(known)
    assert "cache-control" not in known.headers
    assert cookies(Asked("/", cookie="vitrine_browser=chosen"))  # not one of ours
    for path in ("/health", "/ready", "/_stcore/health", "/metrics"):
        assert not cookies(Asked(path))
    assert not cookies(Asked("/", host="elsewhere"))  # it is refused
    assert not cookies(Asked("/static/a.js", answer={"cache-control": "public, max-age=9"}))


@pytest.mark.usefixtures("setting")
def test_through_tls_every_cookie_comes_back_through_tls_alone():
    given = {"set-cookie": "_streamlit_xsrf=2|a|b|9; Path=/; SameSite=Lax"}
    asked = Asked("/_stcore/host-config", x_forwarded_proto="https", answer=given)
    theirs, ours = cookies(asked)
    assert theirs == given["set-cookie"] + "; Secure"
    assert ours.startswith("__Host-vitrine_browser=")
    assert ours.endswith("; Secure")
    assert cookies(Asked("/_stcore/host-config", answer=given))[0] == given["set-cookie"]
    secure = {"set-cookie": "a=secure; secure"}
    assert cookies(Asked("/", x_forwarded_proto="https", answer=secure))[0] == "a=secure; secure"


@pytest.mark.usefixtures("setting")
def test_every_answer_lets_the_browser_fetch_from_nowhere_else():
    for asked in (Asked("/"), Asked("/media/a"), Asked("/", host="elsewhere")):
        for name, value in HEADERS.items():
            assert asked.headers[name] == value
        rules = dict(rule.split(" ", 1) for rule in asked.headers["content-security-policy"].split("; "))
        assert rules["img-src"] == "'self' data: blob:"
        assert rules["frame-ancestors"] == "'self'"
        assert "'unsafe-inline'" not in rules["script-src"]
        assert "'unsafe-eval'" not in rules["script-src"]


def test_only_scripts_that_are_known_may_stand_in_a_page(monkeypatch):
    before = inline_scripts()
    assert len(before) > 1
    monkeypatch.setattr(guard, "every_script", lambda: {"alert(1)"})
    inline_scripts.cache_clear()
    try:
        # openssl: printf 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert "bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=" in inline_scripts()
    finally:
        inline_scripts.cache_clear()
    assert "bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=" not in before


@pytest.mark.parametrize("host", ["a; script-src *", "a b", 'a"', ""])
def test_a_name_cannot_write_into_the_policy(host):
    assert "ws://" not in policy(host)
    assert "script-src *" not in policy(host)


def sent(size: int | None, visitor: str = "visitor") -> Asked:
    length = None if size is None else str(size)
    return Asked(f"/_stcore/upload_file/{visitor}/file", method="PUT", content_length=length)


@pytest.mark.usefixtures("setting")
def test_a_file_is_promised_its_memory_before_it_is_read_and_counts_no_longer_after(monkeypatch):
    book = Ledger(10_000_000, lambda: 0, lambda: None)
    monkeypatch.setattr("model.runtime.memory.ledger", lambda: book)
    seen: list[int] = []
    behind = Asked._behind

    async def reading(self: Asked, scope: Any, receive: Any, send: Any) -> None:
        seen.extend(each.size for each in book.promises)
        await behind(self, scope, receive, send)

    monkeypatch.setattr(Asked, "_behind", reading)
    assert sent(6_000_000).status == 200
    assert (seen, book.promises) == ([6_000_000], ())
    assert sent(None).status == 411
    session = Session(visitor="visitor")
    refused = sent(11_000_000)
    assert (refused.status, refused.seen) == (413, None)
    assert session.notice == refused.text.decode()
    assert session.rerun_requested
    assert "a file that is sent needs about 0.011 GB" in session.notice


@pytest.mark.usefixtures("setting")
def test_visitors_have_limits_each_and_together(monkeypatch):
    stored = {"one": {"a": SimpleNamespace(data=bytes(700_000))}, "two": {"b": SimpleNamespace(data=bytes(900_000))}}
    runtime = SimpleNamespace(uploaded_file_mgr=SimpleNamespace(file_storage=stored))
    monkeypatch.setattr(uploading, "exists", lambda: True)
    monkeypatch.setattr(uploading, "get_instance", lambda: runtime)
    monkeypatch.setenv("VITRINE_UPLOAD_MEGABYTES", "1")
    monkeypatch.setenv("VITRINE_UPLOADS_MEGABYTES", "2.2")
    assert sent(250_000, "one").status == 200
    assert "0.3 MB are left" in sent(350_000, "one").text.decode()
    assert sent(500_000, "three").status == 200
    assert "The file has 0.7 MB, and 0.6 MB are left" in sent(700_000, "three").text.decode()
    monkeypatch.setenv("VITRINE_UPLOADS", "0")
    assert sent(1, "three").text.decode() == "This server takes no files."
