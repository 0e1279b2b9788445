"""Questions whose answer the model that is there computes on the text that is there; none is stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.analysis.experts import has_experts
from model.analysis.feed_forward import path_of
from model.analysis.head_metrics import METRICS, after_the_same, entropy, metric
from model.analysis.predictions import text_losses
from model.analysis.residual import blocks, states
from model.capture.interventions import (
    AttentionChange,
    Intervention,
    RemovedExpert,
    intervening,
    read_changes,
)
from model.capture.trace import AttentionKind
from model.lessons.light import Light
from model.lessons.state import State, Subject
from model.message import InputError, Message
from model.network.costs import active_parameters

TIE = 0.05  # two candidates this near to each other, as a share of the better one, are not told apart
SAME = 1e-4  # the share by which a number that nothing changed may differ
MOST_OPTIONS = 8  # tokens or cells to choose among
RANKED = 4  # tokens that may come next
NAMES = (
    *("kind", "of", "attention", "stack", "layer", "head", "query", "change", "most", "value", "tolerance", "beam"),
    "hints",
)
CURVES = {"loss": "loss", "validation": "validation", "right": "exact match"}  # of a run, by what a step is asked of
MEASURED = ("entropy", "loss", "translation")
BEAMS = (2, 16)  # the narrowest and the widest that a question may ask about


@dataclass(frozen=True)
class Question:
    """Question of a step.

    kind: "key": at which key a query looks most; "change": what becomes of `of` under `change`; "next": which token
    comes next; "token": which token has the most of `of`, or the least; "number": `of` within `tolerance`; "head":
    which head of a kind has the largest metric `of`, or the smallest; "cell": the largest weight of a head; "expert":
    which expert of a layer of `stack` has the largest weight for a token; "step": the first step of the training at
    which `of` is below `value`, or, of "right", not below; "search": whether a search of width `beam` ends with another
    text than greedy decoding. change: "unscaled", "shuffled", or changes as in an address. base: changes of the step
    itself: `change` is asked beside these, whatever the reader has changed. hints: a nudge and a suggestion; the third
    is the answer.
    """

    kind: str
    hints: tuple[str, str]
    of: str = ""
    attention: AttentionKind | None = None
    stack: str | None = None
    layer: int = 0
    head: int = 0
    query: int = 0
    change: str = ""
    base: tuple[AttentionChange, ...] = ()
    most: bool = True
    value: float = 0.0
    tolerance: float = 0.1
    beam: int = 0

    @classmethod
    def read(cls, record: Mapping[str, Any], state: State) -> Question:
        """Question of a block of a lesson; what it leaves out of attention, layer, head and query is the state's.

        Raises:
            ValueError: a value is missing or cannot be.
        """
        if unknown := [str(name) for name in record if name not in NAMES]:
            raise InputError("{name!r} is not known here: leave it out", name=unknown[0][:40])
        values: dict[str, Any] = {name: state.number(name) or 0 for name in ("layer", "head", "query")}
        values |= {name: state.parameters.get(name) for name in ("attention", "stack")}
        values |= {"of": "", "change": "", **record}
        hints = values.pop("hints", None)
        if not (isinstance(hints, list) and len(hints) == 2 and all(isinstance(each, str) and each for each in hints)):
            raise InputError("hints must be two texts, a nudge and a suggestion; the third is the answer")
        for name in ("layer", "head", "query"):
            if type(values[name]) is not int or not 0 <= values[name] < 100_000:
                raise InputError("{name} ({value!r}) must be a whole number, from 0", name=name, value=values[name])
        _require_one_of("kind", values.get("kind"), tuple(ANSWERS))
        _require_one_of("attention", values["attention"], (None, *get_args(AttentionKind)))
        _require_one_of("stack", values["stack"], (None, "encoder", "decoder"))
        _require_one_of("of", values["of"], OF[values["kind"]])
        if type(values.get("most", True)) is not bool:
            raise InputError("most must be true or false")
        value = values.get("value", 0.0)
        if type(value) not in (int, float) or not math.isfinite(value) or (values["kind"] == "step") != (value > 0):
            raise InputError("value ({value!r}) must be a number above 0, for the kind step alone", value=value)
        tolerance = values.get("tolerance", 0.1)
        if type(tolerance) not in (int, float) or not 0 < tolerance <= 1:
            raise InputError("tolerance ({value!r}) must be above 0 and at most 1", value=tolerance)
        _require_change(values["change"], values["kind"] == "change")
        _require_beam(values.get("beam", 0), values["kind"] == "search")
        return cls(hints=(hints[0], hints[1]), base=state.changes, **values)

    @property
    def counts(self) -> bool:
        """True if its number is a whole one, as of steps or weights."""
        return self.kind == "step" or self.of == "parameters"

    def answer(self, subject: Subject) -> Answer:
        """Answer of this model for this text.

        Raises:
            ValueError: the model lacks what is asked for, or its numbers are not finite.
        """
        with torch.inference_mode():
            answer = ANSWERS[self.kind](self, subject)
        if not all(map(math.isfinite, answer.measures)):
            raise InputError("this model has no answer on this text: a number is not finite, or not there")
        return answer

    def place(self, subject: Subject) -> tuple[AttentionKind, int, int, int]:
        """Kind, layer, head and query, the last moved into the text that is there.

        Raises:
            ValueError: the model has no such kind, layer or head.
        """
        kind = self.attention or subject.attentions[-1]
        for name, count in zip(("layer", "head"), subject.maps(kind), strict=True):
            if (number := getattr(self, name)) >= count:
                raise InputError(
                    "{name} ({number}) is not there: there are {count}, from 0", name=name, number=number, count=count
                )
        return kind, self.layer, self.head, min(self.query, len(queries(subject, kind)) - 1)


@dataclass(frozen=True)
class Answer:
    """Answer to a question.

    options: to choose among; none where a number is asked for. measures: number behind each option, or the number
    itself. right: option that is right; None: the model does not decide, and nothing is scored. texts: what the model
    writes without a change and with it, or by greedy decoding and by a search.
    """

    options: tuple[str, ...]
    measures: tuple[float, ...]
    right: int | None
    tolerance: float = 0.0
    texts: tuple[str, str] = ("", "")

    def judge(self, guess: int | float) -> bool | None:
        """True if a guess, the number of an option or a number, is right; None where nothing is scored."""
        if self.right is None:
            return None
        if self.options:
            return guess == self.right
        return abs(guess - self.measures[0]) <= self.tolerance * abs(self.measures[0])


def _require_one_of(name: str, value: Any, possible: Sequence[Any]) -> None:
    if value not in possible:
        names = ", ".join(str(each) for each in possible if each)
        raise InputError("{name} ({value!r}) must be one of {names}", name=name, value=value, names=names or "-")


def _require_change(text: Any, needed: bool) -> None:
    if not isinstance(text, str) or needed != bool(text):
        raise InputError("change must be unscaled, shuffled, or changes as in an address, for the kind change alone")
    if text not in OTHER_CHANGES:
        read_changes(text)


def _require_beam(beam: Any, needed: bool) -> None:
    least, most = BEAMS
    if type(beam) is not int or needed != (least <= beam <= most) or not (needed or beam == 0):
        raise InputError(
            "beam ({beam!r}) must be a whole number from {least} to {most}, for the kind search alone",
            beam=beam,
            least=least,
            most=most,
        )


# Changes that no address has: they are made to a pass that a question asks about.


@dataclass(frozen=True)
class Unscaled(Intervention):
    """Scores without 1/√d_k (section 3.2.1)."""

    explicit = True

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        return cast(Tensor, inputs[0]) if path.endswith(".scaled") else output


@dataclass(frozen=True)
class Shuffled(Intervention):
    """Positions of the tokens that a stack reads in another order, always the same."""

    stack: str

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        if path != f"{self.stack}.embedding.positions":
            return output
        if not bool(output.any()):
            raise InputError("this model adds no positions to its tokens: there is nothing to shuffle")
        order = torch.randperm(output.shape[1], generator=torch.Generator().manual_seed(0))
        return output[:, order.to(output.device)]


OTHER_CHANGES = ("unscaled", "shuffled")


def changes(question: Question, subject: Subject) -> tuple[Intervention, ...]:
    """Changes that a question asks about; positions are those of the source, where there is one."""
    if question.change == "unscaled":
        return (Unscaled(),)
    if question.change == "shuffled":
        return (Shuffled("encoder" if "encoder" in subject.attentions else "decoder"),)
    return read_changes(question.change)


# Answers, by the kind of question.


def queries(subject: Subject, kind: str) -> list[str]:
    """Labels of the tokens that look."""
    return (subject.source if kind == "encoder" or subject.target is None else subject.target).labels


def keys(subject: Subject, kind: str) -> list[str]:
    """Labels of the tokens that are looked at."""
    return (subject.source if kind in ("encoder", "cross") or subject.target is None else subject.target).labels


def weights(question: Question, subject: Subject) -> Float[Tensor, "query key"]:
    """Attention weights of the question's head."""
    kind, layer, head, _query = question.place(subject)
    path = subject.trace.attention_paths(kind)[layer]
    return subject.trace[f"{path}.weights"][head].double()


