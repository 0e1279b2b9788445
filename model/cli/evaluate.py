"""python -m model evaluate: figures of how well a checkpoint does what it was trained for."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, Literal

from model.checkpoints.load import open_checkpoint
from model.checkpoints.load_hints import LoadHints
from model.checkpoints.native import CARD, TRAINING
from model.data.pairs import Split
from model.data.readers import SPEC_HELP, is_text, name_of
from model.data.sources import digest_of_spec
from model.inference.text_model import TextModel
from model.runtime.files import write_text
from model.training.evaluation import Figures, measure
from model.training.model_card import card
from model.training.translation_scores import AUTO, TOKENIZERS


def add_parser(commands: Any) -> None:
    """Add the command to those of argparse."""
    parser = commands.add_parser(
        "evaluate",
        help="measure a model",
        description="Measure a checkpoint on a part of its data that it was not trained on, or on any other file. "
        "Translators: BLEU and chrF (sacrebleu) against all translations of each sentence, with their signatures; "
        "built-in tasks: the share of exactly right answers; language models: nats per token and per character of "
        "the last tenth of their text, or of all of another; encoder-only models: how often a hidden token is found.",
    )
    parser.add_argument("checkpoint", type=Path, help="checkpoint folder, or file of weights")
    parser.add_argument("--data", required=True, help=SPEC_HELP)
    parser.add_argument(
        "--split",
        choices=["test", "validation", "all"],
        help="part of the data (test of those that the model was trained on, and of a built-in task; all of others)",
    )
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N texts with what the model writes")
    parser.add_argument(
        "--bleu",
        default=AUTO,
        choices=[AUTO, *TOKENIZERS],
        help="sacrebleu's tokenizer; auto: by the script of the references, zh for Chinese, ja-mecab for Japanese and "
        "ko-mecab for Korean, or char without the packages that these two need, 13a for all others (auto)",
    )
    add_hint_options(parser)
    add_token_options(parser)
    add_beam_options(parser)
    parser.set_defaults(run=run)


def add_hint_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for what some files lack: the number of heads, the base of an adapter, and all other hints."""
    parser.add_argument(
        "--heads", type=int, metavar="N", help="how many attention heads there are, for a file that does not say it"
    )
    parser.add_argument(
        "--base", metavar="PATH", help="the model that an adapter of peft changes, if not where it says"
    )
    parser.add_argument(
        *("--hints", "--told"),
        default="",
        help="all that a file does not say, such as norm:post,prefix:teacher; --told is its old name",
    )


def open_with_hints(options: argparse.Namespace) -> TextModel:
    """Model of the checkpoint and the hints in the options; what it assumes or does not use is noted on stderr.

    Raises:
        ValueError: the checkpoint cannot be read, or is not what it is told to be.
    """
    hints = dataclasses.asdict(LoadHints.read(options.hints))
    hints |= {name: value for name in ("heads", "base") if (value := getattr(options, name)) is not None}
    model = open_checkpoint(options.checkpoint, **hints)
    for assumed in model.training.get("assumed", []):
        print(f"note: {model.name}: assumed: {assumed}", file=sys.stderr)
    if beside := model.training.get("beside"):
        print(f"note: {model.name}: not part of it: {beside[0]} ({len(beside)} such)", file=sys.stderr)
    return model


def add_token_options(parser: argparse.ArgumentParser) -> None:
    """Add the switch for special tokens in a text, and the language of the target."""
    parser.add_argument(
        "--special-tokens",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="read the names of special tokens in a text, such as <mask>, as these tokens, or as plain text; unless "
        "told, as the model's own tokenizer does",
    )
    parser.add_argument(
        "--target-language",
        metavar="NAME",
        help="of a translator into many languages: the one to write, by its token's name, such as fr_XX (mBART), "
        "fra_Latn (NLLB) or __fr__ (M2M-100)",
    )


