"""The page of predictions without a browser: what its components are sent is what the model says."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from streamlit.testing.v1 import AppTest
from torch.nn.modules.module import register_module_forward_pre_hook

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import WEIGHTS
from model.inference.beam_search import Node, SearchTree
from model.inference.decoding import Sampling
from model.network.attention import MultiHeadAttention
from model.text.tokenizer import MASK
from tests.app_reading import component, model_list, opened, sound, type_in
from tests.test_app_kinds import write
from tests.viz.pages.positions.positions_page import one
from tests.viz.small import looking, write_small
from viz.i18n.format import significant
from viz.i18n.messages import in_language
from viz.pages.predictions import logit_lens, positions, sampling
from viz.pages.predictions.beam_tree import compared, reckoned
from viz.pages.predictions.decoding_film import film_figure
from viz.render.reader import Reader
from viz.render.render import render
from viz.ui.plots import word
from viz.ui.prediction import Subject

SOURCE = "The cat sees."
VIEWS = ("positions", "sampling", "layers", "film", "search")
HOSTILE = "</script><script>alert(1)</script>🙂\u202e"


@pytest.fixture
def small(here):
    return open_checkpoint(write_small(here / "small", seed=3))


def shown(view: str, **address: str) -> AppTest:
    return sound(opened("predictions", view=view, **address))


def chosen(app: AppTest, view: str) -> AppTest:
    return sound(app.segmented_control(key="view").set_value(view).run())


def subject(model, source=SOURCE, target="", pinned=None, differing=False, **selection) -> Subject:
    """Predictions of these texts. pinned: texts that the same model has pinned."""
    pin = pinned and (model, *pinned)
    return Subject(looking(model, source, target, pin, **selection).inputs, differing)


def targets(model, trace) -> torch.Tensor:
    ids = model.target_tokenizer.encode("".join(trace.target_tokens[1:])).ids
    return torch.tensor([*ids, model.target_tokenizer.end])


def test_losses_and_top_tokens_are_the_models(small):
    target = small.generate(SOURCE).text[:4]  # a typed target ends with </s>, like a written one
    here = subject(small, SOURCE, target, query=2)
    logits, actual = here.trace["output.logits"], targets(small, here.trace)
    chart = positions.losses_chart(here)
    (losses,) = chart.series
    assert chart.x.labels == [*here.trace.target_tokens, "</s>"]
    assert np.isnan(losses.ys[0])
    assert losses.xs.tolist() == list(range(len(actual) + 1))
    assert np.allclose(losses.ys[1:], F.cross_entropy(logits, actual, reduction="none"), atol=1e-5)
    assert chart.chosen == 3  # position 2 predicts what stands at 3
    assert f"perplexity {float(F.cross_entropy(logits, actual).exp()):.3g}" in chart.caption.note
    worst = word(small.target_tokenizer.label(int(actual[int(losses.ys[1:].argmax())])))
    finding = f"{worst} is the hardest to predict: {significant(float(losses.ys[1:].max()))} nats"
    assert str(chart.caption.finding) == finding
    top = positions.top_map(here)
    best = float(logits[2].softmax(dim=-1).max())
    expected = word(small.target_tokenizer.label(int(logits[2].argmax())))
    finding = f"After {word(here.trace.target_tokens[2])} comes {expected}: {significant(best)}"
    assert str(top.caption.finding) == finding
    probabilities, tokens = logits.softmax(dim=-1).topk(6)
    assert np.allclose(top.values, probabilities, atol=1e-6)
    texts = np.array(top.texts).reshape(top.values.shape)
    for position, row in enumerate(tokens.tolist()):
        marked = ["✓ " if token == actual[position] else "" for token in row]
        labels = [small.target_tokenizer.label(token) for token in row]
        assert texts[position].tolist() == [a + b for a, b in zip(marked, labels, strict=True)]
    ranking = positions.position_ranking(here)
    values = [column.values for column in ranking.columns]
    tokens = [row["token"] for row in ranking.rows]
    assert np.allclose(values, [each[tokens] for each in (logits[2].softmax(-1), logits[2].log_softmax(-1), logits[2])])
    own = next(row for row in ranking.rows if row["actual"])
    assert own["token"] == int(actual[2])
    assert int(own["rank"]) == 1 + int((logits[2] > logits[2, actual[2]]).sum())
    table = render(ranking, Reader()).table()
    assert list(table.columns) == ["rank", "token", "probability", "log-probability", "logit"]
    assert table["token"].tolist() == [small.target_tokenizer.label(token) for token in tokens]


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
    again = shown("sampling", source=SOURCE, temperature="0.5", top_k="5", top_p="0.8", query="1")
    assert np.array_equal(component(again, "ranking")[1][0], component(app, "ranking")[1][0])


def test_sampling_leaves_the_tokens_that_it_says(small):
    here, chosen = subject(small, query=1), Sampling(temperature=0.5, top_k=5, top_p=0.8)
    logits = here.trace["output.logits"][1]
    drawn, expected = sampling.draw(here, chosen), chosen(logits)
    ranking = sampling.drawn_ranking(here, chosen, drawn)
    tokens = [row["token"] for row in ranking.rows if "token" in row]
    before, after = (column.values for column in ranking.columns)
    assert np.allclose(before[: len(tokens)], logits.softmax(dim=-1)[tokens], atol=1e-6)
    assert np.allclose(after[: len(tokens)], expected[tokens], atol=1e-6)
    assert [before[-1], after[-1]] == pytest.approx([1, 1])
    size = len(small.target_tokenizer)
    assert ranking.facts[0] == f"{int((expected > 0).sum())} of {size} tokens left"
    curves = sampling.saturation_chart(here, 0.5).series[:3]
    p = (logits.double() / torch.tensor(sampling.TEMPERATURES, dtype=torch.float64)[:, None]).softmax(dim=-1)
    jacobians = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    entropy = -(p * p.log()).nan_to_num().sum(dim=-1) / np.log(size)
    for curve, wanted in zip(curves, (p.amax(dim=-1), entropy, jacobians.norm(dim=(1, 2))), strict=True):
        assert np.allclose(curve.ys, wanted, atol=1e-5)
    curves = sampling.rank_chart(here, drawn).series
    for curve, wanted in zip(curves, (logits.softmax(dim=-1), expected), strict=True):
        assert np.allclose(np.nan_to_num(curve.ys)[:5], wanted.sort(descending=True).values[:5], atol=1e-6)


def test_the_lens_ends_in_the_models_prediction(small):
    here = subject(small)
    logits, readings = here.trace["output.logits"], logit_lens.read(here)
    lens = logit_lens.lens_map(here, readings, "top")
    assert lens.columns.labels == ["embedding", "layer 1", "layer 2"]
    assert np.allclose(lens.values[:, -1], logits.softmax(dim=-1).amax(dim=-1), atol=1e-5)
    final = [small.target_tokenizer.label(token) for token in logits.argmax(dim=-1).tolist()]
    assert np.array(lens.texts).reshape(lens.values.shape)[:, -1].tolist() == final
    at = here.chosen
    tops = readings.own.top[:, at].tolist()
    decided = {(True, True): "from the embedding on", (False, True): "from layer 1 on"}
    last = f"Only the last layer decides on {word(final[at])}"
    which = decided.get((tops[0] == tops[2], tops[1] == tops[2]))
    assert str(lens.caption.finding) == (f"{word(final[at])} is the first choice {which}" if which else last)
    charts = logit_lens.probability_chart, logit_lens.rank_chart, logit_lens.entropy_chart
    probability, ranks, entropy = (chart(here, readings).series[0].ys for chart in charts)
    asked = logits[at].softmax(dim=-1)
    assert ranks[-1] == 1
    assert probability[-1] == pytest.approx(float(asked.max()), abs=1e-5)
    assert entropy[-1] == pytest.approx(float(torch.special.entr(asked).sum()), abs=1e-4)
    for shade, curve in (("final", probability), ("entropy", entropy)):
        assert np.allclose(logit_lens.lens_map(here, readings, shade).values[at], curve, atol=1e-5)


def test_the_film_has_a_frame_for_every_token_and_its_attention(small):
    here = subject(small)
    film, attention = film_figure(here), here.trace.attention("cross").numpy()
    assert [frame.label for frame in film.frames][:-1] == here.trace.target_tokens[1:]
    assert len(film.frames) == len(here.trace.target_tokens)
    assert np.allclose(film.weights[0], attention.mean(axis=(0, 1)), atol=1e-6)
    assert np.allclose(film.weights[film.maps.index("layer 2, head 1")], attention[1, 0], atol=1e-6)
    probabilities = here.trace["output.logits"].softmax(dim=-1)
    for position, frame in enumerate(film.frames):
        tokens = [row["token"] for row in frame.rows]
        assert np.allclose(film.values[position, : len(tokens), 0], probabilities[position][tokens], atol=1e-6)
        assert sum(row["actual"] for row in frame.rows) <= 1
    table = render(film, Reader()).table()
    assert len(table) == sum(len(frame.rows) for frame in film.frames)
    assert table["probability"][0] == pytest.approx(float(probabilities[0].max()), abs=1e-6)


def test_a_pin_is_beside_every_view(small):
    pinned = (SOURCE, "")
    here = subject(small, "The dog sees.", "", pinned)
    now, before = small.trace("The dog sees."), small.trace(SOURCE)
    chart = positions.losses_chart(here)
    assert [(each.name, each.dash) for each in chart.series] == [("loss", False), ("pinned", True)]
    known = chart.series[1].ys[1:]
    expected = F.cross_entropy(before["output.logits"][:1], targets(small, now)[:1])  # <s> stands in both
    assert known[0] == pytest.approx(float(expected), abs=1e-5)
    own = F.cross_entropy(now["output.logits"], targets(small, now), reduction="none")
    there = ~np.isnan(known)
    assert 0 < there.sum() < len(known)
    both = own[np.flatnonzero(there)].numpy(), known[there]
    mean, other = (significant(float(np.exp(each.mean()))) for each in both)
    assert chart.caption.note.endswith(f"(where both have the token: {mean}, pinned {other})")
    ranking = positions.position_ranking(here)
    top = small.target_tokenizer.label(int(before["output.logits"][0].argmax()))
    assert any(fact.startswith(f"pinned top token: {top}") for fact in ranking.facts)
    names = [column.name for column in ranking.columns]
    assert names[3:] == ["pinned", "difference"]
    alone = subject(small, "The dog sees.", "", pinned, query=int(np.isnan(known).argmax()))
    ranking = positions.position_ranking(alone)
    assert [column.name for column in ranking.columns] == names[:3]
    assert ranking.caption.sentence.endswith(" · this token is not in the pinned text")
    differing = subject(small, "The dog sees.", "", pinned, differing=True)
    readings = logit_lens.read(differing)
    tops = [reading.top[:, differing.chosen].tolist() for reading in (readings.own, readings.pinned)]
    first = next((layer for layer, (a, b) in enumerate(zip(*tops, strict=True)) if a != b), None)
    expected = {None: "The first choice is the pinned one", 0: "The embedding differs already"}
    finding = str(logit_lens.lens_map(differing, readings, "top").caption.finding)
    assert finding.startswith(expected.get(first, f"Layer {first} is the first that differs"))
    top = positions.top_map(differing)
    assert top.scale.difference
    own, tokens = now["output.logits"].log_softmax(dim=-1).topk(6)
    assert np.allclose(top.values[0], own[0] - before["output.logits"][0].log_softmax(dim=-1)[tokens[0]], atol=1e-5)


def test_every_view_is_drawn_beside_a_pin(small):
    app = shown("positions", source=SOURCE, query="0")
    app.session_state["session"].keep()
    type_in(app, "source", "The dog sees.")
    app.session_state["session"].differing = True
    for view in VIEWS:
        chosen(app, view)
        assert not [each.value for each in app.caption if "other layers" in each.value]  # of the same model


def test_a_pin_of_another_vocabulary_is_told(small, here):
    write(here / "writer", "decoder-only")
    app = shown("positions", source=SOURCE, model="small")
    app.session_state["session"].keep()
    model_list(app).set_value("writer").run()
    assert not app.exception
    assert any("another vocabulary" in caption.value for caption in app.caption)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("decoder-only", {"norm_placement": "post"}), ("encoder-only", {"norm": "rms", "position": "rotary"})],
)
def test_losses_of_one_stack_are_the_models(tmp_path, kind, options):
    model = one(tmp_path / "one", kind, **options)
    text = f"The {MASK} sees" if kind == "encoder-only" else "The cat sees"
    here = subject(model, text)
    logits, ids = here.trace["output.logits"], torch.tensor(model.source_tokens(text).ids)
    losses = positions.losses_chart(here).series[0].ys
    if kind == "decoder-only":
        assert np.allclose(losses[1:], F.cross_entropy(logits[:-1], ids[1:], reduction="none"), atol=1e-5)
        film = film_figure(here)
        assert np.allclose(film.weights[0], here.trace.attention("decoder").mean(dim=(0, 1)), atol=1e-6)
        assert film.frames[-1].label == "?"
    else:
        expected = F.cross_entropy(logits, ids, reduction="none")
        expected = expected.masked_fill(ids == model.target_tokenizer.mask, torch.nan)
        assert np.allclose(losses, expected, 1e-4, equal_nan=True)


@pytest.mark.parametrize("view", VIEWS)
def test_a_model_that_does_not_write_opens_on_a_view_that_it_has_and_on_its_mask(here, view):
    write(here / "one", "encoder-only")
    app = shown(view, source=f"The {MASK} sees")
    (views,) = [each for each in app.button_group if each.key == "view"]
    assert views.value == (view if view in VIEWS[:3] else "positions")
    assert len(views.options) == 3
    assert not app.info
    assert "2" in app.query_params["query"]  # behind the start and the article


@pytest.mark.parametrize("text", ["", HOSTILE])
def test_no_text_breaks_it(small, text):
    app = shown("positions", source=text, target=text)
    for view in VIEWS[1:]:
        chosen(app, view)


def test_a_hostile_address_breaks_nothing(small):
    shown("<script>", temperature="nan", top_k="-1", top_p="[]", beam="99", shade="x", query="99999")


def test_a_model_whose_logits_are_no_numbers_breaks_no_view(here):
    file = write_small(here / "sick") / WEIGHTS
    weights = load_file(file)
    weights["encoder.norm.bias"][2] = torch.nan
    save_file(weights, file, {"format": "pt"})
    app = shown("positions", source=SOURCE)
    for view in VIEWS[1:]:
        chosen(app, view)
        reasons = " ".join(each.value for each in app.info)
        assert ("no token comes first" in reasons, "not numbers" in reasons) == (view == "search", view == "layers")
    app.session_state["session"].keep()
    app.session_state["session"].differing = True
    for view in ("layers", "film"):
        chosen(app, view)


def test_the_search_names_the_greedy_text_with_its_score_beside_its_own(small):
    greedy, tree = small.generate(SOURCE), small.generate(SOURCE, beam=4).tree
    sentence = compared(small, tree, 4, greedy)
    assert sentence in [each.value for each in shown("search", source=SOURCE).text]
    total = sum(greedy.log_probabilities)
    for score in (tree.score(tree.ranked()[0]), tree.score_of(total, len(greedy.ids))):
        assert significant(score) in sentence
    alone = small.generate(SOURCE, beam=1, length=len(greedy.ids))
    assert "both write" in compared(small, alone_tree(alone), 4, alone)


def test_a_score_says_how_it_comes_of_the_log_probability(small):
    tree = small.generate(SOURCE, beam=4).tree
    total, penalty, score = re.findall(r"[−\d.]+", in_language(reckoned(tree, tree.ranked()[0])))
    values = [float(number.replace("−", "-")) for number in (total, penalty, score)]
    assert values[0] / values[1] == pytest.approx(values[2], rel=0.01)
    assert significant(tree.nodes[tree.ranked()[0]].total) == total


def alone_tree(greedy) -> SearchTree:
    """A search whose only hypothesis is the greedy text."""
    nodes, total = [Node(-1, 0, 0.0, 0.0, 0, "kept")], 0.0
    for number, (token, part) in enumerate(zip(greedy.ids, greedy.log_probabilities, strict=True)):
        total += part
        nodes.append(Node(number, token, part, total, number + 1, "kept"))
    return SearchTree(0.6, nodes, [len(nodes) - 1])
