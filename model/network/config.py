"""Configuration of a Transformer: every choice that changes the network's shape or formula."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from model.message import InputError
from model.options import Option, option, options_of

Kind = Literal["encoder-decoder", "decoder-only", "encoder-only", "recurrent"]
TWO_STACKS: tuple[Kind, ...] = ("encoder-decoder", "recurrent")  # kinds that read a source and write a target
Position = Literal["sinusoidal", "sinusoidal-halves", "learned", "rotary", "alibi", "relative", "none"]
Heads = Literal["split", "full"]
Norm = Literal["layer", "textbook", "textbook-sample", "rms", "none"]
NormPlacement = Literal["post", "pre", "sandwich"]
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu", "geglu-tanh"]
AttentionBias = Literal["same", "none", "inputs", "output", "all"]
OutputHead = Literal["linear", "transform", "none"]
TiedEmbeddings = Literal["none", "output", "inputs", "all"]
PRESETS: dict[str, dict[str, Any]] = {
    # "Attention Is All You Need", table 3: base and big.
    "paper-base": {"tied_embeddings": "all"},
    "paper-big": {
        "d_model": 1024,
        "n_heads": 16,
        "d_ff": 4096,
        "dropout": 0.3,
        "tied_embeddings": "all",
    },
    "small": {
        "d_model": 256,
        "n_encoder_layers": 4,
        "n_decoder_layers": 4,
        "d_ff": 1024,
        "max_length": 128,
        "norm_placement": "pre",
        "tied_embeddings": "output",
    },
    "tiny": {
        "d_model": 64,
        "n_heads": 4,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
        "d_ff": 128,
        "max_length": 64,
        "norm_placement": "pre",
        "tied_embeddings": "output",
    },
}


@dataclass(frozen=True)
class Units:
    """Parts of a feed-forward network; None: unknown. activation: of its `width` units, "" where it is unknown.

    experts: of as many units each, of which every token goes through `chosen`, by a router (Shazeer et al., 2017);
    0: there are none. shared: units beside them that every token goes through.
    """

    width: int | None
    activation: str
    experts: int = 0
    chosen: int = 0
    shared: int = 0


class StackShape(NamedTuple):
    """Width of a stack's stream, numbers of heads of its queries and of its keys and values, and channels of a head."""

    width: int
    heads: int
    kv_heads: int
    d_head: int


