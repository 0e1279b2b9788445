"""Hooks on a bridged model: values of its modules go through our mirrors, and its attention through our function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from model.capture.hooks import changing, recording
from model.network.attention import for_each_head
from model.network.masks import FixedMask, Mask
from model.runtime.errors import CheckpointError

Side = Literal["in", "out", "both", "attention", "weights", "call", "result"]
MIRRORS = "_vitrine_mirrors"  # attribute of a bridged module: by stack, its mirrors for each of its calls in a pass


class Mirror(NamedTuple):
    """A module of ours that a call of a bridged module goes through.

    side: its arguments: the call's input or output, which it may change, both, the arguments of the attention
    function, the attention weights that the call returns, all that the call is given, or all that it returns too.
    """

    side: Side
    module: nn.Module


class MirrorPositions(nn.Module):
    """Mirror of rows (1, position, d_model) that all texts of a batch share. table: the trained rows, if there are."""

    def __init__(self, table: nn.Parameter | None) -> None:
        super().__init__()
        if table is not None:
            self.table = table

    def forward(self, x: Tensor) -> Tensor:
        return x


class LayerInput(nn.Module):
    """Mirror that keeps the input of a layer in the pass, for a `MirrorSum`."""

    def forward(self, x: Tensor) -> Tensor:
        _pass_now().layer_inputs[id(self)] = x
        return x


class MirrorSum(nn.Module):
    """Calls a mirror with x + y, where a parallel layer adds its attention's y and its feed-forward network's output to
    x at once: the stream as a network of ours forms it, the attention first.
    """

    def __init__(self, layer_input: LayerInput, mirror: nn.Module) -> None:
        super().__init__()
        self.layer_input, self.mirror = layer_input, mirror

    def forward(self, y: Tensor) -> Tensor:
        self.mirror(_pass_now().layer_inputs[id(self.layer_input)] + y)
        return y


@dataclass
class Pass:
    """A run of one stack, in one thread.

    causal: whether it is a decoder. real, memory_real: (batch, length), False on padding of the stack's input and of
    the encoder's output. windows: widths of windows that masks of this model may have. probe: called instead of the
    mirrors with every attention: its call, heads and weights. layer_inputs: by id of a `LayerInput`.
    """

    stack: str
    batch: int
    real: Tensor | None = None
    memory_real: Tensor | None = None
    causal: bool = False
    windows: tuple[int | None, ...] = (None,)
    probe: Callable[[Any, Tensor, Tensor], None] | None = None
    layer_inputs: dict[int, Tensor] = field(default_factory=dict)
    _counts: dict[tuple[int, str], int] = field(default_factory=dict)
    _rules: list[tuple[Tensor, Mask]] = field(default_factory=list)

    def number(self, module: nn.Module, side: str) -> int:
        """Number of this call of the module in this pass, counted from 0."""
        key = id(module), side
        self._counts[key] = self._counts.get(key, -1) + 1
        return self._counts[key]

    def rule(self, call: Call, queries: int, keys: int) -> Mask:
        """Mask of an attention as a rule of ours; where no rule gives the same, with the tensor itself.

        Layers that share a mask share the rule, so that each mask is compared with rules once.
        """
        if call.mask is None:
            return self._once(torch.empty(0), lambda: Mask())
        visible = call.mask
        if visible.dtype != torch.bool:  # added to the scores: the lowest number hides
            visible = visible > torch.finfo(visible.dtype).min / 2
        visible = visible.expand(*visible.shape[:-2], queries, keys)
        return self._once(visible, lambda: self._equal_rule(visible, queries, keys))

    def plain_rule(self, cross: bool, window: int | None) -> Mask:
        """Mask of an attention that shows only its weights: it hides padding, in a decoder later tokens, and what is
        farther than a window.
        """
        return Mask(keys=self.memory_real) if cross else Mask(keys=self.real, causal=self.causal, window=window)

    def _once(self, tensor: Tensor, make: Callable[[], Mask]) -> Mask:
        for compared, rule in self._rules:
            if compared is tensor or (not compared.numel() and not tensor.numel()):
                return rule
        self._rules.append((tensor, make()))
        return self._rules[-1][1]

    def _equal_rule(self, visible: Tensor, queries: int, keys: int) -> Mask:
        for real in dict.fromkeys((self.real, self.memory_real, None)):
            if real is not None and real.shape[-1] != keys:
                continue
            # Of a single query both may be right: it looks back at its own text, and at all of another.
            for causal in (True, False) if queries == keys else (False, True):
                for window in self.windows:
                    rule = Mask(keys=real, causal=causal, window=window)
                    if torch.equal(rule.visible(queries, keys, visible.device).expand_as(visible), visible):
                        return rule
        if len(visible) > 1 and not bool((visible == visible[:1]).all()):
            return FixedMask(visible)
        table = visible[0, 0]
        return Mask(pattern=lambda _query, _key: table)


current: ContextVar[Pass | None] = ContextVar("bridged_pass", default=None)


def _pass_now() -> Pass:
    now = current.get()
    assert now is not None, "mirrors are called in a pass only"
    return now


def attach_mirror(module: nn.Module, stack: str, call: int, calls: int, side: Side, mirror: nn.Module) -> None:
    """Lead call number `call` of a bridged module, of `calls` in a pass of `stack`, through `mirror` from now on."""
    if MIRRORS not in module.__dict__:
        module.__dict__[MIRRORS] = {}
        module.register_forward_pre_hook(_before, with_kwargs=True)
        module.register_forward_hook(_after, with_kwargs=True)
    module.__dict__[MIRRORS].setdefault(stack, [[] for _ in range(calls)])[call].append(Mirror(side, mirror))


def _mirrors(module: nn.Module, now: Pass, side: str) -> list[Mirror]:
    calls: list[list[Mirror]] = module.__dict__.get(MIRRORS, {}).get(now.stack, [])
    if len(calls) < 2:
        return calls[0] if calls else []
    number = now.number(module, side)
    return calls[number] if number < len(calls) else []


def _recorded_pass() -> Pass | None:
    """The pass of this thread, if it is recorded or changed by an intervention, and is no probe's; else None."""
    now = current.get()
    return now if now is not None and now.probe is None and (recording.get() or changing.get()) else None


