"""BLEU of translations whose errors are repaired step by step, and of a model's own (row 49)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from model.checkpoints.load import open_checkpoint
from model.data.pairs import Pair, in_split
from model.data.sources import data_of_run, phrase_data
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    over_seeds,
)
from model.experiments.rule import Condition, Quantity, Rule, enough
from model.experiments.runner import Report
from model.inference.models import Translator
from model.inference.text_model import TextModel
from model.message import say
from model.training.translation_scores import Scores, batches_of, find_language, find_tokenizer, references_of, score

REVERSE = Path(__file__).parents[3] / "checkpoints" / "reverse"  # translates without a language: abc → cba
STEPS = 10  # of the repair
TRIED = 8  # sentences by which the language of a model is found
EXAMPLES = 4  # sentences in the table
WORSE = 1e-9  # of a score: less is no fall

References = Mapping[str, Sequence[str]]
Scorer = Callable[[Mapping[str, str], References, str], Scores]


@dataclass(frozen=True)
class HeldOut:
    """Pairs that a model has not learnt from, with the tokenizer of BLEU that suits them."""

    model: TextModel
    pairs: Sequence[Pair]
    tokenizer: str


def held_out(model: TextModel, count: int) -> HeldOut:
    """Test pairs of the model's own data; else, of a translator into Chinese, sentences made by rule; else those of the
    bundled model that writes letters backwards.
    """
    data = data_of_run(model.kind, model.training) if isinstance(model, Translator) else None
    if data is not None and data.pairs:
        tokenizer = "char" if data.task else find_tokenizer([pair.target for pair in data.pairs]).name
        if pairs := in_split(data.pairs, "test"):
            return HeldOut(model, pairs[:count], tokenizer)
    if isinstance(model, Translator) and model.predicts:
        pairs = list(phrase_data("encoder-decoder").pairs)
        random.Random(0).shuffle(pairs)
        written = model.generate_batch([pair.source for pair in pairs[:TRIED]])
        if find_language([each.text for each in written]) == find_language([pair.target for pair in pairs]):
            return HeldOut(model, pairs[:count], find_tokenizer([pair.target for pair in pairs]).name)
    return held_out(open_checkpoint(REVERSE), count)


def units_of(text: str, tokenizer: str) -> list[str]:
    """str of a text, or its characters where BLEU counts these."""
    return text.split(" ") if tokenizer in ("13a", "intl") else list(text)


def corrupted(
    pairs: Sequence[Pair], tokenizer: str, shares: Sequence[float], seed: int
) -> Iterator[tuple[float, dict[str, str]]]:
    """Right translations of the sources with a share of their words, or characters, exchanged for others.

    What is wrong at a smaller share is wrong, in the same way, at every larger one: from one to the next errors are
    repaired, and none is made.
    """
    chance = random.Random(f"bleu {seed}")
    rows = {pair.source: units_of(pair.target, tokenizer) for pair in pairs}
    known = sorted({unit for units in rows.values() for unit in units})
    places = [(source, place) for source, units in rows.items() for place in range(len(units))]
    chance.shuffle(places)
    others = {(source, place): other(known, rows[source][place], chance) for source, place in places}
    between = " " if tokenizer in ("13a", "intl") else ""
    for share in shares:
        wrong = set(places[: round(share * len(places))])
        yield (
            share,
            {
                source: between.join(
                    others[source, place] if (source, place) in wrong else unit for place, unit in enumerate(units)
                )
                for source, units in rows.items()
            },
        )


def other(known: Sequence[str], unit: str, chance: random.Random) -> str:
    """Another of the known words, where there is one."""
    drawn = chance.choice(known)
    while drawn == unit and len(known) > 1:
        drawn = chance.choice(known)
    return drawn


def rises(values: Sequence[float]) -> int:
    """Repairs after which a score is higher."""
    return sum(after > before + WORSE for before, after in pairwise(values))


def rule_of(courses: Sequence[Sequence[float]]) -> Rule:
    """Rule of scores from the most corrupted to the right translations, one course a seed: which words are wrong is
    chance.
    """
    higher = all(course[-1] > course[0] for course in courses)
    rising = all(rises(course) == len(course) - 1 for course in courses)
    return Rule(
        [Condition(say("the score is higher without errors, with every seed"), higher)],
        wants=[Condition(say("it rises at every repair"), rising)],
        given=[enough(len(courses))],
    )


def run_of(scorer: Scorer = score) -> Callable[[Request], Iterator[Report[Outcome]]]:
    """Run on held-out pairs. scorer: of translations against references, with a tokenizer of BLEU."""

    def run(request: Request) -> Iterator[Report[Outcome]]:
        count, most = request.values["sentences"], request.values["share"]
        yield Report(0.0, Outcome(None, say("pairs are chosen")))
        data = held_out(request.model, count)
        references = references_of(data.pairs)
        written: dict[str, str] = {}
        batches = batches_of(list(references))
        for number, batch in enumerate(batches, start=1):
            written |= {source: each.text for source, each in zip(batch, data.model.generate_batch(batch), strict=True)}
            remark = say("{count} of {all} sentences are translated", count=len(written), all=len(references))
            yield Report(0.5 * number / len(batches), Outcome(None, remark))
        own = scorer(written, references, data.tokenizer)
        shares = [most * step / STEPS for step in range(STEPS, -1, -1)]
        courses: list[list[Scores]] = []
        for number, seed in enumerate(request.seeds):
            course: list[Scores] = []
            for share, texts in corrupted(data.pairs, data.tokenizer, shares, seed):
                course.append(scorer(texts, references, data.tokenizer))
                done = (number + len(course) / len(shares)) / len(request.seeds)
                if done < 1:
                    remark = say("{share} %\xa0of the words are wrong", share=100 * share)
                    yield Report(0.5 + 0.5 * done, Outcome(None, remark))
            courses.append(course)
        yield Report(1.0, outcome_of(data, own, written, shares, courses))

    return run


def outcome_of(
    data: HeldOut, own: Scores, written: Mapping[str, str], shares: Sequence[float], courses: Sequence[Sequence[Scores]]
) -> Outcome:
    """Verdict on BLEU, with chrF beside it."""
    bleu = [[each.bleu for each in course] for course in courses]
    chrf = [[each.chrf for each in course] for course in courses]
    reason = say(
        "with {share} %\xa0of the words wrong BLEU is {low}, with none {high}; it rises at {rises} of {repairs} "
        "repairs (chrF at {others}); {model} itself reaches {own} on {count} sentences",
        share=100 * shares[0],
        low=fmean(course[0] for course in bleu),
        high=fmean(course[-1] for course in bleu),
        rises=sum(map(rises, bleu)),
        repairs=sum(len(course) - 1 for course in bleu),
        others=sum(map(rises, chrf)),
        model=data.model.name,
        own=own.bleu,
        count=own.sentences,
    )
    quantities = [
        Quantity(say("BLEU of {model}", model=data.model.name), (own.bleu,)),
        Quantity(say("chrF of {model}", model=data.model.name), (own.chrf,)),
        Quantity(say("BLEU, none wrong"), tuple(course[-1] for course in bleu)),
        Quantity(say("BLEU, {share} % wrong", share=100 * shares[0]), tuple(course[0] for course in bleu)),
        Quantity(say("chrF, {share} % wrong", share=100 * shares[0]), tuple(course[0] for course in chrf)),
    ]
    drawn = figures(data, own, written, shares, bleu, chrf)
    return Outcome(rule_of(bleu), reason, quantities, drawn)


def figures(
    data: HeldOut,
    own: Scores,
    written: Mapping[str, str],
    shares: Sequence[float],
    bleu: Sequence[Sequence[float]],
    chrf: Sequence[Sequence[float]],
) -> list[Figure]:
    """Scores over the share of errors, the model's own as lines, and some of its translations."""
    xs = [100 * share for share in shares]
    ends = [min(xs), max(xs)]
    curves = [over_seeds(name, xs, zip(*courses, strict=True)) for name, courses in (("BLEU", bleu), ("chrF", chrf))]
    curves += [
        Curve(say("{score} of {model}", score=name, model=data.model.name), ends, [value, value], dash=True)
        for name, value in (("BLEU", own.bleu), ("chrF", own.chrf))
    ]
    title = say("Scores over the share of errors")
    rows = [[pair.source, pair.target, written[pair.source]] for pair in data.pairs[:EXAMPLES]]
    columns = (say("source"), say("right"), say("written"))
    signature = say("What {model} writes; {signature}", model=data.model.name, signature=own.bleu_signature)
    return [
        Curves(title, say("words wrong, %"), say("score, 0 to 100"), curves),
        Table(signature, columns, rows),
    ]


EXPERIMENTS = (
    Experiment(
        name="bleu",
        row=49,
        group=Group.TRAINING,
        statement=say("BLEU says how good a translation is: higher is better."),
        truth=say(
            "BLEU counts the runs of one to four words that a translation shares with a reference. It rises as errors "
            "are repaired, but another good wording counts as wrong, and scores can be compared only with the same "
            "references and the same way to cut them into words."
        ),
        run=run_of(),
        parameters=(
            Parameter("sentences", say("sentences"), 60, 4, 1000),
            Parameter("share", say("wrong words, at most"), 1.0, 0.05, 1.0),
        ),
        of_model=True,
        seeded=True,
        seconds=0.5,
        once=3.0,
        formulas=(r"\text{BLEU} = \min\!\left(1, e^{1 - r/c}\right)\left(\prod_{n=1}^{4} p_n\right)^{1/4}",),
        code=(corrupted, score, rule_of),
        source="Papineni et al., 2002; Post, 2018; Popović, 2015",
    ),
)
