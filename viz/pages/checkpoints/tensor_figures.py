"""One tensor of a file large: its histogram, its values as a map, its numbers one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from model.analysis.downsample import as_matrix, exact_histogram, in_blocks
from model.analysis.embeddings import nearest
from model.analysis.weights.spectra import Leading, effective_rank, has_spectrum, leading, singular_values, stable_rank
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, PLAIN, SERIES
from viz.figures.figure import About, Caption
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import percent, significant
from viz.i18n.messages import joined
from viz.ui.plots import array

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from model.analysis.weights.statistics import Statistics
    from model.checkpoints.tensors import TensorInfo
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokenizer

BINS = (12, 96)  # of a few values, of many
MOST = (128, 256)  # rows and columns of a map
COLOURS = (PLAIN, FIRST)  # of one checkpoint, of the other
BARS = 160  # values that are drawn as bars; of more, a line
LETTERS = 60
TALL = 384  # CSS pixels of a map's rows together
Blocks = tuple["NDArray[np.float32]", tuple[int, int]]  # drawn cells, and the rows and columns of a block


@dataclass(frozen=True)
class Weight:
    """A tensor that is looked at: of which file, what the file and its values say.

    remember: gives what was computed under a key before, or computes it. remembers: whether it need not be.
    """

    file: str
    info: TensorInfo
    statistics: Statistics
    remember: Callable[[Hashable, Callable[[], Any]], Any]
    remembers: Callable[[Hashable], bool]

    @property
    def title(self) -> str:
        return short(self.info.name)

    @property
    def stamp(self) -> str:
        return f"{self.file} {self.title}"

    def called(self, file: str) -> Weight:
        """The tensor under another name of its file."""
        return replace(self, file=file)

    @property
    def finite(self) -> int:
        return self.info.elements - self.statistics.nan - self.statistics.infinite

    def histogram(self, bins: int, low: float, high: float) -> NDArray[np.float64]:
        """Number of values in each of the bins."""
        key = ("histogram", self.info.name, bins, low, high)
        counts = self.remember(key, lambda: exact_histogram(self.info.load(), bins, low, high).numpy())
        return np.asarray(counts, np.float64)


@dataclass(frozen=True)
class Region:
    """Rows and columns that are looked at, from the first to before the last."""

    rows: tuple[int, int]
    columns: tuple[int, int]


def short(name: str) -> str:
    """A name that fits into a heading."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS // 2]}…{name[-LETTERS // 2 :]}"


def summary(weight: Weight) -> str:
    """Statistics and norm of a tensor, in a line."""
    statistics = weight.statistics
    line: str = Message(
        "mean {mean} · deviation {deviation} · from {low} to {high} · zeros {zeros} · ‖W‖ {norm}",
        mean=significant(statistics.mean),
        norm=significant(math.sqrt(weight.finite) * math.hypot(statistics.mean, statistics.deviation)),
        deviation=significant(statistics.deviation),
        low=significant(statistics.minimum),
        high=significant(statistics.maximum),
        zeros=percent(statistics.zeros, 2),
    )
    if statistics.nan or statistics.infinite:
        line = joined(
            "",
            line,
            Message(
                " · {nan} NaN · {infinite} infinite", nan=f"{statistics.nan:,}", infinite=f"{statistics.infinite:,}"
            ),
        )
    return line


def above(
    weight: Weight, name: str, file: str, about: About, sentence: str = "", note: str = "", alt: str = ""
) -> Caption:
    """The heading of a plot of this tensor."""
    return Caption(name, file, weight.stamp, note, sentence, alt, about)


NOT_FINITE = {"missing": Message("not a finite number")}  # a hatched cell of weights, among the words of a figure


def labelled(weights: Sequence[Weight], alone: str) -> Iterator[tuple[Weight, str, str]]:
    """Each tensor with the name and the colour of its series. alone: the name where there is no other."""
    for weight, colour in zip(weights, COLOURS, strict=False):
        yield weight, weight.file if len(weights) > 1 else alone, colour


def measures(weights: Sequence[Weight]) -> str:
    """Statistics of the tensors, for screen readers."""
    return joined("; ", *(joined(": ", weight.file, summary(weight)) for weight in weights))


