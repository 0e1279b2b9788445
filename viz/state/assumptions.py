"""Assumptions on what the weights of a model do not tell, and how one may change them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import reason_words, translate_error
from viz.i18n.format import clauses, literal, token_code
from viz.state.checkpoints import given_hints
from viz.state.session import current_session
from viz.state.texts import LINE_BREAK

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

ADDRESS = "told"  # the parameter with what was told of the shown model, "heads:8,positions:none,start:1@gpt.pt"
KNOWN = "told_of_models"  # in the session: the same by the names of models
FIELD = "telling"  # prefix of the fields' keys
MOST_LETTERS = 500  # of an alphabet
MOST_NAMED = 8  # tensors that are not used, by name
OPEN = ("prefix", "heads", "positions", "causal", "norm", "activation", "alphabet", "start")


def assumptions(model: TextModel) -> str:
    """Assumptions in a sentence of Markdown; empty where a model says everything itself."""
    named = assumed(model)
    if not named:
        return ""
    listed = literal(clauses(named))
    if not any(str(each).endswith("is not said)") for each in model.training["assumed"]):  # a setting's name before
        return _(
            "The file does not tell everything; assumed: {listed}. Where this is not how the model was trained, what "
            "is shown is not what it computes."
        ).format(listed=listed)
    return _(
        "The weights do not tell everything; assumed: {listed}. Where this is not how the model was trained, what is "
        "shown is not what it computes; what is not said, a config.json beside the weights can say."
    ).format(listed=listed)


def hints_for(name: str, given: bool) -> str:
    """Hints for the model of that name, given here, in the address, or by the command line that gave it."""
    if KNOWN not in st.session_state:
        text, _sign, of = st.query_params.get(ADDRESS, "").partition("@")
        st.session_state[KNOWN] = {of: _read(text)}
    known: str = st.session_state[KNOWN].get(name, "")
    return known or (given_hints(name) if given else "")


def say(name: str) -> None:
    """Into the address what was told of the model that is shown."""
    text = st.session_state[KNOWN].get(name, "")
    address = f"{text}@{name}" if text else ""
    if address != st.query_params.get(ADDRESS, ""):
        current_session().address.set(ADDRESS, address or None)


def forget(name: str) -> None:
    """A model that cannot be opened so is asked about again."""
    if KNOWN in st.session_state:
        st.session_state[KNOWN].pop(name, None)


def chosen(model: TextModel) -> dict[str, int | str]:
    """Hints that may be changed for a model, with those that it was opened with."""
    options = model.training.get("open")
    return {name: options[name] for name in OPEN if name in options} if isinstance(options, dict) else {}


def fields(
    row: DeltaGenerator,
    name: str,
    values: dict[str, Any],
    heads: Sequence[int],
    tokens: int,
    show: Callable[[str], None],
    bases: Sequence[str] = (),
    models: Sequence[str] = (),
) -> None:
    """In a row a field for each of `values`, None where nothing is known yet, and a button that opens the model so.

    show: called with the model's name in the button's callback. bases: the models that an adapter may change. models:
    beginnings of the names of several models in the file.
    """
    keys = {each: f"{FIELD}_{each}_{name}" for each in values}
    if "prefix" in values:
        row.selectbox(
            _("Model in the file"),
            models,
            models.index(values["prefix"]) if values["prefix"] in models else 0,
            key=keys["prefix"],
            format_func=lambda path: path or _("no prefix"),
            width=190,
        )
    if "heads" in values:
        at = heads.index(values["heads"]) if values["heads"] in heads else None
        row.selectbox(_("Heads"), heads, at, key=keys["heads"], placeholder="?", width=110)
    for hint, words in _choices().items():
        if hint in values:
            options = list(words)
            row.selectbox(
                _choice_names()[hint],
                options,
                options.index(values[hint]),
                key=keys[hint],
                format_func=words.__getitem__,
                width=170,
            )
    if "alphabet" in values:
        row.text_input(
            _("Its characters in their order, ⏎ for a new line"),
            str(values["alphabet"]).replace("\n", LINE_BREAK),
            max_chars=MOST_LETTERS,
            key=keys["alphabet"],
            width=260,
        )
    if "start" in values:
        row.number_input(_("A target begins with id"), 0, tokens - 1, values["start"], key=keys["start"], width=190)
    if "base" in values:
        row.selectbox(_("Its base"), bases, None, key=keys["base"], placeholder="?", width=260)
    entries = {each: st.session_state.get(key) for each, key in keys.items()}
    if "alphabet" in entries:
        entries["alphabet"] = str(entries["alphabet"] or "").replace(LINE_BREAK, "\n")
    row.button(
        _("Show it so"),
        key=f"{FIELD}_{name}",
        disabled=None in entries.values() or entries == values,
        on_click=_tell,
        args=(name, keys, show),
    )


def _tell(name: str, keys: dict[str, str], show: Callable[[str], None]) -> None:
    from model.checkpoints.load_hints import LoadHints

    entries: dict[str, Any] = {each: st.session_state[key] for each, key in keys.items()}
    if "alphabet" in entries:
        entries["alphabet"] = str(entries["alphabet"] or "").replace(LINE_BREAK, "\n") or None
    entries["prefix"] = entries.get("prefix") or None
    st.session_state[KNOWN][name] = LoadHints(**entries).text()
    show(name)


def _choices() -> dict[str, dict[str, str]]:
    """Hints that are words, and their names on the screen."""
    return {
        "positions": {"sinusoidal": _("sinusoidal"), "none": _("none")},
        "causal": {"no": _("sees all tokens"), "yes": _("sees earlier ones")},
        "norm": {"post": _("behind each block"), "pre": _("before each block")},
        "activation": {"relu": "ReLU", "gelu": "GELU", "gelu-tanh": "GELU (tanh)"},
    }


def _choice_names() -> dict[str, str]:
    return {
        "positions": _("Positions"),
        "causal": _("A token"),
        "norm": _("Norms"),
        "activation": _("Activation"),
    }


def _read(text: str) -> str:
    """Hints in an address, as far as they can be read."""
    from model.checkpoints.load_hints import LoadHints

    try:
        return LoadHints.read(text).text()
    except ValueError:
        return ""


# Assumptions that were made when a model of others was opened, and quantities that it does not have.


def assumed(model: TextModel) -> list[str]:
    """Assumptions on what the weights do not tell, each in a few words; a file may have written what is quoted."""
    reasons = model.training.get("assumed")
    listed = reasons if isinstance(reasons, list) else []
    return [translate_error(each)[:200] for each in listed if isinstance(each, str)]


def missing(model: TextModel) -> dict[str, list[str]]:
    """Names of the quantities that it does not have, those of all layers as one, by the sentence why."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in ({} if model.network.ours else model.network.missing).items():
        named = re.sub(r"\.\d+\.", ".*.", name)
        names = by_reason.setdefault(reason_words(reason), [])
        if named not in names:
            names.append(named)
    return by_reason


