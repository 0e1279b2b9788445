"""Cost of a training, before it begins."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from model.data.datasets import Dataset
from model.data.prepared import prepared
from model.data.sources import TrainingData
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.network.costs import Costs, parameters
from model.runtime.device import choose_device
from model.runtime.errors import is_out_of_memory
from model.training.cost import estimated_step, forecast, memory_needed, require_memory, require_room, timed_step
from model.training.demonstration import fresh
from model.training.notes import long_texts, no_peak
from model.training.settings import TrainingSettings
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, clock, significant
from viz.state import training
from viz.state.session import Session, current_session

Known = tuple[tuple[Dataset, Dataset], Costs]


class Part(StrEnum):
    """Names in the session state."""

    CORPORA = "cost_corpora"
    COSTS = "cost_costs"
    MEASURE = "cost_measure"
    MEASURED = "cost_measured"


def show(
    place: DeltaGenerator,
    buttons: DeltaGenerator,
    model: TextModel | None,
    config: TransformerConfig,
    material: TrainingData,
    settings: TrainingSettings,
    known: Known,
) -> None:
    """Parameters, memory, steps, and the time of a step: estimated, or measured once that was asked for.

    buttons: the row of the one that measures a step. known: of these, see `costs_of`.
    """
    facts = place.container()
    now, (corpora, costs) = (material, config, settings), known
    if buttons.button(_("Measure a step"), key=Part.MEASURE, help=_("Trains two steps of a copy, and forgets it")):
        with place:
            st.session_state[Part.MEASURED] = (now, measure(model, config, material, corpora, settings))
    measured = st.session_state.get(Part.MEASURED)
    seconds = measured[1] if measured and measured[0] == now else None
    parts = [
        _("{count} parameters").format(count=f"{sum(parameters(config).values()):,}"),
        _("about {size} of memory while it trains").format(size=size(memory_needed(config, costs))),
    ]
    if settings.steps:
        parts.append(ngettext("{count} step", "{count} steps", settings.steps).format(count=f"{settings.steps:,}"))
    parts.append(_("peak rate {rate}").format(rate=significant(settings.rate)))
    line = facts.empty()
    line.markdown(" · ".join(parts))  # this machine's speed, for an estimate, takes a moment the first time
    line.markdown(" · ".join([*parts, *times(seconds, config, costs, settings, model)]))
    if isinstance(seconds, str):
        place.error(as_sentence(seconds))
    if long := long_texts(config, corpora):
        place.caption(as_sentence(translate_error(long)))
    epoch = -(-len(corpora[0].order(settings.batch_tokens, None)) // settings.accumulation)
    if sentence := no_peak(settings, settings.steps or settings.epochs * epoch):
        place.warning(as_sentence(translate_error(sentence)))


def costs_of(config: TransformerConfig, material: TrainingData, settings: TrainingSettings) -> Known:
    """Corpora of a training and its validation, with their costs, computed once for the same things.

    Raises:
        ValueError: there is nothing to train on.
    """
    made_of = (material, config.max_length, settings.bpe_dropout)
    read = partial(prepared().corpora, *made_of)
    corpora = current_session().cached(Part.CORPORA, made_of, read)
    now = (*made_of, config, settings)
    return corpora, current_session().cached(Part.COSTS, now, lambda: forecast(config, corpora[0], settings))


def require_costs(config: TransformerConfig, costs: Costs, device: torch.device, session: Session) -> None:
    """Such a training fits into memory, once the one that goes on is freed for it.

    Raises:
        ValueError: it does not, or the model is larger than this server trains.
    """
    training.require_allowed(sum(parameters(config).values()))
    needed = memory_needed(config, costs)
    try:
        require_memory(needed, device)
    except ValueError:
        live = training.steered(session)
        require_memory(needed, device, live.size if live else 0)


def times(
    measured: float | str | None,
    config: TransformerConfig,
    costs: Costs,
    settings: TrainingSettings,
    model: TextModel | None,
) -> list[str]:
    """Seconds of a step, and of all: as measured, or else estimated."""
    if isinstance(measured, float):
        seconds, step, total = measured, _("{time} a step"), _("{time} in all")
    else:
        alone = not training.trainings().slots.busy
        guess = estimated_step(config, costs, settings, model.device if model else choose_device(), alone)
        seconds, step, total = float(f"{guess:.2g}"), _("about {time} a step, estimated"), _("about {time} in all")
    short = f"{significant(1000 * seconds)} ms" if seconds < 1 else f"{significant(seconds)} s"
    said_times = [step.format(time=short if seconds < 60 else clock(seconds))]
    return [*said_times, total.format(time=clock(seconds * settings.steps))] if settings.steps else said_times


def measure(
    model: TextModel | None,
    config: TransformerConfig,
    material: TrainingData,
    corpora: tuple[Dataset, Dataset],
    settings: TrainingSettings,
) -> float | str:
    """Seconds of a step, or why there is none."""
    try:
        with st.spinner(_("A step is measured …")):
            require_room(config, corpora[0], settings, model.device if model else choose_device())
            return timed_step(model or fresh("measured", config, material, settings.seed), corpora, settings)
    except (ValueError, FloatingPointError) as error:
        return translate_error(error)
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            return _("A step does not fit into memory: lower batch_tokens or d_model.")
        raise


def size(count: float) -> str:
    """Bytes as they are written on the screen."""
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while count >= 1000 and len(units) > 1:
        count, units = count / 1000, units[1:]
    return f"{significant(count)} {units[0]}"
