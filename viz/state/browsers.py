"""The browser of a visitor: what he sends and trains belongs to it, by a secret in a cookie that no script reads."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

import streamlit as st

COOKIE = "vitrine_browser"
DAYS = 30
SECRET = re.compile(r"[\w-]{43}", re.ASCII)


def is_encrypted(headers: Mapping[str, Any]) -> bool:
    """True if a browser speaks through TLS, which this server ends, or the proxy before it."""
    proxy = str(headers.get("X-Forwarded-Proto") or "").partition(",")[0].strip()
    return proxy.lower() == "https" or bool(st.get_option("server.sslCertFile"))


def cookie_name(encrypted: bool) -> str:
    """Name of the cookie; through TLS one that no other name of the same domain can write (RFC 6265bis, 4.1.3.2)."""
    return f"__Host-{COOKIE}" if encrypted else COOKIE


def secret(cookies: Mapping[str, str], headers: Mapping[str, Any]) -> str:
    """Secret of the browser that asks, which it keeps over a reload; empty where it has no cookie of ours."""
    value = cookies.get(cookie_name(is_encrypted(headers)), "")
    return value if isinstance(value, str) and SECRET.fullmatch(value) else ""  # Streamlit's AppTest has a mock there


def new_cookie(headers: Mapping[str, Any]) -> str:
    """The header Set-Cookie for a browser that has none."""
    encrypted = is_encrypted(headers)
    value = f"{cookie_name(encrypted)}={secrets.token_urlsafe(32)}; Path=/; Max-Age={DAYS * 86400}"
    return f"{value}; HttpOnly; SameSite=Lax{'; Secure' if encrypted else ''}"


def browser() -> str:
    """`secret` of the browser whose page is drawn."""
    return secret(st.context.cookies, st.context.headers)
