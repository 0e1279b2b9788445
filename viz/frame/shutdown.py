"""A server that is told to stop: trainings that go on are saved first, and whoever opens the application next is told.

Where trainings are kept (VITRINE_TRAININGS), the newest state is, and the address of its window goes on with it;
elsewhere the model becomes a checkpoint beside those that visitors have saved.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import literal
from viz.state import permissions, training
from viz.state.checkpoints import bundled_names, saved_folder, saved_names
from viz.state.permissions import Permission
from viz.state.session import Session

if TYPE_CHECKING:
    from model.training.live.live_training import LiveTraining

GOING_ON = ("running", "waiting")
PATIENCE = 20.0  # seconds that the server's end waits: who told it to stop will not wait much longer
NOTE = ".stopped-*.json"  # of a training that was saved, beside it, until somebody was told
LARGEST = 1 << 16  # bytes of a note
STALE = 7 * 24 * 3600.0  # seconds after which a note that nobody was told is removed
_log = logging.getLogger(__name__)


def save_trainings() -> None:
    """Pause and save every training that goes on; the log says where. At most `PATIENCE` seconds."""
    going_on = [live for live in training.trainings().all() if live.snapshot.status in GOING_ON and live.snapshot.step]

    def save() -> None:
        for live in going_on:
            _save(live)

    saver = threading.Thread(target=save, name="saves trainings", daemon=True)  # it holds up no end
    saver.start()
    saver.join(PATIENCE)
    if saver.is_alive():
        _log.warning("the server ends before all its trainings are saved: %s seconds are over", PATIENCE)


def _save(live: LiveTraining) -> None:
    name = live.start.name
    try:
        live.pause()
        if folder := live.keep():
            saved, parent = "", folder.parent
        elif permissions.may(Permission.SAVING):
            saved, parent = _free_name(name), saved_folder()
            live.save(folder := parent / saved)
        else:
            why = "this server saves nothing, and VITRINE_TRAININGS is not set"
            warning = "the training of %s is lost, as it stands after step %s: %s"
            _log.warning(warning, name, live.snapshot.step, why)
            return
        step = live.snapshot.step
        _log.warning("the training of %s is saved as it stands after step %s: %s", name, step, folder)
        note = {"owner": live.owner, "name": name, "step": step, "path": str(folder), "saved": saved}
        (parent / NOTE.replace("*", secrets.token_hex(8))).write_text(json.dumps(note), encoding="utf-8")
    except (ValueError, OSError, RuntimeError) as error:  # the others are saved all the same
        _log.exception("the training of %s could not be saved: %s", name, error)


def _free_name(name: str) -> str:
    """A name of letters, digits, - and _ that no model in the list has."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-_")[:50] or "training"
    taken = {*bundled_names(), *saved_names()}
    return next(each for number in count(1) if (each := f"{plain}-stopped{number}") not in taken)


def tell(session: Session) -> None:
    """Say, once, what was saved when the server was stopped: to its owner, or to who sits at this machine."""
    for note in _notes():
        content = _read(note)
        here = permissions.may_name_paths(st.context.headers.to_dict())
        if content is None or not (here or (content["owner"] and content["owner"] == training.owner(session))):
            continue
        try:
            note.unlink()
        except OSError:  # another session was told
            continue
        st.toast(_sentence(content, here), icon=":material/save:", duration="infinite")


def _notes() -> list[Path]:
    folder = training.kept_folder("")
    parents = [saved_folder(), *([folder.parent] if folder else [])]
    return [note for parent in parents for note in sorted(parent.glob(NOTE))]


def _read(note: Path) -> dict[str, Any] | None:
    """Contents of a note; None: it is no note, or an old one, which goes."""
    from model.runtime.untrusted_json import read_json

    try:
        content = read_json(note, largest=LARGEST)
        if time.time() - note.stat().st_mtime < STALE:
            return {
                **{name: str(content[name]) for name in ("owner", "name", "path", "saved")},
                "step": int(content["step"]),
            }
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with suppress(OSError):
        note.unlink()
    return None


def _sentence(note: dict[str, Any], with_path: bool) -> str:
    if note["saved"]:
        sentence = _(
            "The server was stopped while {name} trained: as it stood after step {step} it is in the list of models, "
            "as {saved}."
        )
    else:
        sentence = _(
            "The server was stopped while {name} trained: it is kept as it stood after step {step}, and the address of "
            "its window goes on with it."
        )
    names = {name: literal(note[name]) for name in ("name", "saved")}
    text = sentence.format(**names, step=f"{note['step']:,}")
    return f"{text} {_('It lies in {path}.').format(path=literal(note['path']))}" if with_path else text
