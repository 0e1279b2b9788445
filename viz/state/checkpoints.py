"""The checkpoints that are here, and the models in them, opened once for all sessions."""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from viz.state import browsers
from viz.state.permissions import Quota, limit, seconds_kept
from viz.state.session import Session

if TYPE_CHECKING:
    from model.checkpoints.catalog import CatalogEntry
    from model.checkpoints.uploads import Opened, OpenedSessions
    from model.inference.text_model import TextModel

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
SAVED = "VITRINE_SAVED"  # in the environment: the folder of the checkpoints that the user saves
MODELS = "VITRINE_MODELS"  # in the environment: a folder whose folders and files are checkpoints
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".gguf")  # of files in that folder
CONFIGS = ("config.json", "adapter_config.json")  # of which a checkpoint's folder has one
UNNAMED = "checkpoint"  # name of those without one, or with one that leads elsewhere
GIVEN = "--checkpoint"  # on the command line, behind "--": a checkpoint to be shown at first
HINTS = ("--hints", "--told")  # and there, by its old name too: what its weights do not tell, such as heads:8,start:1


@dataclass(frozen=True)
class CheckpointEntry:
    """A checkpoint by the name that the user sees: where it lies, and how it came into the list.

    origin: "opened", in this session only; "given" on the command line; "folder", "saved" or "bundled".
    """

    name: str
    path: Path
    origin: str

    @property
    def changed(self) -> int:
        """Changes when a file of it does. Of what is not there, 0."""
        try:
            files = [self.path, *(self.path.iterdir() if self.path.is_dir() else ())]
            return max(int(file.stat().st_mtime_ns) for file in files)
        except OSError:
            return 0

    def listed(self) -> CatalogEntry:
        """Its line of the catalogue, from its headers."""
        return _listed(str(self.path), self.changed)


