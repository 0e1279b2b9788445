"""State dicts without a config, recognised by their tensors' names and shapes and put together as our network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from model.checkpoints.convert.layout_torch import FIRST_LAYER, torch_transformer
from model.checkpoints.convert.state_dict import Layout, State, config_of
from model.checkpoints.convert.weight_map import WeightMap, modules, tensor, third
from model.checkpoints.formats.pickle import Plain, read_state
from model.checkpoints.formats.weight_files import require_whole
from model.checkpoints.load_hints import LoadHints
from model.checkpoints.native import require_weights
from model.checkpoints.tensors import is_of_training, read_tensors
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record
from model.text.huggingface.load import TOKENIZER, open_tokenizers
from model.text.huggingface.tokenizer import NO_TOKENS, IdTokenizer
from model.text.tokenizer import Tokenizer

# State dicts of the Annotated Transformer (Rush, 2018; Huang et al., 2022) and of those who wrote theirs after it.

ANCHOR = "encoder.layers.0.self_attn.linears.0.weight"
SOURCE, TARGET, OUTPUT = "src_embed.0.lut.weight", "tgt_embed.0.lut.weight", "generator.proj.weight"
LENGTH = 5000  # positions of its table, which older files hold
LINEARS = ("query", "key", "value", "output")


def annotated(given: State) -> Layout | None:
    """Pre-norm with the textbook's norm (the sample deviation, to which ε = 1e-6 is added), sinusoidal positions."""
    state = given.below(ANCHOR)
    if state is None:
        return None
    (source, width), (target, _) = state.shape(SOURCE), state.shape(TARGET)
    layers = {stack: state.layers(rf"{stack}\.layers\.(\d+)\.") for stack in ("encoder", "decoder")}
    heads, hidden = state.n_heads(width), state.shape("encoder.layers.0.feed_forward.w_1.weight")[0]
    table = "src_embed.1.pe" in state.tensors
    length = state.shape("src_embed.1.pe", 3)[1] if table else LENGTH
    positions, assumed = state.positions() if not table else ("sinusoidal", ())
    plan = _plan(layers["encoder"], layers["decoder"])
    state.require_all_used(plan, "an Annotated Transformer", r"_embed\.1\.pe$")
    config = config_of(
        state.name,
        source_vocabulary=source,
        target_vocabulary=target,
        d_model=width,
        n_heads=heads,
        n_encoder_layers=layers["encoder"],
        n_decoder_layers=layers["decoder"],
        d_ff=hidden,
        dropout=0.0,
        position=positions,
        max_length=min(length, LENGTH),
        norm="textbook-sample",
        norm_placement="pre",
        norm_epsilon=1e-6,
        tied_embeddings=state.tied(SOURCE, TARGET, OUTPUT),
        output_bias=True,
    )
    choices = state.open_heads | ({} if table else {"positions": positions})
    return Layout("Annotated Transformer", config, state.taken(plan), assumed, choices)


def _plan(encoder: int, decoder: int) -> WeightMap:
    plan = tensor("encoder.embedding.tokens.weight", SOURCE) | tensor("decoder.embedding.tokens.weight", TARGET)
    plan |= modules("output.", "generator.", {"logits": "proj"}, bias=True)
    blocks = {
        "encoder": (encoder, {"self_attention": "self_attn"}),
        "decoder": (decoder, {"self_attention": "self_attn", "cross_attention": "src_attn"}),
    }
    for stack, (layers, attentions) in blocks.items():
        plan |= _norm(f"{stack}.norm", f"{stack}.norm")
        for layer in range(layers):
            path = f"{stack}.layers.{layer}."
            for place, (ours, theirs) in enumerate(attentions.items()):
                parts = {f"{ours}.{name}": f"{theirs}.linears.{number}" for number, name in enumerate(LINEARS)}
                plan |= modules(path, path, parts, bias=True)
                plan |= _norm(f"{path}{ours}_block.norm", f"{path}sublayer.{place}.norm")
            parts = {"feed_forward.hidden": "feed_forward.w_1", "feed_forward.output": "feed_forward.w_2"}
            plan |= modules(path, path, parts, bias=True)
            plan |= _norm(f"{path}feed_forward_block.norm", f"{path}sublayer.{len(attentions)}.norm")
    return plan


