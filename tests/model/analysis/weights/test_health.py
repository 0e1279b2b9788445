"""The health of files with one thing wrong each, made so; a sound file has no finding.

Tokens that never occurred in a training are found by their lengths where these tell it, else beside its beginning.
"""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from model.analysis.weights import health
from model.analysis.weights.health import KINDS, Finding
from model.checkpoints.tensors import tensor_table
from tests.model.analysis.weights.test_statistics import info
from tests.model.examples import network
from tests.model.tensor_files import all_spectra, all_statistics, raw_safetensors

Tensors = dict[str, torch.Tensor]
HIDDEN, OUTPUT = "layers.0.feed_forward.hidden.weight", "layers.0.feed_forward.output.weight"
TOKENS, NORM, OTHER = "embedding.tokens.weight", "norm.weight", "something.else"
VOCABULARY, NEVER = 60, (7, 31, 32, 58)


def sound() -> Tensors:
    return {
        TOKENS: torch.randn(50, 16),
        HIDDEN: torch.randn(32, 16),
        "layers.0.feed_forward.hidden.bias": torch.randn(32) * 0.1,
        OUTPUT: torch.randn(16, 32),
        NORM: 1 + 0.1 * torch.randn(128),
        OTHER: torch.randn(9, 9),
    }


def findings_of(tensors: Tensors, tied: dict[str, str] | None = None, spectra: bool = True) -> list[Finding]:
    infos = [info(name, tensor, (tied or {}).get(name, "")) for name, tensor in tensors.items()]
    measured = {each.place: values for each, values in all_statistics(infos)}
    singular = {each.place: values for each, values in all_spectra(infos)} if spectra else {}
    return health.health(infos, measured, singular)


def test_sound_weights_have_no_finding():
    assert findings_of(sound()) == []
    assert findings_of(dict(network(d_ff=64).state_dict())) == []


def change(name: str, place: object, value: float) -> Callable[[Tensors], None]:
    def act(tensors: Tensors) -> None:
        tensors[name][place] = value

    return act


def dead_into(tensors: Tensors) -> None:
    tensors[HIDDEN][3] = tensors["layers.0.feed_forward.hidden.bias"][3] = 0
    tensors[HIDDEN][5] = 0  # its bias keeps it alive


def same_tokens(tensors: Tensors) -> None:
    tensors[TOKENS][[4, 40]] = tensors[TOKENS][7].clone()


@pytest.mark.parametrize(
    ("spoil", "kind", "name", "number", "rows"),
    [
        (change(OUTPUT, (0, slice(2)), torch.nan), "nan", OUTPUT, 2, ()),
        (change(NORM, 3, -torch.inf), "infinite", NORM, 1, ()),
        (change(OTHER, slice(None), 0.0), "zero", OTHER, 81, ()),
        (change(NORM, slice(None), 0.5), "constant", NORM, 0.5, ()),
        (change(OTHER, (0, slice(None)), -20000.0), "half", OTHER, 20000, ()),
        (dead_into, "dead_units", HIDDEN, 1 / 32, (3,)),
        (change(OUTPUT, (slice(None), 8), 0.0), "dead_units", OUTPUT, 1 / 32, (8,)),
        (change(NORM, [1, 2], 12.0), "large_gain", NORM, 2 / 128, (1, 2)),
        (change(NORM, [5, 9, 11], 1e-4), "small_gain", NORM, 3 / 128, (5, 9, 11)),
        (change(TOKENS, [1, 30], 1e-3), "short_tokens", TOKENS, 0.04, (1, 30)),
        (same_tokens, "same_tokens", TOKENS, 3 / 50, (4, 7, 40)),
    ],
)
def test_what_is_wrong_is_found(spoil, kind, name, number, rows):
    tensors = sound()
    spoil(tensors)
    findings = {(each.kind, each.tensor): each for each in findings_of(tensors)}
    assert set(KINDS) >= {each for each, _name in findings}
    assert (findings[kind, name].number, findings[kind, name].rows) == (pytest.approx(number), rows)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int64])
def test_every_type_and_no_values(dtype):
    tensors = {name: tensor.to(dtype) for name, tensor in sound().items()}
    tensors |= {"empty.wte.weight": torch.zeros(0, 4, dtype=dtype), "number": torch.tensor(3).to(dtype)}
    kinds = {each.kind for each in findings_of(tensors)}
    assert kinds == (set() if dtype.is_floating_point else {"zero", "small_gain"})  # what rounding leaves of them


def test_one_feature_is_not_many():
    assert not findings_of(sound() | {NORM: torch.ones(128).index_fill(0, torch.tensor([3]), 100.0)})


def test_long_rows_and_singular_matrices():
    tensors = sound()
    tensors[OTHER][5] *= 30
    (long,) = findings_of(tensors)
    lengths = tensors[OTHER].norm(dim=1)
    assert (long.kind, long.rows) == ("long_rows", (5,))
    assert long.number == pytest.approx(float(lengths[5] / lengths.median()), rel=1e-6)
    tensors = sound()
    tensors[OTHER][0] = tensors[OTHER][1] * (1 + 1e-7)
    (worst,) = findings_of(tensors)
    assert (worst.kind, worst.tensor) == ("condition", "something.else")
    assert worst.number > 1e6


