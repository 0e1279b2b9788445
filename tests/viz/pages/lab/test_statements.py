"""The statements of tutorials on the page: the list, a card, the guess, the verdict, and what a model lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import viz.state.checkpoints
from model.experiments import index
from model.experiments.engines.timing import Machine
from model.experiments.experiment import Curve, Curves, Experiment, Grid, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import SEEDS, Margin, Quantity, Rule, exceeds, less
from model.experiments.runner import Report
from model.message import say
from model.runtime.errors import MissingQuantityError
from tests.app_reading import experimented, opened, sent, sound
from tests.viz.small import write_small
from viz.figures.chart import Chart
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.frame.app import PAGES
from viz.i18n.catalogue import use
from viz.pages.lab.card_order import cards
from viz.pages.lab.experiment import Titled
from viz.pages.lab.explanations import EXPLANATIONS
from viz.pages.lab.live_views import LIVE_VIEWS
from viz.pages.lab.outcome import (
    drawn_curve,
    in_rows,
    machine_words,
    number_text,
    numbers_of,
    plot,
    quantity_line,
    sentence_case,
    words,
)
from viz.pages.lab.page import ARITHMETIC, SECTIONS
from viz.pages.lab.statements import index as statement_list
from viz.render.reader import Reader
from viz.render.render import render
from viz.render.view import FigureView
from viz.state.session import Key


def measure(request: Request) -> Iterator[Report[Outcome]]:
    """Verdict that follows the parameter; a number for each seed."""
    if request.values["size"] > 90:
        raise MissingQuantityError("decoder.layers.0.self_attention.scores", "attention is computed outside")
    rule = Rule([exceeds(Quantity("size", (float(request.values["size"]),)), 5.0)])
    curves = (
        Curve("a", (1.0, 2.0), (3.0, 4.0), low=(2.0, 3.0), high=(4.0, 5.0)),
        Curve("of a", (1.0, 2.0), (3.5, 4.5), dash=True, beside=True),
        Curve("b", (1.0, 2.0), (5.0, 6.0)),
    )
    figures = (
        Curves("curves", "x", "y", curves, log_x=True),
        Grid("grid", ((1.0, -2.0), (0.0, 0.5)), ("r", "s"), ("c", "d"), "row", "column"),
        Table("table", ("name", "value"), (("one", 0.123456), ("two", 7))),
    )
    numbers = tuple(float(seed) for seed in request.seeds)
    quantities = (Quantity("seeds", numbers, "s"),)
    remarks = (say("{value} s", value=0.5),)
    machine = Machine("CPU *x*", "float32", 1, "MKL", True)
    yield Report(1.0, Outcome(rule, say("holds"), quantities, figures, remarks=remarks, machine=machine))


PLANTED = Experiment(
    name="planted",
    row=3,
    group=Group.COST,
    statement=say("attention"),
    truth=say("masks"),
    run=measure,
    parameters=(Parameter("size", "size", 8, 1, 100), Parameter("way", "way", "up", choices=("up", "down"))),
    seeded=True,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setattr("viz.pages.lab.statements.cards", lambda: {"planted": PLANTED})
    write_small(tmp_path / "bundled" / "small")


def test_the_list_has_every_statement_and_its_verdict_once_it_is_known() -> None:
    app = sound(opened("lab"))
    header, _arrays = sent(app, "statement_list")
    (group,) = header["groups"]
    assert group["rows"] == [
        {"name": "planted", "number": "1", "statement": "attention", "verdict": "", "kind": "none"},
    ]
    app = sound(opened("lab", statement="planted"))
    app = experimented(app, "statement_planted_run")
    app.button(key="statement_all").click()
    header, _arrays = sent(sound(app.run()), "statement_list")
    assert header["groups"][0]["rows"][0]["verdict"] == "holds"


@pytest.mark.parametrize(("size", "verdict"), [("8", "holds"), ("2", "wrong")])
def test_the_verdict_is_that_of_the_measurement(size: str, verdict: str) -> None:
    app = sound(opened("lab", statement="planted"))
    app.text_input(key="statement_planted_size").set_value(size)
    app.text_input(key="statement_planted_seeds").set_value("3")
    app.text_input(key="statement_planted_seed").set_value("4")
    app = experimented(sound(app.run()), "statement_planted_run")
    written = " ".join(each.value for kind in (app.markdown, app.caption, app.text) for each in kind)
    assert f"-badge[{verdict}]" in written
    assert "seeds: 5\u00a0s\u00a0±\u00a01\u00a0s (mean ± spread of 3 seeds)" in written
    assert "**More exactly:** masks" in written
    assert "**Rule:** It holds if “size” is above 5; otherwise it is wrong." in written
    assert "0.5\u00a0s." in written
    assert "CPU \\*x\\* · float32 · 1 thread · time of this thread alone · products by MKL" in written
    header, arrays = sent(app, "statement_planted_0")
    assert np.allclose(arrays[1], [3, 4])
    drawn = {each["name"]: each for each in header["series"] if not each.get("quiet") or each["name"] == "of a"}
    assert drawn["of a"]["colour"] == drawn["a"]["colour"] != drawn["b"]["colour"]
    assert drawn["of a"]["quiet"]
    _header, arrays = sent(app, "statement_planted_1")
    assert np.allclose(arrays[0], [[1, -2], [0, 0.5]])
    assert app.dataframe[0].value["value"].tolist() == ["0.123", "7"]


def all_fields() -> None:
    """A script with the fields of every card."""
    from model.experiments.index import experiments
    from viz.pages.lab.parameters import fields

    for each in experiments().values():
        found = fields(each.name, each)
        assert found is not None, each.name
        numbers, _seeds = found
        assert dict(numbers) == {parameter.name: parameter.default for parameter in each.parameters}


def test_the_fields_of_every_card_are_drawn_and_hold_what_it_begins_with() -> None:
    sound(AppTest.from_function(all_fields, default_timeout=60).run())


def test_a_verdict_that_may_still_turn_is_said_to_be_so_far_and_meets_no_guess() -> None:

    def script(going: bool) -> None:
        from model.experiments.experiment import Request
        from tests.viz.pages.lab.test_statements import PLANTED, measure
        from viz.pages.lab.outcome import verdict_findings

        (report,) = measure(Request(None, "", {"size": 8}, (1,)))
        verdict_findings(PLANTED, "holds", going, report.result).placed()

    going, ended = (
        sound(AppTest.from_function(script, args=(going,), default_timeout=30).run()).markdown[0].value
        for going in (True, False)
    )
    assert going.startswith(":gray-badge[so far: holds]")
    assert "guessed" not in going
    assert ended.startswith(":green-badge[holds]")
    assert "as you guessed" in ended


def test_a_number_and_a_factor_are_chinese_to_their_signs() -> None:
    a, b = (Quantity(say("loss so far, {arm}", arm=say(arm)), (1.0, 1.0, 1.0)) for arm in ("with residuals", "learned"))
    use("zh")
    assert quantity_line(a) == "目前的损失，有残差：1\u00a0±\u00a00（3 个种子的平均值 ± 离散程度）"
    factor = words(Rule([less(a, b, Margin(factor=2.0))]).text)
    assert "差距既大于 2 倍，又大于各种子间离散程度的两倍" in factor
    use("en")


@pytest.mark.parametrize(
    ("mean", "spread", "unit", "text"),
    [
        (1.62e-5, None, "s", "16.2 µs"),
        (0.000165, None, "s", "165 µs"),
        (0.0433, 0.001, "s", "43.3 ms ± 1 ms"),
        (835_584.0, None, "bytes", "836 kB"),
        (3.73e-8, 8.07e-9, "", "(3.73 ± 0.807)×10⁻⁸"),
        (22.6, 1.75e-6, "", "22.6 ± < 0.0001"),
        (47_117.3, None, "", "47,117"),
        (2.98, 0.121, "nats", "2.98 ± 0.121 nats"),
    ],
)
def test_a_number_and_its_spread_are_written_in_one_way(
    mean: float, spread: float | None, unit: str, text: str
) -> None:
    assert number_text(mean, spread, unit).replace("\u00a0", " ") == text


def test_more_curves_than_colours_are_told_apart() -> None:
    drawn = [drawn_curve(Curve(str(number), (1.0,), (2.0,)), number)[0] for number in range(16)]
    assert len({(each.colour, each.dash) for each in drawn}) == 16


def test_what_a_model_lacks_is_a_sentence() -> None:
    app = sound(opened("lab", statement="planted"))
    app.text_input(key="statement_planted_size").set_value("95")
    app = sound(app.run())
    app.button(key="statement_planted_run_begin").click().run()
    job = app.session_state["statement_planted_run"]
    assert job.wait(20)
    assert isinstance(job.exception, MissingQuantityError)


def test_the_forecast_is_that_of_the_fields_and_its_refusal_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def forecast(request: Request) -> float:
        asked.append((request.values["size"], tuple(request.seeds)))
        if request.values["size"] == 10:
            raise ValueError("d_model (10) must be divisible by n_heads (4)")
        return 3.0 * request.values["size"] * len(request.seeds)

    known = {"planted": replace(PLANTED, forecast=forecast)}
    monkeypatch.setattr("viz.pages.lab.statements.cards", lambda: known)
    app = sound(opened("lab", statement="planted"))
    assert "about 72 s, by steps just measured" in [each.value for each in app.caption]
    sound(app.run())
    assert asked == [(8, (1,))]  # measured once, and for three seeds where nothing else is chosen
    app.text_input(key="statement_planted_seeds").set_value("2")
    assert "about 48 s, by steps just measured" in [each.value for each in sound(app.run()).caption]
    assert asked == [(8, (1,))]  # not anew, which might give less for more seeds
    app.text_input(key="statement_planted_size").set_value("10")
    (refusal,) = app.run().error
    assert refusal.value == "d_model (10) must be divisible by n_heads (4)."
    assert not [each for each in app.button if each.key == "statement_planted_run_begin"]


def test_what_seeds_do_not_repeat_is_counted_once() -> None:
    timed = replace(PLANTED, seconds=2.0, once=40.0)
    assert (timed.about(1), timed.about(3)) == (42.0, 46.0)
    assert (replace(timed, fewest=2).about(1), replace(timed, fewest=2).about(3)) == (44.0, 46.0)
    lesson = index.experiments()["data-lesson"]  # of which one seed alone says nothing
    assert lesson.about(1) == lesson.about(2) < lesson.about(3)


class Drawn(FigureView):
    """A figure of one kind, with nothing to draw."""

    def __init__(self, kind: type) -> None:
        self.drawn = object.__new__(kind)


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        ("ccc", ["cc", "c"]),
        ("cmm", ["c", "mm"]),
        ("mm", ["mm"]),
        ("cm", ["cm"]),
        ("cmc", ["c", "mc"]),
        ("cccm", ["cc", "cm"]),
        ("mmmmmmm", ["mmm", "mmm", "m"]),
        ("tct", ["t", "c", "t"]),
        ("cmtm", ["cm", "t", "m"]),
        ("", []),
    ],
)
def test_figures_of_one_kind_stand_side_by_side_and_tables_alone(kinds: str, rows: list[str]) -> None:
    kind_of = {"c": Chart, "m": Heatmap}
    drawn = [Drawn(kind_of[kind]) if kind in kind_of else Titled("table", pd.DataFrame()) for kind in kinds]
    letters = {Chart: "c", Heatmap: "m", Titled: "t"}
    kinds_drawn = [[type(getattr(each, "drawn", each)) for each in row] for row in in_rows(drawn)]
    assert ["".join(letters[kind] for kind in row) for row in kinds_drawn] == rows


def test_a_machine_is_named_with_what_its_times_are() -> None:
    threads = machine_words(Machine("CPU", "bfloat16", 2, "oneDNN"))
    assert threads == "CPU · bfloat16 · 2 threads · time by the clock · products by oneDNN"
    assert "thread" not in machine_words(Machine("NVIDIA H200", "float16", 2, "cuBLAS"))


def test_numbers_are_all_in_the_table() -> None:
    (report,) = measure(Request(None, "", {"size": 8}, (1, 2)))  # type: ignore[arg-type]  # no model is looked at
    found = numbers_of(report.result)
    assert len(found) == 2 + 3 * 2 + 4 + 2


def test_live_views_are_pages_that_exist_of_statements_that_do() -> None:
    for row, live in LIVE_VIEWS.items():
        assert live.page in PAGES
        assert 1 <= row <= 50
        assert live.label.count(": ") == 1
        if live.page == "lab":  # no card leads to the cards
            assert live.choices["lab_part"] in SECTIONS.keys() - {"statements"}
            assert live.choices["arithmetic"] in ARITHMETIC


@pytest.mark.parametrize(
    ("row", "before"),
    [
        (1, {"lab_part": "arithmetic", "arithmetic": "softmax"}),
        (22, {"below": "steps"}),
        (26, {"residual_view": "stream"}),
    ],
)
def test_a_live_view_is_what_its_button_says_whatever_was_chosen_there_before(
    row: int, before: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LIVE_VIEWS[row]
    assert live.choices.keys() == before.keys()
    monkeypatch.setitem(LIVE_VIEWS, PLANTED.row, live)
    app = sound(opened(live.page, source="The cat.", **before))
    session = app.session_state[Key.SESSION]
    app = app.switch_page(PAGES["lab"]).run()
    app = sound(next(each for each in app.button_group if each.key == "lab_part").set_value("statements").run())
    app.query_params["statement"] = "planted"
    app = sound(app.run())
    app = sound(app.button(key="statement_planted_live").click().run())
    assert {key: session.address.widget_values[key] for key in live.choices} == live.choices
    assert {key: app.query_params[key] for key in live.choices} == live.choices
    assert "statement" not in app.query_params  # of the card that was left


@pytest.mark.parametrize("part", ["costs", "trainings", "</script>"])
def test_an_address_of_no_part_shows_the_statements(part: str) -> None:
    app = sound(opened("lab", lab_part=part, cost="growth", lab_training="norms"))
    header, _arrays = sent(app, "statement_list")
    assert header["groups"]


def test_each_row_of_the_fifty_is_within_range_and_named_once() -> None:
    known = index.experiments()
    assert {each.row for each in known.values()} <= set(range(1, 51))
    assert sum(len(module.EXPERIMENTS) for module in index.MODULES) == len(known)


def test_cards_are_numbered_as_they_stand_each_experiment_once() -> None:
    assert cards().keys() == index.experiments().keys()
    assert len({each.group for each in cards().values()}) == len(Group)
    listed = [row for group in statement_list(cards())["groups"] for row in group["rows"]]
    assert [row["number"] for row in listed] == [str(number) for number in range(1, len(listed) + 1)]
    assert [row["name"] for row in listed] == [*cards()]


def test_each_card_is_explained_in_two_sentences_with_the_symbols_of_its_formulas() -> None:
    assert EXPLANATIONS.keys() == cards().keys()
    for name, (plain, symbols) in EXPLANATIONS.items():
        assert len(re.findall(r"[.:] (?=[A-Z])|\.$", plain)) == 2, name
        assert bool(cards()[name].formulas) == bool(symbols), name
        assert all(": " in each for each in (symbols or ": ").split("; ")), name


def test_no_card_that_is_measured_in_seconds_stands_behind_one_of_its_subject_that_takes_long() -> None:
    for group in Group:
        dear = [each.forecast is not None or each.about(SEEDS) > 60 for each in cards().values() if each.group is group]
        assert dear == sorted(dear), group
    assert next(iter(cards())) == "dot-product"


def test_the_legend_says_what_dashed_and_pale_curves_are_and_the_alternative_text_leaves_that_out() -> None:
    whole = Curve("a", (1.0, 2.0), (3.0, 4.0), low=(2.0, 3.0), high=(4.0, 5.0))
    fitted = Curve("a, fitted", (1.0, 2.0), (3.5, 4.5), dash=True, beside=True)
    chart = plot(Curves("curves", "x", "y", [whole, fitted], dashed="power law"), "file", About("about"), "why")
    assert isinstance(chart, Chart)
    named = {each.name: each.dash for each in chart.series if not each.quiet}
    assert named == {"a": False, "power law": True, "lowest and highest value": False}
    assert chart.series[-1].colour == chart.series[1].colour  # of the only range that is drawn
    assert render(chart, Reader()).summary().endswith("a 3 … 4")


@pytest.mark.parametrize(("ys", "sentence"), [((), "why"), ((float("nan"),), "why"), ((1.0,), "")])
def test_a_chart_without_a_value_says_why(ys: tuple[float, ...], sentence: str) -> None:
    curves = Curves("curves", "x", "y", [Curve("a", tuple(map(float, range(len(ys)))), ys)])
    assert plot(curves, "file", About("about"), "why").caption.sentence == sentence


def test_a_reason_begins_as_a_sentence_unless_it_begins_with_a_sign():
    assert sentence_case("the codes differ by 2.") == "The codes differ by 2."
    assert sentence_case("a token gives itself 0.4.") == "A token gives itself 0.4."
    for text in ("d_model is 4.", "−1e9 hides it.", "72 of 72 heads.", "softmax(x) is 1.", "编码", ""):
        assert sentence_case(text) == text
