"""python -m model train: a translation model from a file of sentence pairs."""

from __future__ import annotations

import argparse
import dataclasses
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from model.card import card
from model.checkpoints import CONFIG, save_checkpoint
from model.commands.evaluate import print_figures, record_figures
from model.config import CHOICES, PRESETS, TransformerConfig
from model.data import encode_pairs, in_split
from model.device import choose_device, keep_freed_memory
from model.reading import read_pairs
from model.text import Tokenizer, train_bpe, train_characters
from model.training import Trainer, TrainingSettings
from model.transformer import Transformer

HELP = {
    "d_model": "width of the residual stream; even, and divisible by the heads",
    "n_heads": "attention heads of each layer",
    "n_encoder_layers": "layers that read the source",
    "n_decoder_layers": "layers that write the target",
    "d_ff": "units of each feed-forward block",
    "dropout": "share of each block's output that is dropped while training",
    "attention_dropout": "the same for the attention weights",
    "activation_dropout": "the same for the feed-forward units",
    "max_length": "longest source or target, in tokens",
    "position": "how the model knows where a token stands",
    "position_base": "base of the sinusoidal or rotary wavelengths",
    "heads": "split d_model among the heads, or give each its full width",
    "qk_norm": "RMSNorm on each head's queries and keys",
    "norm": "LayerNorm as in torch, as in textbooks (population or sample deviation), RMSNorm, or none",
    "norm_placement": "norm after each block, as in the paper, before it, or both (sandwich)",
    "residual": "add each block's output to its input",
    "norm_epsilon": "added to the variance in a norm, to the deviation in the textbook's",
    "scale_embedding": "multiply embeddings by the square root of d_model",
    "scale_attention": "divide scores by the square root of a head's width",
    "activation": "of the feed-forward units; swiglu gates them",
    "tied_embeddings": "share the target's embedding with the output, or one matrix for all three",
    "bias": "biases in linear layers and norms",
    "epochs": "how often every pair is seen",
    "batch_tokens": "tokens of a batch on each side, padding included",
    "rate": "peak learning rate",
    "warmup": "steps in which the rate rises to its peak; then it falls as a cosine",
    "label_smoothing": "share of the target probability spread over all tokens",
    "weight_decay": "of AdamW",
    "clip": "largest gradient norm",
    "undo_merges": "share of merged source tokens cut in two, so that words are seen in several ways",
    "average": "decay of the running average of the weights, which is what is kept",
    "seed": "of the initial weights, the order of the data and dropout",
}
SAVE_EVERY = 200  # steps between two writes of the resume state


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model on sentence pairs",
        description="Train an encoder-decoder Transformer on a tab-separated file of sentence pairs. "
        "Stop it with Ctrl-C and run the same command again: it goes on where it was.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="sentence, tab, translation on each line; UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint to write")
    parser.add_argument("--preset", default="small", choices=list(PRESETS), help="size of the model")
    parser.add_argument("--vocabulary", type=int, default=4000, help="size of the source's BPE vocabulary")
    parser.add_argument("--licence", default="", help="source and licence of the data, for the model card")
    parser.add_argument("--half", action="store_true", help="write the checkpoint's weights as float16")
    network = parser.add_argument_group("network (each overrides the preset)")
    for field in dataclasses.fields(TransformerConfig):
        if not field.name.endswith("_vocabulary"):
            _add_option(network, field, argparse.SUPPRESS)
    training = parser.add_argument_group("training")
    for field in dataclasses.fields(TrainingSettings):
        _add_option(training, field, field.default)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    keep_freed_memory()
    _require_replaceable(options.out)
    pairs = read_pairs(options.data)
    training_pairs = in_split(pairs, "train")
    tokenizers = (
        train_bpe((pair.source for pair in training_pairs), options.vocabulary),
        train_characters(pair.target for pair in training_pairs),
    )
    config = _config(options, tokenizers)
    fields = dataclasses.fields(TrainingSettings)
    settings = TrainingSettings(**{field.name: getattr(options, field.name) for field in fields})
    torch.manual_seed(settings.seed)
    model = Transformer(config).to(choose_device())
    examples, validation = (
        encode_pairs(in_split(pairs, split), *tokenizers, config.max_length) for split in ("train", "validation")
    )
    trainer = Trainer(model, tokenizers, examples, validation, settings)
    state = options.out.with_name(f"{options.out.name}.resume")
    if state.exists():
        trainer.load_state(state)
        print(f"going on at step {trainer.progress.step} of {trainer.total_steps} ({state})")
    print(f"{model.parameter_count():,} parameters, {len(examples):,} training pairs, {trainer.total_steps:,} steps")

    def save() -> None:
        record = _record(options, trainer, len(examples))
        dtype = torch.float16 if options.half else torch.float32
        with trainer.averaged_weights():
            text = card(options.out.name, config, model.parameter_count(), record)
            save_checkpoint(options.out, model, tokenizers, record, text, dtype)

    with interrupts_remembered() as interrupted:
        _train(trainer, state, save, interrupted)
    print(f"best validation loss {trainer.progress.best_validation:.4f} at step {trainer.progress.best_step}")
    if test := in_split(pairs, "test"):
        print_figures(record_figures(options.out, test))