def test_copies_are_told_from_tied_and_from_alike():
    tensors = sound()
    tensors["copy"] = tensors[OTHER].clone()
    tensors["tied"] = tensors[OTHER]
    tensors["near"] = tensors[HIDDEN] + 1e-3 * torch.randn(32, 16)
    tensors["rounded"] = tensors[OUTPUT].half()
    tensors["shuffled"] = tensors[HIDDEN].flip(0)  # same statistics, other values
    copy, near, rounded = findings_of(tensors, tied={"tied": OTHER})
    assert copy == Finding("copy", "copy", 324.0, other="something.else")
    assert (near.kind, near.tensor, near.other) == ("near_copy", "near", HIDDEN)
    assert near.number == pytest.approx(1e-3, rel=0.2)
    assert (rounded.kind, rounded.other) == ("near_copy", OUTPUT)


def test_distances():
    one, two = torch.randn(3000), torch.randn(3000)
    assert health.distance(one, two) == pytest.approx(float((one - two).norm() / two.norm()))
    assert health.distance(one, torch.zeros(3000)) == float("inf")
    assert health.distance(torch.zeros(3), torch.zeros(3)) == 0


ROLES = {
    "embedding": """
        decoder.embedding.tokens.weight transformer.wte.weight model.embed_tokens.weight shared.weight
        bert.embeddings.word_embeddings.weight gpt_neox.embed_in.weight src_embed.0.lut.weight""",
    "norm": """
        encoder.layers.0.self_attention_block.norm.weight h.0.ln_1.weight transformer.ln_f.weight model.norm.weight
        model.layers.0.input_layernorm.weight encoder.layer.0.output.LayerNorm.gamma norm.a_2
        model.decoder.layers.1.final_layer_norm.weight transformer_encoder.layers.0.norm1.weight""",
    "hidden": f"""
        {HIDDEN} decoder.layers.0.feed_forward.linear.weight h.0.mlp.c_fc.weight layers.0.fc1.weight
        model.layers.0.mlp.gate_proj.weight encoder.layer.0.intermediate.dense.weight layers.3.linear1.weight
        encoder.block.0.layer.1.DenseReluDense.wi_0.weight transformer.layer.2.ffn.lin1.weight""",
    "output": f"""
        {OUTPUT} h.0.mlp.c_proj.weight model.layers.0.mlp.down_proj.weight encoder.layer.0.output.dense.weight
        encoder.block.0.layer.1.DenseReluDense.wo.weight layers.0.mlp.dense_4h_to_h.weight layers.0.fc2.weight""",
    "words": """
        output.logits.weight lm_head.weight embed_out.weight head.weight cls.predictions.decoder.weight
        lm_head.decoder.weight vocab_projector.weight generator.proj.weight""",
    None: """
        h.0.attn.c_proj.weight encoder.layer.0.attention.output.dense.weight attention.head.weight norm.bias
        encoder.layers.0.self_attention.output.weight positions.table something.else embed_positions.weight""",
}


@pytest.mark.parametrize(("expected", "name"), [(kind, name) for kind in ROLES for name in ROLES[kind].split()])
def test_names_tell_roles(expected, name):
    assert health.role(name) == expected


def test_units_are_found_however_the_matrix_is_written():
    for name, shape, axis in [
        ("h.0.mlp.c_fc.weight", (16, 64), 1),
        ("h.0.mlp.c_fc.weight", (64, 16), 0),
        ("h.0.mlp.c_proj.weight", (64, 16), 0),
        ("h.0.mlp.c_proj.weight", (16, 64), 1),
        (HIDDEN, (16, 64), 0),
        (OUTPUT, (64, 16), 1),
    ]:
        assert health.unit_axis(info(name, torch.zeros(shape))) == axis


def test_a_tied_tensor_goes_by_the_name_that_tells():
    tensors = [info("lm_head.weight", torch.ones(2)), info("wte.weight", torch.ones(2), place="lm_head.weight")]
    assert [each.name for each in health.telling(tensors)] == ["wte.weight"]


def trained(spread: float, rate: float, decay: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding of a model that learns the next of two tokens, at first and at last; some tokens never occur."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 24), nn.Linear(24, VOCABULARY))
    embedding: torch.Tensor = model[0].weight
    with torch.no_grad():
        embedding.mul_(spread)
    before = embedding.detach().clone()
    occur = torch.tensor([token for token in range(VOCABULARY) if token not in NEVER])
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    for _step in range(60):
        text = occur[torch.randint(len(occur), (200,))]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(text), text.roll(1)).backward()
        optimizer.step()
    return before, embedding.detach().clone()


