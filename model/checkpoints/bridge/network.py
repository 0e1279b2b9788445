"""A model of `transformers` behind the interface of our networks: its own code runs, and hooks record it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.checkpoints.bridge.config import BridgedConfig, setting
from model.checkpoints.bridge.head_slices import find_head_parts
from model.checkpoints.bridge.hooks import NAME
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import device_of, frozen, module_tensor
from model.checkpoints.bridge.operations import Products, products
from model.checkpoints.bridge.probe import Event, close, flat, is_linear, probing
from model.checkpoints.bridge.runner import BridgedDecodingState, Runner, UncachedDecodingState, new_cache
from model.checkpoints.bridge.stack import WINDOWS, BridgedStack, bridged_config, build_stack
from model.network.config import Kind
from model.network.masks import real_tokens
from model.network.transformer import Network
from model.runtime.device import exact
from model.runtime.errors import CheckpointError


class MirrorLogits(nn.Module):
    """The head of a bridged model on any states. weight: (vocabulary, d_model), of a head that reads the stream."""

    def __init__(self, run: Callable[[Tensor], Tensor], weight: Tensor | None) -> None:
        super().__init__()
        self.__dict__["_run"] = run
        if weight is not None:
            self.weight = frozen(weight)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        rows = x.reshape(1, -1, x.shape[-1]) if x.dim() != 3 else x
        logits: Tensor = self.__dict__["_run"](rows)
        return logits if x.dim() == 3 else logits.reshape(*x.shape[:-1], -1)


class MirrorOutput(nn.Module):
    """Logits over the vocabulary; without a head the states themselves."""

    def __init__(self, logits: MirrorLogits | None) -> None:
        super().__init__()
        if logits is not None:
            self.logits = logits

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch output"]:
        output: Tensor = self.logits(x) if hasattr(self, "logits") else x
        return output


class BridgedNetwork(Network):
    """A bridged model: its own modules compute; ours, at our paths, mirror those whose quantities were recognised.

    missing: reasons, by quantity that the model does not have.
    """

    ours = False

    def __init__(
        self, runner: Runner, config: BridgedConfig, stacks: list[BridgedStack], of_output: Products | None
    ) -> None:
        nn.Module.__init__(self)
        self.config, self.kind = config, config.kind
        self.runner: Runner = runner  # no nn.Module: its modules are not found under our paths
        self.code = tuple(dict.fromkeys(type(layer.layer.module) for stack in stacks for layer in stack.layers))
        for stack in stacks:
            self.add_module(stack.name, stack.stack)
            stack.attach()
        head = None if runner.bare else runner.model.get_output_embeddings()
        weight = None if head is None else module_tensor(head)
        wide = isinstance(weight, Tensor) and weight.shape[1] == config.d_model
        logits = None if runner.bare else MirrorLogits(runner.logits, weight if wide else None)
        self.output = MirrorOutput(logits)  # type: ignore[assignment]
        self.output.products = of_output  # type: ignore[assignment]
        self.missing = {name: why for stack in stacks for name, why in stack.missing.items()}
        if runner.bare:
            self.missing["output.logits"] = Reason.OUTPUT
        elif not wide:
            self.missing["output.logits.weight"] = Reason.WIDTH
        self.eval()  # in training another kernel would compute, which drops out

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        target: Int[Tensor, "batch target"] | Bool[Tensor, "batch length"] | None = None,
        *real: Bool[Tensor, "batch _"] | None,
    ) -> Float[Tensor, "batch output vocabulary"]:
        """Logits: with two stacks of source and target, with one of ids. real: False on padding; None: no padding."""
        logits: Tensor = self.output(self.states(ids, target, *real))
        return logits

    def states(self, *inputs: Tensor | None) -> Float[Tensor, "batch length d_model"]:
        """States before the output; inputs as of `forward`."""
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
        memory: Float[Tensor, "batch source d_memory"],
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
        memory: Float[Tensor, "batch source d_memory"] | None = None,
        can_cache: bool = True,
    ) -> BridgedDecodingState:
        """State to continue prompts of one length, or to write the targets of padded sources.

        can_cache: without effect, for interventions do not reach into the model's own code.

        Raises:
            ValueError: the model does not write.
        """
        if self.kind == "encoder-only":
            return super().read(ids, padding=padding, start=start)  # type: ignore[return-value]
        state = BridgedDecodingState if self.runner.caches else UncachedDecodingState
        if self.kind == "decoder-only":
            return state(ids, self.runner, self.output)
        real = real_tokens(ids, padding)
        memory = self.encode(ids, real) if memory is None else memory
        first = torch.full((len(ids), 1), start, device=ids.device)
        return state(first, self.runner, self.output, memory, real)

    def embeddings(self) -> list[nn.Embedding]:
        embeddings = [
            self.get_submodule(f"{stack}.embedding") for stack in ("encoder", "decoder") if hasattr(self, stack)
        ]
        tokens = [getattr(embedding, "tokens", None) for embedding in embeddings]
        return [embedding for embedding in tokens if isinstance(embedding, nn.Embedding)]

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Parameters of the bridged model; those of recognised modules also have names of ours."""
        parameters: Iterator[nn.Parameter] = self.runner.model.parameters(recurse)
        return parameters

    @property
    def device(self) -> torch.device:
        return device_of(self.runner.model)

    def __deepcopy__(self, memo: dict[int, Any]) -> BridgedNetwork:
        """
        Raises:
            ValueError: always; the hooks belong to the modules of this model.
        """
        raise ValueError("this model cannot be copied: transformers' own code runs it; open it once more instead")


