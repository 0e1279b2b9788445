"""The map page: what it sends to the browser, and where clicks lead."""

from __future__ import annotations

import re

import numpy as np
import pytest

import viz.pages.map.page
import viz.state.checkpoints
from model.analysis.blocks import blocks
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.app_reading import component, opened
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.test_rooms import ROOT
from tests.viz.no_server import no_server
from tests.viz.small import looking, write_small
from viz.i18n.format import significant
from viz.pages.map.components import ModelMap
from viz.pages.map.page import model_map, table
from viz.pages.map.pictures import Pictures
from viz.state.session import Key, Selection, Session

TEXT = "The cat sees."


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The only checkpoint is a small one with random weights."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    return open_checkpoint(write_small(tmp_path / "small", n_decoder_layers=1))


def drawn(inputs, query: int | None = None) -> ModelMap:
    return model_map(inputs, Pictures(inputs.trace, inputs.comparison, False), query)


def test_the_map_is_the_whole_traced_model(small):
    figure = drawn(looking(small, TEXT).inputs)
    trace, stacks, blocks = small.trace(TEXT), figure.model["stacks"], figure.model["blocks"]
    assert [stack["name"] for stack in stacks] == ["Encoder", "Decoder"]
    assert [stack["labels"] for stack in stacks] == [trace.source_tokens, trace.target_tokens]
    assert sorted(number for stack in stacks for row in stack["rows"] for number in row) == list(range(len(blocks)))
    heads = [p for block, p in zip(blocks, figure.pictures, strict=True) if block["kind"] == "cross-attention"]
    expected = trace["decoder.layers.0.cross_attention.weights"].numpy()
    assert np.abs((heads[0] - 1.0) / 65534 - expected).max() < 1e-4
    guess, logits = figure.model["predictions"], trace["output.logits"][-1]
    assert guess["position"] == len(trace.target_tokens) - 1
    assert guess["probabilities"] == pytest.approx(logits.softmax(-1).sort(descending=True).values[:5].tolist())
    assert guess["labels"][0] == small.target_tokenizer.label(int(logits.argmax()))
    assert figure.words["scales"].keys() == {"one", "largest"}
    encoder = [blocks[number]["kind"] for row in stacks[0]["rows"] for number in row]
    assert "output" not in encoder  # claim 33
    flows = {block["name"]: block["flow"] for block in blocks}
    for layer in range(2):
        stream = trace[f"encoder.layers.{layer}.feed_forward_block.residual"]
        name = f"Encoder · layer {layer + 1} · residual of feed-forward"
        assert flows[name] == pytest.approx(float(stream.norm(dim=-1).mean()), rel=1e-5)


