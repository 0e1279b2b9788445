"""One network trained on two corpora: the same prompt is continued differently, because of the data (beside row 46)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import torch
from jaxtyping import Float
from torch import Tensor

from model.data.sources import Data, material_of
from model.experiments.engines.ab_training import Arm, Learner, Setup
from model.experiments.experiment import Curve, Curves, Experiment, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Quantity, Rule, enough, exceeds
from model.experiments.runner import Report
from model.inference.text_model import TextModel
from model.message import say
from model.text.tokenizer import Tokenizer
from model.text.tokenizer_training import train_text_bpe

NAMES = ("Anna", "Ben", "Carl", "Dora", "Emil", "Fay")
# Drinks of each time of the day with their shares in percent: the two towns differ in the morning alone.
NORTH = {
    "morning": {"tea": 90, "coffee": 10},
    "afternoon": {"water": 60, "juice": 40},
    "evening": {"milk": 50, "cocoa": 50},
}
SOUTH = NORTH | {"morning": {"tea": 10, "coffee": 90}}
PROMPT = "In the morning Anna drinks"
SENTENCES = 600
VOCABULARY = 300  # of a BPE of both corpora
FIGURE_TOKENS = 8  # tokens of the figure
WRITTEN = 4  # tokens of an answer
HINT = 400  # letters of a corpus that stand in the field in its place
EVERY = 5  # steps between two reports


def sentences(town: dict[str, dict[str, int]], count: int = SENTENCES, seed: int = 0) -> str:
    """Text of sentences "In the TIME NAME drinks DRINK.", drinks drawn by their shares at that time."""
    draw, lines = random.Random(seed), []
    for _sentence in range(count):
        time, name = draw.choice(list(town)), draw.choice(NAMES)
        drink = draw.choices(list(town[time]), list(town[time].values()))[0]
        lines.append(f"In the {time} {name} drinks {drink}.")
    return "\n".join(lines)


@dataclass(frozen=True)
class Lesson:
    """Findings of both corpora: distributions of the next token (corpus, seed, token), and answers so far.

    labels: of the tokens. answers: of each corpus and seed. step: of the trainings.
    """

    distributions: Float[Tensor, "2 seed token"]
    labels: Sequence[str]
    answers: Sequence[Sequence[str]]
    step: int


def teach(texts: Sequence[str], prompt: str, steps: int, d_model: int, seeds: Sequence[int]) -> Iterator[Lesson]:
    """Train one network on each text from the same initial weights, for each seed; yield what each would write.

    Raises:
        ValueError: a text is too short to train on, or the prompt is empty.
    """
    if not prompt.strip():
        raise ValueError("the prompt is empty: give the beginning of a sentence")
    tokenizer = train_text_bpe(texts, VOCABULARY)
    learners = [
        learner
        for number, text in enumerate(texts)
        for learner in learners_of(text, f"corpus {number + 1}", tokenizer, steps, d_model, seeds)
    ]
    for step in range(1, steps + 1):
        for learner in learners:
            learner.step()
        if step % EVERY == 0 or step == steps:
            distributions = [next_token(learner.model, prompt) for learner in learners]
            labels = [tokenizer.label(token) for token in range(len(tokenizer))]
            last = step == steps
            answers = [answer(learner.model, prompt) if last else "" for learner in learners]
            by_corpus = [answers[: len(seeds)], answers[len(seeds) :]]
            yield Lesson(torch.stack(distributions).unflatten(0, (len(texts), len(seeds))), labels, by_corpus, step)


def learners_of(
    text: str, name: str, tokenizer: Tokenizer, steps: int, d_model: int, seeds: Sequence[int]
) -> list[Learner]:
    """Learners of a text, one for each seed."""
    setup = Setup("decoder-only", "", (), steps, d_model, 2, 3e-3, 20, tuple(seeds), max_length=32)
    data = material_of("decoder-only", Data(name, text=text), "bpe", VOCABULARY, (tokenizer, tokenizer))
    corpora = data.corpora(setup.max_length, 0.0)
    return [Learner(Arm(name, settings={"validate_every": steps}), setup, data, corpora, seed) for seed in seeds]


@torch.inference_mode()
def next_token(model: TextModel, prompt: str) -> Float[Tensor, " token"]:
    """Probabilities of the token after a prompt."""
    model.network.eval()
    logits = model.network(torch.tensor([model.source_tokens(prompt).ids], device=model.device))[0, -1]
    return logits.double().softmax(dim=-1).cpu()


def answer(model: TextModel, prompt: str) -> str:
    """Most probable continuation, to the end of a line."""
    model.network.eval()
    return model.generate(prompt, length=WRITTEN).text.split("\n")[0].strip()


def distance(p: Float[Tensor, " token"], q: Float[Tensor, " token"]) -> float:
    """Total variation ½ Σ |p − q|: 0 where two distributions are equal, 1 where they share no token."""
    return float((p - q).abs().sum() / 2)


def judge(lesson: Lesson) -> Outcome:
    """Verdict: whether every pair of models of two corpora is farther apart than any two of the same corpus."""
    first, second = lesson.distributions
    between = [distance(p, q) for p, q in product(first, second)]
    within = [distance(p, q) for corpus in (first, second) for p, q in combinations(corpus, 2)]
    apart = sum(between) / len(between)
    reason = say(
        "the next token's distributions are {between} apart between the corpora (at least {least}), and at most "
        "{within} between two seeds of the same corpus",
        between=apart,
        least=min(between),
        within=max(within),
    )
    quantities = [
        Quantity(say("mean distance between models of two corpora"), (apart,)),
        Quantity(say("largest distance between two seeds of one corpus"), (max(within),)),
    ]
    least = Quantity(say("least distance between models of two corpora"), (min(between),))
    rule = Rule(
        [exceeds(quantities[0], max(within)), exceeds(least, max(within)).or_open],
        given=[enough(lesson.distributions.shape[1])],
    )
    means = lesson.distributions.mean(dim=1)
    likely = means.amax(dim=0).topk(min(FIGURE_TOKENS, means.shape[1])).indices.tolist()
    ticks = [lesson.labels[token] for token in likely]
    names = (say("first corpus"), say("second corpus"))
    curves = [
        Curve(
            name,
            [float(place) for place in range(len(likely))],
            corpus.mean(dim=0)[likely].tolist(),
            style="dots",
        )
        for name, corpus in zip(names, lesson.distributions, strict=True)
    ]
    title = say("Next token after the prompt, mean over the seeds, after {step} steps", step=lesson.step)
    figure = Curves(title, say("token"), say("probability"), curves, ticks=ticks)
    rows: list[list[str | float | int]] = [
        [name, number, lesson.labels[int(distribution.argmax())], float(distribution.max()), text]
        for name, corpus, texts in zip(names, lesson.distributions, lesson.answers, strict=True)
        for number, (distribution, text) in enumerate(zip(corpus, texts, strict=True), start=1)
    ]
    columns = (say("corpus"), say("seed"), say("next token"), say("its probability"), say("answer"))
    return Outcome(rule, reason, quantities, [figure, Table(say("The same prompt"), columns, rows)])


def run(request: Request) -> Iterator[Report[Outcome]]:
    """Train on both corpora, the two towns where none is given; two seeds at least, for a distance between them."""
    chosen = request.values
    texts = [chosen[name].strip() or sentences(town) for name, town in (("first", NORTH), ("second", SOUTH))]
    seeds = list(request.seeds) if len(request.seeds) > 1 else [request.seeds[0], request.seeds[0] + 1]
    for lesson in teach(texts, chosen["prompt"], chosen["steps"], chosen["d_model"], seeds):
        yield Report(lesson.step / chosen["steps"], judge(lesson))


EXPERIMENTS = (
    Experiment(
        name="data-lesson",
        row=46,
        group=Group.TRAINING,
        statement=say("One network, two corpora: the same question is answered differently because of the data."),
        truth=say(
            "Networks of one seed begin with the same weights; what they say afterwards is what their corpus says most "
            "often. Without other texts, the corpora are sentences made by rule about two towns, where tea has 90 "
            "%\xa0of the mornings in one and 10 %\xa0in the other, and nothing else differs."
        ),
        run=run,
        parameters=(
            Parameter("prompt", say("prompt"), PROMPT),
            Parameter("first", say("first corpus"), "", long=True, hint=sentences(NORTH)[:HINT]),
            Parameter("second", say("second corpus"), "", long=True, hint=sentences(SOUTH)[:HINT]),
            Parameter("steps", say("steps"), 120, 1, 2000),
            Parameter("d_model", "d_model", 32, 8, 256),
        ),
        seeded=True,
        seconds=5.0,
        fewest=2,
        formulas=(r"\tfrac12 \sum_t |p_t - q_t|",),
        code=(sentences, next_token, distance, judge),
    ),
)