# From a model of `transformers` in memory to a bridged network.

LENGTHS = {"encoder": 6, "decoder": 4}  # tokens of the probe; different, so that cross-attention is known by its keys


@torch.inference_mode()
def build_bridged(model: Any, kind: Kind, settings: dict[str, Any]) -> BridgedNetwork:
    """Bridged network of a model, whose modules are recognised by a few tokens.

    Raises:
        CheckpointError: no attention was seen, a layer does not attend, the model's parts run one by one give other
            logits than the whole, or its numbers are not finite and its weights are not in memory.
    """
    try:
        return _build(model, kind, settings)
    except _NotFiniteError:
        for factor in (1.0, 2.0**-6, 2.0**-10):
            with tamed(model, factor), suppress(_NotFiniteError):
                return _build(model, kind, settings)
    family = str(settings.get("model_type", ""))
    raise CheckpointError(
        "what this {family} model computes of a few tokens is not finite, so that its parts cannot be "
        "recognised: open it in another precision, or look at its tensors under Checkpoints → Read, whose health "
        "report names weights that are not finite",
        family=family,
    )


class _NotFiniteError(Exception):
    """Results of a probe that are not finite."""


@contextmanager
def tamed(model: nn.Module, factor: float) -> Iterator[None]:
    """Block in which weights that are not finite are 0, and matrices are multiplied by `factor`, so that a probe has
    finite numbers; then all are as they were, in the same memory.
    """
    originals: list[tuple[Tensor, Tensor]] = []
    for parameter in model.parameters():
        if parameter.is_meta or not parameter.is_floating_point():
            continue
        odd = not bool(parameter.isfinite().all())
        if odd or (factor != 1 and parameter.dim() > 1):
            originals.append((parameter.data, parameter.data.clone()))
            changed = parameter.data.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            parameter.data.copy_(changed * factor if parameter.dim() > 1 else changed)
    try:
        yield
    finally:
        for data, before in originals:
            data.copy_(before)


def _build(model: Any, kind: Kind, settings: dict[str, Any]) -> BridgedNetwork:
    runner = Runner(model, kind)
    text = model.config.get_text_config()
    runner.outside = text._attn_implementation != NAME
    ids = {name: _ids(model, length) for name, length in LENGTHS.items()}
    built: list[BridgedStack | None] = []
    memory: Tensor | None = None
    if kind != "decoder-only":
        with probing(runner.encoder if runner.encoder is not None else runner.decoder, "encoder") as events:
            memory = runner.encode(ids["encoder"], None)
        _require_finite(memory, events)
        built.append(build_stack("encoder", events, ids["encoder"], flat(memory)))
    states = memory
    if kind != "encoder-only":
        with probing(runner.decoder, "decoder") as events:
            states = runner.decode(ids["decoder"], None, memory)
        _require_finite(states, events)
        built.append(build_stack("decoder", events, ids["decoder"], flat(states)))
    stacks = [stack for stack in built if stack is not None]
    family = str(settings.get("model_type", ""))
    if len(stacks) < len(built):
        raise _unseen(model, kind, ids, events, family)
    if other := sum(stack.other for stack in stacks):
        raise CheckpointError(
            "{other} layers of this {family} model do not attend, as they are recurrent or convolutional: only "
            "models that attend in every layer can be looked into; its tensors can be looked at under "
            "Checkpoints → Read",
            other=other,
            family=family,
        )
    if any(layer.layer.x.dim() > 2 for stack in stacks for layer in stack.layers):
        raise CheckpointError(
            "the layers of this {family} model pass on several streams of states side by side: only models with "
            "one can be looked into; its tensors can be looked at under Checkpoints → Read",
            family=family,
        )
    assert states is not None
    if kind == "decoder-only":
        _require_causal(runner, ids["decoder"], states, family)
    of_output: Products | None = Products(0)
    if not runner.bare:
        with probing(model, stacks[-1].name) as events:
            logits = _logits(model, runner, states)
        of_output = products(events, states.shape[1], partly=True)
        head = model.get_output_embeddings()
        if not any(event.module is head for event in events):  # its matrix was used in a way that is not seen
            of_output = None
        _require_same(model, runner, ids, logits)
    cached: tuple[int, ...] = ()
    if kind != "encoder-only":
        runner.caches, cached = _caches(runner, ids["decoder"], memory, states)
    find_head_parts(runner, stacks, ids)
    config = replace(bridged_config(model, runner, stacks), cached=cached)
    widths = [*config.windows, *(setting(text, name) for name in WINDOWS)]
    runner.windows = (None, *dict.fromkeys(width for width in widths if isinstance(width, int) and width > 0))
    network = BridgedNetwork(runner, config, stacks, of_output)
    if runner.between is not None:
        network.get_submodule("encoder.layers")[-1].beside.append(Products(runner.between.weight.numel()))  # type: ignore[index]
    return network


