"""Beam search, and the tree of all tokens that it tried."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

import torch

from model.message import InputError, Message
from model.network.config import TransformerConfig
from model.network.costs import FLOAT, costs
from model.network.decoding_state import DecodingState
from model.runtime import cancellation
from model.runtime.ledger import NoRoomError
from model.runtime.memory import available
from model.text.generation_rules import NO_RULES, GenerationRules

Fate = Literal["kept", "finished", "cut"]
NODE = 200  # bytes of a node, about


@dataclass(slots=True)
class Node:
    """Token that the search tried after the token of its parent.

    log_probability: of this token, in nats; total: of the text up to it. length: number of tokens written up to it.
    fate: "kept" was continued, "finished" ended a hypothesis, "cut" fell out of the beam.
    choices: most probable next tokens with their log-probabilities, of a node that was continued.
    """

    parent: int
    token: int
    log_probability: float
    total: float
    length: int
    fate: Fate
    choices: list[tuple[int, float]] = field(default_factory=list)


@dataclass
class SearchTree:
    """Tokens that a beam search tried for one text. Node 0 is the token before them; parents precede their children.

    finished: last nodes of the finished hypotheses, in the order in which they finished.
    """

    length_penalty: float
    nodes: list[Node]
    finished: list[int] = field(default_factory=list)

    def score(self, index: int) -> float:
        """Score up to a node: total / ((5 + length) / 6)^length_penalty (Wu et al., 2016, equation 14)."""
        node = self.nodes[index]
        return self.score_of(node.total, node.length)

    def score_of(self, total: float, length: int) -> float:
        """Score of a text of so many tokens with this log-probability, whoever wrote it."""
        return total / self.penalty(length)

    def penalty(self, length: int) -> float:
        """Length penalty of a text of so many tokens; 1 for one of a single token."""
        return math.pow((5 + length) / 6, self.length_penalty)

    def ranked(self) -> list[int]:
        """Last nodes of the finished hypotheses, best first."""
        return sorted(self.finished, key=self.score, reverse=True)

    def path(self, index: int) -> list[int]:
        """Nodes from the first token written to this one."""
        nodes = []
        while index:
            nodes.append(index)
            index = self.nodes[index].parent
        return nodes[::-1]

    def add(self, parent: int, token: int, total: float, fate: Fate) -> int:
        """Add a node; its index."""
        before = self.nodes[parent]
        self.nodes.append(Node(parent, token, total - before.total, total, before.length + 1, fate))
        if fate == "finished":
            self.finished.append(len(self.nodes) - 1)
        return len(self.nodes) - 1


class _Search:
    """Search for one text: its tree, and the nodes at the tips of its beam."""

    def __init__(
        self, beam: int, limit: int, prefix: Sequence[int], ends: Collection[int], length_penalty: float
    ) -> None:
        """prefix: tokens before the searched ones."""
        self.beam, self.limit, self.ends, self.prefix = beam, limit, ends, prefix
        self.tree = SearchTree(length_penalty, [Node(-1, prefix[-1], 0.0, 0.0, 0, "kept")])
        self.tips: list[int | None] = [0] + [None] * (beam - 1)  # None: no hypothesis

    def step(self, candidates: Sequence[tuple[float, int, int]]) -> list[int]:
        """Take the best continuations (total, tip, token), best first; the old tip of each new one."""
        parents: list[int] = []
        tips: list[int | None] = []
        for rank, (total, tip, token) in enumerate(candidates):
            parent = self.tips[tip]
            if parent is None or total == -math.inf:
                continue
            last = self.tree.nodes[parent].length + 1 >= self.limit
            if (token in self.ends or last) and rank < self.beam:
                self.tree.add(parent, token, total, "finished")
            elif token in self.ends or last or len(tips) == self.beam:
                self.tree.add(parent, token, total, "cut")
            else:
                tips.append(self.tree.add(parent, token, total, "kept"))
                parents.append(tip)
        missing = self.beam - len(tips)
        self.tips = [*tips, *[None] * missing]
        return [*parents, *[0] * missing]

    def so_far(self, tip: int | None) -> list[int]:
        """Tokens up to a tip, with those before the searched ones."""
        path = [] if tip is None else self.tree.path(tip)
        return [*self.prefix, *(self.tree.nodes[index].token for index in path)]

    @property
    def done(self) -> bool:
        """True if no hypothesis is left, or enough are finished and no tip is better than the worst of them."""
        if self.tips[0] is None:
            return True
        if len(self.tree.finished) < self.beam:
            return False
        return self.tree.score(self.tips[0]) <= self.tree.score(self.tree.ranked()[self.beam - 1])


def require_room(
    config: TransformerConfig, device: torch.device, beam: int, rows: Sequence[Sequence[int]], limit: int
) -> None:
    """Refuse a beam search that does not fit into memory: keys and values, logits of a step, and the tree.

    rows: ids of each text. limit: most tokens to write.

    Raises:
        NoRoomError: the search does not fit.
        ValueError: beam is below 1.
    """
    if beam < 1:
        raise InputError("beam ({beam}) must be at least 1", beam=beam)
    hypotheses, length = beam * len(rows), max(len(row) for row in rows)
    read = (length, limit) if config.n_encoder_layers else (0, length + limit)
    cache = 2 * costs(config, hypotheses, *read).memory["cache"]  # its storage is up to twice as large
    numbers = 3 * config.vocabulary + 6 * min(2 * beam, config.vocabulary)  # logits; their best, as ids and sums
    needed, free = cache + hypotheses * (FLOAT * numbers + 2 * NODE * limit), available(device)
    if needed > free:
        raise NoRoomError(
            Message(
                "beam ({beam}) needs about {needed:.1f} GB, and {free:.1f} GB are free: lower it",
                beam=beam,
                needed=needed / 1000000000.0,
                free=free / 1000000000.0,
            )
        )


@torch.inference_mode()
def beam_search(
    context: DecodingState,
    *,
    ends: Collection[int],
    limits: Sequence[int],
    beam: int = 4,
    length_penalty: float = 0.6,
    keep: int = 5,
    rules: GenerationRules = NO_RULES,
) -> list[SearchTree]:
    """Trees of a beam search for each text of a batch, with at least the `beam` best continuations that it finds.

    ends: tokens that end a text. limits: most tokens to write for each text. keep: number of choices of each node.
    rules: tokens that must or must not be written; a token that must be written has a log-probability of 0.

    Raises:
        ValueError: beam or a limit is below 1, length_penalty below 0 or not finite, or what the model predicts is NaN.
    """
    if min(limits) < 1:
        raise InputError("limits ({limits}) must be at least 1: there is no room to write", limits=min(limits))
    if beam < 1:
        raise InputError("beam ({beam}) must be at least 1", beam=beam)
    if not 0 <= length_penalty < math.inf:
        raise InputError(
            "length_penalty ({length_penalty}) must be at least 0 and finite", length_penalty=length_penalty
        )
    context.repeat(beam)
    newest = context.first
    searches = [
        _Search(beam, limit, first, ends, length_penalty)
        for limit, first in zip(limits, newest[::beam].tolist(), strict=True)
    ]
    active = searches
    totals = torch.full((len(searches), beam), -math.inf, device=newest.device)
    totals[:, 0] = 0
    for step in count():
        cancellation.check()
        before = [search.so_far(tip) for search in active for tip in search.tips] if rules.runs else []
        most = [search.limit for search in active for _ in search.tips]
        allowed = rules.allowed(context.log_probabilities(newest), most, step, before)
        log_probabilities = allowed[:, 0].unflatten(0, (-1, beam))  # (text, tip, vocabulary)
        # The best 2 × beam continuations of a text are among the best 2 × beam of each of its tips.
        per_tip = min(max(keep, 2 * beam), log_probabilities.shape[-1])
        values, tokens = log_probabilities.topk(per_tip, dim=-1)
        if bool(values.isnan().any()):
            raise InputError("NaN is what this model predicts of the text: no token comes first")
        _remember(active, values[..., :keep].tolist(), tokens[..., :keep].tolist())
        scores = (totals[..., None] + values).flatten(1)
        best, flat = scores.topk(min(2 * beam, scores.shape[1]), dim=-1)
        chosen = tokens.flatten(1).gather(1, flat)
        steps = zip(best.tolist(), (flat // per_tip).tolist(), chosen.tolist(), strict=True)
        parents = [search.step(list(zip(*step, strict=True))) for search, step in zip(active, steps, strict=True)]
        going = [index for index, search in enumerate(active) if not search.done]
        if not going:
            break
        rows = [index * beam + parent for index in going for parent in parents[index]]
        if len(going) < len(active):
            places = [index * beam + tip for index in going for tip in range(beam)]
            context.select_sources(torch.tensor(places, device=newest.device))
        if rows != list(range(beam * len(active))):
            context.select(torch.tensor(rows, device=newest.device))
        active = [active[index] for index in going]
        nodes = [(search, tip) for search in active for tip in search.tips]
        ids = [0 if tip is None else search.tree.nodes[tip].token for search, tip in nodes]
        sums = [-math.inf if tip is None else search.tree.nodes[tip].total for search, tip in nodes]
        newest = torch.tensor(ids, device=newest.device)[:, None]
        totals = torch.tensor(sums, device=newest.device).view(-1, beam)
    return [search.tree for search in searches]


def _remember(searches: Sequence[_Search], values: list[list[list[float]]], tokens: list[list[list[int]]]) -> None:
    """Give each tip the most probable tokens after it, with their log-probabilities."""
    for row, search in enumerate(searches):
        for column, tip in enumerate(search.tips):
            if tip is not None:
                pairs = zip(tokens[row][column], values[row][column], strict=True)
                search.tree.nodes[tip].choices = [(token, value) for token, value in pairs if value > -math.inf]
