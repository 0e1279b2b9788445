"""Tiny random models of transformers in folders, and the same opened as bridged ones."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers

from model.capture.trace import Trace, record
from model.checkpoints.bridge.load import open_network
from model.checkpoints.bridge.network import BridgedNetwork

CPU = torch.device("cpu")
WORDS = "the cat sees a dog . she bought red car yesterday i am teacher".split()
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
VOCABULARY = 49
ONE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
ONE |= {"max_position_embeddings": 64, "vocab_size": VOCABULARY}
GROUPED = {**ONE, "num_key_value_heads": 2, "head_dim": 16}
TWO = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
TWO |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
TWO |= {"max_position_embeddings": 64, "vocab_size": VOCABULARY}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": VOCABULARY}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
T5 |= {"decoder_start_token_id": 0}
# Further ones, only for how they keep the matrices of their attention.
PACKED: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neox": ("GPTNeoXForCausalLM", ONE),
    "falcon": ("FalconForCausalLM", {**ONE, "multi_query": False}),
    "falcon-7b": ("FalconForCausalLM", {**ONE, "multi_query": True}),
    "falcon-40b": ("FalconForCausalLM", {**ONE, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "bloom": ("BloomForCausalLM", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY}),
    "mpt": (
        "MptForCausalLM",
        {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "vocab_size": VOCABULARY},
    ),
    "codegen": ("CodeGenForCausalLM", {**GPT, "rotary_dim": 4, "n_ctx": 64}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GPT),
    "starcoder-heads": ("GPTBigCodeForCausalLM", {**GPT, "multi_query": False}),
    "olmo2": ("Olmo2ForCausalLM", {**ONE, "pad_token_id": 0, "eos_token_id": 3}),
    "modernbert": (
        "ModernBertForMaskedLM",
        {**ONE, **{f"{role}_token_id": at for at, role in enumerate(("pad", "bos", "eos", "cls", "sep"))}},
    ),
    "deberta-v2": ("DebertaV2ForMaskedLM", ONE),
    "deepseek_v2": (
        "DeepseekV2ForCausalLM",
        {**ONE, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
        | {"n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 2}
        | {"num_key_value_heads": 4},
    ),
}
WRITES = {"is_decoder": True, "add_cross_attention": True}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", GPT),
    "llama": ("LlamaForCausalLM", {**ONE, "num_key_value_heads": 2}),
    "gemma2": ("Gemma2ForCausalLM", {**GROUPED, "sliding_window": 4}),
    "gemma3": ("Gemma3ForCausalLM", {**GROUPED, "sliding_window": 4}),
    "gemma4": ("Gemma4ForCausalLM", {**GROUPED, "global_head_dim": 24, "sliding_window": 4}),
    "opt": ("OPTForCausalLM", {**ONE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "openai-gpt": ("OpenAIGPTLMHeadModel", {**GPT, "afn": "gelu"}),
    "gptj": ("GPTJForCausalLM", {**GPT, "rotary_dim": 4}),
    "phi": ("PhiForCausalLM", ONE),
    "phi3": ("Phi3ForCausalLM", {**ONE, "pad_token_id": 0}),
    "gpt_oss": ("GptOssForCausalLM", {**GROUPED, "num_local_experts": 4}),
    "doge": ("DogeForCausalLM", ONE),  # its config counts experts that it does not have
    "bert": ("BertForMaskedLM", ONE),
    "electra": ("ElectraForMaskedLM", {**ONE, "embedding_size": 16}),
    "albert": ("AlbertForMaskedLM", {**ONE, "embedding_size": 16}),
    "mobilebert": (  # its blocks work on a narrower stream
        "MobileBertForMaskedLM",
        {**ONE, "hidden_size": 64, "embedding_size": 32, "intra_bottleneck_size": 32},
    ),
    "bare": ("BertModel", ONE),
    "bart": ("BartForConditionalGeneration", TWO),
    "pegasus": ("PegasusForConditionalGeneration", TWO),
    "m2m_100": ("M2M100ForConditionalGeneration", TWO),
    "mt5": ("MT5ForConditionalGeneration", T5),
    "switch": (
        "SwitchTransformersForConditionalGeneration",
        {**T5, "num_experts": 2, "num_decoder_layers": 6, "num_sparse_decoder_layers": 6},
    ),
    "nllb_moe": (  # its router reads the masks too
        "NllbMoeForConditionalGeneration",
        {**TWO, "num_experts": 2, "encoder_sparse_step": 1, "decoder_sparse_step": 1},
    ),
    "t5": ("T5ForConditionalGeneration", T5),
    "bert2bert": (  # stacks of two widths, with other numbers of heads
        "EncoderDecoderModel",
        {
            "encoder": {**ONE, "model_type": "bert", "num_attention_heads": 2, "vocab_size": 40},
            "decoder": {
                **ONE,
                "model_type": "bert",
                "hidden_size": 48,
                "is_decoder": True,
                "add_cross_attention": True,
            },
            "decoder_start_token_id": 2,
            "pad_token_id": 0,
        },
    ),
}
# Further ones, only for their experts.
MIXED = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 12, "v_head_dim": 8}
EXPERTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 4, "sliding_window": 5}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**GROUPED, **MIXED, "num_experts": 4, "mlp_only_layers": [0]}),
    "qwen2_moe": (
        "Qwen2MoeForCausalLM",
        {**ONE, **MIXED, "num_experts": 4, "shared_expert_intermediate_size": 40, "num_key_value_heads": 2},
    ),
    "deepseek_v3": (
        "DeepseekV3ForCausalLM",
        {**ONE, **MIXED, **LATENT, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
        | {"n_group": 2, "topk_group": 1, "num_key_value_heads": 4},
    ),
    "olmoe": ("OlmoeForCausalLM", {**ONE, **MIXED, "num_key_value_heads": 2, "num_experts": 4, "eos_token_id": 3}),
    "phimoe": ("PhimoeForCausalLM", {**ONE, "num_key_value_heads": 2, "num_local_experts": 4}),
    "granitemoeshared": (  # adds experts and shared ones without a module that does
        "GraniteMoeSharedForCausalLM",
        {**ONE, **MIXED, "num_key_value_heads": 2, "num_local_experts": 4, "shared_intermediate_size": 40},
    ),
    "dbrx": (
        "DbrxForCausalLM",
        {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "vocab_size": VOCABULARY, "pad_token_id": 0}
        | {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10_000.0}}
        | {"ffn_config": {"hidden_size": 32, "ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}},
    ),
    "llama4": (  # its gates multiply what the experts read
        "Llama4ForCausalLM",
        {**ONE, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size_mlp": 40, "num_local_experts": 4}
        | {"pad_token_id": 0, "interleave_moe_layer_step": 2},
    ),
}


def random_model(kind: str, **options: Any) -> Any:
    """A model of this class of transformers, with its own eager attention."""
    torch.manual_seed(0)
    made = getattr(transformers, kind)
    return made(made.config_class(attn_implementation="eager", **options)).eval()


@cache
def theirs(name: str) -> tuple[Any, Path]:
    """The model by its own eager code, and the folder that it was saved in."""
    kind, options = (FAMILIES | PACKED | EXPERTS)[name]
    model = random_model(kind, **options)
    with torch.no_grad():
        for parameter in model.parameters():  # so that no norm is the identity, and no bias 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    folder = Path(mkdtemp()) / name
    model.save_pretrained(folder)
    return model, folder


@cache
def bridged(name: str) -> BridgedNetwork:
    return opened(theirs(name)[1])


def opened(folder: Path, device_map: Any = None, dtype: torch.dtype = torch.float32, **changes: Any) -> BridgedNetwork:
    """The network of a folder, in whose config.json something is changed before."""
    settings = settings_in(folder) | changes
    if changes:
        (folder / "config.json").write_text(json.dumps(settings))
    return open_network(folder, settings, CPU, dtype, device_map=device_map)


def settings_in(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return settings


def traced(network: BridgedNetwork, seed: int = 1, maps: bool = False) -> Trace:
    with torch.inference_mode(), record(network, maps) as trace:
        network(*(each.to(network.device) for each in inputs(network, seed)))
    return trace


def inputs(network: BridgedNetwork, seed: int = 1) -> tuple[torch.Tensor, ...]:
    """A source, and a target where the model has one."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (9, 6) if network.kind == "encoder-decoder" else (9,)
    return tuple(torch.randint(5, VOCABULARY, (1, length), generator=generator) for length in lengths)


def write_tokenizer(folder: Path) -> None:
    """Whole words, so that any text can be read."""
    names = [*SPECIAL, *WORDS, *(f"w{number}" for number in range(VOCABULARY - len(SPECIAL) - len(WORDS)))]
    inner = tokenizers.Tokenizer(models.WordLevel({name: row for row, name in enumerate(names)}, unk_token="<unk>"))
    inner.normalizer, inner.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    inner.add_special_tokens(SPECIAL)
    inner.save(str(folder / "tokenizer.json"))
    roles = zip(("pad", "unk", "bos", "eos", "mask"), SPECIAL, strict=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({f"{role}_token": name for role, name in roles}))