def largest(options: Sequence[str], measures: Sequence[float], most: bool = True) -> Answer:
    """Answer whose option has the largest measure, or the smallest; undecided where the second is within 5 %."""
    order = sorted(range(len(measures)), key=lambda place: measures[place], reverse=most)
    first, second = measures[order[0]], measures[order[1]] if len(order) > 1 else math.inf
    near = len(order) < 2 or abs(first - second) <= TIE * max(abs(first), abs(second))
    return Answer(tuple(options), tuple(measures), None if near else order[0])


def _key(question: Question, subject: Subject) -> Answer:
    kind, _layer, _head, query = question.place(subject)
    row = weights(question, subject)[query]
    labels = numbered(keys(subject, kind))
    places = sorted(row.topk(min(MOST_OPTIONS, len(row))).indices.tolist())
    return largest([labels[place] for place in places], [float(row[place]) for place in places])


def _token(question: Question, subject: Subject) -> Answer:
    """Tokens of the stack of the question's attention: by the length of their last state, or by their loss."""
    kind = question.attention or subject.attentions[-1]
    if question.of == "loss":
        values, kind = text_losses(subject.model, subject.trace, subject.source, subject.target), "decoder"
    else:
        stack = "encoder" if kind == "encoder" else "decoder"
        values = subject.trace[states(blocks(subject.model.config, stack))[-1]].double().norm(dim=-1)
    values = values.nan_to_num(-math.inf if question.most else math.inf)
    best = values.topk(min(MOST_OPTIONS, int(values.isfinite().sum())), largest=question.most).indices
    labels, places = numbered(queries(subject, kind)), sorted(best.tolist())
    return largest([labels[place] for place in places], values[places].tolist(), question.most)


