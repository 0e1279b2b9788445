"""What .streamlit/config.toml asks of the server: only this machine is let in, and nothing costs more than it must."""

from __future__ import annotations

import json
import socket
import tomllib
import urllib.request
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.browser.server import ROOT

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def handshake(url: str, **headers: str) -> int:
    """The status with which the server answers who asks for the page's websocket."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request("GET", "/_stcore/stream", headers=UPGRADE | headers)
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
    assert (asked["server"]["maxUploadSize"], asked["server"]["maxMessageSize"]) == (500, 50)  # megabytes
    assert asked["server"]["enableCORS"] is asked["server"]["enableXsrfProtection"] is True
