"""The input bar: the texts, what the model can do with them, and their tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.assumed import assumptions
from viz.components.views import Mount, token_bar
from viz.i18n import _
from viz.pinning import pinned
from viz.said import said
from viz.what_if import change, note
from viz.words import check_explanation, check_name, no_predictions, significant
from viz.workbench import FIRST_SOURCE, Key, Workbench, attention_kinds, choice, workbench

if TYPE_CHECKING:
    from model import Inspectable
    from model.decoding import Guess

LINE_BREAK = "⏎"  # in a field of one line
CONTINUED = 20  # tokens that the button lets a language model write


def show_controls(lens: Inspectable) -> list[DeltaGenerator]:
    """The source's field and the button; gives the place of the target's field, where the model has a target."""
    two = lens.kind == "encoder-decoder"
    source, *target, button = st.columns([10, 10, 3] if two else [20, 3], vertical_alignment="bottom")
    text_field(source, _("Source") if two else _("Text"), Key.SOURCE, first_source(lens), "")
    act, name, explanation = action(lens)
    if workbench().what_if.changes:
        explanation += " · " + _("What-if changes count: the changed model writes")
    refusal = unable(lens)
    button.button(name, on_click=act, width="stretch", help=refusal or explanation, disabled=bool(refusal))
    if note := reads_ids(lens):
        st.caption(note)
    if note := assumptions(lens):
        st.caption(note)
    return target


def show_target(place: DeltaGenerator, bench: Workbench) -> None:
    """The target's field, with what the model wrote where the user wrote nothing."""
    text_field(place, _("Target"), Key.TARGET, "", bench.written)


def text_field(place: DeltaGenerator, label: str, key: Key, default: str, placeholder: str) -> None:
    """A text that is read while it is typed, and is in the address bar."""
    place.text_input(
        label,
        default,
        key=key,
        live="100ms",
        bind="query-params",
        persist_state="session",
        placeholder=placeholder,
    )


def typed(key: Key, default: str) -> str:
    """What a text field holds, before it is drawn: at the first run, what the address bar gives it."""
    return str(st.session_state.get(key, st.query_params.get(key, default)) or "").replace(LINE_BREAK, "\n")


def write_source(text: str) -> None:
    """Put a text into the source's field, where it can be typed on."""
    st.session_state[Key.SOURCE] = text.replace("\n", LINE_BREAK)


def first_source(lens: Inspectable) -> str:
    """The text that a model is first shown with."""
    return lens.example or FIRST_SOURCE


def texts(lens: Inspectable) -> tuple[str, str]:
    """What is in the fields."""
    return typed(Key.SOURCE, first_source(lens)), typed(Key.TARGET, "")


def look(bench: Workbench, lens: Inspectable) -> None:
    """Trace what is in the fields."""
    bench.look(lens, *texts(lens))


def follow_model(bench: Workbench, lens: Inspectable) -> None:
    """Another model: the text stays, unless it was only the example of the one before."""
    before = bench.lens
    if before not in (None, lens) and typed(Key.SOURCE, first_source(before)) == first_source(before):
        write_source(first_source(lens))


def action(lens: Inspectable) -> tuple[Callable[[], None], str, str]:
    """What the button beside the text does, its name and an explanation."""
    return {
        "encoder-decoder": (
            write_target,
            _("Translate"),
            _("Let the model write the target, and follow what you type"),
        ),
        "decoder-only": (
            go_on,
            _("Continue"),
            _("Let the model go on with the text, by chance (temperature 0.8); ⏎ is a line break"),
        ),
        "encoder-only": (
            fill_in,
            _("Fill in"),
            _("Put the most probable token in the place of each {mask}").format(mask=lens.source_tokenizer.mask_label),
        ),
    }[lens.kind]


def unable(lens: Inspectable) -> str:
    """Why the button does nothing for this model; empty if it does."""
    if not lens.predicts:
        return no_predictions()
    if lens.kind == "encoder-only" and not lens.fills:
        return _("This model's tokenizer has no mask token: nothing can be filled in.")
    return ""


def reads_ids(lens: Inspectable) -> str:
    """That texts are numbers, where a model came without a tokenizer; empty if it has one."""
    reason = lens.source_tokenizer.reason
    return _("This model's text is token ids, such as 12 5 7: {reason}.").format(reason=said(reason)) if reason else ""


def write_target() -> None:
    """Leave the target to the model; a changed one writes it once, so that before and after are of the same tokens."""
    bench = workbench()
    text = ""
    if bench.lens is not None and bench.trace is not None and note(bench):
        text = bench.what_if.generate(bench.lens, typed(Key.SOURCE, first_source(bench.lens))).text
    st.session_state[Key.TARGET] = text.replace("\n", LINE_BREAK)


def go_on() -> None:
    """Let a language model write some tokens more; the same text is always continued in the same way."""
    from model.sampling import Sampling

    lens, text = _lens_and_text()
    drawn = Sampling(temperature=0.8, seed=len(text))
    made = workbench().what_if.generate(lens, text, sampling=drawn, length=CONTINUED)
    write_source(text + made.text)


def fill_in() -> None:
    lens, text = _lens_and_text()
    write_source(workbench().what_if.generate(lens, text).text)


def pack_tokens(bench: Workbench) -> Mount:
    """The token bar: both sides, notes on what was cut, what the model guesses, and the checks of this trace."""
    from model.text import Tokens

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
    return token_bar(data, Key.TOKENS, on_token, on_guess, on_pin, on_restore)


def on_token() -> None:
    """A click on a token makes it the query, where its side is the one that asks."""
    clicked, bench = st.session_state[Key.TOKENS].token, workbench()
    kinds = attention_kinds(bench.lens.model) if bench.lens else []
    one_stack = len(kinds) == 1
    asking = "source" if one_stack or choice(kinds, "cross", Key.KIND) == "encoder" else "target"
    if clicked["side"] == asking:
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
            st.session_state[Key.KIND] = act["attention"]
            bench.say(Key.KIND, act["attention"])


def on_restore() -> None:
    """The model computes as it was trained again."""
    change(workbench(), ())


def on_guess() -> None:
    """A click on what the model holds probable puts it into the text."""
    clicked = st.session_state[Key.TOKENS].guess
    lens, text = _lens_and_text()
    write_source(lens.take(text, int(clicked["number"]), int(clicked["token"])))


def _lens_and_text() -> tuple[Inspectable, str]:
    lens = workbench().lens
    assert lens is not None
    return lens, typed(Key.SOURCE, first_source(lens))


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
