"""A model whose tokens want to be code, each of them whole."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.text_model import TextModel
from model.text.tokenizer import Tokenizer
from model.text.tokenizer_training import train_characters
from tests.model.examples import network

WORDS = [
    '</script><img/src="x"/onerror="alert(1)">',
    '<img/src="x"/onerror="alert(1)">',
    "![c](https://example.com/c.png)",
    "$b$",
    "`a`",
    ":red[d]",
    "**e**",
]


def of_words(words: list[str]) -> Tokenizer:
    """A tokenizer that knows these words, and no other."""
    state = json.loads(train_characters(words)._inner.to_str())
    first = len(state["model"]["vocab"])
    state["model"]["vocab"] |= {word: first + number for number, word in enumerate(words)}
    state["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(state)))


def hostile_model(folder: Path) -> TextModel:
    """A small checkpoint that reads and writes these words."""
    made = of_words(WORDS)
    sizes = {"source_vocabulary": len(made), "target_vocabulary": len(made)}
    save_checkpoint(folder, network(norm_placement="pre", **sizes), (made, made))
    return open_checkpoint(folder)
