"""What was assumed of a model of others, and what it lacks, in words."""

from types import SimpleNamespace

import pytest

from model.checkpoints.bridge.missing import Reason
from model.checkpoints.convert.state_dict import unsaid
from viz.i18n.catalogue import use
from viz.state.assumptions import assumed, assumptions, beside_name, in_short, missing


@pytest.fixture(autouse=True)
def english_again():
    yield
    use("en")


def model(training, **network):
    return SimpleNamespace(
        name="theirs", training=training, network=SimpleNamespace(**{"ours": False, "missing": {}, **network})
    )


def test_what_was_assumed_is_said_in_both_languages():
    given = model({"assumed": [unsaid("norms behind each block", "norm_first")]})
    assert in_short(given) == "- Assumed: norms behind each block (norm_first is not said)"
    told = model({"assumed": ["sinusoidal positions (there is no table of them)"]})
    for language, file in (("en", "a config.json beside the weights can say"), ("zh", "config.json")):
        use(language)
        assert file in assumptions(given)
        assert "config.json" not in assumptions(told)  # which cannot say that
    assert assumed(given) == ["归一化在每个块之后（没有写明 norm_first）"]


def test_what_a_file_says_was_assumed_is_no_markdown_and_need_not_be_a_list():
    given = model({"assumed": ["[x](http://example.org)", 3]})
    assert in_short(given) == "- Assumed: \\[x\\](http:\N{WORD JOINER}//example.org)"
    for nothing in (5, "norms", {"norms": 1}, None):
        assert in_short(model({"assumed": nothing})) == assumptions(model({"assumed": nothing})) == ""


def test_a_sentence_of_assumptions_is_in_the_language_of_the_page():
    use("zh")
    sentence = assumptions(model({"assumed": ["targets begin with token 0 (there is no tokenizer)"]}))
    assert "目标序列以词元 0 开始" in sentence
    assert "targets" not in sentence


def test_missing_quantities_of_all_layers_are_one_line_a_reason():
    names = [f"decoder.layers.{layer}.self_attention.{part}" for layer in range(3) for part in ("scores", "masked")]
    given = model({}, missing=dict.fromkeys(names, Reason.STEPS) | {"output.logits": Reason.OUTPUT})
    assert list(missing(given).values()) == [
        ["decoder.layers.*.self_attention.scores", "decoder.layers.*.self_attention.masked"],
        ["output.logits"],
    ]
    assert in_short(given).count("\n") == 1


def test_beside_the_name_stand_what_is_assumed_and_what_is_left_out():
    given = model({"assumed": ["exact GELU"], "beside": ["vision.weight"]})
    red = ":red[Not part of what is shown, 1 tensor of the file: `vision.weight`]"
    assert beside_name(given) == f"Assumed: exact GELU\n\n{red}"
    use("zh")
    unclear = model({"assumed": [unsaid("norms behind each block", "norm_first")]})
    assert beside_name(unclear).startswith("假定：归一化在每个块之后")


def test_nothing_is_said_of_a_model_of_ours():
    assert in_short(model({"task": "sort"})) == beside_name(model({"task": "sort"})) == ""
