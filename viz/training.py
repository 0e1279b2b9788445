"""Training in the session: what is trained on, where it stands, and the model as it is after the newest step."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.i18n import _
from viz.words import significant
from viz.workbench import Workbench

if TYPE_CHECKING:
    from model import Inspectable
    from model.camera import Probe
    from model.live import LiveTraining
    from model.live_registry import LiveTrainings
    from model.materials import Material
    from model.snapshots import Snapshot

RUN = "run"  # in the address: a reconnect finds the training again
EVERY = 0.5  # seconds between looks at a training
DRAWN = 200  # points of the loss in the sidebar
PHRASES = "phrases"


@st.cache_resource(show_spinner=False)
def trainings() -> LiveTrainings:
    """Those of this process, of all sessions."""
    from model.live_registry import LiveTrainings

    return LiveTrainings()


def training(bench: Workbench) -> LiveTraining | None:
    """This session's training, found again by the address after a reload; being asked for is a sign of life."""
    key = bench.run or st.query_params.get(RUN)
    found = trainings().get(key) if key else None
    if found and not bench.run:
        bench.run = key or ""
        bench.say(RUN, bench.run)
    return found


def begin(bench: Workbench, lens: Inspectable, material: Material, settings: Any, probe: Probe, data: str) -> None:
    """A new training of this session on a copy of `lens`; the one before is freed."""
    from model.live import LiveTraining
    from model.saving import Source

    bench.run = bench.run or secrets.token_urlsafe(9)
    source = Source(data, "")
    trainings().begin(
        bench.run, lambda slots: LiveTraining(lens, material, settings, probe, source=source, slots=slots)
    )
    bench.say(RUN, bench.run)


def usual_data(lens: Inspectable) -> str:
    """What a bundled model is trained on unless the user chooses: its own task, or sentences made by rule."""
    task = str(lens.training.get("task") or "")
    return f"task:{task}" if task else PHRASES


def material_of(lens: Inspectable, data: str) -> Material:
    """The data of that name for a model that has its tokenizers already.

    Raises:
        ValueError: it does not fit this kind of model.
    """
    from model.materials import RunningText, Sentences, Translations, prepare
    from model.phrases import phrases

    tokenizers = (lens.source_tokenizer, lens.target_tokenizer)
    if data != PHRASES:
        return prepare(lens.kind, data, None, 0, tokenizers)
    pairs = phrases()
    if lens.kind == "encoder-decoder":
        return Translations(pairs, "", "mixed", 0, tokenizers)
    texts = [pair.source for pair in pairs]
    if lens.kind == "encoder-only":
        return Sentences(texts, "bpe", 0, tokenizers)
    return RunningText("\n".join(texts), "bpe", 0, tokenizers)


def probe_of(bench: Workbench, lens: Inspectable) -> Probe:
    """The text in the input bar; of a task with the right answer, else with the target that is shown."""
    from model.camera import Probe

    assert bench.source is not None
    return Probe(bench.source, bench.target)


def facts(snapshot: Snapshot) -> list[dict[str, str]]:
    """Where a training stands, for the sidebar: text, and in full on hover."""
    found = [{"text": _("step {step}").format(step=f"{snapshot.step:,}"), "title": _("of {total}").format(total=snapshot.total)}]
    if snapshot.loss is not None:
        found.append({"text": _("loss {loss}").format(loss=significant(snapshot.loss)), "title": str(snapshot.loss)})
    if snapshot.exact_match is not None:
        found.append({"text": f"✓ {100 * snapshot.exact_match:.0f} %", "title": _("exact match on unseen texts")})
    if snapshot.tokens_per_second:
        rate = snapshot.tokens_per_second
        found.append({"text": _("{rate} tokens/s").format(rate=f"{rate:,.0f}"), "title": str(rate)})
    if snapshot.seconds_left and snapshot.status == "running":
        minutes, seconds = divmod(round(snapshot.seconds_left), 60)
        found.append({"text": _("{time} left").format(time=f"{minutes}:{seconds:02d}"), "title": str(snapshot.seconds_left)})
    return found


def status_sentence(snapshot: Snapshot) -> str:
    """What the sidebar says of a training that does not simply run."""
    if snapshot.unseen:
        return _("paused: nobody was looking")
    return {
        "preparing": _("preparing the data …"),
        "waiting": _("waiting: {count} before it").format(count=snapshot.ahead + 1),
        "failed": snapshot.message,
        "finished": _("finished"),
    }.get(snapshot.status, "")


def strip_data(live: LiveTraining | None) -> dict[str, Any]:
    """For the strip in the sidebar."""
    words = {
        "advance": _("Train {count} steps"),
        "run": _("Train on"),
        "pause": _("Pause"),
        "reset": _("Back to the weights of before the training"),
        "curve": _("training loss over the steps"),
    }
    if live is None:
        nothing = {"status": "none", "step": 0, "facts": [], "losses": [], "sentence": ""}
        return {**nothing, "words": words, "possible": ["advance", "run"]}
    snapshot = live.snapshot
    losses = live.current.curves.get("loss")[1] if live.current else []
    every = max(1, -(-len(losses) // DRAWN))
    moving = snapshot.status in ("running", "waiting", "preparing")
    possible = {"advance", "run", "pause" if moving else "run", "reset"}
    return {
        "status": snapshot.status,
        "step": snapshot.step,
        "facts": facts(snapshot),
        "losses": [float(loss) for loss in losses[::every]],
        "sentence": status_sentence(snapshot),
        "words": words,
        "possible": sorted(possible),
    }