def _before(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    now = _recorded_pass()
    if now is None:
        return None
    for side, mirror in _mirrors(module, now, "in"):
        if side == "in":
            x = first_input(inputs, named)
            inputs, named = _with_first(inputs, named, mirror(batched(x, now.batch)).reshape(x.shape))
        elif side == "call":
            mirror(inputs, named, now.batch)
    return inputs, named


def _after(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
    now = _recorded_pass()
    if now is None:
        return None
    for side, mirror in _mirrors(module, now, "out"):
        if side == "out":
            y = first_output(output)
            rows = 1 if isinstance(mirror, MirrorPositions) else now.batch
            output = _with_first_output(output, mirror(batched(y, rows)).reshape(y.shape))
        elif side == "both":
            x, y = first_input(inputs, named), first_output(output)
            result = mirror(batched(x, now.batch), batched(y, now.batch))
            output = _with_first_output(output, result.reshape(y.shape))
        elif side == "weights":
            weights = output[int(getattr(mirror, "place", 0))]
            rule = now.plain_rule(bool(getattr(mirror, "cross", False)), getattr(mirror, "window", None))
            mirror(weights, weights, rule)
        elif side == "result":
            mirror(inputs, named, output, now.batch)
    return output


def batched(x: Tensor, batch: int) -> Tensor:
    """States (batch, position, channel), where a model passes on all positions of a batch as (position, channel)."""
    return x.unflatten(0, (batch, -1)) if x.dim() == 2 and x.is_floating_point() else x


def tensors_of(values: Any) -> list[Tensor]:
    """Tensors among what a module was called with or returned."""
    several = values.values() if isinstance(values, dict) else values
    return [value for value in ([values] if isinstance(values, Tensor) else several) if isinstance(value, Tensor)]


def given_tensors(inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Tensor]:
    """Tensors that a module is called with, the states first."""
    states = [named["hidden_states"]] if "hidden_states" in named else []
    others = [value for name, value in named.items() if name != "hidden_states"] if inputs or states else []
    return tensors_of([*inputs, *states, *others])


def first_input(inputs: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """States (batch, position, channel) or (position, channel) that a module is called with."""
    states: Tensor = inputs[0] if inputs else named["hidden_states"]
    return states


def first_output(output: Any) -> Tensor:
    """States (batch, position, channel) or (position, channel) that a module returns, alone or first of several."""
    states: Tensor = output if isinstance(output, Tensor) else output[0]
    return states


def _with_first(inputs: tuple[Any, ...], named: dict[str, Any], x: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return ((x, *inputs[1:]), named) if inputs else (inputs, named | {"hidden_states": x})


def _with_first_output(output: Any, y: Tensor) -> Any:
    return y if isinstance(output, Tensor) else [y, *output[1:]] if isinstance(output, list) else (y, *output[1:])


# The one attention function that every bridged model calls, and the mask function that goes with it.

NAME = "vitrine"  # of our function among transformers' attention implementations
# Arguments without a meaning beside the mask or in evaluation. Any other that is not None is an unknown step: then the
# model's own function computes.
KNOWN = frozenset(
    {"scaling", "dropout", "softcap", "position_bias", "is_causal", "sliding_window", "output_attentions"}
    | {"position_ids", "use_cache", "cache_position", "past_key_values", "output_hidden_states", "return_dict"}
    | {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "num_items_in_batch", "deterministic"}
    | {"position_embeddings", "layer_idx", "cache"}
)


class Call:
    """Arguments of a call of the attention function by a module of transformers.

    query, key, value: (batch, head, position, channel). mask: (batch, 1, query, key), boolean or added to the scores.
    bias: added to the scores, (batch, head, query, key).
    """

    def __init__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> None:
        self.module, self.query, self.key, self.value = module, query, key, value
        self.mask, self.options = mask, options
        self.bias: Tensor | None = options.get("position_bias")

    @property
    def factor(self) -> float:
        """Factor of the scores."""
        scaling = self.options.get("scaling")
        return float(self.query.shape[-1] ** -0.5 if scaling is None else scaling)

    @property
    def cap(self) -> float | None:
        """Bound c of c · tanh(scores / c); None: there is none."""
        return self.options.get("softcap")

    @property
    def sinks(self) -> Tensor | None:
        """A score of each head (head) that takes part in the softmax and stands for no key, which keeps its weight
        (OpenAI, 2025, gpt-oss model card, section 2.2); None: there is none.
        """
        return self.options.get("s_aux")

    def sink_weights(self, query: Tensor, key: Tensor) -> Tensor:
        """Weights (batch, head, query) of the sinks."""
        assert self.sinks is not None
        scores = self.scores(query, key).float()
        if self.mask is not None and self.mask.dtype != torch.bool:
            scores = scores + self.mask
        elif self.mask is not None:
            scores = scores.masked_fill(~self.mask, -torch.inf)
        sinks = self.sinks.float().view(1, -1, 1)
        return torch.exp(sinks - torch.logaddexp(scores.logsumexp(dim=-1), sinks)).to(query.dtype)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Scaled scores (batch, head, query, key), bounded where they are, with the bias of positions."""
        scores = query @ for_each_head(key, query.shape[1]).mT * self.factor
        if self.cap is not None:
            scores = torch.tanh(scores / self.cap) * self.cap
        return scores if self.bias is None else scores + self.bias

    @property
    def unknown(self) -> list[str]:
        """Arguments that ask for steps which our modules do not compute."""
        return [name for name, value in self.options.items() if value is not None and name not in KNOWN]

    @property
    def known(self) -> bool:
        """True if our modules compute every step that the arguments ask for."""
        return not self.unknown and (self.mask is None or self.mask.dtype == torch.bool)

    def by_itself(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Heads (batch, query, head, channel) and weights (batch, head, query, key) by the eager function of the
        model's source file.

        Raises:
            CheckpointError: the file has no such function.
        """
        eager = getattr(sys.modules[type(self.module).__module__], "eager_attention_forward", None)
        if eager is None:
            raise CheckpointError(
                "{kind} has no eager attention: its weights cannot be seen", kind=type(self.module).__name__
            )
        mask = self.mask
        if mask is not None and mask.dtype == torch.bool:
            lowest = torch.finfo(query.dtype).min
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, lowest)
        heads, weights = eager(self.module, query, key, value, mask, **self.options)
        return heads, weights


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """The attention function that transformers calls: heads (batch, query, head, channel).

    query, key, value: (batch, head, position, channel). attention_mask: (batch, 1, query, key), True = may look.
    """
    call, now = Call(module, query, key, value, attention_mask, options), current.get()
    if now is not None and now.probe is None:
        for side, mirror in _mirrors(module, now, "attention"):
            if side == "attention":
                heads = mirror(call, key, now.rule(call, query.shape[-2], key.shape[-2]))
                return heads.contiguous(), None  # as of the model's own function: its shape may be viewed otherwise
    heads, weights = _plainly(call) if call.known else call.by_itself(query, key, value)
    if now is not None and now.probe is not None:
        now.probe(call, heads, weights)
    return heads.contiguous(), None


def _plainly(call: Call) -> tuple[Tensor, Tensor]:
    """Heads (batch, query, head, channel) and weights (batch, head, query, key) of a call, by tensors alone."""
    n_heads, scores = call.query.shape[1], call.scores(call.query, call.key)
    if call.mask is not None:
        scores = scores.masked_fill(~call.mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return (weights @ for_each_head(call.value, n_heads)).transpose(1, 2), weights


def whole_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """Boolean mask (batch, 1, query, key) of transformers, which must not leave it out for the attention to infer."""
    from transformers.masking_utils import sdpa_mask

    never = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    mask: Tensor | None = sdpa_mask(*arguments, **(options | never))
    return mask


def register() -> str:
    """Register our attention function with transformers; gives the name by which a model selects it."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, whole_mask)
    return NAME
