"""The laboratory's part of costs: counts at once, nothing measured without a click, fields that refuse in words."""

from __future__ import annotations

import threading

import pytest

from model.experiments import attention_cost
from model.experiments.attention_cost import Sizes, operations
from model.experiments.runner import Report, Running
from tests.app_reading import experimented, opened, sent, sound, type_in
from tests.viz.small import write_small
from viz.pages.lab.experiment import Kept

KEYS = {"growth": "cost_counts", "heads": "cost_heads_counts", "ways": "cost_ways_bars", "tying": "cost_tying_0"}


def page(view: str, **address: str):
    return opened("lab", lab_part="costs", cost=view, **address)


def words(app) -> str:
    return "\n".join(each.value for each in [*app.text, *app.markdown, *app.caption])


@pytest.mark.parametrize("view", KEYS)
def test_counts_are_there_at_once_and_nothing_is_measured(small, view) -> None:
    app = sound(page(view))
    assert sent(app, KEYS[view])
    assert "Tutorials say" in words(app)
    assert not any(key in app.session_state for key in ("cost_growth_run", "cost_heads_run", "cost_ways_run"))


def test_the_fields_begin_with_the_models_sizes(small) -> None:
    app = page("growth")
    config = small.config
    assert [app.text_input(key=f"cost_{name}").value for name in ("width", "heads")] == [
        str(config.d_head),
        str(config.n_heads),
    ]
    header, arrays = sent(app, "cost_counts")
    sizes = Sizes(batch=1, heads=config.n_heads, width=config.d_head, device=small.device, dtype=small.dtype)
    assert arrays[1][-1] == operations(sizes, 2048)["projections"]
    assert header["y"]["log"]


def test_growth_is_measured_and_stays_while_the_user_types(small) -> None:
    app = page("growth", cost_longest="128")
    app = experimented(app, "cost_growth_run")
    header, arrays = sent(app, "cost_times")
    assert header["series"][0]["name"].startswith("four projections n^")
    assert list(arrays[0]) == [32, 48, 64, 96, 128]
    assert "Time of softmax: exponent" in words(app)
    assert sent(app, "cost_memory")
    type_in(app, "source", "The cat sees the dog.")
    assert list(sent(sound(app), "cost_times")[1][0]) == [32, 48, 64, 96, 128]
    app.text_input(key="cost_heads").set_value("1").run()
    assert "These are the results of the settings before." in words(sound(app))


@pytest.mark.slow
def test_heads_and_ways_are_measured(small) -> None:
    app = experimented(page("heads", cost_heads_n="8"), "cost_heads_run")
    header, arrays = sent(app, "cost_heads_times")
    assert list(arrays[0]) == [heads for heads in range(1, 9) if 16 % heads == 0]
    assert "Step by step with h = 8, beside one head:" in words(app)
    app = experimented(page("ways", cost_ways_n="8"), "cost_ways_run")
    header, _arrays = sent(app, "cost_ways_bars")
    assert header["x"]["labels"][2:] == ["time forward", "time backward"]
    assert "forward: narrow" in words(app)


def test_what_does_not_fit_is_refused_with_the_numbers(small, monkeypatch) -> None:
    monkeypatch.setattr(attention_cost, "available", lambda _device: 10_000_000)
    app = page("growth")
    (refusal,) = app.error
    assert refusal.value.startswith("n = 2,048 needs about")
    assert "10 MB are free: choose n up to" in refusal.value
    assert not [each for each in app.button if each.key == "cost_growth_run_begin"]
    assert sent(app, "cost_counts")  # counting needs no memory


def test_what_runs_stays_in_view_while_its_memory_is_taken(small, monkeypatch) -> None:
    monkeypatch.setattr(attention_cost, "available", lambda _device: 200_000)
    end = threading.Event()
    running = Running(lambda: (Report(1.0, None) for _ in (1,) if end.wait(60.0) and False))
    app = page("growth")
    app.session_state["cost_growth_run"] = Kept((), running)
    try:
        app = sound(app.run())
        assert not app.error
        assert [each for each in app.button if each.key == "cost_growth_run_stop"]
    finally:
        end.set()
        running.stop()
        assert running.wait(30.0)


def test_no_length_is_suggested_that_the_field_refuses(small, monkeypatch) -> None:
    monkeypatch.setattr(attention_cost, "available", lambda _device: 200_000)
    (refusal,) = page("growth").error
    assert refusal.value.endswith("200 kB are free: make the other numbers smaller.")


def test_what_cannot_be_is_said(small) -> None:
    (refusal,) = page("ways", cost_ways_h="3").error
    assert refusal.value == "d = 16 cannot be split among 3 heads: choose one of 1, 2, 4, 8, 16."
    for hostile in ("</script>🙂مرحبا", "", "0"):
        app = page("growth", cost_longest=hostile)
        assert not app.exception
        assert "cost_counts" not in str(app.get("bidi_component"))


def test_tying_counts_the_loaded_model(small) -> None:
    app = sound(page("tying"))
    assert f"{small.network.parameter_count():,} weights." in words(app)
    assert "exactly the counted weights" in words(app)
    header, _arrays = sent(app, "cost_tying_0")
    assert header["name"] == "small"
    assert sent(app, "cost_tying_2")[0]["name"] in ("paper, base", "paper, big")


def test_another_model_brings_its_sizes(here, small) -> None:
    write_small(here / "wider", d_model=32, n_heads=4)
    app = page("growth", model="small")
    app.text_input(key="cost_width").set_value("5").run()
    app.selectbox(key="model").set_value("wider").run()
    assert app.text_input(key="cost_width").value == "8"
    assert app.text_input(key="cost_heads").value == "4"


def test_it_is_chinese_where_that_is_chosen(small) -> None:
    app = sound(page("heads", language="zh"))
    assert "教程说" in words(app)
    assert "softmax 随 h 增长" in words(app)
