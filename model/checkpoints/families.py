"""Families of published models, by their model_type: which open, how that is known, and why others do not.

As a page of the documentation: `python -m model.checkpoints.families > docs/families.md`; the table of formats of
docs/open_a_model.md: `python -m model.checkpoints.families formats`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from model.checkpoints.convert.from_huggingface import FAMILIES
from model.runtime.errors import CheckpointError

# Run by transformers, and compared with it: attentions, states and logits of a small model with random weights.
COMPARED = """
    gemma2 gemma3_text gemma4_text openai-gpt gptj phi phi3 gpt_oss doge electra albert mobilebert pegasus
    m2m_100 switch_transformers nllb-moe encoder-decoder falcon bloom mpt codegen gpt_bigcode olmo2 modernbert
    deberta-v2 deepseek_v2 mixtral qwen3_moe qwen2_moe deepseek_v3 olmoe phimoe granitemoeshared dbrx
    llama4_text
""".split()
# Run by transformers: a small model with random weights opens, what is recognised of it adds up, and its logits are its
# own.
OPENING = """
    afmoe apertus arcee aria_text beam big_bird bigbird_pegasus biogpt bitnet blenderbot blenderbot-small cohere
    cohere2 cohere2_moe convbert ctrl cwm data2vec-text deberta ernie ernie4_5 ernie4_5_moe esm eurobert exaone4
    exaone_moe falcon_h1 flex_olmo flint glm glm4 glm4_moe glm4_moe_lite gpt-sw3 gpt_neo gpt_neox_japanese granite
    granite_swa granitemoe granitemoe_swa gte helium hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3 hyperclovax
    inkling2_text inkling_text internlm3 iquestcoder jais2 jetmoe jina_embeddings_v3 kolibri1 laguna layoutlm lfm2
    luke megatron-bert mellum mimo_v2_flash minicpm3 minimax_m2 minimax_m3_vl_text ministral ministral3
    modernbert-decoder moshi mpnet mvp nanochat nemotron neomme nomic_bert nystromformer olmo olmo3 persimmon
    plbart rembert roberta-prelayernorm roc_bert roformer seamless_m4t seamless_m4t_v2 seed_oss smollm3 solar_open
    stablelm starcoder2 t5gemma tapas trocr ultrabert umt5 vaultgemma whisper xglm xlm-roberta-xl youtu zaya