def bundled_names() -> Sequence[str]:
    """The bundled checkpoints."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


def saved_folder() -> Path:
    """Folder of saved checkpoints: VITRINE_SAVED, else ~/.vitrine/checkpoints."""
    wanted = os.environ.get(SAVED, "").strip()
    return Path(wanted).expanduser() if wanted else Path.home() / ".vitrine" / "checkpoints"


def saved_names() -> Sequence[str]:
    """The checkpoints that were saved; one whose name a bundled one has is not seen."""
    from model.runtime.files import finish_all

    finish_all(saved_folder())
    names = {path.parent.name for path in saved_folder().glob("*/config.json")}
    return sorted(name for name in names - set(bundled_names()) if not name.startswith("."))


def checkpoint_names() -> Sequence[str]:
    """The bundled checkpoints, then the saved ones."""
    return [*bundled_names(), *saved_names()]


def given_paths() -> list[Path]:
    """Paths on the command line, `streamlit run app.py -- --checkpoint PATH`; several may be given."""
    return [Path(os.path.abspath(os.path.expanduser(text))) for text in words_after(GIVEN)]


def given_hints(name: str = "") -> str:
    """Hints on the command line for the weights of that name; empty where none can be read.

    Behind a hint may stand of which checkpoint it is, as in heads:8@gpt.pt; without that it is of each that is given.
    """
    from model.checkpoints.load_hints import LoadHints

    words = (word.partition("@") for word in words_after(*HINTS))
    try:
        return LoadHints.read(",".join(hints for hints, _sign, of in words if of in ("", name))).text()
    except ValueError:  # `ignored_arguments` says it
        return ""


def words_after(*names: str) -> list[str]:
    """Values of an option of the command line that has these names, as often as it is there."""
    words = sys.argv[1:]
    values = [value for name, sign, value in (word.partition("=") for word in words) if name in names and sign]
    return values + [after for before, after in pairwise(words) if before in names]


def places(opened: Sequence[CheckpointEntry] = ()) -> list[CheckpointEntry]:
    """Everything that is here, each under a name of its own. opened: by this session."""
    entries = [*opened]
    own = {place.name for place in opened}  # another session may save one under a name that this one has opened
    entries += [CheckpointEntry(name, CHECKPOINTS / name, "bundled") for name in bundled_names()]
    entries += [CheckpointEntry(name, saved_folder() / name, "saved") for name in saved_names() if name not in own]
    wanted = os.environ.get(MODELS, "").strip()
    folder = Path(wanted).expanduser() if wanted else None
    configured: list[Path] = []
    if folder and folder.is_dir():  # of models, or itself one, with those of its training inside
        inside = sorted(filter(is_checkpoint, folder.iterdir()))
        itself = any((folder / name).is_file() for name in CONFIGS)
        configured = [folder, *filter(Path.is_dir, inside)] if itself else inside
    for origin, paths in (("given", given_paths()), ("folder", configured)):
        for path in paths:
            if not any(place.path == path for place in entries):
                entries.append(
                    CheckpointEntry(unused(path.name or str(path), (place.name for place in entries)), path, origin)
                )
    order = ("opened", "given", "folder", "saved", "bundled")
    return sorted(entries, key=lambda place: order.index(place.origin))


def is_checkpoint(path: Path) -> bool:
    """True if a folder or file looks like one, by names alone."""
    if path.name.startswith("."):
        return False
    if path.is_dir():
        return any((path / name).is_file() for name in CONFIGS) or any(path.glob("*.safetensors"))
    return path.suffix.lower() in SUFFIXES


def unused(name: str, taken: Iterable[str]) -> str:
    """The name, with a number where it is taken; another one for what would be a folder elsewhere in an archive."""
    plain = UNNAMED if name in ("", ".", "..") or {"/", "\\"} & set(name) else name
    used, candidate, number = set(taken), plain, 1
    while candidate in used:
        number += 1
        candidate = f"{plain}-{number}"
    return candidate


def open_place(
    place: CheckpointEntry, precision: str | None = None, hints: str = "", base: Path | None = None
) -> TextModel:
    """The model of a checkpoint; sessions share it, but for what one of them has opened.

    precision: by its name; by default what VITRINE_DTYPE says. hints: what tensors do not tell, a text of
    `LoadHints`. base: the folder of the model that an adapter changes.

    Raises:
        ValueError: it is damaged, no model, does not fit, or VITRINE_DEVICE or VITRINE_DTYPE is wrong.
    """
    from model.runtime.device import choose_device, choose_dtype

    if not place.path.exists():
        raise ValueError(f"{place.path} is not there: give the path of a checkpoint's folder or file")
    dtype = precision or str(choose_dtype()).removeprefix("torch.")
    opener = _open_own if place.origin == "opened" else _open_shared
    beneath = None if base is None else (str(base), CheckpointEntry("", base, "").changed)
    model: TextModel = opener(place.name, str(place.path), place.changed, str(choose_device()), dtype, hints, beneath)
    return model


def find(name: str, here: Sequence[CheckpointEntry]) -> CheckpointEntry:
    """The checkpoint of that name.

    Raises:
        ValueError: there is none.
    """
    if not here:
        raise ValueError(f"there is no checkpoint in {CHECKPOINTS.name}/: train one with python -m model train")
    for place in here:
        if place.name == name:
            return place
    raise ValueError(f"there is no checkpoint {name!r}: choose one of {', '.join(place.name for place in here)}")


@st.cache_data(max_entries=256, show_spinner=False)
def _listed(path: str, changed: int) -> CatalogEntry:  # noqa: ARG001 - of the key in the cache
    from model.checkpoints.catalog import catalog_entry

    return catalog_entry(Path(path))


def _open(
    name: str,
    path: str,
    changed: int,  # noqa: ARG001 - of the key in the cache
    device: str,
    dtype: str,
    hints_text: str,
    base: tuple[str, int] | None,
) -> TextModel:
    """base: the path of an adapter's base, and what changes with it."""
    import torch

    from model.checkpoints.load import open_checkpoint
    from model.checkpoints.load_hints import LoadHints
    from model.fast.packed_weights import is_faster
    from model.runtime.device import DTYPES, keep_freed_memory

    keep_freed_memory()
    if device == "cpu":
        torch.set_num_threads(1)  # a sentence gains nothing from a second thread, the browser needs the core
        is_faster(1)  # measured now, and not while somebody types
    hints = asdict(LoadHints.read(hints_text)) | ({} if base is None else {"base": base[0]})
    model = open_checkpoint(path, torch.device(device), DTYPES[dtype], **hints)
    model.name = name  # a folder of Hugging Face's cache is called by a number
    spare_collections()
    return model


