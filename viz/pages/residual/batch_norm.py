"""A padded batch of the current text: LayerNorm's statistics by position, BatchNorm's by channel."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from model.analysis.norms import Batch, BatchStatistics, batch_of, batch_statistics
from model.message import Message
from model.network.norms import Norm
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, SECOND
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import percent, significant
from viz.i18n.messages import in_language
from viz.pages.residual.norms import norm_label
from viz.state.sentences import Pair, read
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import array, caption, side_of

if TYPE_CHECKING:
    import pandas as pd

    from model.capture.trace import Trace
    from viz.state.inputs import Inputs

MOMENTS = ("mean", "std")
MOST_OTHERS = 7  # sentences beside the one in the fields
# One forward pass for each trace looked at so, with these other sentences.
_batches: WeakKeyDictionary[Trace, tuple[list[Pair], Batch | None]] = WeakKeyDictionary()


def moment_name(name: str) -> Message:
    return {"mean": Message("mean"), "std": Message("deviation")}[name]


def text_batch(inputs: Inputs, beside: list[Pair]) -> Batch | None:
    """Batch of the current text, with the other sentences where there are some; None if that is too short."""
    known = _batches.get(inputs.trace)
    if known is None or known[0] != beside:
        batch = batch_of(inputs.model, inputs.source, inputs.target, read(inputs.model, beside))
        known = _batches[inputs.trace] = (beside, batch)
    return known[1]


def statistics(trace: Trace, batch: Batch, path: str) -> BatchStatistics:
    stack = path.partition(".")[0]
    name = f"{path}.input"
    norm = trace.module(path)
    assert isinstance(norm, Norm)
    return batch_statistics(batch.stacked(name), batch.real[stack], trace[name], norm.eps)


def row_names(count: int, several: bool) -> list[str]:
    """The rows of a batch: the whole text, then its parts, or the other sentences where there are several."""
    if several:
        return [Message("this text"), *(Message("sentence {number}", number=number + 2) for number in range(count - 1))]
    return [Message("whole"), *(Message("part {number}", number=number + 1) for number in range(count - 1))]


def layer_map(
    inputs: Inputs, batch: Batch, measured: BatchStatistics, path: str, moment: str, several: bool
) -> Heatmap:
    """LayerNorm's mean or deviation of each position; padding is hatched. several: the batch is of other sentences."""
    values = array(measured.layer_mean if moment == "mean" else measured.layer_std)
    stack = path.partition(".")[0]
    real = batch.real[stack].cpu().numpy()
    top = float(np.abs(values[real]).max()) or 1.0
    rows, columns = values.shape
    places = [place for row in batch.places[stack] for place in [*row, *[-1] * (columns - len(row))]]
    sentence = Message("one for each position, over its channels")
    return Heatmap(
        caption(inputs, "LayerNorm", f"batch-layer-norm-{moment}", sentence=sentence, about=about_layer(moment)),
        values,
        Axis(Message("text"), row_names(rows, several), "", prose=True),
        Axis(Message("position"), [str(place + 1) for place in range(columns)], ""),
        Scale(-top if moment == "mean" else 0, top, moment_name(moment)),
        visible=real,
        tokens={"side": side_of(inputs.trace, stack), "labels": batch.rows[stack][0].labels, "places": places},
        words={"masked": Message("padding")},
    )


def batch_chart(inputs: Inputs, measured: BatchStatistics, moment: str) -> Chart:
    """BatchNorm's mean or deviation of each channel, without and with the padding."""
    real, padded = measured.real_std, measured.padded_std
    if moment == "mean":
        real, padded = measured.real_mean, measured.padded_mean
    places = np.arange(len(real))
    series = [
        Series(Message("real tokens alone"), places, array(real), SECOND),
        Series(Message("padding counted in"), places, array(padded), FIRST),
    ]
    change = float((padded - real).abs().mean() / real.abs().mean())
    note = Message("padding changes it by {share}", share=percent(change))
    sentence = Message("one for each channel, over all positions of all texts")
    above = caption(inputs, "BatchNorm", f"batch-batch-norm-{moment}", note, sentence, about=about_batch(moment))
    return Chart(above, series, Axis(Message("channel")), Axis(moment_name(moment)), tall=210)


