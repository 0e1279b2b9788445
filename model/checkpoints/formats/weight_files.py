"""Files that hold the tensors of a path, and files that are refused by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model.runtime.errors import CheckpointError
from model.runtime.files import finish_replacing, require_file
from model.runtime.untrusted_json import read_bytes, read_json

SAFETENSORS, PYTORCH = "model.safetensors", "pytorch_model.bin"  # in a folder, ours or of Hugging Face
ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")  # in a folder of PEFT
PICKLED = (".pt", ".pth", ".bin", ".ckpt")  # the last is of PyTorch Lightning
READ = (".safetensors", *PICKLED, ".gguf")
ENDS = ", ".join(READ)
INSIDE = ("*/config.json", "snapshots/*/config.json")  # the second is Hugging Face's cache
MOST_SHARDS = 1000
POINTER, POINTER_MOST = b"version https://git-lfs.github.com/spec/", 1000  # beginning of a note of Git LFS; its bytes
UNPACK = "unpack it and give the folder, or upload it as .zip"
MADE_FROM = "give the checkpoint that it was made from"
TORCH = "get its model.safetensors, which transformers writes with save_pretrained"
KERAS = 'safetensors.numpy.save_file({each.path: each.numpy() for each in model.weights}, "model.safetensors")'
REFUSED = {
    **dict.fromkeys((".pkl", ".pickle"), ("a pickle, which can run any code when it is read", "save a .safetensors")),
    **dict.fromkeys((".joblib", ".dill"), ("a pickle, which can run any code when it is read", "save a .safetensors")),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), ("a model of Keras", f"write its weights with {KERAS}")),
    ".msgpack": ("a model of Flax", TORCH),
    **dict.fromkeys((".pb", ".tflite", ".index"), ("a model of TensorFlow", TORCH)),
    **dict.fromkeys(
        (".npz", ".npy"),
        ("NumPy's arrays", 'write them with safetensors.numpy.save_file(dict(numpy.load(path)), "model.safetensors")'),
    ),
    ".onnx": ("a graph of ONNX, without the names of its training", MADE_FROM),
    **dict.fromkeys((".engine", ".plan", ".trt"), ("an engine of TensorRT, built for one GPU", MADE_FROM)),
    **dict.fromkeys((".mlmodel", ".mlpackage"), ("a model of Core ML", MADE_FROM)),
    **dict.fromkeys((".pte", ".pt2", ".ptl"), ("a program that torch has exported, which is not run", MADE_FROM)),
    ".distcp": (
        "a part of a distributed checkpoint of torch",
        "put it together: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt",
    ),
    ".nemo": ("an archive of NeMo", "unpack it with tar, and give the .ckpt in it"),
    ".mar": ("an archive of TorchServe, with code in it", MADE_FROM),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"), ("an archive", UNPACK)),
    **dict.fromkeys((".ggml", ".ggjt"), ("an old format of llama.cpp", "convert it to .gguf with llama.cpp")),
    ".json": ("no file of tensors", "give its folder"),
    ".py": ("a program, which is not run", "give the checkpoint that it writes"),
}
# Files of a folder whose weights lie in parts, by their pattern: what wrote it, and what to do.
DEEPSPEED = ("DeepSpeed's ZeRO", "put them together with its own zero_to_fp32.py, which DeepSpeed writes beside them")
SHARDED = (
    "torch.distributed (FSDP)",
    "put them together with python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt, or "
    "accelerate merge-weights FOLDER OUTPUT",
)
MEGATRON = ("Megatron-LM", "convert them with its tools/checkpoint/convert.py, or export them to Hugging Face")
META_PARTS = "consolidated.01.pth"
ORBAX = ("Orbax (JAX)", "save the weights as model.safetensors with safetensors.flax.save_file")
PARTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("*zero_pp_rank_*_states.pt", "*_optim_states.pt", "zero_to_fp32.py"), DEEPSPEED),
    "*.distcp": SHARDED,
    META_PARTS: ("Meta's model parallelism", "convert them with transformers' convert_llama_weights_to_hf.py"),
    **dict.fromkeys(("mp_rank_*/model_optim_rng.pt", "mp_rank_*/model_rng.pt"), MEGATRON),
    **dict.fromkeys(("manifest.ocdbt", "_CHECKPOINT_METADATA"), ORBAX),
}
NO_MODEL = (".json", ".py")  # which lie in every folder
SHARD = re.compile(r"-\d{5}-of-(?!00001\.)\d{5}\.")  # in the name of one of several files of a model
MOST_NAMED = 6  # checkpoints inside a folder, by name


@dataclass(frozen=True)
class Weights:
    """Files that hold the tensors of a path. index: name of the file of each tensor, where there are several files."""

    files: list[Path]
    index: dict[str, str] = field(default_factory=dict)


def weights_of(path: Path) -> Weights:
    """Files of weights of a path: the path itself, or in a folder model.safetensors, pytorch_model.bin, the files of
    their index, those of an adapter, or the only file of weights.

    Raises:
        CheckpointError: there are none, or the name is not that of a file with tensors.
    """
    finish_replacing(path)
    if path.is_dir():
        return _in_folder(path)
    if path.exists() and not path.is_file():
        raise CheckpointError(
            "{file} is neither a file nor a folder: give a checkpoint folder, or a file that ends in {ends}",
            file=path,
            ends=ENDS,
        )
    if not path.is_file():
        raise CheckpointError(
            "{file} does not exist: give a checkpoint folder, or a file that ends in {ends}", file=path, ends=ENDS
        )
    suffix = path.suffix.lower()
    if suffix in REFUSED:
        description, instead = REFUSED[suffix]
        raise CheckpointError(
            "{file} is {description}, and is not opened: {instead}", file=path, description=description, instead=instead
        )
    if suffix not in READ:
        raise CheckpointError("{file} must be a checkpoint folder or end in {ends}", file=path, ends=ENDS)
    return Weights([path])


def _in_folder(folder: Path) -> Weights:
    for name in (SAFETENSORS, PYTORCH, *ADAPTERS):
        if (folder / name).is_file():
            return Weights([folder / name])
        if (folder / f"{name}.index.json").is_file():
            return _indexed(folder / f"{name}.index.json", Path(name).suffix)
    alone = files_of_weights(folder)
    if len(alone) == 1 and not is_part(alone[0]):
        return Weights(alone)
    refuse_folder(folder, alone)
    raise CheckpointError(
        "{folder} is a folder without model.safetensors: give a checkpoint folder, or a file that ends in {ends}",
        folder=folder,
        ends=ENDS,
    )


def files_of_weights(folder: Path) -> list[Path]:
    """Files in a folder whose names are those of weights, in order."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in READ and file.is_file())


