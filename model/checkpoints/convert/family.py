"""Families of published models, and the settings and names of tensors of one checkpoint folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.checkpoints.convert.weight_map import Table, WeightMap, source, weight_map
from model.checkpoints.rotary_length import longest_text
from model.network.config import Activation, TransformerConfig
from model.runtime.errors import CheckpointError

# Activation functions by their names in Hugging Face's configs.
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}
# Gated activations by the function of their gate.
GATES: dict[Activation, Activation] = {"silu": "swiglu", "gelu": "geglu", "gelu-tanh": "geglu-tanh"}
ROTARY = {"rope_theta", "rope_type", "type", "partial_rotary_factor"}
SCALED = {
    "default": set[str](),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
}
# By option of TransformerConfig: the setting of config.json and its default, whose type is the setting's: a whole
# number above 0, a number, true or false, or the name of an activation function.
SettingsTable = Mapping[str, tuple[str, int | float | bool | str]]


@dataclass(frozen=True)
class Family:
    """Models that differ in size only.

    options: makes the config of a checkpoint. weights: table of our names and the file's, or a function that makes it
    where it depends on the checkpoint. headed, bare: names of the architectures with and without an output head.
    prefix: before the names of all tensors but the head's, where there is a head. head: beginnings of the names of the
    head's tensors. unused: pattern of names of tensors that are not needed: kept masks, and heads for other tasks than
    words. renamed: other names of settings, by name. known: settings that change nothing in this family.
    """

    options: Callable[[SourceCheckpoint], TransformerConfig]
    weights: Table | Callable[[SourceCheckpoint, TransformerConfig], Table]
    headed: Collection[str]
    bare: Collection[str]
    prefix: str
    head: tuple[str, ...]
    unused: str = r"(?!)"
    renamed: Mapping[str, str] = field(default_factory=dict)
    known: tuple[str, ...] = ()


class SourceCheckpoint:
    """Settings of a checkpoint folder and names of its tensors.

    prefix: the family's where the names have it, else "". head: whether there is an output head.

    Raises:
        UnsupportedError: the architecture is none of the family's.
    """

    def __init__(self, family: Family, values: Mapping[str, Any], names: Collection[str]) -> None:
        self.family, self.settings = family, Settings(values, family.renamed)
        self.names = frozenset(map(modern, names))
        self.prefix = family.prefix if any(name.startswith(family.prefix) for name in self.names) else ""
        self.head = self._head(self.settings.get("architectures"))

    def _head(self, architectures: Any) -> bool:
        if not architectures:  # a bare model is saved without a prefix
            return any(name.startswith(self.family.head) for name in self.names) or bool(self.prefix)
        if not isinstance(architectures, list) or len(architectures) != 1:
            raise UnsupportedError(f"architectures is {architectures!r}")
        if architectures[0] not in (*self.family.headed, *self.family.bare):
            raise UnsupportedError(f"the architecture is {architectures[0]!r}")
        return architectures[0] in self.family.headed or any(name.startswith(self.family.head) for name in self.names)

    def weight_map(self, config: TransformerConfig) -> WeightMap:
        """Sources of the weights of the network of `config`, by our names."""
        weights = self.family.weights
        table = weights(self, config) if callable(weights) else weights
        prefixed = {name: source(row).renamed(self._prefixed) for name, row in table.items()}
        return weight_map(config, prefixed, self.names)

    def _prefixed(self, name: str) -> str:
        """Name of a module or tensor in the file."""
        return name if f"{name}.".startswith(self.family.head) else f"{self.prefix}{name}"

    def has(self, name: str) -> bool:
        """True if there is a tensor of this name."""
        return name in self.names

    def count_or(self, name: str, default: int | None, otherwise: int) -> int:
        """Setting that is a whole number above 0; `otherwise` where it is null, or missing without a default.

        Raises:
            CheckpointError: the setting is something else.
        """
        missing = self.settings.get(name, default) is None
        return otherwise if missing else self.settings.count(name, default)

    def function(self, name: str, default: str) -> Activation:
        """Activation function that a setting names.

        Raises:
            UnsupportedError: it is none of ours.
        """
        function = self.settings.get(name, default)
        if not isinstance(function, str) or function not in ACTIVATIONS:
            raise UnsupportedError(f"{name} is {function!r}")
        return ACTIVATIONS[function]

    def gate(self, name: str, default: str) -> Activation:
        """Gated activation whose gate is the function that a setting names.

        Raises:
            UnsupportedError: it is none of ours.
        """
        function = self.function(name, default)
        if function not in GATES:
            raise UnsupportedError(f"{name} is {function!r} and gates")
        return GATES[function]

    def options(self, table: SettingsTable) -> dict[str, Any]:
        """Options of `TransformerConfig` by the table of a family.

        Raises:
            CheckpointError: a value is of another type than the table's default, or out of its range.
            UnsupportedError: an activation function is none of ours.
        """
        settings = self.settings
        kinds: dict[type, Callable[[str, Any], Any]]
        kinds = {bool: settings.switch, int: settings.count, float: settings.number, str: self.function}
        return {option: kinds[type(default)](name, default) for option, (name, default) in table.items()}

    def tied(self, default: bool) -> bool:
        """True if the output's matrix is the embedding's. default: of the family."""
        return self.settings.switch("tie_word_embeddings", default)

    def rotary(self, longest: int, head_width: int, share: float | None = None) -> dict[str, Any]:
        """Options of `TransformerConfig` for rotary positions (Su et al., 2021), and the longest text that they allow.

        longest: tokens that the model was trained on. head_width: channels of a head. share: default of the share of
        them that is rotated; None: all, and other shares are refused.

        Raises:
            UnsupportedError: wavelengths are scaled in a way that ours cannot be.
            CheckpointError: the parameters of the scaling are no numbers, or contradict each other.
        """
        get = self.settings.get
        old = get("rope_scaling")
        parameters = old or get("rope_parameters") or {}
        if not isinstance(parameters, dict):
            raise UnsupportedError(f"rope_parameters is {parameters!r}")
        rope = Settings(parameters)
        kind = parameters.get("rope_type", parameters.get("type", "default"))
        if not isinstance(kind, str) or kind not in SCALED or not parameters.keys() <= ROTARY | SCALED[kind]:
            raise UnsupportedError(f"rotary positions are {parameters!r}")
        options: dict[str, Any] = {"position": "rotary"}
        options["position_base"] = rope.number("rope_theta", self.settings.number("rope_theta", 10_000.0))
        turned = rope.number("partial_rotary_factor", self.settings.number("partial_rotary_factor", share or 1.0))
        if share is None and turned != 1:
            raise UnsupportedError(f"partial_rotary_factor is {turned}")
        channels = int(head_width * turned)
        options["rotary_channels"] = None if channels == head_width else channels
        if kind == "default":
            return options
        options["rotary_stretch"] = rope.number("factor", 1.0)
        options["max_length"] = longest_text(longest, parameters)
        if kind == "llama3":
            trained = rope.number("original_max_position_embeddings", float(longest))
            slow, fast = rope.number("low_freq_factor", 1.0), rope.number("high_freq_factor", 4.0)
            if not 0 < slow < fast:
                raise CheckpointError(
                    "config.json: low_freq_factor ({slow}) must be between 0 and {fast}", slow=slow, fast=fast
                )
            options |= {"rotary_short": trained / fast, "rotary_long": trained / slow}
        return options

    def require_plausible(self, config: TransformerConfig) -> None:
        """Refuse a config with more layers than tensors.

        Raises:
            CheckpointError: it has more.
        """
        layers = config.n_encoder_layers + config.n_decoder_layers
        if layers > len(self.names):
            tensors = len(self.names)
            raise CheckpointError(
                "config.json says {layers:,} layers, more than the weights have tensors ({tensors:,})",
                layers=layers,
                tensors=tensors,
            )

    def require_names(self, plan: WeightMap) -> None:
        """Require that every tensor of the file is used by the plan, and that every source of the plan is in the file.

        Raises:
            UnsupportedError: a tensor is of a part that our network does not have.
            CheckpointError: a tensor is missing.
        """
        needed = {name for weight in plan.values() for name in weight.names}
        more = self.names - needed - {name for weight in plan.values() for name in weight.copies}
        if strange := sorted(name for name in more if not re.fullmatch(self.family.unused, name)):
            raise UnsupportedError(f"there is a tensor {strange[0]!r}")
        if missing := sorted(needed - self.names):
            raise CheckpointError(
                "the weights lack {missing} ({count} such), which config.json asks for",
                missing=missing[0],
                count=len(missing),
            )


def modern(name: str) -> str:
    """Name of a tensor with today's names of norms in the place of TensorFlow's."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