def of_tokens(rows: torch.Tensor) -> dict[str, tuple[int, ...]]:
    return {each.kind: each.rows for each in findings_of({TOKENS: rows}, spectra=False)}


def test_rows_as_they_began_stand_out_where_the_others_have_grown():
    _before, after = trained(spread=0.02, rate=0.02)
    ((kind, rows),) = of_tokens(after).items()
    assert kind in ("odd_tokens", "short_tokens")
    assert rows == NEVER


def test_weight_decay_leaves_next_to_nothing_of_them():
    """Where a token never comes, AdamW's decay is all that happens to its row."""
    _before, after = trained(spread=1.0, rate=0.1, decay=1.0)
    assert of_tokens(after)["short_tokens"] == NEVER


def test_what_lengths_cannot_tell_the_beginning_does():
    before, after = trained(spread=1.0, rate=1e-3)
    assert of_tokens(after) == {}
    (finding,) = health.unmoved_tokens([info(TOKENS, after)], [info(TOKENS, before)], "step-0")
    assert (finding.kind, finding.rows, finding.other) == ("unmoved_tokens", NEVER, "step-0")
    assert finding.number == pytest.approx(len(NEVER) / VOCABULARY)
    others = info(TOKENS, before[1:]), info("other.weight", before), info(TOKENS, after)  # of the last nothing moved
    assert [health.unmoved_tokens([info(TOKENS, after)], [other], "x") for other in others] == [[], [], []]


def test_rows_of_zeros_and_equal_rows_are_told_apart():
    rows = torch.randn(50, 64)
    rows[[3, 9]] = 0
    rows[[5, 40]] = rows[4].clone()
    assert of_tokens(rows) == {"zero_tokens": (3, 9), "same_tokens": (4, 5, 40)}
    assert of_tokens(torch.zeros(50, 64)) == {"zero": ()}


def test_an_output_matrix_of_its_own_is_looked_at_too():
    """Made for it: two rows of zeros, three equal ones, two that no step moved."""
    name, before = "lm_head.weight", torch.randn(50, 64)
    after = before + 0.1 * torch.randn(50, 64)
    after[[3, 9]] = 0
    after[[5, 40]] = after[4].clone()
    after[[20, 21]] = before[[20, 21]]
    tensors = {TOKENS: torch.randn(50, 64), name: after}
    findings = {each.kind: (each.tensor, each.rows, each.number) for each in findings_of(tensors, spectra=False)}
    zero, same = (name, (3, 9), pytest.approx(2 / 50)), (name, (4, 5, 40), pytest.approx(3 / 50))
    assert findings == {"zero_tokens": zero, "same_tokens": same}
    infos = [info(TOKENS, tensors[TOKENS]), info(name, after)]
    (stuck,) = health.unmoved_tokens(infos, [info(name, before)], "step-0")
    assert (stuck.tensor, stuck.rows, stuck.number) == (name, (20, 21), pytest.approx(2 / 50))


def test_a_tied_output_matrix_is_told_once():
    rows = torch.randn(50, 64)
    rows[[3, 9]] = 0
    both = {"lm_head.weight": rows, "model.embed_tokens.weight": rows}
    (finding,) = findings_of(both, tied={"model.embed_tokens.weight": "lm_head.weight"}, spectra=False)
    assert (finding.kind, finding.tensor) == ("zero_tokens", "model.embed_tokens.weight")
    assert [each.kind for each in findings_of(both, spectra=False)] == ["zero_tokens", "copy"]


def test_the_rule_by_hand():
    """ln ‖row‖ is 0 of nine rows, ±0.1 of eight: median 0, median distance 0.1, five deviations of it 0.7413."""
    logarithms = torch.tensor([0.0] * 8 + [0.1] * 6 + [-0.1] * 6 + [0.75, 0.73, -0.75])
    expected = torch.tensor([False] * 20 + [True, False, True])
    assert torch.equal(health.apart(logarithms.exp()), expected)
    narrow = torch.tensor([1.0] * 20 + [1.24, 1.26])  # no deviation at all: a quarter decides
    assert health.apart(narrow).nonzero().flatten().tolist() == [21]
    assert not health.apart(torch.zeros(9)).any()


@pytest.mark.parametrize(("shape", "dtype", "size"), [([5, 0], "F32", 0), ([0, 4], "F32", 0), ([4, 4], "F6_E2M3", 12)])
def test_an_embedding_without_values_that_torch_knows_is_left_out(shape, dtype, size, tmp_path):
    header = {"wte.weight": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    table = tensor_table(raw_safetensors(tmp_path / "x.safetensors", header, bytes(size)))
    assert health.unmoved_tokens(table, table, "itself") == []


def test_rows_are_compared_by_their_values_and_nan_is_none():
    before = torch.randn(4000, 600)
    after = before.clone()
    after[1, 2] += 1e-6
    after[3000, 5] = before[3000, 5] = torch.nan
    assert (~health.unmoved(before, after)).nonzero().flatten().tolist() == [1, 3000]
    assert health.unmoved(before.half(), before.half().float())[0]
