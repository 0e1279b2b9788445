"""State dicts without a config, recognised by their tensors' names and shapes and put together as our network."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from model.checkpoints.convert.courses import COURSES, course
from model.checkpoints.convert.layout_torch import FIRST_LAYER, torch_transformer
from model.checkpoints.convert.litgpt import ANCHOR as LITGPT
from model.checkpoints.convert.litgpt import CONFIG as LITGPT_CONFIG
from model.checkpoints.convert.litgpt import OLDER as OLDER_LITGPT
from model.checkpoints.convert.litgpt import litgpt
from model.checkpoints.convert.nanochat import ANCHOR as NANOCHAT
from model.checkpoints.convert.nanochat import nanochat
from model.checkpoints.convert.state_dict import FUNCTIONS, Choices, Layout, State, config_of, unsaid
from model.checkpoints.convert.weight_map import Table, WeightSource, below, packed, source, weight_map
from model.checkpoints.formats.pickle import Plain, read_state
from model.checkpoints.formats.plain_pickle import read_plain
from model.checkpoints.incomplete_weights import refuse_incomplete, refuse_unknown
from model.checkpoints.leftover import is_harmless
from model.checkpoints.load_hints import LoadHints
from model.checkpoints.native import require_weights
from model.checkpoints.quantized import fp8_notes, require_no_codes
from model.checkpoints.tensors import described, is_of_training, read_tensors
from model.checkpoints.wrapped_names import chosen_model
from model.message import Message
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record, read_yaml
from model.text.huggingface.load import TOKENIZER, open_tokenizers
from model.text.huggingface.tokenizer import NO_TOKENS, CharacterTokenizer, IdTokenizer
from model.text.tokenizer import Tokenizer

# State dicts of the Annotated Transformer (Rush, 2018; Huang et al., 2022) and of programs written after it.

ANCHOR = "encoder.layers.0.self_attn.linears.0.weight"
SOURCE, TARGET, OUTPUT = "src_embed.0.lut.weight", "tgt_embed.0.lut.weight", "generator.proj.weight"
LENGTH = 5000  # positions of its table, which older files hold


def annotated(state_dict: State) -> Layout | None:
    """Layout of an Annotated Transformer; None: it is none. Its norms are the textbook's (sample deviation, to which
    ε = 1e-6 is added), or torch's in their place; before each block or, with the same tensors, behind each; positions
    are sinusoidal.

    Raises:
        CheckpointError: tensors are missing, of other shapes or beyond the layout.
    """
    state = state_dict.below(ANCHOR)
    if state is None:
        return None
    (sources, width), (targets, _) = state.shape(SOURCE), state.shape(TARGET)
    table = "src_embed.1.pe" in state.tensors
    length = state.shape("src_embed.1.pe", 3)[1] if table else LENGTH
    positions, assumed = state.positions() if not table else ("sinusoidal", ())
    torchs = "encoder.norm.weight" in state.tensors
    choices = Choices(state, [*assumed], {} if table else {"positions": positions})
    usual = unsaid("norms before each block", "norm_first")
    pre = choices.of("norm", ("norm_first", "pre_norm"), {True: "pre", False: "post"}, usual)
    usual = unsaid("relu in the feed-forward networks", "activation")
    config = config_of(
        state.name,
        source_vocabulary=sources,
        target_vocabulary=targets,
        d_model=width,
        n_heads=state.n_heads(width),
        n_encoder_layers=state.layers(r"encoder\.layers\.(\d+)\."),
        n_decoder_layers=state.layers(r"decoder\.layers\.(\d+)\."),
        d_ff=state.shape("encoder.layers.0.feed_forward.w_1.weight")[0],
        dropout=0.0,
        position=positions,
        max_length=min(length, LENGTH),
        norm="layer" if torchs else "textbook-sample",
        norm_placement="pre" if pre else "post",
        last_norm=not pre,
        activation=choices.of("activation", ("activation", "act"), FUNCTIONS, usual),
        norm_epsilon=1e-5 if torchs else 1e-6,
        tied_embeddings=state.tied(SOURCE, TARGET, OUTPUT),
        output_bias=True,
    )
    plan = weight_map(config, ANNOTATED_LAYER_NORM if torchs else ANNOTATED, state.tensors)
    state.require_all_used(plan, "an Annotated Transformer", r"_embed\.1\.pe$")
    open_choices = state.open_heads | choices.open
    return Layout("Annotated Transformer", config, state.weights(plan), tuple(choices.assumed), open_choices)


def _norm(name: str, module: str) -> Table:
    return {f"{name}.weight": f"{module}.a_2", f"{name}.bias": f"{module}.b_2"}


def _annotated_layer(*attentions: tuple[str, str]) -> Table:
    """Table of a layer. attentions: our name and the file's, in order."""
    layer: dict[str, str | WeightSource] = {
        "feed_forward.hidden": "feed_forward.w_1",
        "feed_forward.output": "feed_forward.w_2",
        **_norm("feed_forward_block.norm", f"sublayer.{len(attentions)}.norm"),
    }
    for block, (attention, module) in enumerate(attentions):
        linears = enumerate(("query", "key", "value", "output"))
        layer |= {f"{attention}.{name}": f"{module}.linears.{number}" for number, name in linears}
        layer |= _norm(f"{attention}_block.norm", f"sublayer.{block}.norm")
    return layer


