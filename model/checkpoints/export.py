"""Export of a model of ours: as one .zip of its folder, or in the form of Hugging Face."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
from tokenizers.processors import TemplateProcessing

from model.checkpoints.convert.to_huggingface import Parameters, counterpart
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.runtime.errors import CheckpointError
from model.runtime.files import write_tensors
from model.text.huggingface.load import TARGET
from model.text.huggingface.slow_tokenizer import SlowTokenizer, write_older
from model.text.tokenizer import Role, Tokenizer

Write = Callable[[Path], None]
CARD = "README.md"
TASKS: dict[Kind, str] = {
    "encoder-decoder": "translation",
    "decoder-only": "text-generation",
    "encoder-only": "fill-mask",
}
AUTO = {
    "encoder-decoder": "AutoModelForSeq2SeqLM",
    "decoder-only": "AutoModelForCausalLM",
    "encoder-only": "AutoModelForMaskedLM",
}
READS: dict[Kind, Role] = {"encoder-decoder": "source", "decoder-only": "prompt", "encoder-only": "whole"}
LICENCES = {
    "public domain": "unlicense",
    "MIT": "mit",
    "Apache": "apache-2.0",
    **{f"CC BY {version}": f"cc-by-{version}" for version in ("2.0", "3.0", "4.0")},
    "CC0": "cc0-1.0",
}


def folder_zipped(folder: Path, name: str) -> bytes:
    """Content of a .zip that unpacks into a folder of this name, without hidden files and links.

    Raises:
        CheckpointError: the name would lead out of the folder where the .zip is unpacked.
    """
    if name in ("", ".", "..") or {"/", "\\"} & set(name):
        raise CheckpointError("{name!r} is no name of a folder: choose another one", name=name[:60])
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            inside = file.relative_to(folder)
            if file.is_file() and not file.is_symlink() and not any(part.startswith(".") for part in inside.parts):
                archive.write(file, Path(name) / inside)
    return content.getvalue()


def huggingface_zipped(model: TextModel, name: str, card: str = "") -> bytes:
    """Content of a .zip of the folder that `export_huggingface` writes.

    Raises:
        CheckpointError: as `export_huggingface` and `folder_zipped` do.
    """
    with TemporaryDirectory() as place:
        folder = Path(place) / "written"
        export_huggingface(model, folder, card)
        return folder_zipped(folder, name)


def export_huggingface(model: TextModel, folder: Path, card: str = "") -> None:
    """Write config.json, model.safetensors, tokenizers, generation_config.json and a card as Hugging Face has them.

    card: text of the model card.

    Raises:
        CheckpointError: no family computes what this model does; the sentence says which option has no counterpart. Or
            the model has no tokenizer.
    """
    family = counterpart(model.config)
    # Models are refused before anything is written.
    writers = _tokenizer_writers(model)
    options, tensors = family.make(Parameters(model.network))
    folder.mkdir(parents=True, exist_ok=True)
    copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}  # safetensors refuses shared memory
    write_tensors(folder / "model.safetensors", copies, {"format": "pt"})
    tokens, dtype = token_ids(model), str(model.dtype).removeprefix("torch.")
    for part in ("encoder", "decoder"):
        if isinstance(options.get(part), dict):
            options[part] |= tokens
    _write(folder / "config.json", options | tokens | {"dtype": dtype, "torch_dtype": dtype})
    if model.kind != "encoder-only":
        _write(
            folder / "generation_config.json", tokens | written_rules(model) | {"max_length": model.config.max_length}
        )
    for write in writers:
        write(folder)
    (folder / CARD).write_text(
        model_card(model, family.title, str(options["architectures"][0]), card), encoding="utf-8"
    )


def _tokenizer_writers(model: TextModel) -> list[Write]:
    """Functions that write the tokenizers into a folder: older files of Hugging Face, for both sides, as they were.

    Raises:
        CheckpointError: the model has no tokenizer.
    """
    source, target, length = model.source_tokenizer, model.target_tokenizer, model.config.max_length
    if isinstance(source, SlowTokenizer) and isinstance(target, SlowTokenizer) and source.files == target.files:
        return [partial(write_older, source.files)]
    read, written = library_tokenizer(source), library_tokenizer(target)
    writers: list[Write] = [lambda folder: write_tokenizer(read, source, folder, READS[model.kind], length)]
    if model.kind == "encoder-decoder":
        writers.append(lambda folder: write_tokenizer(written, target, folder / TARGET, "target", length))
    return writers


def token_ids(model: TextModel) -> dict[str, Any]:
    """Ids of special tokens by their names in configs of Hugging Face."""
    target = model.target_tokenizer
    ids = {"pad_token_id": target.padding, "bos_token_id": target.start, "eos_token_id": target.end}
    if model.kind == "encoder-decoder":
        ids["decoder_start_token_id"] = target.margins("target")[0][0]
    return ids


def written_rules(model: TextModel) -> dict[str, Any]:
    """Rules of generation by their names in a generation_config.json."""
    tokenizer = model.target_tokenizer
    rules, forced = tokenizer.rules, tokenizer.margins("target")[0][1:2] if model.kind == "encoder-decoder" else []
    values: dict[str, Any] = {"forced_bos_token_id": forced[0] if forced else None, "forced_eos_token_id": rules.last}
    values |= {"suppress_tokens": list(rules.never), "begin_suppress_tokens": list(rules.first)}
    values |= {"bad_words_ids": [list(run) for run in rules.runs]}
    return {name: value for name, value in values.items() if value not in (None, [])}


def library_tokenizer(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Copy of the tokenizer of the `tokenizers` library inside one of ours.

    Raises:
        CheckpointError: there is none.
    """
    record = json.loads(tokenizer.to_json())
    inner = record["tokenizer"] if "foreign" in record else record
    if inner is None:
        raise CheckpointError(
            "this model reads ids and has no tokenizer to write: put a tokenizer.json beside its weights, then open it"
        )
    return tokenizers.Tokenizer.from_str(json.dumps(inner))


