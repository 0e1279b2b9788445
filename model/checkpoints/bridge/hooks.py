"""One run of a bridged stack: whose modules tell what they compute, to which of ours, and by which masks."""

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
from model.network.masks import Mask
from model.runtime.errors import CheckpointError

Side = Literal["in", "out", "both", "attention", "weights"]
TELLS = "_vitrine_tells"  # on a bridged module: by stack, for each of its calls in a pass, what it tells


class Mirror(NamedTuple):
    """What a bridged module tells: its input, its output, both, or the weights in what it returns."""

    side: Side
    shadow: nn.Module


class OfPositions(nn.Module):
    """A row for each position, which all texts of a batch have in common. table: those that were trained."""

    def __init__(self, table: nn.Parameter | None) -> None:
        super().__init__()
        if table is not None:
            self.table = table

    def forward(self, x: Tensor) -> Tensor:
        return x


class Entering(nn.Module):
    """Keeps what a layer reads, for the sum that its attention alone would leave."""

    def forward(self, x: Tensor) -> Tensor:
        now = current.get()
        assert now is not None
        now.entered[id(self)] = x
        return x


class SumOfTwo(nn.Module):
    """Tells a shadow x + y, of a layer that adds its attention's y and its feed-forward network's at once: the stream
    as a network of ours forms it, the attention first.
    """

    def __init__(self, entering: Entering, shadow: nn.Module) -> None:
        super().__init__()
        self.entering, self.shadow = entering, shadow

    def forward(self, y: Tensor) -> Tensor:
        now = current.get()
        assert now is not None
        self.shadow(now.entered[id(self.entering)] + y)
        return y


@dataclass
class Pass:
    """A run of one stack, in one thread.

    causal: of a decoder. real, memory_real: False on padding, of what the stack reads and, for cross-attention, of the
    encoder's output. windows: widths that masks of this model may have. probe: called with every attention instead of
    the shadows.
    """

    stack: str
    batch: int
    real: Tensor | None = None
    memory_real: Tensor | None = None
    causal: bool = False
    windows: tuple[int | None, ...] = (None,)
    probe: Callable[[Any, Tensor, Tensor], None] | None = None
    entered: dict[int, Tensor] = field(default_factory=dict)
    _counts: dict[tuple[int, str], int] = field(default_factory=dict)
    _rules: list[tuple[Tensor, Mask]] = field(default_factory=list)

    def number(self, module: nn.Module, side: str) -> int:
        """Which call of the module in this pass this is, counted from 0."""
        key = id(module), side
        self._counts[key] = self._counts.get(key, -1) + 1
        return self._counts[key]

    def rule(self, call: Any, queries: int, keys: int) -> Mask:
        """The mask of an attention as a rule of ours; where none gives the same, the tensor itself.

        One for all layers that share a mask: it is compared once.
        """
        if call.mask is None:
            return self._once(torch.empty(0), lambda: Mask())
        made: Tensor = call.mask
        if made.dtype != torch.bool:  # added to the scores: the lowest number hides
            made = made > torch.finfo(made.dtype).min / 2
        made = made.expand(*made.shape[:-2], queries, keys)
        return self._once(made, lambda: self._like(made, queries, keys))

    def plain_rule(self, cross: bool) -> Mask:
        """What is to be seen where the mask itself is not: no padding, and in a decoder nothing later."""
        return Mask(keys=self.memory_real) if cross else Mask(keys=self.real, causal=self.causal)

    def _once(self, tensor: Tensor, make: Callable[[], Mask]) -> Mask:
        for known, rule in self._rules:
            if known is tensor or (not known.numel() and not tensor.numel()):
                return rule
        self._rules.append((tensor, make()))
        return self._rules[-1][1]

    def _like(self, made: Tensor, queries: int, keys: int) -> Mask:
        for real in dict.fromkeys((self.real, self.memory_real, None)):
            if real is not None and real.shape[-1] != keys:
                continue
            # Of a single query both may be right: it looks back at its own text, and at all of another.
            for causal in (True, False) if queries == keys else (False, True):
                for window in self.windows:
                    rule = Mask(keys=real, causal=causal, window=window)
                    if torch.equal(rule.visible(queries, keys, made.device).expand_as(made), made):
                        return rule
        if len(made) > 1 and not bool((made == made[:1]).all()):
            return HeldMask(made)
        table = made[0, 0]
        return Mask(pattern=lambda query, key: table)


