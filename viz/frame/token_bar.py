"""The line of the header that stays in sight: both sides' tokens, what the model guesses, the checks, and the pin."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from model.runtime import cancellation
from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View, live
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import (
    attention_name,
    check_explanation,
    check_name,
    in_turn,
    page_name,
    significant,
    significant_alike,
)
from viz.i18n.messages import in_language
from viz.i18n.names import PARTS, quantity_title
from viz.state.opened_page import open_page
from viz.state.session import Key, Session, current_session
from viz.state.texts import model_and_text, write_source
from viz.state.token_groups import merged, run_of, text_groups, turn
from viz.state.what_if import elsewhere, note
from viz.ui import long_text
from viz.ui.parts import no_views

if TYPE_CHECKING:
    from model.analysis.checks import Check
    from model.analysis.comparison import Alignment, Comparison
    from model.analysis.finite import NotFinite
    from model.analysis.pieces import Pieces
    from model.inference.decoding import Guess
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens
    from viz.frame.page_layout import PageLayout

_token_bar = component("frame/token_bar")


ASIDE = ("training", "lessons", "checkpoints", "lab")  # pages that are not about the text; of the Lab, its statements
BRIEF = 200  # characters of a text in the folded header


def token_bar(session: Session, later: bool = False) -> View:
    """The token bar: both sides, notes on what was cut, what the model guesses, and the checks of this trace.

    later: the checks, and what changed since the pin, follow when the pictures are painted; until then the browser
    shows those of the input before in grey.

    A click on a token is answered with {side, position}, on a guess with {number, token}, on the pin's buttons with
    "keep", "release", "values" or "differences", on one of the largest changes with the page that it opens and what it
    selects; that on `pieces` shows those of a word as one, or apart.
    """
    from model.text.tokenizer import Tokens

    sides = {"source": session.source, "target": session.target or Tokens([], [])}
    runs = merged(session)
    labels = {side: runs[side].labels if side in runs else tokens.labels for side, tokens in sides.items()}
    data: dict[str, Any] = {
        side: [{"label": label, "special": label in session.trace.special_labels} for label in of_side]
        for side, of_side in labels.items()
    }
    job = None if later or not long_text.is_very_long(session) else long_text.long_text_job(session)
    badges = None if later else badges_of(session) if job is None else badges_of_job(job)
    compared = not later and (job is None or job.compared)
    words = {
        "source": _("Source tokens"),
        "target": _("Target tokens"),
        "guess": _("Press to put it into the text"),
        "back": _("earlier tokens"),
        "on": _("further tokens"),
        "fold": _("Fold the header"),
        "unfold": _("Show the texts"),
        "follow": _("checks follow"),
    }
    guesses = [_guess(guess, session.model) for guess in session.model.guesses(session.trace)]
    data |= {"notes": notes(session), "texts": brief(session), "words": words}
    data |= {"aside": is_aside(session.stage), "pages_aside": ASIDE}
    data |= {"badges": badges, "check": None if badges is None else check_chip(badges)}
    data |= {"guesses": guesses, "pin": pinned(session, compared)}
    data["pieces"] = {"mergeable": bool(text_groups(session)), "merged": bool(runs), "words": _pieces_words()}
    config = session.model.config
    not_made = (translate_error(session.what_if.refused), elsewhere(session.what_if, session.trace, config))
    data["changed"] = {
        "text": note(session.what_if, session.trace, config),
        "refused": " · ".join(filter(None, not_made)),
        "words": _changed_words(session),
    }
    acts: dict[str, Answer | None] = {"token": on_token, "guess": on_guess, "pin": on_pin}
    acts |= {"change": on_change, "restore": on_restore, "pieces": on_pieces}
    return PackedView(_token_bar, Key.TOKENS, pack(data), acts)


def is_aside(stage: PageLayout | None) -> bool:
    """The page's content is not about the text, so that the header is folded at first."""
    if stage is None:
        return False
    return stage.page in ASIDE and (stage.page != "lab" or stage.views is no_views)


def brief(session: Session) -> list[str]:
    """The texts, as the folded header has them; before one that the model has not written, where it comes from."""
    source, target = session.traced
    written = target or session.written
    if session.origin == "data" and written:
        written = _("in the data: {text}").format(text=written)
    return [text[:BRIEF] for text in (source, written) if text]


