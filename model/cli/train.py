"""python -m model train: training of a model of any kind on a file or a built-in task."""

from __future__ import annotations

import argparse
import glob
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from tqdm import tqdm

from model.checkpoints.native import save_checkpoint
from model.cli.dry_run import print_costs
from model.cli.evaluate import print_figures, record_figures
from model.cli.options import add_network_options, add_training_options, network_options, settings_of
from model.cli.train_checks import (
    KIND,
    PRESET,
    VOCABULARY,
    require_checkpoint,
    require_folder,
    require_meaning,
    require_one_vocabulary,
    require_place,
    start_of,
    units_of,
    with_useful_merges,
)
from model.data.datasets import Dataset, unshuffled
from model.data.readers import SPEC_HELP, name_of
from model.data.sources import Source, TrainingData, Units, prepare, without_stack
from model.fast.matmul import ONEDNN, OWN, Products, choose_products
from model.inference.text_model import TextModel
from model.network.config import PRESETS, Kind, TransformerConfig, config_class
from model.network.transformer import build
from model.runtime.device import give_back_memory, keep_freed_memory, slower
from model.runtime.errors import NotFiniteError
from model.training.cost import forecast, require_memory, table_memory
from model.training.distributed import Processes, launched
from model.training.gradients import first_nonfinite
from model.training.live.saving import incomparable, origin_sentence, training_record
from model.training.losses import loss_and_hits
from model.training.model_card import card
from model.training.notes import notes
from model.training.settings import StepReport, TrainingSettings
from model.training.state import products_of
from model.training.tensorboard import Curves
from model.training.trainer import Trainer


