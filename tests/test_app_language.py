"""The page in Chinese: no English sentence is left but names and code."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

import viz.state.checkpoints
from tests.app_reading import component, opened, sent
from tests.viz.small import write_small


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    write_small(tmp_path / "small")


def written(app: AppTest) -> list[str]:
    """Every text that the page shows or reads out, but for the tokens, texts and figures of the model."""
    found = [element.value for kind in (app.markdown, app.caption, app.warning, app.error) for element in kind]
    for element in [*app.selectbox, *app.button, *app.button_group, *app.expander]:
        proto = element.proto
        found += [proto.label, getattr(proto, "help", "")]
        found += [option.content for option in getattr(proto, "options", []) if hasattr(option, "content")]
    found += [link.proto.label for link in app.get("page_link")]
    fields = [sent(app, key)[0] for key in ("source", "target")]
    found += [field["label"] for field in fields]
    found += [word for each in (*fields, component(app, "channel")) for word in each["words"].values()]
    figure, _ = component(app, "heatmap")
    found += [figure["rows"]["title"], figure["columns"]["title"], figure["scale"]["title"], figure["name"]]
    found += [figure["sentence"], figure["words"]["masked"], figure["words"]["download"], *figure["words"]["csv"]]
    bar, (grid, _), (stages, _) = (component(app, name) for name in ("token_bar", "head_grid", "steps"))
    found += [badge[part] for badge in bar["badges"] for part in ("text", "title")]
    found += [*bar["words"].values(), *bar["notes"].values()]
    found += [word for each in (grid, stages) for word in each["words"].values() if isinstance(word, str)]
    found += [*grid["words"]["csv"], grid["alt"], stages["alt"]]
    found += [column["name"] for column in stages["words"]["columns"]]
    return [text for text in found if text]


def test_in_chinese_no_english_sentence_is_left():
    english, chinese = opened(), opened(language="zh", source="The cat " * 60)
    assert not chinese.exception
    texts = written(chinese)
    assert len(texts) > 40
    assert not {"The", "rows", "query", "scale", "Attention", "Target"} & set(" ".join(texts).split())
    sentence = re.compile(r"[A-Za-z]{2,}[ -][A-Za-z]{2,}")
    assert [text for text in written(english) if sentence.search(text)]
    assert not [text for text in texts if sentence.search(text)]
    same = {text for text in texts if text in written(english) and not text.isdigit()}
    formulas = {"‖w·v‖", "‖w·v·Wᴼ‖", "softmax(QKᵀ/√d_k + M) V, §3.2.1"}
    assert same <= {"### Vitrine", "Language", "EN", "中文", "BertViz", *formulas}, same


def test_the_language_may_be_switched_and_switched_back():
    app = opened()
    before = written(app)
    app.segmented_control(key="language").set_value("zh").run()
    assert not app.exception
    assert any("注意力" in text for text in written(app))
    app.segmented_control(key="language").set_value("en").run()
    assert written(app) == before


def test_what_a_button_says_before_the_page_is_drawn_is_chinese_too(tmp_path):
    app = opened(language="zh").switch_page("viz/pages/checkpoints/page.py").run()
    app.text_input(key="adding_path").set_value(str(tmp_path / "nowhere")).run()
    assert [each.value for each in app.error] == ["nowhere 不存在：请给出检查点文件夹或文件的路径。"]
