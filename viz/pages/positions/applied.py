"""The loaded model with other positions: type, base and length applied to its very weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from model.analysis.comparison import Comparison
from model.analysis.predictions import labels_of, perplexity, text_losses, token_losses
from model.capture.trace import Trace
from model.inference.copies import BASES, LONGEST, vary
from model.inference.models import MaskedLanguageModel, Translator
from model.inference.text_model import TextModel
from model.message import Message
from model.network.config import NETWORK_OPTIONS
from model.text.tokenizer import Tokens
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, PINNED
from viz.figures.colours import LOSS as LOSS_COLOUR
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import no_predictions, significant
from viz.i18n.messages import in_language, joined, labelled
from viz.i18n.names import attention_title
from viz.render.view import view
from viz.state.pin import Pin
from viz.state.position_override import WITH_BASE, PositionSetting, as_trained, override, position_name
from viz.state.session import Key, current_session
from viz.state.texts import first_source, typed
from viz.ui.choice_row import ChoiceRow
from viz.ui.fields import Field, number_field, parse, written
from viz.ui.parts import Drawing, Placed, Views, classes, data_table, expander, explanation, frame_of
from viz.ui.plots import array, caption

if TYPE_CHECKING:
    from viz.state.inputs import Inputs

TYPE = "applied_type"


def section(model: TextModel, row: ChoiceRow) -> Views:
    """The override first; then the text in the model with and without it."""
    choose_type(model, as_trained(model), row.place)
    pin = row.place.container()
    left, right = st.columns([11, 9], gap="medium")
    with left:
        fields = st.columns(2, gap="medium")
        losses = st.container()
    with right:
        sentence_place, changes = st.container(), st.container()
        explain(model)
        data = expander("applied_data", _("Data"))
    choose_numbers(model, as_trained(model), fields)

    def views(model: TextModel) -> Drawing:
        session, trained = current_session(), as_trained(model)
        inputs = session.inputs
        both = session.cached("applied", (inputs.trace, model, trained), lambda: compare(inputs, trained))
        parts: list[Placed] = [(losses, view("applied_losses", losses_chart(inputs, both)))]
        if both.before not in (None, both.now):
            parts.append((changes, view("applied_changes", changes_map(inputs, both))))
        yield parts

        def rest() -> None:
            sentence_place.text("\n".join(verdicts(both)))
            if both.before is not None and model is not trained:
                text = typed(Key.SOURCE, first_source(model))
                texts = both.source, both.target
                new_pin = Pin(trained.name, text, both.before.trace, trained, texts, session.ended)
                pin.button(_("Pin the trained model's trace"), on_click=_pin, args=(new_pin,), key="pin_trained")
            elif model is trained:
                changes.text(_("Choose another type, base or length: every page then shows the model with it."))
            data_table("applied_data", partial(losses_table, inputs, both), "loss", place=data, parts=parts)

        return rest

    return views


def choose_type(model: TextModel, trained: TextModel, place: DeltaGenerator) -> None:
    """The types that this checkpoint can have: learned positions and distances only if it was trained with them."""
    possible = [name for name in NETWORK_OPTIONS["position"].choices if _can_be(trained, name)]
    st.session_state[TYPE] = model.config.position
    place.segmented_control(
        _("Positions"),
        possible,
        format_func=lambda name: in_language(position_name(name)),
        key=TYPE,
        required=True,
        on_change=_choose,
        label_visibility="collapsed",
    )


def _can_be(trained: TextModel, name: str) -> bool:
    if name in ("learned", "relative"):
        return trained.config.position == name
    return name != "rotary" or (trained.config.rotary_channels or trained.config.d_head) % 2 == 0


def choose_numbers(model: TextModel, trained: TextModel, places: Sequence[DeltaGenerator]) -> None:
    low, high = BASES
    base = Field("applied_base", _("base"), "", low, high, whole=False, log=True, bound=False)
    longest = max(LONGEST, trained.config.max_length)
    least = 3 if model.kind == "encoder-only" else 1
    length = Field("applied_length", _("longest input"), "", least, longest, log=True, bound=False)
    if model.config.position in WITH_BASE:
        _number(places[0], base, model.config.position_base, PositionSetting.BASE)
    else:
        sentence = _("{type}: no base.")
        places[0].caption(sentence.format(type=in_language(position_name(model.config.position))))
    if model.config.position == "learned":
        length = replace(length, high=trained.config.max_length)
    _number(places[1], length, model.config.max_length, PositionSetting.LENGTH)


def _number(place: DeltaGenerator, field: Field, value: float, setting: PositionSetting) -> None:
    """A field that says what the model has, unless another number is being typed."""
    field_here = replace(field, changed=partial(_apply, field, setting))
    try:
        same = parse(str(st.session_state.get(field.key, "")), field)[0] == value
    except ValueError:
        same = field.key in st.session_state
    if not same:
        st.session_state[field.key] = written(value)
    number_field(place, field_here)


def _apply(field: Field, setting: PositionSetting) -> None:
    try:
        (value,) = parse(str(st.session_state[field.key]), field)
    except ValueError:
        return  # the field says why
    override(**{setting: int(value) if field.whole else value})


def _choose() -> None:
    override(**{PositionSetting.POSITION: st.session_state[TYPE]})


def _pin(new_pin: Pin) -> None:
    current_session().pin = new_pin


def position_classes(model: TextModel) -> list[type]:
    """Class of positions that this model uses: of ALiBi and rotary positions a part of the attention."""
    stack = "encoder" if model.config.n_encoder_layers else "decoder"
    every = classes(
        *(model.network.get_submodule(f"{stack}.{part}") for part in ("embedding", "layers.0.self_attention"))
    )
    return [each for each in every if each.__module__ == "model.network.positions"]


def explain(model: TextModel) -> None:
    explanation(
        "applied_explanation",
        _(
            "What if this model had other positions than those it was trained with? Its losses on your text say how "
            "much it relies on them."
        ),
        [
            r"\text{loss}_t = -\ln p(\text{token}_t \mid \ldots)",
            r"\text{perplexity} = e^{\overline{\text{loss}}}",
        ],
        _(
            "Positions: Vaswani et al., section 3.5. The weights are the checkpoint's own; only the code of the "
            "positions is another one, which the model was not trained with. Every page shows the model with it until "
            "you restore it. A target that you do not type is the one that the model writes as trained, on every page. "
            "A model that fills in masks has no next token: each token is hidden in turn (Salazar et al., "
            "2020). This is the code that has just run:"
        ),
        *(*position_classes(model), vary, token_losses, text_losses),
    )


# One text in a checkpoint as it was trained, and with other position settings.


@dataclass(frozen=True)
class Pass:
    """A forward pass on the text, and the loss of each token."""

    model: TextModel
    trace: Trace
    losses: Tensor


@dataclass(frozen=True)
class BeforeAfter:
    """The same tokens twice; as trained is None where the trained checkpoint cannot read so many."""

    now: Pass
    before: Pass | None
    source: Tokens
    target: Tokens | None

    @property
    def labels(self) -> list[str]:
        """The tokens whose losses these are; a target's end is one of them."""
        if isinstance(self.now.model, Translator):
            assert self.target is not None
            tokenizer = self.now.model.target_tokenizer
            return [*self.target.labels, *([tokenizer.label(end) for end in tokenizer.ending] or ["?"])]
        return self.source.labels

    @property
    def places(self) -> np.ndarray:
        """Places in `labels` of the losses: what a position writes is the next one."""
        return np.arange(len(self.now.losses)) + (not isinstance(self.now.model, MaskedLanguageModel))


