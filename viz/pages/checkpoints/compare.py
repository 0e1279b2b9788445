"""Compare checkpoints: what moved between two, and over the steps of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.weights import movement
from model.analysis.weights.heads import CROSS, head_tensors, moved_heads, projection_of
from model.checkpoints.catalog import listed
from model.checkpoints.load_hints import LoadHints
from viz.components.old_plots import Panel, chart, panels
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, attention_name, literal, shape_text, significant
from viz.pages.checkpoints import heads as weights_heads
from viz.pages.checkpoints import runs, tensor
from viz.pages.checkpoints.components import Column, tensor_tree
from viz.pages.checkpoints.heads import KIND, LEAVE, NAMES, leave, open_head, panel_words
from viz.pages.checkpoints.measuring import Moving, moving
from viz.pages.checkpoints.subjects import (
    Subject,
    asked_place,
    choose_pair,
    choose_tensor,
    chosen_place,
    follow_sidebar,
    model_of,
    nearest,
    subjects,
)
from viz.pages.checkpoints.tensor import beside
from viz.pages.checkpoints.tensors import tree_header
from viz.state import assumptions, texts
from viz.state.pin import Pin
from viz.state.session import Key, Session, choose, current_session
from viz.ui.background import CHOSEN, follow
from viz.ui.parts import data_table, explanation, plot_words

if TYPE_CHECKING:
    from model.analysis.weights.heads import Layers
    from model.analysis.weights.movement import Moved
    from model.capture.trace import AttentionKind
    from model.checkpoints.tensors import TensorInfo

BEFORE, AFTER, VIEW = "compare_a", "compare_b", "compare_view"
TREE, LAYERS = "moved_tree", "moved_layers"
VIEWS = ("tensors", "layers", "heads", "steps")


def show(session: Session) -> None:
    """Draw this part of the page."""
    leave()
    row = st.container(horizontal=True, vertical_alignment="center")
    view = choose(_("View"), VIEWS, VIEWS[0], VIEW, view_name, row)
    if view == "steps":
        runs.show(row)
        return
    now = follow_sidebar(AFTER)
    found = {subject.name: subject for subject in subjects()}
    first = next((name for name in (st.session_state.get(AFTER), st.query_params.get(AFTER)) if name in found), now)
    other = None if st.session_state.get(BEFORE) in found else nearest(str(first), list(found.values()))
    before, after = choose_pair(row, (BEFORE, AFTER), (other, now))
    if before is None and after is not None:
        st.info(
            _("No other checkpoint here has the tensors of {name}: choose two that are to be compared.")
            .format(name=literal(after.name))
        )  # fmt: skip
    if before is None or after is None:
        return
    try:
        measured = moving(before, after)
    except (ValueError, OSError) as error:
        st.error(as_sentence(translate_error(error)))
        return
    trace_button(session, row, before, after)
    if view != "tensors":
        st.caption(literal(differences(before, after, measured)))
    if view == "heads":
        show_moved_heads(session, before, after, measured, explain)
    elif not measured.same:
        st.info(
            _("No tensor of {before} has a name and a shape of {after}.").format(
                before=literal(before.name), after=literal(after.name)
            )
        )
    elif view == "tensors":
        tensors(before, after, measured)
    else:
        layers(before, after, measured)


def differences(before: Subject, after: Subject, found: Moving) -> str:
    """How much both have in common, and what only one has, in a sentence."""
    old, new = ({info.name: info for info in subject.table()} for subject in (before, after))
    reshaped = [name for name in new if name in old and new[name].shape != old[name].shape]
    only = [(before, [name for name in old if name not in new]), (after, [name for name in new if name not in old])]
    parts = [_("{count} tensors in both").format(count=len(found.same))]
    for subject, names in only:
        if names:
            parts.append(_("{count} only in {name}").format(count=len(names), name=subject.name))
    if reshaped:
        parts.append(_("{count} of another shape").format(count=len(reshaped)))
    return " · ".join(parts)


def tensors(before: Subject, after: Subject, found: Moving) -> None:
    """The ranking, and the chosen tensor of both."""
    follow([found], partial(tree, before, after, found))
    info = found.same[place_of(found)]
    change = found.of(info)
    tensor.show_pair(before, after, info, equal=change is not None and change.largest == 0)
    beside(explain, partial(moved_data, before, after, found))
    left_over(before, after)


def moved_data(before: Subject, after: Subject, found: Moving) -> None:
    file = f"moved-{before.name}-{after.name}"
    data_table("moved_data", lambda: moved_table(found.same, found.of), file)


def place_of(found: Moving) -> int:
    """The number of the tensor that is looked at, at first the most moved."""

    def change(place: int) -> float:
        known = found.of(found.same[place])
        return known.relative if known and math.isfinite(known.relative) else 0.0

    return chosen_place(found.same, change)


def tree(before: Subject, after: Subject, found: Moving) -> None:
    header = {
        "chosen": place_of(found),
        "asked": asked_place(found.same) is not None,
        "progress": found.progress,
        "sentence": differences(before, after, found),
    }
    file = f"{before.name} → {after.name}"
    moved_tree(found.same, found.of, file, header, TREE, partial(on_tensor, found))()


def on_tensor(found: Moving) -> None:
    choose_tensor(found.same, int(st.session_state[TREE].tensor))
    st.session_state[CHOSEN] = True


def left_over(before: Subject, after: Subject) -> None:
    """What exists only in one, and what has another shape, by name."""
    old, new = ({info.name: info for info in subject.table()} for subject in (before, after))
    rows = [(name, shape_text(old[name].shape), "") for name in old if name not in new]
    rows += [(name, "", shape_text(new[name].shape)) for name in new if name not in old]
    rows += [
        (name, shape_text(old[name].shape), shape_text(new[name].shape))
        for name in new
        if name in old and old[name].shape != new[name].shape
    ]
    if not rows:
        return
    import pandas as pd

    frame = pd.DataFrame(
        rows, columns=[_("tensor"), before.name, f"{after.name} " * (before.name == after.name) or after.name]
    )
    data_table("left_over", lambda: frame, f"only-{before.name}-{after.name}", _("Only in one, or of another shape"))


def layers(before: Subject, after: Subject, found: Moving) -> None:
    """A line for each kind of matrix over the layers."""
    stacks = stacks_of(layered([info.name for info in found.same]))
    if not stacks:
        st.info(_("No name has the number of a layer in it, such as layers.0."))
        return
    place = st.container()
    stack = choose(_("Stack"), stacks, stacks[0], "compare_stack", str, place) if len(stacks) > 1 else stacks[0]
    file = f"{before.name}-{after.name}"
    follow([found], lambda: draw(layer_chart(found.same, found.of, stack, file, LAYERS)))
    beside(explain, partial(moved_data, before, after, found))


def draw(mount: object) -> None:
    assert callable(mount)
    mount()


def trace_button(session: Session, place: DeltaGenerator, before: Subject, after: Subject) -> None:
    """Pins A's trace and shows B's."""
    openable = model_of(before) is not None and model_of(after) is not None
    place.button(
        _("Their traces on the same sentence"),
        on_click=pin_and_show,
        args=(before, after),
        disabled=not openable,
        help=None if openable else _("One of them does not open as a model."),
        key="compare_traces",
    )


def pin_and_show(before: Subject, after: Subject) -> None:
    """A's trace on the texts of the input bar becomes the pin; B becomes the model that is shown, with differences.

    Where the text is only the example of the shown model, both get B's.
    """
    session, model, shown = current_session(), model_of(before), model_of(after)
    assert model is not None
    assert shown is not None
    now = session.model if session.shown else shown
    source, target = texts.texts(now)
    if source == texts.first_source(now):
        source = texts.first_source(shown)
        texts.write_source(source)
    other = Session()
    trace = other.look(model, source, target)
    session.pin, session.differing = Pin(before.name, source, trace, model, (other.source, other.target)), True
    st.session_state[Key.MODEL] = after.name
    st.session_state[LEAVE] = "attention"


def explain() -> None:
    explanation(
        "moved_explanation",
        [
            r"\frac{\|B - A\|_F}{\|A\|_F}, \qquad "
            r"\cos(A, B) = \frac{\sum_{ij} a_{ij} b_{ij}}{\|A\|_F\,\|B\|_F}"
        ],
        _(
            "Tensors of the same name and shape in both files. The relative change says how far a tensor moved, "
            "measured by its own length; the cosine whether it still points the same way: 1 is the same direction. "
            "This is the code that has just run:"
        ),
        movement.moved,
        movement.moved_per_head,
    )


def view_name(view: str) -> str:
    return {
        "tensors": _("Tensors"),
        "layers": _("Layers"),
        "heads": _("Heads"),
        "steps": _("Over steps"),
    }[view]


# Two checkpoints beside each other: which tensors moved, in which layers, of which heads.

LAYERED = re.compile(r"^(.*?)\.(\d+)\.(.*)$", re.S)
# The four projections have their colours everywhere; other kinds share what is left over.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
OTHERS = ("#e69f00", "#56b4e9", "#8a63d2", "#a0522d", "#708090", "#b8860b", "#2f4f4f", "#c71585")
NAMED = 14  # lines in the legend; of more, the pointer says them
RELATION = "‖B−A‖/‖A‖"
RELATIVE = 4  # the number of the column by which the tree is sorted: after name, shape, type and bytes


def moved_tree(
    table: Sequence[TensorInfo],
    of: Callable[[TensorInfo], Moved | None],
    file: str,
    more: Mapping[str, Any],
    key: str,
    on_tensor: Callable[[], None],
) -> Mount:
    """The tensors that both have, the most moved first."""
    found = [of(info) for info in table]
    known = np.array([each is not None for each in found], np.bool_)
    columns = [
        Column(RELATION, _numbers(found, "relative")),
        Column(_("cosine"), _numbers(found, "cosine")),
        Column(_("largest"), _numbers(found, "largest")),
        Column(_("at"), ["" if each is None else ", ".join(map(str, each.place)) for each in found], "text"),
    ]
    return tensor_tree(columns, known, tree_header(table, file, {"sorted": RELATIVE, **more}), key, on_tensor)


def _numbers(found: Sequence[Moved | None], name: str) -> np.ndarray:
    return np.array([np.nan if each is None else getattr(each, name) for each in found], np.float64)


def moved_table(table: Sequence[TensorInfo], of: Callable[[TensorInfo], Moved | None]) -> pd.DataFrame:
    found = [of(info) for info in table]
    rows = {
        _("tensor"): [info.name for info in table],
        _("shape"): [shape_text(info.shape) for info in table],
        RELATION: _numbers(found, "relative"),
        _("cosine"): _numbers(found, "cosine"),
        _("largest change"): _numbers(found, "largest"),
        _("at"): ["" if each is None else ", ".join(map(str, each.place)) for each in found],
    }
    return pd.DataFrame(rows).sort_values(RELATION, ascending=False, ignore_index=True)


def layered(names: Sequence[str]) -> dict[str, dict[int, str]]:
    """Of each kind of tensor, "decoder.layers.*.…", its name in every layer that has one."""
    found: dict[str, dict[int, str]] = {}
    for name in names:
        if match := LAYERED.match(name):
            before, layer, after = match.groups()
            if len(layer) < 6:
                found.setdefault(f"{before}.*.{after}", {})[int(layer)] = name
    return found


def stacks_of(kinds: Mapping[str, Any]) -> list[str]:
    """What stands before the layer's number: a stack each."""
    return list(dict.fromkeys(kind.split(".*.")[0] for kind in kinds))


