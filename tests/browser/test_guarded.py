"""What .streamlit/config.toml asks of the server: only this machine is let in, and nothing costs more than it must."""

from __future__ import annotations

import json
import socket
import tomllib
import urllib.request
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.browser.server import ROOT, serve

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def handshake(url: str, path: str = "/_stcore/stream", **headers: str) -> int:
    """The status with which the server answers who asks for a websocket, by itself the page's."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request("GET", path, headers=UPGRADE | headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.browser
def test_the_websocket_is_for_pages_of_this_machine(url: str) -> None:
    port = urlsplit(url).port
    assert handshake(url) == 101
    assert handshake(url, Host=f"localhost:{port}", Origin=f"http://localhost:{port}") == 101
    assert handshake(url, Host="attacker.example") == 403  # DNS rebinding
    assert handshake(url, Host=f"attacker.example:{port}", Origin=f"http://attacker.example:{port}") == 403
    assert handshake(url, Origin="http://attacker.example") == 403  # another site's page in the same browser


@pytest.mark.browser
def test_no_other_page_may_steer_this_one(url: str) -> None:
    """Streamlit listens to messages of the page around it, from a list of sites; each message costs a look at them."""
    with urllib.request.urlopen(f"{url}/_stcore/host-config", timeout=120) as answer:
        assert json.load(answer)["allowedOrigins"] == []


@pytest.mark.browser
def test_only_127_0_0_1_is_listened_on(url: str) -> None:
    address = urlsplit(url)
    socket.create_connection((address.hostname, address.port), timeout=120).close()
    with pytest.raises(OSError, match=r"refused|unreachable|assign|timed out"):
        socket.create_connection(("127.0.0.2", address.port), timeout=5).close()  # as if from another interface


def test_sizes_are_limited_and_no_rerun_collects_garbage() -> None:
    asked = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert asked["runner"]["postScriptGC"] is False
    sizes = [asked["server"][f"max{name}Size"] for name in ("Upload", "Message", "WidgetState")]
    assert sizes == [500, 50, 8]  # megabytes
    assert asked["server"]["enableCORS"] is asked["server"]["enableXsrfProtection"] is True


@pytest.mark.browser
def test_a_refused_page_makes_the_server_ask_nobody_and_holds_nobody_up() -> None:
    """Its way out is a proxy that counts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        way = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        out = {"http_proxy": way, "https_proxy": way, "HTTP_PROXY": way, "HTTPS_PROXY": way, "no_proxy": ""}
        with serve("app.py", **out) as url:
            port = urlsplit(url).port
            for origin in ("http://attacker.example", "http://localhost:1", f"http://localhost:{port}", "null"):
                for path in ("/_stcore/stream", "/channel"):
                    assert handshake(url, path, Origin=origin) == 403
            assert handshake(url, Origin=url) == 101
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has come
            proxy.accept()


@pytest.mark.browser
def test_the_browser_fetches_nothing_from_elsewhere_whatever_stands_in_a_page(visit) -> None:
    visited = visit()
    page = visited.open()
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}"
        refused = page.evaluate(
            """async (address) => {
              const seen = [];
              addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
              document.body.append(Object.assign(new Image(), { src: `${address}/image` }));
              document.body.append(Object.assign(document.createElement('script'), { src: `${address}/script` }));
              document.body.append(Object.assign(document.createElement('script'), { text: 'window.__ran = 1' }));
              await fetch(address).catch(() => 0);
              await new Promise((done) => setTimeout(done, 500));
              return [seen.sort(), window.__ran === undefined];
            }""",
            address,
        )
        assert refused == [["connect-src", "img-src", "script-src-elem", "script-src-elem"], True]
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    visited.errors.clear()