def _require_finite(states: Tensor, events: list[Event]) -> None:
    """Require finite states (1, position, d_model), and finite products with matrices on the way to them.

    Raises:
        _NotFiniteError: some are not.
    """
    results = [states, *(event.y for event in events if is_linear(event))]
    if not all(bool(each.isfinite().all()) for each in results):
        raise _NotFiniteError


@torch.inference_mode()
def keep_its_masks(model: Any, kind: Kind) -> None:
    """Set a model to attend by its own function if ours changes its output, as of a model whose other parts read the
    masks too: NLLB-MoE's router takes values other than 0 in a mask for padding.
    """
    named = _named(kind, {name: _ids(model, length) for name, length in LENGTHS.items()})
    by_ours = model(**named)[0]
    model.set_attn_implementation("eager")
    by_its_own = model(**named)[0]
    if _alike(by_ours, by_its_own):
        model.set_attn_implementation(NAME)


@torch.inference_mode()
def reads_texts(model: Any, kind: Kind) -> bool:
    """True if a model as a whole reads tokens without an error."""
    try:
        model(**_named(kind, {name: _ids(model, length) for name, length in LENGTHS.items()}))
    except Exception:  # noqa: BLE001 - whatever a model does that reads something else
        return False
    return True


@torch.inference_mode()
def sees_earlier_alone(model: Any) -> bool:
    """True if a model of one stack without an output for words hides later tokens from each, as the text model of CLIP
    (Radford et al., 2021, section 2.4).
    """
    if model.get_output_embeddings() is not None:
        return False
    ids = _ids(model, LENGTHS["encoder"])
    whole, shorter = (model.base_model(input_ids=each)[0] for each in (ids, ids[:, :-1]))
    return whole.dim() == 3 and close(shorter, whole[:, :-1])


def _alike(by_ours: Tensor, by_its_own: Tensor) -> bool:
    """True if two outputs are equal up to rounding, which is coarse: eager attention takes the softmax in float32."""
    off, size = (float(exact(values).abs().max()) for values in (by_ours - by_its_own, by_its_own))
    coarse = by_ours.dtype in (torch.float16, torch.bfloat16)
    return not math.isfinite(size) or off <= (0.05 if coarse else 1e-3) * max(1e-3, size)


def _unseen(model: Any, kind: Kind, ids: dict[str, Tensor], events: list[Event], family: str) -> CheckpointError:
    """Refusal of a model of which a stack's attentions are not known. events: of the last stack's probe."""
    if any(event.attention and event.attention.weights.shape[-1] == sum(LENGTHS.values()) for event in events):
        return CheckpointError(
            "each attention of this {family} model's decoder is over its own tokens and the source's at once, and "
            "only models that have one for each can be looked into; its tensors can be looked at under "
            "Checkpoints → Read",
            family=family,
        )
    if _gives_weights(model, kind, ids):
        return CheckpointError(
            "this {family} model gives attention weights, and its layers are not laid out as those that are "
            "known here, with states (text, token, channel) that each adds to: it cannot be looked into; its "
            "tensors can be looked at under Checkpoints → Read",
            family=family,
        )
    return CheckpointError(
        "no attention could be seen in this {family} model: it does not attend, or by code of its own that "
        "gives no weight for each query and key, layer by layer; its tensors can be looked at under "
        "Checkpoints → Read",
        family=family,
    )


