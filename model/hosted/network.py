"""A model of `transformers` behind the interface of our networks: it runs itself, and is looked into from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.config import Kind
from model.hosted.context import HostedContext
from model.hosted.parts import HostedConfig, frozen
from model.hosted.passes import Pass, current
from model.hosted.reasons import Reason
from model.hosted.stacks import Built
from model.masks import real_tokens
from model.network import Network

given_states: ContextVar[Tensor | None] = ContextVar("given_states", default=None)


class Runner:
    """A model of transformers and how its parts are run: stacks one by one, and the head on given states.

    bare: it has no head.
    """

    def __init__(self, model: Any, kind: Kind) -> None:
        from transformers.utils import ModelOutput

        self.model: Any = model
        self.kind = kind
        two = kind == "encoder-decoder"
        self.encoder: Any = model.get_encoder() if two else None
        self.decoder: Any = model.get_decoder() if two else model.base_model
        self.bare = self.decoder is model
        self.outside = False  # whether weights are seen only where the model returns them
        self.windows: tuple[int | None, ...] = (None,)

        @dataclass
        class States(ModelOutput):  # type: ignore[misc, valid-type]
            """Given states as what a trunk returns; whatever else a head asks for is None."""

            last_hidden_state: Tensor | None = None

            def __getattr__(self, name: str) -> None:
                if name.startswith("__"):
                    raise AttributeError(name)

        # Some heads call the decoder past the model that holds it.
        beside = model.base_model if kind == "encoder-only" else model.get_decoder()
        for trunk in {model.base_model, self.decoder, beside} - {model}:
            trunk.forward = _or_given(trunk.forward, States)

    @contextmanager
    def running(self, stack: str, batch: int, real: Tensor | None, memory_real: Tensor | None = None) -> Iterator[None]:
        """A block in which one stack runs; inside a probe the probe's own pass stays."""
        now = current.get()
        made = Pass(stack, batch, real, memory_real, stack == "decoder", self.windows)
        token = current.set(now if now is not None and now.probe is not None else made)
        try:
            yield
        finally:
            current.reset(token)

    def encode(self, ids: Tensor, real: Tensor | None) -> Tensor:
        stack = self.encoder if self.encoder is not None else self.decoder
        with self.running("encoder", len(ids), real):
            return self._states(stack(input_ids=ids, attention_mask=_whole(real, ids), **self._asked()))

    def decode(
        self,
        ids: Tensor,
        real: Tensor | None,
        memory: Tensor | None = None,
        memory_real: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """The decoder's states; the cache, where one is given, grows by these tokens."""
        named: dict[str, Any] = {"attention_mask": _whole(real, ids), "use_cache": cache is not None}
        if cache is not None:
            named |= {"past_key_values": cache, "attention_mask": None}
        if memory is not None:
            shape = memory.shape[:2]
            whole = memory_real if memory_real is not None else torch.ones(shape, dtype=torch.long, device=ids.device)
            named |= {"encoder_hidden_states": memory, "encoder_attention_mask": whole.long()}
        with self.running("decoder", len(ids), real, memory_real):
            return self._states(self.decoder(input_ids=ids, **named, **self._asked()))

    def logits(self, states: Tensor) -> Tensor:
        """What the model's head makes of these states (batch, length, d_model): all that follows the trunk."""
        ids = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
        named: dict[str, Any] = {"input_ids": ids}
        if self.encoder is not None:
            from transformers.modeling_outputs import BaseModelOutput

            encoded = BaseModelOutput(last_hidden_state=states[:, :1])
            named |= {"decoder_input_ids": ids, "encoder_outputs": encoded}
        token = given_states.set(states)
        try:
            made: Tensor = self.model(**named).logits
        finally:
            given_states.reset(token)
        return made

    def _asked(self) -> dict[str, Any]:
        return {"output_attentions": True} if self.outside else {}

    def _states(self, output: Any) -> Tensor:
        states: Tensor = output.last_hidden_state
        return states


def _or_given(run: Callable[..., Any], states: type) -> Callable[..., Any]:
    """The forward of a trunk; where states are given, these."""

    def forward(*inputs: Any, **named: Any) -> Any:
        given = given_states.get()
        return run(*inputs, **named) if given is None else states(last_hidden_state=given)

    return forward


def _whole(real: Tensor | None, ids: Tensor) -> Tensor:
    return torch.ones_like(ids) if real is None else real.long()


class HostedLogits(nn.Module):
    """The head of a hosted model on states, those of its own pass or others."""

    def __init__(self, run: Callable[[Tensor], Tensor], weight: Tensor | None) -> None:
        super().__init__()
        self.__dict__["run"] = run
        if weight is not None:
            self.weight = frozen(weight)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        rows = x.reshape(1, -1, x.shape[-1]) if x.dim() != 3 else x
        logits: Tensor = self.run(rows)
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

    def __init__(self, runner: Runner, config: HostedConfig, stacks: list[Built]) -> None:
        nn.Module.__init__(self)
        self.config, self.kind = config, config.kind
        self.runner: Runner = runner  # its modules are none of ours: they have names and classes of their own
        for built in stacks:
            self.add_module(built.name, built.stack)
            built.attach()
        head = None if runner.bare else runner.model.get_output_embeddings()
        weight = getattr(head, "weight", None)
        logits = None if runner.bare else HostedLogits(runner.logits, weight)
        self.output = HostedOutput(logits)  # type: ignore[assignment]
        self.missing: dict[str, Reason] = {name: why for built in stacks for name, why in built.missing.items()}
        if runner.bare:
            self.missing["output.logits"] = Reason.OUTPUT

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        target: Int[Tensor, "batch target"] | Bool[Tensor, "batch length"] | None = None,
        *real: Bool[Tensor, "batch length"] | None,
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
        if self.kind == "decoder-only":
            return HostedContext(ids, self.runner, self.output)
        real = real_tokens(ids, padding)
        memory = self.encode(ids, real) if memory is None else memory
        first = torch.full((len(ids), 1), start, device=ids.device)
        return HostedContext(first, self.runner, self.output, memory, real)

    def embeddings(self) -> list[nn.Embedding]:
        found = [self.get_submodule(f"{stack}.embedding") for stack in ("encoder", "decoder") if hasattr(self, stack)]
        return [each.tokens for each in found if hasattr(each, "tokens")]

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """The hosted model's; those that were recognised have names of ours, too."""
        own: Iterator[nn.Parameter] = self.runner.model.parameters(recurse)
        return own

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.runner.model.parameters())

    def __deepcopy__(self, memo: dict[int, Any]) -> HostedNetwork:
        """
        Raises:
            ValueError: always; what tells of the model's modules holds only of those.
        """
        raise ValueError("a hosted model cannot be copied: transformers' own code runs it; open it once more instead")
