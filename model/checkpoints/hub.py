"""Models of Hugging Face by their names: files to download and their size, and the download."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.runtime.errors import CheckpointError, first_line
from model.runtime.files import SPARE

NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# No code is ever fetched; .bin, which is pickled, only of a model that has no safetensors.
TEXTS = (".json", ".model", ".spm", ".txt")
PATIENCE = 8.0  # seconds until an answer
LONGEST = 96  # characters of a name
REASONS = {  # words for the library's exceptions
    "RepositoryNotFoundError": "there is no model of that name that everybody may read",
    "GatedRepoError": "its authors give it only to those who have asked for it",
    **dict.fromkeys(("ConnectError", "ConnectionError", "ConnectTimeout"), "there is no connection to the network"),
    **dict.fromkeys(("ReadTimeout", "Timeout", "TimeoutException"), "it does not answer"),
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set",
}


@dataclass(frozen=True)
class Offer:
    """Files of one revision of a model to download. bytes: of all together."""

    name: str
    revision: str
    files: tuple[str, ...]
    bytes: int


def ask(name: str) -> Offer:
    """Offer of a model by a name such as "openai-community/gpt2"; no file is downloaded.

    Raises:
        CheckpointError: there is no such model, it holds no weights, the network does not allow it, or the disk has no
            room for it.
    """
    name = name.strip()
    if len(name) > LONGEST or not NAME.fullmatch(name):
        raise CheckpointError(
            "{name!r} is not a name at Hugging Face: it looks like openai-community/gpt2", name=name[:80]
        )
    _require_network()
    try:
        from huggingface_hub import HfApi

        info = HfApi().model_info(name, files_metadata=True, timeout=PATIENCE)
    except ImportError as error:
        raise CheckpointError("huggingface_hub is not installed: pip install huggingface_hub") from error
    except Exception as error:  # each transport has its own
        raise CheckpointError(
            "{file} cannot be asked for at Hugging Face: {reason}", file=name, reason=_reason(error)
        ) from error
    sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or []}
    files = wanted(sizes)
    if not any(file.endswith((".safetensors", ".bin")) for file in files):
        raise CheckpointError("{file} holds no weights in .safetensors or .bin: choose another model", file=name)
    offer = Offer(name, str(info.sha), tuple(files), sum(sizes[file] for file in files))
    require_disk(offer, _cache())
    return offer


def unanswered(name: str) -> CheckpointError:
    """Error that says that nobody has answered `ask` for so long as an answer takes at most."""
    return CheckpointError(
        "Hugging Face has not answered about {name} in {patience:.0f} s: try it later",
        name=name[:LONGEST],
        patience=PATIENCE,
    )


def wanted(files: Sequence[str] | dict[str, int]) -> list[str]:
    """Files of a repository that a model needs: its weights, in safetensors where there are any, and texts; no code."""
    top = [file for file in files if "/" not in file]
    named = [file for file in top if re.fullmatch(r"model(-\d+-of-\d+)?\.safetensors", file)]
    weights = named or [file for file in top if file.endswith(".safetensors")]
    pickled = [file for file in top if re.fullmatch(r"pytorch_model(-\d+-of-\d+)?\.bin", file)]
    return [*(weights or pickled), *(file for file in top if file.endswith(TEXTS))]


def require_disk(offer: Offer, folder: Path) -> None:
    """Refuse an offer for which the disk of a folder has no room.

    Raises:
        CheckpointError: the disk has no room; the sentence has both sizes.
    """
    free = shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free
    if offer.bytes + SPARE > free:
        raise CheckpointError(
            "{name} takes {bytes:.3g} GB and the disk has {free:.3g} GB free, of which {spare:.2g} GB must stay: "
            "choose a smaller model or make room",
            name=offer.name,
            bytes=offer.bytes / 1000000000.0,
            free=free / 1000000000.0,
            spare=SPARE / 1000000000.0,
        )


def fetch(offer: Offer, count: Callable[[float], None]) -> Path:
    """Download an offer into the library's cache, and give its folder there.

    count: is told how many bytes are there, in any thread; what it raises ends the download, whose whole files stay.

    Raises:
        CheckpointError: it could not be downloaded.
    """
    try:
        from huggingface_hub import snapshot_download

        files = list(offer.files)
        bars = _counter(count)
        return Path(snapshot_download(offer.name, revision=offer.revision, allow_patterns=files, tqdm_class=bars))
    except Exception as error:  # each transport has its own
        raise CheckpointError(
            "{name} could not be fetched: {reason}", name=offer.name, reason=_reason(error)
        ) from error


def _counter(count: Callable[[float], None]) -> Any:
    """Class of a progress bar that is not drawn, but counts bytes; all files together have one of their own."""
    from tqdm import tqdm

    done: dict[int, float] = {}

    class Counter(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            super().__init__(*args, **(kwargs | {"disable": True}))
            self.counts = kwargs.get("unit") == "B"
            self.seen = 0.0

        def update(self, n: float | int | None = 1) -> bool | None:
            self.seen += n or 0
            if self.counts:
                done[id(self)] = self.seen
            count(max(done.values(), default=0.0))
            return None

    return Counter


def cached(name: str, revision: str | None = None) -> Path | None:
    """Folder of a model by its name, where Hugging Face's cache has it; nothing is fetched. None: it has it not.

    revision: a branch, tag or commit; None: the main branch.
    """
    if len(name) > LONGEST or not NAME.fullmatch(name) or ".." in f"{name}{revision}":
        return None
    try:
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(name, "config.json", revision=revision)
    except (ImportError, ValueError, OSError):  # names and revisions that the library takes for none
        return None
    return Path(config).parent if isinstance(config, str) else None


def _cache() -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def _require_network() -> None:
    if os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "TRUE", "YES", "ON"):
        raise CheckpointError("HF_HUB_OFFLINE is set, so nothing is fetched: give a folder on this machine instead")


def _reason(error: Exception) -> str:
    kind = type(error).__name__
    first = first_line(error)
    return REASONS.get(kind, f"{first} ({kind})" if first != kind else kind)