SELF, CROSS = ("self_attention", "self_attn"), ("cross_attention", "src_attn")
ANNOTATED: Table = {
    "encoder.embedding.tokens.weight": SOURCE,
    **below("encoder.layers.{}.", "encoder.layers.{}.", _annotated_layer(SELF)),
    **_norm("encoder.norm", "encoder.norm"),
    "decoder.embedding.tokens.weight": TARGET,
    **below("decoder.layers.{}.", "decoder.layers.{}.", _annotated_layer(SELF, CROSS)),
    **_norm("decoder.norm", "decoder.norm"),
    "output.logits": "generator.proj",
}
ANNOTATED_LAYER_NORM: Table = {  # with nn.LayerNorm
    ours: source(row).renamed(lambda name: name.replace(".a_2", ".weight").replace(".b_2", ".bias"))
    for ours, row in ANNOTATED.items()
}

# State dicts of nanoGPT and of both of minGPT's forms: GPT-2 in torch's own linear layers.

PACKED, FIRST_KEYS = "transformer.h.0.attn.c_attn.weight", "blocks.0.attn.key.weight"
MASK_BUFFERS = r"\.attn\.(bias|masked_bias|mask)$"
GPT: Table = {
    "decoder.embedding.tokens": "transformer.wte",
    "decoder.embedding.positions.table": "transformer.wpe.weight",
    **packed("decoder.layers.{}.self_attention", "transformer.h.{}.attn.c_attn"),
    "decoder.layers.{}.self_attention.output": "transformer.h.{}.attn.c_proj",
    "decoder.layers.{}.self_attention_block.norm": "transformer.h.{}.ln_1",
    "decoder.layers.{}.feed_forward.hidden": "transformer.h.{}.mlp.c_fc",
    "decoder.layers.{}.feed_forward.output": "transformer.h.{}.mlp.c_proj",
    "decoder.layers.{}.feed_forward_block.norm": "transformer.h.{}.ln_2",
    "decoder.norm": "transformer.ln_f",
    "output.logits": "lm_head",
}
FIRST_GPT: Table = {
    "decoder.embedding.tokens": "tok_emb",
    "decoder.embedding.positions.table": WeightSource(("pos_emb",), lambda table: table[0]),
    "decoder.layers.{}.self_attention.query": "blocks.{}.attn.query",
    "decoder.layers.{}.self_attention.key": "blocks.{}.attn.key",
    "decoder.layers.{}.self_attention.value": "blocks.{}.attn.value",
    "decoder.layers.{}.self_attention.output": "blocks.{}.attn.proj",
    "decoder.layers.{}.self_attention_block.norm": "blocks.{}.ln1",
    "decoder.layers.{}.feed_forward.hidden": "blocks.{}.mlp.0",
    "decoder.layers.{}.feed_forward.output": "blocks.{}.mlp.2",
    "decoder.layers.{}.feed_forward_block.norm": "blocks.{}.ln2",
    "decoder.norm": "ln_f",
    "output.logits": "head",
}