def sentence(batch: Batch, measured: BatchStatistics, path: str) -> str:
    """Measurements in words."""
    real = batch.real[path.partition(".")[0]]
    return _(
        "{rows} texts, padded to {length} tokens: {share} of all positions are padding. At the norm **{norm}** the "
        "normalised states of the whole text, in this batch instead of alone, change by **{layer}** with LayerNorm and "
        "by **{batch}** with BatchNorm (‖y − y′‖ / ‖y′‖)."
    ).format(
        rows=len(real),
        length=real.shape[1],
        share=percent(1 - float(real.float().mean()), 0),
        norm=in_language(norm_label(path)),
        layer=significant(measured.layer_moves),
        batch=significant(measured.batch_moves),
    )


def batch_table(measured: BatchStatistics) -> pd.DataFrame:
    """BatchNorm's statistics of each channel."""
    columns = {
        Message("mean, real tokens"): measured.real_mean,
        Message("mean, padding counted"): measured.padded_mean,
        Message("deviation, real tokens"): measured.real_std,
        Message("deviation, padding counted"): measured.padded_std,
    }
    channels = np.arange(len(measured.real_mean))
    return frame_of({Message("channel"): channels} | {name: array(values) for name, values in columns.items()})


def about_layer(moment: str) -> About:
    """Explanation of LayerNorm's map."""
    sentence = Message(
        "What LayerNorm takes of each position, a column, of each text, a row: the {quantity} of its channels.",
        quantity=moment_name(moment),
    )
    formula, ran = {
        "mean": (r"\mu_{b,p} = \frac{1}{d}\sum_c x_{b,p,c}", Norm.mean),
        "std": (r"\sigma_{b,p} = \sqrt{\textstyle\frac{1}{d}\sum_c (x_{b,p,c} - \mu_{b,p})^2}", Norm.std),
    }[moment]
    return About(
        sentence, [formula], [ran], meaning=Message("It needs no other text, and padding does not come into it.")
    )


def about_batch(moment: str) -> About:
    """Explanation of BatchNorm's curves."""
    sentence = Message(
        "What BatchNorm takes of each channel: its {quantity} over all texts, with their padding and without.",
        quantity=moment_name(moment),
    )
    formula = {
        "mean": r"\mu_c = \frac{1}{|N|}\sum_{(b,p) \in N} x_{b,p,c}",
        "std": r"\sigma_c = \sqrt{\textstyle\frac{1}{|N|}\sum_{(b,p) \in N} (x_{b,p,c} - \mu_c)^2}",
    }[moment]
    positions = r"N: \text{ all positions, or those of real tokens}"
    return About(
        sentence,
        [formula, positions],
        [batch_statistics],
        meaning=Message("So the numbers of a text depend on what else is in its batch."),
    )


def explain(key: str) -> None:
    explanation(
        key,
        _(
            "LayerNorm takes its mean and deviation over the channels of one token; BatchNorm takes them over all "
            "tokens of a batch. So the neighbours in a batch, and the padding, change what BatchNorm gives, and never"
            " what LayerNorm gives."
        ),
        [
            r"\text{LayerNorm: } \mu_{b,p} = \tfrac{1}{d}\sum_c x_{b,p,c} \qquad "
            r"\text{BatchNorm: } \mu_c = \tfrac{1}{B\,P}\sum_{b,p} x_{b,p,c}"
        ],
        _(
            "Ioffe and Szegedy, *Batch Normalization*, 2015, section 3; Ba et al., 2016, section 3. The batch is the "
            "current text and the other sentences that you step through, else its own sentences (its halves, unless "
            "source and target have equally many), the shorter ones padded, computed by this model with its padding "
            "masks. LayerNorm needs one token alone; BatchNorm mixes all texts of a batch, and knows nothing of "
            "padding. This is the code that has just run:"
        ),
        batch_statistics,
    )
