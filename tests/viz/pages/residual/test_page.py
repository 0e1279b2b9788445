"""The page of norms and residual without a browser: what it sends is what the trace holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.analysis.norms import norm_table
from model.checkpoints.load import open_checkpoint
from tests.app_reading import opened, sent, sound, type_in
from tests.viz.small import write_small
from viz.pages.residual.text import RESIDUAL_VIEWS

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


@pytest.fixture
def small(here):
    return open_checkpoint(write_small(here / "small"))


def page(**address):
    return sound(opened("residual", source=SOURCE, target=TARGET, **address))


def turned(app, **choices):
    """The same page with other choices made."""
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def series(app, key):
    header, arrays = sent(app, key)
    return {each["name"]: arrays[2 * index + 1] for index, each in enumerate(header["series"])}


def test_every_norm_at_every_token(small):
    app = page(layer="1", query="2")
    trace = small.trace(SOURCE, TARGET)
    for stack, quantity, column in (
        ("encoder", "mean", "mean"),
        ("encoder", "before", "input norm"),
        ("decoder", "std", "std"),
        ("decoder", "after", "output norm"),
    ):
        turned(app, stack=stack, statistic=quantity)
        table = norm_table(trace)
        table = table[table["name"].str.startswith(stack)]
        header, (values, visible) = sent(app, "residual_map")
        tokens = trace.tokens_of(f"{stack}.")
        assert header["columns"]["labels"] == tokens
        assert np.allclose(values, table[column].to_numpy().reshape(-1, len(tokens)), rtol=1e-5, atol=1e-6)
        assert visible.all()
        assert header["scale"]["low"] == (-header["scale"]["high"] if quantity == "mean" else 0)
        assert header["rows"]["labels"][header["chosen"]] == "2 self-att."
        path = f"{stack}.layers.1.self_attention_block.norm"
        channels = series(app, "residual_second")
        assert np.array_equal(channels["input"], trace[f"{path}.input"][2])
        assert np.array_equal(channels["output"], trace[f"{path}.output"][2])
        weights = series(app, "residual_third")
        assert np.array_equal(weights["γ"], small.network.get_submodule(path).weight.detach())
        assert np.array_equal(weights["β"], small.network.get_submodule(path).bias.detach())


def test_the_stream_its_blocks_and_their_likeness(small):
    app = page(residual_view="stream", stack="encoder")
    trace = small.trace(SOURCE, TARGET)
    names = ["encoder.embedding.output"] + [
        f"encoder.layers.{layer}.{block}_block.residual"
        for layer in (0, 1)
        for block in ("self_attention", "feed_forward")
    ]
    states = torch.stack([trace[name] for name in names])
    assert np.allclose(sent(app, "residual_map")[1][0], states.norm(dim=-1), rtol=1e-5)
    assert np.allclose(series(app, "residual_second")["mean"], states.norm(dim=-1).mean(dim=1), rtol=1e-5)
    expected = F.cosine_similarity(states[:, None], states[None], dim=-1).mean(dim=-1)
    assert np.allclose(sent(app, "residual_cosines")[1][0], expected, atol=1e-5)
    assert any("largest error" in caption.value for caption in app.caption)
    blocks = [name.replace("_block.residual", ".output") for name in names[1:]]
    shares = [trace[block].norm(dim=-1).div(states[place].norm(dim=-1)).mean() for place, block in enumerate(blocks)]
    most = int(torch.stack(shares).argmax())
    label = f"{most // 2 + 1} {('self-att.', 'FFN')[most % 2]}"
    assert sent(app, "residual_map")[0]["sentence"].startswith(f"{label} changes the stream most")
    turned(app, stream="share")
    added = trace["encoder.layers.1.feed_forward.output"]
    assert np.allclose(sent(app, "residual_map")[1][0][3], added.norm(dim=-1) / states[3].norm(dim=-1), rtol=1e-5)
    turned(app, stream="cosine")
    assert np.allclose(sent(app, "residual_map")[1][0][3], F.cosine_similarity(added, states[3], dim=-1), atol=1e-5)


def test_the_forms_differ_as_n_and_n_minus_1(small):
    app = page(residual_view="forms", stack="decoder", layer="0", query="1")
    x = small.trace(SOURCE, TARGET)["decoder.layers.0.self_attention_block.norm.input"].double()
    torchs = F.layer_norm(x, (16,), eps=1e-5)
    sample = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
    assert np.allclose(series(app, "residual_second")["textbook, sample"], (sample - torchs)[1], atol=1e-6)
    (table,) = app.dataframe
    assert table.value["largest difference"].tolist()[2] == pytest.approx(
        float((sample - torchs)[1].abs().max()),
        rel=1e-6,  # of the token whose divisors stand there
    )
    assert table.value["divides by"].tolist()[0] == pytest.approx(float((x[1].var(correction=0) + 1e-5).sqrt()))
    widths = series(app, "residual_third")
    assert widths["expected, 1 − √((n−1)/n)"][0] == pytest.approx(1 - 0.5**0.5)
    assert len(widths["textbook, sample"]) == 4  # 2, 4, 8 and all 16


def test_a_padded_batch_moves_batch_norm_and_not_layer_norm(small):
    app = page(residual_view="batch", stack="encoder")
    header, (values, real) = sent(app, "residual_map")
    assert header["rows"]["labels"] == ["whole", "part 1", "part 2"]
    assert values.shape == real.shape == (3, len(small.source_tokens(SOURCE)))
    assert 0 < real.sum() < real.size
    tokens, own = header["tokens"], small.source_tokens(SOURCE).labels  # cells light up with the tokens of the page
    places = np.array(tokens["places"]).reshape(values.shape)
    assert tokens["side"] == "source"
    assert tokens["labels"] == own
    assert places[0].tolist() == [*range(len(own))]
    assert ((places >= 0) == real.astype(bool)).all()
    assert sorted({*places[1].tolist(), *places[2].tolist()} - {-1}) == [*range(len(own))]
    said = app.get("markdown")
    assert any("change by **" in each.value and "% of all positions are padding" in each.value for each in said)
    assert set(series(app, "residual_second")) == {"real tokens alone", "padding counted in"}
    type_in(app, "source", "")
    assert any("at least two tokens" in info.value for info in sound(app).info)


def test_the_models_own_placement_is_framed_and_exact(small):
    app = page(residual_view="placement", stack="decoder")
    header, _ = sent(app, "residual_wires")
    # Claim 36: where dropout sits, after every sublayer and before the sum.
    kinds = {row["name"]: [box["kind"] for box in row["boxes"]] for row in header["rows"]}
    assert kinds == {
        "post-norm": ["sublayer", "dropout", "sum", "norm"],
        "pre-norm": ["norm", "sublayer", "dropout", "sum"],
        "wrong pre-norm": ["sublayer", "dropout", "sum"],
    }
    assert [row["past"] for row in header["rows"]] == ["bare", "bare", "LayerNorm"]
    assert [(row["name"], row["own"]) for row in header["rows"]] == [
        ("post-norm", False),
        ("pre-norm", True),
        ("wrong pre-norm", False),
    ]
    found = series(app, "residual_second")
    assert found["pre-norm"].max() < 1e-5
    assert found["wrong pre-norm"].min() > 0.05


def test_blocks_in_parallel_are_drawn_and_computed_as_they_are(here):
    write_small(here / "small", parallel=True)
    app = page(residual_view="placement", stack="decoder")
    header, _ = sent(app, "residual_wires")
    (own,) = [row for row in header["rows"] if row["own"]]
    assert (own["name"], own["formula"]) == (
        "blocks in parallel",
        "x + Attn(LayerNorm(x)) + FFN(LayerNorm(x))",
    )
    assert [box["kind"] for box in own["boxes"]] == ["norm", "sublayer", "dropout", "sum"]
    assert [box["text"] for box in own["beside"][:2]] == ["LayerNorm", "Feed-forward"]
    found = series(app, "residual_second")
    assert found["blocks in parallel"].max() < 1e-5
    assert found["pre-norm"].min() > 1e-3


def test_dropout_is_measured_on_this_stream(small):
    app = page(residual_view="dropout", stack="encoder", masks="100", layer="1", query="0")
    x = small.trace(SOURCE, TARGET)["encoder.layers.1.feed_forward.output"][0].numpy()
    header, arrays = sent(app, "residual_entries")
    (mean,) = [index for index, each in enumerate(header["series"]) if each["name"] == "mean over the masks"]
    assert np.array_equal(arrays[2 * mean], x)
    assert np.linalg.norm(arrays[2 * mean + 1] - x) < 0.1 * np.linalg.norm(x)  # expected: 0.033
    assert app.number_input[0].value == 0.1
    assert any("without dropout" in info.value for info in app.info)  # the small model has none
    (table,) = app.dataframe
    assert table.value["expected"].tolist() == pytest.approx([0.9, 1, 0.9, 1 / 9])
    assert table.value["measured"].tolist() == pytest.approx([0.9, 1, 0.9, 1 / 9], abs=0.08)
    layer = "encoder.layers.1"
    places = {"embedding": "encoder.embedding.output", "weights": f"{layer}.self_attention.weights"}
    for site, name in (places | {"units": f"{layer}.feed_forward.activation"}).items():
        entries = small.trace(SOURCE, TARGET)[name]
        header, arrays = sent(turned(app, site=site), "residual_entries")
        (mean,) = [index for index, each in enumerate(header["series"]) if each["name"] == "mean over the masks"]
        assert np.array_equal(arrays[2 * mean], (entries[-1] if site == "weights" else entries)[0])


def test_differences_from_the_pin_are_shown_where_they_are_wanted(small):
    app = page(stack="encoder", statistic="std")
    session = app.session_state["session"]
    session.keep()
    type_in(app, "source", "The cat hears the dog.")
    session.differing = True
    header, (values, _) = sent(sound(app.run()), "residual_map")
    assert header["scale"]["difference"] is True
    now, before = small.trace("The cat hears the dog.", TARGET), session.pin.trace
    places = session.comparison.source.places
    path = "encoder.layers.0.self_attention_block.norm.std"
    expected = [float(now[path][i] - before[path][p]) if p >= 0 else np.nan for i, p in enumerate(places)]
    assert np.allclose(values[0], expected, atol=1e-6, equal_nan=True)
    assert np.isnan(expected).any()
    assert "input, pinned" in series(app, "residual_second")


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "none", "residual": False},
        {"norm": "rms", "norm_placement": "sandwich", "n_encoder_layers": 1, "n_decoder_layers": 3},
        {"norm_placement": "post", "embedding_norm": True, "bias": False, "activation": "swiglu"},
    ],
)
def test_every_config_is_shown_or_says_what_it_has_not(here, options):
    write_small(here / "small", **options)
    app = page(layer="9", query="99")
    bare = options["norm"] == "none" if "norm" in options else False
    for number, view in enumerate(RESIDUAL_VIEWS):
        says = " ".join(
            info.value for info in turned(app, residual_view=view, stack=("encoder", "decoder")[number % 2]).info
        )
        assert ("no norms" in says) == (bare and view not in ("stream", "dropout", "gradients")), view
        assert ("no residual" in says) == (bare and view == "stream"), view
        assert app.get("bidi_component")[1:] or "no norms" in says