def layer_chart(
    table: Sequence[TensorInfo], of: Callable[[TensorInfo], Moved | None], stack: str, file: str, key: str
) -> Mount:
    """How far the matrices of each layer moved: a line for each kind."""
    infos = {info.name: info for info in table if len(info.shape) > 1}
    kinds = {kind: names for kind, names in layered(list(infos)).items() if kind.startswith(f"{stack}.*.")}
    last = max((max(names) for names in kinds.values()), default=0)
    series, most = [], (0.0, "")
    others = iter(OTHERS * (1 + len(kinds) // len(OTHERS)))
    for number, (kind, names) in enumerate(kinds.items()):
        changes = np.full(last + 1, np.nan)
        for layer, name in names.items():
            if known := of(infos[name]):
                changes[layer] = known.relative if np.isfinite(known.relative) else np.nan
                most = max(most, (changes[layer], name))
        short = kind.removeprefix(f"{stack}.*.").removesuffix(".weight")
        part = projection_of(next(iter(names.values())))
        colour = next(others) if part is None else COLOURS[part]
        dash = CROSS.search(short) is not None
        series.append(Series(short, np.arange(last + 1), changes, colour, dash=dash, quiet=number >= NAMED))
    sentence = _("{stack}: ‖B−A‖/‖A‖ of every matrix of a layer").format(stack=stack)
    alt = _("{sentence}; most moved: {name}, {change}.").format(
        sentence=sentence, name=most[1][:120], change=significant(most[0])
    )
    header = {
        "x": {"title": _("layer"), "labels": [str(layer + 1) for layer in range(last + 1)], "side": ""},
        "y": {"title": _("relative change"), "zero": True},
        "tall": 240,
        "name": _("Change by layer"),
        "sentence": sentence,
        "alt": alt,
        "file": f"moved-layers-{file}",
        "stamp": f"{file} {stack}",
        "words": plot_words(_("kind"), _("layer"), _("relative change")),
    }
    return chart(series, header, key)


def head_panels(
    changes: np.ndarray, file: str, chosen: tuple[int, int], key: str, on_cell: Callable[[], None]
) -> Mount:
    """Four maps of layer by head on one scale; a click opens the head."""
    _projections, layers, heads = changes.shape
    finite = changes[np.isfinite(changes)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    shown = []
    for name, each in zip(NAMES, changes, strict=True):
        described = {
            "name": name,
            "note": f"{significant(float(np.nanmin(each)))} – {significant(float(np.nanmax(each)))}",
            "rows": {"title": _("layer"), "labels": [str(row + 1) for row in range(layers)], "side": "layers"},
            "columns": {"title": _("head"), "labels": [str(at + 1) for at in range(heads)], "side": "heads"},
            "scale": {"low": 0, "high": top, "difference": False},
            "line": 0,
            "chosen": -1,
            "framed": list(chosen),
            "choose": True,
        }
        shown.append(Panel(np.ones(each.shape, np.bool_), described, np.where(np.isfinite(each), each, np.nan)))
    sentence = _("‖B−A‖/‖A‖ of each head's part, one scale for all; a click opens the head")
    header = {
        "slot": 150,
        "cell": 40,
        "name": _("Change by head"),
        "sentence": sentence,
        "alt": f"{sentence}: " + "; ".join(f"{panel.described['name']} {panel.described['note']}" for panel in shown),
        "file": f"moved-heads-{file}",
        "stamp": file,
        "words": panel_words(),
    }
    return panels(shown, header, key, on_cell)


def head_table(changes: np.ndarray, cosines: np.ndarray) -> pd.DataFrame:
    """A line for each head: how far each of its four parts moved, and whether it still points the same way."""
    columns = {f"{name}: {RELATION}": each for name, each in zip(NAMES, changes, strict=True)}
    return weights_heads.head_table(
        columns | {f"{name}: {_('cosine')}": each for name, each in zip(NAMES, cosines, strict=True)}
    )


# Which heads moved between two checkpoints, whoever wrote them: each head's part of four matrices.

HEADS = "moved_heads"


def show_moved_heads(
    session: Session, before: Subject, after: Subject, found: Moving, explain: Callable[[], None]
) -> None:
    """Which heads moved."""
    both = []
    told = [assumptions.hints_for(subject.name, subject.given) for subject in (before, after)]
    for subject, text in zip((before, after), told, strict=True):
        try:
            both.append(found.remember(("matrices", subject.name, text), partial(matrices, subject, text)))
        except (ValueError, OSError) as error:
            st.info(as_sentence(translate_error(error)))
            return
    old, new = both
    kinds = [kind for kind in new if kind in old]
    if not kinds:
        st.info(_("{before} and {after} have no kind of attention in common.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    kind = cast("AttentionKind", choose(_("Attention"), kinds, kinds[0], KIND, attention_name, st.container()))
    measured = found.remember(("heads", kind, *told), lambda: moved_heads(old[kind], new[kind]))
    if measured is None:
        st.info(_("The heads of {before} and {after} are not of the same number and shapes.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    changes, cosines = measured.float().numpy()
    framed = (min(session.selection.layer, changes.shape[1] - 1), min(session.selection.head, changes.shape[2] - 1))
    head_panels(changes, f"{before.name}-{after.name}", framed, HEADS, partial(on_head, after.name, kind))()
    file = f"moved-heads-{before.name}-{after.name}-{kind}"
    table = partial(head_table, changes, cosines)
    beside(explain, lambda: data_table("moved_heads_data", table, file))


def matrices(subject: Subject, told: str) -> dict[AttentionKind, Layers]:
    return head_tensors(subject.path, LoadHints.read(told), listed(subject.path).kind)


def on_head(name: str, kind: str) -> None:
    cell = st.session_state[HEADS].cell
    open_head(name, kind, int(cell["row"]), int(cell["column"]))
