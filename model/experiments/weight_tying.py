"""Weights saved by sharing a matrix between embeddings and output (section 3.4; Press and Wolf, 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

from model.network.config import TiedEmbeddings, TransformerConfig
from model.network.costs import parameters
from model.network.transformer import skeleton

KINDS: tuple[TiedEmbeddings, ...] = get_args(TiedEmbeddings)


@dataclass(frozen=True)
class Tied:
    """Numbers of weights with one kind of tying: in the embeddings, in the output's own matrix, and in the rest.

    built: number of weights of a network that was built without values. refusal: why the config refuses this kind.
    """

    kind: TiedEmbeddings
    embeddings: int = 0
    output: int = 0
    rest: int = 0
    built: int = 0
    refusal: str = ""

    @property
    def total(self) -> int:
        """Number of all weights."""
        return self.embeddings + self.output + self.rest


@lru_cache(maxsize=64)
def tied(config: TransformerConfig, kind: TiedEmbeddings) -> Tied:
    """Numbers of weights of a config with another kind of tying, by arithmetic and by building the network."""
    try:
        wanted = replace(config, tied_embeddings=kind)
    except ValueError as error:
        return Tied(kind, refusal=str(error))
    counts = parameters(wanted)
    embeddings, output = counts.pop("embeddings"), counts.pop("output")
    return Tied(kind, embeddings, output, sum(counts.values()), skeleton(wanted).parameter_count())


def every_kind(config: TransformerConfig) -> tuple[Tied, ...]:
    """Numbers of weights of a config with each kind of tying."""
    return tuple(tied(config, kind) for kind in KINDS)


def saved(shared: Tied, untied: Tied) -> float:
    """Share of the untied network's weights that tying saves."""
    return 1 - shared.total / untied.total