# config.json of Hugging Face's checkpoints: every value in it accounted for.

MOST = 10_000_000  # of anything that is counted
# Settings that change nothing in a forward pass: names, sizes of files, training, generation.
HARMLESS = frozenset(
    "architectures model_type transformers_version torch_dtype dtype _name_or_path name_or_path _num_labels "
    "num_labels id2label label2id task_specific_params finetuning_task problem_type use_cache return_dict "
    "output_attentions output_hidden_states output_past torchscript is_encoder_decoder initializer_range init_std "
    "initializer_factor bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
    "decoder_start_token_id force_bos_token_to_be_generated save_step forced_bos_token_id forced_eos_token_id "
    "bad_words_ids tokenizer_class prefix max_length min_length num_beams num_beam_groups num_return_sequences "
    "do_sample early_stopping length_penalty repetition_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "diversity_penalty temperature top_k top_p typical_p exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens remove_invalid_values output_scores return_dict_in_generate gradient_checkpointing "
    "attn_implementation _attn_implementation _attn_implementation_autoset attn_implementation_internal "
    "tie_encoder_decoder use_bfloat16 chunk_size_feed_forward experts_implementation classifier_dropout "
    "classif_dropout summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout "
    "sinusoidal_pos_embds seq_classif_dropout qa_dropout directionality pooler_fc_size pooler_num_attention_heads "
    "pooler_num_fc_layers pooler_size_per_head pooler_type pretraining_tp n_ctx n_special predict_special_tokens "
    "vocab_size type_vocab_size num_hidden_layers encoder_layerdrop decoder_layerdrop layerdrop unsloth_version "
    "unsloth_fixed".split()
)
OFF: tuple[Any, ...] = (None, False, [], {})  # the values of options that are not used


