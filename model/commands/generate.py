"""python -m model generate: let a checkpoint write."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from model.checkpoints import open_checkpoint


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "generate", help="let a model write", description="Print a model's answer to each text."
    )
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("text", nargs="+", help="one or more texts, each in quotes")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    lens = open_checkpoint(options.checkpoint)
    for generation in lens.generate_batch(options.text):
        print(generation.text)
