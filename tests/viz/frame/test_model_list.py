"""List of models: each says what kind it is and what it does, in the visitor's language, by its files."""

from __future__ import annotations

import json

import pytest

from model.checkpoints.catalog import catalog_entry
from model.data.tasks import TASKS as BUILT_IN
from tests.app_reading import model_list, opened, sound
from tests.model.checkpoints.test_catalog import hugging_face
from viz.frame.model_list import content
from viz.i18n.catalogue import speaking
from viz.state.checkpoints import CHECKPOINTS
from viz.state.session import Key
from viz.ui.model_words import TASKS, model_words

WORDS = {
    "eng-cmn": ("encoder-decoder · translates English → Chinese", "编码器-解码器 · 翻译：英语 → 中文"),
    "eng-cmn-recurrent": ("recurrent · translates English → Chinese", "循环网络 · 翻译：英语 → 中文"),
    "experts": ("encoder-decoder · moves letters on in the alphabet", "编码器-解码器 · 把字母在字母表中后移"),
    "fill-mask": ("encoder-only · fills gaps in a text", "仅编码器 · 填空"),
    "reverse": ("encoder-decoder · writes letters backwards", "编码器-解码器 · 把字母倒着写"),
    "shakespeare": ("decoder-only · goes on with a text", "仅解码器 · 续写文本"),
    "sort": ("encoder-decoder · sorts digits", "编码器-解码器 · 给数字排序"),
}


@pytest.mark.parametrize("name", WORDS)
def test_a_bundled_model_says_what_it_is_and_does(name):
    entry = catalog_entry(CHECKPOINTS / name)
    for language, words in zip(("en", "zh"), WORDS[name], strict=True):
        with speaking(language):
            assert model_words(entry) == words


def test_a_model_of_others_does_what_its_files_say(tmp_path):
    marian = {"model_type": "marian", "is_encoder_decoder": True}
    hugging_face(tmp_path / "marian", **marian)
    (tmp_path / "marian" / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "deu", "target_lang": "xx_YY"})
    )
    assert model_words(catalog_entry(tmp_path / "marian")) == "encoder-decoder · translates German → xx_YY"
    bare = hugging_face(tmp_path / "bare", model_type="bert", architectures=["BertModel"])
    assert model_words(bare) == "encoder-only"
    assert model_words(hugging_face(tmp_path / "unknown", model_type="unheard-of")) == ""


def test_every_built_in_task_has_its_words():
    assert TASKS.keys() == BUILT_IN.keys()


def test_the_style_has_the_words_of_the_list_in_its_order_and_nothing_that_ends_them():
    app = sound(opened("lessons", language="en"))
    style = next(each.proto.body for each in app.get("html") if "encoder-only" in each.proto.body)
    places = [style.index(content(WORDS[name][0])) for name in model_list(app).options]
    assert places == sorted(places)
    assert content('a"}</style><b>\\') == '"astyleb"'


def test_a_choice_that_comes_late_does_not_bring_the_model_of_before_back():
    """What the browser has sent before it knew of another model comes with the choice of the list that it still has."""
    app = sound(opened("lessons", language="en"))
    late = app._tree.get_widget_states()
    choices = [each for each in late.widgets if each.WhichOneof("value") != "trigger_value"]
    del late.widgets[:]
    late.widgets.extend(choices)
    app.button(key="open_recurrence").click().run()
    for _time in range(2):  # also after the page has come
        sound(app._run(late))
        assert app.session_state[Key.MODEL] == app.query_params["model"] == "eng-cmn-recurrent"
        assert model_list(app).value == "eng-cmn-recurrent"
    sound(model_list(app).set_value("eng-cmn").run())
    assert app.session_state[Key.MODEL] == model_list(app).value == "eng-cmn"