def gpt(state_dict: State) -> Layout | None:
    """Layout of nanoGPT or of minGPT since 2022; None: it is neither. Both have the same names; minGPT's output is a
    matrix of its own. nanoGPT computes the exact GELU, minGPT GPT-2's approximation.

    Raises:
        CheckpointError: tensors are missing, of other shapes or beyond the layout.
    """
    state = state_dict.below("transformer.wte.weight")
    if state is None or PACKED not in state.tensors:
        return None
    vocabulary, width = state.shape("transformer.wte.weight")
    tied = "lm_head.weight" not in state.tensors or state.same("transformer.wte.weight", "lm_head.weight")
    return _gpt(
        state,
        "nanoGPT" if tied else "minGPT",
        "nanoGPT or minGPT",
        GPT,
        vocabulary=vocabulary,
        d_model=width,
        n_layers=state.layers(r"transformer\.h\.(\d+)\."),
        d_ff=state.shape("transformer.h.0.mlp.c_fc.weight")[0],
        max_length=state.shape("transformer.wpe.weight")[0],
        activation="gelu" if tied else "gelu-tanh",
        tied_embeddings="output" if tied else "none",
        bias="transformer.h.0.attn.c_attn.bias" in state.tensors,
    )


def first_min_gpt(state_dict: State) -> Layout | None:
    """Layout of minGPT of 2020; None: it is none. Query, key and value are apart, and GELU is exact.

    Raises:
        CheckpointError: tensors are missing, of other shapes or beyond the layout.
    """
    state = state_dict.below("tok_emb.weight")
    if state is None or FIRST_KEYS not in state.tensors:
        return None
    vocabulary, width = state.shape("tok_emb.weight")
    return _gpt(
        state,
        "minGPT",
        "minGPT",
        FIRST_GPT,
        vocabulary=vocabulary,
        d_model=width,
        n_layers=state.layers(r"blocks\.(\d+)\."),
        d_ff=state.shape("blocks.0.mlp.0.weight")[0],
        max_length=state.shape("pos_emb", 3)[1],
        activation="gelu",
    )


def _gpt(state: State, name: str, kind: str, table: Table, **options: Any) -> Layout:
    """Layout of a GPT. The number of heads, which shapes do not tell, is required last, after all other checks."""
    options["activation"] = state.hints.activation or options["activation"]
    assumed: tuple[str, ...] = ()
    if name == "nanoGPT" and state.hints.activation is None:  # whose older form and newer one have the same tensors
        assumed = ("the exact GELU (nanoGPT before June 2023 had its form with tanh)",)
    if "lm_head.weight" in state.tensors:
        state.require_words("lm_head.weight", "transformer.wte.weight")
    config = config_of(
        state.name,
        kind="decoder-only",
        n_heads=1,
        dropout=0.0,
        position="learned",
        norm_placement="pre",
        scale_embedding=False,
        **options,
    )
    plan = weight_map(config, table, state.tensors)
    state.require_all_used(plan, kind, MASK_BUFFERS)
    config = replace(config, n_heads=state.n_heads(config.d_model))
    return Layout(name, config, state.weights(plan), assumed, state.open_heads | {"activation": config.activation})


# Ends of names, one of which each layout has; the first two are also of Hugging Face's models.
OWN_ANCHORS = (ANCHOR, NANOCHAT, LITGPT, OLDER_LITGPT, *(each.anchor for each in COURSES))
ANCHORS = (PACKED, FIRST_LAYER, FIRST_KEYS, *OWN_ANCHORS)
LAYOUTS = (gpt, first_min_gpt, annotated, torch_transformer, nanochat, litgpt, course)
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
PROGRAMS = ("nanoGPT", "minGPT", "the Annotated Transformer", "torch.nn.Transformer", "nanochat", "litgpt")
KNOWN = ", ".join((*PROGRAMS, *(each.name for each in COURSES)))
META = "meta.pkl"  # nanoGPT's characters
MOST_LETTERS = 500  # tokens of a model that may be one of characters


