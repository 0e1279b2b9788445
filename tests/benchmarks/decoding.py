"""Decoding, tokens a second: ours beside Hugging Face's Marian of the same size, greedy and with a beam.

    python -m tests.benchmarks.decoding [--rounds 20] [--write]

Encoder-decoders with random weights, a source of 20 tokens and 48 new ones; no token ends a text early. Each way of
decoding takes turns in one process, the encoder and what a generation reports included; a figure is the median over
the rounds of how many times Marian's tokens a second ours reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.fast import install
from model.inference.beam_search import beam_search
from model.inference.decoding import greedy
from model.network.config import TransformerConfig
from model.network.transformer import Transformer
from model.runtime.device import keep_freed_memory
from tests.benchmarks import results

if TYPE_CHECKING:
    from transformers import MarianMTModel

SIZE = {"d_model": 256, "layers": 3, "heads": 8, "d_ff": 1024, "vocabulary": 8000}
SOURCE, NEW = 20, 48
TARGETS = {(1, 1): 2.0, (1, 4): 1.7, (16, 1): 1.6, (16, 4): 1.2}  # (batch, beam): times Marian

install()

Decode = Callable[[Tensor, int], list[list[int]]]  # sources and beam: the best text of each


def vitrine(new: int = NEW) -> Decode:
    model = Transformer(
        TransformerConfig(
            source_vocabulary=SIZE["vocabulary"],
            target_vocabulary=SIZE["vocabulary"],
            d_model=SIZE["d_model"],
            n_heads=SIZE["heads"],
            n_encoder_layers=SIZE["layers"],
            n_decoder_layers=SIZE["layers"],
            d_ff=SIZE["d_ff"],
            tied_embeddings="all",
        )
    ).eval()

    @torch.inference_mode()
    def decode(sources: Tensor, beam: int) -> list[list[int]]:
        context = model.read(sources, padding=0, start=2)
        limits = [new] * len(sources)
        if beam == 1:
            return greedy(context, ends=(), limits=limits)[0]
        trees = beam_search(context, ends=(), limits=limits, beam=beam)
        return [[tree.nodes[node].token for node in tree.path(tree.ranked()[0])] for tree in trees]

    return decode


def marian_model() -> MarianMTModel:
    """Marian of this size with random weights; nothing is downloaded."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=SIZE["vocabulary"],
        d_model=SIZE["d_model"],
        encoder_layers=SIZE["layers"],
        decoder_layers=SIZE["layers"],
        encoder_attention_heads=SIZE["heads"],
        decoder_attention_heads=SIZE["heads"],
        encoder_ffn_dim=SIZE["d_ff"],
        decoder_ffn_dim=SIZE["d_ff"],
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=0,
        decoder_start_token_id=2,
        eos_token_id=None,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).eval()


def marian(new: int = NEW) -> Decode:
    model = marian_model()

    @torch.inference_mode()
    def decode(sources: Tensor, beam: int) -> list[list[int]]:
        written = model.generate(
            sources,
            attention_mask=torch.ones_like(sources),
            max_new_tokens=new,
            num_beams=beam,
            do_sample=False,
            eos_token_id=None,
            forced_eos_token_id=None,
        )
        texts: list[list[int]] = written[:, 1:].tolist()
        return texts

    return decode


def sources(batch: int) -> Tensor:
    return torch.randint(4, SIZE["vocabulary"], (batch, SOURCE), generator=torch.Generator().manual_seed(1))


COLUMNS = ("batch", "beam", "Marian, tokens a second", "Vitrine, tokens a second", "ratio", "target")


def rows(rounds: int, new: int) -> Iterator[list[str]]:
    """The table, a row for each way of decoding, as they are measured."""
    yield list(COLUMNS)
    yield ["---:"] * len(COLUMNS)
    decoders = {"Marian": marian(new), "Vitrine": vitrine(new)}
    for (batch, beam), target in TARGETS.items():
        works = {name: partial(decode, sources(batch), beam) for name, decode in decoders.items()}
        seconds = results.in_turn(works, rounds)
        speeds = [f"{batch * new / statistics.median(seconds[name]):,.0f}" for name in decoders]
        ratio = f"{results.ratio(seconds, 'Marian', 'Vitrine'):.2f}"
        yield [str(batch), str(beam) if beam > 1 else "greedy", *speeds, ratio, f"≥ {target}"]


def main() -> None:
    options = results.options(
        "Decoding beside Hugging Face's Marian, in tokens a second.",
        rounds=(20, "of each way"),
        tokens=(NEW, "that each text is written to"),
    ).parse_args()
    keep_freed_memory()  # as the application does
    print(results.machine(), flush=True)
    table = results.printed(rows(options.rounds, options.tokens))
    if options.write:
        method = (
            f"Encoder-decoder, {SIZE['layers']} + {SIZE['layers']} layers, {SIZE['heads']} heads, d {SIZE['d_model']}, "
            f"d_ff {SIZE['d_ff']:,}, vocabulary {SIZE['vocabulary']:,}, random weights; source {SOURCE} tokens, "
            f"{options.tokens} new, none ends early. Ratios are medians of {options.rounds} rounds in one process."
        )
        results.write("Decoding", f"{method}\n\n{table}")


if __name__ == "__main__":
    main()
