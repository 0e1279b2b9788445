"""One query of one head, step by step, beside the pinned trace's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from model.analysis.attention_maps import Maps
from model.analysis.pieces import Pieces
from model.message import Message
from model.network.attention import MultiHeadAttention
from model.network.positions import Alibi
from model.runtime.device import exact
from model.runtime.errors import require
from viz.figures.axis import Axis
from viz.figures.figure import Caption
from viz.figures.query_steps import QuerySteps
from viz.i18n.errors import beside_pin
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.pages.attention.text import about_steps, missing
from viz.pages.attention.view import HeadMaps
from viz.state.session import Selection
from viz.state.token_groups import GroupedAxes
from viz.ui.parts import frame_of
from viz.ui.plots import array, stamp, step_names, word

if TYPE_CHECKING:
    from model.analysis.comparison import Comparison

LEAST = 5e-4  # of a weight: what a sum of three digits shows
ROWS = 64  # keys in the table, and queries to choose from, at most


@dataclass(frozen=True)
class Steps:
    """Steps of one query of one head: each step to the weights (key), the weighted values (key, channel), their sum.

    elsewhere: how much weight is on keys that are not among these.
    """

    to_weights: dict[str, Tensor]
    weighted: Tensor
    output: Tensor
    elsewhere: float = 0.0

    def at(self, keys: Tensor) -> list[Tensor]:
        """The steps at some of the keys."""
        return [*(each[keys] for each in self.to_weights.values()), self.weighted[keys], self.output]


def steps_of(head_maps: HeadMaps, chosen: Selection) -> Steps:
    """Steps of the chosen query; of several pieces of a word their mean, weights and weighted values added up over a
    run of keys.

    Raises:
        MissingQuantityError: the model shows no steps to its weights.
    """
    path = head_maps.maps.paths[chosen.layer]
    require(head_maps.trace.network, f"{path}.scores", f"{path}.heads")
    queries = head_maps.runs.queries_of(chosen.query)
    return merged_steps([token_steps(head_maps.maps, chosen, query) for query in queries], head_maps.runs)


def token_steps(maps: Maps, chosen: Selection, query: int) -> Steps:
    """Steps of one token of the chosen head."""
    path, head = maps.paths[chosen.layer], chosen.head
    stage = maps.row(chosen.layer, head, query)
    weighted = stage["weights"][:, None] * maps.trace.values(path)[head].float()
    return Steps(stage, weighted, maps.trace[f"{path}.heads"][head, query].float())


def merged_steps(of_queries: Sequence[Steps], runs: GroupedAxes) -> Steps:
    """Mean of several queries' steps, over the columns of these runs."""

    def mean(every: Sequence[Tensor]) -> Tensor:
        return Pieces([0], [""] * len(every), [""]).mean(torch.stack(list(every)), 0)[0]

    to_weights = {name: mean([each.to_weights[name] for each in of_queries]) for name in of_queries[0].to_weights}
    weighted, output = mean([each.weighted for each in of_queries]), mean([each.output for each in of_queries])
    elsewhere = sum(each.elsewhere for each in of_queries) / len(of_queries)
    keys = runs.columns
    if keys is not None:
        join = {name: keys.sum if name == "weights" else keys.mean for name in to_weights}
        to_weights = {name: join[name](values, 0) for name, values in to_weights.items()}
        weighted = keys.sum(weighted, 0)
    return Steps(to_weights, weighted, output, elsewhere)


