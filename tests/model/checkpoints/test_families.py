"""The registry of families: what it says of each is what happens, and the page of the documentation is of it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import transformers
from transformers.models.auto import modeling_auto

from model.checkpoints.bridge.load import open_network
from model.checkpoints.bridge.network import BridgedNetwork
from model.checkpoints.convert.from_huggingface import FAMILIES
from model.checkpoints.families import COMPARED, OPENING, REFUSED, TITLES, USUALLY_REFUSED, formats, page
from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge import models
from tests.model.checkpoints.bridge.models import CPU, VOCABULARY, settings_in, traced, write_tokenizer
from tests.model.checkpoints.convert.twins import KINDS

# By the names that families give to a size; each takes those that it has.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("intermediate_size", "d_inner", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 48),
    **dict.fromkeys(("dim_ff", "hidden_dim", "ffn_hidden_size"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "q_lora_rank", "kv_lora_rank", "attention_window"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 64),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "rotary_dim"), 4),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 4),
    **dict.fromkeys(("embedding_size", "moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    "vocab_size": VOCABULARY,
    "decoder_start_token_id": 0,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
    "cls_token_id": 0,
    "n_group": 1,
    "topk_group": 1,
    "n_inner": None,
}
CLASSES = {
    family: names[0] if isinstance(names, tuple) else names
    for table in ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM")
    for family, names in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").items()
}
# Where the sizes above make no model.
OF_THEIR_OWN: dict[str, dict[str, Any]] = {
    "glm4_moe_lite": {"num_key_value_heads": 4},  # latent attention has a key for each head
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 8},
    "minicpm3": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16},  # a quarter of it is rotated, for two axes in pairs
}


def small_model(family: str, folder: Path) -> Path:
    """A folder of a small model with random weights, and a tokenizer."""
    kind = getattr(transformers, CLASSES[family])
    usual = kind.config_class()
    sizes = {name: size for name, size in SIZES.items() if hasattr(usual, name)} | OF_THEIR_OWN.get(family, {})
    for name in OF_THEIR_OWN.get(family, {}):
        sizes.pop({"attention_types": "head_dim"}.get(name, ""), None)
    kind(kind.config_class(**sizes)).eval().save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def test_a_family_is_listed_once():
    listed = [*FAMILIES, *COMPARED, *OPENING, *REFUSED, *USUALLY_REFUSED]
    assert len(listed) == len({*listed})


def test_what_is_said_to_be_compared_is_compared():
    """Of both the tests compare a model of each family with transformers' own."""
    tested = {transformers_type(kind) for kind, _options in (models.FAMILIES | models.PACKED | models.EXPERTS).values()}
    assert {*COMPARED} <= tested
    assert {*FAMILIES} <= {transformers_type(kind) for kind, _options in KINDS.values()} | {"camembert", "xlm-roberta"}


def transformers_type(kind: str) -> str:
    return str(getattr(transformers, kind).config_class.model_type)


@pytest.mark.parametrize("family", REFUSED)
def test_what_is_refused_is_so_before_its_weights_are_read(family, tmp_path):
    (tmp_path / "config.json").write_text(f'{{"model_type": "{family}"}}')
    with pytest.raises(CheckpointError, match=rf"is a model of the family {family}, which is not opened: "):
        open_checkpoint(tmp_path)


def test_the_documented_table_of_formats_is_that_of_the_registry():
    assert {*FAMILIES} <= {*TITLES}
    assert formats() in Path("docs/open_a_model.md").read_text(encoding="utf-8"), (
        "python -m model.checkpoints.families formats"
    )


def test_the_page_of_the_documentation_is_that_of_the_registry():
    written = Path("docs/families.md").read_text(encoding="utf-8")
    assert written == page() + "\n", "python -m model.checkpoints.families > docs/families.md"


@pytest.mark.slow  # a hundred models
@pytest.mark.parametrize("family", OPENING)
def test_what_is_said_to_open_opens(family):
    with TemporaryDirectory() as folder:
        model = open_checkpoint(small_model(family, Path(folder)))
        trace = model.trace("the cat sees a dog .")
        assert trace["output.logits"].isfinite().all()
        assert not isinstance(model.network, BridgedNetwork) or traced(model.network)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["mamba", "xlm", "fnet", "rwkv", "ibert", "yoso", "mra"])
def test_what_is_refused_by_its_name_would_be_refused_by_what_it_does(family, tmp_path):
    folder = small_model(family, tmp_path)
    with pytest.raises(CheckpointError):
        open_network(folder, settings_in(folder), CPU, models.torch.float32)