def open_state(file: Path, hints: LoadHints) -> tuple[Layout, tuple[Tokenizer, Tokenizer]]:
    """Layout of a file of weights alone, its pages read when used, and the tokenizers beside it.

    hints: of the user, for what the file does not tell.

    Raises:
        CheckpointError: the file is damaged, its layout is not known, or too little is known of it; `HeadsNeededError`
            where only the number of heads is missing.
    """
    layout = find_layout(file, hints)
    tokenizers = _tokenizers(file, layout, hints)
    few = type(tokenizers[1]) is IdTokenizer and layout.vocabularies[1] <= MOST_LETTERS
    if not layout.two_stacks and (few or hints.alphabet is not None):
        layout = replace(layout, open={**layout.open, "alphabet": hints.alphabet or ""})
    if not layout.two_stacks or not isinstance(tokenizers[1], IdTokenizer):
        return layout, tokenizers
    assumed = () if hints.start is not None else ("targets begin with token 0 (there is no tokenizer)",)
    layout = replace(layout, assumed=layout.assumed + assumed, open={**layout.open, "start": hints.start or 0})
    return layout, tokenizers


def find_layout(file: Path, hints: LoadHints) -> Layout:
    """Layout of a file of weights alone.

    Raises:
        CheckpointError: as `open_state` does.
    """
    tensors, records = _read(file)
    table = [described(name, tensor) for name, tensor in tensors.items()]
    require_no_codes(table, file.name)
    refuse_incomplete(file, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    state = State(file.name, tensors, records | _config_beside(file), hints)
    if not tensors or (layout := _recognised(state)) is None:
        refuse_unknown(file, tensors, KNOWN)
    if layout.config is not None:
        shapes = {name: tuple(tensor.shape) for name, tensor in layout.weights.items()}
        require_weights(layout.config, shapes, file.name)
    return replace(layout, assumed=(*layout.assumed, *fp8_notes(table)))


def is_own(names: Iterable[str]) -> bool:
    """True if a file with tensors of these names may be of a layout whose names no class of transformers has."""
    return any(name.endswith(OWN_ANCHORS) for name in names)


def _recognised(state: State) -> Layout | None:
    """Layout of the whole file, or of the one of several models in it that the hints choose, by default the first.

    Raises:
        CheckpointError: it is of a layout, and not as that asks for; or there is no model of the chosen prefix.
    """
    paths, prefix = _paths(state.tensors), state.hints.prefix
    chosen = paths[0] if prefix is None else prefix
    begins = [f"{path}." for path in paths if path not in ("", chosen) and not chosen.startswith(f"{path}.")]
    inside = {
        name: tensor
        for name, tensor in state.tensors.items()
        if name.startswith(f"{chosen}." if chosen else "") and not name.startswith(tuple(begins))
    }
    if not inside:
        begin = f"{chosen}."
        raise CheckpointError(
            "{file} has no tensors whose names begin with {begin}: leave prefix:{chosen} out",
            file=state.name,
            begin=begin,
            chosen=chosen,
        )
    layout = next((layout for each in LAYOUTS if (layout := each(replace(state, tensors=inside))) is not None), None)
    if layout is None:
        return None
    beside = [name for name in state.tensors if name not in inside and not is_harmless(name)]
    if prefix is None and len(paths) == 1:
        return replace(layout, beside=tuple(beside))
    assumed = (*layout.assumed, chosen_model(chosen, paths)) if prefix is None else layout.assumed
    open_choices = {**layout.open, "prefix": chosen} if len(paths) > 1 else layout.open
    return replace(layout, assumed=assumed, open=open_choices, models=tuple(paths), prefix=chosen, beside=tuple(beside))


def _paths(names: Collection[str]) -> list[str]:
    """Beginnings of the names of the models in a file: "" for one whose names have none, which comes first, then the
    shortest.
    """
    for anchor in ANCHORS:
        ends = [name.removesuffix(anchor) for name in names if name.endswith(anchor)]
        beginnings = [path for path in ends if not path or path.endswith(".")]
        if anchor == FIRST_LAYER:  # whose path is that of a stack
            beginnings = [path for path in beginnings if f"{path}layers.0.multihead_attn.in_proj_weight" not in names]
            parts = [path.split(".")[:-1] for path in beginnings]
            if len(parts) == 1:
                return [""]
            while parts and all(parts) and len({part[-1] for part in parts}) == 1:
                parts = [part[:-1] for part in parts]
            beginnings = [".".join([*part, ""]) for part in parts]
        if beginnings:
            beginnings = list(dict.fromkeys(path.removesuffix(".") for path in beginnings))
            return sorted(beginnings, key=lambda path: (bool(path), path.count(".")))
    return [""]


def is_known(names: Iterable[str]) -> bool:
    """True if a file with tensors of these names may be of one of the layouts; shapes are not looked at."""
    return any(name.endswith(ANCHORS) for name in names)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """Tensors and plain values of a file, without the state of a training."""
    tensors, records = (read_tensors(file), {}) if file.suffix.lower() == ".safetensors" else read_state(file)
    return {name: tensor for name, tensor in tensors.items() if not is_of_training(name)}, records


def _config_beside(file: Path) -> dict[str, Plain]:
    """Plain values of the configs in the same folder, by name: minGPT and transformers write config.json, Meta
    params.json, nanochat one for each file of weights, litgpt model_config.yaml.
    """
    values: dict[str, Plain] = {}
    written = [file.parent / name for name in ("config.json", "params.json")]
    written.append(file.with_name(f"{file.stem.replace('model_', 'meta_')}.json"))
    waiting: list[tuple[str, Any]] = [(each.stem, read_record(each)) for each in written]
    waiting.append(("model_config", read_yaml(file.parent / LITGPT_CONFIG)))
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, Plain):
            values[name] = value
    return values