def write_tokenizer(inner: tokenizers.Tokenizer, tokenizer: Tokenizer, folder: Path, role: Role, length: int) -> None:
    """Write tokenizer.json, with the special tokens that the model reads around a text, and tokenizer_config.json.

    inner: the tokenizer's `library_tokenizer`, which is changed. length: of the longest text, in tokens.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before, after = ([tokenizer.label(token) for token in ids] for ids in tokenizer.margins(role))
    between = [tokenizer.label(token) for token in tokenizer.between] if role == "whole" else []
    second = int(tokenizer.separator is not None)
    inner.post_processor = TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *between, f"$B:{second}", *(f"{label}:{second}" for label in after)] if between else None,
        special_tokens=[(label, inner.token_to_id(label)) for label in {*before, *between, *after}],
    )
    inner.save(str(folder / "tokenizer.json"))
    names = {"pad": tokenizer.padding, "unk": tokenizer.unknown, "bos": tokenizer.start, "eos": tokenizer.end}
    names["mask"] = tokenizer.mask
    labels = {f"{name}_token": tokenizer.label(token) for name, token in names.items() if token is not None}
    _write(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length, **labels},
    )


def model_card(model: TextModel, family: str, architecture: str, card: str) -> str:
    """Text of the card with a front matter for the Hub, and code that opens the model. family: its name."""
    licence = str(model.training.get("licence") or "")
    hub_name = next((name for words, name in LICENCES.items() if words.lower() in licence.lower()), "other")
    front = ["---", "library_name: transformers", f"pipeline_tag: {TASKS[model.kind]}", f"license: {hub_name}"]
    if hub_name == "other" and licence:
        front.append(f"license_name: {json.dumps(licence, ensure_ascii=False)}")
    front += ["tags:", "- vitrine", "---", ""]
    headless = architecture.endswith("BertModel")
    auto = "AutoModel" if headless else AUTO[model.kind]
    lines = [
        "## In transformers",
        "",
        f"The weights are those of a {family} (`{architecture}`), with the same results.",
        "",
        "```python",
        f"from transformers import AutoTokenizer, {auto}",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
        f'model = {auto}.from_pretrained("FOLDER")',
        *_more_code(model, headless),
        "```",
    ]
    text = without_front_matter(card).strip() or f"# {model.name}"
    return "\n".join([*front, text, "", *lines, ""])


def without_front_matter(card: str) -> str:
    """Text of a card without the front matter between two lines of ---."""
    if not card.startswith("---\n"):
        return card
    _front, end, rest = card[4:].partition("\n---\n")
    return rest if end else card


def _more_code(model: TextModel, headless: bool) -> list[str]:
    if isinstance(model.source_tokenizer, SlowTokenizer):
        return ["# tokenizer(text_target=...) is for what it writes"]
    if model.kind == "encoder-decoder":
        return ['target_tokenizer = AutoTokenizer.from_pretrained("FOLDER/target_tokenizer")  # for what it writes']
    if not headless or model.config.output_head == "none":
        return []
    factor = " / model.config.hidden_size ** 0.5" if model.config.scale_embedding else ""
    factor += " / model.config.hidden_size ** 0.5" if model.config.scale_output else ""
    return [
        'states = model(**tokenizer("A <mask> of text.", return_tensors="pt")).last_hidden_state',
        f"logits = states @ model.get_input_embeddings().weight.T{factor}",
    ]


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
