"""The strip in the sidebar: a training's buttons, where it stands, its loss, and its film on the way to the browser."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from viz.components.registry import component, pack
from viz.components.view import PackedView, View, live
from viz.i18n.catalogue import _, language
from viz.i18n.errors import translate_error
from viz.i18n.format import clock, in_turn, no_training, one_row, percent, significant, stopped, with_label
from viz.state import training
from viz.state.checkpoints import spare_imports
from viz.state.film_feed import film_data
from viz.state.serving import by_channel
from viz.state.session import Session, current_session
from viz.state.token_groups import merged_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from model.inference.text_model import TextModel
    from model.training.live.live_training import LiveTraining
    from model.training.live.snapshot import Snapshot
    from model.training.settings import BatchSizes

STRIP = "training_strip"
PLAN = "training_plan"  # in the session's memory
DRAWN = 200  # points of the loss
SIZES = (64, 256, 1024)  # tokens of a batch to choose from, beside the full one


def facts(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Facts on a training, for the sidebar: text, and in full on hover; those that are `short` stand there at rest."""
    total = _("of {total}").format(total=snapshot.total) if snapshot.total else ""
    rows = [(True, _("step {step}").format(step=f"{snapshot.step:,}"), total)]
    if snapshot.loss is not None:
        loss = _("loss {loss}").format(loss=significant(snapshot.loss))
        rows.append((snapshot.exact_match is None, loss, str(snapshot.loss)))  # the line below draws it
    if snapshot.exact_match is not None:
        share = _("{share} right").format(share=percent(snapshot.exact_match, 0))
        rows.append((True, share, _("share of unseen texts that are answered without a mistake")))
    if snapshot.tokens_per_second:
        rate = snapshot.tokens_per_second
        rows.append((False, _("{rate} tokens/s").format(rate=f"{rate:,.0f}"), str(rate)))
    if snapshot.seconds_left and snapshot.status == "running":
        left = _("{time} left").format(time=clock(snapshot.seconds_left))
        rows.append((False, left, str(snapshot.seconds_left)))
    return [{"short": short, "text": text, "title": title} for short, text, title in rows]


def status_sentence(snapshot: Snapshot) -> str:
    """Sentence of the sidebar on a training that does not simply run."""
    if snapshot.unseen:
        return _("paused: nobody was looking")
    return {
        "preparing": _("preparing the data …"),
        "waiting": _("waiting: place {count} in the queue").format(count=snapshot.ahead + 1),
        "failed": translate_error(snapshot.message),
        "finished": _("finished"),
        "stopped": _("stopped"),
    }.get(snapshot.status, "")


def batch_data(sizes: BatchSizes | None) -> dict[str, Any]:
    """The size of the batches that are watched, with others to choose, and what ▶ takes; None: nothing can begin."""
    if sizes is None:
        return {"sentence": "", "chosen": 0, "sizes": []}
    if sizes.watched < sizes.full:
        sentence = _("Batches of {size} tokens, quick to watch; ▶ takes {full}")
    else:
        sentence = _("Batches of {size} tokens, as ▶")
    choices = {size for size in SIZES if size < sizes.full} | {sizes.watched, sizes.full}
    return {
        "sentence": sentence.replace("{full}", f"{sizes.full:,}"),
        "chosen": sizes.watched,
        "sizes": [[size, f"{size:,}"] for size in sorted(choices)],
    }


def strip_data(
    live: LiveTraining | None,
    refused: str,
    plan: tuple[str, str] = ("", ""),
    own: bool = True,
    sizes: BatchSizes | None = None,
    model_name: str = "",
) -> dict[str, Any]:
    """Data of the strip in the sidebar. refused: why nothing can begin. plan: the data that the first click would train
    on, and a sentence about it. own: this visitor may steer the training. sizes: of its batches. model_name: that of
    the shown model, where that is not the one in training.
    """
    anew = begins(live, model_name)
    name = model_name if anew or live is None else live.start.name
    words = {
        "of": name,
        "steps": " · ".join(filter(None, [_("Train steps"), name])),
        "one": _("Train one step"),
        "advance": _("Train {count} steps"),
        "run": _("Train on"),
        "pause": _("Pause"),
        "reset": _("Back to the weights of before the training"),
        "curve": _("training loss over the steps"),
        "batch": _("Tokens of a batch while some steps are taken to be watched"),
        "more": _("About this training"),
    }
    batches = batch_data(sizes)
    signs = _(
        "1, 10, 100: train as many steps; ▶: train until the end or a pause; ↺: begin another run from the first "
        "weights, the runs so far are kept."
    )
    if live is None:
        data, sentence = plan
        return {
            "status": "none",
            "question": [],
            "step": 0,
            "summary": _("cannot be trained") if refused else _("on {data}").format(data=data),
            "about": [refused] if refused else [sentence, signs],
            "facts": [],
            "losses": [],
            "sentence": "",
            "words": words,
            "batches": batches,
            "possible": [] if refused else ["advance", "batch", "run"],
        }
    snapshot = live.snapshot
    rows, sentence, question, about = facts(snapshot), status_sentence(snapshot), [], [signs]
    summary = [row["text"] for row in rows if row["short"]]
    onward = {"advance", "batch", "run", "pause" if snapshot.status in training.MOVING else "run"}
    possible = {"reset"} if snapshot.status in training.OVER else {*onward, "reset"}
    if model_name:  # before a click: what it trains, and shows from then on
        if anew:  # the heading has the name of the other one, and the line room for the step alone
            summary = [live.start.name, summary[0]]
        words["reset"] = with_label(words["reset"], live.start.name)
        if anew and refused:
            possible, sentence = {"reset"}, in_turn(sentence and stopped(sentence), refused)
        elif anew:
            possible = {"advance", "batch", "run", "reset"}
            onto = _("A step begins the training of a copy of {shown} in its place.").format(shown=model_name)
            about, question = [onto, signs], give_up_question(live, model_name)
        elif snapshot.status not in training.OVER:
            onto = _("A step trains the copy of {name} that is in training, and shows it in the place of {shown}.")
            about = [onto.format(name=live.start.name, shown=model_name), signs]
    return {
        "status": snapshot.status,
        "question": question if own else [],
        "step": snapshot.step,
        "summary": " · ".join(map(one_row, summary)),
        "about": about,
        "facts": rows,
        "losses": live.current.curves.overview("loss", DRAWN) if live.current else [],
        "sentence": sentence if own else training.watched_only(),
        "words": words,
        "batches": batches,
        "possible": sorted(possible if own else ()),
    }


