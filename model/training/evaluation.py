"""Figures of how well a model does what it was trained for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from tqdm import tqdm

from model.data.datasets import Dataset, MaskedDataset, TextDataset, unshuffled
from model.data.pairs import Pair, Split, in_split
from model.data.readers import is_text, lines_of, read_pairs_from, read_text
from model.data.sources import SEPARATOR, cut_text
from model.data.tasks import exact_match, find_task, task_pairs
from model.inference.text_model import TextModel
from model.training.losses import loss_and_hits
from model.training.translation_scores import (
    AUTO,
    batches_of,
    find_tokenizer,
    references_of,
    require_installed,
    score,
)

Figures = dict[str, float | int | str]
TOKENS = 8192  # of a batch that is only read
BEYOND = (1, 2, 4, 8)  # additional length of a built-in task's sources, compared with training
COUNT = 200  # sources of each such length
CUT = "texts cut off, as they are longer than max_length ({length})"
UNENDED = "texts written that did not end before the most tokens"


def measure(
    model: TextModel, spec: str, split: Split | Literal["all"] = "test", bleu: str = AUTO, **options: Any
) -> tuple[Figures, dict[str, str]]:
    """Figures on a split of the data that `spec` names (see `readers.SPEC_HELP`), and the output for each source text.

    Outputs are generated where there are right answers to compare them with; else there are none. bleu: one of
    TOKENIZERS, or AUTO for the one that suits the references. options: of `TextModel.generate_batch`.

    Raises:
        ValueError: the split is empty, or `spec` cannot be read.
    """
    if model.kind == "decoder-only":
        options["length"] = model.config.max_length  # until it comes to an end by itself
    if model.kind == "decoder-only" and is_text(spec):
        text = read_text(Path(spec))
        return text_figures(model, text if split == "all" else cut_text(text)[1]), {}
    if model.kind == "encoder-only" and is_text(spec):
        pairs = [Pair(line, "") for line in lines_of(read_text(Path(spec)))]
    else:
        pairs = read_pairs_from(spec)
    if split != "all":
        pairs = in_split(pairs, split)
    if not pairs:
        raise ValueError(f"the {split} split of {spec} is empty: it needs more sentences")
    if model.kind == "encoder-only":
        return masked_figures(model, list(dict.fromkeys(pair.source for pair in pairs))), {}
    if task := str(model.training.get("task", "")):
        return task_figures(model, task, pairs, **options)
    if model.kind == "decoder-only":
        pairs = [Pair(pair.source + _separator(model), pair.target) for pair in pairs]
    return translation_figures(model, pairs, bleu, **options)


def translation_figures(
    model: TextModel, pairs: Sequence[Pair], bleu: str = AUTO, **options: Any
) -> tuple[Figures, dict[str, str]]:
    """BLEU and chrF of the translations against every translation of a source, and the translation of each source."""
    references = references_of(pairs)
    choice = find_tokenizer([pair.target for pair in pairs]) if bleu == AUTO else None
    tokenizer = choice.name if choice else bleu
    require_installed(tokenizer)
    written, cut = _write(model, list(references), **options)
    scores = score(written, references, tokenizer)
    figures: Figures = {
        "sentences": scores.sentences,
        "BLEU": scores.bleu,
        "chrF": scores.chrf,
        "BLEU signature": scores.bleu_signature,
        "chrF signature": scores.chrf_signature,
        **cut,
    }
    if choice:
        figures["BLEU tokenizer"] = str(choice)
    return figures, written


def task_figures(model: TextModel, task: str, pairs: Sequence[Pair], **options: Any) -> tuple[Figures, dict[str, str]]:
    """Share of exactly right answers in per cent, at the lengths trained on and at longer ones, and all answers."""
    longest = max(find_task(task).lengths)
    figures: Figures = {}
    questions = {f"exact match, lengths up to {longest}, %": list(dict.fromkeys(pair.source for pair in pairs))}
    for more in BEYOND:
        if find_task(task).sources(longest + more) < COUNT:
            continue
        longer = task_pairs(task, COUNT, [longest + more], seed=1)
        if all(_fits(model, pair) for pair in longer):
            questions[f"exact match, length {longest + more}, %"] = [pair.source for pair in longer]
    written: dict[str, str] = {}
    separator = _separator(model)
    for name, sources in questions.items():
        answers, cut = _write(model, [source + separator for source in sources], **options)
        figures[name] = 100 * exact_match(task, sources, list(answers.values()))
        written |= answers
        figures |= {f"{what}, of {name}": count for what, count in cut.items()}
    return {"questions": len(pairs), **figures}, written


def _separator(model: TextModel) -> str:
    """Text between question and answer where one stack reads both."""
    return str(model.training.get("separator", SEPARATOR)) if model.kind == "decoder-only" else ""


def _fits(model: TextModel, pair: Pair) -> bool:
    """True if a model has enough positions for a question and its answer."""
    source, target = len(model.source_tokenizer.encode(pair.source)), len(model.target_tokenizer.encode(pair.target))
    if model.kind == "decoder-only":
        return source + target + 2 <= model.config.max_length  # <s> and the separator; </s> is not read
    return max(source, target) + 1 <= model.config.max_length


def text_figures(model: TextModel, text: str) -> Figures:
    """Cross-entropy in nats of a running text, in windows of the model's length."""
    corpus = TextDataset(text, model.source_tokenizer, model.config.max_length)
    loss, tokens, _ = _losses(model, corpus)
    return {
        "tokens": tokens,
        "characters": len(text),
        "nats per token": loss / tokens,
        "nats per character": loss / len(text),
    }


def masked_figures(model: TextModel, texts: Sequence[str]) -> Figures:
    """Cross-entropy in nats at hidden tokens, and the share of them for which the right one is the most probable."""
    corpus = MaskedDataset(texts, model.source_tokenizer, model.config.max_length)
    loss, tokens, right = _losses(model, corpus)
    figures: Figures = {"sentences": len(texts), "hidden tokens": tokens, "nats": loss / tokens}
    cut = {CUT.format(length=model.config.max_length): corpus.long} if corpus.long else {}
    return {**figures, "found, %": 100 * right / tokens, **cut}


@torch.inference_mode()
def _losses(model: TextModel, corpus: Dataset) -> tuple[float, int, int]:
    """Sum of the cross-entropies in nats, number of predicted tokens, and number of right predictions."""
    loss, tokens, right = 0.0, 0, 0
    for batch in unshuffled(corpus, TOKENS):
        part = loss_and_hits(model.network, batch.to(model.device))
        loss, tokens, right = loss + part.loss, tokens + batch.predicted, right + part.tokens
    return loss, tokens, right


def _write(model: TextModel, sources: Sequence[str], **options: Any) -> tuple[dict[str, str], Figures]:
    """Generated text of each source; and how many sources and texts were cut off, where any were."""
    written: dict[str, str] = {}
    long = unended = 0
    stops = model.target_tokenizer.stops
    for batch in tqdm(batches_of(sources, options.get("beam", 1)), unit="batch", leave=False):
        generations = model.generate_batch(batch, **options)
        written |= {source: generation.text for source, generation in zip(batch, generations, strict=True)}
        long += sum(bool(model.source_tokens(source).left_out) for source in batch)
        unended += sum(stops.isdisjoint(generation.ids[-1:]) for generation in generations)
    cut: Figures = {CUT.format(length=model.config.max_length): long, UNENDED: unended}
    return {source: written[source] for source in sources}, {name: count for name, count in cut.items() if count}
