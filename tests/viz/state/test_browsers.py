"""The browser of a visitor, by a cookie of ours."""

from __future__ import annotations

from http.cookies import SimpleCookie
from types import SimpleNamespace

import pytest

from viz.state import browsers
from viz.state.browsers import browser, new_cookie, secret

TLS = {"X-Forwarded-Proto": "https"}


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-Proto": "http"}, TLS, {"X-Forwarded-Proto": "https, http"}])
def test_a_browser_is_known_by_a_cookie_that_no_script_reads(monkeypatch, headers):
    encrypted = "https" in headers.get("X-Forwarded-Proto", "")
    written = SimpleCookie(new_cookie(headers))
    ((name, cookie),) = written.items()
    assert name == ("__Host-vitrine_browser" if encrypted else "vitrine_browser")
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert cookie["secure"] == (True if encrypted else "")
    assert len(cookie.value) == 43  # 32 bytes
    monkeypatch.setattr("streamlit.context", SimpleNamespace(cookies={name: cookie.value}, headers=headers))
    assert browser() == cookie.value
    assert new_cookie(headers) != new_cookie(headers)


def test_what_another_name_of_the_domain_may_write_is_not_believed_through_tls():
    value = SimpleCookie(new_cookie({}))[browsers.COOKIE].value
    assert secret({browsers.COOKIE: value}, {}) == value
    assert secret({browsers.COOKIE: value}, TLS) == ""
    assert secret({"_streamlit_xsrf": value}, {}) == ""  # which scripts read
    assert [secret({browsers.COOKIE: wrong}, {}) for wrong in ("", "short", value + "a", value[:-1] + "\n")] == [""] * 4
