"""Routes beside Streamlit's and what stands before them: the channel, the guard, whether the server is ready."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import os
import re
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from streamlit.runtime import get_instance

from viz.frame import channel
from viz.frame.guard import Guard
from viz.frame.metrics import metrics
from viz.frame.shutdown import save_trainings
from viz.state import training
from viz.state.class_sessions import CLASS_SESSIONS, REPLICA
from viz.state.session import SESSIONS, all_sessions
from viz.web.modules import ROUTE, base_path, serve_module

NAME = re.compile(r"[\w.-]+", re.ASCII)
SOON = 5.0  # seconds between looks for sessions whose time to come back is over
EVERY, PATIENCE = 4, 6  # looks from one giving back of memory to the next; how often that is put off
_ready = threading.Event()
_draining = threading.Event()


@asynccontextmanager
async def prepared(_app: Any) -> AsyncIterator[None]:
    """Context of the server's life: what every page imports is imported beside its start; SIGUSR1 has it take nobody
    new. Before it ends, trainings that go on are saved.
    """
    with suppress(NotImplementedError, AttributeError, ValueError, RuntimeError):  # Windows, or not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _draining.set)
    threading.Thread(target=_prepare, name="prepare", daemon=True).start()
    ended, loop = threading.Event(), asyncio.get_running_loop()
    threading.Thread(target=_give_back, args=(ended, loop), name="give back", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        await asyncio.to_thread(save_trainings)


def _prepare() -> None:
    _tidy()
    for name in ("torch", "viz.frame.app", "viz.pages.attention.page"):
        importlib.import_module(name)
    _ready.set()
    importlib.import_module("model.training.live.registry")  # what the first click on a step of training needs
    training.served.set()


def _give_back(ended: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
    """Give back to the system what closed windows have left, now and then, when nobody types: no run of a script
    collects garbage (.streamlit/config.toml), and the C library keeps what is freed.
    """
    looks = put_off = 0
    while not ended.wait(SOON):
        with suppress(RuntimeError):  # the server ends at this moment
            loop.call_soon_threadsafe(_forget)
        looks += 1
        if looks % EVERY:
            continue
        if channel.typing() and put_off < PATIENCE:
            put_off += 1
            continue
        put_off = 0
        gc.collect()
        with suppress(OSError, AttributeError):  # not glibc
            ctypes.CDLL(None).malloc_trim(0)


def _forget() -> None:
    """Sessions of Streamlit whose time to come back is over are let go, each with an event loop of three descriptors:
    Streamlit drops them only when the next session leaves. It has no public way to ask for it. Their tokens open no
    channel from then on, though garbage is collected later. And class sessions that nobody teaches any more end.
    """
    CLASS_SESSIONS.sweep()
    with suppress(AttributeError):
        manager = cast("Any", get_instance())._session_mgr
        manager._session_storage._cache.expire()
        there = {info.session.id for info in manager.list_sessions()}
        for session in all_sessions():
            if session.visitor and session.visitor not in there:
                SESSIONS.pop(session.token, None)


def _tidy() -> None:
    """Remove what killed servers left: uploads, and models half written."""
    from model.checkpoints.uploads import remove_left_uploads
    from model.runtime.files import remove_left
    from model.training.live.saved_training import remove_old
    from viz.state.checkpoints import saved_folder

    remove_left_uploads()
    if (folder := training.kept_folder("")) is not None:
        remove_old(folder.parent)
        remove_left(folder.parent)
    if saved_folder().is_dir():
        remove_left(saved_folder())


async def health(_request: Request) -> JSONResponse:
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def ready(_request: Request) -> JSONResponse:
    """Readiness: a page can be drawn at once and new visitors may come; and the number of windows: one that is to end
    waits until there is none. The header X-Vitrine-Replica says where: nginx sends newcomers there.
    """
    is_ready, windows = _ready.is_set() and not _draining.is_set(), sum(len(each.channels) for each in all_sessions())
    status = {"ready": is_ready, "draining": _draining.is_set(), "sessions": len(SESSIONS), "windows": windows}
    name = os.environ.get(REPLICA, "").strip()
    return JSONResponse(status, 200 if is_ready else 503, {"X-Vitrine-Replica": name} if NAME.fullmatch(name) else None)


ANSWERS = {"health": health, "ready": ready, "metrics": metrics, ROUTE: serve_module}
ROUTES = [
    *(WebSocketRoute(f"{base}/channel", channel.channel) for base in {"", base_path()}),
    *(Route(f"{base}/{path}", answer) for base in {"", base_path()} for path, answer in ANSWERS.items()),
]
MIDDLEWARE = [Middleware(Guard)]