def compare(inputs: Inputs, trained: TextModel) -> BeforeAfter:
    """Both passes on the tokens in the bar: a target that is not typed was written by the model as trained."""
    source, target = inputs.source, inputs.target
    now = _pass(inputs.model, inputs.trace, source, target)
    if inputs.model is trained:
        return BeforeAfter(now, now, source, target)
    if trained.config.position == "learned" and len(source) > trained.config.max_length:
        return BeforeAfter(now, None, source, target)
    before = _pass(trained, trained.trace_tokens(source, target), source, target)
    return BeforeAfter(now, before, source, target)


def _pass(model: TextModel, trace: Trace, source: Tokens, target: Tokens | None) -> Pass:
    return Pass(model, trace, text_losses(model, trace, source, target))


def verdicts(both: BeforeAfter) -> list[str]:
    """Loss and perplexity now and as trained, and how many predictions are others."""
    now, before = both.now, both.before
    if not now.model.predicts:
        return [no_predictions()]
    if bool(now.losses.isnan().all()):
        return [_("No token of this text has a loss: type more of it.")]
    figures = {"loss": significant(float(now.losses.nanmean())), "perplexity": significant(perplexity(now.losses))}
    if before is None:
        sentence = _("Loss {loss} nats per token, perplexity {perplexity}; as trained the model cannot read so many.")
        return [sentence.format(**figures)]
    if before is now:
        return [_("As trained: loss {loss} nats per token, perplexity {perplexity}.").format(**figures)]
    sentence = _(
        "On these tokens, as trained: loss {before} nats per token, perplexity {perplexity_before}; "
        "with these positions: {loss}, {perplexity}."
    )
    sentences = [
        sentence.format(
            before=significant(float(before.losses.nanmean())),
            perplexity_before=significant(perplexity(before.losses)),
            **figures,
        )
    ]
    best = [each.trace["output.logits"].argmax(dim=-1) for each in (now, before)]
    changed = _("The most probable token is another at {count} of {all} positions.")
    sentences.append(changed.format(count=int((best[0] != best[1]).sum()), all=len(best[0])))
    return [*sentences, *_beyond(both)]


