"""What a model costs, by arithmetic on its config: parameters, operations and memory. Nothing is built."""

from __future__ import annotations

from dataclasses import dataclass

from model.network.config import TransformerConfig

FLOAT = 4  # bytes: weights, their gradients and moments are float32, activations too without autocast
NORMS_SAVED = {"layer": 1, "textbook": 3, "textbook-sample": 3, "rms": 2, "none": 0}  # of its input's size, see below
UNITS_SAVED = {"relu": 1, "gelu": 1, "gelu-tanh": 1, "silu": 1}  # of d_ff, by the activation itself
UNITS_SAVED |= {"swiglu": 3, "geglu": 3, "geglu-tanh": 3}


@dataclass(frozen=True)
class Costs:
    """What a config costs for a batch; tied matrices count once, as embeddings.

    parameters: by part. flops: of the matrix products of a forward pass by part, 2 per multiply-add; "scores" are the
    products of queries with keys and of weights with values, counted in full whatever the mask.
    memory: bytes in float32. "moments" are AdamW's two, "average" the running average of the weights, "activations"
    an estimate of what the forward pass keeps for the backward pass (see `activations`), "cache" the keys and values of
    a generation that has written the whole target; the room made for them is up to twice as large.
    """

    parameters: dict[str, int]
    flops: dict[str, int]
    memory: dict[str, int]

    @property
    def parameter_count(self) -> int:
        return sum(self.parameters.values())

    @property
    def forward_flops(self) -> int:
        return sum(self.flops.values())

    @property
    def training_flops(self) -> int:
        """Of a forward and a backward pass: each product has two in the backward pass, one for each factor."""
        return 3 * self.forward_flops

    @property
    def training_memory(self) -> int:
        """Bytes that a training step needs at least."""
        return sum(size for name, size in self.memory.items() if name != "cache")


@dataclass(frozen=True)
class _Stack:
    """keys: how many each attention of a layer sees: those of its own stack, then those of the encoder."""

    vocabulary: int
    layers: int
    length: int
    keys: tuple[int, ...]


def costs(config: TransformerConfig, batch: int, source: int, target: int, predicted: int | None = None) -> Costs:
    """What a batch of `batch` texts of so many tokens costs; the length of a stack the model has not is 0.

    predicted: at how many positions of the batch logits are computed, as in training; None: at all.

    Raises:
        ValueError: a size is out of its range.
    """
    _require_sizes(config, batch, source, target)
    stacks = _stacks(config, source, target)
    outputs = batch * stacks[-1].length if predicted is None else predicted
    weights = FLOAT * sum(parameters(config).values())
    kept = sum(batch * stack.layers * sum(stack.keys) for stack in stacks) if config.kind != "encoder-only" else 0
    if config.kind == "encoder-decoder":
        kept -= batch * stacks[0].layers * source  # an encoder runs once and keeps none
    memory = {
        "weights": weights,
        "gradients": weights,
        "moments": 2 * weights,
        "average": weights,
        "activations": activations(config, batch, source, target, outputs),
        "cache": FLOAT * kept * 2 * config.kv_heads * config.d_head,
    }
    return Costs(parameters(config), _flops(config, stacks, batch, outputs), memory)


def parameters(config: TransformerConfig) -> dict[str, int]:
    """How many weights each part has."""
    width, bias, stacks = config.d_model, int(config.bias), _stacks(config, 0, 0)
    heads, shared = config.n_heads * config.d_head, config.kv_heads * config.d_head
    inputs_bias, output_bias = (int(each) for each in config.attention_biases)
    attention = 2 * width * (heads + shared) + inputs_bias * (heads + 2 * shared) + output_bias * width
    gates = 2 if config.gated else 1
    feed_forward = (gates + 1) * width * config.d_ff + bias * (gates * config.d_ff + width)
    norm = 0 if config.norm == "none" else width if config.norm == "rms" else (1 + bias) * width
    tables = len(stacks) * config.max_length * width if config.position == "learned" else 0
    distances = len(stacks) * config.position_buckets * config.n_heads if config.position == "relative" else 0
    matrices = [stack.vocabulary * width for stack in stacks]
    attentions = sum(stack.layers * len(stack.keys) for stack in stacks)
    layers = sum(stack.layers for stack in stacks)
    norms = sum(_norms_of(config, stack) for stack in stacks)
    return {
        "embeddings": (matrices[-1] if config.tied_embeddings in ("inputs", "all") else sum(matrices)) + tables,
        "attention": attentions * attention + distances,
        "feed-forward": layers * feed_forward,
        "norms": (norms + (config.output_head == "transform")) * norm + attentions * 2 * config.d_head * config.qk_norm,
        "output": _output_parameters(config),
    }


