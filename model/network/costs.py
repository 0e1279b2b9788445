"""Costs of a model, computed from its configuration alone: parameters, operations and memory."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from model.message import InputError
from model.network.config import TransformerConfig

FLOAT = 4  # bytes: weights, their gradients and moments are float32, activations too without autocast
# Numbers that are kept for the backward pass (see `activations`): by a norm, in sizes of its input; by an activation,
# in units of d_ff.
NORMS_SAVED = {"layer": 1, "textbook": 3, "textbook-sample": 3, "rms": 2, "none": 0}
UNITS_SAVED = {"relu": 1, "gelu": 1, "gelu-tanh": 1, "silu": 1}
UNITS_SAVED |= {"swiglu": 3, "geglu": 3, "geglu-tanh": 3}


@dataclass(frozen=True)
class Costs:
    """Costs of a model for a batch; tied matrices count once, as embeddings.

    parameters: number of weights by part. flops: floating point operations of the matrix products of a forward pass by
    part, 2 per multiply-add; "scores" are the products of queries with keys and of weights with values, whatever the
    mask hides. memory: bytes in float32. "moments" are AdamW's two, "average" is the running average of the weights,
    "activations" an estimate of the tensors kept for the backward pass (see `activations`), "cache" the keys and values
    after the whole target was generated; the storage of a cache is up to twice as large.
    """

    parameters: dict[str, int]
    flops: dict[str, int]
    memory: dict[str, int]

    @property
    def parameter_count(self) -> int:
        """Number of weights."""
        return sum(self.parameters.values())

    @property
    def forward_flops(self) -> int:
        """Floating point operations of a forward pass."""
        return sum(self.flops.values())

    @property
    def training_flops(self) -> int:
        """Operations of a forward and a backward pass; the latter has two products for each, one a factor."""
        return 3 * self.forward_flops

    @property
    def training_memory(self) -> int:
        """Least number of bytes that a training step needs."""
        return sum(size for name, size in self.memory.items() if name != "cache")


@dataclass(frozen=True)
class _Stack:
    """One stack; keys: number of keys of each attention of a layer, first self-attention, then cross-attention."""

    vocabulary: int
    layers: int
    length: int
    keys: tuple[int, ...]


def costs(config: TransformerConfig, batch: int, source: int, target: int, predicted: int | None = None) -> Costs:
    """Costs of a batch of `batch` texts of `source` and `target` tokens; 0 for a stack that the model does not have.

    predicted: number of positions of the batch at which logits are computed; None: all.

    Raises:
        ValueError: a size is out of its range.
    """
    _require_sizes(config, batch, source, target)
    if config.kind == "recurrent":
        return _recurrent_costs(config, batch, source, target, batch * target if predicted is None else predicted)
    stacks = _stacks(config, source, target)
    outputs = batch * stacks[-1].length if predicted is None else predicted
    by_part = parameters(config)
    weights = FLOAT * sum(by_part.values())
    writer = stacks[-1]
    cached = 0 if config.kind == "encoder-only" else batch * writer.layers * sum(writer.keys)
    memory = {
        "weights": weights,
        "gradients": weights,
        "moments": 2 * weights,
        "average": weights,
        "activations": activations(config, batch, source, target, outputs),
        "cache": FLOAT * cached * 2 * config.kv_heads * config.d_head,
    }
    return Costs(by_part, _flops(config, stacks, batch, outputs), memory)


def parameters(config: TransformerConfig) -> dict[str, int]:
    """Number of weights of each part."""
    if config.kind == "recurrent":
        return _recurrent_parameters(config)
    width, bias, stacks = config.d_model, int(config.bias), _stacks(config, 0, 0)
    heads, shared = config.n_heads * config.d_head, config.kv_heads * config.d_head
    inputs_bias, output_bias = config.attention_biases
    attention = 2 * width * (heads + shared) + inputs_bias * (heads + 2 * shared) + output_bias * width
    gates = 2 if config.gated else 1
    feed_forward = (gates + 1) * width * config.d_ff + bias * (gates * config.d_ff + width)
    if config.n_experts is not None:
        feed_forward = config.n_experts * (feed_forward + width)  # each has a column of the router
    norm = 0 if config.norm == "none" else width if config.norm == "rms" else (1 + bias) * width
    tables = len(stacks) * config.max_length * width if config.position == "learned" else 0
    types = 0 if config.separator is None else width
    distances = len(stacks) * config.position_buckets * config.n_heads if config.position == "relative" else 0
    matrices = [stack.vocabulary * width for stack in stacks]
    attentions = sum(stack.layers * len(stack.keys) for stack in stacks)
    layers = sum(stack.layers for stack in stacks)
    norms = sum(_norms_of(config, stack) for stack in stacks)
    return {
        "embeddings": (matrices[-1] if config.tied_embeddings in ("inputs", "all") else sum(matrices)) + tables + types,
        "attention": attentions * attention + distances,
        "feed-forward": layers * feed_forward,
        "norms": (norms + (config.output_head == "transform")) * norm + attentions * 2 * config.d_head * config.qk_norm,
        "output": _output_parameters(config),
    }


def active_parameters(config: TransformerConfig) -> int:
    """Number of weights that compute for one token: all but those of the experts that it does not go through."""
    count = sum(parameters(config).values())
    if config.n_experts is None:
        return count
    one = dataclasses.replace(config, n_experts=None)
    per_expert = parameters(one)["feed-forward"]  # of all layers
    return count - (config.n_experts - config.experts_per_token) * per_expert


# A recurrent network with additive attention (`network.recurrent`), whose products are counted one by one.


def _recurrent_parameters(config: TransformerConfig) -> dict[str, int]:
    width, half = config.d_model, config.d_model // 2
    encoder = 2 * (3 * half * (width + half) + 2 * 3 * half)
    decoder = 3 * width * (width + width + width) + 2 * 3 * width + width * (half + 1)
    matrices = (config.source_vocabulary, config.target_vocabulary)
    one_table = config.tied_embeddings in ("inputs", "all")
    return {
        "embeddings": (matrices[-1] if one_table else sum(matrices)) * width,
        "attention": 2 * width * width + 2 * width,
        "recurrence": encoder + decoder,
        "output": 3 * 2 * width * width + 2 * width + _output_parameters(config),
    }


def _recurrent_costs(config: TransformerConfig, batch: int, source: int, target: int, outputs: int) -> Costs:
    """Costs of a batch. "scores" are the energies and the sums of annotations, of every pair of tokens."""
    width, half, by_part = config.d_model, config.d_model // 2, _recurrent_parameters(config)
    weights = FLOAT * sum(by_part.values())
    encoder, decoder = 2 * 3 * half * (width + half), 3 * width * (width + width + width)
    flops = {
        "attention": 2 * batch * (source + target) * width * width,
        "scores": 2 * 2 * batch * source * target * width,
        "recurrence": 2 * batch * (source * encoder + target * decoder + half * width),
        "output": 2 * batch * target * 3 * 2 * width * width + output_flops(config, outputs),
    }
    # Kept for the backward pass: tanh(W s + U h) of every pair of tokens, and a dozen vectors of a token.
    pairs, vectors = batch * source * target * (width + 3), batch * (source * 8 + target * 16) * width
    memory = {
        "weights": weights,
        "gradients": weights,
        "moments": 2 * weights,
        "average": weights,
        "activations": FLOAT * (pairs + vectors + outputs * _output_saved(config)),
        "cache": FLOAT * batch * (target + source) * width,
    }
    return Costs(by_part, flops, memory)


def _output_parameters(config: TransformerConfig) -> int:
    """Number of weights of the output head, without its norm."""
    if config.output_head == "none":
        return 0
    untied = config.vocabulary * config.d_model if config.tied_embeddings in ("none", "inputs") else 0
    transform = config.d_model * (config.d_model + config.bias) if config.output_head == "transform" else 0
    return untied + transform + config.output_bias * config.vocabulary


def activations(config: TransformerConfig, batch: int, source: int, target: int, predicted: int) -> int:
    """Bytes of the tensors that a forward pass keeps for the backward pass, estimated for the CPU.

    Counted once is each tensor that torch's gradient formulas read: inputs of linear layers and norms; queries, keys,
    values and heads; feed-forward units; the mask of every dropout, in float32 (GPUs keep a byte or a seed);
    log-probabilities at the output. Attention keeps no map, except with dropout on the weights (not on GPUs) and for a
    bias of the scores. Not counted are means and deviations, padding masks and temporary tensors.
    """
    stacks = _stacks(config, source, target)
    width, dropped = config.d_model, int(config.dropout > 0)
    heads, shared = config.n_heads * config.d_head, config.kv_heads * config.d_head
    numbers = 0
    for stack in stacks:
        tokens = batch * stack.length
        blocks = len(stack.keys) + 1
        of_norms = _norms_of(config, stack) * NORMS_SAVED[config.norm] * width
        # Inputs of sublayers and output, and dropout masks after sublayers and embedding.
        of_stream = (stack.layers * blocks + 1) * width * (1 + dropped)
        # The input of the second matrix is also what ReLU's gradient reads, unless it was dropped out.
        read = 2 if config.activation_dropout else 0 if config.activation == "relu" else 1
        units = (UNITS_SAVED[config.activation] + read) * config.d_ff
        if config.n_experts is not None:  # inputs and outputs of a token's experts too, and the gates
            units = config.experts_per_token * (units + 2 * width) + 2 * config.n_experts
        numbers += tokens * (of_norms + of_stream + stack.layers * units)
        for keys in stack.keys:
            turned = NORMS_SAVED["rms"] if config.qk_norm else 0
            projected = tokens * heads * (2 + turned) + batch * keys * shared * (2 + turned)
            maps = config.n_heads * stack.length * keys
            score_numbers = maps * batch * 3 if config.attention_dropout else 0
            score_numbers += maps if config.position in ("alibi", "relative") else 0
            numbers += stack.layers * (projected + score_numbers)
    return FLOAT * (numbers + predicted * _output_saved(config))


def recorded(config: TransformerConfig, source: int, target: int) -> int:
    """Numbers that a trace of one text keeps, about: the outputs of all modules that it names, and of experts as many
    as a token goes through.
    """
    numbers = 0
    for stack, length, memory in (("encoder", source, 0), ("decoder", target, source)):
        if not (depth := config.depth(stack)):
            continue
        width, heads, shared, channels = config.shape_of(stack)
        queries, keys = heads * channels, shared * channels
        numbers += (4 + 2 * (config.output_head == "transform")) * length * width
        if config.kind == "recurrent":
            numbers += length * (5 * width + 2 * memory)
            continue
        blocks = 3 if config.kind == "encoder-decoder" and stack == "decoder" else 2
        norms = 2 if config.norm_placement == "sandwich" else 1
        turned = queries + keys if config.qk_norm else 0
        of_token = blocks * (2 + norms) * width + (blocks - 1) * (2 * queries + turned) + 2 * keys
        numbers += depth * length * of_token
        if blocks == 3:
            numbers += depth * memory * 2 * keys
        if config.position in ("alibi", "relative"):
            numbers += heads * length * length  # which all layers share
        for layer in range(depth):
            units = config.units_of(stack, layer)
            width_of_units = (units.width or 4 * width) * max(1, units.chosen) + units.shared
            numbers += length * ((4 if config.gated else 2) * width_of_units + 2 * units.experts)
    return numbers + (target or source) * (config.vocabulary if config.output_head != "none" else 0)


def _output_saved(config: TransformerConfig) -> int:
    """Numbers kept for each prediction: log-probabilities, and inputs and outputs of a transforming head."""
    if config.output_head == "none":
        return 0
    transform = (2 + NORMS_SAVED[config.norm]) * config.d_model if config.output_head == "transform" else 0
    return config.vocabulary + transform


def _stacks(config: TransformerConfig, source: int, target: int) -> list[_Stack]:
    encoder = _Stack(config.source_vocabulary, config.n_encoder_layers, source, (source,))
    keys = (target, source) if config.kind == "encoder-decoder" else (target,)
    decoder = _Stack(config.target_vocabulary, config.n_decoder_layers, target, keys)
    return [stack for stack in (encoder, decoder) if stack.layers]


def _norms_of(config: TransformerConfig, stack: _Stack) -> int:
    """Number of norms over d_model: of the blocks, after the last layer, and after the embedding."""
    in_block = 2 if config.norm_placement == "sandwich" else 1
    blocks = stack.layers * (len(stack.keys) + 1)
    return in_block * blocks + config.ends_in_norm + config.embedding_norm


def attention_flops(config: TransformerConfig, queries: int, keys: int) -> dict[str, int]:
    """Operations of one attention on one text, 2 per multiply-add: its four projections ("attention"), and the products
    of queries with keys and of weights with values ("scores"), whatever the mask hides.
    """
    heads, shared = config.n_heads * config.d_head, config.kv_heads * config.d_head
    projections = 2 * config.d_model * (queries * heads + keys * shared)
    return {"attention": 2 * projections, "scores": 2 * 2 * queries * keys * heads}


def feed_forward_flops(config: TransformerConfig, tokens: int) -> int:
    """Operations of the matrix products of one feed-forward network, two, or three where it is gated; of experts those
    of a token's own, and of the router.
    """
    products = (3 if config.gated else 2) * config.d_ff
    if config.n_experts is not None:
        products = config.experts_per_token * products + config.n_experts
    return 2 * tokens * config.d_model * products


def output_flops(config: TransformerConfig, tokens: int) -> int:
    """Operations of the output head for `tokens` positions: projection to the vocabulary, and transform before it."""
    if config.output_head == "none":
        return 0
    transform = config.d_model if config.output_head == "transform" else 0
    return 2 * tokens * config.d_model * (config.vocabulary + transform)


def _flops(config: TransformerConfig, stacks: list[_Stack], batch: int, outputs: int) -> dict[str, int]:
    totals = dict.fromkeys(("attention", "scores", "feed-forward"), 0)
    for stack in stacks:
        times = batch * stack.layers
        totals["feed-forward"] += times * feed_forward_flops(config, stack.length)
        for keys in stack.keys:
            for part, flops in attention_flops(config, stack.length, keys).items():
                totals[part] += times * flops
    return totals | {"output": output_flops(config, outputs)}


def _require_sizes(config: TransformerConfig, batch: int, source: int, target: int) -> None:
    if batch < 1:
        raise InputError("{name} ({value}) must be at least {least}", name="batch", value=batch, least=1)
    for name, length, layers in (
        ("source", source, config.n_encoder_layers),
        ("target", target, config.n_decoder_layers),
    ):
        if layers and length < 1:
            raise ValueError(f"{name} ({length}) must be at least 1 token")
        if not layers and length:
            raise ValueError(f"{name} ({length}) must be 0: a model that is {config.kind} does not read it")