def _beyond(both: BeforeAfter) -> list[str]:
    """Sentences on the loss at positions that were never trained."""
    assert both.before is not None
    length = both.before.model.config.max_length
    if len(both.now.losses) <= length:
        return []
    sentence = _("From position {length} on nothing was trained: mean loss {beyond} there, {within} before it.")
    beyond, within = (float(part.nanmean()) for part in (both.now.losses[length:], both.now.losses[:length]))
    if math.isnan(beyond) or math.isnan(within):  # what is last predicts nothing, and only 64 tokens are hidden
        return []
    return [sentence.format(length=length + 1, beyond=significant(beyond), within=significant(within))]


def measured(model: TextModel) -> Message:
    """Definition of the loss for this kind of model."""
    return {
        "encoder-decoder": Message("−ln p of each token of the target, given the source and the target before it"),
        "decoder-only": Message("−ln p of each token, given those before it"),
        "encoder-only": Message("−ln p of each of the first 64 tokens, hidden alone, given all others"),
    }[model.kind]


def losses_chart(inputs: Inputs, both: BeforeAfter) -> Chart:
    """The loss of each token, as trained dashed."""
    series = [Series(Message("now"), both.places, array(both.now.losses), LOSS_COLOUR)]
    if both.before is not None and both.before is not both.now:
        series.append(Series(Message("as trained"), both.places, array(both.before.losses), EXPECTED, dash=True))
    pinned = pinned_losses(inputs, both)
    if pinned is not None:
        series.append(Series(Message("pinned"), both.places, array(pinned), PINNED, dash=True))
    lacking = Message("no pinned predictions to compare with") if inputs.pin and pinned is None else ""
    sentence, about = joined(" · ", measured(inputs.model), lacking), about_losses(inputs.model)
    above = caption(inputs, Message("Loss per token"), "loss", sentence=sentence, about=about)
    tokens = Axis(Message("token"), both.labels, "target" if both.target is not None else "source")
    return Chart(above, series, tokens, Axis(LOSS, zero=True), tall=230, of=Message("quantity"))