""".split()

RECURRENT = (
    "some or all of its layers are recurrent or convolutional, and only models whose layers all attend are opened"
)
UNSEEN = "its attention is code of its own that gives no weight for each query and key"
STREAM = "it gives attention weights, and its layers do not pass on states (text, token, channel) that each adds to"
ARGUMENTS = "its stacks ask for arguments of their own, so that they cannot be run one by one"
TWICE = "it attends twice in one step, and what it takes from both are weights of neither"
SEVERAL = "its layers pass on several streams of states side by side"
HEAD = "its head reads more than the states that its stack ends in"
BOTH = "each attention of its decoder is over its own tokens and the source's at once"
FOURIER = "it mixes tokens by a Fourier transform, and does not attend"
# Whatever their config.json says: they are not even loaded.
REFUSED: dict[str, str] = {
    **dict.fromkeys("mamba mamba2 falcon_mamba xlstm rwkv recurrent_gemma".split(), RECURRENT),
    **dict.fromkeys("longformer led mra yoso squeezebert reformer".split(), UNSEEN),
    **dict.fromkeys("xlnet xlm flaubert funnel ibert".split(), STREAM),
    "fsmt": ARGUMENTS,
    "diffllama": TWICE,
    "fnet": FOURIER,
}
# As they are usually made: what the loaded model does decides.
USUALLY_REFUSED: dict[str, str] = {
    **dict.fromkeys(
        "jamba bamba zamba zamba2 nemotron_h olmo_hybrid minimax granitemoehybrid kimi_linear bailing_hybrid "
        "qwen3_next qwen3_5_text qwen3_5_moe_text lfm3".split(),
        RECURRENT,
    ),
    **dict.fromkeys("deepseek_v4 longt5 pegasus_x".split(), UNSEEN),
    "t5gemma2": BOTH,
    "hy_v4": SEVERAL,
    "prophetnet": HEAD,
}


def require_openable(family: str, name: str) -> None:
    """Refuse a family that is known not to open. name: of the folder.

    Raises:
        CheckpointError: it is one.
    """
    if family in REFUSED:
        raise CheckpointError(
            "{file} is a model of the family {family}, which is not opened: {refused}; its tensors can be looked "
            "at under Checkpoints → Read",
            file=name,
            family=family,
            refused=REFUSED[family],
        )


def page() -> str:
    """Page of all families in Markdown: those that are computed with, and those that are refused."""
    reasons: dict[str, list[str]] = {}
    for family, reason in (REFUSED | USUALLY_REFUSED).items():
        reasons.setdefault(reason, []).append(family)
    return "\n\n".join(
        [
            "# Families of published models",
            "By the `model_type` in config.json, as transformers calls them. Written by `python -m "
            "model.checkpoints.families`, from what the code itself uses.",
            "## Put together as our own network",
            "Every page, what-if, other positions, training and export work. Verified: attentions, hidden states and "
            "logits equal those of transformers to 1e-5, in float32, for small models with random weights.",
            _listed(FAMILIES),
            "## Run by transformers, looked into from outside, compared",
            "Verified in the same way: attentions, states and logits. A page says in a sentence what such a model does "
            "not show.",
            _listed(COMPARED),
            "## Run by transformers, seen to open",
            "A small model with random weights opens and its logits are its own; weights of trained ones were not "
            "compared.",
            _listed(OPENING),
            "## Not opened",
            "Their tensors can be read, measured and compared under Checkpoints.",
            "| families | because |\n| --- | --- |\n"
            + "\n".join(f"| {_listed(families)} | {reason} |" for reason, families in reasons.items()),
            "Any other causal, masked or sequence-to-sequence family that transformers knows is tried in the same way: "
            "it opens where its stacks run one by one and every layer attends. Of a model that sees pictures or hears "
            "sounds too, the part that writes is opened, for texts alone.",
        ]
    )


TITLES = {
    "gpt2": "GPT-2",
    "gpt_neox": "GPT-NeoX",
    "opt": "OPT",
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen 2",
    "qwen3": "Qwen 3",
    "gemma": "Gemma",
    "gemma2": "Gemma 2",
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "distilbert": "DistilBERT",
    "bart": "BART",
    "mbart": "mBART",
    "marian": "Marian",
    "t5": "T5",
    "mt5": "mT5",
}


def formats() -> str:
    """Table of what can be opened, and how it is shown, in Markdown."""
    from model.checkpoints.adapters import MERGED
    from model.checkpoints.convert.from_gguf import ARCHITECTURES
    from model.checkpoints.convert.layouts import KNOWN, SUFFIXES
    from model.checkpoints.formats.weight_files import READ

    titles = ", ".join(TITLES[family] for family in FAMILIES)
    rebuilt = ", ".join(TITLES[name] for name in ARCHITECTURES if name in FAMILIES)
    bridged = ", ".join(TITLES[name] for name in ARCHITECTURES if name not in FAMILIES)
    rows = [
        ("our folders", "as they are"),
        (
            f"Hugging Face folders of {titles}",
            "put together as our own network with their weights: every page, what-if, other positions, training and "
            "export work; attentions, hidden states and logits equal Hugging Face's to 1e-5. FP8 weights are "
            "multiplied by their scales; codes of other quantizations are refused by name",
        ),
        (
            f"other causal, masked and seq2seq models that `transformers` knows: {len(COMPARED)} families are compared "
            f"with it, {len(OPENING)} more were seen to open ([which, and which do not](families.md))",
            "`transformers` runs them and we look in from outside, into a mixture of experts too: its router, the load "
            "of each expert, the units of one; a page says in a sentence what such a model does not show",
        ),
        (
            f"adapters of PEFT: {', '.join(MERGED.values())} (rsLoRA and DoRA too), with modules, biases or tokens "
            "trained beside them",
            "merged into their base, with peft's logits to 1e-5, where that is in the list, at the path that they name "
            "or in Hugging Face's cache; else the base is named, and can be chosen. Read shows what an adapter "
            "changes: ‖ΔW‖/‖W‖ by layer, effective rank, singular values; Compare takes base and merged",
        ),
        (
            f"`.gguf` files of {rebuilt} and {bridged}, with their tokenizers",
            f"dequantized and put together as ours; {bridged}, and positions stretched by YaRN, are run by "
            "`transformers`. In memory they are as large as the weights that they were made from. Beside that folder, "
            "Compare shows each tensor's quantization error",
        ),
        (
            f"{_coded(SUFFIXES)} of {KNOWN}, and nanoGPT's `meta.pkl`",
            "recognised by their tensors and put together as ours (nanochat is run by `transformers`); what no tensor "
            "tells is read from the config that these programs write beside them, else said as assumed",
        ),
        (f"any other {_coded(READ)}", "their tensors: statistics, histograms, singular values, health"),
    ]
    return "\n".join(["| what | how it is shown |", "| --- | --- |", *(f"| {what} | {how} |" for what, how in rows)])


def _coded(suffixes: Iterable[str]) -> str:
    return ", ".join(f"`{suffix}`" for suffix in suffixes)


def _listed(families: Iterable[str]) -> str:
    return ", ".join(f"`{family}`" for family in sorted(families))


if __name__ == "__main__":
    print(formats() if sys.argv[1:] == ["formats"] else page())
