"""The health of files with one thing wrong each, made so; a sound file has no finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from model.analysis.weights.health import KINDS, Finding, distance, health, role, telling, unit_axis
from model.analysis.weights.spectra import all_singular_values
from tests.model.analysis.weights.test_statistics import info
from tests.model.examples import network
from tests.model.tensor_files import all_statistics

Tensors = dict[str, torch.Tensor]
HIDDEN, OUTPUT = "layers.0.feed_forward.hidden.weight", "layers.0.feed_forward.output.weight"


def sound() -> Tensors:
    return {
        "embedding.tokens.weight": torch.randn(50, 16),
        HIDDEN: torch.randn(32, 16),
        "layers.0.feed_forward.hidden.bias": torch.randn(32) * 0.1,
        OUTPUT: torch.randn(16, 32),
        "norm.weight": 1 + 0.1 * torch.randn(128),
        "something.else": torch.randn(9, 9),
    }


def found(tensors: Tensors, tied: dict[str, str] | None = None) -> list[Finding]:
    infos = [info(name, tensor, (tied or {}).get(name, "")) for name, tensor in tensors.items()]
    measured = {each.place: values for each, values in all_statistics(infos)}
    return health(infos, measured, {each.place: values for each, values in all_singular_values(infos)})


def test_sound_weights_have_no_finding():
    assert found(sound()) == []
    assert found(dict(network(d_ff=64).state_dict())) == []


def change(name: str, place: object, value: float) -> Callable[[Tensors], None]:
    def act(tensors: Tensors) -> None:
        tensors[name][place] = value

    return act


def dead_into(tensors: Tensors) -> None:
    tensors[HIDDEN][3] = tensors["layers.0.feed_forward.hidden.bias"][3] = 0
    tensors[HIDDEN][5] = 0  # its bias keeps it alive


def same_tokens(tensors: Tensors) -> None:
    tensors["embedding.tokens.weight"][[4, 40]] = tensors["embedding.tokens.weight"][7].clone()


def singular(tensors: Tensors) -> None:
    tensors["something.else"][0] = tensors["something.else"][1] * (1 + 1e-7)


def long_row(tensors: Tensors) -> None:
    tensors["something.else"][5] *= 30


@pytest.mark.parametrize(
    ("spoil", "kind", "name", "number", "rows"),
    [
        (change(OUTPUT, (0, slice(2)), torch.nan), "nan", OUTPUT, 2, ()),
        (change("norm.weight", 3, -torch.inf), "infinite", "norm.weight", 1, ()),
        (change("something.else", slice(None), 0.0), "zero", "something.else", 81, ()),
        (change("norm.weight", slice(None), 0.5), "constant", "norm.weight", 0.5, ()),
        (change("something.else", (0, slice(None)), -20000.0), "half", "something.else", 20000, ()),
        (dead_into, "dead_units", HIDDEN, 1 / 32, (3,)),
        (change(OUTPUT, (slice(None), 8), 0.0), "dead_units", OUTPUT, 1 / 32, (8,)),
        (change("norm.weight", [1, 2], 12.0), "large_gain", "norm.weight", 2 / 128, (1, 2)),
        (change("norm.weight", [5, 9, 11], 1e-4), "small_gain", "norm.weight", 3 / 128, (5, 9, 11)),
        (change("embedding.tokens.weight", [1, 30], 1e-3), "short_tokens", "embedding.tokens.weight", 0.04, (1, 30)),
        (same_tokens, "same_tokens", "embedding.tokens.weight", 3 / 50, (4, 7, 40)),
    ],
)
def test_what_is_wrong_is_found(spoil, kind, name, number, rows):
    tensors = sound()
    spoil(tensors)
    findings = {(each.kind, each.tensor): each for each in found(tensors)}
    assert set(KINDS) >= {each for each, _name in findings}
    assert (findings[kind, name].number, findings[kind, name].rows) == (pytest.approx(number), rows)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int64])
def test_every_type_and_no_values(dtype):
    tensors = {name: tensor.to(dtype) for name, tensor in sound().items()}
    tensors |= {"empty.wte.weight": torch.zeros(0, 4, dtype=dtype), "number": torch.tensor(3).to(dtype)}
    kinds = {each.kind for each in found(tensors)}
    assert kinds == (set() if dtype.is_floating_point else {"zero", "small_gain"})  # what rounding leaves of them


def test_one_feature_is_not_many():
    tensors = sound()
    tensors["norm.weight"][3] = 100
    assert not found(tensors)


def test_long_rows_and_singular_matrices():
    tensors = sound()
    long_row(tensors)
    (long,) = found(tensors)
    lengths = tensors["something.else"].norm(dim=1)
    assert (long.kind, long.rows) == ("long_rows", (5,))
    assert long.number == pytest.approx(float(lengths[5] / lengths.median()), rel=1e-6)
    tensors = sound()
    singular(tensors)
    (worst,) = found(tensors)
    assert (worst.kind, worst.tensor) == ("condition", "something.else")
    assert worst.number > 1e6


def test_copies_are_told_from_tied_and_from_alike():
    tensors = sound()
    tensors["copy"] = tensors["something.else"].clone()
    tensors["tied"] = tensors["something.else"]
    tensors["near"] = tensors[HIDDEN] + 1e-3 * torch.randn(32, 16)
    tensors["rounded"] = tensors[OUTPUT].half()
    tensors["shuffled"] = tensors[HIDDEN].flip(0)  # same statistics, other values
    copy, near, rounded = found(tensors, tied={"tied": "something.else"})
    assert copy == Finding("copy", "copy", 324.0, other="something.else")
    assert (near.kind, near.tensor, near.other) == ("near_copy", "near", HIDDEN)
    assert near.number == pytest.approx(1e-3, rel=0.2)
    assert (rounded.kind, rounded.other) == ("near_copy", OUTPUT)


def test_distances():
    one, two = torch.randn(3000), torch.randn(3000)
    assert distance(one, two) == pytest.approx(float((one - two).norm() / two.norm()))
    assert (distance(one, torch.zeros(3000)), distance(torch.zeros(3), torch.zeros(3))) == (float("inf"), 0)


@pytest.mark.parametrize(
    ("expected", "names"),
    [
        ("embedding", "decoder.embedding.tokens.weight transformer.wte.weight model.embed_tokens.weight shared.weight"),
        ("embedding", "bert.embeddings.word_embeddings.weight gpt_neox.embed_in.weight src_embed.0.lut.weight"),
        ("norm", "encoder.layers.0.self_attention_block.norm.weight h.0.ln_1.weight transformer.ln_f.weight"),
        ("norm", "model.layers.0.input_layernorm.weight encoder.layer.0.output.LayerNorm.gamma model.norm.weight"),
        ("norm", "model.decoder.layers.1.final_layer_norm.weight transformer_encoder.layers.0.norm1.weight norm.a_2"),
        ("hidden", f"{HIDDEN} decoder.layers.0.feed_forward.linear.weight h.0.mlp.c_fc.weight layers.0.fc1.weight"),
        (
            "hidden",
            "model.layers.0.mlp.gate_proj.weight encoder.layer.0.intermediate.dense.weight layers.3.linear1.weight",
        ),
        ("hidden", "encoder.block.0.layer.1.DenseReluDense.wi_0.weight transformer.layer.2.ffn.lin1.weight"),
        (
            "output",
            f"{OUTPUT} h.0.mlp.c_proj.weight model.layers.0.mlp.down_proj.weight encoder.layer.0.output.dense.weight",
        ),
        (
            "output",
            "encoder.block.0.layer.1.DenseReluDense.wo.weight layers.0.mlp.dense_4h_to_h.weight layers.0.fc2.weight",
        ),
        (
            None,
            "h.0.attn.c_proj.weight encoder.layer.0.attention.output.dense.weight attention.head.weight norm.bias",
        ),
        ("words", "output.logits.weight lm_head.weight embed_out.weight head.weight cls.predictions.decoder.weight"),
        ("words", "lm_head.decoder.weight vocab_projector.weight generator.proj.weight"),
        (None, "encoder.layers.0.self_attention.output.weight positions.table something.else embed_positions.weight"),
    ],
)
def test_names_tell_roles(expected, names):
    for name in names.split():
        assert role(name) == expected, name


def test_units_are_found_however_the_matrix_is_written():
    for name, shape, axis in [
        ("h.0.mlp.c_fc.weight", (16, 64), 1),
        ("h.0.mlp.c_fc.weight", (64, 16), 0),
        ("h.0.mlp.c_proj.weight", (64, 16), 0),
        ("h.0.mlp.c_proj.weight", (16, 64), 1),
        (HIDDEN, (16, 64), 0),
        (OUTPUT, (64, 16), 1),
    ]:
        assert unit_axis(info(name, torch.zeros(shape))) == axis


def test_a_tied_tensor_goes_by_the_name_that_tells():
    tensors = [info("lm_head.weight", torch.ones(2)), info("wte.weight", torch.ones(2), place="lm_head.weight")]
    assert [each.name for each in telling(tensors)] == ["wte.weight"]
