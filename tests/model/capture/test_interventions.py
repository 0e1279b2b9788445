"""Changed masks against passes whose masks were built by hand, and against torch's attention."""

import copy
import threading
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.checks import checks
from model.capture import interventions
from model.capture.interventions import Causal, Cells, Intervention, PaddingSeen, RemovedHead, Window
from model.capture.trace import Trace
from model.network.masks import Mask
from tests.model import examples
from tests.model.examples import network, one_stack

SOURCE = torch.tensor([[5, 6, 7, 3, 9], [9, 3, 0, 0, 0]])  # 0 is padding
TARGET = torch.tensor([[1, 4, 12, 8], [1, 2, 0, 0]])
IDS = torch.tensor([[5, 6, 7, 3, 9, 2]])
ALL = [
    Causal("encoder", True),
    Causal("decoder", False),
    PaddingSeen("cross"),
    Window("decoder", 2),
    Window("encoder", None),
    Cells("cross", False, 2, 1),
    Cells("decoder", True, 0, 3, layer=1),
    Cells("encoder", False, None, 4, layer=0, head=1),
    Cells("decoder", False, 2),
    RemovedHead("encoder", 1, 0),
]


def traced(model, *changes, ids=(SOURCE, TARGET, SOURCE != 0, TARGET != 0), maps=False) -> Trace:
    return examples.traced(model, *changes, ids=ids, maps=maps)


def by_hand(trace: Trace, path: str, visible: torch.Tensor) -> torch.Tensor:
    """The heads' outputs of torch's attention on the recorded query, key and value, with this mask."""
    query, key, value = (trace[f"{path}.{name}"] for name in ("query", "key", "value"))
    scores = (query @ key.mT * query.shape[-1] ** -0.5).masked_fill(~visible, -torch.inf)
    return F.softmax(scores, dim=-1).nan_to_num(0.0) @ value


@pytest.mark.parametrize("maps", [False, True])
def test_causal_off_is_a_decoder_that_was_given_no_causal_mask(maps):
    model = network()
    trace = traced(model, Causal("decoder", False), maps=maps)
    with torch.inference_mode():
        memory = model.encode(SOURCE, SOURCE != 0)
        states = model.decoder(TARGET, Mask(keys=TARGET != 0), memory, Mask(keys=SOURCE != 0))
        expected = model.output(states)[0]
    assert_close(trace["output.logits"], expected)
    assert trace["decoder.layers.0.self_attention.visible"].all()
    assert (trace["decoder.layers.0.self_attention.weights"][:, 0, 1:] > 0).all()
    assert not torch.allclose(traced(model)["output.logits"], expected, atol=1e-3)


MASKED = [
    (partial(one_stack, "encoder-only"), interventions.Causal("encoder", True), Mask(causal=True)),
    (partial(one_stack, "decoder-only"), interventions.Window("decoder", 3), Mask(causal=True, window=3)),
    (partial(one_stack, "decoder-only", window=2), interventions.Window("decoder", 3), Mask(causal=True, window=3)),
]


@pytest.mark.parametrize(("make", "change", "mask"), MASKED)
def test_an_encoder_becomes_a_decoder_and_a_window_replaces_the_models_own(make, change, mask):
    model = make()
    trace = traced(model, change, ids=(IDS,))
    with torch.inference_mode():
        states = model.get_submodule(change.kind)(IDS, mask)
        assert_close(trace["output.logits"], model.output(states)[0])
    path = f"{change.kind}.layers.1.self_attention"
    assert torch.equal(trace[f"{path}.visible"], mask.visible(6, 6, IDS.device)[0, 0])


def test_padding_seen_is_a_pass_that_was_told_of_no_padding():
    model = network()
    changes = [PaddingSeen(kind) for kind in ("encoder", "decoder", "cross")]
    trace = traced(model, *changes).example(1)
    with torch.inference_mode():
        assert_close(trace["output.logits"], model(SOURCE, TARGET)[1])


@pytest.mark.parametrize("options", [{}, {"position": "alibi"}, {"position": "rotary", "n_key_value_heads": 1}])
def test_a_cell_of_one_head_is_hidden_there_alone(options):
    model = one_stack("decoder-only", **options)
    trace = traced(model, Cells("decoder", False, 3, 1, layer=1, head=0), ids=(IDS,))
    path = "decoder.layers.1.self_attention"
    weights = trace[f"{path}.weights"]
    assert weights[0, 3, 1] == 0
    assert weights[1, 3, 1] > 0
    assert trace["decoder.layers.0.self_attention.weights"][:, 3, 1].min() > 0
    assert trace[f"{path}.visible"][3, 1]
    assert trace.visible(path).shape == (2, 6, 6)
    assert trace.visible(path)[:, 3, 1].tolist() == [False, True]
    assert_close(trace[f"{path}.heads"], weights @ trace.values(path))
    assert all(check.passed for check in checks(trace))