class HeldMask(Mask):
    """A mask that no rule gives, different for the texts of a batch."""

    def __init__(self, made: Tensor) -> None:
        super().__init__()
        object.__setattr__(self, "made", made)

    def visible(self, queries: int, keys: int, device: torch.device) -> Tensor:
        found: Tensor = self.__dict__["made"]
        return found

    def is_plain(self, queries: int, keys: int) -> bool:
        return False


current: ContextVar[Pass | None] = ContextVar("bridged_pass", default=None)


def mirror(module: nn.Module, stack: str, call: int, calls: int, side: Side, shadow: nn.Module) -> None:
    """From now on one call of a bridged module, of so many in a pass of `stack`, goes through `shadow` too."""
    if TELLS not in module.__dict__:
        module.__dict__[TELLS] = {}
        module.register_forward_pre_hook(_before, with_kwargs=True)
        module.register_forward_hook(_after, with_kwargs=True)
    module.__dict__[TELLS].setdefault(stack, [[] for _ in range(calls)])[call].append(Mirror(side, shadow))


def mirrors_of(module: nn.Module, now: Pass, *sides: Side) -> list[nn.Module]:
    """Those of ours to which this call of a bridged module tells something of these sides, in a pass."""
    return [each.shadow for each in _tells(module, now, sides[0]) if each.side in sides]


def _tells(module: nn.Module, now: Pass, side: str) -> list[Mirror]:
    calls: list[list[Mirror]] = module.__dict__.get(TELLS, {}).get(now.stack, [])
    if len(calls) < 2:
        return calls[0] if calls else []
    number = now.number(module, side)
    return calls[number] if number < len(calls) else []


def _watched() -> Pass | None:
    now = current.get()
    return now if now is not None and now.probe is None and (recording.get() or changing.get()) else None


