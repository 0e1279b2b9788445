"""The text that comes of a click on a token that was not chosen."""

from __future__ import annotations

from collections.abc import Sequence

from model.inference.decoding import Generation
from model.inference.model import Inspectable
from model.text.tokenizer import Tokens


def after_position(
    lens: Inspectable, source: str, target: str, generation: Generation | None, read: Tokens, position: int, token: int
) -> str:
    """The new target of a translator, of others the new text, when `token` comes after `position` or fills it in.

    source, target: as typed. generation: the target, where the model wrote it. read: the source's tokens.
    """
    if lens.kind == "encoder-only":
        return lens.take(source, read.labels[:position].count(lens.source_tokenizer.mask_label), token)
    if lens.kind == "decoder-only":
        return lens.continue_from(source, "", read.left_out + position + 1 - read.before, [token])
    kept = position + 1 - len(lens.target_tokenizer.margins("target")[0])
    begun = target if generation is None else lens.target_tokenizer.decode(generation.ids[:kept])
    return lens.continue_from(source, begun, kept, [token])


def after_search(lens: Inspectable, source: str, tokens: Sequence[int]) -> str:
    """The same for tokens of a beam search: they begin the target, or follow a language model's text."""
    kept = len(lens.source_tokenizer.encode(source)) if lens.kind == "decoder-only" else 0
    return lens.continue_from(source, "", kept, tokens)