def about_losses(model: TextModel) -> About:
    given = {
        "encoder-decoder": r"y_t \mid y_{<t},\, x",
        "decoder-only": r"x_t \mid x_{<t}",
        "encoder-only": r"x_t \mid x_{\setminus t}",
    }[model.kind]
    return About(
        Message("How little the model expects each token of the text: 0 where it is sure of it; dashed, as trained."),
        [rf"\text{{loss}}_t = -\ln p({given})"],
        [text_losses, token_losses],
        meaning=Message("Where the solid line is higher, the model needed the positions that it was trained with."),
    )


def pinned_losses(inputs: Inputs, both: BeforeAfter) -> Tensor | None:
    """The pinned predictions' loss on these tokens; None where there are none to compare with."""
    if isinstance(inputs.model, MaskedLanguageModel):
        return None
    logits = inputs.before("output.logits")
    return None if logits is None else token_losses(logits, labels_of(inputs.model, both.source, both.target))


def head_changes(both: BeforeAfter) -> tuple[list[str], np.ndarray]:
    """For each layer of each attention, and each head, the mean total variation distance from the trained weights."""
    assert both.before is not None
    changes = Comparison(both.now.trace, both.before.trace).changes
    heads = changes[changes["kind"] == "head"]
    table = heads.pivot(index="name", columns="head", values="change")
    table = table.loc[list(dict.fromkeys(sorted(table.index, key=_order)))]
    return [_layer(name) for name in table.index], table.to_numpy(dtype=np.float32)


def _order(path: str) -> tuple[int, int]:
    kind = 2 if "cross" in path else int(path.startswith("decoder"))
    return kind, int(path.split(".")[2])


def _layer(path: str) -> str:
    kind = "cross" if "cross" in path else path.split(".")[0]
    return joined(" ", attention_title(kind), str(int(path.split(".")[2]) + 1))


def changes_map(inputs: Inputs, both: BeforeAfter) -> Heatmap:
    """Share of its attention that each head moved, against the model as trained."""
    layers, values = head_changes(both)
    layer, head = divmod(int(values.argmax()), values.shape[1])
    most = labelled(
        joined(", ", layers[layer], joined(" ", Message("head"), str(head + 1))), significant(float(values.max()))
    )
    not_the_pin = Message("against the model as trained, not the pin") if inputs.pin else ""
    meaning = Message("weights that moved to other tokens, 0 to 1, mean over the queries")
    about = About(
        Message("A row is a layer, a column a head: how much of its weights other positions moved to other keys."),
        [r"\frac{1}{n} \sum_i \tfrac12 \sum_j |w_{ij} - w'_{ij}|, \quad w' \text{ as trained}"],
        [Comparison],
        meaning=Message("A head that looks by place moves much, one that looks by word little."),
    )
    name, sentence = Message("Change of the attention"), joined(" · ", meaning, not_the_pin)
    above = caption(inputs, name, "attention-change", most, sentence, about=about)
    heads = Axis(Message("head"), [str(number + 1) for number in range(values.shape[1])], "")
    scale = Scale(0, max(float(values.max()), 1e-9), "½ Σ |w − w′|")
    return Heatmap(above, values, Axis(Message("layer"), layers, "", prose=True), heads, scale)


LOSS = Message("loss, nats")


def losses_table(inputs: Inputs, both: BeforeAfter) -> pd.DataFrame:
    tokenizer, labels = inputs.model.target_tokenizer, both.labels

    def best(each: Pass) -> list[str]:
        if not each.model.predicts:
            return [""] * len(both.places)
        return [tokenizer.label(token) for token in each.trace["output.logits"].argmax(dim=-1).tolist()]

    columns: dict[str, Any] = {Message("token"): [labels[at] if at < len(labels) else "" for at in both.places]}
    for name, each in ((Message("now"), both.now), (Message("as trained"), both.before)):
        if each is not None:
            columns[joined(", ", LOSS, name)] = each.losses.tolist()
            columns[joined(", ", Message("prediction"), name)] = best(each)
    if (pinned := pinned_losses(inputs, both)) is not None:
        columns[joined(", ", LOSS, Message("pinned"))] = pinned.tolist()
    return frame_of(columns)
