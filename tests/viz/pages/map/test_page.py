"""The map page: what it sends to the browser, and where clicks lead."""

from __future__ import annotations

import numpy as np
import pytest

import viz.pages.map.page
import viz.state.checkpoints
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.app_reading import component, opened, type_in
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.no_server import no_server
from tests.viz.small import write_small
from viz.state.session import Key, Selection, Session

TEXT = "The cat sees."


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The only checkpoint is a small one with random weights."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    return open_checkpoint(write_small(tmp_path / "small", n_decoder_layers=1))


def on_map(**address: str):
    app = opened("map", **address)
    assert not app.exception
    return app


def test_the_map_is_the_whole_traced_model(small):
    app = on_map(source=TEXT)
    header, pictures = component(app, "model_map")
    trace = small.trace(TEXT)
    assert [stack["name"] for stack in header["stacks"]] == ["Encoder", "Decoder"]
    assert [stack["labels"] for stack in header["stacks"]] == [trace.source_tokens, trace.target_tokens]
    shown = [number for stack in header["stacks"] for row in stack["rows"] for number in row]
    assert sorted(shown) == list(range(len(header["blocks"])))
    assert [picture.shape for picture in pictures] == [tuple(shape) for shape in header["shapes"]]
    heads = [p for block, p in zip(header["blocks"], pictures, strict=True) if block["kind"] == "cross-attention"]
    expected = trace["decoder.layers.0.cross_attention.weights"].numpy()
    assert np.abs((heads[0] - 1.0) / 65534 - expected).max() < 1e-4
    guess = header["predictions"]
    logits = trace["output.logits"][-1]
    assert guess["position"] == len(trace.target_tokens) - 1
    assert guess["probabilities"] == pytest.approx(logits.softmax(-1).sort(descending=True).values[:5].tolist())
    assert guess["labels"][0] == small.target_tokenizer.label(int(logits.argmax()))
    assert header["words"]["scales"].keys() == {"one", "largest"}
    encoder = [header["blocks"][number]["kind"] for row in header["stacks"][0]["rows"] for number in row]
    assert "output" not in encoder  # claim 33
    flows = {block["name"]: block["flow"] for block in header["blocks"]}
    for layer in range(2):
        stream = trace[f"encoder.layers.{layer}.feed_forward_block.residual"]
        name = f"Encoder · layer {layer + 1} · residual of feed-forward"
        assert flows[name] == pytest.approx(float(stream.norm(dim=-1).mean()), rel=1e-5)


