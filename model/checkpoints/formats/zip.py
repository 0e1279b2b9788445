"""The zip archive that torch.save writes, checked before torch sees it."""

from __future__ import annotations

import io
import os
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import torch

from model.runtime.errors import CheckpointError, first_line
from model.runtime.files import open_file

MOST_FILES = 100_000
LARGEST_DIRECTORY = 16 << 20  # bytes: the names and places of that many files
LARGEST_PICKLE = 32 << 20  # bytes: names and shapes of all tensors; GPT-2 with its optimizer has 0.1 MB
LARGEST_NOTE = 4096  # bytes: the version, the order of bytes


@dataclass(frozen=True)
class Archive:
    """Content of data.pkl, and the size in bytes of every file by its name within the archive's folder."""

    pickle: bytes
    sizes: dict[str, int]


def read_archive(path: Path) -> Archive:
    """Archive of a file of torch.save; no values of tensors are read.

    Raises:
        CheckpointError: the file is damaged, compressed, or another program's archive.
    """
    try:
        with open_file(path) as file, zipfile.ZipFile(cast(IO[bytes], Bounded(file, LARGEST_PICKLE))) as archive:
            sizes = _sizes(path, archive, os.fstat(file.fileno()).st_size)
            first = archive.infolist()[0].filename.partition("/")[0]
            content = archive.read(f"{first}/data.pkl")
    except CheckpointError:
        raise
    except Exception as error:  # damaged bytes lead zipfile to exceptions of many kinds
        if path.suffix.lower() == ".ckpt":
            raise CheckpointError(
                "{file} is no file of PyTorch Lightning, and TensorFlow's checkpoints, which end so too, are not "
                "opened: get its model.safetensors, which transformers writes with save_pretrained",
                file=path,
            ) from error
        raise CheckpointError(
            "{file} cannot be read as a file of torch.save, which is a zip archive since torch 1.6: {error}; get "
            "it again, or wait until it is written",
            file=path,
            error=error,
        ) from error
    _require_same(path, content, sizes)
    return Archive(content, sizes)


class Bounded:
    """A file that refuses to read more than `most` bytes at once: the directory of an archive may claim any size."""

    def __init__(self, file: io.BufferedIOBase, most: int) -> None:
        self._file, self._most = file, most
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int | None = -1, /) -> bytes:
        """The next `size` bytes, all that are left by default.

        Raises:
            BadZipFile: `size` is larger than `most`.
        """
        wanted = self._most if size is None or size < 0 else size  # all that is left: a few bytes before the end
        if wanted > self._most:
            raise zipfile.BadZipFile(f"its directory claims {wanted:,} bytes")
        return self._file.read(wanted)


def _sizes(path: Path, archive: zipfile.ZipFile, file_bytes: int) -> dict[str, int]:
    files = archive.infolist()
    if archive.start_dir < file_bytes - LARGEST_DIRECTORY or len(files) > MOST_FILES:
        raise CheckpointError(
            "{file} claims {count:,} files in it: at most {most_files:,} are read",
            file=path,
            count=len(files),
            most_files=MOST_FILES,
        )
    if not any(file.filename.endswith("/data.pkl") for file in files):
        raise CheckpointError("{file} is a zip archive of something else: no data.pkl of torch.save in it", file=path)
    folder = files[0].filename.partition("/")[0]
    if any(file.filename == f"{folder}/constants.pkl" for file in files):
        raise CheckpointError(
            "{file} is a program of TorchScript, which is not run: save its weights where it comes from with "
            'torch.save(torch.jit.load("model.pt").state_dict(), "weights.pt")',
            file=path,
        )
    for file in files:
        name = file.filename
        if file.compress_type != zipfile.ZIP_STORED or file.flag_bits & 1:
            raise CheckpointError(
                "{file} is a packed zip archive, which torch.save does not write: unpack it, then zip with -0",
                file=path,
            )
        if not name.startswith(f"{folder}/") or "\\" in name or {"", ".", ".."} & set(name.split("/")):
            raise CheckpointError(
                "{file} holds a file called {name!r}, which torch.save does not write", file=path, name=name[:60]
            )
        if file.file_size != file.compress_size or file.header_offset + file.file_size > file_bytes:
            raise CheckpointError(
                "{file} is damaged: {name!r} in it claims {file_size:,} bytes where the whole file has {file_bytes:,}",
                file=path,
                name=name[:60],
                file_size=file.file_size,
                file_bytes=file_bytes,
            )
    names = Counter(file.filename.casefold() for file in files)
    if len(names) < len(files):
        raise CheckpointError(
            "{file} holds two files called {most_common!r}: save it again",
            file=path,
            most_common=names.most_common(1)[0][0][:60],
        )
    sizes = {file.filename[len(folder) + 1 :]: file.file_size for file in files}
    _require_small(path, sizes)
    return sizes


def _require_small(path: Path, sizes: dict[str, int]) -> None:
    """Bound the files that are read whole: all but the values of tensors."""
    for name, size in sizes.items():
        largest = LARGEST_PICKLE if name == "data.pkl" else LARGEST_NOTE
        if size > largest and not name.startswith("data/"):
            raise CheckpointError(
                "{file} holds a {name!r} of {size:,} bytes: at most {largest:,} are read",
                file=path,
                name=name[:60],
                size=size,
                largest=largest,
            )


def _require_same(path: Path, content: bytes, sizes: dict[str, int]) -> None:
    """Require that torch's own reader of archives, another library, finds the same data.pkl."""
    try:
        reader = torch._C.PyTorchFileReader(str(path))
        same = reader.get_record("data.pkl") == content
        order = reader.get_record("byteorder") if "byteorder" in sizes else b"little"
    except Exception as error:  # torch's own text may not even be UTF-8
        raise CheckpointError(
            "{file} is damaged: torch cannot load it ({first_line})", file=path, first_line=first_line(error)
        ) from error
    if not same:
        raise CheckpointError(
            "{file} is an archive in which two programs find two different files: save it again", file=path
        )
    if order != b"little":
        raise CheckpointError("{file} was written on a big-endian machine: save it there as safetensors", file=path)
