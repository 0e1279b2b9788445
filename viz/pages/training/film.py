"""The film of this session's training: every head at every step that is kept, and the ways back into the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from model.capture.trace import ATTENTION_PATHS
from model.training.live.film import Film
from model.training.live.frame_recorder import LOSS, NORMS, PROBABILITIES, TOKENS
from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View, live
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import SIDES, as_sentence, sides
from viz.i18n.messages import in_language
from viz.pages.training import branch
from viz.pages.training.curves import part_name
from viz.pages.training.start import offer_begin, waits
from viz.render.renderer import about_header, words
from viz.render.view import about_click
from viz.state.film_feed import thinned
from viz.state.session import Session, choose_attention, current_session
from viz.state.token_groups import GroupedAxes, merged_in
from viz.state.training import steered, training, watched_only
from viz.ui.parts import Drawing, Views, no_views
from viz.ui.plots import scores_formula

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from model.analysis.pieces import Pieces
    from model.capture.trace import AttentionKind
    from model.inference.text_model import TextModel
    from model.training.live.key_frames import KeyFrame
    from model.training.live.live_training import LiveTraining
    from model.training.live.runs import Run

FILM, RENDER, OTHERS = "training_film", "film_render", "film_others"
DRAWN = 200  # points of another run's loss
_film = component("pages/training/film")


def page(row: st.delta_generator.DeltaGenerator) -> Views:
    """The film, and what shows another text in its past too. row: of the page's choices, where its own go."""
    live = training(current_session())
    run = live.current if live else None
    if live is None or run is None or not run.film.kinds:
        if live is None:
            offer_begin()
            return no_views
        st.caption(_("There is no film yet: train a step."))
        return waits
    branch.show(st.container(), live)
    kinds = run.film.kinds
    chosen_kind = choose_attention(kinds, row)
    render_again(run.film, row)
    place = st.container()

    def views(_model: TextModel) -> Drawing:
        session, now = current_session(), live.current
        if now is None or chosen_kind not in now.film.kinds:
            session.rerun_requested = True
            return None
        yield [(place, film_view(session, live.runs, now, chosen_kind))]

        def rest() -> None:
            if (every := live.snapshot.film_every) > 1:
                text = _("The film is full: of the steps so far it keeps one in {every}, evenly, and takes no others.")
                place.caption(text.format(every=every))

        return rest

    return views


def film_view(session: Session, runs: Sequence[Run], run: Run, kind: AttentionKind) -> View:
    """The film that the browser has, played and compared there."""
    film = run.film
    layers, heads, queries, _keys = film.shape(kind)
    chosen = session.fit_selection(layers, heads, queries)
    groups = merged_in(session, film)
    header = {
        **described(film, kind, groups),
        "chosen": [chosen.layer, chosen.head],
        "norms": norm_groups(film),
        "others": other_futures(runs, film),
        "words": film_words(),
        "run": run.number,
        "title": " · ".join((_("Film of the training"), film.model.name, _("run {number}").format(number=run.number))),
    }
    sentence = _("Each head's map of one text at every step of the training: rows look, columns are looked at.")
    meaning = _(
        "This text is the probe, the one that was shown when the training began: it is watched, and nothing is learnt "
        "from it unless the data hold it too."
    )
    attention = film.model.network.get_submodule(ATTENTION_PATHS[kind].format(0))
    formula = rf"W^{{(s)}} = \mathrm{{softmax}}\left({scores_formula(attention)} + M\right)"
    above = Caption(_("Film of the training"), FILM, "", about=About(sentence, [formula], [Film], meaning))
    data = pack({**header, **about_header(above)}, [visible_of(session, film, kind, groups).astype(np.uint8)])
    acts: dict[str, Answer | None] = {
        "head": on_head,
        "rewind": on_rewind,
        "branch": on_branch,
        "again": on_again,
        **about_click(FILM, above),
    }
    return PackedView(_film, FILM, data, acts)


