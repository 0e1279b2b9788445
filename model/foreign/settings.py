"""config.json of Hugging Face's checkpoints: every value in it accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.checkpoints import CONFIG
from model.runtime.errors import CheckpointError

MOST = 10_000_000  # of anything that is counted
# What changes nothing in a forward pass: names, sizes of files, training, generation.
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


class UnknownError(Exception):
    """Something that these families do not have, or whose effect is not known: no model rather than nearly the same."""


class Settings:
    """Values of a config.json by name, each of its kind, and a note of which were asked for.

    names: other names of a setting, old or new, in a family: attribute_map of Hugging Face's configs.
    """

    def __init__(self, values: Mapping[str, Any], names: Mapping[str, str] | None = None) -> None:
        self.values, self.names = values, names or {}
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The value, the default where it is missing.

        Raises:
            UnknownError: it has two names here, and differs.
        """
        other = self.names.get(name, name)
        self.asked |= {name, other}
        value = self.values.get(name, self.values.get(other, default))
        if other in self.values and other != name and self.values[other] != value:
            raise UnknownError(f"{name} is {value!r} and {other} {self.values[other]!r}")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 to `MOST`.

        Raises:
            CheckpointError: it is something else, or missing without a default.
        """
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
            raise CheckpointError(f"{CONFIG}: {name} ({str(value)[:40]}) must be a whole number from 1 to {MOST:,}")
        return value

    def number(self, name: str, default: float) -> float:
        """Any number; the default where it is null.

        Raises:
            CheckpointError: it is something else.
        """
        value = self.get(name, default)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CheckpointError(f"{CONFIG}: {name} ({str(value)[:40]}) must be a number")
        return float(value)

    def switch(self, name: str, default: bool) -> bool:
        """True or false; the default where it is null.

        Raises:
            CheckpointError: it is something else.
        """
        value = self.get(name, default)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise CheckpointError(f"{CONFIG}: {name} ({str(value)[:40]}) must be true or false")
        return value

    def require(self, name: str, *allowed: Any) -> None:
        """
        Raises:
            UnknownError: the value is there and none of these.
        """
        if (value := self.get(name, allowed[0])) not in allowed:
            raise UnknownError(f"{name} is {value!r}")

    def require_all_known(self, *known: str) -> None:
        """
        Raises:
            UnknownError: a setting was not asked for, changes perhaps what is computed, and is not off.
        """
        for name, value in self.values.items():
            if name not in self.asked and name not in HARMLESS and name not in known and value not in OFF:
                raise UnknownError(f"{name} is {value!r}")
