"""The rows of a table: which tokens of an embedding are near each other, which positions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from model.analysis.downsample import in_blocks
from model.analysis.embeddings import nearest
from viz.components.plots import Mount, Series, chart, heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.weights_values import COLOURS, Weight, plot_header
from viz.ui.plots import array

if TYPE_CHECKING:
    from model.checkpoints.tensors import TensorInfo
    from model.inference.model import Inspectable
    from model.text.tokenizer import Tokenizer

NEAREST = 16
LONGEST = 4096  # rows of a table of positions
MOST_SIMILARITIES = (200, 200)
TOKENS = re.compile(r"embed|wte\b|\btokens\b|lm_head|unembed|shared\.weight|vocab|^output\.weight", re.I)
POSITIONS = re.compile(r"position|wpe\b|pos_emb|pos_embed|relative_attention", re.I)


def is_positions(weight: Weight) -> bool:
    shape = weight.info.shape
    return len(shape) == 2 and bool(POSITIONS.search(weight.info.name)) and 1 < shape[0] <= LONGEST


def is_embedding(weight: Weight) -> bool:
    shape = weight.info.shape
    return len(shape) == 2 and shape[0] > 1 and bool(TOKENS.search(weight.info.name)) and not is_positions(weight)


def tokenizer_of(info: TensorInfo, lens: Inspectable | None) -> Tokenizer | None:
    """The model's tokenizer whose tokens are the rows."""
    if lens is None:
        return None
    both = [lens.source_tokenizer, lens.target_tokenizer]
    if not info.name.startswith("encoder"):
        both.reverse()
    return next((each for each in both if len(each) == info.shape[0]), None)


def row_of(text: str, rows: int, tokenizer: Tokenizer | None) -> int:
    """Which row a text means: "#12" or, without a tokenizer, "12" by its number, else the first token of the text.

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
    """What the field begins with: a token in the middle of the shown text, as it is typed where that finds it."""
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


def neighbour_chart(weight: Weight, row: int, tokenizer: Tokenizer | None, key: str) -> Mount:
    """The rows with the largest cosine with the chosen one."""
    count = min(NEAREST, weight.info.shape[0] - 1)
    ids, cosines = weight.remember(
        ("nearest", weight.info.name, row), lambda: nearest(weight.info.load().float(), row, count)
    )
    labels = [label(each, tokenizer) for each in ids.tolist()]
    listed = ", ".join(f"{name} {significant(value)}" for name, value in zip(labels, cosines.tolist(), strict=True))
    own = label(row, tokenizer)
    header = plot_header(
        weight,
        _("Nearest tokens") if tokenizer else _("Nearest rows"),
        _("Nearest to {label}: {listed}.").format(label=own, listed=listed),
        f"nearest-{row}",
        (_("quantity"), _("token"), _("cosine")),
        x={"title": _("token of the vocabulary") if tokenizer else _("row"), "labels": labels},
        y={"title": _("cosine"), "zero": True},
        sentence=_("of {count} in the embedding, by cosine").format(count=f"{weight.info.shape[0]:,}"),
        note=f"{own} · #{row}",
        tall=130,
    )
    return chart([Series(_("cosine"), np.arange(len(labels)), cosines.numpy(), COLOURS[0], mark="bars")], header, key)


def position_map(weight: Weight, key: str) -> Mount:
    """p·q of every position's vector with every other's."""

    def products() -> tuple[np.ndarray, tuple[int, int]]:
        table = weight.info.load().float()
        made, size = in_blocks(table @ table.T, MOST_SIMILARITIES)
        return array(made), size

    shown, (size, _same) = weight.remember(("positions", weight.info.name), products)
    rows = weight.info.shape[0]
    top = float(np.nanmax(np.abs(shown), initial=0.0)) or 1.0
    labels = [f"{row:,}" for row in range(0, rows, size)]
    said = _("p·q of the vectors of {count} positions").format(count=f"{rows:,}")
    if size > 1:
        said += _(" · each cell is a block of {high}\xa0×\xa0{wide}").format(high=size, wide=size)
    header = plot_header(
        weight,
        _("Similarity of positions"),
        _("{sentence}, from {low} to {high}.").format(
            sentence=said, low=significant(float(np.nanmin(shown))), high=significant(float(np.nanmax(shown)))
        ),
        f"positions-{weight.title}",
        (_("position p"), _("position q"), "p·q", _("masked")),
        rows={"title": _("position p"), "labels": labels, "side": "position rows"},
        columns={"title": _("position q"), "labels": labels, "side": "position columns"},
        scale={"low": -top if shown.min() < 0 else 0, "high": top, "title": "p·q", "difference": False},
        sentence=said,
        square=True,
    )
    return heatmap(shown, np.ones(shown.shape, np.bool_), header, key)