def described(film: Film, kind: AttentionKind, merged: Mapping[str, Pieces]) -> dict[str, Any]:
    """Labels of the rows and the columns. merged: by its side, the runs of tokens that are one."""
    probe = film.probe
    rows, columns = SIDES[kind] if probe.target else ("source", "source")
    labels = {"source": probe.source.labels, "target": probe.target.labels if probe.target else []}
    labels |= {side: runs.labels for side, runs in merged.items()}
    return {
        "kind": kind,
        "labels": {"rows": labels[rows], "columns": labels[columns]},
        "sides": {"rows": rows, "columns": columns},
        "titles": {"rows": _("query (from)"), "columns": _("key (to)")},
    }


def other_futures(runs: Sequence[Run], film: Film) -> list[dict[str, Any]]:
    """The probe's loss in the other runs, where their films show the same text."""
    others = [run for run in runs if run.film is not film and run.film.probe == film.probe]

    def read() -> list[dict[str, Any]]:
        futures = []
        for run in others:
            with run.film.still():
                steps, losses = run.film.steps, run.film.series(LOSS)
            places = thinned(len(steps), DRAWN)
            known = [float(loss) if np.isfinite(loss) else None for loss in losses[places]]  # JSON has no other numbers
            futures.append({"run": run.number, "steps": steps[places].tolist(), "losses": known})
        return futures

    return current_session().cached(OTHERS, tuple((run.film.edition, len(run.film)) for run in others), read)


def visible_of(session: Session, film: Film, kind: AttentionKind, merged: Mapping[str, Pieces]) -> NDArray[np.bool_]:
    """The mask of the trace, where it is of the film's tokens; no cell is known to be masked otherwise."""
    probe = film.probe
    queries, keys = film.shape(kind)[2:]
    if session.training.step is not None:  # the model in training is shown
        trace = session.trace
        target = probe.target.labels if probe.target else []
        if (trace.source_tokens, trace.target_tokens) == (probe.source.labels, target):
            seen = trace[f"{trace.attention_paths(kind)[0]}.visible"].cpu()
            if seen.shape == (queries, keys):
                visible: NDArray[np.bool_] = GroupedAxes(trace, sides(trace, kind), merged).any(seen).numpy()
                return visible
    rows, columns = SIDES[kind] if probe.target else ("source", "source")
    sizes = [len(merged[side]) if side in merged else size for side, size in ((rows, queries), (columns, keys))]
    return np.ones(sizes, dtype=bool)


def render_again(film: Film, place: st.delta_generator.DeltaGenerator) -> None:
    """A button while the film does not show its text at the key frames, as after another one was typed."""
    steps = film.steps
    keys = {key.step for key in film.key_frames if key.step <= steps[-1]}
    lacking = {step for step in keys - set(steps.tolist()) if step % film.every == 0}  # a full film keeps no others
    if len(lacking) < 2:
        return
    label = _("Show this text at {count} earlier steps too").format(count=len(lacking))
    if not place.button(label, key=RENDER):
        return
    bar = place.progress(0.0, text=label)
    try:
        for share in film.rerender(film.probe):
            bar.progress(share, text=label)
    except ValueError as error:
        st.error(as_sentence(translate_error(error)))
        return
    st.rerun()