def with_token_options(model: TextModel, options: argparse.Namespace) -> TextModel:
    """Model that reads and writes texts as the options on special tokens and languages say.

    Raises:
        ValueError: it has no such language.
    """
    read = model if options.special_tokens is None else model.reading(options.special_tokens)
    if options.target_language is not None:
        return read.into(options.target_language)
    known = read.target_tokenizer.languages
    if read.languages and set(known.values()).isdisjoint(read.target_tokenizer.margins("target")[0]):
        print(
            f"note: {model.name} writes {len(known)} languages, such as {', '.join(list(known)[:3])}, and no file says "
            "which: give --target-language (a wrong name lists them all)",
            file=sys.stderr,
        )
    return read


def add_beam_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of beam search."""
    parser.add_argument("--beam", type=int, default=1, help="hypotheses kept in a beam search; 1 is greedy (1)")
    parser.add_argument(
        "--length-penalty", type=float, default=0.6, help="0: the most probable; the larger, the longer (0.6)"
    )


def run(options: argparse.Namespace) -> None:
    """Measure a checkpoint and print the figures.

    Raises:
        ValueError: the checkpoint or the data cannot be read, or the split is empty.
    """
    model = with_token_options(open_with_hints(options), options)
    beam = {"beam": options.beam, "length_penalty": options.length_penalty}
    if model.kind == "decoder-only" and not is_text(options.data) and "separator" not in model.training:
        print(f"note: {model.name} was not trained on pairs: it goes on with each sentence as a text", file=sys.stderr)
    own, how = trained_on(model, options.data)
    split: Split | Literal["all"] = options.split or ("test" if own else "all")
    if note := _note(model, options.data, own, how, options.split):
        print(f"note: {note}", file=sys.stderr)
    if split != "all" and own and "validation_data" in model.training:
        print(f"note: {model.name} was trained on all of {options.data}: measure it on another file", file=sys.stderr)
    figures, written = measure(model, options.data, split, options.bleu, **beam)
    for source, text in list(written.items())[: options.show]:
        print(f"{source}\t{text}")
    print_figures(figures)


def trained_on(model: TextModel, spec: str) -> tuple[bool, Literal["task", "content", "name"]]:
    """True if the model was trained on a part of these data, or they are of a built-in task; and the way that is known:
    by their content, where its record has a digest of it, else by their name alone.

    Raises:
        ValueError: the data cannot be read.
    """
    if spec.startswith("task:"):
        return True, "task"
    if digest := model.training.get("data_digest"):
        return digest_of_spec(model.kind, spec) == digest, "content"
    return model.training.get("data") == name_of(spec), "name"


def _note(model: TextModel, spec: str, own: bool, how: str, split: str | None) -> str:
    """Sentence on a measurement by `trained_on`; "" for none. split: chosen on the command line; None: by default."""
    trained = str(model.training.get("data"))
    named = trained == name_of(spec)
    part = "all of it is measured (--split test for a part)"
    if how == "task":
        return ""
    if how == "name" and own:
        return f"{model.name} was trained on data of this name; whether of this content, its record does not tell"
    if named and not own:
        rest = part if split is None else "what of it was trained on is unknown"
        return f"{model.name} was trained on another content under the name of {spec}: {rest}"
    if own and not named:
        return f"{model.name} was trained on this content under the name of {trained}"
    if not own and split is None:
        return f"{model.name} was not trained on {spec}, by its {how}: {part}"
    return ""


def print_figures(figures: Figures) -> None:
    """Print each figure on a line."""
    for name, value in figures.items():
        print(f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}")


def record_figures(folder: Path, spec: str) -> Figures:
    """Measure a checkpoint on the test split of `spec`; write the figures into its training.json and model card."""
    model = open_checkpoint(folder)
    figures, _ = measure(model, spec)
    record = {**model.training, "test": figures}
    write_text(folder / TRAINING, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / CARD, card(model.name, model.config, model.network.parameter_count(), record))
    return figures
