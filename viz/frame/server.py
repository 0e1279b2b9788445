"""What stands beside Streamlit's routes and before them: the channel, the guard, whether the server is ready."""

from __future__ import annotations

import importlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from viz.frame.channel import channel
from viz.frame.guard import Guard, base_path
from viz.state.session import SESSIONS

_ready = threading.Event()


@asynccontextmanager
async def prepared(_app: Any) -> AsyncIterator[None]:
    """While the server lives: what every page imports is imported beside its start."""
    threading.Thread(target=_prepare, name="prepare", daemon=True).start()
    yield


def _prepare() -> None:
    _tidy()
    for name in ("torch", "viz.frame.app", "viz.pages.attention.page"):
        importlib.import_module(name)
    _ready.set()


def _tidy() -> None:
    """What killed servers left: uploads, and models half written."""
    from model.checkpoints.uploads import remove_left_uploads
    from model.runtime.files import remove_left
    from viz.state.checkpoints import saved_folder

    remove_left_uploads()
    if saved_folder().is_dir():
        remove_left(saved_folder())


async def health(_request: Request) -> JSONResponse:
    """The process answers."""
    return JSONResponse({"status": "ok"})


async def ready(_request: Request) -> JSONResponse:
    """Whether a page can be drawn at once, and how many sessions there are."""
    found = _ready.is_set()
    return JSONResponse({"ready": found, "sessions": len(SESSIONS)}, 200 if found else 503)


ANSWERS = {"health": health, "ready": ready}
ROUTES = [
    *(WebSocketRoute(f"{base}/channel", channel) for base in {"", base_path()}),
    *(Route(f"{base}/{path}", answer) for base in {"", base_path()} for path, answer in ANSWERS.items()),
]
MIDDLEWARE = [Middleware(Guard)]