def _tokenizers(file: Path, layout: Layout, hints: LoadHints) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of source and target in the files beside the weights, else of bare ids."""
    sizes = layout.vocabularies
    if (file.parent / TOKENIZER).is_file():
        return open_tokenizers(file.parent, {}, sizes)
    letters, reason = _alphabet(file, hints, sizes[1])
    if letters and not layout.two_stacks:
        return CharacterTokenizer(letters), CharacterTokenizer(letters)
    if hints.start is not None and hints.start >= sizes[1]:
        raise CheckpointError(
            "{file}: start ({start}) must be the id of one of its {sizes} tokens",
            file=file.name,
            start=hints.start,
            sizes=sizes[1],
        )
    return IdTokenizer(sizes[0], reason), IdTokenizer(sizes[1], reason, replace(NO_TOKENS, start=hints.start))


def _alphabet(file: Path, hints: LoadHints, size: int) -> tuple[list[str], str]:
    """Characters by their ids, from the hints or nanoGPT's file beside the weights, or a reason why there are none.

    Raises:
        CheckpointError: the hints name another number of characters than the model has tokens.
    """
    if hints.alphabet is not None:
        if len(hints.alphabet) != size or len(set(hints.alphabet)) != size:
            count = len(set(hints.alphabet))
            raise CheckpointError(
                "{file} has {size} tokens, and the alphabet {count} different characters: give one for each, in "
                "their order",
                file=file.name,
                size=size,
                count=count,
            )
        return list(hints.alphabet), ""
    meta = file.parent / META
    if not meta.is_file():
        return [], f"there is no {TOKENIZER} beside the weights"
    try:
        content = read_plain(meta)
    except CheckpointError as error:
        return [], str(error)
    named = content.get("itos") if isinstance(content, dict) else None
    letters = [named.get(number) for number in range(size)] if isinstance(named, dict) and len(named) == size else []
    known = [letter for letter in letters if isinstance(letter, str) and len(letter) == 1]
    if not letters or len(set(known)) != size:
        return [], Message(
            "{file} beside the weights does not have a character for each of the {size} tokens", file=META, size=size
        )
    return known, ""
