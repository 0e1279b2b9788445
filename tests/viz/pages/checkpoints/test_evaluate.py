"""The page Checkpoints without a browser: a translator is measured on a file of pairs."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace

import pandas as pd
import pytest
import sacrebleu
from streamlit.testing.v1 import AppTest

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.data.pairs import Pair, in_split
from model.data.sources import digest_of_pairs
from model.inference.models import Translator
from model.runtime import memory
from model.runtime.ledger import Ledger
from model.training import translation_scores
from tests.app_reading import opened, sound, type_in
from tests.model.examples import network, one_stack, sentences
from tests.viz.small import LENGTH, parts
from viz.i18n import catalogue
from viz.pages.checkpoints import evaluate
from viz.state.session import Key

PAIRS = """The teacher sees the cat.\t老师看见猫。
The doctor likes the dog.\t医生喜欢狗。
The teacher sees the cat.\t这位老师看见一只猫。
The bird watches the river.\t鸟看着河。
"""
SOURCES = ["The teacher sees the cat.", "The doctor likes the dog.", "The bird watches the river."]
STREAMS = [["老师看见猫。", "医生喜欢狗。", "鸟看着河。"], ["这位老师看见一只猫。", None, None]]


@pytest.fixture(autouse=True)
def here(places):
    """A bundled translator and a bundled language model."""
    tokenizer = parts()[1]
    writer = one_stack("decoder-only", vocabulary=len(tokenizer))
    save_checkpoint(places / "bundled" / "writer", writer, (tokenizer, tokenizer))
    return places


def page(name: str = "small", **address: str):
    return opened("checkpoints", model=name, checkpoints_part="evaluate", **address)


def pasted(text: str, app=None):
    app = app or page(evaluate_from="paste")
    return app.text_area(key="evaluate_paste").set_value(text).run()


def given(content: bytes, app=None):
    app = app or page()
    return app.file_uploader(key="evaluate_file").set_value(("pairs.tsv", content, "text/tab")).run()


def translated(app):
    """The same after its translation has ended."""
    sound(app.button(key="evaluate_begin").click().run())
    app.session_state["evaluate_job"].job.wait(60)
    return sound(app.run())


def words(app) -> str:
    kinds = app.markdown, app.caption, app.info, app.warning, app.error
    return " ".join(each.value for kind in kinds for each in kind)


def metrics(app) -> dict[str, str]:
    return {each.label: each.value for each in app.metric}


def keys(app) -> list[str]:
    return [each.key for each in app.button]


def outputs(here, beam: int = 1) -> list[str]:
    return [made.text for made in open_checkpoint(here / "bundled" / "small").generate_batch(SOURCES, beam=beam)]


@pytest.mark.parametrize("beam", [1, 4])
def test_figures_signatures_and_sentences_are_those_of_sacrebleu(here, beam):
    app = pasted(PAIRS)
    assert "pairs: 4" in words(sound(app))
    assert "references are Chinese: BLEU's tokenizer is zh" in words(app)
    app.selectbox(key="evaluate_beam").set_value(beam).run()
    assert app.button(key="evaluate_begin").label == "Translate 3 sentences"
    translated(app)
    written = outputs(here, beam)
    bleu = sacrebleu.BLEU(tokenize="zh")
    chrf = sacrebleu.CHRF()
    expected = bleu.corpus_score(written, STREAMS).score, chrf.corpus_score(written, STREAMS).score
    assert metrics(app) == {"BLEU": f"{expected[0]:.2f}", "chrF": f"{expected[1]:.2f}"}
    assert app.code[0].value == (
        f"BLEU|{bleu.get_signature()} = {expected[0]:.2f}\nchrF2|{chrf.get_signature()} = {expected[1]:.2f}"
    )
    assert "Of 3 sentences with 4 references." in words(app)
    shown = app.dataframe[-1].value
    alone = [
        sacrebleu.sentence_chrf(text, [stream[at] for stream in STREAMS if stream[at]]).score
        for at, text in enumerate(written)
    ]
    order = sorted(range(3), key=alone.__getitem__)
    assert list(shown["chrF"]) == pytest.approx([alone[at] for at in order])
    assert list(shown["source"]) == [SOURCES[at] for at in order]
    assert list(shown["written"]) == [written[at] for at in order]
    assert "老师看见猫。 | 这位老师看见一只猫。" in list(shown["reference"])


def test_another_tokenizer_scores_the_same_translations_again(here):
    app = translated(pasted(PAIRS))
    job = app.session_state["evaluate_job"].job
    app.selectbox(key="evaluate_tokenizer").set_value("13a").run()
    assert app.session_state["evaluate_job"].job is job
    expected = sacrebleu.corpus_bleu(outputs(here), STREAMS, tokenize="13a").score
    assert metrics(sound(app))["BLEU"] == f"{expected:.2f}"
    assert "|tok:13a|" in app.code[0].value
    assert "begun before" not in words(app)


def test_the_best_are_the_worst_turned_round_and_the_csv_has_every_sentence(here):
    app = translated(pasted(PAIRS))
    worst = list(app.dataframe[-1].value["source"])
    job = app.session_state["evaluate_job"].job
    assert evaluate.ranked(job, "worst") == worst
    assert evaluate.ranked(job, "best") == worst[::-1]
    csv = pd.read_csv(io.BytesIO(evaluate.csv(job, evaluate.columns())))
    assert list(csv.columns) == ["chrF", "source", "written", "reference"]
    assert list(csv["source"]) == list(job.references)
    assert dict(zip(csv["source"], csv["chrF"], strict=True)) == pytest.approx(job.chrf)


def test_a_csv_computes_nothing_in_a_spreadsheet():
    job = SimpleNamespace(written={"=1+1": "@x"}, references={"=1+1": ["+1"]}, chrf={"=1+1": 0.0})
    assert evaluate.csv(job, evaluate.columns()).decode("utf-8-sig").splitlines()[1] == "0.0,'=1+1,'@x,'+1"


def test_a_chosen_sentence_becomes_the_source_of_every_page(here, monkeypatch):
    app = translated(pasted(PAIRS))
    type_in(app, Key.SOURCE, "A cat.")
    session = app.session_state[Key.SESSION]
    monkeypatch.setattr("viz.state.texts.current_session", lambda: session)
    chosen = SimpleNamespace(selection=SimpleNamespace(rows=[1]))
    monkeypatch.setattr(evaluate.st, "session_state", {evaluate.Part.SENTENCES: chosen})
    evaluate._choose_sentence(SOURCES)
    monkeypatch.undo()
    assert session.texts.typed[Key.SOURCE] == SOURCES[1]


def test_other_settings_are_told_from_what_was_measured():
    app = translated(pasted(PAIRS))
    assert "begun before" not in words(app)
    app.selectbox(key="evaluate_beam").set_value(2).run()
    assert "These are the figures of what was begun before" in words(sound(app))
    translated(app)
    assert "begun before" not in words(app)
    assert "small · beam 2" in words(app)


def test_it_is_stopped_and_gone_on_with(here, monkeypatch):
    go, begun = threading.Event(), threading.Event()
    plain = Translator.generate_batch

    def waiting(self, texts, **options):
        from model.runtime import cancellation

        while not go.wait(0.01):
            begun.set()
            cancellation.check()
        return plain(self, texts, **options)

    app = pasted(PAIRS)
    monkeypatch.setattr(Translator, "generate_batch", waiting)
    sound(app.button(key="evaluate_begin").click().run())
    assert begun.wait(20)
    assert "evaluate_bar_cancel" in keys(app)
    assert "evaluate_begin" not in keys(app)
    sound(app.button(key="evaluate_bar_cancel").click().run())
    job = app.session_state["evaluate_job"].job
    assert job.cancelled
    assert job.ended
    assert "Stopped: 0 of 3 sentences are translated" in words(app)
    assert metrics(app) == {}
    go.set()
    sound(app.button(key="evaluate_go_on").click().run())
    job.wait(60)
    sound(app.run())
    assert list(metrics(app)) == ["BLEU", "chrF"]
    assert "evaluate_go_on" not in keys(app)
    assert len(job.written) == 3


def test_figures_so_far_are_said_to_be_of_a_part(here, monkeypatch):
    go = threading.Event()
    plain = Translator.generate_batch

    def waiting(self, texts, **options):
        if made:
            assert go.wait(30)
        made.append(texts)
        return plain(self, texts, **options)

    made: list[object] = []
    monkeypatch.setattr(Translator, "generate_batch", waiting)
    app = pasted("".join(f"{pair.source} {number}\t{pair.target}\n" for number, pair in enumerate(sentences(100))))
    app.button(key="evaluate_begin").click().run()
    job = app.session_state["evaluate_job"].job
    while not job.scored:
        job.wait(0.05)
    sound(app.run())
    done = job.scored[1].sentences
    assert 0 < done < 100
    assert set(metrics(app)) == {"BLEU so far", "chrF so far"}
    assert f"Of {done} of 100 sentences, short and long ones mixed" in words(app)
    assert f"translated {done} of 100 sentences" in job.sentence
    go.set()
    job.wait(60)


@pytest.mark.parametrize(("content", "said"), [(b"", "nothing in it"), (b"<b>a</b>\t[x](http://example.org)\n", "")])
def test_a_file_that_holds_no_pairs_says_why(content, said):
    app = given(content)
    assert not app.exception
    assert said in words(app)
    assert ("evaluate_begin" in keys(app)) == (not said)


def test_of_a_hundred_thousand_lines_the_first_are_translated_and_this_is_said():
    app = given("".join(f"line {number}\t行{number}\n" for number in range(100_000)).encode())
    sound(app)
    assert "100,000 sentences are more than are translated here: the first 10,000 are." in words(app)
    assert app.button(key="evaluate_begin").label == "Translate 10,000 sentences"


def test_a_text_that_is_far_too_long_for_the_model_is_cut_as_it_always_is():
    app = translated(pasted(f"{'cat ' * 5000}\t猫。\na dog\t狗。\n"))
    job = app.session_state["evaluate_job"].job
    assert len(job.written) == 2
    assert (job.cut, job.errors) == (1, {})
    assert "1 source is longer than the model reads" in words(app)
    assert max(len(text) for text in job.written.values()) <= LENGTH


def test_japanese_is_counted_by_characters_and_the_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(translation_scores, "is_installed", lambda tokenizer: "mecab" not in tokenizer)
    found = evaluate.found_tokenizer({"The cat.": ["ねこです。"], "The dog.": ["いぬです。"]})
    said = evaluate.tokenizer_words(found)
    assert found.name == "char"
    assert "references are Japanese. ja-mecab would cut them" in said
    assert "pip install 'sacrebleu[ja]'" in said
    assert "ja-mecab" not in pasted(PAIRS).selectbox(key="evaluate_tokenizer").options


def test_words_are_counted_by_13a_and_the_chinese_page_says_so_too():
    found = evaluate.found_tokenizer({"The cat.": ["Die Katze."]})
    assert found.name == "13a"
    assert "BLEU's tokenizer is 13a" in evaluate.tokenizer_words(found)
    with catalogue.speaking("zh"):
        assert "分词器 13a" in evaluate.tokenizer_words(found)


def test_a_language_model_is_no_translator():
    app = page("writer")
    assert "writer is no translator" in words(sound(app))
    assert not app.file_uploader


def test_of_its_own_data_only_the_test_split_counts(here):
    sizes = {"source_vocabulary": len(parts()[0]), "target_vocabulary": len(parts()[1]), "max_length": LENGTH}
    pairs = [Pair(f"{pair.source} {number}", pair.target) for number, pair in enumerate(sentences(400))]
    record = {"data": "pairs.tsv", "data_digest": digest_of_pairs(pairs)}
    save_checkpoint(here / "saved" / "mine", network(**sizes), parts(), record)
    content = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs).encode()
    app = sound(given(content[content.index(b"\n") + 1 :], page("mine")))
    assert "evaluate_held_out" not in [each.key for each in app.toggle]
    assert "of this name, but of another content" in words(app)
    app = sound(given(content, page("mine")))
    held_out = len(in_split(pairs, "test"))
    assert 0 < held_out < 40
    assert app.button(key="evaluate_begin").label == f"Translate {held_out} sentences"
    app.toggle(key="evaluate_held_out").set_value(False).run()
    assert app.button(key="evaluate_begin").label == "Translate 400 sentences"
    assert "evaluate_held_out" not in [each.key for each in sound(given(content)).toggle]  # another model's data


def test_where_memory_has_no_room_a_sentence_says_so(monkeypatch):
    app = pasted(PAIRS)
    full = Ledger(1000, lambda: 0, lambda: None)
    monkeypatch.setattr(memory, "ledger", lambda: full)
    app.button(key="evaluate_begin").click().run()
    assert not app.exception
    assert "translating a file needs about" in words(app)
    assert "evaluate_begin" in keys(app)


def test_another_file_cancels_the_one_before_as_the_end_of_the_window_does():
    """Streamlit calls the same for a value that goes, whatever the reason."""
    app = AppTest.from_function(windows, default_timeout=60).run()
    assert not app.exception
    assert app.session_state["cancelled"] == [0]


def windows() -> None:
    from functools import partial

    import streamlit as st

    from viz.pages.checkpoints import evaluate
    from viz.pages.checkpoints.translating import FileTranslation

    cancelled = st.session_state["cancelled"] = []
    for number in range(2):
        job = FileTranslation.__new__(FileTranslation)
        job.cancel = partial(cancelled.append, number)
        evaluate._of_window(job)
