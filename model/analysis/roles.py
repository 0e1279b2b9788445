"""What a tensor is in a Transformer, from its name alone: ours, Hugging Face's families, nanoGPT's, torch.nn's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from model.analysis.weights import first_of_places
from model.checkpoints.tensors import TensorInfo

Role = Literal["embedding", "norm", "hidden", "output", "words"]

# The last parts of the names, as ours, GPT-2 and nanoGPT, Llama and its kin, BERT, DistilBERT, BART and Marian, T5,
# GPT-NeoX, torch.nn.Transformer and the Annotated Transformer have them.
PATTERNS: dict[Role, str] = {
    "embedding": r"(embedding\.tokens|wte|embed_tokens|word_embeddings|shared|embed_in|tok_emb(eddings)?|lut)\.weight",
    "norm": r"(\w*norm\w*|\w*LayerNorm|ln_?\w+)\.(weight|gamma|a_2|scale)",
    "hidden": r"(feed_forward\.(hidden|linear|w_1)|mlp\.(c_fc|gate_proj|up_proj|dense_h_to_4h)|intermediate\.dense|fc1"
    r"|ffn\.lin1|DenseReluDense\.wi(_[01])?|linear1)\.weight",
    "output": r"(feed_forward\.(output|w_2)|mlp\.(c_proj|down_proj|dense_4h_to_h)|(?<!attention\.)output\.dense|fc2"
    r"|ffn\.lin2|DenseReluDense\.wo|linear2)\.weight",
    # The matrix over the vocabulary, of ours, of most families, GPT-NeoX, BERT, RoBERTa, DistilBERT, minGPT and the
    # Annotated Transformer.
    "words": r"(output\.logits|lm_head|embed_out|predictions\.decoder|lm_head\.decoder|vocab_projector|^head"
    r"|generator\.proj)\.weight",
}
# Written (in, out) by GPT-2's Conv1D and (out, in) by nanoGPT's Linear: the longer side is that of the units.
EITHER_WAY = re.compile(r"mlp\.c_(fc|proj)\.weight$")


def role(name: str) -> Role | None:
    """What the tensor of this name is, None where the name does not say."""
    for each, pattern in PATTERNS.items():
        if re.search(rf"(^|\.){pattern}$", name):
            return each
    return None


def telling(infos: Sequence[TensorInfo]) -> list[TensorInfo]:
    """Each place of the file once, by the first of its names that says a role, else by the first; a tied matrix by that
    of the embedding.
    """
    named = {info.place: info for info in reversed(infos) if role(info.name) == "words"}
    named |= {info.place: info for info in reversed(infos) if role(info.name) not in (None, "words")}
    return [named.get(info.place, info) for info in first_of_places(infos)]


def unit_axis(info: TensorInfo) -> int:
    """Along which of its two dimensions a "hidden" or "output" matrix has the feed-forward units."""
    if EITHER_WAY.search(info.name) and info.shape[0] != info.shape[1]:
        return int(info.shape[1] > info.shape[0])
    return 0 if role(info.name) == "hidden" else 1