@torch.inference_mode()
def _gives_weights(model: Any, kind: Kind, ids: dict[str, Tensor]) -> bool:
    """True if a model returns attention weights when it is asked for them."""
    try:
        output = model(**_named(kind, ids), output_attentions=True)
    except Exception:  # noqa: BLE001 - whatever a model does that has no such argument
        return False
    per_stack = [getattr(output, name, None) for name in ("attentions", "encoder_attentions", "decoder_attentions")]
    tensors = [each for weights in per_stack if weights for each in weights if isinstance(each, Tensor)]
    lengths = {each.shape[1] for each in ids.values()}
    lengths |= {sum(lengths)}  # of a decoder that attends to its own tokens and the source's at once
    known = [each.dim() == 4 and {*each.shape[-2:]} <= lengths for each in tensors]
    shares = [bool((each >= 0).all()) and bool((each.sum(-1) <= 1.001).all()) for each in tensors]
    return bool(tensors) and all(known) and all(shares)  # a sink takes what is left of 1


def _named(kind: Kind, ids: dict[str, Tensor]) -> dict[str, Any]:
    """Arguments of a call of the whole model."""
    named: dict[str, Any] = {"input_ids": ids["decoder" if kind == "decoder-only" else "encoder"]}
    if kind == "encoder-decoder":
        named["decoder_input_ids"] = ids["decoder"]
    return named if kind == "encoder-only" else named | {"use_cache": False}


def _require_causal(runner: Runner, ids: Tensor, states: Tensor, family: str) -> None:
    """Require that the states (1, position, d_model) of a token do not depend on later tokens.

    Raises:
        CheckpointError: they do.
    """
    shorter = runner.decode(ids[:, :-1], None)
    if close(shorter, states[:, :-1]):
        return
    if getattr(runner.model.config, "is_decoder", None) is False:
        raise CheckpointError(
            "this {family} model was saved as one that writes, and its tokens see later ones: set is_decoder to "
            "true in its config.json if it was trained so, or name its masked class in architectures",
            family=family,
        )
    raise CheckpointError(
        "this {family} model writes, and what it makes of a token depends on later ones, as by a mask of its own "
        "or a router of experts that mixes tokens: only its tensors can be looked at, under Checkpoints → Read",
        family=family,
    )


def _caches(runner: Runner, ids: Tensor, memory: Tensor | None, states: Tensor) -> tuple[bool, tuple[int, ...]]:
    """True if a text read in two parts, the first kept in a cache, gives the states that it gives as a whole; and the
    numbers that the cache keeps for each token in each layer, none where it is of no use.
    """
    cache = new_cache(memory)
    try:
        parts = [runner.decode(part, None, memory, None, cache) for part in (ids[:, :2], ids[:, 2:])]
    except Exception:  # noqa: BLE001 - a model with a cache of its own may raise anything
        return False, ()
    if not close(torch.cat(parts, dim=1), states):
        return False, ()
    layers = (cache if memory is None else cache.self_attention_cache).layers
    return True, tuple((layer.keys.numel() + layer.values.numel()) // ids.shape[1] for layer in layers)


def _ids(model: Any, length: int) -> Tensor:
    """Tokens (1, length) of the vocabulary, none of them special."""
    text = model.config.get_text_config()
    options = [getattr(text, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "decoder_start")]
    special = {token for option in options for token in (option if isinstance(option, list) else [option])}
    plain = [token for token in range(min(text.vocab_size, 64)) if token not in special]
    chosen = [plain[(7 * place + 3) % len(plain)] for place in range(length)]
    return torch.tensor([chosen], device=device_of(model))


def _logits(model: Any, runner: Runner, states: Tensor) -> Tensor:
    """Logits (batch, length, vocabulary) of states (batch, length, d_model).

    Raises:
        CheckpointError: the head reads more than the states that its stack ends in.
    """
    try:
        return runner.logits(states)
    except Exception as error:  # whatever a missing output leads to
        raise CheckpointError(
            "the head of {kind} reads more than the states that its stack ends in: it cannot be looked into",
            kind=type(model).__name__,
        ) from error


def _require_same(model: Any, runner: Runner, ids: dict[str, Tensor], logits: Tensor) -> None:
    whole = model(**_named(runner.kind, ids)).logits
    if not close(logits, whole):
        raise CheckpointError(
            "{kind} gives other logits when its stacks run one by one: it cannot be looked into",
            kind=type(model).__name__,
        )
