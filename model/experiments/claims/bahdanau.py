"""Attention over the states of a recurrent network, in three steps, and whether its map tells where words come from
(row 41).

Bahdanau et al. (2015), section 3.1: energies, weights, context. The map is put to the test: each source token is hidden
from the decoder in turn, and what that changes is compared with what the map says.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.capture.trace import Trace
from model.checkpoints.load import open_checkpoint
from model.experiments.experiment import Experiment, Grid, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Quantity, Rule, Verdict, clearly_above, exceeds
from model.experiments.runner import Report
from model.inference.models import Translator
from model.message import say
from model.network.recurrent import AdditiveAttention, RecurrentLayer
from model.runtime.device import exact

CHECKPOINTS = Path(__file__).resolve().parents[3] / "checkpoints"
RECURRENT, TRANSFORMER = "eng-cmn-recurrent", "eng-cmn"
PATH = "decoder.layers.0.cross_attention"
SENTENCES = (
    "I am a teacher.",
    "She bought a red car yesterday.",
    "Where is the nearest station?",
    "He doesn't like cold water.",
    "My father works in a hospital.",
    "I want to learn English.",
    "We are going to eat dinner.",
    "This book is very interesting.",
    "Do you have any money?",
    "Tom forgot to close the window.",
    "It is too late to go home.",
    "She can speak three languages.",
)
MOST_OF_THEM = 0.5  # of the written tokens: above it, the map tells where most come from
SURE = 2.0  # standard errors

# Map (target, source) of a trace.
Alignment = Callable[[Trace], Tensor]


def steps(
    attention: AdditiveAttention, state: Float[Tensor, " d_model"], annotations: Float[Tensor, "source d_model"]
) -> tuple[Float[Tensor, " source"], Float[Tensor, " source"], Float[Tensor, " d_model"]]:
    """The three steps, in float64: energies vᵀ tanh(W s + U h_j), weights, and context, of one state of the decoder."""
    w, u, b = (exact(each) for each in (attention.from_state.weight, *attention.from_annotation.parameters()))
    s, h, v = exact(state), exact(annotations), exact(attention.energy.weight)[0]
    energies = torch.tanh(w @ s + h @ u.T + b) @ v
    weights = energies.softmax(dim=0)
    return energies, weights, weights @ h


@dataclass(frozen=True)
class HidingEffects:
    """Effects of hiding each source token from the decoder on each token that it wrote.

    map: weights (target, source). changed: whether another token becomes the most probable. lost: nats of its
    log-probability.
    """

    map: Float[Tensor, "target source"]
    changed: Bool[Tensor, "target source"]
    lost: Float[Tensor, "target source"]
    source: list[str]
    target: list[str]

    @property
    def looked_at(self) -> list[int]:
        """Source token with the largest weight, of each written one."""
        return [int(row.argmax()) for row in self.map]

    @property
    def differences(self) -> list[float]:
        """Difference of each written token: 1 if it changes without the token that it looks at most, else 0, minus the
        share of the others without which it changes.
        """
        values = []
        for row, place in zip(self.changed.float(), self.looked_at, strict=True):
            others = (float(row.sum()) - float(row[place])) / max(1, len(row) - 1)
            values.append(float(row[place]) - others)
        return values


def own_map(trace: Trace) -> Float[Tensor, "target source"]:
    """Mean over layers and heads of the cross-attention; the alignment itself, where there is one head."""
    return trace.attention("cross").flatten(0, 1).mean(dim=0)


@torch.inference_mode()
def hidden_in_turn(model: Translator, text: str, written: str, alignment: Alignment = own_map) -> HidingEffects:
    """Effects on the tokens of `written`, the target, of hiding each token of the source from the decoder; what the
    encoder has made of the others stays as it is.
    """
    network = model.network
    source, target = model.source_tokens(text), model.target_tokens(written)
    trace = model.trace_tokens(source, target)
    actual = torch.tensor([*target.ids[1:], *model.target_tokenizer.ending], device=model.device)
    count, rows = len(source.ids), len(actual)
    memory = network.encode(torch.tensor([source.ids], device=model.device)).expand(count, -1, -1)
    seen = ~torch.eye(count, dtype=torch.bool, device=model.device)
    states = network.decode(torch.tensor([target.ids], device=model.device).expand(count, -1), memory, seen)
    without = network.output(states)[:, :rows].float().log_softmax(dim=-1)
    whole = trace["output.logits"][:rows].float().log_softmax(dim=-1)
    before, after = whole.gather(1, actual[:, None]), without.gather(2, actual[None, :, None].expand(count, -1, -1))
    return HidingEffects(
        alignment(trace)[:rows].float().cpu(),
        (without.argmax(dim=-1) != whole.argmax(dim=-1)).T.cpu(),
        (before - after[..., 0].T).cpu(),
        source.labels,
        [model.target_tokenizer.label(int(token)) for token in actual],
    )


@cache
def bundled(name: str) -> Translator:
    """Bundled translator of that name."""
    model = open_checkpoint(CHECKPOINTS / name)
    assert isinstance(model, Translator)
    return model


def judge(differences: Sequence[float], share: float) -> tuple[Rule, float, float]:
    """Rule of the map, with the mean of the differences and its standard error. share: of the written tokens that
    change without the token that they look at most.
    """
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.inf
    more = Quantity(
        say("written tokens that change without their largest source token, more than without another one"),
        (100 * mean,),
        "%",
        (100 * (mean - SURE * error), 100 * (mean + SURE * error)),
    )
    whole = Quantity(say("written tokens that change without their largest source token"), (100 * share,), "%")
    return Rule([clearly_above(more, 0.0)], wants=[exceeds(whole, 100 * MOST_OF_THEM)]), mean, error


def run(request: Request, alignment: Alignment = own_map) -> Iterator[Report[Outcome]]:
    """Outcomes after each sentence. alignment: map of the recurrent network that is judged."""
    loaded = request.model
    model = loaded if isinstance(loaded, Translator) and loaded.kind == "recurrent" else bundled(RECURRENT)
    other = bundled(TRANSFORMER)
    texts = list(dict.fromkeys([*([request.text.strip()] if request.text.strip() else []), *SENTENCES]))
    texts = texts[: int(request.values["sentences"])]
    written = [generation.text for generation in model.generate_batch(texts)]
    three = steps_of(model, texts[0], written[0], int(request.values["step"]))
    effects: list[HidingEffects] = []
    beside: list[HidingEffects] = []
    for text, target in zip(texts, written, strict=True):
        effects.append(hidden_in_turn(model, text, target, alignment))
        if effects[-1].source == other.source_tokens(text).labels:
            beside.append(hidden_in_turn(other, text, target))
        yield Report(len(effects) / len(texts), outcome(effects, beside, *three))


def outcome(effects: Sequence[HidingEffects], beside: Sequence[HidingEffects], table: Table, off: float) -> Outcome:
    """Outcome of the sentences until now; figures are of the first. table, off: results of `steps_of`."""
    share = changed_share(effects)
    rule, mean, error = judge([each for hidden in effects for each in hidden.differences], share)
    tokens = sum(len(hidden.target) for hidden in effects)
    reason = say(
        "without the source token that the map shows as the largest, {share} %\xa0of {tokens} written tokens become "
        "others, {more} ± {error} points more than without another token: {end}",
        share=100 * share,
        tokens=tokens,
        more=100 * mean,
        error=100 * error,
        end={
            Verdict.HOLDS: say("it tells where most words come from"),
            Verdict.IN_PART: say("it leans towards where words come from, and most do not depend on one token"),
            Verdict.WRONG: say("it does not tell where words come from"),
            Verdict.OPEN: say("these sentences do not decide it"),
        }[rule.verdict],
    )
    first = effects[0]
    axes = {"row": say("token that was written"), "column": say("token of the source")}
    figures: list[Grid | Table] = [
        Grid(say("Alignment of the recurrent network"), first.map.tolist(), first.target, first.source, **axes)
    ]
    if beside and beside[0].source == first.source:
        title = say("Mean cross-attention of the Transformer {name}", name=TRANSFORMER)
        figures.append(Grid(title, beside[0].map.tolist(), beside[0].target, beside[0].source, **axes))
    title = say("Nats that a written token loses without a source token")
    figures.append(Grid(title, first.lost.tolist(), first.target, first.source, **axes))
    figures.append(table)
    quantities = [
        Quantity(say("written tokens that change without their largest source token"), (100 * share,), "%"),
        Quantity(say("more than without another one"), (100 * mean,), "%"),
        Quantity(say("places of written and of most seen tokens, correlation"), (in_order(effects),)),
        Quantity(say("largest difference of the three steps in float64 from the network"), (off,)),
    ]
    if beside:
        shared = 100 * agreement(effects, beside)
        quantities += [
            Quantity(say("the first, for the Transformer's mean map"), (100 * changed_share(beside),), "%"),
            Quantity(say("written tokens for which both maps are largest at one token"), (shared,), "%"),
        ]
    return Outcome(rule, reason, quantities, figures)


def changed_share(effects: Sequence[HidingEffects]) -> float:
    """Share of the written tokens that change without the source token that they look at most."""
    return statistics.fmean(
        float(row[place]) for hidden in effects for row, place in zip(hidden.changed, hidden.looked_at, strict=True)
    )


def agreement(effects: Sequence[HidingEffects], others: Sequence[HidingEffects]) -> float:
    """Share of the written tokens for which two maps are largest at the same source token, of sentences in both."""
    pairs = [
        (own, other)
        for hidden in effects
        for beside in others
        if (hidden.source, hidden.target) == (beside.source, beside.target)
        for own, other in zip(hidden.looked_at, beside.looked_at, strict=True)
    ]
    return statistics.fmean(float(own == other) for own, other in pairs) if pairs else math.nan


def in_order(effects: Sequence[HidingEffects]) -> float:
    """Correlation of the place of a written token with that of the source token it looks at most: 1 on the diagonal."""
    places = [
        (row / max(1, len(hidden.target) - 1), place / max(1, len(hidden.source) - 1))
        for hidden in effects
        for row, place in enumerate(hidden.looked_at)
    ]
    written, seen = zip(*places, strict=True)
    return statistics.correlation(written, seen) if len({*written}) > 1 and len({*seen}) > 1 else math.nan


@torch.inference_mode()
def steps_of(model: Translator, text: str, written: str, step: int) -> tuple[Table, float]:
    """Table of the three steps before one written token, and the largest difference from what the network computed."""
    layer = model.network.get_submodule("decoder.layers.0")
    assert isinstance(layer, RecurrentLayer)
    trace = model.trace(text, written)
    row = min(step, len(trace.target_tokens)) - 1
    states, annotations = trace["decoder.layers.0.unit.states"], trace["encoder.annotations"]
    state = states[row - 1] if row else layer.unit.first(annotations[None])[0, 0]
    results = steps(layer.cross_attention, state, annotations)
    computed = (trace[f"{PATH}.energies"][0, row], trace[f"{PATH}.weights"][0, row], trace[f"{PATH}.context"][row])
    off = max(float((own - exact(other)).abs().max()) for own, other in zip(results, computed, strict=True))
    energies, weights, _context = results
    sizes = (weights[:, None] * exact(annotations)).norm(dim=-1)
    rows = list(zip(trace.source_tokens, energies.tolist(), weights.tolist(), sizes.tolist(), strict=True))
    written_tokens = [*trace.target_tokens[1:], "</s>"]
    title = say("Three steps before {token}, the written token {number}", token=written_tokens[row], number=row + 1)
    return Table(title, (say("token of the source"), "e = vᵀ tanh(W s + U h)", "α = softmax(e)", "‖α h‖"), rows), off


EXPERIMENTS = (
    Experiment(
        name="bahdanau",
        row=41,
        group=Group.ARCHITECTURES,
        statement=say(
            "Attention over the states of a recurrent network takes three steps, scores, weights and context, and its "
            "map shows which source word each written word comes from."
        ),
        truth=say(
            "The steps are e = vᵀ tanh(W s + U h), α = softmax(e) and c = Σ α h (Bahdanau et al., 2015). An annotation "
            "holds its whole sentence, its neighbours most: the map leans towards the source of a word and does not "
            "prove it. Hiding a token does."
        ),
        run=run,
        parameters=(
            Parameter(
                "sentences", say("sentences that are tried"), default=len(SENTENCES), low=2.0, high=len(SENTENCES) + 1.0
            ),
            Parameter("step", say("steps of written token"), default=3, low=1.0, high=100.0),
        ),
        seconds=5.0,
        formulas=(
            r"e_{ij} = v^\top \tanh(W s_{i-1} + U h_j)",
            r"\alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp e_{ik}}",
            r"c_i = \sum_j \alpha_{ij} h_j",
        ),
        code=(steps, hidden_in_turn),
        source="Bahdanau et al. (2015), Neural Machine Translation by Jointly Learning to Align and Translate, 3.1",
    ),
)
