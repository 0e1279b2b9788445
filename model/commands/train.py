"""python -m model train: a model of any kind from a file or a built-in task."""

from __future__ import annotations

import argparse
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, get_args

import torch

from model.checkpoints.model_card import card
from model.checkpoints.native import save_checkpoint
from model.commands.checking import (
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
    vocabulary_of,
    with_useful_merges,
)
from model.commands.course import follow, interrupts_remembered, say_nothing
from model.commands.dry_run import print_costs
from model.commands.evaluate import print_figures, record_figures
from model.commands.options import add_network_options, add_training_options, network_options, settings_of
from model.data.readers import SPEC_HELP, name_of
from model.data.sources import Material, Source, Units, prepare
from model.fast.matmul import ONEDNN, OWN, Products, choose_products
from model.inference.model import Inspectable
from model.network.config import ONE_STACK, PRESETS, Kind, TransformerConfig
from model.network.transformer import build
from model.runtime.device import keep_freed_memory, slower
from model.training import state as training_state
from model.training.cost import forecast, require_memory, table_memory
from model.training.distributed import Processes, launched
from model.training.live.saving import begun_from, training_record
from model.training.settings import TrainingSettings, with_rates
from model.training.tensorboard import Curves
from model.training.trainer import Trainer


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
    parser.add_argument(
        "--validation", help="others to validate on: then all of the data is trained on, none kept apart"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint to write")
    parser.add_argument(
        "--start", type=Path, metavar="CHECKPOINT", help="begin with its weights: its kind, network and tokens"
    )
    unless = argparse.SUPPRESS  # so that it is known what was given
    parser.add_argument(
        "--kind", default=unless, choices=get_args(Kind), help=f"which stacks the model has (default: {KIND})"
    )
    parser.add_argument(
        "--preset", default=unless, choices=list(PRESETS), help=f"size of the model (default: {PRESET})"
    )
    parser.add_argument(
        "--units", choices=get_args(Units), help="what a token is: mixed is BPE to characters, joint one BPE for both"
    )
    parser.add_argument(
        "--vocabulary", type=int, default=unless, help=f"size of a BPE vocabulary (default: {VOCABULARY})"
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
    parser.add_argument("--replace", action="store_true", help="replace a checkpoint of another run at --out")
    parser.add_argument("--dry-run", action="store_true", help="print what the training would cost, and stop")
    parser.add_argument("--log-dir", type=Path, help="folder for TensorBoard's curves")
    add_network_options(parser.add_argument_group("network (each overrides the preset)"))
    add_training_options(parser.add_argument_group("training"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    keep_freed_memory()
    start = start_of(options)
    options.kind = getattr(options, "kind", start.kind if start else KIND)
    options.preset = getattr(options, "preset", PRESET)
    require_meaning(options)
    for place in (options.out, _last(options.out)) if options.keep_last else (options.out,):
        require_place(place, _state(options.out), options.replace)
    if options.log_dir:
        require_folder(options.log_dir)
    settings = settings_of(options)
    units, vocabulary = units_of(options), vocabulary_of(options)
    tokenizers = (start.source_tokenizer, start.target_tokenizer) if start else None
    material = prepare(options.kind, options.data, units, vocabulary, tokenizers, options.validation)
    settings = with_useful_merges(settings, options, material)
    if not start:
        require_one_vocabulary(options, material)
    with closing(launched()) as processes:
        _run(options, settings, material, processes, start)


def _run(
    options: argparse.Namespace,
    settings: TrainingSettings,
    material: Material,
    processes: Processes,
    start: Inspectable | None,
) -> None:
    config = _config(options, material, start)
    if options.dry_run:
        if processes.main:
            print_costs(config, material, settings)
        return
    train, validation = material.corpora(config.max_length, settings.undo_merges)
    require_memory(forecast(config, train, settings).training_memory + table_memory(config), processes.device)
    torch.manual_seed(settings.seed)
    say = print if processes.main else say_nothing
    state = _state(options.out)
    model = build(config).to(processes.device)
    if start:
        model.load_state_dict(start.model.state_dict())
    products = _products(options, config, settings, state, processes)
    products.use()
    say(str(products))
    if slow := slower(settings.precision, processes.device):
        say(slow)
    trainer = Trainer(model, train, validation, settings, processes)
    trainer.products = products.name
    trainer.begun = begun_from(start) if start else ""
    if state.exists():
        changes = "".join(f"; {change}" for change in trainer.load_state(state))
        require_checkpoint(trainer, options.out, state)
        say(f"going on at step {trainer.progress.step} of {trainer.total_steps} ({state}){changes}")
    where = f", {processes.count} processes" if processes.count > 1 else ""
    say(f"{model.parameter_count():,} parameters, {len(train):,} examples, {trainer.total_steps:,} steps{where}")

    def save(folder: Path) -> None:
        if processes.main:
            record = _record(options, trainer, material, kept="best" if folder == options.out else "last")
            record |= {"note": trainer.begun} if trainer.begun else {}
            dtype = torch.float16 if options.half else torch.float32
            with trainer.averaged_weights():
                text = card(folder.name, config, model.parameter_count(), record)
                save_checkpoint(folder, model, material.tokenizers, record, text, dtype)

    kept = options.log_dir and processes.main
    with (
        interrupts_remembered(insist=processes.count == 1) as interrupted,
        Curves(options.log_dir, trainer.progress.step) if kept else nullcontext() as curves,
    ):
        follow(trainer, state, lambda: save(options.out), interrupted, curves)
    if not processes.main:
        return
    if options.keep_last:
        save(_last(options.out))
    if len(validation):
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
    """What was asked for, else what the run has had so far, else what a probe finds."""
    name = options.products or training_state.products_of(state) or ("" if processes.count == 1 else OWN.name)
    if name:
        return {library.name: library for library in (OWN, ONEDNN)}[name]
    return choose_products(config, settings.batch_tokens, processes.device) if settings.precision == "float32" else OWN


def _last(folder: Path) -> Path:
    """Where the weights of the end go, beside the best."""
    return folder.parent / f"{folder.name}-last"


def _state(folder: Path) -> Path:
    """Where the state of the run goes."""
    return folder.parent / f"{folder.name}.resume"


def _config(options: argparse.Namespace, material: Material, start: Inspectable | None) -> TransformerConfig:
    if start:
        return with_rates(start.config, network_options(options))
    source, target = (len(tokenizer) for tokenizer in material.tokenizers)
    chosen: dict[str, Any] = {"source_vocabulary": source, "target_vocabulary": target} | network_options(options)
    for kind, names in ONE_STACK.items():
        if options.kind not in ("encoder-decoder", kind):  # of the stack that this kind does not have
            chosen |= dict.fromkeys(names, 0)
    return TransformerConfig.preset(options.preset, **chosen)


def _record(options: argparse.Namespace, trainer: Trainer, material: Material, kept: str) -> dict[str, Any]:
    source = Source(name_of(options.data), options.licence, options.validation and name_of(options.validation))
    return training_record(trainer, material, source, options.example or material.example, kept)