_open_shared = st.cache_resource(max_entries=4, show_spinner=False)(_open)
_open_own = st.cache_resource(max_entries=2, show_spinner=False, scope="session")(_open)  # freed with its session


@cache
def spare_imports() -> None:
    """Freeze, once in a process, what the first trainer imports: a collection of it takes as long as two steps."""
    spare_collections()


def spare_collections() -> None:
    """Imports and weights stay: no later collection walks over them. What was spared before is looked at once more."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


# Checkpoints of this session alone: uploads, paths, names at Hugging Face.


class Part(StrEnum):
    """Names in the session state; the first is a parameter of the address bar too."""

    SESSION = "opened"  # a reload finds again what was opened
    KEY = "opened_key"


@st.cache_resource(show_spinner=False)
def sessions() -> OpenedSessions:
    """Registry of this process."""
    from model.checkpoints.uploads import LARGEST, Allowance, OpenedSessions, Uploads

    each, every = limit(Quota.UPLOAD_SIZE), limit(Quota.UPLOADS_SIZE)
    largest = LARGEST if each is None else int(each * 1e6)
    allowance = None if every is None else Allowance(int(every * 1e6))
    return OpenedSessions(seconds_kept(), uploads=lambda: Uploads(largest, allowance))


@st.cache_resource(show_spinner=False, scope="session", on_release=lambda key: sessions().leave(key))
def _window(key: str) -> str:
    """A window on what was opened under this key, until it is closed."""
    sessions().enter(key)
    return key


def opened(session: Session) -> Opened | None:
    """Record of what this session has opened, also after a reload; None if it has opened nothing.

    The address has the key, and a link may be copied: the key is good only in the browser that opened it, when no
    window shows it any more.
    """
    if Part.KEY not in st.session_state:
        key = st.query_params.get(Part.SESSION, "")
        _know(session, key if key and sessions().take(key, browsers.browser()) else "")
    key = st.session_state[Part.KEY]
    record = sessions().get(key) if key else None
    if record:
        _window(key)
    return record


def begin(session: Session) -> Opened:
    """Record of this session, begun where there is none yet."""
    record = opened(session)
    if record is None:
        key = secrets.token_urlsafe(12)
        record = sessions().begin(key, browsers.browser())
        _window(key)
        _know(session, key)
    return record


def _know(session: Session, key: str) -> None:
    st.session_state[Part.KEY] = key
    if key or Part.SESSION in st.query_params:
        session.address.set(Part.SESSION, key or None)


def own_places(session: Session) -> list[CheckpointEntry]:
    """Checkpoints that only this session sees."""
    record = opened(session)
    return [CheckpointEntry(name, path, "opened") for name, path in record.places.items()] if record else []


def own_names(session: Session) -> list[str]:
    """Their names."""
    return [place.name for place in own_places(session)]


def all_places(session: Session) -> list[CheckpointEntry]:
    """Everything that this session can look at."""
    return places(own_places(session))


def add(session: Session, name: str, path: Path) -> str:
    """Put a path into this session's list, once; gives the name that it has there."""
    for place in own_places(session):
        if place.path == path:
            return place.name
    name = unused(name, (place.name for place in all_places(session)))
    begin(session).places[name] = path
    return name


def remove(session: Session, name: str) -> bool:
    """Take it out of this session's list; whether it was there."""
    record = opened(session)
    return bool(record and record.places.pop(name, None))
