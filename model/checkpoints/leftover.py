"""Tensors of a file that a model has no use for: which change nothing, which are parts beside it, and which it would
need to compute what it was trained to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from model.checkpoints.quantized import OF_INPUTS
from model.checkpoints.tensors import BUFFER, TABLE, is_of_training
from model.runtime.errors import CheckpointError

# Masks, indices and tables that are computed anew; notes of programs.
COMPUTED = re.compile(
    r"(attn|attention|self|self_attn|self_attention)\.(masked_bias|mask|causal_mask)$|original_inv_freq|_cached$|"
    r"(^|\.)rope\.freqs$|embed_positions\.(weights|_float_tensor)$|(^|\.)(version|_extra_state|causal_mask)$|"
    r"_position_index$"
)
POOLER = re.compile(r"(^|\.)pooler\.")  # of a text's first token, for the head of a task
# Heads that predict no words, beside the stack that they read.
TASK_HEADS = re.compile(
    r"^(\w+\.)?(cls\.seq_relationship|seq_relationship|sop_classifier|classifier|pre_classifier|classification_head|"
    r"score|qa_outputs|qa_classifier|multiple_choice_head|sequence_summary|summary|discriminator_predictions|"
    r"mask_predictions|contact_head|v_head|value_head|reward_head|regression_head|logit_scale)(\.|$)"
)
# Heads over words, parts for pictures and sounds, and what the parts of a computation on texts are called.
WORD_HEADS = re.compile(r"lm_head|embed_out|output_projection|predictions|vocab_|generator")
OTHER_SENSES = re.compile(r"vis|image|img|video|audio|speech|sound|mm_|multi_modal")
COMPUTING = re.compile(
    r"position|relative|(^|_)(pos|rel)(_|$)|norm|embed|scale|alibi|(attn|attention)_bias|rotary|codebook|router|gate|expert|adapter|lora"
)


class Leftover(NamedTuple):
    """Names of tensors that a model has no use for.

    harmless: they change nothing that is shown. beside: of parts beside the model, as another model in the same file, a
    head over words or a part that sees pictures.
    """

    harmless: list[str]
    beside: list[str]


def leftover(names: Iterable[str], modules: Collection[str], trunk: str, name: str, bare: bool = False) -> Leftover:
    """Tensors of a file that the model with these modules has no use for.

    names: of those tensors. modules: paths of the model's modules. trunk: path of the module that is the model without
    its head, "" for the model itself. name: of the folder. bare: these names begin within
    the trunk.

    Raises:
        CheckpointError: one lies within a part of the model, or is called as a part of a computation.
    """
    rest = Leftover([], [])
    for each in sorted(names):
        if is_harmless(each):
            rest.harmless.append(each)
        elif within := _part(each, modules, trunk, bare):
            raise CheckpointError(
                "{file} holds {each}, which belongs to the computation of {within} and which the code that runs "
                "this model does not use: it would compute something else; its tensors can be looked at under "
                "Checkpoints → Read",
                file=name,
                each=each,
                within=within,
            )
        else:
            rest.beside.append(each)
    return rest


def is_harmless(name: str) -> bool:
    """True if a tensor of this name changes nothing that a model computes of its texts."""
    known = (BUFFER, TABLE, COMPUTED, POOLER, TASK_HEADS, OF_INPUTS)
    return is_of_training(name) or any(pattern.search(name) for pattern in known)


def _part(name: str, modules: Collection[str], trunk: str, bare: bool) -> str:
    """The part of the model that a tensor of this name lies within, or is by its own name; "": it lies beside."""
    path = f"{trunk}.{name}" if bare and trunk else name
    parents = [path[: dot.start()] for dot in re.finditer(r"\.", path)]
    if inside := [parent for parent in parents if parent in modules and parent not in ("", trunk)]:
        return inside[-1]
    if trunk and not path.startswith(f"{trunk}."):
        return ""
    first = path.removeprefix(f"{trunk}.").partition(".")[0]
    beside = WORD_HEADS.search(first) or OTHER_SENSES.search(first)
    return first if COMPUTING.search(first) and not beside else ""