def _norm(ours: str, theirs: str) -> WeightMap:
    return tensor(f"{ours}.weight", f"{theirs}.a_2") | tensor(f"{ours}.bias", f"{theirs}.b_2")


# State dicts of nanoGPT and of both of minGPT's forms: GPT-2 in torch's own linear layers.

PACKED, FIRST_KEYS = "transformer.h.0.attn.c_attn.weight", "blocks.0.attn.key.weight"
KEPT_MASKS = r"\.attn\.(bias|masked_bias|mask)$"


def gpt(given: State) -> Layout | None:
    """nanoGPT, or minGPT since 2022: their names are the same. The latter's output is a matrix of its own.

    nanoGPT computes the exact GELU, minGPT GPT-2's approximation.
    """
    state = given.below("transformer.wte.weight")
    if state is None or PACKED not in state.tensors:
        return None
    vocabulary, width = state.shape("transformer.wte.weight")
    length, _ = state.shape("transformer.wpe.weight")
    layers = state.layers(r"transformer\.h\.(\d+)\.")
    tied = "lm_head.weight" not in state.tensors or state.same("transformer.wte.weight", "lm_head.weight")
    bias = "transformer.h.0.attn.c_attn.bias" in state.tensors
    plan = tensor("decoder.embedding.tokens.weight", "transformer.wte.weight")
    plan |= tensor("decoder.embedding.positions.table", "transformer.wpe.weight")
    plan |= tensor("output.logits.weight", "transformer.wte.weight" if tied else "lm_head.weight")
    plan |= modules("decoder.", "transformer.", {"norm": "ln_f"}, bias)
    for layer in range(layers):
        ours, theirs = f"decoder.layers.{layer}.", f"transformer.h.{layer}."
        for part, name in enumerate(("query", "key", "value")):
            packed = {f"self_attention.{name}": "attn.c_attn"}
            plan |= modules(ours, theirs, packed, bias, third(part), third(part))
        plan |= modules(ours, theirs, {"self_attention.output": "attn.c_proj"} | FEED_FORWARD | NORMS, bias)
    state.require_all_used(plan, "nanoGPT or minGPT", KEPT_MASKS + r"|^lm_head\.weight$")
    hidden = state.shape("transformer.h.0.mlp.c_fc.weight")[0]
    sizes = (vocabulary, layers, width, hidden, length)
    config = _config(state, sizes, tied, bias, "gelu" if tied else "gelu-tanh")
    return Layout("nanoGPT" if tied else "minGPT", config, state.taken(plan), open=state.open_heads)


FEED_FORWARD = {"feed_forward.hidden": "mlp.c_fc", "feed_forward.output": "mlp.c_proj"}
NORMS = {"self_attention_block.norm": "ln_1", "feed_forward_block.norm": "ln_2"}


def first_min_gpt(given: State) -> Layout | None:
    """minGPT of 2020: query, key and value apart, the exact GELU."""
    state = given.below("tok_emb.weight")
    if state is None or FIRST_KEYS not in state.tensors:
        return None
    vocabulary, width = state.shape("tok_emb.weight")
    _, length, _ = state.shape("pos_emb", 3)
    layers = state.layers(r"blocks\.(\d+)\.")
    plan = tensor("decoder.embedding.tokens.weight", "tok_emb.weight")
    plan |= tensor("decoder.embedding.positions.table", "pos_emb", lambda table: table[0])
    plan |= tensor("output.logits.weight", "head.weight")
    plan |= modules("decoder.", "", {"norm": "ln_f"}, bias=True)
    parts = {f"self_attention.{name}": f"attn.{name}" for name in ("query", "key", "value")}
    parts |= {"self_attention.output": "attn.proj", "feed_forward.hidden": "mlp.0", "feed_forward.output": "mlp.2"}
    parts |= {"self_attention_block.norm": "ln1", "feed_forward_block.norm": "ln2"}
    for layer in range(layers):
        plan |= modules(f"decoder.layers.{layer}.", f"blocks.{layer}.", parts, bias=True)
    state.require_all_used(plan, "minGPT", KEPT_MASKS)
    sizes = (vocabulary, layers, width, state.shape("blocks.0.mlp.0.weight")[0], length)
    config = _config(state, sizes, tied=False, bias=True, activation="gelu")
    return Layout("minGPT", config, state.taken(plan), open=state.open_heads)