def notes(session: Session) -> dict[str, str]:
    """A note for each side: who wrote it, which of its tokens the model does not know, how many were cut off."""
    model = session.model
    sentences: dict[str, list[str]] = {"source": [], "target": []}
    if session.origin and session.target:
        origins = {
            "data": _("from the data, not written by the model"),
            "trained": _(
                "written by the model as it was; press the button beside the text, and the model as it is now writes it"
            ),
        }
        sentences["target"].append(origins[session.origin])
    sides = {"source": (session.source, model.source_tokenizer)}
    if session.target:
        sides["target"] = session.target, model.target_tokenizer
    for side, (tokens, tokenizer) in sides.items():
        sentences[side] += unknown_note(tokens, tokenizer.unknown, session.trace.special_labels)
        if tokens.left_out:
            cut = ngettext(
                "{count} token left out: this model reads {length}",
                "{count} tokens left out: this model reads {length}",
                tokens.left_out,
            )
            sentences[side].append(cut.format(count=f"{tokens.left_out:,}", length=f"{model.config.max_length:,}"))
    return {side: " · ".join(each) for side, each in sentences.items()}


def unknown_note(tokens: Tokens, unknown: int | None, special: Collection[str]) -> list[str]:
    """A sentence, where the model does not know some of these tokens; of special ones only that for unknown counts."""
    text = [
        token == unknown
        for token, label in zip(tokens.ids, tokens.labels, strict=True)
        if token == unknown or label not in special
    ]
    if not any(text):
        return []
    sentence = ngettext(
        "{count} of {tokens} is unknown to this model", "{count} of {tokens} are unknown to this model", sum(text)
    )
    tokens_text = ngettext("{count} token", "{count} tokens", len(text)).format(count=f"{len(text):,}")
    return [sentence.format(count=f"{sum(text):,}", tokens=tokens_text)]