def add_parser(commands: Any) -> None:
    """Add the command to those of argparse."""
    parser = commands.add_parser(
        "train",
        help="train a model",
        description="Train a Transformer: encoder-decoder on pairs of texts, decoder-only on running text (.txt) or on "
        "pairs, encoder-only on single sentences, of which it learns to fill in hidden tokens; or, on pairs, the "
        "recurrent network with attention that came before it. "
        "Stop it with Ctrl-C and run the same command again: it goes on where it was.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", required=True, help=SPEC_HELP)
    parser.add_argument(
        "--validation", help="others to validate on: then all of the data is trained on, none kept apart"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint to write")
    parser.add_argument(
        "--start", type=Path, metavar="CHECKPOINT", help="begin with its weights: its kind, network and tokens"
    )
    absent = argparse.SUPPRESS  # so that it is known what was given
    parser.add_argument(
        "--kind",
        default=absent,
        choices=get_args(Kind),
        help=f"which stacks the model has; recurrent: a GRU encoder-decoder with attention (default: {KIND})",
    )
    parser.add_argument(
        "--preset", default=absent, choices=list(PRESETS), help=f"size of the model (default: {PRESET})"
    )
    parser.add_argument(
        "--units",
        choices=get_args(Units),
        help="what a token is: mixed is BPE to characters, joint one BPE for both",
    )
    parser.add_argument(
        "--vocabulary", type=int, default=absent, help=f"size of a BPE vocabulary (default: {VOCABULARY})"
    )
    parser.add_argument(
        "--products",
        choices=[OWN.name, ONEDNN.name],
        help="library of float32 products on the CPU, by accuracy and speed; unless told, a probe chooses",
    )
    parser.add_argument("--licence", default="", help="source and licence of the data, for the model card")
    parser.add_argument("--example", help="a text to show the model first; else one of the test split")
    parser.add_argument("--half", action="store_true", help="write the checkpoint's weights as float16")
    parser.add_argument("--keep-last", action="store_true", help="also write the averaged weights of the last step")
    parser.add_argument(
        "--keep-every",
        type=int,
        metavar="STEPS",
        help="also write the averaged weights after so many steps, OUT-STEP each",
    )
    parser.add_argument("--replace", action="store_true", help="replace a checkpoint of another run at --out")
    parser.add_argument("--dry-run", action="store_true", help="print what the training would cost, and stop")
    parser.add_argument("--log-dir", type=Path, help="folder for TensorBoard's curves")
    add_network_options(parser.add_argument_group("network (each overrides the preset)"))
    add_training_options(parser.add_argument_group("training"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Train, save the best weights on the way, and measure them on the test split.

    Raises:
        ValueError: an option is invalid, the data cannot be read, or there is too little memory.
        FloatingPointError: the loss or a gradient is not finite.
        KeyboardInterrupt: the training was interrupted, and its state is saved.
    """
    keep_freed_memory()
    start = start_of(options)
    options.kind = getattr(options, "kind", start.kind if start else KIND)
    options.preset = getattr(options, "preset", PRESET)
    require_meaning(options)
    folders = [_last(options.out)] if options.keep_last else []
    if options.keep_every is not None:
        if options.keep_every < 1:
            raise ValueError(f"keep_every ({options.keep_every}) must be at least 1, a number of steps")
        folders += sorted(options.out.parent.glob(f"{glob.escape(options.out.name)}-[0-9]*"))
    for place in (options.out, *folders):
        require_place(place, _state(options.out), options.replace)
    if options.log_dir:
        require_folder(options.log_dir)
    settings = settings_of(options)
    vocabulary = getattr(options, "vocabulary", VOCABULARY)
    tokenizers = (start.source_tokenizer, start.target_tokenizer) if start else None
    material = prepare(options.kind, options.data, units_of(options), vocabulary, tokenizers, options.validation)
    settings = with_useful_merges(settings, options, material)
    if not start:
        require_one_vocabulary(options, material)
    with closing(launched()) as processes:
        _run(options, settings, material, processes, start)


def _run(
    options: argparse.Namespace,
    settings: TrainingSettings,
    material: TrainingData,
    processes: Processes,
    start: TextModel | None,
) -> None:
    config = _config(options, material, start)
    train, validation = material.corpora(config.max_length, settings.bpe_dropout)
    if options.dry_run:
        if processes.main:
            print_costs(config, material, (train, validation), settings)
        return
    require_memory(forecast(config, train, settings).training_memory + table_memory(config), processes.device)
    say, state = print if processes.main else say_nothing, _state(options.out)
    trainer = _trainer(options, config, settings, (train, validation), processes, start, say)
    where = f", {processes.count} processes" if processes.count > 1 else ""
    for note in notes(config, material, (train, validation), settings, trainer.total_steps):
        say(note)
    for sentence in incomparable(start, {"data": name_of(options.data), **material.record()}) if start else []:
        say(f"note: {sentence}")
    parameters, examples = trainer.network.parameter_count(), len(train)
    say(f"{parameters:,} parameters, {examples:,} examples, {trainer.total_steps:,} steps{where}")
    save = partial(_save, options, trainer, material, start)

    logged = options.log_dir and processes.main
    with (
        interrupts_remembered(insist=processes.count == 1) as interrupted,
        Curves(options.log_dir, trainer.progress.step) if logged else nullcontext() as curves,
    ):

        def keep(step: int) -> None:
            """Write the weights after this step to a folder of their own, where that is wanted."""
            if options.keep_every and step % options.keep_every == 0:
                save(_at(options.out, step))

        follow(trainer, state, lambda: save(options.out), interrupted, curves, keep)
    if processes.main:
        if options.keep_last:
            save(_last(options.out))
        _conclude(options, trainer, material)


def _trainer(
    options: argparse.Namespace,
    config: TransformerConfig,
    settings: TrainingSettings,
    corpora: tuple[Dataset, Dataset],
    processes: Processes,
    start: TextModel | None,
    say: Callable[[str], None],
) -> Trainer:
    """Trainer of a new network, or of one with the weights of `start`; with the state of the run so far, if it has one.

    say: is told which library multiplies matrices, and at which step the run goes on.
    """
    torch.manual_seed(settings.seed)
    state = _state(options.out)
    network = build(config).to(processes.device)
    if start:
        network.load_state_dict(start.network.state_dict())
    products = _products(options, config, settings, state, processes)
    products.use()
    say(str(products))
    if slow := slower(settings.precision, processes.device):
        say(slow)
    trainer = Trainer(network, *corpora, settings, processes)
    trainer.products = products.name
    trainer.origin = origin_sentence(start) if start else ""
    if state.exists():
        changes = "".join(f"; {change}" for change in trainer.load_state(state))
        require_checkpoint(trainer, options.out, state)
        say(f"going on at step {trainer.progress.step} of {trainer.total_steps} ({state}){changes}")
    return trainer


def _save(
    options: argparse.Namespace, trainer: Trainer, material: TrainingData, start: TextModel | None, folder: Path
) -> None:
    """Write a checkpoint with the weights of this step: the best one where the folder is that of --out."""
    if not trainer.processes.main:
        return
    best = folder == options.out
    record = _record(options, trainer, material, validation="best" if best else "last")
    if not best:
        record["validation_loss"] = dict(trainer.progress.validations).get(trainer.progress.step)
    origin = [trainer.origin, *(incomparable(start, record) if start else [])]
    record |= {"note": " ".join(origin)} if trainer.origin else {}
    network, dtype = trainer.network, torch.float16 if options.half else torch.float32
    with trainer.averaged_weights():
        text = card(folder.name, network.config, network.parameter_count(), record)
        save_checkpoint(folder, network, material.tokenizers, record, text, dtype)


def _conclude(options: argparse.Namespace, trainer: Trainer, material: TrainingData) -> None:
    """Print the best validation loss, and the figures of the test sentences.

    Raises:
        FloatingPointError: no validation loss was finite.
    """
    if len(trainer.validation):
        progress = trainer.progress
        if not progress.best_step:
            raise FloatingPointError("the validation loss was never finite: begin again with a lower --rate")
        print(f"best validation loss {progress.best_validation:.4f} at step {progress.best_step}")
    else:
        print(f"the validation split is empty: {options.out} holds the weights of step {trainer.progress.step}")
    if material.tested:
        print_figures(record_figures(options.out, options.data))


def _products(
    options: argparse.Namespace,
    config: TransformerConfig,
    settings: TrainingSettings,
    state: Path,
    processes: Processes,
) -> Products:
    """Matrix library that was asked for, else that of the run so far, else the choice of a probe."""
    name = options.products or products_of(state) or ("" if processes.count == 1 else OWN.name)
    if name:
        return {library.name: library for library in (OWN, ONEDNN)}[name]
    return choose_products(config, settings.batch_tokens, processes.device) if settings.precision == "float32" else OWN


def _last(folder: Path) -> Path:
    """Folder of the weights of the last step, beside that of the best ones."""
    return folder.parent / f"{folder.name}-last"


def _at(folder: Path, step: int) -> Path:
    """Folder of the weights after a step, beside that of the best ones; in the order of steps by name."""
    return folder.parent / f"{folder.name}-{step:06}"


def _state(folder: Path) -> Path:
    """File of the state of the run."""
    return folder.parent / f"{folder.name}.resume"


def _config(options: argparse.Namespace, material: TrainingData, start: TextModel | None) -> TransformerConfig:
    if start:
        return replace(start.config, **network_options(options))
    source, target = (len(tokenizer) for tokenizer in material.tokenizers)
    sizes = {"source_vocabulary": source, "target_vocabulary": target}
    chosen = sizes | network_options(options) | without_stack(options.kind)
    return config_class(options.kind).preset(options.preset, **chosen)


def _record(options: argparse.Namespace, trainer: Trainer, material: TrainingData, validation: str) -> dict[str, Any]:
    source = Source(name_of(options.data), options.licence, options.validation and name_of(options.validation))
    return training_record(trainer, material, source, options.example or material.example, validation)


# The course of a training: output and saved files on the way, and the way on after a step that failed.

SAVE_EVERY = 200  # steps between two writes of the resume state
TRIM_EVERY = 10  # steps after which freed memory is given back to the system


def say_nothing(text: str) -> None:
    """Print nothing, in processes other than the main one."""


@contextmanager
def interrupts_remembered(insist: bool = True) -> Iterator[Callable[[], bool]]:
    """Context in which Ctrl-C or SIGTERM is only remembered, to be asked for by the function that it gives.

    insist: a second signal raises KeyboardInterrupt at once; not with several processes, where a launcher passes on the
    signal that the terminal has sent already. A step that is cut off in the middle has drawn random numbers or moved
    weights, and could not be resumed exactly.
    """
    received: list[int] = []

    def remember(number: int, _frame: object) -> None:
        if received and insist:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(
    trainer: Trainer,
    state: Path,
    save: Callable[[], None],
    interrupted: Callable[[], bool],
    curves: Curves | None,
    keep: Callable[[int], None] = lambda _step: None,
) -> None:
    """Train to the end. save: writes the checkpoint. state: file for an exact resume. keep: told of each step.

    Raises:
        FloatingPointError: the loss or a gradient is not finite; the sentence says how to go on.
        KeyboardInterrupt: the training was interrupted, and its state is saved.
    """
    silent = not trainer.processes.main
    saved = trainer.progress.step  # step of the saved state; 0: there is none
    with tqdm(total=trainer.total_steps, initial=saved, unit="step", smoothing=0.02, disable=silent) as bar:
        say = say_nothing if silent else bar.write
        try:
            if not saved:
                keep(0)
            for report in trainer.steps():
                if report.step % TRIM_EVERY == 0:
                    give_back_memory()
                bar.update()
                bar.set_postfix(loss=f"{report.loss:.3f}", rate=f"{report.rate:.1e}", refresh=False)
                if curves:
                    curves.add(report)
                if report.validation is not None:
                    if len(trainer.validation):
                        say(validation_line(trainer, report))
                    if trainer.progress.best_step == report.step or not len(trainer.validation):
                        save()
                keep(report.step)
                stopping = trainer.processes.any(interrupted())  # all stop at the same step
                if report.validation is not None or report.step % SAVE_EVERY == 0 or stopping:
                    saved = _save_state(trainer, state, curves, saved)
                if stopping:
                    raise KeyboardInterrupt(f"stopped at step {report.step}; run the same command to go on")
        except NotFiniteError as error:
            what, step = error.what, trainer.progress.step
            saved = _save_state(trainer, state, curves, saved) if step else 0
            raise FloatingPointError(f"{what}; {_way_on(state, step, saved)}") from error


def _save_state(trainer: Trainer, state: Path, curves: Curves | None, saved: int) -> int:
    """Step of the state in the file, which is this one's unless it is broken. saved: that of the state in it so far."""
    if not sound(trainer):
        return saved
    if curves:
        curves.flush()
    trainer.save_state(state)
    return trainer.progress.step


def validation_line(trainer: Trainer, report: StepReport) -> str:
    """Epoch, step where validation does not follow epochs, loss, and whether it is the best so far."""
    where = f"epoch {report.epoch + 1}" + (f", step {report.step}" if trainer.settings.validate_every else "")
    mark = "  best so far" if trainer.progress.best_step == report.step else ""
    return f"{where}: validation {report.validation:.4f} nats per token{mark}"


def sound(trainer: Trainer) -> bool:
    """True if the state of a run is finite, and so is the loss of a batch."""
    if first_nonfinite(trainer.state_dict()):
        return False
    batch = next(unshuffled(trainer.validation if len(trainer.validation) else trainer.train, 1))
    trainer.network.eval()
    with torch.inference_mode(), trainer.autocast():
        loss = loss_and_hits(trainer.network, batch.to(trainer.device)).loss
    trainer.network.train()
    return math.isfinite(loss)


def _way_on(state: Path, step: int, saved: int) -> str:
    """Advice after a step that failed: with the same weights and batches it would fail again at any rate."""
    if not saved:
        return "nothing is saved that one could go on from: begin again with a lower --rate or another --seed"
    if saved == step:
        return f"{state} holds step {step}, the last good one: go on with another --seed, which takes other batches"
    return (
        f"the model of step {step} makes no finite predictions, and {state} still holds step {saved}: go on from there "
        "with a lower --rate"
    )
