"""What the benchmark of training trains: two networks, and batches of random tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from model.data.datasets import IGNORED, Batch
from model.network.config import TransformerConfig
from model.network.masks import real_tokens


@dataclass(frozen=True)
class Setting:
    """What is trained, against what, and the ratios we ask for in float32 and in bfloat16."""

    name: str
    other: str
    config: TransformerConfig
    batch: int
    lengths: tuple[int, int]
    steps: int  # in a round
    targets: dict[str, float]

    def batches(self, count: int) -> list[Batch]:
        """Random tokens: what they say does not change the arithmetic."""
        draw = torch.Generator().manual_seed(1)
        return [self._batch(draw) for _ in range(count)]

    def _batch(self, draw: torch.Generator) -> Batch:
        low, high = self.lengths
        if self.config.kind == "decoder-only":
            ids = torch.randint(4, self.config.target_vocabulary, (self.batch, high + 1), generator=draw)
            return Batch((ids[:, :-1], None), ids[:, 1:].contiguous(), whole=True)
        source, target = (
            torch.randint(4, self.config.source_vocabulary, (self.batch, high + side), generator=draw)
            for side in range(2)
        )
        for ids, longest in ((source, high), (target, high + 1)):
            ends = torch.randint(low, high + 1, (self.batch, 1), generator=draw) + longest - high
            ids.masked_fill_(torch.arange(longest) >= ends, 0)
        read, labels = target[:, :-1], target[:, 1:]
        return Batch(
            (source, read, real_tokens(source, 0), real_tokens(read, 0)), labels.masked_fill(labels == 0, IGNORED)
        )


CHARACTERS = Setting(
    "nanoGPT on the CPU: 4 layers, 4 heads, d 128, context 64, batch 12, 65 characters",
    "nanoGPT's network and loop",
    TransformerConfig.one_stack(
        "decoder-only",
        65,
        4,
        d_model=128,
        n_heads=4,
        d_ff=512,
        dropout=0.0,
        max_length=64,
        position="learned",
        norm_placement="pre",
        activation="gelu",
        tied_embeddings="output",
        scale_embedding=False,
        bias=False,
    ),
    12,
    (64, 64),
    5,
    {"float32": 1.5, "bfloat16": 2.2},
)
TRANSLATION = Setting(
    "encoder-decoder: 3 + 3 layers, 8 heads, d 256, d_ff 1,024, vocabulary 8,000, batch 64, 16 to 24 tokens",
    "torch.nn.Transformer and a plain loop",
    TransformerConfig(
        source_vocabulary=8000,
        target_vocabulary=8000,
        d_model=256,
        n_heads=8,
        n_encoder_layers=3,
        n_decoder_layers=3,
        d_ff=1024,
        dropout=0.0,
        max_length=64,
        norm_placement="pre",
        tied_embeddings="all",
    ),
    64,
    (16, 24),
    1,
    {"float32": 1.9, "bfloat16": 2.6},
)
SETTINGS = (CHARACTERS, TRANSLATION)
