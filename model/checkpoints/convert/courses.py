"""State dicts of courses and of programs that many learn from: a table of names for each, and one loop over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.convert.layout_torch import flat_table
from model.checkpoints.convert.state_dict import Choices, Layout, State, config_of, is_sinusoidal, unsaid
from model.checkpoints.convert.weight_map import Layout as Place
from model.checkpoints.convert.weight_map import Table, WeightSource, below, source, weight_map
from model.message import Message
from model.network.config import AttentionBias
from model.runtime.errors import CheckpointError


@dataclass(frozen=True)
class Course:
    """A program that saves state dicts.

    anchor: name of a tensor that each of them has. table: of our modules and the file's, with one of our two stacks or
    both; or a function that makes it for the channels of a head. options: of `TransformerConfig`, which all of them
    have. more: reads others from the file and what lies beside it. heads: counts them, where the tensors tell. buffers:
    pattern of names of tensors that are no weights. length: tokens, where there is no table of positions. assumed: what
    no tensor tells, in words.
    """

    name: str
    anchor: str
    table: Table | Callable[[State, int], Table]
    options: Mapping[str, Any]
    more: Callable[[State, Choices], Mapping[str, Any]] = lambda _state, _choices: {}
    heads: Callable[[State], int] | None = None
    buffers: str = r"(?!)"
    length: int = 512
    assumed: tuple[str, ...] = ()


def course(state_dict: State) -> Layout | None:
    """Layout of a course's state dict; None: it is of none.

    Raises:
        CheckpointError: tensors are missing, of other shapes or beyond the layout.
    """
    states = ((each, state_dict.below(each.anchor)) for each in COURSES)
    return next((_layout(each, state) for each, state in states if state is not None), None)


def _layout(program: Course, state: State) -> Layout:
    """Layout of a program's state dict. The number of heads, which shapes seldom tell, is required last."""
    read = _Reading(program, state)
    choices = Choices(state, [*program.assumed])
    options = {**read.options(choices), **program.options, **program.more(state, choices)}
    query, key = read.rows("self_attention.query"), read.rows("self_attention.key")
    whole = config_of(state.name, **options, n_heads=1, head_width=None if query == options["d_model"] else query)
    # What a program itself names a mask only hides, whatever its values are.
    weights = {name: tensor for name, tensor in state.tensors.items() if not re.search(program.buffers, name)}
    replace(state, tensors=weights).require_all_used(weight_map(whole, read.table, weights), program.name, r"(?!)")
    heads = program.heads(state) if program.heads else state.n_heads(query)
    if query % heads or key % (query // heads):
        raise CheckpointError(
            "{file}: queries of {query} and keys of {key} channels cannot have {heads} heads",
            file=state.name,
            query=query,
            key=key,
            heads=heads,
        )
    head = query // heads
    options |= {"n_heads": heads, "head_width": None if query == options["d_model"] else head}
    options |= {"n_key_value_heads": None if key == query else key // head}
    config = config_of(state.name, **options)
    plan = weight_map(config, program.table(state, head) if callable(program.table) else program.table, state.tensors)
    open_choices = choices.open | ({} if program.heads else state.open_heads)
    return Layout(program.name, config, state.weights(plan), tuple(choices.assumed), open_choices)


class _Reading:
    """Sizes in a state dict, by the names of a table."""

    def __init__(self, program: Course, state: State) -> None:
        self.program, self.state = program, state
        self.table = program.table(state, 2) if callable(program.table) else program.table  # names depend on no width
        self.stacks = [stack for stack in ("encoder", "decoder") if f"{stack}.embedding.tokens" in self.table]

    def names(self, module: str, part: str = "weight") -> list[str]:
        """Names in the file of a parameter of ours, in the first layer."""
        return [f"{name}.{part}" for name in source(self.table[module]).of_layer(0).names]

    def rows(self, module: str) -> int:
        """Rows of a module in the first layer of the last stack."""
        return sum(self.state.shape(name)[0] for name in self.names(f"{self.stacks[-1]}.layers.{{}}.{module}"))

    def has(self, module: str, part: str = "bias") -> bool:
        """True if the file has a part of a module of the last stack's first layer."""
        return self.names(f"{self.stacks[-1]}.layers.{{}}.{module}", part)[0] in self.state.tensors

    def depth(self, stack: str) -> int:
        """Number of layers, by the names of their queries."""
        (before, _after) = source(self.table[f"{stack}.layers.{{}}.self_attention.query"]).names[0].split("{}", 1)
        return self.state.layers(re.escape(before) + r"(\d+)\.")

    def options(self, choices: Choices) -> dict[str, Any]:
        """Options that shapes tell, and positions without a table of them as the hints say."""
        state, (output,) = self.state, self.names("output.logits")
        tokens = [self.names(f"{stack}.embedding.tokens")[0] for stack in self.stacks]
        if output in state.tensors:
            state.require_words(output, tokens[-1])
        sizes = [state.shape(name) for name in tokens]
        options: dict[str, Any] = {
            "d_model": sizes[0][1],
            "d_ff": self.rows("feed_forward.hidden"),
            "dropout": 0.0,
            "bias": self.has("feed_forward.hidden"),
            "attention_bias": BIASES[self.has("self_attention.query"), self.has("self_attention.output")],
            "output_bias": self.names("output.logits", "bias")[0] in state.tensors,
            **self._positions(choices),
        }
        if len(self.stacks) == 2:
            options |= {"source_vocabulary": sizes[0][0], "target_vocabulary": sizes[1][0]}
            options |= {f"n_{stack}_layers": self.depth(stack) for stack in self.stacks}
            return options | {"tied_embeddings": state.tied(tokens[0], tokens[1], output)}
        tied = output not in state.tensors or state.same(tokens[0], output)
        options |= {"kind": "decoder-only", "vocabulary": sizes[0][0], "n_layers": self.depth("decoder")}
        return options | {"tied_embeddings": "output" if tied else "none"}

    def _positions(self, choices: Choices) -> dict[str, Any]:
        """Positions and the most tokens. A table is taken as it is, unless it is one of sines."""
        if "position" in self.program.options:
            return {"max_length": self.program.length}
        rows = [self.table.get(f"{stack}.embedding.positions.table") for stack in self.stacks]
        tables = [source(row).names[0] for row in rows if row is not None]
        tables = [name for name in tables if name in self.state.tensors]
        if not tables:
            position, assumed = self.state.positions()
            choices.assumed.extend(assumed)
            choices.open["positions"] = position
            return {"position": position, "max_length": self.program.length}
        for name in tables:
            self.state.shape(name, max(2, self.state.tensors[name].ndim))
        sines = all(is_sinusoidal(self.state.tensors[name]) for name in tables)
        length = min(flat_table(self.state.tensors[name]).shape[0] for name in tables)
        return {"position": "sinusoidal" if sines else "learned", "max_length": length}


BIASES: dict[tuple[bool, bool], AttentionBias] = {
    (True, True): "all",
    (True, False): "inputs",
    (False, True): "output",
    (False, False): "none",
}


def _norm(ours: str, theirs: str, scale: str, shift: str) -> Table:
    return {f"{ours}.weight": f"{theirs}.{scale}", f"{ours}.bias": f"{theirs}.{shift}"}


# LLMs-from-scratch (Raschka, 2024), chapters 4 to 7 and its variants with grouped queries.

RASCHKA = Course(
    name="LLMs-from-scratch",
    anchor="trf_blocks.0.att.W_query.weight",
    table={
        "decoder.embedding.tokens": "tok_emb",
        "decoder.embedding.positions.table": "pos_emb.weight",
        "decoder.layers.{}.self_attention.query": "trf_blocks.{}.att.W_query",
        "decoder.layers.{}.self_attention.key": "trf_blocks.{}.att.W_key",
        "decoder.layers.{}.self_attention.value": "trf_blocks.{}.att.W_value",
        "decoder.layers.{}.self_attention.output": "trf_blocks.{}.att.out_proj",
        **_norm("decoder.layers.{}.self_attention_block.norm", "trf_blocks.{}.norm1", "scale", "shift"),
        "decoder.layers.{}.feed_forward.hidden": "trf_blocks.{}.ff.layers.0",
        "decoder.layers.{}.feed_forward.output": "trf_blocks.{}.ff.layers.2",
        **_norm("decoder.layers.{}.feed_forward_block.norm", "trf_blocks.{}.norm2", "scale", "shift"),
        **_norm("decoder.norm", "final_norm", "scale", "shift"),
        "output.logits": "out_head",
    },
    options={"norm_placement": "pre", "activation": "gelu-tanh", "scale_embedding": False},
    buffers=r"\.att\.mask$",
)

# The GPT of Karpathy's lecture ("Let's build GPT", 2023), whose heads are modules of their own.

HEAD = re.compile(r"blocks\.0\.sa\.heads\.(\d+)\.key\.weight")


def _lecture_heads(state: State) -> int:
    return sum(HEAD.fullmatch(name) is not None for name in state.tensors)


def _lecture_table(state: State, head: int) -> Table:
    def joined(part: str) -> WeightSource:
        names = (f"blocks.{{}}.sa.heads.{number}.{part}" for number in range(_lecture_heads(state)))
        return WeightSource(tuple(names), lambda *heads: torch.cat(heads))

    return {
        "decoder.embedding.tokens": "token_embedding_table",
        "decoder.embedding.positions.table": "position_embedding_table.weight",
        "decoder.layers.{}.self_attention.query": joined("query"),
        "decoder.layers.{}.self_attention.key": joined("key"),
        "decoder.layers.{}.self_attention.value": joined("value"),
        "decoder.layers.{}.self_attention.output": "blocks.{}.sa.proj",
        "decoder.layers.{}.self_attention_block.norm": "blocks.{}.ln1",
        "decoder.layers.{}.feed_forward.hidden": "blocks.{}.ffwd.net.0",
        "decoder.layers.{}.feed_forward.output": "blocks.{}.ffwd.net.2",
        "decoder.layers.{}.feed_forward_block.norm": "blocks.{}.ln2",
        "decoder.norm": "ln_f",
        "output.logits": "lm_head",
    }


LECTURE = Course(
    name="the GPT of Karpathy's lecture",
    anchor="blocks.0.sa.heads.0.key.weight",
    table=_lecture_table,
    options={"norm_placement": "pre", "activation": "relu", "scale_embedding": False},
    heads=_lecture_heads,
    buffers=r"\.tril$",
    assumed=("scores divided by the square root of a head's width (on film it is that of d_model)",),
)

# Encoder-decoders after the paper: hyunwoongko/transformer and jadore801120/attention-is-all-you-need-pytorch.


def _two_stacks(
    embedding: Mapping[str, str], layers: str, blocks: Mapping[str, Table]
) -> dict[str, str | WeightSource]:
    """Rows of the layers of both stacks. layers: name of the list of layers. blocks: table of a layer by stack."""
    table: dict[str, str | WeightSource] = {}
    for stack, layer in blocks.items():
        table[f"{stack}.embedding.tokens"] = f"{stack}.{embedding[stack]}"
        table |= below(f"{stack}.layers.{{}}.", f"{stack}.{layers}.{{}}.", layer)
    return table


def _attention(ours: str, theirs: str, names: str) -> dict[str, str | WeightSource]:
    parts = zip(("query", "key", "value", "output"), names.split(), strict=True)
    return {f"{ours}.{part}": f"{theirs}.{name}" for part, name in parts}


def _tables(name: str) -> dict[str, str | WeightSource]:
    stacks = ("encoder", "decoder")
    return {f"{each}.embedding.positions.table": WeightSource((f"{each}.{name}",), flat_table) for each in stacks}


def _hyunwoongko(attentions: Mapping[str, str]) -> dict[str, str | WeightSource]:
    """Table of a layer. attentions: our name and the file's, in order."""
    layer: dict[str, str | WeightSource] = {"feed_forward.hidden": "ffn.linear1", "feed_forward.output": "ffn.linear2"}
    for number, (ours, theirs) in enumerate(attentions.items(), start=1):
        layer |= _attention(ours, theirs, "w_q w_k w_v w_concat")
        layer |= _norm(f"{ours}_block.norm", f"norm{number}", "gamma", "beta")
    return layer | dict(_norm("feed_forward_block.norm", f"norm{len(attentions) + 1}", "gamma", "beta"))


POST_NORM = {"norm_placement": "post", "activation": "relu", "scale_embedding": False}
HYUNWOONGKO = Course(
    name="hyunwoongko/transformer",
    anchor="encoder.layers.0.attention.w_q.weight",
    table={
        **_two_stacks(
            {"encoder": "emb.tok_emb", "decoder": "emb.tok_emb"},
            "layers",
            {
                "encoder": _hyunwoongko({"self_attention": "attention"}),
                "decoder": _hyunwoongko({"self_attention": "self_attention", "cross_attention": "enc_dec_attention"}),
            },
        ),
        **_tables("emb.pos_emb.encoding"),
        "output.logits": "decoder.linear",
    },
    options=POST_NORM | {"norm_epsilon": 1e-12},
    buffers=r"\.pos_emb\.encoding$",
    length=256,
    assumed=("norms that divide by the deviation of all channels (before December 2022 it was the sample deviation)",),
)


def _jadore801120(attentions: Mapping[str, str]) -> dict[str, str | WeightSource]:
    layer: dict[str, str | WeightSource] = {"feed_forward.hidden": "pos_ffn.w_1", "feed_forward.output": "pos_ffn.w_2"}
    for ours, theirs in attentions.items():
        layer |= _attention(ours, theirs, "w_qs w_ks w_vs fc") | {f"{ours}_block.norm": f"{theirs}.layer_norm"}
    return layer | {"feed_forward_block.norm": "pos_ffn.layer_norm"}


def _scaled(state: State, choices: Choices) -> Mapping[str, Any]:
    """Options of the factor √d_model, which the program has only where the output shares the target's matrix."""
    if not state.same("decoder.trg_word_emb.weight", "trg_word_prj.weight"):
        return {}
    usual = unsaid("logits divided by √d_model", "scale_emb_or_prj")
    where = choices.of("", ("scale_emb_or_prj",), {"prj": "", "emb": "", "none": ""}, usual)
    return {"scale_output": where == "prj", "scale_embedding": where == "emb"}


JADORE801120 = Course(
    name="jadore801120/attention-is-all-you-need-pytorch",
    anchor="encoder.layer_stack.0.slf_attn.w_qs.weight",
    table={
        **_two_stacks(
            {"encoder": "src_word_emb", "decoder": "trg_word_emb"},
            "layer_stack",
            {
                "encoder": _jadore801120({"self_attention": "slf_attn"}),
                "decoder": _jadore801120({"self_attention": "slf_attn", "cross_attention": "enc_attn"}),
            },
        ),
        **_tables("position_enc.pos_table"),
        "encoder.embedding.output.norm": "encoder.layer_norm",
        "decoder.embedding.output.norm": "decoder.layer_norm",
        "output.logits": "trg_word_prj",
    },
    options=POST_NORM | {"norm_epsilon": 1e-6, "embedding_norm": True},
    more=_scaled,
    buffers=r"\.pos_table$",
    length=200,
)

# Llama by the names of Meta's own files and of llama2.c (Karpathy, 2023), whose rotary positions turn neighbours.

LLAMA_3 = 128256  # tokens of Llama 3


@dataclass(frozen=True)
class Neighbours(Place):
    """Rows of heads whose pairs of channels stand side by side; ours stand half a head apart. head: its channels."""

    head: int

    def __call__(self, tensor: Tensor) -> Tensor:
        pairs: Tensor = tensor.unflatten(0, (-1, self.head // 2, 2))
        return pairs.transpose(1, 2).flatten(0, 2)


def _meta_table(state: State, head: int) -> Table:
    return {
        "decoder.embedding.tokens": "tok_embeddings",
        "decoder.layers.{}.self_attention.query": WeightSource(("layers.{}.attention.wq",), Neighbours(head)),
        "decoder.layers.{}.self_attention.key": WeightSource(("layers.{}.attention.wk",), Neighbours(head)),
        "decoder.layers.{}.self_attention.value": "layers.{}.attention.wv",
        "decoder.layers.{}.self_attention.output": "layers.{}.attention.wo",
        "decoder.layers.{}.self_attention_block.norm": "layers.{}.attention_norm",
        "decoder.layers.{}.feed_forward.hidden": "layers.{}.feed_forward.w1",
        "decoder.layers.{}.feed_forward.linear": "layers.{}.feed_forward.w3",
        "decoder.layers.{}.feed_forward.output": "layers.{}.feed_forward.w2",
        "decoder.layers.{}.feed_forward_block.norm": "layers.{}.ffn_norm",
        "decoder.norm": "norm",
        "output.logits": "output",
    }


STRETCHES = re.compile(r"rope_(scaling|parameters|adjustments)\.")


def rotary_options(state: State, choices: Choices, usual: float, factor: float = 8.0) -> dict[str, Any]:
    """Base and stretch of rotary positions as config.json or params.json beside the file says. usual, factor: the base
    and the stretch where they are not said; what else is not said of a stretch is as of Llama 3.1.

    Raises:
        CheckpointError: they are stretched in a way that ours are not.
    """
    base = choices.number(
        ("rope_theta", "rope_base"), usual, Message("rotary positions of base {usual:,.0f}", usual=usual)
    )
    values = {name.rpartition(".")[2]: value for name, value in state.records.items() if STRETCHES.search(name)}
    default_kind = "llama3" if "low_freq_factor" in values else "linear" if "factor" in values else None
    kind = values.get("rope_type", values.get("type", default_kind))
    if kind not in (None, "default", "llama3"):
        raise CheckpointError(
            "{file}: its rotary positions are of the kind {kind!r}, which is not computed from these names: "
            "convert it to Hugging Face's format and open that folder",
            file=state.name,
            kind=str(kind)[:40],
        )
    if kind != "llama3" and state.record("use_scaled_rope") is not True:
        return {"position_base": base}
    names = {
        ("factor", "rope_scaling_factor"): factor,
        ("original_max_position_embeddings", "original_max_seq_len"): 8192.0,
        ("low_freq_factor",): 1.0,
        ("high_freq_factor",): 4.0,
    }
    stretch, trained, slow, fast = (choices.number(each, value) for each, value in names.items())
    if missing := [f"{each[0]} {value:g}" for each, value in names.items() if state.record(*each) is None]:
        stretched = Message("rotary positions stretched with {missing}", missing=", ".join(missing))
        choices.assumed.append(unsaid(stretched, "rope_scaling"))
    lengths = {"rotary_short": trained / fast, "rotary_long": trained / slow}
    return {"position_base": base, "rotary_stretch": stretch, **lengths}


def _meta(state: State, choices: Choices) -> Mapping[str, Any]:
    usual = 500000.0 if state.shape("tok_embeddings.weight")[0] == LLAMA_3 else 10000.0
    tied = "output.weight" not in state.tensors or state.same("tok_embeddings.weight", "output.weight")
    length = choices.count(("max_seq_len", "max_position_embeddings"), 2048, "texts of at most 2,048 tokens")
    return {
        "norm_epsilon": choices.number(("norm_eps", "rms_norm_eps"), 1e-5, "ε = 1e-5 in its norms"),
        "max_length": length,
        "window": choices.count(("sliding_window",), 0) or None,
        **rotary_options(state, choices, usual, 32.0 if tied else 8.0),  # of the two tied ones, Llama 3.2 1B and 3B
    }


META = Course(
    name="Llama in Meta's names",
    anchor="layers.0.attention.wq.weight",
    table=_meta_table,
    options={
        "norm": "rms",
        "norm_placement": "pre",
        "activation": "swiglu",
        "position": "rotary",
        "scale_embedding": False,
    },
    more=_meta,
    buffers=r"^(rope\.freqs|freqs_(cos|sin|cis))$",
)

COURSES = (RASCHKA, LECTURE, HYUNWOONGKO, JADORE801120, META)
