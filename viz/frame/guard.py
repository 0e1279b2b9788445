"""Guard of this server: who may ask it, and what a browser may do with its answers. It stands before everything,
Streamlit too.

Streamlit, asked for a websocket by the page of another server, looks up its own address in the network and holds
everybody up meanwhile; so such a page is refused before Streamlit hears of it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from viz.frame.allowance import Messages
from viz.pages.attention.bertviz_scripts import every_script
from viz.state import uploading
from viz.state.browsers import is_encrypted, new_cookie, secret
from viz.state.permissions import ip_address, is_here
from viz.web.modules import base_path

PROBES = ("/health", "/ready", "/_stcore/health")  # asked by an orchestrator, under any name
METRICS = ("/metrics", "/_stcore/metrics")
STREAM = "/_stcore/stream"  # Streamlit's websocket; the channel merges what it is sent by itself
UPLOAD = re.compile(r"/_stcore/upload_file/(?P<visitor>[^/]+)/[^/]+")
READS = ("GET", "HEAD", "OPTIONS")  # change nothing, and without CORS no other page can read what they give
INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


class Guard:
    """The application behind it hears only who may ask; every answer carries HEADERS and `policy`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._messages = app, Messages()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        problem = refusal(scope)
        if problem and scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": problem[:100]})
        if scope["type"] == "websocket":
            own = self._messages.limited(receive, send) if asked_path(scope) == STREAM else (receive, send)
            return await self._app(as_own(scope), *own)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS | {"Content-Security-Policy": policy(Headers(scope=scope).get("host", ""))})
                if not problem:
                    know_browser(scope, headers)
            await send(message)

        if problem:
            return await PlainTextResponse(problem, 403)(scope, receive, answer)
        if scope["method"] == "PUT" and (match := UPLOAD.fullmatch(asked_path(scope))):
            return await self._upload(match["visitor"], scope, receive, answer)
        await self._app(scope, receive, answer)

    async def _upload(self, visitor: str, scope: Scope, receive: Receive, send: Send) -> None:
        """A file is sent: its memory is promised before a byte of it is read."""
        size = Headers(scope=scope).get("content-length", "")
        if not size.isascii() or not size.isdigit():
            return await PlainTextResponse("Say how long the file is (Content-Length).", 411)(scope, receive, send)
        try:
            promised = await asyncio.to_thread(uploading.admit, visitor, int(size))
        except ValueError as error:
            uploading.say(visitor, str(error))
            return await PlainTextResponse(str(error), 413)(scope, receive, send)
        try:
            await self._app(scope, receive, send)
        finally:
            promised.release()


def refusal(scope: Scope) -> str:
    """Reason why a request is refused; empty where it is not.

    scope: of a request, or of a websocket that is to be opened.
    """
    headers, path = Headers(scope=scope), asked_path(scope)
    host, origin = headers.get("host"), headers.get("origin")
    if path in PROBES and scope["type"] == "http":
        return ""
    if path in METRICS and not is_here(scope["client"], headers):
        return "Figures of this server are for its own machine, and the networks in VITRINE_METRICS."
    if not is_host_allowed(host) and not (path in METRICS and is_address(host, scope)):
        return f"This server is not known as {host}: start it with this name in server.allowedHosts."
    reads = scope["type"] == "http" and scope["method"] in READS
    if not reads and not is_own(origin, host):
        return f"A page of {origin} may not use this server: start it with this address in server.corsAllowedOrigins."
    return ""


def is_address(host: str | None, scope: Scope) -> bool:
    """True if a server is called by the address at which it was reached, as Prometheus does. scope: of a request."""
    try:
        name = ip_address(urlsplit(f"//{host}").hostname or "")
    except ValueError:  # it is no address
        return False
    return name is not None and name == ip_address((scope.get("server") or ("",))[0])


def know_browser(scope: Scope, headers: MutableHeaders) -> None:
    """A browser without a cookie of ours is given one, with an answer that no cache shares out; and through TLS every
    cookie, Streamlit's too, comes back through TLS alone. scope: of a request. headers: of its answer.
    """
    request = Headers(scope=scope)
    if is_encrypted(request):
        for number, (name, value) in enumerate(headers.raw):
            if name == b"set-cookie" and b"secure" not in value.lower().replace(b" ", b"").split(b";"):
                headers.raw[number] = (name, value + b"; Secure")
    shared = "public" in headers.get("cache-control", "")
    if shared or scope["method"] != "GET" or asked_path(scope) in (*PROBES, *METRICS):
        return
    if not secret(cookie_parser(request.get("cookie", "")), request):
        headers.append("set-cookie", new_cookie(request))
        headers["cache-control"] = f"private, {headers.get('cache-control', 'no-cache')}"


def asked_path(scope: Scope) -> str:
    """Path that is asked for, behind the one that Streamlit is given."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")).removeprefix(base_path())


def is_own(origin: str | None, host: str | None) -> bool:
    """True if a page of this very server asks, or one of `server.corsAllowedOrigins`; what is no browser says no
    origin.
    """
    try:
        place = None if origin is None else urlsplit(origin).netloc
    except ValueError:  # it is no address
        return False
    return place in (None, host) or origin in st.get_option("server.corsAllowedOrigins")


def as_own(scope: Scope) -> Scope:
    """A websocket that may be opened, without the other origin that it comes from: Streamlit would look for that in the
    network before it looks into its own list.
    """
    headers = Headers(scope=scope)
    origin, host = headers.get("origin"), headers.get("host")
    if origin is None or urlsplit(origin).netloc == host:
        return scope
    headers_left = [(name, value) for name, value in scope["headers"] if name != b"origin"]
    return {**scope, "headers": [*headers_left, (b"origin", f"{urlsplit(origin).scheme}://{host}".encode())]}


def policy(host: str) -> str:
    """The Content-Security-Policy of every answer: nothing is fetched from elsewhere, whatever a text or a file brings,
    and of scripts that stand in a page only those run that are known.

    What Streamlit mounts is a module made in the browser (`blob:`), which imports ours; BertViz comes as a frame of its
    own (`data:`), which inherits this. host: as the browser calls the server; some browsers do not count its websocket
    as its own.
    """
    known = " ".join(f"'sha256-{each}'" for each in inline_scripts())
    socket = f"ws://{host} wss://{host}" if re.fullmatch(r"[\w.:\[\]-]+", host) else ""
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' blob: 'wasm-unsafe-eval' {known}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            f"connect-src 'self' data: blob: {socket}",
            "media-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "frame-src 'self' data: blob:",
            "frame-ancestors 'self'",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
        )
    )


@cache
def inline_scripts() -> tuple[str, ...]:
    """SHA-256 of every script that stands in a page and not in a file: Streamlit's own and BertViz's."""
    page = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = {*INLINE.findall(page), *every_script()}
    return tuple(sorted(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts))