def _output_parameters(config: TransformerConfig) -> int:
    """Without the norm of a head that transforms."""
    if config.output_head == "none":
        return 0
    own = config.vocabulary * config.d_model if config.tied_embeddings in ("none", "inputs") else 0
    transform = config.d_model * (config.d_model + config.bias) if config.output_head == "transform" else 0
    return own + transform + config.output_bias * config.vocabulary


def activations(config: TransformerConfig, batch: int, source: int, target: int, predicted: int) -> int:
    """Bytes that a forward pass in training keeps for the backward pass, estimated as on the CPU.

    Counted is each tensor that torch's formulas for the gradients read, once: the input of every linear layer and norm;
    queries, keys, values and heads; the feed-forward's units; the mask of every dropout, here float32 (GPUs keep a
    byte or a seed); the log-probabilities at the output.
    Fused attention keeps no map, except with dropout on the weights (not on GPUs) and of ALiBi's bias.
    Left out are means and deviations, padding masks, and what exists only while it is computed.
    """
    stacks = _stacks(config, source, target)
    width, dropped = config.d_model, int(config.dropout > 0)
    heads, shared = config.n_heads * config.d_head, config.kv_heads * config.d_head
    numbers = 0
    for stack in stacks:
        tokens = batch * stack.length
        blocks = len(stack.keys) + 1
        of_norms = _norms_of(config, stack) * NORMS_SAVED[config.norm] * width
        # What the sublayers and the output read, and the masks behind the sublayers and the embedding.
        of_stream = (stack.layers * blocks + 1) * width * (1 + dropped)
        # What the second layer reads is what ReLU's gradient reads, too, unless it was dropped out.
        read = 2 if config.activation_dropout else 0 if config.activation == "relu" else 1
        units = UNITS_SAVED[config.activation] + read
        numbers += tokens * (of_norms + of_stream + stack.layers * units * config.d_ff)
        for keys in stack.keys:
            turned = NORMS_SAVED["rms"] if config.qk_norm else 0
            projected = tokens * heads * (2 + turned) + batch * keys * shared * (2 + turned)
            maps = config.n_heads * stack.length * keys
            kept = maps * batch * 3 if config.attention_dropout else 0
            kept += maps if config.position in ("alibi", "relative") else 0
            numbers += stack.layers * (projected + kept)
    return FLOAT * (numbers + predicted * _output_saved(config))


def _output_saved(config: TransformerConfig) -> int:
    """Numbers for each prediction: the log-probabilities, and what a head that transforms reads and makes."""
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
    """Norms over d_model: in the blocks, at the end of a stack, and behind its embedding."""
    in_block = 2 if config.norm_placement == "sandwich" else 1
    blocks = stack.layers * (len(stack.keys) + 1)
    return in_block * blocks + config.ends_in_norm + config.embedding_norm


def attention_flops(config: TransformerConfig, queries: int, keys: int) -> dict[str, int]:
    """Of one attention on one text: its four projections, and the products of queries with keys and of weights with
    values ("scores"), counted in full whatever the mask; 2 per multiply-add.
    """
    heads, shared = config.n_heads * config.d_head, config.kv_heads * config.d_head
    projections = 2 * config.d_model * (queries * heads + keys * shared)
    return {"attention": 2 * projections, "scores": 2 * 2 * queries * keys * heads}


def feed_forward_flops(config: TransformerConfig, tokens: int) -> int:
    """Of the matrix products of one feed-forward network; a gated one has three."""
    return 2 * tokens * (3 if config.gated else 2) * config.d_model * config.d_ff


def output_flops(config: TransformerConfig, tokens: int) -> int:
    """Of the projection of so many tokens to the vocabulary, and of what transforms them before it."""
    if config.output_head == "none":
        return 0
    transform = config.d_model if config.output_head == "transform" else 0
    return 2 * tokens * config.d_model * (config.vocabulary + transform)


def _flops(config: TransformerConfig, stacks: list[_Stack], batch: int, outputs: int) -> dict[str, int]:
    found = dict.fromkeys(("attention", "scores", "feed-forward"), 0)
    for stack in stacks:
        times = batch * stack.layers
        found["feed-forward"] += times * feed_forward_flops(config, stack.length)
        for keys in stack.keys:
            for part, flops in attention_flops(config, stack.length, keys).items():
                found[part] += times * flops
    return found | {"output": output_flops(config, outputs)}


def _require_sizes(config: TransformerConfig, batch: int, source: int, target: int) -> None:
    if batch < 1:
        raise ValueError(f"batch ({batch}) must be at least 1")
    for name, length, layers in (
        ("source", source, config.n_encoder_layers),
        ("target", target, config.n_decoder_layers),
    ):
        if layers and length < 1:
            raise ValueError(f"{name} ({length}) must be at least 1 token")
        if not layers and length:
            raise ValueError(f"{name} ({length}) must be 0: a model that is {config.kind} does not read it")
