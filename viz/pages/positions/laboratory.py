"""The position laboratory: what position encodings are, for any base, length and width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis import positions as analysis
from model.inference.copies import LONGEST
from model.inference.text_model import TextModel
from model.network.positions import alibi_slopes, sinusoidal
from viz.components.view import View
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _, language
from viz.pages.positions import encodings
from viz.pages.positions.encodings import LaboratoryFigures, Picture, Settings
from viz.pages.positions.figures import figure_files
from viz.render.renderer import words
from viz.state.position_override import as_trained
from viz.state.session import address_count, choose, current_session, follow_language
from viz.ui.choice_row import ChoiceRow
from viz.ui.fields import Field, number_field
from viz.ui.new_model import open_form
from viz.ui.parts import Drawing, Views, data_table, explanation

SEVERAL = 4  # numbers in a field
SHOWN = "code"
NOTHING = Settings((1.0,), (1,), (2,))


def section(model: TextModel, row: ChoiceRow) -> Views:
    """Nothing here depends on the text; learned positions change while the model is trained."""
    name = choose(_("Experiment"), list(EXPERIMENTS), "curves", "experiment", experiment_name, row.place)
    nothing = name == "learned" and not encodings.learned_tables(as_trained(model))
    # Where there is nothing to draw, there is nothing to set.
    settings = NOTHING if nothing else controls(model, name)
    place, below = st.container(), st.container()
    left, right = st.columns(2, gap="medium")
    with left:
        explain("laboratory_explanation", name)

    def views(model: TextModel) -> Drawing:
        figures: LaboratoryFigures = ([], [])
        if settings is not None:
            pin = current_session().pin
            of = as_trained(model), pin.model if pin else None
            arguments = (settings, *of) if EXPERIMENTS[name].of_models else (settings,)
            key = (name, *arguments, language())
            figures = current_session().cached("laboratory", key, lambda: EXPERIMENTS[name].compute(*arguments))
        yield []

        def rest() -> None:
            verdicts, pictures = figures
            below.text("\n".join([*verdicts, *no_pin(name)]))  # the figures are seen without scrolling
            if nothing:
                below.button(
                    _("Train a model that has them"),
                    key="learned_offer",
                    on_click=partial(open_form, position="learned"),
                )
            numbered = sorted(enumerate(pictures), key=lambda each: not each[1].wide)
            beside = max(2, sum(not picture.wide for picture in pictures))
            columns: Iterator[DeltaGenerator] | None = None
            for number, picture in numbered:
                if not picture.wide and columns is None:  # below those that take the whole width
                    columns = iter(place.columns(beside, gap="medium"))
                show(next(columns) if columns else place, picture, name, number)
            if pictures:
                with right:
                    data_table("laboratory_data", lambda: curves_table(pictures), f"positions-{name}")

        return rest

    return views


def no_pin(name: str) -> list[str]:
    """Reason why a formula has nothing to compare with the pin."""
    if current_session().pin is None or EXPERIMENTS[name].of_models:
        return []
    return [_("These figures are of the formula with the numbers above, of no text and no model: no pin changes them.")]


def controls(model: TextModel, name: str) -> Settings | None:
    """Settings of the fields; None while one of them holds no number that can be."""
    widest = max(1024, model.config.d_model)
    longest = max(2048, min(model.config.max_length, LONGEST))
    config = as_trained(model).config
    fields = {
        "bases": Field("bases", _("base"), "10000, 1000", 1.0, 1e9, whole=False, log=True, most=SEVERAL),
        "lengths": Field("lengths", _("length"), "100", 1, longest, log=True, most=SEVERAL),
        "compared": Field("compared", _("lengths"), "60, 100, 512", 1, longest, log=True, most=SEVERAL),
        "widths": Field("widths", "d_model", str(config.d_model), 2, widest, even=True, most=SEVERAL),
        "dimension": Field("dimension", _("dimension"), "4, 20", 0, widest - 1, most=SEVERAL),
        "k": Field("k", "k", "3", 0, longest - 1),
        "position": Field("place", _("position p"), "50", 0, longest - 1),
    }
    settable = EXPERIMENTS[name].settable
    one = set(CODE) <= set(settable)  # of several combinations one is drawn alone
    places = st.columns(len(settable) + one, gap="medium")
    given = {key: number_field(place, fields[key]) for key, place in zip(settable, places, strict=False)}
    if not all(given.values()):
        return None
    whole = {key: tuple(int(value) for value in values) for key, values in given.items()}
    settings = Settings(
        tuple(given["bases"]),
        whole.get("compared", whole.get("lengths", (min(model.config.max_length, LONGEST),))),
        whole.get("widths", (model.config.d_model,)),
        whole.get("dimension", (0,)),
        whole.get("k", (1,))[0],
        whole.get("position", (0,))[0],
    )
    return replace(settings, single=choose_code(settings, places[-1])) if one else settings


def choose_code(settings: Settings, place: DeltaGenerator) -> int:
    """Number of the combination that is drawn where there is place for one; in the address from 1."""
    codes, address = settings.codes(), current_session().address
    if len(codes) == 1:
        return 0
    number = min(max(1, address_count(SHOWN) or 1), len(codes)) - 1
    label, names = _("Drawn alone"), [settings.name(code) for code in codes]
    if address.take(SHOWN):
        st.session_state[SHOWN] = number
    follow_language(SHOWN)
    chosen = place.selectbox(label, range(len(codes)), number, format_func=names.__getitem__, key=SHOWN) or 0
    if chosen or SHOWN in st.query_params:
        address.set(SHOWN, str(chosen + 1))
    return chosen


def experiment_name(name: str) -> str:
    return {
        "curves": _("Curves"),
        "wavelengths": _("Wavelengths"),
        "shift": _("Moved by k"),
        "any_length": _("Any length"),
        "misread": _("A wrong formula"),
        "learned": _("Learned"),
        "relative": _("Rotary, ALiBi"),
    }[name]


def show(place: DeltaGenerator, picture: Picture, name: str, number: int) -> None:
    """A figure under its title and the menu of its files."""
    # The menu has an image, and CSV too; three buttons less leave the name of the axis free.
    config = {"displaylogo": False, "modeBarButtonsToRemove": ["toImage", "zoomIn2d", "zoomOut2d", "autoScale2d"]}
    # A finger that scrolls must not open a field over an axis; and plotly's hints are English in every language.
    config |= {"showAxisDragHandles": False, "showAxisRangeEntryBoxes": False, "showTips": False}
    picture.figure.update_layout(dragmode=False)  # a swipe scrolls the page: plotly's bar has zooming and its reset
    with place.container(key=f"lab_{number}", gap="xsmall"):
        files(picture, name, f"positions-{name}-{number + 1}", f"lab_files_{number}")()
        st.plotly_chart(picture.figure, theme="streamlit", alt=picture.alt, config=config, key=f"lab_{picture.title}")


def files(picture: Picture, name: str, file: str, key: str) -> View:
    """The title of a figure, and the menu of its files."""
    drawn = picture.figure.data
    if drawn and drawn[0].type == "heatmap":
        header = {"columns": drawn[0].z.shape[1]}
        arrays, titles = [drawn[0].z], (picture.y, picture.x, _("value"))
    else:
        header = {"curves": [curve.name for curve in picture.curves]}
        arrays = [np.asarray(axis, np.float32) for curve in picture.curves for axis in (curve.xs, curve.ys)]
        titles = (_("curve"), picture.x, picture.y)
    experiment = EXPERIMENTS[name]
    about = About(shown_sentence(name), experiment.formulas, experiment.ran, meaning_of(name))
    return figure_files(arrays, {"words": words(*titles), **header}, key, Caption(picture.title, file, "", about=about))


def shown_sentence(name: str) -> str:
    """Sentence on what an experiment's figures show."""
    return {
        "curves": _(
            "One channel of the codes over the positions, a sine or a cosine, for each base, length and width."
        ),
        "wavelengths": _(
            "After how many positions each pair of channels repeats: from 2π up to nearly 2π times the base."
        ),
        "shift": _(
            "The code k positions on is the code turned by one fixed matrix: what the turn misses, and how alike two "
            "codes are by their distance."
        ),
        "any_length": _("The code of one position in tables of several lengths: the same in all of them."),
        "misread": _(
            "The paper's code beside that of a formula which counts the 2 twice: its wavelengths and pairs are others."
        ),
        "learned": _(
            "Learned positions of the model: how alike they are, and how well one fixed matrix moves them on."
        ),
        "relative": _("What the distance of a query and a key does to their score, by rotary positions and by ALiBi."),
    }[name]


