"""Logit attribution: the tokens that each block and each head raises and lowers most at one position."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from model.analysis.logit_attribution import Attribution, Part, block_attribution, head_attribution
from model.capture.trace import Trace
from model.message import Message
from model.network.config import TWO_STACKS
from viz.figures.axis import Axis, Scale
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.i18n.names import attention_title
from viz.state.pin import cached_for_pin
from viz.state.session import Session
from viz.ui.plots import array, block_name, caption
from viz.ui.prediction import Subject, visible

OF = ("blocks", "heads")
SHOWN = 5  # tokens of a part in each direction
ROW = 36  # CSS pixels: room for a token and its number
KINDS = {"self_attention": "decoder", "cross_attention": "cross"}


def of_name(of: str) -> str:
    return {"blocks": _("Blocks"), "heads": _("Heads of a layer")}[of]


@dataclass(frozen=True)
class PositionAttribution:
    """Parts of the logits at the chosen position; of the pinned trace at the same token, where it has the same parts.

    sentence: why there are none.
    """

    own: Attribution | None
    pinned: Attribution | None = None
    sentence: str = ""


def layer_of(subject: Subject) -> int:
    """The chosen layer, or the last one that there is."""
    return min(subject.inputs.selection.layer, layers_of(subject) - 1)


def layers_of(subject: Subject) -> int:
    config = subject.trace.network.config
    return config.n_decoder_layers or config.n_encoder_layers


def found_of(session: Session, subject: Subject, of: str) -> PositionAttribution:
    position, layer = subject.chosen, layer_of(subject)

    def computed(trace: Trace, at: int) -> Callable[[], Attribution]:
        return lambda: block_attribution(trace, at) if of == "blocks" else head_attribution(trace, at, layer)

    made_of = (subject.trace, position, of, layer)
    make = computed(subject.trace, position)
    own, absent = session.cached("attribution", made_of, lambda: unless_absent(make))
    if own is None:
        return PositionAttribution(None, sentence=absent)
    if not own.holds:
        return PositionAttribution(None, sentence=no_sum(subject, own))
    pin, comparison = subject.inputs.pin, subject.comparison
    if pin is None or comparison is None or subject.pinned_at(position) is None:
        return PositionAttribution(own)
    place = comparison.alignments("output.logits")[0].places[position]
    make = computed(pin.trace, place)
    pinned, _absent = cached_for_pin(pin, "attribution", (place, of, layer), lambda: unless_absent(make))
    comparable = pinned is not None and pinned.holds and pinned.parts == own.parts
    return PositionAttribution(own, pinned if comparable else None)


def no_sum(subject: Subject, own: Attribution) -> str:
    """Reason why the parts of some models do not add up."""
    if math.isnan(own.error):
        return _("The logits at this position are not numbers: no sum of what blocks add can be shown.")
    if subject.trace.network.config.output_head == "transform":
        return _(
            "This model's output passes an activation before the vocabulary: its logits are no sum of what blocks add."
        )
    return _(
        "What the parts of this model add does not come to its logits (largest error {error}): something that is not "
        "linear stands between them, such as a cap on the logits."
    ).format(error=significant(own.error))


def part_label(subject: Subject, part: Part) -> str:
    """A part's short name; layers and heads are counted from 1."""
    if part.name == "embedding":
        return Message("embedding")
    if part.name == "sum":
        return Message("sum") if part.layer is None else Message("all heads")
    if part.layer is None:
        return Message("biases")
    if part.head is None and not part.is_bias:
        return block_name(part.layer, part.name)
    number = Message("bias") if part.is_bias else f"{part.layer + 1}.{part.head + 1}" if part.head is not None else ""
    two = subject.model.kind in TWO_STACKS
    return joined(" ", attention_title(KINDS[part.name]), number) if two else number


def moved_tokens(subject: Subject, attribution: PositionAttribution, lowered: bool) -> tuple[Tensor, Tensor]:
    """(part, rank) logits and tokens that each part raises, or lowers, most; or whose differences are the largest."""
    assert attribution.own is not None
    logits = attribution.own.logits
    if subject.differing and attribution.pinned is not None:
        logits = logits - attribution.pinned.logits.to(logits.device)
    best = logits.topk(min(SHOWN, logits.shape[-1]), dim=-1, largest=not lowered)
    return best.values, best.indices


def tokens_map(subject: Subject, attribution: PositionAttribution, of: str, lowered: bool) -> Heatmap:
    """Part × rank: the tokens whose logits a part raises, or lowers, most, coloured by how much."""
    own = attribution.own
    assert own is not None
    values, tokens = moved_tokens(subject, attribution, lowered)
    differing = subject.differing and attribution.pinned is not None
    texts = [visible(subject.label(token)) for row in tokens.tolist() for token in row]
    cells = array(values)
    both = [moved_tokens(subject, attribution, each)[0][:-1].abs().max() for each in (False, True)]
    top = max(float(each) for each in both) or 1.0  # of the parts: their sum may be far larger
    quantity = Message("Δ logit, minus pinned") if differing else Message("logit, from the mean")
    scale = Scale(-top, top, quantity, differing)
    name = Message("Lowered most") if lowered else Message("Raised most")
    note = Message("sum of all parts: largest error {error}", error=significant(own.error))
    question = "" if lowered else subject.with_pin(subject.question(subject.chosen))
    file = f"attribution-{of}-{'lowered' if lowered else 'raised'}"
    above = caption(subject.inputs, name, file, "" if lowered else note, question, about=about(subject, lowered))
    labels = [part_label(subject, part) for part in own.parts]
    rows = Axis(Message("part"), labels, "parts", prose=True)
    columns = Axis(Message("rank"), [str(rank + 1) for rank in range(values.shape[1])], "rank")
    return Heatmap(
        above,
        cells,
        rows,
        columns,
        scale,
        chosen=chosen_row(subject, own),
        highest=ROW * len(labels),
        texts=texts,
        valued=True,
        texts_title=Message("token"),
    )


def chosen_row(subject: Subject, own: Attribution) -> int:
    """The row of the chosen layer's attention, or of the chosen head."""
    layer = layer_of(subject)
    heads = sum(part.head is not None for part in own.parts)
    head = min(subject.inputs.selection.head, max(0, heads - 1)) if heads else None
    wanted = [
        row
        for row, part in enumerate(own.parts)
        if part.layer == layer and part.head == head and part.name == "self_attention" and not part.is_bias
    ]
    return wanted[0] if wanted else -1


def about(subject: Subject, lowered: bool) -> About:
    raised = Message("The tokens whose logits each part of the residual stream raises most, and by how much.")
    sentence = Message("The tokens whose logits each part of the residual stream lowers most, and by how much.")
    frozen = {"rms": r" \qquad D\,v = \gamma \odot \frac{v}{\mathrm{rms}(x)}", "none": ""}
    layer_norm = r" \qquad D\,v = \gamma \odot \frac{v - \bar v}{\sigma(x)}"
    formulas = [
        r"z = \sum_c W_U\,D_c\,y_c + b" + frozen.get(subject.trace.network.config.norm, layer_norm),
        r"\Delta_c = W_U D_c\,y_c - \mathrm{mean}(W_U D_c\,y_c)",
    ]
    return About(
        sentence if lowered else raised,
        formulas,
        [block_attribution],
        meaning=Message("Added up over all parts they give the logits that the softmax reads."),
    )