def test_cells_are_hidden_and_shown_as_torch_says():
    model = network()
    changes = [Cells("decoder", True, 0, 2), Cells("decoder", False, 3, 0), Cells("cross", False, None, 1)]
    trace = traced(model, *changes)
    visible = torch.ones(4, 4).tril().bool()
    visible[0, 2], visible[3, 0] = True, False
    path = "decoder.layers.0.self_attention"
    assert_close(trace[f"{path}.heads"], by_hand(trace, path, visible))
    seen = torch.ones(4, 5).bool()
    seen[:, 1] = False
    path = "decoder.layers.1.cross_attention"
    assert_close(trace[f"{path}.heads"], by_hand(trace, path, seen))
    assert torch.equal(trace[f"{path}.visible"], seen)


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_row_with_nothing_to_look_at_gives_zeros_and_never_nan(kind, maps):
    trace = traced(network(), Cells(kind, False, 2), maps=maps)
    path = trace.attention_paths(kind)[1]
    assert (trace[f"{path}.weights"][:, 2] == 0).all()
    assert (trace[f"{path}.heads"][:, 2] == 0).all()
    assert trace["output.logits"].isfinite().all()
    assert [check.name for check in checks(trace) if not check.passed] == ["rows"]  # it adds up to 0


def test_later_edits_win_and_cells_outside_are_none():
    cells = [Cells("decoder", False, 1), Cells("decoder", True, 1, 0), Cells("decoder", False, 40, 40)]
    trace = traced(network(), *cells, Cells("cross", False, 0, 0, layer=9), Cells("cross", False, 0, 0, head=9))
    assert trace["decoder.layers.0.self_attention.visible"][1].tolist() == [True, False, False, False]
    assert trace["decoder.layers.0.cross_attention.visible"].all()


def test_a_change_holds_inside_of_its_block_and_thread_and_for_this_model_alone():
    model = network()
    other, outputs = copy.deepcopy(model), {}
    with torch.inference_mode():
        expected = model(SOURCE, TARGET)
        with interventions.intervening(model, [Causal("decoder", False)]):
            thread = threading.Thread(target=lambda: outputs.update(thread=model(SOURCE, TARGET)))
            thread.start()
            thread.join()
            outputs["copy"] = other(SOURCE, TARGET)
            changed = model(SOURCE, TARGET)
        outputs["afterwards"] = model(SOURCE, TARGET)
    for name, output in outputs.items():
        assert torch.equal(output, expected), name
    assert not torch.equal(changed, expected)
    assert torch.equal(traced(model, ids=(SOURCE, TARGET))["output.logits"], expected[0])


@dataclass(frozen=True)
class Unscaled(Intervention):
    """1/√d_k left out."""

    explicit = True

    def after(self, path, module, inputs, output):
        return inputs[0] if path.endswith(".scaled") else output


def test_changes_of_other_modules_are_recorded_and_computed_on_demand():
    model, unscaled = network(d_model=32), network(d_model=32, scale_attention=False)
    trace = traced(model, RemovedHead("cross", 0, 1), ids=(SOURCE[:1], TARGET[:1]))
    heads = trace["decoder.layers.0.cross_attention.heads"]
    assert (heads[1] == 0).all()
    assert (heads[0] != 0).all()
    with torch.inference_mode():
        expected = model.decoder.layers[0].cross_attention.output(heads.transpose(0, 1).flatten(1))
    assert_close(trace["decoder.layers.0.cross_attention.output"], expected)
    trace, plain = traced(model, Unscaled(), ids=(SOURCE[:1], TARGET[:1])), traced(unscaled)
    path = "encoder.layers.0.self_attention"
    assert torch.equal(trace[f"{path}.scaled"], trace[f"{path}.scores"])
    assert_close(trace[f"{path}.weights"], plain[f"{path}.weights"])
    assert_close(trace["output.logits"], plain["output.logits"])


def test_inner_changes_come_on_top_of_outer_ones():
    model = network()
    with torch.inference_mode(), interventions.intervening(model, [Cells("cross", False, 1, 0)]):
        trace = traced(model, Cells("cross", False, 1, 1))
    assert trace["decoder.layers.0.cross_attention.visible"][1].tolist() == [False, False, True, True, True]
    assert len(trace.changes) == 2


def test_changes_are_read_as_they_were_written():
    assert interventions.read_changes(interventions.write_changes(ALL)) == tuple(ALL)
    assert interventions.read_changes("") == ()
    assert interventions.write_changes(ALL[-5:]) == (
        "cross.*.*:hide:2,1;decoder.1.*:show:0,3;encoder.0.1:hide:*,4;decoder.*.*:hide:2,*;encoder.1.0:remove"
    )
    assert len({*ALL, *interventions.read_changes(interventions.write_changes(ALL))}) == len(ALL)


HOSTILE = ["x", ";", "decoder:causal:maybe", "decoder:window:0", "decoder.1:hide:2,3", "cross.*.*:hide:٣,1", "a;" * 999]
HOSTILE += ["decoder.*.1:remove", "decoder.1:remove", "decoder.1.999999:remove", "cross.0.٣:remove"]
HOSTILE += ["<script>.0.0:remove", "decoder.0.0:remove\n", "decoder.-1.0:remove"]


@pytest.mark.parametrize("text", HOSTILE)
def test_another_text_is_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match=r"is no change: write|500 are the most|must be at least 1"):
        interventions.read_changes(text)


def test_paths_tell_kind_and_layer():
    assert interventions.kind_and_layer("decoder.layers.12.cross_attention") == ("cross", 12)
    assert interventions.kind_and_layer("encoder.layers.0.self_attention") == ("encoder", 0)
    assert interventions.kind_and_layer("decoder.layers.0.self_attention.query") == ("", -1)
    assert interventions.kind_and_layer("output.logits") == ("", -1)
