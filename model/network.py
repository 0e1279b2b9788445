"""What every kind of network has: its config, its weights, how they begin and how they are loaded."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.config import Kind, TransformerConfig
from model.context import Context
from model.stacks import Output


class Network(nn.Module):
    """A Transformer of any kind. `states` computes all but the logits, `output` these, unless the model has none.

    ours: its modules are our code, which can be put together otherwise, copied and trained. code: else the classes that
    run.
    """

    kind: Kind
    output: Output
    ours = True
    code: tuple[type[nn.Module], ...] = ()

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.kind != self.kind:
            raise ValueError(f"{type(self).__name__} is {self.kind}, the config {config.kind}: use build(config)")
        self.config = config

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def states(self, *inputs: Tensor | None) -> Float[Tensor, "batch length d_model"]:
        """The stack's last states, from the same inputs as `forward`'s."""
        raise NotImplementedError

    def read(self, ids: Int[Tensor, "batch length"], *, padding: int, start: int) -> Context:
        """What there is before the first token is written: an encoded source after `start`, or a prompt.

        Raises:
            ValueError: the model does not write.
        """
        raise ValueError(f"{self.kind} models do not write from left to right: fill in masked tokens instead")

    def embeddings(self) -> list[nn.Embedding]:
        """The matrices that may be one and the same, the one nearest to the output last."""
        raise NotImplementedError

    def require_logits(self) -> None:
        """
        Raises:
            ValueError: the model has no output head.
        """
        if self.config.output_head == "none":
            raise ValueError(
                "this model has no output head (output_head 'none'): it gives states and no logits, so it neither "
                "writes nor guesses nor learns to; take a model with a head for that"
            )

    def parameter_count(self) -> int:
        """Weights, a tied matrix counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take every parameter from `weights`, a tied matrix from whichever of its names is there.

        Raises:
            ValueError: a parameter is missing or of another shape, or there is one too many.
        """
        own = dict(self.named_parameters())
        every = dict(self.named_parameters(remove_duplicate=False))
        if unknown := sorted(set(weights) - set(every)):
            raise ValueError(f"the weights hold {unknown[0]} ({len(unknown)} such), which this config has not")
        given = {id(every[name]): tensor for name, tensor in weights.items()}
        for name, parameter in own.items():
            if id(parameter) not in given:
                raise ValueError(f"the weights lack {name}")
            shape = tuple(given[id(parameter)].shape)
            if shape != tuple(parameter.shape):
                raise ValueError(f"{name} has shape {shape}, the config asks for {tuple(parameter.shape)}")
        with torch.no_grad():
            for parameter in own.values():
                parameter.copy_(given[id(parameter)])

    def begin(self) -> None:
        """Initial weights, then the ties between matrices."""
        self._initialise()
        *others, nearest = self.embeddings()
        if self.config.tied_embeddings in ("output", "all"):
            self.output.logits.weight = nearest.weight
        if self.config.tied_embeddings in ("inputs", "all"):
            for embedding in others:
                embedding.weight = nearest.weight

    def _initialise(self) -> None:
        """Xavier for matrices, zero for biases; embeddings so that times √d_model they have variance 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