def pinned_steps(head_maps: HeadMaps, chosen: Selection, own: Steps) -> tuple[Steps | None, str]:
    """Steps of the pinned trace, NaN at keys that it has not; or a sentence why there is none."""
    comparison, pinned = head_maps.comparison, head_maps.pinned
    if comparison is None or pinned is None or missing(head_maps, chosen):
        return None, missing(head_maps, chosen)
    path = head_maps.maps.paths[chosen.layer]
    places = comparison.alignments(f"{path}.weights")[0].places
    queries = [places[query] for query in head_maps.runs.queries_of(chosen.query)]
    if min(queries) < 0:
        return None, Message("This query is not in the pinned text: there is nothing to compare its steps with.")
    required = partial(require, pinned.trace.network, f"{path}.scores", f"{path}.heads")
    if lacking := beside_pin(required)[1]:
        return None, lacking
    if pinned.trace[f"{path}.heads"].shape[-1:] != own.output.shape:
        return None, Message("The pinned heads are of another width: there is nothing to compare these steps with.")
    known = [_at_keys(token_steps(pinned, chosen, query), comparison, path, own) for query in queries]
    return merged_steps(known, head_maps.runs), ""


def _at_keys(pinned: Steps, comparison: Comparison, path: str, own: Steps) -> Steps:
    """Steps of the pinned trace at the keys of this one, by its own steps to the weights."""
    device = own.output.device
    row = {name: each.to(device) for name, each in pinned.to_weights.items()}
    known = {name: comparison.moved(f"{path}.key", each) for name, each in row.items()}
    unknown = torch.full_like(known["weights"], torch.nan)
    before = {name: known.get(name, unknown) for name in own.to_weights}
    weighted = comparison.moved(f"{path}.value", pinned.weighted.to(device))
    gone = float(exact(row["weights"]).sum() - exact(before["weights"]).nansum())
    return Steps(before, weighted, pinned.output.to(device), gone)


def query_steps(head_maps: HeadMaps, chosen: Selection) -> QuerySteps:
    """Scores, weights and weighted values of the chosen query; of long texts, of the keys with the largest weights.

    Raises:
        MissingQuantityError: the model shows no steps to its weights.
    """
    own = steps_of(head_maps, chosen)
    before, lacking = pinned_steps(head_maps, chosen, own)
    weights, columns = own.to_weights["weights"], head_maps.shape[1]
    keys = torch.arange(columns, device=weights.device)
    if columns > ROWS:
        keys = weights.topk(ROWS).indices.sort().values
    drawn, other = own.at(keys), [] if before is None else before.at(keys)
    if before is not None and head_maps.differing:
        drawn = [_less(*pair) for pair in zip(drawn, other, strict=True)]
    query = head_maps.runs.row_of(chosen.query)
    queries, most = near(query, head_maps.shape[0]), int(weights.argmax())
    special = head_maps.trace.special_labels
    rows, names = (
        [labels[place] for place in places]
        for labels, places in ((head_maps.row_labels, queries), (head_maps.column_labels, keys.tolist()))
    )
    name, file = steps_name(chosen), f"steps-{head_maps.wish.kind}-layer{chosen.layer + 1}-head{chosen.head + 1}"
    alt = Message(
        "{name}: the query {query} looks most at {key}, with a weight of {weight}.",
        name=name,
        query=head_maps.row_labels[query],
        key=head_maps.column_labels[most],
        weight=significant(float(weights[most])),
    )
    note = _note(head_maps, own, before, lacking, len(keys))
    about = about_steps(head_maps, chosen.layer)
    return QuerySteps(
        Caption(name, f"{file}-query{chosen.query + 1}", stamp(head_maps.trace), note, alt=alt, about=about),
        [array(each) for each in drawn],
        Axis(Message("query"), rows, head_maps.rows, list(queries)),
        Axis(Message("key"), names, head_maps.columns, keys.tolist()),
        names=step_columns(head_maps, chosen, own),
        special=([token in special for token in rows], [token in special for token in names]),
        masked=(own.to_weights["masked"][keys] == -torch.inf).tolist(),
        before=[array(each) for each in other],
        difference=head_maps.differing,
        chosen=query,
        words={"query": joined(" · ", head_name(chosen), Message("query"))},
    )