def test_a_model_of_48_heads_is_drawn_whole_from_little(here):
    """6 layers of 8 heads on a long text: each head's map is there, in no more cells than a thumbnail can show."""
    made = TOKENIZERS["decoder-only"]
    shape = {"vocabulary": len(made), "layers": 6, "n_heads": 8, "max_length": 256}
    save_checkpoint(here / "wide", one_stack("decoder-only", **shape), (made, made), {"example": TEXT})
    text = "The cat sees the dog. " * 20
    app = on_map(source=text)
    header, pictures = component(app, "model_map")
    trace = open_checkpoint(here / "wide").trace(text)
    length = len(trace.source_tokens)
    assert length > 128
    blocks = zip(header["blocks"], pictures, strict=True)
    maps = [picture for block, picture in blocks if block["kind"].endswith("attention")]
    cells = -(-length // -(-length // 64))
    assert [each.shape for each in maps] == [(8, cells, cells)] * 6
    step = -(-length // 64)
    for layer, shown in enumerate(maps):
        weights = trace[f"decoder.layers.{layer}.self_attention.weights"].numpy()
        corner = weights[:, -1 - (length - 1) % step :, :step].max(axis=(1, 2))  # the last queries, the first keys
        assert np.abs((shown[:, -1, 0] - 1.0) / 65534 - corner).max() < 1e-4
        assert (shown[:, 0, -1] == 0).all()  # the future
    assert sum(picture.nbytes for picture in pictures) < 2 * 8 * 6 * 64 * 64 + 60_000


def test_a_chosen_query_is_the_position_that_predicts(small):
    header, _ = component(on_map(source=TEXT, query="1"), "model_map")
    assert header["predictions"]["position"] == 1


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_a_model_of_one_stack_has_its_output_on_top(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    made = TOKENIZERS[kind]
    model = one_stack(kind, vocabulary=len(made), norm="none", position="rotary", residual=False)
    save_checkpoint(tmp_path / "one", model, (made, made), {"example": "The <mask> sees <mask>."})
    app = on_map()
    header, _ = component(app, "model_map")
    (stack,) = header["stacks"]
    assert header["blocks"][stack["rows"][-1][-1]]["kind"] == "output"
    assert not [block for block in header["blocks"] if block["kind"] == "norm"]
    assert ["norms", "none: this model has no norms"] in header["summary"]
    assert any("no short cut" in text for _, text in header["summary"])
    assert header["bypass"] is False
    if kind == "encoder-only":
        first = open_checkpoint(tmp_path / "one").source_tokens("The <mask> sees <mask>.").labels.index("<mask>")
        assert header["predictions"]["position"] == first
    for text in ("", "</script><script>alert(1)</script>"):
        type_in(app, "source", text)
        assert not app.exception
        header, _ = component(app, "model_map")
        assert header["stacks"][0]["labels"] == open_checkpoint(tmp_path / "one").source_tokens(text).labels


def test_a_pin_adds_what_changed_most_and_differences(small, tmp_path):
    write_small(tmp_path / "wide", seed=3, d_ff=8, n_heads=4, d_model=32)
    app = on_map(source=TEXT, target="。", model="small")
    app.session_state[Key.SESSION].keep()
    type_in(app, "source", "The dog sees.")
    header, pictures = component(app, "model_map")
    said = [dict(block["lines"]) for block in header["blocks"]]
    assert all("largest change since the pin" in each for each in said)
    assert (
        "of its weight moved"
        in next(each for each in said if "head that changed most" in each)["head that changed most"]
    )
    assert len(header["predictions"]["pinned"]) == len(header["predictions"]["labels"])
    norm = next(number for number, block in enumerate(header["blocks"]) if block["kind"] == "norm")
    assert pictures[norm].shape[0] == 4
    session = app.session_state[Key.SESSION]
    session.differing = True
    app.session_state["map_data"] = True
    app.run()
    (found,) = [each.value for each in app.dataframe]
    row = found.set_index("path").loc["decoder.layers.0.feed_forward"]
    names = ("mean norm of what it gives", "mean norm of what it gives, pinned", "mean norm of the change")
    own = session.trace["decoder.layers.0.feed_forward.output"]
    before = session.comparison.counterpart("decoder.layers.0.feed_forward.output")
    for name, x in zip(names, (own, before, own - before), strict=True):
        assert row[name] == pytest.approx(float(x.norm(dim=-1).nanmean()), rel=1e-4), name
    assert not app.exception
    header, _ = component(app, "model_map")
    assert header["differing"]
    assert header["top"] < 1
    app.selectbox(key="model").set_value("wide").run()
    assert not app.exception
    header, _ = component(app, "model_map")
    assert "no block can be compared" in header["sentence"]
    assert all(block["flow"] is None for block in header["blocks"])


def test_explanation_and_table_open(small):
    app = on_map(source=TEXT)
    blocks = len(component(app, "model_map")[0]["blocks"])
    for key in ("map_explanation", "map_data"):
        app.session_state[key] = True
    app.run()
    assert not app.exception
    assert "class Encoder(nn.Module)" in app.code[0].value
    assert "class PreNorm(nn.Module)" in app.code[0].value
    table = app.dataframe[0].value
    assert len(table) == blocks
    assert table["parameters"].sum() == small.network.parameter_count()


@pytest.fixture
def session(small, monkeypatch):
    """For the page's own answers, without a server."""
    fake = no_server(monkeypatch, viz.pages.map.page)
    session = fake.session_state[Key.SESSION] = Session(selection=Selection())
    session.look(small, TEXT, "")
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
    number = [block.path for block in viz.pages.map.page.blocks(session.trace)].index(path)
    viz.pages.map.page.on_open({"block": number, "head": head})
    assert session.fake.session_state["map_opened"] == leads
    assert session.fake.query_params == address


def test_an_opened_block_changes_the_page_and_keeps_the_address(small):
    app = on_map(source=TEXT, head="1")
    app.session_state["map_opened"] = "attention"
    app.run()
    assert not app.exception
    assert component(app, "head_grid")
    assert list(app.query_params["head"]) == ["1"]