@contextmanager
def interrupts_remembered() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or a polite kill waits until it is asked about; a second one stops at once.

    A step cut off in the middle has drawn random numbers or moved weights: no exact resume from there.
    """
    received: list[int] = []

    def remember(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _train(trainer: Trainer, state: Path, save: Callable[[], None], interrupted: Callable[[], bool]) -> None:
    with tqdm(total=trainer.total_steps, initial=trainer.progress.step, unit="step", smoothing=0.02) as bar:
        for report in trainer.steps():
            bar.update()
            bar.set_postfix(loss=f"{report.loss:.3f}", rate=f"{report.rate:.1e}", refresh=False)
            if report.validation is not None:
                best = trainer.progress.best_step == report.step
                mark = "  best so far" if best else ""
                bar.write(f"epoch {report.epoch + 1}: validation {report.validation:.4f} nats per token{mark}")
                if best or not trainer.validation:
                    save()
            stopping = interrupted()
            if report.validation is not None or report.step % SAVE_EVERY == 0 or stopping:
                trainer.save_state(state)
            if stopping:
                bar.write(f"stopped at step {report.step}; run the same command to go on")
                raise KeyboardInterrupt


def _add_option(group: Any, field: dataclasses.Field[Any], default: Any) -> None:
    kind = {"int": int, "float": float, "bool": None}.get(str(field.type), str)
    flag = "--" + field.name.replace("_", "-")
    if kind is None:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=default, help=HELP[field.name])
    else:
        group.add_argument(flag, type=kind, default=default, choices=CHOICES.get(field.name), help=HELP[field.name])


def _require_replaceable(folder: Path) -> None:
    """A checkpoint is replaced whole: whatever else is in the folder would be lost."""
    if folder.is_dir() and ((folder / CONFIG).is_file() or not any(folder.iterdir())):
        return
    if folder.exists():
        raise ValueError(f"{folder} exists and is not a checkpoint: give --out a new folder")


def _config(options: argparse.Namespace, tokenizers: tuple[Tokenizer, Tokenizer]) -> TransformerConfig:
    chosen = {
        field.name: value
        for field in dataclasses.fields(TransformerConfig)
        if (value := getattr(options, field.name, None)) is not None
    }
    return TransformerConfig.preset(
        options.preset, source_vocabulary=len(tokenizers[0]), target_vocabulary=len(tokenizers[1]), **chosen
    )


def _record(options: argparse.Namespace, trainer: Trainer, pairs: int) -> dict[str, Any]:
    return {
        "data": options.data.name,
        "licence": options.licence,
        "training_pairs": pairs,
        "steps": trainer.progress.step,
        "settings": dataclasses.asdict(trainer.settings),
        "seed": trainer.settings.seed,
        "validation_loss": trainer.progress.best_validation if trainer.validation else None,
        "validations": trainer.progress.validations if trainer.validation else [],
        "device": str(trainer.device),
        "torch": torch.__version__,
    }