def _config(
    state: State, sizes: tuple[int, int, int, int, int], tied: bool, bias: bool, activation: str
) -> TransformerConfig:
    vocabulary, layers, width, hidden, length = sizes
    heads = state.n_heads(width)
    return config_of(
        state.name,
        kind="decoder-only",
        vocabulary=vocabulary,
        n_layers=layers,
        d_model=width,
        n_heads=heads,
        d_ff=hidden,
        dropout=0.0,
        max_length=length,
        position="learned",
        norm_placement="pre",
        scale_embedding=False,
        activation=activation,
        tied_embeddings="output" if tied else "none",
        bias=bias,
    )


ANCHORS = (PACKED, FIRST_KEYS, ANCHOR, FIRST_LAYER)  # how a name ends that each of them needs
LAYOUTS = (gpt, first_min_gpt, annotated, torch_transformer)
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")
KNOWN = "nanoGPT, minGPT, the Annotated Transformer, torch.nn.Transformer"
META = "meta.pkl"  # nanoGPT's characters


def open_state(file: Path, told: LoadHints) -> tuple[Layout, tuple[Tokenizer, Tokenizer]]:
    """What a file of weights alone holds, its weights still in the file, and what lies beside it as tokenizer.

    told: what somebody says of it, where nothing else does.

    Raises:
        CheckpointError: the file is damaged, its layout is not known, or it says too little; `HeadsNeededError` where
            only the number of heads is missing.
    """
    layout = find_layout(file, told)
    tokenizers = _tokenizers(file, layout.config, told)
    if layout.config.kind != "encoder-decoder" or not isinstance(tokenizers[1], IdTokenizer):
        return layout, tokenizers
    assumed = () if told.start is not None else ("targets begin with token 0 (there is no tokenizer)",)
    layout = replace(layout, assumed=layout.assumed + assumed, open={**layout.open, "start": told.start or 0})
    return layout, tokenizers


def find_layout(file: Path, told: LoadHints) -> Layout:
    """As whose it was recognised, with its weights.

    Raises:
        CheckpointError: as of `open_state`.
    """
    tensors, records = _read(file)
    require_whole(file, {name: tuple(each.shape) for name, each in tensors.items()})
    state = State(file.name, tensors, records | _beside(file), told)
    layout = next((found for make in LAYOUTS if (found := make(state)) is not None), None)
    if layout is None:
        raise CheckpointError(
            f"{file.name} holds {len(tensors):,} tensors, and is none of {KNOWN}: its tensors can be looked at under "
            "Checkpoints → Read, and to compute with it, a config.json of transformers must lie beside it"
        )
    require_weights(layout.config, {name: tuple(each.shape) for name, each in layout.weights.items()}, file.name)
    return layout


def is_known(names: Iterable[str]) -> bool:
    """Whether a file with these tensors may be of one of the layouts, as far as names alone tell it."""
    return any(name.endswith(ANCHORS) for name in names)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """What belongs to a training and not to the model is left out."""
    tensors, records = (read_tensors(file), {}) if file.suffix.lower() == ".safetensors" else read_state(file)
    return {name: each for name, each in tensors.items() if not is_of_training(name)}, records


def _beside(file: Path) -> dict[str, Plain]:
    """The plain values of a config.json in the same folder, by name: minGPT writes one."""
    found: dict[str, Plain] = {}
    waiting: list[tuple[str, Any]] = [("config", read_record(file.parent / "config.json"))]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", each) for key, each in value.items()]
        elif isinstance(value, int | float | str | bool):
            found[name] = value
    return found


def _tokenizers(file: Path, config: TransformerConfig, told: LoadHints) -> tuple[Tokenizer, Tokenizer]:
    """A tokenizer.json beside the file, if the model knows all of its tokens; else bare ids."""
    sizes = config.vocabularies
    reason = f"there is no {TOKENIZER} beside the weights"
    if (file.parent / META).is_file():
        reason = f"{META} beside the weights is a pickle, which could run code and is never read"
    if not (file.parent / TOKENIZER).is_file():
        if told.start is not None and told.start >= sizes[1]:
            raise CheckpointError(f"{file.name}: start ({told.start}) must be the id of one of its {sizes[1]} tokens")
        return IdTokenizer(sizes[0], reason), IdTokenizer(sizes[1], reason, replace(NO_TOKENS, start=told.start))
    return open_tokenizers(file.parent, {}, sizes)