def is_part(file: Path) -> bool:
    """True if a file is by its name a part of a model that a program has split."""
    if file.name.startswith("consolidated.") and file.with_name(META_PARTS).exists():
        return True
    return bool(SHARD.search(file.name)) or any(file.match(pattern) for pattern in PARTS)


def _parts(folder: Path) -> tuple[Path, tuple[str, str]] | None:
    """First file by which a folder is known to hold its weights in parts, also one folder deeper, and what wrote it."""
    candidates = (
        (next(folder.glob(f"{deeper}{name}"), None), whose) for name, whose in PARTS.items() for deeper in ("", "*/")
    )
    return next(((file, whose) for file, whose in candidates if file is not None), None)


def refuse_folder(folder: Path, files: list[Path]) -> None:
    """Refuse a folder without the one file of weights, where it is known what it is; else do nothing. files: of
    weights, none or several.

    Raises:
        CheckpointError: it is a folder of checkpoints, such as a Trainer's, of parts of one, or of another program.
    """
    if (parts := _parts(folder)) is not None:
        file, (program, instead) = parts
        raise CheckpointError(
            "{folder} holds the weights in parts, as {program} saves them ({relative_to}), of which none is "
            "opened alone: {instead}",
            folder=folder,
            program=program,
            relative_to=file.relative_to(folder),
            instead=instead,
        )
    gguf = bool(files) and all(file.suffix.lower() == ".gguf" for file in files)
    if gguf and all(SHARD.search(file.name) for file in files):
        raise CheckpointError(
            "{folder} holds parts of a GGUF file ({name}): join them with llama-gguf-split --merge",
            folder=folder,
            name=files[0].name,
        )
    if files and all(SHARD.search(file.name) for file in files):
        raise CheckpointError(
            "{folder} holds parts of one model ({name}) and no index that says which tensor lies in which: get "
            "its model.safetensors.index.json (or pytorch_model.bin.index.json) from where they come",
            folder=folder,
            name=files[0].name,
        )
    if gguf:
        named = ", ".join(file.name for file in files[:MOST_NAMED])
        raise CheckpointError(
            "{folder} holds {count} GGUF files, each of them a model: give one of them ({named})",
            folder=folder,
            count=len(files),
            named=named,
        )
    if files:
        return
    inside = sorted({file.parent for pattern in INSIDE for file in folder.glob(pattern)}, key=_in_order)
    if inside:
        names = [str(path.relative_to(folder)) for path in inside]
        named = ", ".join(names[-MOST_NAMED:])
        raise CheckpointError(
            "{folder} is a folder of checkpoints, and none itself: give one of them, such as {named}",
            folder=folder,
            named=named,
        )
    for file in sorted(folder.iterdir()):
        suffix = file.suffix.lower()
        if suffix in REFUSED and suffix not in NO_MODEL:
            description, instead = REFUSED[suffix]
            raise CheckpointError(
                "{folder} holds {name}, which is {description}, and is not opened: {instead}",
                folder=folder,
                name=file.name,
                description=description,
                instead=instead,
            )