def unused(model: TextModel) -> str:
    """Tensors of its file that it has no use for; empty where there are none."""
    names = _names(model, "unused")
    sentence = ngettext("Not used, {count} tensor of the file:", "Not used, {count} tensors of the file:", len(names))
    return f"{sentence.format(count=len(names))} {_short(names)}" if names else ""


def beside(model: TextModel) -> str:
    """Tensors of its file that are of other parts than the model that is shown; empty where there are none."""
    names = _names(model, "beside")
    sentence = ngettext(
        "Not part of what is shown, {count} tensor of the file:",
        "Not part of what is shown, {count} tensors of the file:",
        len(names),
    )
    return f"{sentence.format(count=len(names))} {_short(names)}" if names else ""


def models_of(model: TextModel) -> list[str]:
    """Beginnings of the names of several models in its file; empty where there is one."""
    return _names(model, "models")


def _names(model: TextModel, key: str) -> list[str]:
    names = model.training.get(key)
    return [str(name) for name in names] if isinstance(names, list) else []


def _short(names: Sequence[str]) -> str:
    """Names of tensors, those of all layers as one."""
    parts = sorted({re.sub(r"\.\d+\.", ".*.", name) for name in names})
    return f"{token_code(', '.join(parts[:MOST_NAMED]))}{', …' if len(parts) > MOST_NAMED else ''}"


def in_short(model: TextModel) -> str:
    """Assumptions and missing quantities in a few lines of Markdown; empty where there is nothing to say."""
    lines = ["- " + _("Assumed: {what}").format(what=literal(each)) for each in assumed(model)]
    lines += [f"- {why} {token_code(', '.join(names))}" for why, names in missing(model).items()]
    lines += [f"- {left}" for left in (beside(model), unused(model)) if left]
    return "\n".join(lines)


def beside_name(model: TextModel) -> str:
    """Markdown beside its name, wherever that stands: what was assumed, and in red what is left out of it."""
    named, left = literal(clauses(assumed(model))), beside(model)
    lines = [_("Assumed: {what}").format(what=named) if named else "", f":red[{left}]" if left else ""]
    return "\n\n".join(filter(None, lines))


def title(model: TextModel) -> str:
    """Heading of the section, with the numbers of assumptions and missing quantities."""
    count = sum(map(len, missing(model).values()))
    sentence = ngettext(
        "{name}: {assumed} assumed, {count} quantity missing",
        "{name}: {assumed} assumed, {count} quantities missing",
        count,
    )
    return sentence.format(name=literal(model.name), assumed=len(assumed(model)), count=count)