def _note(head_maps: HeadMaps, own: Steps, before: Steps | None, lacking: str, keys: int) -> str:
    """Note on what is left out, joined and changed since the pin. keys: number of those that are drawn."""
    left_out = len(head_maps.column_labels) - keys
    notes: list[str] = []
    if left_out:
        notes.append(
            Message(
                "the {shown} keys with the largest weights; {count} other is left out",
                plural="the {shown} keys with the largest weights; {count} others are left out",
                shown=keys,
                count=left_out,
            )
        )
    if head_maps.runs.joined:
        notes.append(Message("pieces of a word: their mean, and for keys the sum of their weights"))
    changed = _changed(head_maps, own, before) if before is not None else ""
    return joined(" · ", *notes, lacking or changed)


def _less(own: Tensor, before: Tensor) -> Tensor:
    """The difference; what is −∞ both times stays so."""
    return (own - before).where((own != -torch.inf) | (before != -torch.inf), -torch.inf)


def _changed(head_maps: HeadMaps, own: Steps, before: Steps) -> str:
    """The weight that differs most from the pinned one; and what of the pinned weight is on tokens that are gone."""
    now, then = own.to_weights["weights"], before.to_weights["weights"]
    gone = (
        Message(
            "{value} of the pinned weight went to tokens that are gone, so its sum is below 1",
            value=significant(before.elsewhere),
        )
        if before.elsewhere > LEAST
        else ""
    )
    moved = (now - then).nan_to_num(nan=0.0)
    key = int(moved.abs().argmax())
    if not float(moved[key]):
        return gone or Message("nothing differs from the pin")
    largest = Message(
        "largest change of a weight: {key} {value} (pinned: {pinned})",
        key=word(head_maps.column_labels[key]),
        value=significant(float(now[key])),
        pinned=significant(float(then[key])),
    )
    return joined(" · ", largest, gone)


def steps_table(head_maps: HeadMaps, chosen: Selection) -> pd.DataFrame:
    """A row a key: each step to the weights, and the pinned one; then the weighted value's length."""
    own = steps_of(head_maps, chosen)
    before, _lacking = pinned_steps(head_maps, chosen, own)
    names = step_names(list(own.to_weights))
    columns: dict[str, Any] = {Message("key"): head_maps.column_labels}
    for each in (own, before):
        if each is not None:
            series = {names[name]: array(values) for name, values in each.to_weights.items()}
            series[Message("‖weighted value‖")] = array(each.weighted.norm(dim=-1))
            pinned = each is before
            columns |= {Message("{name}, pinned", name=name) if pinned else name: series[name] for name in series}
    return frame_of(columns)


def steps_name(chosen: Selection) -> str:
    """Title of the steps."""
    return joined(" · ", Message("One query, step by step"), head_name(chosen))


def head_name(chosen: Selection) -> str:
    return joined(" ", Message("head"), f"{chosen.layer + 1}.{chosen.head + 1}")


def near(place: int, count: int) -> range:
    """Places around this one, as many as there is room for."""
    first = max(0, min(place - ROWS // 2, count - ROWS))
    return range(first, min(count, first + ROWS))


def step_columns(head_maps: HeadMaps, chosen: Selection, own: Steps) -> list[tuple[str, str]]:
    """Name and formula of each column: the key, the steps to its weight, the weighted value."""
    attention = head_maps.trace.module(head_maps.maps.paths[chosen.layer])
    factor = attention.scaled.factor if isinstance(attention, MultiHeadAttention) else 1.0
    hidden = "masked" in own.to_weights and bool((own.to_weights["masked"] == -torch.inf).any())
    formulas = {
        "scores": "q·k",
        "scaled": f"× {significant(factor)}",
        "capped": "c·tanh(·/c)",
        "biased": "− m·|i − j|" if isinstance(getattr(attention, "biased", None), Alibi) else "+ b(j − i)",
        "masked": "−∞" if hidden else Message("none hidden"),
        "weights": "softmax",
    }
    steps = [(name, formulas[step]) for step, name in step_names(list(own.to_weights)).items()]
    return [(Message("key"), "k"), *steps, (Message("weighted value"), f"w·v, {len(own.output)} d")]
