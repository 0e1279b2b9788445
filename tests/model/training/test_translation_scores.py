"""BLEU and chrF against sacrebleu's own functions; BLEU's tokenizer by the script of real sentences."""

from __future__ import annotations

import pytest
import sacrebleu

from model.data.pairs import Pair
from model.training import translation_scores
from model.training.translation_scores import (
    CHARACTERS,
    ROWS,
    TOKENIZERS,
    batches_of,
    find_language,
    find_tokenizer,
    is_installed,
    references_of,
    score,
    sentence_chrf,
)

# The first article of the Universal Declaration of Human Rights, and sentences that mix scripts.
SCRIPTS = {
    "simplified": ("Chinese", "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"),
    "traditional": (
        "Chinese",
        "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。",
    ),
    "Chinese with names": ("Chinese", "我用 Python 和 TensorFlow 训练了一个 Transformer 模型。"),
    "Japanese": (
        "Japanese",
        "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    ),
    "katakana": ("Japanese", "コンピュータプログラム"),
    "halfwidth katakana": ("Japanese", "ｺﾝﾋﾟｭｰﾀ 入門"),
    "Korean": ("Korean", "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."),
    "Korean with hanja": ("Korean", "大韓民國은 民主共和國이다. 대한민국의 주권은 국민에게 있다."),
    "English": ("other", "All human beings are born free and equal in dignity and rights."),
    "English about Chinese": ("other", "The character 人 means person, and 大 means big, as children learn early."),
    "German": ("other", "Alle Menschen sind frei und gleich an Würde und Rechten geboren."),
    "Russian": ("other", "Все люди рождаются свободными и равными в своем достоинстве и правах."),
    "Arabic": ("other", "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق."),
    "Hindi": ("other", "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।"),
    "Thai": ("other", "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ"),
    "no letters": ("other", "1 2 3 … 「」、。"),
    "nothing": ("other", ""),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_language_is_told_by_the_script(name):
    language, text = SCRIPTS[name]
    assert find_language([text]) == language


def test_a_few_foreign_sentences_among_many_change_nothing():
    chinese, english = SCRIPTS["simplified"][1], SCRIPTS["English"][1]
    assert find_language([chinese] * 20 + [english] * 3) == "Chinese"
    assert find_language([english] * 5000 + [chinese] * 100) == "other"
    assert find_language([chinese] * 9 + [SCRIPTS["Japanese"][1]]) == "Chinese"  # one sentence of ten has kana
    assert find_language([]) == "other"


def test_the_tokenizer_is_the_one_that_sacrebleu_recommends(monkeypatch):
    found = {name: find_tokenizer([text]) for name, (_, text) in SCRIPTS.items()}
    assert {found[name].name for name in ("simplified", "traditional")} == {"zh"}
    assert {found[name].name for name in ("English", "Russian", "Arabic", "Hindi", "nothing")} == {"13a"}
    monkeypatch.setattr(translation_scores, "is_installed", lambda _tokenizer: True)
    assert find_tokenizer([SCRIPTS["Japanese"][1]])[1:] == ("ja-mecab", "")
    assert find_tokenizer([SCRIPTS["Korean"][1]])[1:] == ("ko-mecab", "")


def test_without_their_packages_japanese_and_korean_are_counted_by_characters(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    japanese, korean = (find_tokenizer([SCRIPTS[name][1]]) for name in ("Japanese", "Korean"))
    assert (japanese.name, japanese.instead_of) == ("char", "ja-mecab")
    assert str(korean) == (
        "char, found by the script of the references: Korean; ko-mecab needs pip install 'sacrebleu[ko]'"
    )
    with pytest.raises(ValueError, match=r"ja-mecab needs packages .*sacrebleu\[ja\]', or choose char"):
        score({"a": "b"}, {"a": ["b"]}, "ja-mecab")


REFERENCES = {
    "a": ["我是老师。", "我是一个老师。"],
    "b": ["他正在看一本书。"],
    "c": ["Tom said, “it's 3.14 o'clock”.", "Tom said that.", "so Tom said"],
}
WRITTEN = {"c": "Tom said, it's 3.15.", "a": "我是一位老师。", "b": "他在看书。"}


@pytest.mark.parametrize("tokenizer", [each for each in TOKENIZERS if is_installed(each)])
def test_scores_are_sacrebleus(tokenizer):
    streams = [["Tom said, “it's 3.14 o'clock”.", "我是老师。", "他正在看一本书。"]]
    streams += [["Tom said that.", "我是一个老师。", None], ["so Tom said", None, None]]
    scores = score(WRITTEN, REFERENCES, tokenizer)
    outputs = list(WRITTEN.values())
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(outputs, streams, tokenize=tokenizer).score, abs=1e-9)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(outputs, streams).score, abs=1e-9)
    assert 0 < scores.bleu < 100
    assert scores.sentences == 3
    assert f"|tok:{tokenizer}|" in scores.bleu_signature
    assert scores.bleu_signature.startswith("nrefs:var|")
    assert "|nc:6|nw:0|" in scores.chrf_signature


def test_a_sentences_chrf_is_sacrebleus_with_its_best_reference():
    found = sentence_chrf(WRITTEN, REFERENCES)
    expected = {name: sacrebleu.sentence_chrf(text, REFERENCES[name]).score for name, text in WRITTEN.items()}
    assert found == pytest.approx(expected, abs=1e-9)
    alone = [sacrebleu.sentence_chrf(WRITTEN["a"], [one]).score for one in REFERENCES["a"]]
    assert found["a"] == pytest.approx(max(alone))


def test_references_of_a_source_stay_together():
    pairs = [Pair("a", "1"), Pair("b", "2"), Pair("a", "3"), Pair("a", "1")]
    assert references_of(pairs) == {"a": ["1", "3", "1"], "b": ["2"]}


@pytest.mark.parametrize("beam", [1, 8])
def test_batches_hold_every_source_once_and_are_bounded_and_mixed(beam):
    sources = [f"{'x' * (number * 37 % 900)}{number}" for number in range(500)]
    batches = batches_of(sources, beam)
    assert sorted(source for batch in batches for source in batch) == sorted(sources)
    assert max(len(batch) for batch in batches) == ROWS // beam
    assert all(len(batch) * max(map(len, batch)) <= CHARACTERS for batch in batches)
    lengths = [len(batch[0]) for batch in batches]
    assert lengths != sorted(lengths)
    assert batches == batches_of(sources, beam)
    assert batches_of(["x" * 2 * CHARACTERS]) == [["x" * 2 * CHARACTERS]]
    assert batches_of([]) == []
