"""python -m model train: a model of any kind from a file or a built-in task."""

from __future__ import annotations

import argparse
import dataclasses
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from tqdm import tqdm

from model.card import card
from model.checkpoints import CONFIG, save_checkpoint
from model.commands.evaluate import print_figures, record_figures
from model.commands.options import add_network_options, add_training_options, network_options, settings_of
from model.config import ONE_STACK, PRESETS, Kind, TransformerConfig
from model.device import choose_device, keep_freed_memory
from model.materials import Material, Units, prepare
from model.products import choose_products
from model.reading import SPEC_HELP
from model.training import Trainer
from model.transformer import build

SAVE_EVERY = 200  # steps between two writes of the resume state


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model",
        description="Train a Transformer: encoder-decoder on pairs of texts, decoder-only on running text (.txt) or on "
        "pairs, encoder-only on single sentences, of which it learns to fill in hidden tokens. "
        "Stop it with Ctrl-C and run the same command again: it goes on where it was.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", required=True, help=SPEC_HELP)
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint to write")
    parser.add_argument("--kind", default="encoder-decoder", choices=get_args(Kind), help="which stacks the model has")
    parser.add_argument("--preset", default="small", choices=list(PRESETS), help="size of the model")
    parser.add_argument(
        "--units", choices=get_args(Units), help="what a token is: mixed is BPE to characters, joint one BPE for both"
    )
    parser.add_argument("--vocabulary", type=int, default=4000, help="size of a BPE vocabulary")
    parser.add_argument("--licence", default="", help="source and licence of the data, for the model card")
    parser.add_argument("--example", help="a text to show the model first; else one of the test split")
    parser.add_argument("--half", action="store_true", help="write the checkpoint's weights as float16")
    parser.add_argument("--keep-last", action="store_true", help="also write the last weights, beside the best")
    add_network_options(parser.add_argument_group("network (each overrides the preset)"))
    add_training_options(parser.add_argument_group("training"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    keep_freed_memory()
    _require_replaceable(options.out)
    settings = settings_of(options)
    material = prepare(options.kind, options.data, options.units, options.vocabulary)
    config = _config(options, material)
    torch.manual_seed(settings.seed)
    model = build(config).to(choose_device())
    if settings.precision == "float32":
        products = choose_products(config, settings.batch_tokens, choose_device())
        products.use()
        print(products)
    train, validation = material.corpora(config.max_length, settings.undo_merges)
    trainer = Trainer(model, train, validation, settings)
    state = options.out.with_name(f"{options.out.name}.resume")
    if state.exists():
        trainer.load_state(state)
        print(f"going on at step {trainer.progress.step} of {trainer.total_steps} ({state})")
    print(f"{model.parameter_count():,} parameters, {len(train):,} examples, {trainer.total_steps:,} steps")

    def save(folder: Path) -> None:
        record = _record(options, trainer, material)
        dtype = torch.float16 if options.half else torch.float32
        with trainer.averaged_weights():
            text = card(folder.name, config, model.parameter_count(), record)
            save_checkpoint(folder, model, material.tokenizers, record, text, dtype)

    with interrupts_remembered() as interrupted:
        _train(trainer, state, lambda: save(options.out), interrupted)
    if options.keep_last:
        save(options.out.with_name(f"{options.out.name}-last"))
    if len(validation):
        progress = trainer.progress
        print(f"best validation loss {progress.best_validation:.4f} at step {progress.best_step}")
    if material.tested:
        print_figures(record_figures(options.out, options.data))


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
                where = f"epoch {report.epoch + 1}"
                if trainer.settings.validate_every:
                    where += f", step {report.step}"
                bar.write(f"{where}: validation {report.validation:.4f} nats per token{mark}")
                if best or not len(trainer.validation):
                    save()
            stopping = interrupted()
            if report.validation is not None or report.step % SAVE_EVERY == 0 or stopping:
                trainer.save_state(state)
            if stopping:
                bar.write(f"stopped at step {report.step}; run the same command to go on")
                raise KeyboardInterrupt


def _require_replaceable(folder: Path) -> None:
    """A checkpoint is replaced whole: whatever else is in the folder would be lost."""
    if folder.is_dir() and ((folder / CONFIG).is_file() or not any(folder.iterdir())):
        return
    if folder.exists():
        raise ValueError(f"{folder} exists and is not a checkpoint: give --out a new folder")


def _config(options: argparse.Namespace, material: Material) -> TransformerConfig:
    source, target = (len(tokenizer) for tokenizer in material.tokenizers)
    chosen: dict[str, Any] = {"source_vocabulary": source, "target_vocabulary": target} | network_options(options)
    for kind, names in ONE_STACK.items():
        if options.kind not in ("encoder-decoder", kind):  # of the stack that this kind does not have
            chosen |= dict.fromkeys(names, 0)
    return TransformerConfig.preset(options.preset, **chosen)


def _record(options: argparse.Namespace, trainer: Trainer, material: Material) -> dict[str, Any]:
    known = len(trainer.validation) > 0
    return {
        "data": Path(options.data).name,
        "licence": options.licence,
        "example": options.example or material.example,
        **material.record(),
        "steps": trainer.progress.step,
        "settings": dataclasses.asdict(trainer.settings),
        "seed": trainer.settings.seed,
        "validation_loss": trainer.progress.best_validation if known else None,
        "validations": trainer.progress.validations if known else [],
        "device": str(trainer.device),
        "torch": torch.__version__,
    }
