"""The application as a server has it: its routes, and what they say of whether a page can be drawn."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import runpy
import signal
import threading
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import streamlit as st
from starlette.requests import Request
from streamlit import config
from streamlit.runtime import Runtime
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.websocket_session_manager import WebsocketSessionManager

from tests.event_loop import run
from viz.frame import channel, guard, metrics, server
from viz.frame.failure import tell_failure
from viz.state.session import SESSIONS, Session
from viz.web.modules import ROUTE, serve_module

REQUEST = Request({"type": "http"})


@pytest.fixture
def imported(monkeypatch) -> list[str]:
    """A process that has prepared nothing yet: what it imports is listed, and not imported."""
    names: list[str] = []
    monkeypatch.setattr(server, "_ready", threading.Event())
    monkeypatch.setattr(server.training, "served", threading.Event())
    monkeypatch.setattr(server, "importlib", SimpleNamespace(import_module=names.append))
    return names


def answer(endpoint: Any) -> tuple[int, dict[str, Any]]:
    response = run(endpoint(REQUEST))
    return response.status_code, json.loads(response.body)


def test_the_script_as_a_module_is_an_application_with_the_routes_beside_streamlits(monkeypatch):
    monkeypatch.setattr(config, "_main_script_path", None)  # which an application sets
    module = importlib.import_module("app")
    assert isinstance(module.app, st.App)
    assert (module.app._user_routes, module.app._user_lifespan) == (server.ROUTES, server.prepared)
    assert module.app._user_middleware == server.MIDDLEWARE
    assert module.app._on_script_error is tell_failure
    assert module.app._resolved_script_path == Path(module.__file__)  # its own pages
    endpoints = {
        "/channel": channel.channel,
        "/health": server.health,
        "/ready": server.ready,
        "/metrics": metrics.metrics,
        "/web/{version}/{path:path}": serve_module,
    }
    assert {route.path: route.endpoint for route in server.ROUTES} == endpoints


@pytest.mark.parametrize(("told", "path"), [("", ""), ("/", ""), ("a", "/a"), ("/a/b/", "/a/b")])
def test_the_routes_stand_behind_the_path_that_streamlit_is_told_too(monkeypatch, told, path):
    monkeypatch.setitem(config.get_config_options(), "server.baseUrlPath", SimpleNamespace(value=told))
    assert guard.base_path() == path
    routes = [route.path for route in runpy.run_path(server.__file__)["ROUTES"]]
    assert sorted(routes) == sorted(
        f"{base}/{name}" for base in {"", path} for name in ("channel", "health", "ready", "metrics", ROUTE)
    )


def test_it_is_ready_once_what_a_page_needs_is_imported(imported):
    assert answer(server.health) == (200, {"status": "ok"})
    assert answer(server.ready)[0] == 503
    assert answer(server.ready)[1]["ready"] is False
    server._prepare()
    assert imported == ["torch", "viz.frame.app", "viz.pages.attention.page", "model.training.live.registry"]
    assert server.training.served.is_set()
    assert all(map(find_spec, imported))
    gc.collect()
    sessions = [Session(), Session()]
    told = {"ready": True, "draining": False, "sessions": len(SESSIONS), "windows": 0}
    assert answer(server.ready) == (200, told)
    assert {session.token for session in sessions} <= set(SESSIONS)


@pytest.mark.parametrize(("name", "header"), [("2", "2"), (" vitrine-2 ", "vitrine-2"), ("", None), ("a\nb: c", None)])
def test_a_replica_says_its_name_where_it_says_whether_it_is_ready(monkeypatch, name, header):
    monkeypatch.setenv("VITRINE_REPLICA", name)
    assert run(server.ready(REQUEST)).headers.get("x-vitrine-replica") == header


def test_a_server_begins_to_prepare_when_it_starts_and_does_not_wait_for_it(imported, monkeypatch):
    begun, finish = threading.Event(), threading.Event()
    monkeypatch.setattr(server.importlib, "import_module", lambda name: begun.set() or finish.wait(60))

    async def use() -> None:
        async with server.prepared(None):
            assert await asyncio.to_thread(begun.wait, 60)
            assert (await server.ready(REQUEST)).status_code == 503
            finish.set()
            assert await asyncio.to_thread(server._ready.wait, 60)
            assert (await server.ready(REQUEST)).status_code == 200

    run(use())


def test_a_server_that_is_to_end_takes_nobody_new_and_says_who_is_still_there(imported, monkeypatch):
    monkeypatch.setattr(server, "_draining", threading.Event())
    session = Session()
    session.channels.add(lambda: None)

    handlers: dict[int, Callable[[], None]] = {}

    async def use() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", handlers.__setitem__)
        async with server.prepared(None):
            assert await asyncio.to_thread(server._ready.wait, 60)
            assert (await server.ready(REQUEST)).status_code == 200
            handlers[signal.SIGUSR1]()
            response = await server.ready(REQUEST)
            assert response.status_code == 503
            told = json.loads(response.body)
            assert (told["ready"], told["draining"], told["windows"] >= 1) == (False, True, True)
            assert (await server.health(REQUEST)).status_code == 200  # whoever is there stays

    run(use())


def test_the_figures_are_in_prometheus_form():
    text = run(metrics.metrics(REQUEST)).body.decode()
    session = Session()
    session.channels.add(lambda: None)
    channel.TOOK.observe(0.3)
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[:1] != "#"}
    later = run(metrics.metrics(REQUEST)).body.decode()
    after = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in later.splitlines() if line[:1] != "#"}
    assert after["vitrine_windows"] == found["vitrine_windows"] + 1
    assert after["vitrine_turn_seconds_count"] == found["vitrine_turn_seconds_count"] + 1
    assert after['vitrine_memory_bytes{of="limit"}'] > after['vitrine_memory_bytes{of="left"}'] > 0
    assert after['vitrine_trainings{state="running"}'] == 0
    assert after["process_resident_memory_bytes"] > 0


def test_a_session_of_streamlits_whose_time_is_over_is_let_go_before_another_leaves(monkeypatch):
    storage = MemorySessionStorage(ttl_seconds=0)
    manager: Any = WebsocketSessionManager(storage, Any, Any, None)
    monkeypatch.setattr(server, "get_instance", lambda: SimpleNamespace(_session_mgr=manager))
    assert "_session_mgr" in Runtime.__init__.__code__.co_names
    session = Session()
    left = weakref.ref(session)
    storage.save(cast("Any", SimpleNamespace(session=SimpleNamespace(id="a", own=session))))
    del session
    gc.collect()
    assert left() is not None  # with an event loop: three descriptors
    server._forget()
    gc.collect()
    assert left() is None


def test_the_token_of_a_closed_window_opens_nothing_once_its_time_is_over(monkeypatch):
    """Garbage that holds the session is collected later."""
    storage = MemorySessionStorage(ttl_seconds=0)
    manager: Any = WebsocketSessionManager(storage, Any, Any, None)
    monkeypatch.setattr(server, "get_instance", lambda: SimpleNamespace(_session_mgr=manager))
    closed, shown, script = Session(visitor="a"), Session(visitor="b"), Session()
    storage.save(cast("Any", SimpleNamespace(session=SimpleNamespace(id="a"))))
    manager._active_session_info_by_id["b"] = SimpleNamespace(session=SimpleNamespace(id="b"))
    server._forget()
    assert [each.token in SESSIONS for each in (closed, shown, script)] == [False, True, True]


def test_sessions_are_looked_for_while_somebody_types_and_garbage_is_collected_when_nobody_does(monkeypatch):
    done: list[str] = []
    typing = iter([1] * 3 + [0] * 100)

    class Ended:
        looks = 0

        def wait(self, seconds):
            self.looks += 1
            done.append(f"{seconds:g} s")
            return self.looks > 5 * server.EVERY

    monkeypatch.setattr(server.channel, "typing", lambda: next(typing))
    monkeypatch.setattr(server, "gc", SimpleNamespace(collect=lambda: done.append("collected")))
    loop: Any = SimpleNamespace(call_soon_threadsafe=lambda call: done.append(call.__name__))
    server._give_back(cast("Any", Ended()), loop)
    assert done.count("_forget") == 5 * server.EVERY
    assert done[: 2 * 3] == ["5 s", "_forget"] * 3
    assert done.count("collected") == 2
