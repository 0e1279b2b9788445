"""A model of `transformers` behind the interface of our networks: it runs itself, and is looked into from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.hosted.context import HostedContext, WholeContext
from model.hosted.offloaded import held, place
from model.hosted.parts import HostedConfig, frozen
from model.hosted.reasons import Reason
from model.hosted.runner import Runner
from model.hosted.stacks import Built
from model.network.masks import real_tokens
from model.network.transformer import Network
from model.runtime.errors import AbsentError


class HostedLogits(nn.Module):
    """The head of a hosted model on states, those of its own pass or others."""

    def __init__(self, run: Callable[[Tensor], Tensor], weight: Tensor | None) -> None:
        super().__init__()
        self.__dict__["_run"] = run
        if weight is not None:
            self.weight = frozen(weight)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        rows = x.reshape(1, -1, x.shape[-1]) if x.dim() != 3 else x
        logits: Tensor = self.__dict__["_run"](rows)
        return logits if x.dim() == 3 else logits.reshape(*x.shape[:-1], -1)


class HostedOutput(nn.Module):
    """Logits over the vocabulary; without a head the states themselves."""

    def __init__(self, logits: HostedLogits | None) -> None:
        super().__init__()
        if logits is not None:
            self.logits = logits

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch made"]:
        made: Tensor = self.logits(x) if hasattr(self, "logits") else x
        return made


class HostedNetwork(Network):
    """A hosted model: its own modules compute; ours, at our paths, are told what they could be recognised to compute.

    missing: which of our quantities it does not have, and why.
    """

    ours = False

    def __init__(self, runner: Runner, config: HostedConfig, stacks: list[Built]) -> None:
        nn.Module.__init__(self)
        self.config, self.kind = config, config.kind
        self.runner: Runner = runner  # its modules are none of ours: they have names and classes of their own
        self.code = tuple(dict.fromkeys(type(one.layer.module) for built in stacks for one in built.layers))
        for built in stacks:
            self.add_module(built.name, built.stack)
            built.attach()
        head = None if runner.bare else runner.model.get_output_embeddings()
        weight = None if head is None else held(head)
        wide = isinstance(weight, Tensor) and weight.shape[1] == config.d_model
        logits = None if runner.bare else HostedLogits(runner.logits, weight if wide else None)
        self.output = HostedOutput(logits)  # type: ignore[assignment]
        self.missing: dict[str, Reason] = {name: why for built in stacks for name, why in built.missing.items()}
        if runner.bare:
            self.missing["output.logits"] = Reason.OUTPUT
        elif not wide:
            self.missing["output.logits.weight"] = Reason.WIDTH

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        target: Int[Tensor, "batch target"] | Bool[Tensor, "batch length"] | None = None,
        *real: Bool[Tensor, "batch _"] | None,
    ) -> Float[Tensor, "batch made vocabulary"]:
        """Logits. With two stacks: of source and target; with one: of ids. `real`: False on padding; None: none."""
        return self.output(self.states(ids, target, *real))

    def states(self, *inputs: Tensor | None) -> Float[Tensor, "batch length d_model"]:
        if self.kind == "encoder-decoder":
            source, target, source_real, target_real = (*inputs, None, None)[:4]
            assert source is not None
            assert target is not None
            return self.decode(target, self.encode(source, source_real), source_real, target_real)
        ids, real = (*inputs, None)[:2]
        assert ids is not None
        return self.encode(ids, real) if self.kind == "encoder-only" else self.runner.decode(ids, real)

    def encode(
        self, source: Int[Tensor, "batch source"], source_real: Bool[Tensor, "batch source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        return self.runner.encode(source, source_real)

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        return self.runner.decode(target, target_real, memory, source_real)

    def read(
        self,
        ids: Int[Tensor, "batch length"],
        *,
        padding: int,
        start: int,
        memory: Float[Tensor, "batch source d_model"] | None = None,
    ) -> HostedContext:
        """Ready to go on with prompts of one length, or to write the targets of padded sources.

        Raises:
            ValueError: the model does not write.
        """
        if self.kind == "encoder-only":
            return super().read(ids, padding=padding, start=start)  # type: ignore[return-value]
        made = HostedContext if self.runner.caches else WholeContext
        if self.kind == "decoder-only":
            return made(ids, self.runner, self.output)
        real = real_tokens(ids, padding)
        memory = self.encode(ids, real) if memory is None else memory
        first = torch.full((len(ids), 1), start, device=ids.device)
        return made(first, self.runner, self.output, memory, real)

    def get_submodule(self, target: str) -> nn.Module:
        """
        Raises:
            AbsentError: the model has no such part, or none that was recognised.
        """
        try:
            return super().get_submodule(target)
        except AttributeError:
            for name, reason in self.missing.items():
                if f"{name}.".startswith(f"{target}."):
                    raise AbsentError(target, reason) from None
            raise

    def embeddings(self) -> list[nn.Embedding]:
        found = [self.get_submodule(f"{stack}.embedding") for stack in ("encoder", "decoder") if hasattr(self, stack)]
        tokens = [getattr(each, "tokens", None) for each in found]
        return [each for each in tokens if isinstance(each, nn.Embedding)]

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """The hosted model's; those that were recognised have names of ours, too."""
        own: Iterator[nn.Parameter] = self.runner.model.parameters(recurse)
        return own

    @property
    def device(self) -> torch.device:
        return place(self.runner.model)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.runner.model.parameters())

    def __deepcopy__(self, memo: dict[int, Any]) -> HostedNetwork:
        """
        Raises:
            ValueError: always; what tells of the model's modules holds only of those.
        """
        raise ValueError("a hosted model cannot be copied: transformers' own code runs it; open it once more instead")