def _in_order(path: Path) -> tuple[str, int, str]:
    """Sort key: by name, and numbers at its end by their size: checkpoint-500 before checkpoint-1000."""
    words, number = re.fullmatch(r"(.*?)(\d*)", path.name, re.S).groups()  # type: ignore[union-attr]  # always fits
    return words, int(number[-18:] or 0), str(path)


def _indexed(index: Path, suffix: str) -> Weights:
    record = read_json(index)
    file_of = record.get("weight_map") if isinstance(record, dict) else None
    if not isinstance(file_of, dict) or not file_of or not all(isinstance(name, str) for name in file_of.values()):
        raise CheckpointError("{index} must say in weight_map in which file each tensor is", index=index)
    names = sorted(set(file_of.values()))
    for name in names:
        if not name.endswith(suffix) or {"/", "\\", ":", "\0"} & set(name) or name.startswith("."):
            raise CheckpointError(
                "{index} names {name!r}, which is no {suffix} file of its folder",
                index=index,
                name=name[:60],
                suffix=suffix,
            )
        if not (index.parent / name).is_file():
            raise CheckpointError(
                "{index} names {name!r}, which is not in its folder: put it there", index=index, name=name[:60]
            )
    if len(names) > MOST_SHARDS:
        raise CheckpointError(
            "{index} names {count:,} files: at most {most_shards:,} are read",
            index=index,
            count=len(names),
            most_shards=MOST_SHARDS,
        )
    return Weights([index.parent / name for name in names], file_of)


def require_weights_themselves(file: Path, size: int) -> None:
    """Refuse a note of Git LFS in the place of weights. size: of the file, in bytes.

    Raises:
        CheckpointError: the file is such a note.
    """
    if size < POINTER_MOST and read_bytes(file).startswith(POINTER):
        raise CheckpointError(
            "{file} only points to the weights, which Git LFS keeps: fetch them with git lfs pull", file=file
        )


def require_indexed(file_of: dict[str, str], weights: Weights) -> None:
    """Refuse an index that contradicts its files. file_of: name of the file of each tensor.

    Raises:
        CheckpointError: a tensor is not in the file that the index names.
    """
    for name, file in weights.index.items():
        if file_of.get(name) != file:
            raise CheckpointError(
                "{parent}: the index says that {name!r} is in {file!r}, where it is not: get the folder again "
                "from where it comes",
                parent=weights.files[0].parent,
                name=name[:60],
                file=file[:60],
            )


# A part of a file as a tensor whose pages are read when they are used.

MAPPING_ERRORS = (RuntimeError, MemoryError)  # of libraries where the system cannot map a file as large as this one


def map_file(path: Path, start: int, count: int) -> Tensor:
    """`count` bytes of a file from offset `start`, as a tensor (count) of uint8. Writing to it changes no file.

    Raises:
        CheckpointError: the file is shorter, or the memory does not hold even these bytes.
    """
    if not count:
        return torch.empty(0, dtype=torch.uint8)
    try:
        return torch.from_numpy(np.memmap(require_file(path), np.uint8, "c", start, (count,)))
    except ValueError as error:
        raise CheckpointError("{file} has changed since it was listed: open it again", file=path) from error
    except (OSError, MemoryError) as error:
        raise CheckpointError(
            "{file} holds a tensor of {count:.1f} GB, more than can be had of memory: it is listed, not measured",
            file=path,
            count=count / 1000000000.0,
        ) from error
