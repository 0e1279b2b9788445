"""The token bar under the texts: both sides' tokens, what the model guesses, the checks of the trace, and the pin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.components.plots import Mount, token_bar
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import check_explanation, check_name, significant
from viz.pinning import pinned
from viz.state.texts import lens_and_text, write_source
from viz.state.what_if import note, restore
from viz.state.workbench import Key, Workbench, workbench
from viz.ui.parts import arrange_again

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.inference.decoding import Guess
    from model.inference.model import Inspectable


News = tuple["Mapping[str, Any]", "Sequence[NDArray[Any]]"]


def pack_tokens(bench: Workbench, news: Callable[[], News] | None = None) -> Mount:
    """The token bar: both sides, notes on what was cut, what the model guesses, and the checks of this trace.

    news: for the strip of the training, `viz.strip.news`, taken when the bar is mounted: what is taken counts as sent.
    """
    from model.text.tokenizer import Tokens

    assert bench.trace is not None
    assert bench.source is not None
    assert bench.lens is not None
    cut = _("{count} tokens left out: this model reads {length}")
    length = bench.lens.config.max_length
    sides = {"source": bench.source, "target": bench.target or Tokens([], [])}
    data: dict[str, Any] = {
        side: [{"label": label, "special": label in bench.trace.special_labels} for label in tokens.labels]
        for side, tokens in sides.items()
    }
    notes = {
        side: cut.format(count=tokens.left_out, length=length) if tokens.left_out else ""
        for side, tokens in sides.items()
    }
    badges = [
        {
            "text": " · ".join(
                [check_name(check.name), significant(check.error), *([] if check.passed else [check.tensor])]
            ),
            "passed": check.passed,
            "title": f"{check_explanation(check.name)} {_('Largest error')}: {check.error:.3e} ({check.tensor})",
        }
        for check in bench.trace.checks()
        if check.cells
    ]
    words = {"source": _("Source tokens"), "target": _("Target tokens"), "guess": _("Click to put it into the text")}
    guesses = [_guess(guess, bench.lens) for guess in bench.lens.guesses(bench.trace)]
    data |= {"notes": notes, "badges": badges, "words": words, "guesses": guesses, "pin": pinned(bench)}
    data["changed"] = {"text": note(bench), "refused": said(bench.what_if.refused), "words": _changed_words(bench)}

    def mounted() -> None:
        strip, frames = news() if news else (None, ())
        token_bar({**data, "strip": strip}, frames, Key.TOKENS, on_token, on_guess, on_pin, on_restore)()

    return mounted


def on_token() -> None:
    """A click on a token makes it the query, where its side is the one that the page asks for."""
    clicked, bench = st.session_state[Key.TOKENS].token, workbench()
    if clicked["side"] == bench.selection.side:
        bench.select(query=int(clicked["position"]))


def on_pin() -> None:
    """Keep this trace as the reference, let it go, or choose what the views show of it."""
    act, bench = st.session_state[Key.TOKENS].pin, workbench()
    if act == "keep":
        bench.keep()
    elif act == "release":
        bench.release()
    elif act in ("values", "differences"):
        bench.differing = act == "differences"
    else:  # one of the largest changes
        place = {name: act[name] for name in ("layer", "head", "query") if act.get(name) is not None}
        bench.select(**place)
        if act.get("attention"):
            bench.asked[Key.KIND] = act["attention"]
            bench.say(Key.KIND, act["attention"])
            arrange_again()


def on_restore() -> None:
    """The model computes as it was trained again."""
    restore(workbench())
    arrange_again()


def on_guess() -> None:
    """A click on what the model holds probable puts it into the text."""
    clicked = st.session_state[Key.TOKENS].guess
    lens, text = lens_and_text()
    write_source(lens.take(text, int(clicked["number"]), int(clicked["token"])))


def _guess(guess: Guess, lens: Inspectable) -> dict[str, Any]:
    title = _("next token") if lens.kind == "decoder-only" else f"{lens.source_tokenizer.mask_label} {guess.place}"
    choices = [{"token": each.token, "label": each.label, "probability": each.probability} for each in guess.choices]
    return {"title": title, "choices": choices}


def _changed_words(bench: Workbench) -> dict[str, str]:
    plain = _(
        "The forward pass is changed; the target is what the unchanged model wrote: Translate lets this one write"
    )
    return {
        "changed": _("changed"),
        "explanation": plain if bench.generation else _("The forward pass is changed"),
        "restore": _("restore"),
    }