def film_words() -> dict[str, Any]:
    """Words of the component."""
    return {
        **words(_("query"), _("key"), _("weight"), _("masked")),
        "weight": _("weight"),
        "difference": _("difference"),
        "play": _("Play"),
        "pause": _("Pause"),
        "help": _("←, →, Page Up, Page Down, Home and End move it; Enter offers to go back"),
        "speed": _("Frames per second"),
        "scrub": _(
            "Loss on the probe (the text that is filmed) over the steps; ◆ is a key frame: press it to go back there"
        ),
        "alt": _("Film of the training"),
        "buttons": {
            "back": {"text": "", "title": _("One frame back")},
            "on": {"text": "", "title": _("One frame on")},
            "a": {"text": _("Mark as A"), "title": _("Mark this frame as A, or take the mark away")},
            "b": {"text": _("Mark as B"), "title": _("Mark this frame as B, or take the mark away")},
            "difference": {
                "text": _("Show B − A"),
                "title": _("Show frame B minus frame A; without marks, this frame minus the first"),
            },
            "largest": {
                "text": _("Largest change"),
                "title": _("Go to where the chosen head changed most from one frame to the next"),
            },
            "keys": {
                "text": _("◆ Go back …"),
                "title": _("Go back to the key frame nearest to this step, or branch from it"),
            },
        },
        "signs": _("What the buttons do"),
        "moved": _("Head {head} changed most from step {before} to step {after}: {moved} of its attention moved."),
        "key": _("Key frame of step {step}:"),
        "rewind": _("Go back here"),
        "rewinding": _("Forget what came after this step, and stand here"),
        "branch": _("Branch from here"),
        "branching": _("Change settings here and run on with the same batches; the run so far is kept"),
        "run": _("run {number}"),
        "close": _("Close"),
        "waiting": _("The film of this text is on its way …"),
        "frame": _("step {step}"),
        "step": _("step {step}"),
        "loss": _("loss on this text {loss}"),
        "between": _("step {b} minus step {a}"),
        "head": _("Layer {layer}, head {head}"),
        "guesses": _("Most probable next token after"),
        "place": _("frame {number} of {count}"),
        "every": _("one frame each step"),
        "everyFew": _("one frame every {most} steps"),
        "everySome": _("one frame every {least} to {most} steps"),
        "normsOf": _("Norms at this step: a row for each layer, a cell for each token, then the mean over the tokens"),
        "norms": {
            "stream": _("Norm of the residual stream"),
            "mean": _("Mean of what each norm reads"),
            "std": _("Standard deviation of what each norm reads"),
        },
    }


@live
def on_head(clicked: dict[str, Any]) -> None:
    current_session().select(layer=int(clicked["layer"]), head=int(clicked["head"]))


@live
def on_again(_when: float) -> None:
    """The film does not come: the strip sends all of it again, whichever model is shown."""
    current_session().training.film_cursor.begin()


def on_rewind(clicked: dict[str, Any]) -> None:
    live, key = key_frame(clicked)
    if live and key:
        session = current_session()
        try:
            live.rewind(key)
        except ValueError as error:
            session.message = str(error)
        session.rerun_requested = True  # the sidebar too shows where it stands now


def on_branch(clicked: dict[str, Any]) -> None:
    live, key = key_frame(clicked)
    if live and key:
        branch.offer(live, key)


def key_frame(wanted: dict[str, int]) -> tuple[LiveTraining | None, KeyFrame | None]:
    """Key frame of this step; None if it has been thinned out meanwhile, which the session says."""
    session = current_session()
    live = steered(session)
    keys = live.current.film.key_frames if live and live.current else []
    frame = next((key for key in keys if key.step == int(wanted["step"])), None)
    gone = _("The key frame of step {step} is gone: choose another.").format(step=wanted["step"])
    session.message = "" if frame else watched_only() if live is None and training(session) else gone
    return live, frame


def norm_groups(film: Film) -> list[dict[str, Any]]:
    """Groups of each quantity of each stack: the first of its values in a frame's norms, its rows, and whose tokens
    they have.

    quantity: "mean" and "std" of what each norm reads, "stream" for the Euclidean norm of the residual stream.
    """
    groups: list[dict[str, Any]] = []
    first = 0
    for name in film.names:
        if name in film.kinds or name in (NORMS, TOKENS, PROBABILITIES, LOSS):
            continue
        path, _dot, last = name.rpartition(".")
        (positions,) = film.shape(name)
        stack, quantity = name.partition(".")[0], last if last in ("mean", "std") else "stream"
        side = "target" if stack == "decoder" and film.probe.target else "source"
        if not groups or (groups[-1]["quantity"], groups[-1]["stack"]) != (quantity, stack):
            group = {"quantity": quantity, "stack": stack, "side": side, "first": first, "positions": positions}
            groups.append({**group, "rows": []})
        block = path.removesuffix(".norm")
        groups[-1]["rows"].append(in_language(part_name(path if block == stack else block)))
        first += positions
    return groups