def _cell(question: Question, subject: Subject) -> Answer:
    kind, _layer, _head, _query = question.place(subject)
    cells = _with_choice(weights(question, subject))
    rows, columns = numbered(queries(subject, kind)), numbered(keys(subject, kind))
    best = cells.flatten().topk(min(MOST_OPTIONS, cells.numel())).indices.tolist()
    places = [divmod(place, cells.shape[1]) for place in sorted(best)]
    options = [f"{rows[query]} → {columns[key]}" for query, key in places]
    return largest(options, [float(cells[place]) for place in places])


def _with_choice(cells: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """Weights of the queries that see more than one key; of the others 0."""
    return cells.where(((cells > 0).sum(dim=-1) > 1)[:, None], 0)


def _head(question: Question, subject: Subject) -> Answer:
    """Each head of a kind, in the order of layers; its metric is over all queries."""
    kind = question.attention or subject.attentions[-1]
    layers, heads = subject.maps(kind)
    marked = _marked(question.of, subject, kind)
    values = [
        value
        for path in subject.trace.attention_paths(kind)
        for value in metric(question.of, subject.trace[f"{path}.weights"].double(), marked).tolist()
    ]
    options = [
        Message("head {head} of layer {layer}", head=i % heads + 1, layer=i // heads + 1) for i in range(layers * heads)
    ]
    return largest(options, values, question.most)


def _marked(name: str, subject: Subject, kind: str) -> Tensor:
    """Mark that a metric needs: special tokens among the keys, or keys after the query's own token."""
    if name == "induction":
        return after_the_same(keys(subject, kind))
    return torch.tensor([label in subject.trace.special_labels for label in keys(subject, kind)])


def _expert(question: Question, subject: Subject) -> Answer:
    """Experts of a layer, by their weights for a token; where it goes through one, by the router's probabilities."""
    path = mixture(question, subject)
    gates = subject.trace[f"{path}.gates"].double()
    place = min(question.query, len(gates) - 1)
    row = gates[place]
    if int((row > 0).sum()) == 1 and f"{path}.router" in subject.trace:
        row = _probabilities(path, place, subject)
    return largest([Message("expert {number}", number=each + 1) for each in range(len(row))], row.tolist())


def _probabilities(path: str, place: int, subject: Subject) -> Float[Tensor, " expert"]:
    """Probabilities that the router of the mixture at `path` gives its experts for a token; 0 of one that was taken
    from it.
    """
    logits = subject.trace[f"{path}.router"][place].double().clone()
    for each in subject.trace.changes:
        if isinstance(each, RemovedExpert) and path == path_of(each.kind, each.layer):
            logits[each.expert] = -math.inf
    return logits.softmax(dim=-1)


def mixture(question: Question, subject: Subject) -> str:
    """Path of the experts of the question's stack and layer.

    Raises:
        ValueError: they are not there.
    """
    stack = question.stack or subject.model.config.stacks[-1]
    if not has_experts(subject.trace, stack, question.layer):
        raise InputError(
            "{name} has no experts in layer {layer} of the {stack}, counted from 0",
            name=subject.model.name,
            layer=question.layer,
            stack=stack,
        )
    return path_of(stack, question.layer)


def _next(question: Question, subject: Subject) -> Answer:
    if not subject.model.predicts:
        raise InputError("{name} predicts nothing", name=subject.model.name)
    logits = subject.trace["output.logits"]
    probabilities = logits[min(question.query, len(logits) - 1)].double().softmax(dim=-1)
    tokens = sorted(probabilities.topk(min(RANKED, len(probabilities))).indices.tolist())
    labels = [subject.model.target_tokenizer.label(token) for token in tokens]
    return largest(labels, [float(probabilities[token]) for token in tokens])


def measured(question: Question, subject: Subject) -> float:
    """Number that a question is of: mean entropy of the chosen head, in nats, mean loss of the text, or number of the
    weights that compute for one token.
    """
    if question.of == "entropy":
        return float(entropy(weights(question, subject)))
    if question.of == "parameters":
        return float(active_parameters(subject.model.config))
    return float(text_losses(subject.model, subject.trace, subject.source, subject.target).nanmean())


def _number(question: Question, subject: Subject) -> Answer:
    return Answer((), (measured(question, subject),), 0, question.tolerance)


def _change(question: Question, subject: Subject) -> Answer:
    if question.of == "translation":
        return _translation(question, subject)
    before = subject.with_changes(*question.base)
    after = before.changed(*changes(question, subject))
    numbers = measured(question, before), measured(question, after)
    options = (Message("it goes up"), Message("it goes down"), Message("it stays the same"))
    difference, scale = numbers[1] - numbers[0], max(map(abs, numbers))
    right = 2 if abs(difference) <= SAME * scale else None if abs(difference) <= TIE * scale else int(difference < 0)
    return Answer(options, numbers, right)


def _translation(question: Question, subject: Subject) -> Answer:
    """The text that the model writes for the source, without the change and with it."""
    model, text = subject.model, _source_text(subject)

    def written(changes: Sequence[Intervention]) -> str:
        with intervening(model.network, changes):
            return model.generate(text).text

    before, after = written(question.base), written((*question.base, *changes(question, subject)))
    options = (Message("it becomes another"), Message("it stays the same"))
    return Answer(options, (0.0, 0.0), int(before == after), texts=(before, after))


def _source_text(subject: Subject) -> str:
    """Text of the source.

    Raises:
        ValueError: the model does not translate.
    """
    model = subject.model
    if subject.target is None:
        raise InputError("{name} does not translate", name=model.name)
    return model.source_tokenizer.decode(
        [each for each in subject.source.ids if each not in model.source_tokenizer.special]
    )


def _search(question: Question, subject: Subject) -> Answer:
    """The text that greedy decoding writes for the source, and that a beam search ends with."""
    model, text = subject.model, _source_text(subject)
    with intervening(model.network, question.base):
        greedy, searched = model.generate(text).text, model.generate(text, beam=question.beam).text
    options = (Message("with another sentence"), Message("with the same sentence"))
    return Answer(options, (0.0, 0.0), int(greedy == searched), texts=(greedy, searched))


def _step(question: Question, subject: Subject) -> Answer:
    """First step of the run at which the curve is on the right side of the value."""
    if subject.run is None:
        raise InputError("a question of the kind step needs a state with training and training_step")
    steps, values = subject.run.curves.get(CURVES[question.of])
    reached = steps[values >= question.value if question.of == "right" else values < question.value]
    if not len(reached):
        latest = f"{values[-1]:.3g}" if len(values) else "-"
        raise InputError(
            "the training has not come that far: {name} is {latest}, asked is {value:g}; train on",
            name=CURVES[question.of],
            latest=latest,
            value=question.value,
        )
    return Answer((), (float(reached[0]),), 0, question.tolerance)


ANSWERS: dict[str, Callable[[Question, Subject], Answer]] = {
    "key": _key,
    "change": _change,
    "next": _next,
    "token": _token,
    "number": _number,
    "head": _head,
    "cell": _cell,
    "expert": _expert,
    "step": _step,
    "search": _search,
}
# What a kind of question may be of.
OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("key", "next", "cell", "expert", "search"), ("",)),
    "change": MEASURED,
    "token": ("length", "loss"),
    "number": (*MEASURED[:2], "parameters"),
    "head": tuple(METRICS),
    "step": tuple(CURVES),
}


def light(question: Question, answer: Answer, subject: Subject) -> Light | None:
    """Place of the answer in a figure: a head, or a cell of the question's head; None where it has none."""
    if question.kind == "head":
        order = sorted(range(len(answer.measures)), key=lambda place: answer.measures[place], reverse=question.most)
        _layers, heads = subject.maps(question.attention or subject.attentions[-1])
        return Light("head", f"{order[0] // heads}.{order[0] % heads}")
    if question.kind == "key":
        query = question.place(subject)[3]
        return Light("cell", f"{query}.{int(weights(question, subject)[query].argmax())}")
    if question.kind == "cell":
        cells = _with_choice(weights(question, subject))
        query, key = divmod(int(cells.argmax()), cells.shape[1])
        return Light("cell", f"{query}.{key}")
    return None


def numbered(labels: Sequence[str]) -> list[str]:
    """Labels, those that stand more than once with the number of their place, from 1."""
    return [label if labels.count(label) == 1 else f"{label} ({place})" for place, label in enumerate(labels, 1)]
