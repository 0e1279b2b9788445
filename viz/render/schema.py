"""The header of each kind of figure: one schema, from which, with viz/protocol.py, the browser's types are written.

    python -m viz.render.schema     writes viz/web/types.d.ts

Beside it every header has `arrays`, what stands behind it, see `registry.pack`.
"""

import types
from dataclasses import is_dataclass
from pathlib import Path
from typing import (
    Any,
    Literal,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from viz import protocol

TYPES = Path(__file__).parents[1] / "web" / "types.d.ts"
Words = dict[str, Any]  # sentences and names by what they are for; `csv`: titles of the file's columns
Sided = dict[str, Any]  # by side, "source" and "target", or "rows" and "columns"


class Axis(TypedDict):
    title: str
    side: NotRequired[str]
    places: NotRequired[list[int]]
    prose: NotRequired[bool]


class LabelledAxis(Axis):
    labels: list[str]


class NumericAxis(Axis):
    labels: NotRequired[list[str]]
    log: NotRequired[bool]
    low: NotRequired[float]
    high: NotRequired[float]
    zero: NotRequired[bool]


class ScaleHeader(TypedDict):
    low: float
    high: float
    title: str
    difference: bool
    floor: NotRequired[float | None]
    colour: NotRequired[str]


class FileHeader(TypedDict):
    """Fields for the menu of files and the "?". about: a sentence; without it there is no "?"."""

    file: str
    words: Words
    about: NotRequired[str]


class PlotHeader(FileHeader):
    name: str
    stamp: str
    note: str
    sentence: str
    alt: str
    chosen: int
    finding: str
    code: NotRequired[str]


class TokensHeader(TypedDict):
    side: str
    labels: list[str]
    places: list[int]


class HeatmapHeader(PlotHeader):
    rows: LabelledAxis
    columns: LabelledAxis
    scale: ScaleHeader
    column: int
    square: bool
    cells: bool
    tokens: NotRequired[TokensHeader]
    block: NotRequired[list[int]]
    highest: NotRequired[int]
    wanted: NotRequired[int]
    large: NotRequired[bool]
    texts: NotRequired[list[str]]
    ranked: NotRequired[bool]
    valued: NotRequired[bool]
    odd: NotRequired[int]
    error: NotRequired[float]


class LinesHeader(HeatmapHeader):
    colour: list[int]


class SeriesHeader(TypedDict):
    name: str
    colour: str
    mark: Literal["line", "bars", "dots"]
    dash: bool
    quiet: bool
    labels: NotRequired[list[str]]
    side: NotRequired[str]
    colours: NotRequired[list[str]]


class MarkHeader(TypedDict):
    x: float
    text: str


class ChartHeader(PlotHeader):
    x: NumericAxis
    y: NumericAxis
    tall: int
    series: list[SeriesHeader]
    marks: NotRequired[list[MarkHeader]]


class PanelHeader(TypedDict):
    name: str
    rows: LabelledAxis
    columns: LabelledAxis
    note: str
    line: int
    scale: NotRequired[ScaleHeader]
    pinned: NotRequired[bool]
    chosen: NotRequired[int]
    framed: NotRequired[list[int]]
    choose: NotRequired[bool]
    joined: NotRequired[str]


class PanelsHeader(PlotHeader):
    panels: list[PanelHeader]
    large: NotRequired[bool]
    slot: NotRequired[int]
    cell: NotRequired[int]


class BestHead(TypedDict):
    kind: str
    layer: int
    head: int
    label: str


class HeadGridHeader(FileHeader):
    kind: str
    stamp: str
    alt: str
    chosen: list[int]
    order: list[list[int]]
    columns: int
    block: list[int]
    difference: bool
    floor: float | None
    notes: list[str]
    best: list[BestHead]
    waiting: list[bool]
    labels: Sided
    sides: Sided
    rows: int
    cells: int
    low: float
    high: float
    tops: list[float]
    count: int


class PinnedSteps(TypedDict):
    differing: bool


class StepsHeader(FileHeader):
    name: str
    stamp: str
    alt: str
    note: str
    queries: list[str]
    keys: list[str]
    places: Sided
    sides: Sided
    special: Sided
    chosen: int
    masked: list[bool]
    pinned: PinnedSteps | None


class StackHeader(TypedDict):
    name: str
    side: str
    labels: list[str]
    special: list[bool]
    rows: list[list[int]]


class BlockHeader(TypedDict):
    kind: str
    name: str
    title: str
    short: str
    layer: int | None
    note: str
    flow: float | None
    moved: list[float] | None
    lines: list[list[str]]
    open: str


class GuessesHeader(TypedDict):
    title: str
    labels: list[str]
    probabilities: list[float]
    pinned: list[float] | None
    side: str
    position: int


class ModelMapHeader(PlotHeader):
    stacks: list[StackHeader]
    blocks: list[BlockHeader]
    predictions: GuessesHeader
    summary: list[list[str]]
    bypass: bool
    parallel: bool
    differing: bool
    scale: str
    top: float
    shapes: list[list[int]]


class WireHeader(TypedDict):
    text: str
    kind: Literal["norm", "sublayer", "dropout", "sum"]


class WiringRow(TypedDict):
    name: str
    formula: str
    own: bool
    boxes: list[WireHeader]
    past: str
    beside: NotRequired[list[WireHeader]]


class WiringHeader(PlotHeader):
    rows: list[WiringRow]


class ColumnHeader(TypedDict):
    name: str
    formula: str
    mark: Literal["bar", "signed", "number"]
    colour: NotRequired[str]


class ChoiceRow(TypedDict):
    token: NotRequired[int]
    label: str
    special: bool
    actual: bool
    open: bool
    rank: str


class RankingHeader(PlotHeader):
    rows: list[ChoiceRow]
    columns: list[ColumnHeader]
    position: int
    facts: list[str]


class WrittenFrame(TypedDict):
    label: str
    special: bool
    place: int
    position: int
    sees: int
    before: NotRequired[int]
    last: NotRequired[str]
    sentence: str
    share: float | None
    rows: list[ChoiceRow]


class DecodingFilmHeader(FileHeader):
    stamp: str
    frames: list[WrittenFrame]
    source: Sided
    context: Sided
    side: str
    maps: list[str]
    columns: list[ColumnHeader]
    depth: int
    difference: bool
    top: float


class NodeHeader(TypedDict):
    parent: int
    step: int
    row: int
    sentence: str
    label: str
    fate: str
    probability: float
    open: NotRequired[bool]
    greedy: NotRequired[bool]


class HypothesisHeader(TypedDict):
    node: int
    text: str
    score: str


class FateHeader(TypedDict):
    fate: str
    name: str


class BeamTreeHeader(FileHeader):
    stamp: str
    alt: str
    nodes: list[NodeHeader]
    hypotheses: list[HypothesisHeader]
    legend: list[FateHeader]


class MatrixHeader(TypedDict):
    name: str
    formula: str
    colour: str
    rows: list[str]
    columns: list[str]
    first: int
    top: float


class MatrixLine(TypedDict):
    title: str
    matrices: list[MatrixHeader]


class MatricesHeader(PlotHeader):
    lines: list[MatrixLine]
    texts: list[str]
    wrong: int
    sentence_wrong: str


class VectorHeader(TypedDict):
    name: str
    place: list[float]
    colour: str


class VectorsHeader(PlotHeader):
    vectors: list[VectorHeader]
    tall: int


class FigureFilesHeader(FileHeader):
    """curves: names, of a chart; columns: of a heatmap."""

    name: str
    curves: NotRequired[list[str]]
    columns: NotRequired[int]


class TreeColumn(TypedDict):
    title: str
    kind: Literal["number", "share", "count", "text", "picture"]


class ProgressShare(TypedDict):
    share: float
    text: str


class TensorTreeHeader(TypedDict):
    names: list[str]
    shapes: list[str]
    dtypes: list[str]
    elements: list[int]
    bytes: list[int]
    same: list[int]
    sentence: str
    chosen: int
    jump: bool
    sorted: int | None
    most: int
    alt: str
    file: str
    stamp: str
    words: Words
    progress: ProgressShare | None
    columns: list[TreeColumn]
    texts: dict[str, list[str]]
    bins: int


class FindingHeader(TypedDict):
    name: str
    sentence: str
    chosen: bool


class FindingsGroup(TypedDict):
    title: str
    explanation: str
    items: list[FindingHeader]
    more: int


class FindingsHeader(TypedDict):
    name: str
    sentence: str
    alt: str
    stamp: str
    words: NotRequired[Words]
    groups: list[FindingsGroup]


class CheckpointRow(TypedDict):
    name: str
    where: str
    kind: str
    does: str
    format: str
    parameters: str
    bytes: str
    needs: str
    fits: bool
    refused: str
    problem: str
    current: bool
    computes: bool
    removable: bool


class CheckpointGroup(TypedDict):
    title: str
    where: str
    rows: list[CheckpointRow]


class CheckpointListHeader(TypedDict):
    groups: list[CheckpointGroup]
    words: Words


class StatementRow(TypedDict):
    name: str
    number: str
    statement: str
    verdict: str
    kind: Literal["none", "holds", "only", "wrong"]


class StatementGroup(TypedDict):
    title: str
    rows: list[StatementRow]


class StatementListHeader(TypedDict):
    groups: list[StatementGroup]


class ProgressHeader(TypedDict):
    share: float | None
    text: str
    button: str


class HintToken(TypedDict):
    label: str
    special: bool
    side: str
    position: int


class LeadHeader(TypedDict):
    page: str
    sentence: str
    hints: list[list[str | HintToken]]
    words: Words


class QrHeader(TypedDict):
    href: str
    size: int
    path: str


class LinkWords(TypedDict):
    link: str
    copy: str
    copied: str
    code: str
    here: str


class ClassStripHeader(TypedDict):
    role: Literal["teacher", "follower", "alone"]
    code: str
    link: str
    local: str
    qr: QrHeader | None
    sentence: str
    problem: str
    names_wanted: bool
    names: list[str]
    name: str
    csv: str
    words: Words


class BarHeader(TypedDict):
    label: str
    count: int


class ClassBarsHeader(TypedDict):
    bars: list[BarHeader]
    sentence: str


class SeveralHeader(TypedDict):
    count: int
    place: int
    words: Words


class TextFieldHeader(TypedDict):
    label: str
    text: str
    edit: int
    first: str
    placeholder: str
    most: int
    words: Words
    several: NotRequired[SeveralHeader]


class TokenHeader(TypedDict):
    label: str
    special: bool


class BadgeHeader(TypedDict):
    text: str
    passed: bool | None
    title: str
    tensor: NotRequired[str]


class GuessChoice(TypedDict):
    token: int
    label: str
    probability: float


class GuessHeader(TypedDict):
    title: str
    choices: list[GuessChoice]


class DeletedToken(TypedDict):
    label: str
    before: int


class AlignmentHeader(TypedDict):
    inserted: list[int]
    deleted: list[DeletedToken]


class AlignmentsHeader(TypedDict):
    source: AlignmentHeader
    target: AlignmentHeader


class TokenPlace(TypedDict):
    side: str
    position: int


class ChangeItem(TypedDict):
    label: str
    value: str
    exact: float
    act: Any
    token: TokenPlace | None
    opens: str


class ChangesHeader(TypedDict):
    title: str
    unit: str
    items: list[ChangeItem]


class PinHeader(TypedDict):
    pinned: dict[str, str] | None
    differing: bool
    comparable: bool
    alignments: AlignmentsHeader
    changes: list[ChangesHeader] | None
    words: Words


class PiecesHeader(TypedDict):
    mergeable: bool
    merged: bool
    words: Words


class ChangedHeader(TypedDict):
    text: str
    refused: str
    words: Words


class TokenBarHeader(TypedDict):
    source: list[TokenHeader]
    target: list[TokenHeader]
    notes: Sided
    texts: list[str]
    aside: bool
    pages_aside: list[str]
    badges: list[BadgeHeader] | None
    check: BadgeHeader | None
    guesses: list[GuessHeader]
    pin: PinHeader
    pieces: PiecesHeader
    changed: ChangedHeader
    words: Words


class FilmedKind(TypedDict):
    """first: where its weights begin in a frame's. shape: (layer, head, row, column). rows, columns: their sides."""

    first: int
    shape: list[int]
    rows: str
    columns: str


class RunsHeader(TypedDict):
    firsts: list[int]
    labels: list[str]


class FilmHeader(TypedDict):
    """The film of a training, as the strip gets it."""

    edition: int
    run: int
    steps: list[int]
    kinds: dict[str, FilmedKind]
    tokens: dict[str, list[str]]
    runs: dict[str, RunsHeader]
    answers: list[int]
    names: dict[str, str]
    keys: list[int]
    ranks: int
    words: Words


class FactHeader(TypedDict):
    short: bool
    text: str
    title: str


class BatchesHeader(TypedDict):
    """sizes: each with its words."""

    sentence: str
    chosen: int
    sizes: list[list[Any]]


class TrainingStripHeader(TypedDict):
    status: str
    step: int
    summary: str
    about: list[str]
    facts: list[FactHeader]
    losses: list[float]
    sentence: str
    question: list[str]
    possible: list[str]
    batches: BatchesHeader
    film: FilmHeader | None
    words: Words


class OtherRun(TypedDict):
    run: int
    steps: list[int]
    losses: list[float | None]


class TrainingFilmHeader(TypedDict):
    kind: str
    labels: Sided
    sides: Sided
    titles: Sided
    chosen: list[int]
    norms: list[Any]
    others: list[OtherRun]
    run: int
    title: NotRequired[str]
    words: Words
    about: NotRequired[str]


class LearntHeader(TypedDict):
    turn: int
    looks: int | None
    at: float
    saving: int
    followed: list[str]
    choices: list[list[str]]
    left_out: bool
    python: str
    file: NotRequired[str]


HEADERS: dict[str, Any] = {
    "web/heatmap": HeatmapHeader,
    "web/lines": LinesHeader,
    "web/chart": ChartHeader,
    "web/panels": PanelsHeader,
    "web/progress": ProgressHeader,
    "web/text_field": TextFieldHeader,
    "frame/class_strip": ClassStripHeader,
    "frame/lead": LeadHeader,
    "frame/learnt": LearntHeader,
    "frame/token_bar": TokenBarHeader,
    "frame/training_strip": TrainingStripHeader,
    "pages/attention/head_grid": HeadGridHeader,
    "pages/attention/steps": StepsHeader,
    "pages/checkpoints/checkpoint_list": CheckpointListHeader,
    "pages/checkpoints/findings": FindingsHeader,
    "pages/checkpoints/tensor_tree": TensorTreeHeader,
    "pages/lab/matrices": MatricesHeader,
    "pages/lab/statement_list": StatementListHeader,
    "pages/lab/vectors": VectorsHeader,
    "pages/lessons/class_bars": ClassBarsHeader,
    "pages/map/model_map": ModelMapHeader,
    "pages/positions/figure_files": FigureFilesHeader,
    "pages/predictions/beam_tree": BeamTreeHeader,
    "pages/predictions/decoding_film": DecodingFilmHeader,
    "pages/predictions/ranking": RankingHeader,
    "pages/residual/wiring": WiringHeader,
    "pages/training/film": TrainingFilmHeader,
}
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", Any: "any", type(None): "null"}


def typescript() -> str:
    """The browser's types of all headers, in the order in which they stand above."""
    named = [*globals().values(), *vars(protocol).values()]
    written = [interface(each) for each in named if is_typeddict(each) or is_dataclass(each)]
    return "\n".join(["// Written by python -m viz.render.schema: change that, not this.", "", *written])


def interface(header: Any) -> str:
    optional = getattr(header, "__optional_keys__", ())
    fields = get_type_hints(header)
    lines = [f"  {name}{'?' if name in optional else ''}: {in_typescript(kind)};" for name, kind in fields.items()]
    return "\n".join([f"interface {header.__name__} {{", *lines, "}", ""])


def in_typescript(kind: Any) -> str:
    if kind in PLAIN:
        return PLAIN[kind]
    if is_typeddict(kind):
        name: str = kind.__name__
        return name
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(f'"{each}"' for each in inner)
    if origin in (Union, types.UnionType):
        return " | ".join(map(in_typescript, inner))
    if origin is list:
        of = in_typescript(inner[0])
        return f"({of})[]" if " | " in of else f"{of}[]"
    if origin is dict:
        return f"Record<string, {in_typescript(inner[1])}>"
    raise TypeError(f"no type of the browser is known for {kind}")


if __name__ == "__main__":
    TYPES.write_text(typescript(), "utf-8")