def begins(live: LiveTraining | None, model_name: str) -> bool:
    """True if a step begins a training: there is none, or one of another model than is shown, and that does not move.

    model_name: of the shown model, "" where it is the one in training.
    """
    if live is None:
        return True
    over = live.snapshot.status in training.OVER or live.start.name != model_name
    return bool(model_name) and over and not training.is_moving(live)


def give_up_question(live: LiveTraining, model_name: str) -> list[str]:
    """Words of the two buttons that a step asks with, where it takes the place of runs: begin, or show those. Empty:
    nothing was learnt that would be lost.
    """
    name, runs = live.start.name, len(live.runs)
    if runs <= 1 and not live.snapshot.step:
        return []
    sentence = _("Give up the {count} runs of {name} and train {shown}")
    if runs == 1:
        sentence = _("Give up the run of {name} and train {shown}")
    return [sentence.format(count=runs, name=name, shown=model_name), _("Show {name}").format(name=name)]


_training_strip = component("frame/training_strip")


def strip(session: Session, model: TextModel, trained: bool) -> View:
    """A training's buttons, figures, loss and what the browser lacks of its film, which counts as sent: by the channel,
    where there is one, for of two messages on two ways the later may come first, and the other is dropped.

    trained: whether the model in training is the one that is shown. A click is answered with {name, count}; `again`: a
    part of the film is missing there.
    """
    current = training.training(session)
    other = "" if trained else model.name
    anew = begins(current, other)
    refused = no_training(model.network.ours, model.predicts) if anew else ""
    plan, sizes = ("", ""), current.batches if current else None
    if anew and not refused:
        plan = session.cached(PLAN, (model, language()), partial(training.plan_words, model))
        sizes = training.batch_sizes(session, None, training.usual_plan(model).settings)
        training.prepare_ahead(model)
    run = current.current if current else None
    film, frames = film_data(run, session.training.film_cursor, by_channel() or not session.channels)
    if film and run:
        spare_imports()
        runs = merged_in(session, run.film)
        film["runs"] = {side: {"firsts": each.firsts, "labels": each.labels} for side, each in runs.items()}
    own = current is None or training.is_own(session, current)
    header = strip_data(current, refused, plan, own, sizes, other)
    data = pack({**header, "film": film}, frames)
    return PackedView(_training_strip, STRIP, data, {"act": partial(on_act, model, trained), "again": on_again})


@live
def on_again(_when: float) -> None:
    """Send the film from its beginning."""
    current_session().training.film_cursor.begin()


def on_act(model: TextModel, trained: bool, act: dict[str, Any]) -> None:
    """A button of the strip. The first one begins a training of the model that is shown.

    trained: as for `strip`. act: with `anew` where the visitor gives up the runs of another model.
    """
    session = current_session()
    live, session.message = training.training(session), ""
    if live is not None and not training.is_own(session, live):
        session.message = training.watched_only()
        return
    name, count = act["name"], int(act.get("count") or 1)
    other = "" if trained else model.name
    if name in ("advance", "batch", "run") and begins(live, other):
        lost = live is not None and name != "batch" and give_up_question(live, other)
        if lost and not act.get("anew"):  # it moved when the button was drawn: the question is there now
            session.rerun_requested = True
            return
        plan = training.usual_plan(model)
        if name == "batch":
            session.training.watched_batch = max(1, min(count, plan.settings.batch_tokens))
            return
        sizes = training.batch_sizes(session, None, plan.settings)
        first = replace(plan.settings, batch_tokens=sizes.full if name == "run" else sizes.watched)
        try:
            model.network.require_logits()
            data = plan.data(model)
            material = training.material_of(model, data)
            request = training.own_key(session), model.config, material, plan.settings, model.device
            needed = training.trainings().require_room(*request)
            live = training.begin(session, model, material, first, data.source, needed=needed, batches=sizes)
        except ValueError as error:
            session.message = str(error)
            return
    if live is None:  # it is gone
        return
    if name == "batch":
        live.watch_batches(max(1, min(count, live.batches.full)))
        return
    if name != "reset":  # which leaves the model and the text that are shown
        training.show()  # what is trained is what one wants to see
    session.rerun_requested = True  # the whole page is drawn: a step may be done before anybody sees that it moves
    acts: dict[str, Callable[[], None]] = {
        "advance": partial(live.advance, count),
        "run": live.run,
        "pause": live.pause,
        "reset": live.reset,
    }
    if name != "show":
        acts[name]()