def check_chip(badges: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All checks in one: those that fail count first, then those that cannot be made."""
    passed = [badge["passed"] for badge in badges]
    if len(badges) == 1 and passed != [True]:  # it speaks for itself
        return dict(badges[0])
    worst = False if False in passed else None if None in passed else True
    if worst is True:
        text = ngettext("{count} check", "{count} checks", len(badges)).format(count=len(badges))
    else:
        text = _("{count} of {all} checks failed") if worst is False else _("{count} of {all} checks not possible")
        text = text.format(count=passed.count(worst), all=len(badges))
    return {"text": text, "passed": worst, "title": _("What was checked on these tensors")}


def badges_of(session: Session) -> list[dict[str, Any]]:
    """The checks of the trace, before them what is not finite in it, or why memory has no room for them. They end where
    another text is there.
    """
    from model.analysis.checks import checks
    from model.analysis.finite import first_not_finite
    from model.runtime.ledger import NoRoomError
    from model.runtime.room import asking

    def check() -> tuple[list[Check], NotFinite | None]:
        with asking(session.is_large):
            return checks(session.trace, lambda _heads: cancellation.check()), first_not_finite(session.trace)

    try:
        return badges_of_checks(*session.cached("checks", (session.trace,), check))
    except NoRoomError as error:
        return [{"text": _("not checked"), "passed": None, "title": translate_error(error)}]


def badges_of_job(job: long_text.LongTextJob) -> list[dict[str, Any]]:
    """The checks of a long text, or why they are not there."""
    if (checked := job.values.get((long_text.CHECKS,))) is not None:
        return badges_of_checks(*checked)
    title = _("This text is long: its checks take a while.")
    if (reason := job.errors.get((long_text.CHECKS,))) is not None:
        return [{"text": _("not checked"), "passed": None, "title": translate_error(reason)}]
    text = _("not checked: cancelled") if job.paused else _("checks follow")
    return [{"text": text, "passed": None, "title": title}]


def badges_of_checks(checks: Sequence[Check], odd: NotFinite | None) -> list[dict[str, Any]]:
    """The badge of each check; odd: what is not finite, which comes first."""
    badges = [_badge(check) for check in checks if check.cells or not check.possible]
    return [*([] if odd is None else [not_finite(odd)]), *badges]


def _badge(check: Check) -> dict[str, Any]:
    """Badge of a check: its name, the number of attentions where not in all of them, and the error; or that it cannot
    be. tensor: what the error is in, as the trace calls it.
    """
    name, about = check_name(check.name), check_explanation(check.name)
    if not check.cells:
        text = _("{check}: cannot be checked here").format(check=name)
        why = _("This model does not show what would have to be compared.")
        if check.name == "fused":
            why = _(
                "There is no second way to compare with: no fused kernel computes the attention of this pass, or its "
                "scores are so large that rounding in this precision explains any weights."
            )
        return {"text": text, "passed": None, "title": f"{why} {about}"}
    parts, sentences = [name], [about]
    if check.modules < check.all_modules:
        parts.append(_("in {count} of {all} places").format(count=check.modules, all=check.all_modules))
        sentences.append(_("In the others there is nothing to compare: no second way, or not what it takes."))
    place = in_language(quantity_title(check.tensor))
    parts += [significant(check.error), *([] if check.passed else [place])]
    largest = _("Nearest to its limit: an error of {error}, where rounding may make {tolerance} ({place}).")
    if not check.passed:
        largest = _("Farthest beyond its limit: an error of {error}, where rounding may make {tolerance} ({place}).")
    if not check.tolerance:
        largest = _("It is {error} ({place}); nothing but 0 is right.") if check.tensor else ""
    error, tolerance = significant(check.error), significant(check.tolerance)
    sentences.append(largest.format(error=error, tolerance=tolerance, place=place))
    title = in_turn(*sentences)
    return {"text": " · ".join(parts), "passed": check.passed, "title": title, "tensor": check.tensor}


def not_finite(odd: NotFinite) -> dict[str, Any]:
    """The badge of a pass that holds NaN or an infinity: what was first so, where, and what usually causes it."""
    kind, place = _("not a number") if odd.kind == "nan" else _("infinite"), in_language(quantity_title(odd.tensor))
    causes = _(
        "Everything computed from it is not finite either. Usual causes: a weight of the file that is not finite (the "
        "health report under Checkpoints names it), or numbers too large for this precision: float16 ends at 65,504."
    )
    return {
        "text": _("{place}, token {token}: {kind}").format(place=place, token=odd.token + 1, kind=kind),
        "passed": False,
        "title": causes,
        "tensor": odd.tensor,
    }


@live
def on_token(clicked: dict[str, Any]) -> None:
    """A click on a token makes it the query, where its side is the one that the page asks for."""
    session = current_session()
    if clicked["side"] == session.selection.side:
        runs, at = merged(session).get(clicked["side"]), int(clicked["position"])
        session.select(query=at if runs is None else runs.firsts[min(at, len(runs) - 1)])


@live
def on_pin(act: str) -> None:
    """Keep this trace as the reference, let it go, or choose what the views show of it."""
    session = current_session()
    if act == "keep":
        session.keep()
    elif act == "release":
        session.release()
    elif act in ("values", "differences"):
        session.differ(act == "differences")


@live
def on_pieces(_clicked: bool) -> None:
    turn(current_session())


def on_change(act: dict[str, Any]) -> None:
    """A click on one of the largest changes opens the page that shows it, at its layer, head and token."""
    session = current_session()
    session.select(**{name: act[name] for name in ("layer", "head", "query") if act.get(name) is not None})
    open_page(act["page"], act["choices"])


def on_restore(_clicked: bool) -> None:
    """Restore the model: it computes as it was trained again."""
    current_session().restore()


@live
def on_guess(clicked: dict[str, int]) -> None:
    """A click on what the model holds probable puts it into the text."""
    model, text = model_and_text()
    write_source(model.take(text, int(clicked["number"]), int(clicked["token"])))


def _guess(guess: Guess, model: TextModel) -> dict[str, Any]:
    title = (
        _("next token") if model.kind == "decoder-only" else f"{model.source_tokenizer.mask_label} {guess.place + 1}"
    )
    choices = [{"token": each.token, "label": each.label, "probability": each.probability} for each in guess.choices]
    choices = [each for each in choices if each["probability"] == each["probability"]]  # of NaN none is first
    return {"title": title, "choices": choices}


def _pieces_words() -> dict[str, str]:
    about = _(
        "The tokens of a word, and the bytes of a character, are one in every view. Weights to them are added up and "
        "rows from them averaged, so that rows sum to what they did; all else is the mean of the pieces, and a "
        "prediction that after the last one. The checks are of the tokens."
    )
    return {"merge": _("Merge pieces"), "about": about}


def _changed_words(session: Session) -> dict[str, str]:
    plain = _(
        "The forward pass is changed; the target is what the unchanged model wrote: the button beside the text lets "
        "this one write"
    )
    return {
        "changed": _("changed"),
        "explanation": plain if session.generation else _("The forward pass is changed"),
        "restore": _("restore"),
    }


# What the token bar says of the pin: what is kept, which tokens differ, what changed most.

LISTED = 12  # changes of each kind
KINDS = {"encoder": "encoder", "self": "decoder", "cross": "cross"}


def pinned(session: Session, compared: bool = True) -> dict[str, Any]:
    """Data of the token bar on the pin: `pinned`, None while nothing is; `comparable`, False for another model's
    vocabulary, or where nothing has a counterpart; `alignments` of both sides; `changes`, largest first, None where
    they are not `compared` yet.
    """
    words = {
        "keep": _("Pin"),
        "explanation": _("Keep this trace as the reference: every view then shows the difference"),
        "pinned": _("pinned"),
        "list": _("largest changes"),
        "differences": _("differences"),
        "about": _("What is pinned, and what has changed most"),
        "release": _("unpin"),
        "none": _("nothing differs from the pin"),
        "follow": _("what changed follows"),
    }
    alignments: dict[str, Any] = {side: {"inserted": [], "deleted": []} for side in ("source", "target")}
    comparison, pin = session.comparison, session.pin
    pin_names: dict[str, str] | None = None
    changes: list[dict[str, Any]] | None = []
    comparable = True
    if pin and comparison:
        pin_names = {"text": pin.text, "model": pin.name}
        runs = merged(session)
        sides = {
            "source": (comparison.source, pin.trace.source_tokens),
            "target": (comparison.target, pin.trace.target_tokens),
        }
        same = [side for side in sides if pin.same_words(session.model, side)]
        for side in same:  # of another vocabulary every token would be marked
            alignments[side] = _alignment(*sides[side], runs.get(side))
        changes = _changes(session, comparison) if compared else None
        empty = compared and comparison.changes.empty
        comparable = bool(same) and not empty
        if empty:
            words["none"] = _("nothing here can be compared with the pin")
    return {
        "words": words,
        "pinned": pin_names,
        "differing": session.differing,
        "comparable": comparable,
        "alignments": alignments,
        "changes": changes,
    }


def _alignment(alignment: Alignment, labels: list[str], runs: Pieces | None) -> dict[str, Any]:
    """Tokens that are new, and those that are gone, each before the token that now stands at its place; a run that is
    one is new where one of its tokens is.
    """
    places = list(enumerate(alignment.places))
    gone = sorted([*alignment.deleted, *(alignment.places[place] for place in alignment.replaced)])
    before = [max((mine + 1 for mine, other in places if 0 <= other < place), default=0) for place in gone]
    inserted = sorted([*alignment.inserted, *alignment.replaced])
    if runs is not None:
        at = [*runs.run_of, len(runs)]
        before, inserted = [at[token] for token in before], sorted({at[token] for token in inserted})
    deleted = [{"label": labels[place], "before": at} for place, at in zip(gone, before, strict=True)]
    return {"inserted": inserted, "deleted": deleted}


def _changes(session: Session, comparison: Comparison) -> list[dict[str, Any]]:
    """A list a kind: its title, its unit, and the largest changes with what a click on them opens."""
    titles = {
        "head": (_("heads"), _("share of a query's weight that moved, the mean, 0 to 1")),
        "layer": (_("layers"), _("change of the residual stream, relative to its norm")),
        "position": (_("positions"), _("change of the last residual stream, relative to its norm")),
        "prediction": (_("predictions"), _("KL divergence from the pinned prediction, in nats")),
    }
    table = comparison.changes
    lists = []
    for kind, (title, unit) in titles.items():
        rows = table[(table["kind"] == kind) & (table["change"] > 0)].head(LISTED).to_dict("records")
        if rows:
            values = significant_alike(*(row["change"] for row in rows))
            items = [_item(session, comparison, *each) for each in zip(rows, values, strict=True)]
            lists.append({"title": title, "unit": unit, "items": items})
    return lists


def _item(session: Session, comparison: Comparison, row: dict[str, Any], value: str) -> dict[str, Any]:
    trace, name = comparison.trace, str(row["name"])
    parts = name.split(".")
    act: dict[str, Any] = {"page": "residual", "choices": {"residual_view": "stream"}}
    if trace.target_tokens:
        act["choices"]["stack"] = parts[0]
    side = ""
    if row["kind"] == "head":
        block = parts[3].removesuffix("_attention")
        kind = "encoder" if parts[0] == "encoder" else KINDS[block]
        layer, head = int(row["layer"]), int(row["head"])
        act = {"page": "attention", "choices": {Key.KIND: kind}, "layer": layer, "head": head}
        if (changes := comparison.row_changes(name)) is not None:  # the row that moved most, for there it is seen
            act["query"] = int(changes[head].nan_to_num(-1.0).argmax())
        label = f"{attention_name(kind)} {layer + 1}.{head + 1}"
    elif row["kind"] == "layer":
        act["layer"] = int(row["layer"])
        stack, block = (in_language(PARTS[part]) for part in (parts[0], parts[3]))
        label = f"{stack} {row['layer'] + 1} · {block}"
    else:
        place = int(row["position"])
        act["query"] = place
        if row["kind"] == "prediction":
            act |= {"page": "predictions", "choices": {}}
        label = trace.tokens_of(name)[place]
        side = "target" if trace.tokens_of(name) is trace.target_tokens else "source"
    token = {"side": side, "position": run_of(session, side, act["query"])} if side else None
    opens = _("Open: {page}").format(page=page_name(act["page"]))
    return {"label": label, "value": value, "exact": row["change"], "act": act, "token": token, "opens": opens}
