"""python -m model generate: texts that a checkpoint generates."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from model.cli.evaluate import (
    add_beam_options,
    add_hint_options,
    add_token_options,
    open_with_hints,
    with_token_options,
)
from model.inference.decoding import Sampling


def add_parser(commands: Any) -> None:
    """Add the command to those of argparse."""
    parser = commands.add_parser(
        "generate",
        help="let a model write",
        description="Print what a model writes for each text: the translation, the continuation, or the text with each "
        "<mask> filled in.",
    )
    parser.add_argument("checkpoint", type=Path, help="checkpoint folder, or file of weights")
    parser.add_argument("text", nargs="+", help="one or more texts, each in quotes")
    add_hint_options(parser)
    add_token_options(parser)
    add_beam_options(parser)
    parser.add_argument("--temperature", type=float, help="draw by chance; below 1 the likely become likelier")
    parser.add_argument("--top-k", type=int, help="draw by chance from the K most probable tokens")
    parser.add_argument("--top-p", type=float, help="draw by chance from the fewest tokens of probability P together")
    parser.add_argument("--length", type=int, help="the most tokens to write; unless told, a language model writes 50")
    parser.add_argument("--seed", type=int, default=0, help="of the chance (0)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the generated text of each given text.

    Raises:
        ValueError: the checkpoint cannot be read or is not what it is told to be, or an option is out of its range.
    """
    values = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
    chosen = {name: value for name, value in values.items() if value is not None}
    sampling = Sampling(seed=options.seed, **chosen) if chosen else None
    model = with_token_options(open_with_hints(options), options)
    beam = {"beam": options.beam, "length_penalty": options.length_penalty}
    for text in options.text:
        if left_out := model.source_tokens(text).left_out:
            length = model.config.max_length
            print(
                f"note: {model.name} reads {length} tokens: {left_out} of {text[:40]!r} are left out", file=sys.stderr
            )
    for generation in model.generate_batch(options.text, sampling=sampling, length=options.length, **beam):
        print(generation.text)