def _before(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    now = _watched()
    if now is None:
        return None
    for each in _tells(module, now, "in"):
        if each.side == "in":
            x = first_input(inputs, named)
            inputs, named = _with_first(inputs, named, like(each.shadow(batched(x, now.batch)), x))
    return inputs, named


def _after(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
    now = _watched()
    if now is None:
        return None
    for each in _tells(module, now, "out"):
        if each.side == "out":
            y = first_output(output)
            rows = 1 if isinstance(each.shadow, OfPositions) else now.batch
            output = _with_first_output(output, like(each.shadow(batched(y, rows)), y))
        elif each.side == "both":
            x, y = first_input(inputs, named), first_output(output)
            output = _with_first_output(output, like(each.shadow(batched(x, now.batch), batched(y, now.batch)), y))
        elif each.side == "weights":
            weights = output[int(getattr(each.shadow, "place", 0))]
            each.shadow(weights, weights, now.plain_rule(bool(getattr(each.shadow, "cross", False))))
    return output


def batched(x: Tensor, batch: int) -> Tensor:
    """With a batch dimension, where a model has put all positions of a batch in a row."""
    return x.unflatten(0, (batch, -1)) if x.dim() == 2 and x.is_floating_point() else x


def like(x: Tensor, shape: Tensor) -> Tensor:
    return x if x.shape == shape.shape else x.reshape(shape.shape)


def first_input(inputs: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    found: Tensor = inputs[0] if inputs else named["hidden_states"]
    return found


def first_output(output: Any) -> Tensor:
    found: Tensor = output if isinstance(output, Tensor) else output[0]
    return found


def _with_first(inputs: tuple[Any, ...], named: dict[str, Any], x: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return ((x, *inputs[1:]), named) if inputs else (inputs, named | {"hidden_states": x})


def _with_first_output(output: Any, y: Tensor) -> Any:
    return y if isinstance(output, Tensor) else [y, *output[1:]] if isinstance(output, list) else (y, *output[1:])


# The one attention function that every bridged model calls, and the mask function that goes with it.

NAME = "vitrine"  # of our function among transformers' attention implementations
# Arguments that say nothing beside the mask, or are of no concern in evaluation. Any other that is not None is a step
# that we do not know: then the model's own function computes.
KNOWN = frozenset(
    {"scaling", "dropout", "softcap", "position_bias", "is_causal", "sliding_window", "output_attentions"}
    | {"position_ids", "use_cache", "cache_position", "past_key_values", "output_hidden_states", "return_dict"}
    | {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "num_items_in_batch", "deterministic"}
    | {"position_embeddings", "layer_idx", "cache"}
)


class Call:
    """What a module of transformers asks of the attention function."""

    def __init__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> None:
        self.module, self.query, self.key, self.value = module, query, key, value
        self.mask, self.options = mask, options
        self.bias: Tensor | None = options.get("position_bias")

    @property
    def factor(self) -> float:
        given = self.options.get("scaling")
        return float(self.query.shape[-1] ** -0.5 if given is None else given)

    @property
    def cap(self) -> float | None:
        return self.options.get("softcap")

    @property
    def known(self) -> bool:
        """Whether our modules take every step that is asked for."""
        beside = [name for name, value in self.options.items() if value is not None and name not in KNOWN]
        return not beside and (self.mask is None or self.mask.dtype == torch.bool)

    def by_itself(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Heads (batch, query, head, channel) and weights by the eager function of the model's own source.

        Raises:
            CheckpointError: it has none.
        """
        eager = getattr(sys.modules[type(self.module).__module__], "eager_attention_forward", None)
        if eager is None:
            raise CheckpointError(f"{type(self.module).__name__} has no eager attention: its weights cannot be seen")
        mask = self.mask
        if mask is not None and mask.dtype == torch.bool:
            lowest = torch.finfo(query.dtype).min
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, lowest)
        heads, weights = eager(self.module, query, key, value, mask, **self.options)
        return heads, weights


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """The attention function that transformers calls; boolean masks, True = may look."""
    call, now = Call(module, query, key, value, attention_mask, options), current.get()
    if now is None:
        return _unseen(call), None
    if now.probe is not None:
        heads, weights = _plainly(call) if call.known else call.by_itself(query, key, value)
        now.probe(call, heads, weights)
        return heads.contiguous(), None
    (shadow,) = mirrors_of(module, now, "attention") or (None,)
    if shadow is None:
        return _unseen(call), None
    # In order, as of the model's own function: what comes next may view it in another shape.
    return shadow(call, key, now.rule(call, query.shape[-2], key.shape[-2])).contiguous(), None


def _unseen(call: Call) -> Tensor:
    heads, _weights = _plainly(call) if call.known else call.by_itself(call.query, call.key, call.value)
    return heads.contiguous()


def _plainly(call: Call) -> tuple[Tensor, Tensor]:
    """Every step in a row, on tensors alone."""
    n_heads = call.query.shape[1]
    scores = call.query @ for_each_head(call.key, n_heads).mT * call.factor
    if call.cap is not None:
        scores = torch.tanh(scores / call.cap) * call.cap
    if call.bias is not None:
        scores = scores + call.bias
    if call.mask is not None:
        scores = scores.masked_fill(~call.mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return (weights @ for_each_head(call.value, n_heads)).transpose(1, 2), weights


def whole_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """A boolean mask (batch, 1, query, key), never left to the attention function to guess."""
    from transformers.masking_utils import sdpa_mask

    never = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    made: Tensor | None = sdpa_mask(*arguments, **(options | never))
    return made


def register() -> str:
    """Make our function known to transformers; the name by which models ask for it."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, whole_mask)
    return NAME