def meaning_of(name: str) -> str:
    """Sentence on what follows from an experiment's figures."""
    return {
        "curves": _("Each position has values of its own, and near ones nearly the same."),
        "wavelengths": _("Short ones tell neighbours apart, long ones the beginning of a text from its end."),
        "shift": _("So one matrix can look for what stands k tokens away, wherever it is."),
        "any_length": _("So a table can be made longer without any training."),
        "misread": _("Both tell positions apart; only in the paper's has each sine a cosine of its own wavelength."),
        "learned": _("Nobody told it which places are near: what is alike came out of training."),
        "relative": _("So a score depends on how far apart two tokens are, and not on where they stand."),
    }[name]


def curves_table(pictures: list[Picture]) -> pd.DataFrame:
    """Every whole position of every curve; of a table that is drawn, each cell."""
    parts = []
    for picture in pictures:
        for trace in picture.figure.data:
            if trace.type == "heatmap":
                frame = pd.DataFrame(trace.z).stack().reset_index()
                parts.append(frame.set_axis(["x", "curve", "y"], axis=1).assign(picture=picture.title))
        for curve in picture.curves:
            parts.append(pd.DataFrame({"x": curve.xs, "y": curve.ys, "curve": curve.name, "picture": picture.title}))
    table = pd.concat(parts, ignore_index=True)[["picture", "curve", "x", "y"]].astype({"curve": str})
    return table.set_axis([_("picture"), _("curve"), "x", "y"], axis=1)