def test_a_model_of_48_heads_is_drawn_whole_from_little(here):
    """6 layers of 8 heads on a long text: each head's map is there, in no more cells than a thumbnail can show."""
    made = TOKENIZERS["decoder-only"]
    shape = {"vocabulary": len(made), "layers": 6, "n_heads": 8, "max_length": 256}
    save_checkpoint(here / "wide", one_stack("decoder-only", **shape), (made, made), {"example": TEXT})
    inputs = looking(open_checkpoint(here / "wide"), "The cat sees the dog. " * 20).inputs
    trace, figure = inputs.trace, drawn(inputs)
    length = len(trace.source_tokens)
    assert length > 128
    blocks = zip(figure.model["blocks"], figure.pictures, strict=True)
    maps = [picture for block, picture in blocks if block["kind"].endswith("attention")]
    step = -(-length // 64)
    cells = -(-length // step)
    assert [each.shape for each in maps] == [(8, cells, cells)] * 6
    for layer, shown in enumerate(maps):
        weights = trace[f"decoder.layers.{layer}.self_attention.weights"].numpy()
        corner = weights[:, -1 - (length - 1) % step :, :step].max(axis=(1, 2))  # the last queries, the first keys
        assert np.abs((shown[:, -1, 0] - 1.0) / 65534 - corner).max() < 1e-4
        assert (shown[:, 0, -1] == 0).all()  # the future
    assert sum(picture.nbytes for picture in figure.pictures) < 2 * 8 * 6 * 64 * 64 + 60_000


def test_a_chosen_query_is_the_position_that_predicts(small):
    assert drawn(looking(small, TEXT).inputs, 1).model["predictions"]["position"] == 1


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_a_model_of_one_stack_has_its_output_on_top(here, kind):
    made = TOKENIZERS[kind]
    network = one_stack(kind, vocabulary=len(made), norm="none", position="rotary", residual=False)
    save_checkpoint(here / "one", network, (made, made))
    model = open_checkpoint(here / "one")
    text = "The <mask> sees <mask>."
    described = drawn(looking(model, text).inputs).model
    (stack,) = described["stacks"]
    assert described["blocks"][stack["rows"][-1][-1]]["kind"] == "output"
    assert not [block for block in described["blocks"] if block["kind"] == "norm"]
    assert ("norms", "none: this model has no norms") in described["summary"]
    assert any("no short cut" in text for _, text in described["summary"])
    assert described["bypass"] is False
    if kind == "encoder-only":
        labels = model.source_tokens(text).labels
        masks = [place for place, label in enumerate(labels) if label == "<mask>"]
        for query, place in ((None, masks[0]), (masks[1], masks[1]), (len(labels) - 1, masks[0])):
            assert drawn(looking(model, text).inputs, query).model["predictions"]["position"] == place
    for text in ("", "</script><script>alert(1)</script>"):
        (stack,) = drawn(looking(model, text).inputs).model["stacks"]
        assert stack["labels"] == model.source_tokens(text).labels


def test_a_pin_adds_what_changed_most_and_differences(small, tmp_path):
    inputs = looking(small, "The dog sees.", "。", pinned=(small, TEXT, "。")).inputs
    figure = drawn(inputs)
    lines = [dict(block["lines"]) for block in figure.model["blocks"]]
    assert all("largest change since the pin" in each for each in lines)
    head = next(each["head that changed most"] for each in lines if "head that changed most" in each)
    assert "of its weight moved" in head
    assert len(figure.model["predictions"]["pinned"]) == len(figure.model["predictions"]["labels"])
    norm = next(number for number, block in enumerate(figure.model["blocks"]) if block["kind"] == "norm")
    assert figure.pictures[norm].shape[0] == 4
    pictures = Pictures(inputs.trace, inputs.comparison, True)
    row = table(small, blocks(inputs.trace), pictures).set_index("path").loc["decoder.layers.0.feed_forward"]
    names = ("mean norm of what it gives", "mean norm of what it gives, pinned", "mean norm of the change")
    own, before = (get("decoder.layers.0.feed_forward.output") for get in (inputs.now, inputs.before))
    for name, x in zip(names, (own, before, own - before), strict=True):
        assert row[name] == pytest.approx(float(x.norm(dim=-1).nanmean()), rel=1e-4), name
    heads = inputs.comparison.changes.query("kind == 'head'")
    most = heads.iloc[0]
    path = re.sub(r"\.layers\.\d", "", most["name"])
    kind = {"encoder.self": "Encoder", "decoder.self": "Decoder", "decoder.cros": "Cross"}[path[:12]]
    finding = str(model_map(inputs, pictures).caption.finding)
    number = significant(most["change"])  # as in the pin's menu
    assert finding.startswith(f"Most changed: {kind} {most['layer'] + 1}.{most['head'] + 1} ({number}) and the token ")
    described = model_map(inputs, pictures).model
    assert described["differing"]
    moved = {block["moved"] and max(block["moved"]): block["name"] for block in described["blocks"]}
    assert moved.pop(None)  # a norm has no heads
    assert max(moved) == pytest.approx(most["change"])  # the strongest frame is the head of the heading
    assert f"layer {most['layer'] + 1}" in str(moved[max(moved)])
    assert described["top"] < 1
    wide = open_checkpoint(write_small(tmp_path / "wide", seed=3, d_ff=8, n_heads=4, d_model=32))
    inputs = looking(wide, TEXT, "。", pinned=(small, TEXT, "。")).inputs
    figure = model_map(inputs, Pictures(inputs.trace, inputs.comparison, True))
    assert "no block can be compared" in figure.caption.sentence
    assert all(block["flow"] is None for block in figure.model["blocks"])


def test_a_word_in_the_place_of_another_is_compared_in_heading_and_frames_alike():
    translator = open_checkpoint(ROOT / "checkpoints" / "eng-cmn")
    red, blue = "She bought a red car yesterday.", "She bought a blue car yesterday."
    inputs = looking(translator, blue, "", pinned=(translator, red, "")).inputs
    figure = model_map(inputs, Pictures(inputs.trace, inputs.comparison, True))
    frames = {
        (block["name"], head): share
        for block in figure.model["blocks"]
        for head, share in enumerate(block["moved"] or ())
    }
    name, head = max(frames, key=frames.__getitem__)
    most = inputs.comparison.changes.query("kind == 'head'").iloc[0]
    assert (int(most["head"]), most["change"]) == (head, pytest.approx(frames[name, head]))
    assert f"{most['layer'] + 1}.{head + 1} ({significant(frames[name, head])})" in str(figure.caption.finding)
    assert inputs.comparison.source.replaced == (3,)
    assert not bool(inputs.comparison.counterpart(f"{most['name']}.weights")[..., 3].isnan().all())


def test_the_page_has_the_map_its_explanation_and_its_table(small):
    app = opened("map", source=TEXT)
    for key in ("map_explanation", "map_data"):
        app.session_state[key] = True
    app.run()
    assert not app.exception
    assert "class Encoder(nn.Module)" in app.code[0].value
    assert "class PreNorm(nn.Module)" in app.code[0].value
    lines = app.dataframe[0].value
    assert len(lines) == len(component(app, "model_map")[0]["blocks"])
    assert lines["parameters"].sum() == small.network.parameter_count()


@pytest.fixture
def session(small, monkeypatch):
    """For the page's own answers, without a server."""
    fake = no_server(monkeypatch, viz.pages.map.page)
    session = fake.session_state[Key.SESSION] = Session(selection=Selection())
    session.trace_input(small, TEXT, "")
    session.fake = fake
    return session


@pytest.mark.parametrize(
    ("path", "head", "leads", "address"),
    [
        ("encoder.layers.1.self_attention", 1, "attention", {"layer": "1", "head": "1", "attention": "encoder"}),
        ("decoder.layers.0.cross_attention", None, "attention", {"layer": "0", "attention": "cross"}),
        ("decoder.layers.0.self_attention", 0, "attention", {"layer": "0", "head": "0", "attention": "decoder"}),
        ("encoder.layers.1.feed_forward", None, "feed_forward", {"layer": "1", "stack": "encoder"}),
        (
            "encoder.layers.0.feed_forward_block.norm",
            None,
            "residual",
            {
                "layer": "0",
                "residual_view": "norms",
                "norm": "encoder.layers.0.feed_forward_block.norm",
                "stack": "encoder",
            },
        ),
        (
            "decoder.layers.0.self_attention_block.residual",
            None,
            "residual",
            {"layer": "0", "residual_view": "stream", "stack": "decoder"},
        ),
        ("encoder.embedding", None, "positions", {"part": "tokens", "side": "source"}),
        ("decoder.embedding", None, "positions", {"part": "tokens", "side": "target"}),
        ("output", None, "predictions", {}),
    ],
)
def test_a_click_leads_to_the_blocks_page(session, path, head, leads, address):
    number = [block.path for block in blocks(session.trace)].index(path)
    viz.pages.map.page.on_open({"block": number, "head": head})
    assert session.fake.session_state["opened_page"] == leads
    assert session.fake.query_params == address


def test_an_opened_block_changes_the_page_and_keeps_the_address(small):
    app = opened("map", source=TEXT, head="1")
    app.session_state["opened_page"] = "attention"
    app.run()
    assert not app.exception
    assert component(app, "head_grid")
    assert list(app.query_params["head"]) == ["1"]
