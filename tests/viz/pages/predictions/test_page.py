"""The page of predictions without a browser: what its components are sent is what the model says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from streamlit.testing.v1 import AppTest
from torch.nn.modules.module import register_module_forward_pre_hook

from model.checkpoints.load import open_checkpoint
from model.inference.decoding import Sampling
from model.network.attention import MultiHeadAttention
from model.text.tokenizer import MASK
from tests.app_reading import body, component, opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack
from tests.viz.pages.positions.positions_page import one
from tests.viz.small import write_small
from viz.i18n.format import significant
from viz.pages.predictions.positions import position_ranking
from viz.ui.prediction import Subject

SOURCE = "The cat sees."
VIEWS = ("positions", "sampling", "layers", "film", "search")
HOSTILE = "</script><script>alert(1)</script>🙂\u202e"


@pytest.fixture
def small(here):
    return open_checkpoint(write_small(here / "small", seed=3))


def shown(view: str, **address: str) -> AppTest:
    return sound(opened("predictions", view=view, **address))


def charts(app: AppTest) -> list:
    found = [e.proto for e in app.get("bidi_component") if e.proto.component_name == "vitrine_chart"]
    return [unpack(body(proto.bytes)) for proto in found]


def chosen(app: AppTest, view: str) -> AppTest:
    return sound(app.segmented_control(key="view").set_value(view).run())


def targets(model, trace) -> torch.Tensor:
    ids = model.target_tokenizer.encode("".join(trace.target_tokens[1:])).ids
    return torch.tensor([*ids, model.target_tokenizer.end])


def test_losses_and_top_tokens_are_the_models(small):
    target = small.generate(SOURCE).text[:4]  # a typed target ends with </s>, like a written one
    app = shown("positions", source=SOURCE, target=target, query="2")
    trace = small.trace(SOURCE, target)
    logits, actual = trace["output.logits"], targets(small, trace)
    ((header, (places, losses)),) = charts(app)
    assert header["x"]["labels"] == [*trace.target_tokens, "</s>"]
    assert np.isnan(losses[0])
    assert places.tolist() == list(range(len(actual) + 1))
    assert np.allclose(losses[1:], F.cross_entropy(logits, actual, reduction="none"), atol=1e-5)
    assert header["chosen"] == 3  # position 2 predicts what stands at 3
    assert f"perplexity {float(F.cross_entropy(logits, actual).exp()):.3g}" in header["note"]
    header, (values, visible) = component(app, "heatmap")
    probabilities, tokens = logits.softmax(dim=-1).topk(6)
    assert np.allclose(values, probabilities, atol=1e-6)
    assert visible.all()
    texts = np.array(header["texts"]).reshape(values.shape)
    for position, row in enumerate(tokens.tolist()):
        marked = ["✓ " if token == actual[position] else "" for token in row]
        labels = [small.target_tokenizer.label(token) for token in row]
        assert texts[position].tolist() == [a + b for a, b in zip(marked, labels, strict=True)]
    header, (values,) = component(app, "ranking")
    rows = header["rows"]
    assert values.shape == (len(rows), 3)
    expected = logits[2].log_softmax(dim=-1)[[row["token"] for row in rows]]
    assert np.allclose(values[:, 1], expected, atol=1e-5)
    assert [row["token"] for row in rows if row["actual"]] == [int(actual[2])]
    assert int(next(row["rank"] for row in rows if row["actual"])) == 1 + int((logits[2] > logits[2, actual[2]]).sum())


def test_a_ranking_gives_a_line_for_each_token(small):
    trace, target, _generation = small.trace_generated(small.source_tokens(SOURCE))
    subject = Subject(small, trace, target, ended=True, chosen=1)
    ranking = position_ranking(subject, "ranking", lambda: None)
    table, logits = ranking.table(), trace["output.logits"][1]
    assert list(table.columns) == ["rank", "token", "probability", "log-probability", "logit"]
    tokens = [row["token"] for row in ranking.rows]
    assert table["token"].tolist() == [small.target_tokenizer.label(token) for token in tokens]
    assert np.allclose(table["probability"], logits.softmax(dim=-1)[tokens], atol=1e-6)
    assert np.allclose(table["logit"], logits[tokens])


def test_sampling_works_on_the_logits_that_are_there(small):
    app = shown("sampling", source=SOURCE, query="1")
    ran = []
    hook = register_module_forward_pre_hook(lambda module, _: isinstance(module, MultiHeadAttention) and ran.append(1))
    try:
        app.slider(key="temperature").set_value(0.5)
        app.select_slider(key="top_k").set_value(5)
        app.slider(key="top_p").set_value(0.8).run()
        assert not ran
    finally:
        hook.remove()
    logits = small.trace(SOURCE)["output.logits"][1]
    expected = Sampling(temperature=0.5, top_k=5, top_p=0.8)(logits)
    header, (values,) = component(app, "ranking")
    tokens = [row["token"] for row in header["rows"] if "token" in row]
    assert np.allclose(values[: len(tokens), 0], logits.softmax(dim=-1)[tokens], atol=1e-6)
    assert np.allclose(values[: len(tokens), 1], expected[tokens], atol=1e-6)
    assert values[-1].tolist() == pytest.approx([1, 1])
    size = len(small.target_tokenizer)
    assert header["facts"][0] == f"{int((expected > 0).sum())} of {size} tokens left"
    (_header, (temperatures, *curves)), (_header, (_ranks, before, _same, after)) = charts(app)
    p = (logits.double() / torch.tensor(temperatures, dtype=torch.float64)[:, None]).softmax(dim=-1)
    jacobians = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    entropy = -(p * p.log()).nan_to_num().sum(dim=-1) / np.log(size)
    for curve, wanted in zip(curves[:5:2], (p.amax(dim=-1), entropy, jacobians.norm(dim=(1, 2))), strict=True):
        assert np.allclose(curve, wanted, atol=1e-5)
    for curve, wanted in ((before, logits.softmax(dim=-1)), (after, expected)):
        assert np.allclose(np.nan_to_num(curve)[:5], wanted.sort(descending=True).values[:5], atol=1e-6)
    again = shown("sampling", source=SOURCE, temperature="0.5", top_k="5", top_p="0.8", query="1")
    assert np.array_equal(component(again, "ranking")[1][0], values)


def test_the_lens_ends_in_the_models_prediction(small):
    app = shown("layers", source=SOURCE)
    logits = small.trace(SOURCE)["output.logits"]
    header, (values, _visible) = sent(app, "logit_lens")
    assert header["columns"]["labels"] == ["embedding", "layer 1", "layer 2"]
    assert np.allclose(values[:, -1], logits.softmax(dim=-1).amax(dim=-1), atol=1e-5)
    final = [small.target_tokenizer.label(token) for token in logits.argmax(dim=-1).tolist()]
    assert np.array(header["texts"]).reshape(values.shape)[:, -1].tolist() == final
    at = app.session_state["session"].selection.query
    asked, probability = logits[at].softmax(dim=-1), charts(app)[0][1][1]
    ranks, entropy = charts(app)[1][1][1], charts(app)[2][1][1]
    assert ranks[-1] == 1
    assert probability[-1] == pytest.approx(float(asked.max()), abs=1e-5)
    assert entropy[-1] == pytest.approx(float(torch.special.entr(asked).sum()), abs=1e-4)
    app.segmented_control(key="shade").set_value("final").run()
    values = sent(app, "logit_lens")[1][0]
    assert np.allclose(values[at], probability, atol=1e-6)
    app.segmented_control(key="shade").set_value("entropy").run()
    assert np.allclose(sent(app, "logit_lens")[1][0][at], entropy, atol=1e-5)


def test_the_film_has_a_frame_for_every_token_and_its_attention(small):
    app = shown("film", source=SOURCE)
    trace = small.trace(SOURCE)
    header, (weights, values) = component(app, "decoding_film")
    attention = trace.attention("cross").numpy()
    assert len(header["frames"]) == len(trace.target_tokens)
    assert [frame["label"] for frame in header["frames"]][:-1] == trace.target_tokens[1:]
    assert np.allclose(weights[0], attention.mean(axis=(0, 1)), atol=1e-6)
    assert np.allclose(weights[header["maps"].index("layer 2, head 1")], attention[1, 0], atol=1e-6)
    probabilities = trace["output.logits"].softmax(dim=-1)
    for position, frame in enumerate(header["frames"]):
        tokens = [row["token"] for row in frame["rows"]]
        assert np.allclose(values[position, : len(tokens), 0], probabilities[position][tokens], atol=1e-6)
        assert sum(row["actual"] for row in frame["rows"]) <= 1


def test_a_pin_is_beside_every_view(small):
    app = shown("positions", source=SOURCE, query="0")
    app.session_state["session"].keep()
    type_in(app, "source", "The dog sees.")
    now, pinned = small.trace("The dog sees."), small.trace(SOURCE)
    ((header, arrays),) = charts(app)
    assert [(each["name"], each["dash"]) for each in header["series"]] == [("loss", False), ("pinned", True)]
    expected = F.cross_entropy(pinned["output.logits"][:1], targets(small, now)[:1])  # <s> stands in both
    assert float(arrays[3][1]) == pytest.approx(float(expected), abs=1e-5)
    top = small.target_tokenizer.label(int(pinned["output.logits"][0].argmax()))
    assert any(fact.startswith(f"pinned top token: {top}") for fact in component(app, "ranking")[0]["facts"])
    own = F.cross_entropy(now["output.logits"], targets(small, now), reduction="none")
    known = [float(value) for value in arrays[3][1:]]
    there = [place for place, value in enumerate(known) if not np.isnan(value)]
    assert 0 < len(there) < len(known)
    mean, before = float(own[there].mean()), np.mean([known[place] for place in there])
    words = f"(where both have the token: {significant(np.exp(mean))}, pinned {significant(np.exp(before))})"
    assert header["note"].endswith(words)
    names = [column["name"] for column in component(app, "ranking")[0]["columns"]]
    assert names[3:] == ["pinned", "difference"]
    session = app.session_state["session"]
    session.select(query=next(place for place, value in enumerate(known) if np.isnan(value)))
    app.run()
    told, _values = component(app, "ranking")
    assert [column["name"] for column in told["columns"]] == names[:3]
    assert told["sentence"].endswith(" · this token is not in the pinned text")
    session.select(query=0)
    session.differing = True
    app.run()
    header, (values, _visible) = component(app, "heatmap")
    assert header["scale"]["difference"]
    own, tokens = now["output.logits"].log_softmax(dim=-1).topk(6)
    assert np.allclose(values[0], own[0] - pinned["output.logits"][0].log_softmax(dim=-1)[tokens[0]], atol=1e-5)
    for view in VIEWS[1:]:
        chosen(app, view)


def test_a_pin_of_another_vocabulary_is_told(small, here):
    write(here / "writer", "decoder-only")
    app = shown("positions", source=SOURCE, model="small")
    app.session_state["session"].keep()
    app.selectbox(key="model").set_value("writer").run()
    assert not app.exception
    assert any("another vocabulary" in caption.value for caption in app.caption)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("decoder-only", {"norm_placement": "post"}), ("encoder-only", {"norm": "rms", "position": "rotary"})],
)
def test_models_of_one_stack_have_every_view_or_a_sentence(here, kind, options):
    model = one(here / "one", kind, **options)
    text = f"The {MASK} sees" if kind == "encoder-only" else "The cat sees"
    app = shown("positions", source=text)
    trace = model.trace(text)
    ((_header, (_places, losses)),) = charts(app)
    logits, ids = trace["output.logits"], torch.tensor(model.source_tokens(text).ids)
    if kind == "decoder-only":
        assert np.allclose(losses[1:], F.cross_entropy(logits[:-1], ids[1:], reduction="none"), atol=1e-5)
    else:
        expected = F.cross_entropy(logits, ids, reduction="none")
        expected = expected.masked_fill(ids == model.target_tokenizer.mask, torch.nan)
        assert np.allclose(losses, expected, 1e-4, equal_nan=True)
    for view in VIEWS[1:]:
        chosen(app, view)
        assert bool(app.info) == (kind == "encoder-only" and view in ("film", "search"))
    if kind == "decoder-only":
        header, (weights, _values) = component(chosen(app, "film"), "decoding_film")
        assert np.allclose(weights[0], trace.attention("decoder").mean(dim=(0, 1)), atol=1e-6)
        assert header["frames"][-1]["label"] == "?"


@pytest.mark.parametrize("text", ["", HOSTILE])
def test_no_text_breaks_it(small, text):
    app = shown("positions", source=text, target=text)
    for view in VIEWS[1:]:
        chosen(app, view)


def test_a_hostile_address_breaks_nothing(small):
    shown("<script>", temperature="nan", top_k="-1", top_p="[]", beam="99", shade="x", query="99999")
