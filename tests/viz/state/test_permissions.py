"""What visitors may do, and who sits at this machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit import config

from viz.state.permissions import Permission, Quota, is_local, limit, may, may_name_paths, refused


@pytest.mark.parametrize(
    ("address", "headers", "local"),
    [
        ("127.0.0.1", {"Host": "127.0.0.1:8501"}, True),
        ("localhost", {"Host": "localhost"}, True),
        ("::1", {"Host": "[::1]:8501"}, True),
        ("", {"Host": "localhost:8501"}, False),
        ("0.0.0.0", {"Host": "localhost:8501"}, False),
        ("127.0.0.1", {"Host": "vitrine.example.org"}, False),
        ("127.0.0.1", {"Host": "localhost.example.org:80"}, False),
        ("127.0.0.1", {"Host": "localhost:8501", "X-Forwarded-For": "10.0.0.1"}, False),
        ("127.0.0.1", {"host": "localhost", "forwarded": "for=10.0.0.1"}, False),
    ],
)
def test_who_sits_at_this_machine(address, headers, local):
    assert is_local(address, headers) is local


@pytest.mark.parametrize(
    "header",
    [*("Via", "X-Real-IP", "CF-Connecting-IP", "Forwarded", "True-Client-IP"), "X-Forwarded-Proto", "x-forwarded-host"],
)
def test_whatever_a_proxy_adds_gives_it_away(header):
    assert not is_local("127.0.0.1", {"Host": "localhost:8501", header: "x"})


HERE, AWAY = {"Host": "127.0.0.1:8501"}, {"Host": "vitrine.example.org", "Via": "x"}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    for name in ("VITRINE_PUBLIC", *Permission, *Quota):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(config.get_config_options(), "server.address", SimpleNamespace(value="127.0.0.1"))


def test_a_setting_says_who_may_name_paths(monkeypatch):
    assert may_name_paths(HERE)
    assert not may_name_paths(AWAY)
    monkeypatch.setenv("VITRINE_PATHS", "0")
    assert not may_name_paths(HERE)
    monkeypatch.setenv("VITRINE_PATHS", "1")
    assert may_name_paths(AWAY)


@pytest.mark.parametrize("permission", Permission)
def test_a_public_server_permits_nothing_and_each_can_be_permitted_by_itself(monkeypatch, permission):
    assert may(permission)
    assert refused(permission) == ""
    monkeypatch.setenv("VITRINE_PUBLIC", "1")
    assert not any(map(may, Permission))
    assert not may_name_paths(HERE)
    assert refused(permission).endswith(".")
    monkeypatch.setenv(permission, "1")
    assert list(filter(may, Permission)) == [permission]
    monkeypatch.setenv("VITRINE_PUBLIC", "0")
    monkeypatch.setenv(permission, "0")
    assert [each for each in Permission if not may(each)] == [permission]
    monkeypatch.setenv(permission, "perhaps")
    assert may(permission)


@pytest.mark.parametrize("quota", Quota)
def test_a_public_server_limits_more_and_each_limit_can_be_set_by_itself(monkeypatch, quota):
    usual = limit(quota)
    monkeypatch.setenv("VITRINE_PUBLIC", "1")
    public = limit(quota)
    assert public is not None
    assert usual is None or usual > public
    for wrong in ("", "much", "-1", "0", "nan", "inf"):
        monkeypatch.setenv(quota, wrong)
        assert limit(quota) == public
    monkeypatch.setenv(quota, "7.5")
    assert limit(quota) == 7.5
    assert all(limit(each) != 7.5 for each in Quota if each != quota)