def ends(weights: Sequence[Weight]) -> tuple[float, float]:
    """The least and the greatest finite value of them all."""
    low = float(np.nanmin([weight.statistics.minimum for weight in weights]))
    high = float(np.nanmax([weight.statistics.maximum for weight in weights]))
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def histogram(weights: Sequence[Weight], log: bool) -> Chart:
    """Histogram of one tensor, or of two on the same bins."""
    first = weights[0]
    low, high = ends(weights)
    bins = max(BINS[0], min(BINS[1], 2 * round(first.finite**0.5)))
    edges = np.linspace(low, high, bins + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    mark = "line" if len(weights) > 1 or log else "bars"
    series = []
    for weight, name, colour in labelled(weights, Message("values")):
        counts = weight.histogram(bins, low, high)
        series.append(Series(name, middles, np.where(counts == 0, np.nan, counts) if log else counts, colour, mark))
    sentence = Message("all {count} finite values, in {bins} bins", count=f"{first.finite:,}", bins=bins)
    meaning = Message("How many of the tensor's values lie in each interval: all of them are counted.")
    about = About(
        meaning,
        [r"c_b = \#\{\,i : e_b \le w_i < e_{b+1}\,\}"],
        [exact_histogram],
        meaning=Message(
            "Most weights begin as a bell around 0; long tails and peaks are what training, or pruning, made of it."
        ),
    )
    heading = above(first, Message("Histogram"), f"histogram-{first.title}", about, sentence, alt=measures(weights))
    x, y = Axis(Message("value"), low=low, high=high), Axis(Message("count"), log=log, zero=not log)
    return Chart(heading, series, x, y, tall=130, of=Message("checkpoint"))


def whole(shape: Sequence[int]) -> Region:
    rows = shape[0] if len(shape) > 1 else 1
    elements = int(np.prod(shape, dtype=np.int64))
    return Region((0, rows), (0, elements // rows if rows else 0))


def blocks_of(weight: Weight, region: Region, largest: bool) -> Blocks:
    """A rectangle of a tensor's values as a screen can show it."""
    key = ("blocks", weight.info.name, region, largest)
    blocks: Blocks = weight.remember(key, lambda: _blocks(as_matrix(weight.info.load()), region, largest))
    return blocks


def difference_blocks(weights: Sequence[Weight], region: Region, largest: bool) -> Blocks:
    """Blocks of the second tensor minus the first; only the rectangle is read of both."""
    first, second = weights

    def subtract() -> Blocks:
        (top, bottom), (left, right) = region.rows, region.columns
        one, other = (as_matrix(each.info.load())[top:bottom, left:right].float() for each in weights)
        return _blocks(other - one, whole(other.shape), largest)

    blocks: Blocks = second.remember(("difference", first.file, second.info.name, region, largest), subtract)
    return blocks


def _blocks(matrix: Tensor, region: Region, largest: bool) -> Blocks:
    (top, bottom), (left, right) = region.rows, region.columns
    cells, size = in_blocks(matrix[top:bottom, left:right], MOST, largest)
    return array(cells), size


def value_map(
    weight: Weight,
    blocks: Blocks,
    region: Region,
    largest: bool,
    difference: bool = False,
) -> Heatmap:
    """The values of a rectangle, in blocks where there are more than a screen shows."""
    cells, (high, wide) = blocks
    (top, bottom), (left, right) = region.rows, region.columns
    biggest = float(np.nanmax(np.abs(cells), initial=0.0)) or 1.0
    kind = "B − A" if difference else Message("value")
    sentence: str = Message(
        "rows {top} to {bottom}, columns {left} to {right}",
        top=f"{top:,}",
        bottom=f"{bottom - 1:,}",
        left=f"{left:,}",
        right=f"{right - 1:,}",
    )
    if high * wide > 1:
        kind = Message("largest |x| of a block") if largest else Message("mean of a block")
        sentence = joined(
            "", sentence, Message(" · each cell is a block of {high}\xa0×\xa0{wide}", high=high, wide=wide)
        )
    if len(weight.info.shape) > 2:
        sentence = joined("", sentence, Message(" · the first dimension against the others"))
    name, file = (Message("Difference"), "difference") if difference else (Message("Values"), "values")
    rows = Axis(Message("row"), [f"{row:,}" for row in range(top, bottom, high)], "weight rows")
    columns = Axis(Message("column"), [f"{column:,}" for column in range(left, right, wide)], "weight columns")
    scale = Scale(0 if largest else -biggest, biggest, kind, difference)
    heading = above(weight, name, f"{file}-{weight.title}", about_values(largest, difference), sentence)
    return Heatmap(heading, cells, rows, columns, scale, highest=TALL, words=NOT_FINITE)


def about_values(largest: bool, difference: bool) -> About:
    """Explanation of a map of a tensor's values."""
    sentence = Message("The numbers of the tensor where they stand: a cell is one, or a block of neighbours.")
    if difference:
        sentence = Message("What the second checkpoint's tensor has more than the first one's, where it stands.")
    value = "b_{ij} - a_{ij}" if difference else "w_{ij}"
    block = r"\max_{ij \in B} |%s|" if largest else r"\frac{1}{|B|} \sum_{ij \in B} %s"
    return About(
        sentence,
        [block % f"({value})" if difference else block % value],
        [in_blocks],
        meaning=Message("A row or column that stands out is a feature that the model treats unlike the others."),
    )


def feature_chart(weights: Sequence[Weight]) -> Chart:
    """A vector over its features: γ, β, a bias."""
    first, several = weights[0], len(weights) > 1
    series = []
    for weight, name, colour in labelled(weights, Message("value")):
        values = array(weight.info.load().reshape(-1))
        mark = "line" if several or len(values) > BARS else "bars"
        series.append(Series(name, np.arange(len(values)), values, colour, mark))
    if not several and np.isfinite(first.statistics.mean):
        edge = np.array([0, max(1, first.info.elements - 1)])
        series.append(Series(Message("mean"), edge, np.full(2, first.statistics.mean), EXPECTED, dash=True))
    sentence = Message("{count} features", count=f"{first.info.elements:,}")
    about = About(
        Message("Each number of the vector over the feature that it belongs to; dashed: their mean."),
        meaning=Message("One far from the others is made larger, or shut, in every text."),
    )
    heading = above(first, Message("Values"), f"values-{first.title}", about, sentence, alt=measures(weights))
    features = Axis(Message("feature"), low=-0.5, high=first.info.elements - 0.5)
    return Chart(heading, series, features, Axis(Message("value")), tall=190, of=Message("checkpoint"))


# The rows of a table: which tokens of an embedding are near each other, which positions.

NEAREST = 16
LONGEST = 4096  # rows of a table of positions
MOST_SIMILARITIES = (200, 200)
TOKENS = re.compile(r"embed|token_embd|wte\b|\btokens\b|lm_head|unembed|shared\.weight|vocab|^output\.weight", re.I)
POSITIONS = re.compile(r"position|wpe\b|pos_emb|pos_embed|relative_attention", re.I)


def is_positions(weight: Weight) -> bool:
    shape = weight.info.shape
    return len(shape) == 2 and bool(POSITIONS.search(weight.info.name)) and 1 < shape[0] <= LONGEST


def is_embedding(weight: Weight) -> bool:
    shape = weight.info.shape
    return len(shape) == 2 and shape[0] > 1 and bool(TOKENS.search(weight.info.name)) and not is_positions(weight)


def tokenizer_of(info: TensorInfo, model: TextModel | None) -> Tokenizer | None:
    """The model's tokenizer whose tokens are the rows."""
    if model is None:
        return None
    both = [model.source_tokenizer, model.target_tokenizer]
    if not info.name.startswith("encoder"):
        both.reverse()
    return next((each for each in both if len(each) == info.shape[0]), None)


def row_of(text: str, rows: int, tokenizer: Tokenizer | None) -> int:
    """Row that a text means: "#12" or, without a tokenizer, "12" by its number, else the first token of the text.

    Raises:
        ValueError: there is no such row.
    """
    number = text.strip().removeprefix("#")
    if number.isascii() and number.isdigit() and (tokenizer is None or text.strip().startswith("#")):
        if len(number) < 12 and int(number) < rows:
            return int(number)
        raise ValueError(_("There is no row {number}: the last is {last}.").format(number=number[:20], last=rows - 1))
    if tokenizer is None:
        raise ValueError(_("“{text}” is no row: this file has no tokenizer, write a number.").format(text=text[:20]))
    ids = tokenizer.encode(text).ids
    if not ids:
        raise ValueError(_("Write a token, or # and the number of a row."))
    return ids[0]


def first_row(text: str, rows: int, tokenizer: Tokenizer | None) -> str:
    """First content of the field: a token in the middle of the shown text, as it is typed where that finds it."""
    if tokenizer is None:
        return str(min(10, rows - 1))
    try:
        ids = tokenizer.encode(text).ids
    except ValueError:  # the text is of the shown model, which may be another: words, where this one's are ids
        ids = []
    if not ids:
        return "#0"
    token = ids[len(ids) // 2]
    typed = tokenizer.decode([token]).strip()
    return typed if typed and tokenizer.encode(typed).ids[:1] == [token] else f"#{token}"


def label(row: int, tokenizer: Tokenizer | None) -> str:
    return f"{row:,}" if tokenizer is None else tokenizer.label(row)


def neighbour_chart(weight: Weight, row: int, tokenizer: Tokenizer | None) -> Chart:
    """The rows with the largest cosine with the chosen one."""
    rows = weight.info.shape[0]
    ids, cosines = weight.remember(
        ("nearest", weight.info.name, row), lambda: nearest(weight.info.load().float(), row, min(NEAREST, rows - 1))
    )
    labels = [label(each, tokenizer) for each in ids.tolist()]
    listed = ", ".join(f"{name} {significant(value)}" for name, value in zip(labels, cosines.tolist(), strict=True))
    own = label(row, tokenizer)
    name = Message("Nearest tokens") if tokenizer else Message("Nearest rows")
    sentence = Message("of {count} in the embedding, by cosine", count=f"{rows:,}")
    alt = Message("Nearest to {label}: {listed}.", label=own, listed=listed)
    meaning = Message("The rows of the table that point most nearly the same way as the chosen one.")
    about = About(
        meaning,
        [r"\cos(w_a, w_b) = \frac{w_a \cdot w_b}{\lVert w_a \rVert\, \lVert w_b \rVert}"],
        [nearest],
        meaning=Message("Tokens that are used alike come to lie near each other in training."),
    )
    heading = above(weight, name, f"nearest-{row}", about, sentence, f"{own} · #{row}", alt)
    series = Series(Message("cosine"), np.arange(len(labels)), cosines.numpy(), PLAIN, "bars")
    x = Axis(Message("token of the vocabulary") if tokenizer else Message("row"), labels)
    return Chart(heading, [series], x, Axis(Message("cosine"), zero=True), tall=130, of=Message("quantity"))


def position_map(weight: Weight) -> Heatmap:
    """p·q of every position's vector with every other's."""

    def products() -> Blocks:
        table = weight.info.load().float()
        blocks, size = in_blocks(table @ table.T, MOST_SIMILARITIES)
        return array(blocks), size

    cells, (size, _same) = weight.remember(("positions", weight.info.name), products)
    rows = weight.info.shape[0]
    top = float(np.nanmax(np.abs(cells), initial=0.0)) or 1.0
    labels = [f"{row:,}" for row in range(0, rows, size)]
    sentence: str = Message("p·q of the vectors of {count} positions", count=f"{rows:,}")
    if size > 1:
        sentence = joined(
            "", sentence, Message(" · each cell is a block of {high}\xa0×\xa0{wide}", high=size, wide=size)
        )
    meaning = Message("The dot product of each position's vector with each other's: how alike places are.")
    about = About(
        meaning,
        [r"p_i \cdot p_j"],
        [in_blocks],
        meaning=Message("Bands along the diagonal mean that it depends on their distance alone."),
    )
    heading = above(weight, Message("Similarity of positions"), f"positions-{weight.title}", about, sentence)
    p, q = Axis(Message("position p"), labels, "position rows"), Axis(Message("position q"), labels, "position columns")
    scale = Scale(-top if cells.min() < 0 else 0, top, "p·q")
    return Heatmap(heading, cells, p, q, scale, square=True, words=NOT_FINITE)


# The singular values of a matrix of weights, and its leading singular vectors.

TOPS = (1, 10, 100)  # of how many directions the share of the energy is said
VECTORS = 3
SVD = r"W = \sum_i \sigma_i\, u_i v_i^\top"
SMALL = 2048  # rows and columns of a matrix whose singular vectors are drawn
PER_SECOND = 3e10  # floating-point operations, on two slow cores: to say how long it will take
PATIENCE = 4.0  # seconds that a page computes without being asked


def is_matrix(weight: Weight) -> bool:
    """True if it has more than one row and column."""
    shape = weight.info.shape
    return len(shape) > 1 and min(shape[0], weight.info.elements // max(1, shape[0])) > 1


def why_none(weight: Weight) -> str:
    """Reason why a matrix has no singular values; empty where it has."""
    if not has_spectrum(weight.info):
        return _("Whole numbers are not a matrix that stretches: no singular values.")
    if weight.finite < weight.info.elements:
        return _("A matrix with NaN or infinite values has no singular values.")
    return ""


def seconds(weight: Weight) -> float:
    """About how long the singular values will take."""
    rows = weight.info.shape[0]
    columns = weight.info.elements // rows
    small = min(rows, columns)
    return (2.0 * small * rows * columns + 10.0 * small**3) / PER_SECOND


def known(weight: Weight) -> bool:
    """True if they are computed already."""
    return weight.remembers(("spectrum", weight.info.name))


def values_of(weight: Weight) -> Tensor:
    """The singular values, the largest first."""
    sigmas: Tensor = weight.remember(("spectrum", weight.info.name), lambda: singular_values(weight.info.load()))
    return sigmas


def vectors_of(weight: Weight) -> Leading:
    vectors: Leading = weight.remember(("vectors", weight.info.name), lambda: leading(weight.info.load(), VECTORS))
    return vectors


def spectrum_sentence(values: Tensor) -> str:
    """Spectral norm, ranks, and how much of Σ σ² the first hold."""
    energy = values.double().square().cumsum(0)
    whole = float(energy[-1]) or 1.0
    shares = [
        Message("{count}: {share}", count=count, share=percent(float(energy[count - 1]) / whole))
        for count in TOPS
        if count < len(values)
    ]
    line = Message(
        "spectral norm {norm} · effective rank {effective} of {all} · stable rank {stable}",
        norm=significant(float(values[0])),
        effective=significant(effective_rank(values)),
        all=f"{len(values):,}",
        stable=significant(stable_rank(values)),
    )
    energies = Message(" · energy in the top {shares}", shares=joined(", ", *shares)) if shares else ""
    return joined("", line, energies)


def spectrum_chart(weights: Sequence[Weight]) -> Chart:
    """σ over its number, on a logarithmic axis."""
    series, sentences = [], []
    for weight, name, colour in labelled(weights, "σ"):
        values = values_of(weight)
        series.append(Series(name, np.arange(1, len(values) + 1), values.numpy(), colour))
        sentences.append(joined(": ", weight.file if len(weights) > 1 else "", spectrum_sentence(values)))
    first = weights[0]
    name, sentence = Message("Singular values"), joined("\n", *sentences)
    meaning = Message("How much the matrix stretches each of its directions, the largest first.")
    about = About(
        meaning,
        [SVD, r"\lVert W \rVert_2 = \sigma_1"],
        [singular_values, effective_rank, stable_rank],
        meaning=Message("Where the curve falls early, few directions do nearly all of the work."),
    )
    heading = above(first, name, f"spectrum-{first.title}", about, sentence, alt=joined("; ", *sentences))
    x, y = Axis(Message("number, largest first")), Axis("σ", log=True)
    return Chart(heading, series, x, y, tall=130, of=Message("checkpoint"), place=Message("number"))


def vector_charts(weight: Weight) -> Iterator[Chart]:
    """The leading left singular vectors over the rows, the right ones over the columns."""
    singular = vectors_of(weight)
    sides = (
        (Message("Left singular vectors"), Message("row"), singular.left.T, "left"),
        (Message("Right singular vectors"), Message("column"), singular.right, "right"),
    )
    names = [f"σ{number} = {significant(sigma)}" for number, sigma in enumerate(singular.values.tolist(), 1)]
    for title, place, vectors, file in sides:
        series = [
            Series(name, np.arange(len(vector)), vector.numpy(), hue)
            for name, vector, hue in zip(names, vectors, SERIES, strict=False)
        ]
        about = About(
            Message("The directions that the matrix stretches most: inputs on the right, outputs on the left."),
            [SVD],
            [leading],
            meaning=Message(
                "What comes in along one on the right goes out along the same one on the left, σ times as long."
            ),
        )
        heading = above(weight, title, f"{file}-{weight.title}", about)
        yield Chart(heading, series, Axis(place), Axis(Message("component")), tall=95, of=Message("singular value"))
