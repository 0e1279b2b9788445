"""How many weights it saves to share a matrix between embeddings and output (section 3.4; Press and Wolf, 2017)."""

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
    """One kind of tying: weights of the embeddings, of the output's own matrix, of all else; or why it cannot be.

    built: how many the network has that was built without values.
    """

    kind: TiedEmbeddings
    embeddings: int = 0
    output: int = 0
    rest: int = 0
    built: int = 0
    refusal: str = ""

    @property
    def total(self) -> int:
        return self.embeddings + self.output + self.rest


@lru_cache(maxsize=64)
def tied(config: TransformerConfig, kind: TiedEmbeddings) -> Tied:
    """What this config has with this kind of tying: by arithmetic, and by building it."""
    try:
        wanted = replace(config, tied_embeddings=kind)
    except ValueError as error:
        return Tied(kind, refusal=str(error))
    counted = parameters(wanted)
    embeddings, output = counted.pop("embeddings"), counted.pop("output")
    return Tied(kind, embeddings, output, sum(counted.values()), skeleton(wanted).parameter_count())


def every_kind(config: TransformerConfig) -> tuple[Tied, ...]:
    return tuple(tied(config, kind) for kind in KINDS)


def saved(found: Tied, untied: Tied) -> float:
    """The share of the weights that are not there any more."""
    return 1 - found.total / untied.total