class UnsupportedError(Exception):
    """A setting or tensor that our families do not have, or whose effect is not known: the model is not rebuilt."""


class Settings:
    """Values of a config.json, and the names of those that were read (read_names).

    names: other names, old or new, by name of a setting: attribute_map of Hugging Face's configs.
    """

    def __init__(self, values: Mapping[str, Any], names: Mapping[str, str] | None = None) -> None:
        self.values, self.names = values, names or {}
        self.read_names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Value of a setting, the default where it is missing.

        Raises:
            UnsupportedError: it is there under two names with two values.
        """
        other = self.names.get(name, name)
        self.read_names |= {name, other}
        value = self.values.get(name, self.values.get(other, default))
        if other in self.values and other != name and self.values[other] != value:
            raise UnsupportedError(f"{name} is {value!r} and {other} {self.values[other]!r}")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """Setting that is a whole number from 1 to `MOST`.

        Raises:
            CheckpointError: the setting is something else, or missing without a default.
        """
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise CheckpointError(
                "config.json: {name} ({value}) must be a whole number from 1 to {most:,}",
                name=name,
                value=str(value)[:40],
                most=MOST,
            )
        return value

    def number(self, name: str, default: float) -> float:
        """Setting that is a number; the default where it is null.

        Raises:
            CheckpointError: the setting is something else.
        """
        value = self.get(name, default)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CheckpointError("config.json: {name} ({value}) must be a number", name=name, value=str(value)[:40])
        return float(value)

    def switch(self, name: str, default: bool) -> bool:
        """Setting that is true or false; the default where it is null.

        Raises:
            CheckpointError: the setting is something else.
        """
        value = self.get(name, default)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise CheckpointError(
                "config.json: {name} ({value}) must be true or false", name=name, value=str(value)[:40]
            )
        return value

    def require(self, name: str, *allowed: Any) -> None:
        """Require one of the values `allowed`, of which the first is the default.

        Raises:
            UnsupportedError: the value is another one.
        """
        if (value := self.get(name, allowed[0])) not in allowed:
            raise UnsupportedError(f"{name} is {value!r}")

    def require_all_known(self, *known: str) -> None:
        """Refuse settings that were not read, except harmless ones, those in `known`, and options that are off.

        Raises:
            UnsupportedError: there is one, which may change what is computed.
        """
        for name, value in self.values.items():
            if name not in self.read_names and name not in HARMLESS and name not in known and value not in OFF:
                raise UnsupportedError(f"{name} is {value!r}")
