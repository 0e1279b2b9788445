"""The pre-norm block as a tutorial writes it, with the norm on the short cut: to be measured, not to be used."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from model.network.layers import PreNorm
from model.network.transformer import Network


class NormOnTheShortCut(PreNorm):
    """Sublayer(x) + LayerNorm(x): the sublayer reads the bare stream, and the stream is normalised at every block.

    Right is x + Sublayer(LayerNorm(x)) (Xiong et al., 2020).
    """

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], read: Tensor | None = None) -> Tensor:
        return self.residual(self.norm(x), sublayer(x if read is None else read))


def put_norm_on_the_short_cut(model: Network) -> None:
    """Every pre-norm block of a network becomes the wrong one, with the same weights."""
    found = [(name, block) for name, block in model.named_modules() if type(block) is PreNorm]
    for name, block in found:
        wrong = NormOnTheShortCut(model.config)
        wrong.norm, wrong.residual = block.norm, block.residual
        path, _, own = name.rpartition(".")
        setattr(model.get_submodule(path), own, wrong.train(block.training))