@dataclass(frozen=True)
class Latent:
    """Widths of latent attention (DeepSeek-AI, 2024, DeepSeek-V2, section 2.1), whose keys and values are made of one
    narrow vector of each token.

    width: of that vector. turned: of the key beside it that all heads share, which rotary positions turn. query: of the
    vector that queries are made of; None: they are made of the stream. value: of the values of a head.
    """

    width: int
    turned: int
    query: int | None
    value: int


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Configuration of a Transformer (Vaswani et al., 2017); the defaults are the paper's base size (table 3).

    A stack that the model does not have has 0 layers and a vocabulary of 0: without an encoder the model is
    decoder-only (GPT), without a decoder encoder-only (BERT). `one_stack` makes such configurations.

    Raises:
        ValueError: an option is out of its range; the message names the value and the rule.
    """

    source_vocabulary: int  # number of tokens that the encoder knows
    target_vocabulary: int  # number of tokens that the decoder knows
    d_model: int = option(512, "Width", "width of the residual stream; even, and divisible by the heads", low=1)
    n_heads: int = option(8, "Heads", "attention heads of each layer", low=1)
    n_key_value_heads: int | None = option(
        None, "Key and value heads", "heads of keys and values, shared in groups by the others; 1: multi-query", low=1
    )
    n_encoder_layers: int = option(6, "Encoder layers", "layers that read the source", low=0)
    n_decoder_layers: int = option(6, "Decoder layers", "layers that write the target", low=0)
    d_ff: int = option(2048, "Feed-forward units", "units of each feed-forward block, or of each expert", low=1)
    n_experts: int | None = option(
        None,
        "Experts",
        "feed-forward networks of each layer, of which a router sends each token through few; without a number, one "
        "network for all tokens",
        low=2,
    )
    experts_per_token: int = option(2, "Experts of a token", "experts: how many of them each token goes through", low=1)
    balance: float = option(
        0.01,
        "Balance of experts",
        "experts: weight of the loss that loads them evenly (Switch Transformer), which counts in training alone",
        low=0,
    )
    # After every sublayer and on the embeddings (section 5.4).
    dropout: float = option(
        0.1, "Dropout", "share of each block's output that is dropped while training", low=0, below=1
    )
    attention_dropout: float = option(0.0, "Dropout of weights", "the same for the attention weights", low=0, below=1)
    activation_dropout: float = option(0.0, "Dropout of units", "the same for the feed-forward units", low=0, below=1)
    max_length: int = option(512, "Longest text", "longest source or target, in tokens", low=1)
    # "other": one that only foreign code computes.
    position: Position | Literal["other"] = option(
        "sinusoidal", "Positions", "how the model knows where a token stands"
    )
    position_base: float = option(
        10000.0, "Base of wavelengths", "base of the sinusoidal or rotary wavelengths", above=0
    )
    position_buckets: int = option(
        32,
        "Distances apart",
        "relative positions: how many distances, or ranges of them, have a bias for each head",
        low=4,
    )
    position_reach: int = option(
        128, "Farthest distance", "relative positions: all that is farther shares one bias", low=1
    )
    rotary_channels: int | None = option(
        None, "Turned channels", "rotary positions turn so many channels of each head; without a number, all", low=1
    )
    rotary_stretch: float = option(
        1.0, "Stretch", "rotary positions: long wavelengths times this, to reach farther than was trained", above=0
    )
    rotary_short: float = option(
        0.0, "Not stretched below", "wavelengths below this, in tokens, are not stretched", low=0
    )
    rotary_long: float = option(
        0.0,
        "Stretched above",
        "wavelengths above this, in tokens, are stretched wholly; those between by and by",
        low=0,
    )
    window: int | None = option(None, "Window", "self-attention reaches so many tokens, its own counted", low=1)
    separator: int | None = option(
        None,
        "Separator",
        "encoder-only: id of the token behind which a second text begins, whose tokens get one vector more",
        low=0,
    )
    embedding_norm: bool = option(False, "Norm of embeddings", "a norm on what enters a stack")  # as in BERT
    norm: Norm = option(
        "layer", "Norm", "LayerNorm as in torch, as in textbooks (population or sample deviation), RMSNorm, or none"
    )
    norm_placement: NormPlacement = option(
        "post", "Place of the norm", "norm after each block, as in the paper, before it, or both (sandwich)"
    )
    last_norm: bool = option(
        False, "Last norm", "one more norm at the end of a post-norm stack, as torch.nn.Transformer has"
    )
    residual: bool = option(True, "Residual", "add each block's output to its input")
    parallel: bool = option(
        False, "Blocks side by side", "all blocks of a layer read what enters it, not what the one before has written"
    )
    norm_epsilon: float = option(
        1e-5, "Epsilon", "added to the variance in a norm, to the deviation in the textbook's", above=0
    )
    # Each head d_model / n_heads wide (section 3.2.2), or as wide as d_model.
    heads: Heads = option("split", "Width of a head", "split d_model among the heads, or give each its full width")
    head_width: int | None = option(
        None, "Channels of a head", "channels of each head, where that is not d_model divided by the heads", low=1
    )
    qk_norm: bool = option(False, "Norm of queries and keys", "RMSNorm on each head's queries and keys")
    scale_embedding: bool = option(  # section 3.4
        True, "Scale embeddings", "multiply embeddings by the square root of d_model"
    )
    scale_attention: bool = option(  # section 3.2.1
        True, "Scale scores", "divide scores by the square root of a head's width"
    )
    # "unknown": one that only foreign code computes.
    activation: Activation | Literal["unknown"] = option(
        "relu", "Activation", "of the feed-forward units; swiglu and geglu gate them"
    )
    tied_embeddings: TiedEmbeddings = option(
        "none", "Tied embeddings", "share the target's embedding with the output, the source (inputs), or both (all)"
    )
    bias: bool = option(True, "Biases", "biases in linear layers and norms")
    attention_bias: AttentionBias = option(
        "same",
        "Biases of attention",
        "where attentions have biases: as elsewhere (same), on query, key and value (inputs), on their output, or on "
        "all",
    )
    output_head: OutputHead = option(
        "linear",
        "Output",
        "what makes the logits: one matrix, a layer and a norm before it (transform), or nothing (none)",
    )
    output_bias: bool = option(False, "Bias of logits", "a bias on each logit")
    scale_output: bool = option(False, "Scale the output", "divide what the output reads by the square root of d_model")

    def __post_init__(self) -> None:
        for name, known in NETWORK_OPTIONS.items():
            known.require(getattr(self, name))
        require_consistent(self)

    @property
    def kind(self) -> Kind:
        """Kind of the model, by the stacks that it has."""
        if self.n_encoder_layers and self.n_decoder_layers:
            return "encoder-decoder"
        return "encoder-only" if self.n_encoder_layers else "decoder-only"

    @property
    def stacks(self) -> list[str]:
        """Names of the stacks that the model has, in order."""
        return [stack for stack in ("encoder", "decoder") if self.depth(stack)]

    def shape_of(self, stack: str) -> StackShape:
        """Widths and heads in the "encoder" or the "decoder"; cross-attention is the decoder's."""
        return StackShape(self.d_model, self.n_heads, self.kv_heads, self.d_head)

    def window_of(self, layer: int) -> int | None:
        """Tokens that a query of this layer sees in each direction, its own counted; None: all."""
        return self.window

    @property
    def windowed(self) -> bool:
        """True if a layer has a window."""
        return self.window is not None

    def units_of(self, stack: str, layer: int) -> Units:
        """Parts of the feed-forward network of a layer."""
        if self.n_experts is None:
            return Units(self.d_ff, self.activation)
        return Units(self.d_ff, self.activation, self.n_experts, self.experts_per_token)

    def latent_of(self, layer: int) -> Latent | None:
        """Latent that keys and values of this layer's self-attention are made of; None: there is none."""
        return None

    def cached_of(self, layer: int) -> int | None:
        """Numbers that the cache keeps for each token in this layer's self-attention when the model writes, as it is
        run here; None: unknown.
        """
        return 2 * self.kv_heads * self.d_head

    def depth(self, stack: str) -> int:
        """Number of layers of the "encoder" or the "decoder"; cross-attention is the decoder's."""
        return self.n_encoder_layers if stack == "encoder" else self.n_decoder_layers

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the model predicts: the size of its logits."""
        return self.target_vocabulary or self.source_vocabulary

    @property
    def vocabularies(self) -> tuple[int, int]:
        """Numbers of tokens of source and target; of a model with one stack, the same number twice."""
        return self.source_vocabulary or self.vocabulary, self.vocabulary

    @property
    def d_head(self) -> int:
        """Channels of one head, the paper's d_k = d_v."""
        return self.head_width or (self.d_model if self.heads == "full" else self.d_model // self.n_heads)

    @property
    def kv_heads(self) -> int:
        """Number of heads of keys and values: n_heads, fewer (Ainslie et al., 2023), or one for all (Shazeer, 2019)."""
        return self.n_key_value_heads or self.n_heads

    @property
    def ends_in_norm(self) -> bool:
        """True if a norm follows the last layer of a stack."""
        return self.last_norm or self.norm_placement != "post"

    @property
    def gated(self) -> bool:
        """True if half of the feed-forward units gate the others (Shazeer, 2020)."""
        return self.activation in ("swiglu", "geglu", "geglu-tanh")

    @property
    def attention_biases(self) -> tuple[bool, bool]:
        """True if attentions have biases on queries, keys and values, and on their output."""
        if self.attention_bias == "same":
            return self.bias, self.bias
        return self.attention_bias in ("inputs", "all"), self.attention_bias in ("output", "all")

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of the options."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def preset(cls, name: str, **options: Any) -> TransformerConfig:
        """Configuration of a named size, with `options` (at least the vocabulary sizes) in the place of the preset's.

        Raises:
            ValueError: no preset of that name, or an option out of its range.
        """
        if name not in PRESETS:
            raise InputError(
                "preset {name!r} is not known: choose one of {presets}", name=name, presets=", ".join(PRESETS)
            )
        known = cls.option_names()
        return cls.from_dict({option: value for option, value in PRESETS[name].items() if option in known} | options)

    @classmethod
    def one_stack(cls, kind: Kind, vocabulary: int, n_layers: int, **options: Any) -> TransformerConfig:
        """Configuration of a decoder-only or encoder-only model.

        Raises:
            ValueError: `kind` has two stacks, or an option is out of its range.
        """
        if kind not in ONE_STACK:
            raise InputError("kind ({kind!r}) must be one of {one_stack}", kind=kind, one_stack=", ".join(ONE_STACK))
        side, stack = ONE_STACK[kind]
        sizes = {name: 0 for pair in ONE_STACK.values() for name in pair} | {side: vocabulary, stack: n_layers}
        return cls(**(sizes | options))

    @classmethod
    def from_dict(cls, options: dict[str, Any]) -> TransformerConfig:
        """Configuration with these options; `kind` "recurrent" makes a `RecurrentConfig`.

        Raises:
            ValueError: an unknown or missing option, or one out of its range.
        """
        if options.get("kind") == "recurrent":
            return RecurrentConfig.from_dict({name: value for name, value in options.items() if name != "kind"})
        fields = {field.name: field for field in dataclasses.fields(cls) if field.name in cls.option_names()}
        if unknown := sorted(set(options) - set(fields)):
            raise InputError(
                "{unknown} is not an option: the options are {fields}",
                unknown=", ".join(unknown),
                fields=", ".join(fields),
            )
        required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
        if missing := [name for name in required if name not in options]:
            raise InputError("{missing} must be given", missing=", ".join(missing))
        return cls(**options)

    @classmethod
    def from_json(cls, text: str) -> TransformerConfig:
        """Configuration as `to_json` wrote it.

        Raises:
            ValueError: the text is not a JSON object of known options within their ranges.
        """
        try:
            options = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError("the config is not valid JSON: {error}", error=error) from error
        if not isinstance(options, dict):
            raise InputError("the config must be a JSON object, not {kind}", kind=type(options).__name__)
        return cls.from_dict(options)

    def to_json(self) -> str:
        """JSON object of all options."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


NETWORK_OPTIONS = options_of(TransformerConfig)
VOCABULARIES = {  # by name and smallest size; the tokenizers decide on them
    (name, low): Option(name, int, low=low) for name in ("source_vocabulary", "target_vocabulary") for low in (0, 1)
}


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(TransformerConfig):
    """Configuration of a recurrent encoder-decoder with additive attention (Bahdanau et al., 2015).

    d_model: width of embeddings, annotations and decoder states; each direction of the encoder has half of it. Of the
    options of a Transformer it has those of `option_names`; the others say what it lacks, and cannot be changed.

    Raises:
        ValueError: an option is out of its range, or is one that this network does not have.
    """

    d_model: int = 256
    n_heads: int = 1
    n_encoder_layers: int = 1
    n_decoder_layers: int = 1
    d_ff: int = 0
    position: Position | Literal["other"] = "none"
    norm: Norm = "none"
    residual: bool = False
    scale_attention: bool = False
    activation: Activation | Literal["unknown"] = "unknown"
    tied_embeddings: TiedEmbeddings = "output"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.name not in self.option_names() and getattr(self, field.name) != field.default:
                raise InputError(
                    "{name} ({value!r}) is no option of a recurrent network: its options are {option_names}",
                    name=field.name,
                    value=getattr(self, field.name),
                    option_names=", ".join(self.option_names()),
                )
        for name in ("source_vocabulary", "target_vocabulary"):
            VOCABULARIES[name, 1].require(getattr(self, name))
        for name, known in NETWORK_OPTIONS.items():
            if name in self.option_names():
                known.require(getattr(self, name))
        if self.d_model % 2:
            raise InputError(
                "d_model ({d_model}) must be even: each direction of the encoder has half of it", d_model=self.d_model
            )
        _require_embeddings(self)

    @classmethod
    def option_names(cls) -> list[str]:
        return ["source_vocabulary", "target_vocabulary", "d_model", "dropout", "max_length", "tied_embeddings"]

    @property
    def kind(self) -> Kind:
        return "recurrent"

    def units_of(self, stack: str, layer: int) -> Units:
        return Units(None, "")

    def cached_of(self, layer: int) -> int | None:
        return 0

    def to_json(self) -> str:
        options = {name: getattr(self, name) for name in self.option_names()}
        return json.dumps({"kind": self.kind} | options, indent=2) + "\n"


def config_class(kind: Kind) -> type[TransformerConfig]:
    """Class of the configurations of a kind."""
    return RecurrentConfig if kind == "recurrent" else TransformerConfig


ONE_STACK = {
    "encoder-only": ("source_vocabulary", "n_encoder_layers"),
    "decoder-only": ("target_vocabulary", "n_decoder_layers"),
}


# Rules between options.


def require_consistent(config: TransformerConfig) -> None:
    """Check that the options, each in its range, agree with each other and with the vocabularies.

    Raises:
        ValueError: an option does not; the message names the value and the rule.
    """
    _require_stacks(config)
    if config.parallel and not config.residual:
        raise InputError(
            "parallel needs residual: without it, only the last block of a layer would go on", field="parallel"
        )
    _require_heads(config)
    if config.n_experts is not None and config.experts_per_token > config.n_experts:
        raise InputError(
            "experts_per_token ({experts_per_token}) must be at most n_experts ({n_experts})",
            experts_per_token=config.experts_per_token,
            n_experts=config.n_experts,
        )
    _require_separator(config)
    _require_positions(config)
    _require_embeddings(config)


def _require_stacks(config: TransformerConfig) -> None:
    if config.n_encoder_layers == config.n_decoder_layers == 0:
        raise InputError(
            "n_encoder_layers (0) and n_decoder_layers (0): one of them must be at least 1", field="n_encoder_layers"
        )
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        name, layers = f"{side}_vocabulary", f"n_{stack}_layers"
        VOCABULARIES[name, 1 if getattr(config, layers) else 0].require(getattr(config, name))
        if getattr(config, name) and not getattr(config, layers):
            raise InputError(
                "{name} ({value}) must be 0 where {layers} is 0: nothing reads it",
                name=name,
                value=getattr(config, name),
                layers=layers,
            )

    if config.kind == "encoder-only" and config.max_length < 3:
        raise InputError(
            "max_length ({max_length}) must be at least 3: a text stands between <s> and </s>",
            max_length=config.max_length,
        )


def _require_heads(config: TransformerConfig) -> None:
    if config.d_model % 2:
        raise InputError(
            "d_model ({d_model}) must be even: sinusoidal positions pair a sine with a cosine", d_model=config.d_model
        )
    if config.heads == "full" and config.head_width is not None:
        raise InputError(
            "head_width ({head_width}) must be left out where heads is 'full': that is d_model",
            head_width=config.head_width,
        )
    if config.heads == "split" and config.head_width is None and config.d_model % config.n_heads:
        raise InputError(
            "d_model ({d_model}) must be divisible by n_heads ({n_heads})",
            d_model=config.d_model,
            n_heads=config.n_heads,
        )
    if config.n_heads % config.kv_heads:
        raise InputError(
            "n_heads ({n_heads}) must be divisible by n_key_value_heads ({kv_heads})",
            n_heads=config.n_heads,
            kv_heads=config.kv_heads,
        )


def _require_separator(config: TransformerConfig) -> None:
    if config.separator is None:
        return
    if config.kind != "encoder-only" or config.separator >= config.source_vocabulary:
        raise InputError(
            "separator ({separator}) must be the id of a token of an encoder-only model, below {source_vocabulary}",
            separator=config.separator,
            source_vocabulary=config.source_vocabulary,
        )


def _require_positions(config: TransformerConfig) -> None:
    turned = config.rotary_channels or config.d_head
    if config.position == "rotary" and turned > config.d_head:
        raise InputError(
            "rotary_channels ({turned}) must be at most a head's width ({d_head})",
            field="rotary_channels",
            turned=turned,
            d_head=config.d_head,
        )
    if config.position == "rotary" and turned % 2:
        name = "a head's width" if config.rotary_channels is None else "rotary_channels"
        raise InputError(
            "{name} ({turned}) must be even: rotary positions turn pairs of channels",
            field="position" if config.rotary_channels is None else "rotary_channels",
            name=name,
            turned=turned,
        )
    if config.rotary_short > config.rotary_long:
        raise InputError(
            "rotary_short ({rotary_short}) must be at most rotary_long ({rotary_long})",
            rotary_short=config.rotary_short,
            rotary_long=config.rotary_long,
        )
    if config.position_reach <= config.position_buckets // 2:
        raise InputError(
            "position_reach ({position_reach}) must be above half of position_buckets ({position_buckets}): so "
            "many distances have a bucket of their own",
            position_reach=config.position_reach,
            position_buckets=config.position_buckets,
        )


def _require_embeddings(config: TransformerConfig) -> None:
    one_matrix = config.tied_embeddings in ("inputs", "all") and config.kind in TWO_STACKS
    if one_matrix and config.source_vocabulary != config.target_vocabulary:
        raise InputError(
            "tied_embeddings {tied_embeddings!r} needs one vocabulary: source_vocabulary ({source_vocabulary}) "
            "must equal target_vocabulary ({target_vocabulary})",
            tied_embeddings=config.tied_embeddings,
            source_vocabulary=config.source_vocabulary,
            target_vocabulary=config.target_vocabulary,
        )
    if config.output_head == "none" and (config.tied_embeddings in ("output", "all") or config.output_bias):
        field = "output_bias" if config.output_bias else "tied_embeddings"
        option = field if config.output_bias else f"{field} ({config.tied_embeddings!r})"
        raise InputError(
            "{option} must not be set where output_head is 'none': there are no logits", field=field, option=option
        )
    if config.scale_output and config.output_head != "linear":
        raise InputError(
            "scale_output needs output_head 'linear', and it is {output_head!r}",
            field="scale_output",
            output_head=config.output_head,
        )
