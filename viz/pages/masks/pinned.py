"""The experiments of the page of masks on the pinned trace, at this trace's tokens where the texts differ."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from model.analysis.attention_maps import Maps
from model.analysis.masking import future_change, self_attention, without_causal_mask
from model.capture.interventions import Causal, Intervention
from model.capture.trace import AttentionKind, Trace
from model.inference.text_model import TextModel
from model.message import Message
from model.runtime.errors import require
from viz.figures.chart import Series
from viz.figures.colours import PINNED
from viz.i18n.catalogue import _
from viz.i18n.errors import beside_pin
from viz.i18n.format import no_predictions, significant, with_label
from viz.i18n.messages import joined
from viz.pages.masks.figures import of_head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model.analysis.comparison import Comparison
    from model.text.tokenizer import Tokens
    from viz.state.inputs import Inputs, Selection
    from viz.state.pin import Pin

HeadTensors = tuple[Tensor, Tensor, Tensor]


def head_tensors(trace: Trace, kind: AttentionKind, chosen: Selection) -> HeadTensors:
    """Scores of a head, its mask and its values."""
    path = trace.attention_paths(kind)[chosen.layer]
    scores = trace[f"{path}.{trace.maps_of(path)[-3]}"][chosen.head].float()
    return scores, of_head(trace.visible(path), chosen.head), trace.values(path)[chosen.head].float()


def pinned_tensors(
    comparison: Comparison | None, kind: AttentionKind, chosen: Selection
) -> tuple[HeadTensors | None, str]:
    """Tensors of the pinned trace, at its own tokens; or a sentence why there are none."""
    if comparison is None:
        return None, ""
    pinned = comparison.pinned
    paths = pinned.attention_paths(kind)
    if chosen.layer >= len(paths) or chosen.head >= Maps(pinned, kind).heads:
        return None, _("The pinned model has no such head: there is nothing to compare with.")
    require_scores = partial(require, pinned.network, f"{paths[chosen.layer]}.scores")
    if lacking := beside_pin(require_scores)[1]:
        return None, lacking
    return head_tensors(pinned, kind, chosen), ""


def text_of(pin: Pin, kind: str) -> tuple[list[Tokens], str]:
    """The pinned tokens, source first; none, and a sentence why, where the same experiment cannot be made with them."""
    texts = [each for each in pin.texts if each is not None]
    if pin.model.kind != kind:
        return [], _("The pinned model is of another kind: this experiment cannot be compared with it.")
    if not pin.model.predicts:
        return [], with_label(_("pinned"), no_predictions())
    return texts, ""


def pinned_future(inputs: Inputs, place: int, token: int) -> tuple[list[Series], str]:
    """Effect of the same change of a token in the pinned model, with the causal mask and without; and in words."""
    pin, comparison, model = inputs.pin, inputs.comparison, inputs.model
    if pin is None or comparison is None:
        return [], ""
    texts, lacking = text_of(pin, model.kind)
    if lacking:
        return [], lacking
    alignment = comparison.target if inputs.target else comparison.source
    at = alignment.places[place]
    if at < 0:
        return [], Message("This token is not in the pinned text: its change there cannot be compared.")
    if not pin.same_words(model) or token == texts[-1].ids[at]:
        token = other_token(pin.model, texts[-1].ids, at)
    network, ids = pin.model.network, [torch.tensor([each.ids], device=pin.model.device) for each in texts]
    variants: list[tuple[str, Sequence[Intervention], str]] = [
        (Message("with the causal mask"), [Causal(self_attention(network), True)], "line"),
        (Message("without it"), without_causal_mask(network), "dots"),
    ]
    series, changes = [], []
    for name, interventions, mark in variants:
        moved = future_change(network, ids, at, token, interventions).cpu().numpy()
        ys = np.array([moved[other] if other >= 0 else np.nan for other in alignment.places])
        title = Message("{name}, pinned", name=name)
        series.append(Series(title, np.arange(len(ys)), ys, PINNED, mark, dash=mark == "line"))
        changes.append(joined(" ", name, significant(float(moved[:at].max(initial=0)))))
    return series, Message("In the pinned trace: {changes}.", changes=joined(" · ", *changes))


def other_token(model: TextModel, ids: Sequence[int], place: int) -> int:
    """A token to put at `place`: another of the text where there is one, else the first that is not special."""
    tokenizer = model.target_tokenizer
    plain: list[int] = [token for token in (*ids, *range(len(tokenizer))) if token not in tokenizer.special]
    return next(token for token in plain if token != ids[place])


def unlike(mask: Tensor, other: Tensor) -> Tensor:
    """Places where a mask of a batch differs from the pinned one, place by place: padding stands at places."""
    rows, columns = (min(lengths) for lengths in zip(mask.shape, other.shape, strict=True))
    differs = torch.zeros_like(mask)
    differs[:rows, :columns] = mask[:rows, :columns] != other[:rows, :columns].to(mask.device)
    return differs