# The experiments, and the formulas of their line "What am I looking at?".

ENCODING = r"PE_{(p,\,2i)} = \sin\!\left(p / b^{2i/d}\right) \qquad PE_{(p,\,2i+1)} = \cos\!\left(p / b^{2i/d}\right)"
MOVED = (
    r"PE_{p+k} = R_k\,PE_p,\quad R_k = \mathrm{diag}\begin{pmatrix}\cos\omega_i k & \sin\omega_i k\\"
    r"-\sin\omega_i k & \cos\omega_i k\end{pmatrix},\quad \omega_i = b^{-2i/d}"
)
WAVES = r"\lambda_i = 2\pi\,b^{2i/d}"
WRONG = r"PE^{\text{wrong}}_{(p,\,c)} = \sin\text{ or }\cos\!\left(p / b^{2c/d}\right), \quad c = 0, 1, \ldots, d - 1"
ROTARY = r"(R_m q)^\top R_n k = q^\top R_{n-m}\,k, \quad \theta_i = b^{-2i/d_k}"
ALIBI = r"q_i^\top k_j / \sqrt{d_k} - m_h\,|i - j|, \quad m_h = 2^{-8h/n}"


@dataclass(frozen=True)
class Experiment:
    """An experiment: its fields, and what is computed of them.

    ran: the code that the explanation shows. of_models: it looks at the loaded model and the pinned one too.
    """

    compute: Callable[..., LaboratoryFigures]
    settable: Sequence[str]
    formulas: Sequence[str]
    ran: Sequence[Any]
    of_models: bool = False


CODE = ("bases", "lengths", "widths")
EXPERIMENTS = {
    "curves": Experiment(encodings.curves, (*CODE, "dimension"), [ENCODING], [sinusoidal, analysis.wave_at]),
    "wavelengths": Experiment(encodings.wavelengths, CODE, [ENCODING, WAVES], [sinusoidal, analysis.wavelengths]),
    "shift": Experiment(
        encodings.shift,
        (*CODE, "k"),
        [ENCODING, MOVED],
        [sinusoidal, analysis.rotation, analysis.shift_residual, analysis.likeness, analysis.likeness_at],
    ),
    "any_length": Experiment(
        encodings.any_length,
        ("bases", "compared", "widths", "dimension", "position"),
        [ENCODING],
        [sinusoidal, analysis.length_difference],
    ),
    "misread": Experiment(
        encodings.misread,
        (*CODE, "dimension", "k"),
        [ENCODING, WRONG],
        [sinusoidal, analysis.misread, analysis.misread_wavelengths, analysis.best_shift],
    ),
    "learned": Experiment(
        encodings.learned,
        ("bases", "dimension", "k"),
        [ENCODING],
        [sinusoidal, analysis.best_shift, analysis.shift_residual, analysis.likeness],
        of_models=True,
    ),
    "relative": Experiment(
        encodings.relative,
        ("bases", "lengths"),
        [ROTARY, ALIBI],
        [analysis.rotary_angles, analysis.rotary_scores, alibi_slopes],
        of_models=True,
    ),
}


def plain_words(experiment: str) -> str:
    """Two plain sentences on an experiment."""
    return {
        "curves": _(
            "Each channel of the encoding is a wave over the positions, fast ones first and slow ones last. Read "
            "across the channels at one position, and you have the vector that says where a token stands."
        ),
        "wavelengths": _(
            "The waves of the encoding get longer from channel to channel, like the hands of a clock. The fast ones "
            "tell neighbours apart, the slow ones tell the beginning of a text from its end."
        ),
        "shift": _(
            "Moving by k positions turns each pair of channels by the same angle, wherever one begins. So a model can"
            " learn to look k tokens back with one matrix."
        ),
        "any_length": _(
            "The encoding of a position is computed, not learned, so it does not depend on how long the text is. Here"
            " it is computed for several lengths and compared."
        ),
        "misread": _(
            "A common mistake counts every channel where the formula counts pairs of them. Here is what the encoding "
            "becomes then, and what is lost."
        ),
        "learned": _(
            "Some models learn a vector for each position in the place of computing it. Here it is seen whether what "
            "they learned has the regularity of the waves."
        ),
        "relative": _(
            "Newer models say how far apart two tokens are, and not where each stands. Rotary positions turn queries "
            "and keys, ALiBi lowers the scores of what is far away."
        ),
    }[experiment]


def explain(key: str, experiment: str) -> None:
    explanation(
        key,
        plain_words(experiment),
        EXPERIMENTS[experiment].formulas,
        _(
            "Vaswani et al., *Attention Is All You Need*, section 3.5, with base b = 10000. Rotary positions: Su et "
            "al., 2021, equation 34; ALiBi: Press et al., 2022, section 3. Every number is computed now in float64 by "
            "this code:"
        ),
        *EXPERIMENTS[experiment].ran,
    )
