"""The page of predictions: the beam search, and the text that goes on from a token that was not chosen."""

from __future__ import annotations

from model.capture.interventions import intervening, read_changes
from model.text.tokenizer import MASK
from tests.app_reading import component
from tests.test_app_kinds import write
from tests.viz.pages.predictions.test_page import SOURCE, shown
from tests.viz.pages.predictions.test_page import small as small
from viz.i18n.format import significant
from viz.pages.predictions.beam_tree import after_position, after_search


def test_the_beam_search_runs_once_and_only_where_it_is_shown(small, monkeypatch):
    ran = []
    before = type(small).generate
    monkeypatch.setattr(type(small), "generate", lambda self, *a, **o: ran.append(o) or before(self, *a, **o))
    app = shown("film", source=SOURCE)
    assert not [options for options in ran if "beam" in options]
    app = shown("search", source=SOURCE)
    app.run()
    assert [options["beam"] for options in ran if "beam" in options] == [4]
    tree = before(small, SOURCE, beam=4).tree
    data = component(app, "beam_tree")
    assert [node["fate"] for node in data["nodes"]] == [node.fate for node in tree.nodes]
    assert [node["parent"] for node in data["nodes"]] == [node.parent for node in tree.nodes]
    assert [each["score"] for each in data["hypotheses"]] == [significant(tree.score(index)) for index in tree.ranked()]
    columns = {(node["step"], node["row"]) for node in data["nodes"]}
    assert len(columns) == len(tree.nodes)  # no two in one place
    greedy = [node.token for node, header in zip(tree.nodes, data["nodes"], strict=True) if header.get("greedy")]
    assert greedy
    assert greedy == before(small, SOURCE).ids[: len(greedy)]


def test_the_beam_search_is_that_of_the_changed_model(small):
    change = "encoder:causal:on"
    data = component(shown("search", source=SOURCE, changes=change), "beam_tree")
    with intervening(small.network, read_changes(change)):
        tree = small.generate(SOURCE, beam=4).tree
    assert [each["score"] for each in data["hypotheses"]] == [significant(tree.score(index)) for index in tree.ranked()]
    plain = small.generate(SOURCE, beam=4).tree
    assert [plain.score(index) for index in plain.ranked()] != [tree.score(index) for index in tree.ranked()]


def test_an_alternative_begins_the_text_that_goes_on(small, here):
    generation = small.generate(SOURCE)
    read = small.source_tokens(SOURCE)
    token = next(token for token in range(5, 20) if token != generation.ids[1])
    text = after_position(small, SOURCE, "", generation, read, 1, token)
    assert text == small.continue_from(SOURCE, generation.text, 1, [token])
    assert small.target_tokenizer.encode(text).ids[:2] == [generation.ids[0], token]
    tree = small.generate(SOURCE, beam=4).tree
    best = [tree.nodes[index].token for index in tree.path(tree.ranked()[0])]
    if best[-1] == small.target_tokenizer.end:
        assert after_search(small, SOURCE, best) == small.target_tokenizer.decode(best)


def test_one_stack_takes_an_alternative_into_its_text(here):
    writer = write(here / "writer", "decoder-only")
    text = "cat " * 20 + "The dog"  # longer than the model reads: its beginning is left out, not lost
    read = writer.source_tokens(text)
    token = writer.target_tokenizer.encode("e").ids
    assert read.left_out > 0
    last = len(read.labels) - 1
    label = writer.target_tokenizer.label(token[0])
    assert after_position(writer, text, "", None, read, last, token[0]) == text + label
    assert after_position(writer, text, "", None, read, last - 3, token[0]) == text[:-3] + label
    assert after_search(writer, text, token) == text + label
    filler = write(here / "filler", "encoder-only")
    masked = f"The {MASK} sees the {MASK}."
    read = filler.source_tokens(masked)
    place = [index for index, label in enumerate(read.labels) if label == MASK][1]
    token = filler.target_tokenizer.encode("dog").ids[0]
    assert after_position(filler, masked, "", None, read, place, token) == filler.take(masked, 1, token)
