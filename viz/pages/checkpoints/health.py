"""The health of a checkpoint: what is wrong with its weights, each finding with its tensor and its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from model.analysis.weights import health
from model.analysis.weights.health import KINDS, apart, role, unmoved
from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View
from viz.i18n.catalogue import _
from viz.i18n.format import bytes_text, clauses, in_turn, percent, significant, stopped, token_sign, with_label
from viz.pages.checkpoints import tensor, tensor_figures
from viz.pages.checkpoints.measuring import HealthJob, TensorStatistics
from viz.pages.checkpoints.subjects import Subject, choose_tensor, chosen_place, model_of, subjects
from viz.pages.checkpoints.tensor_figures import short
from viz.state.session import Session
from viz.ui.job_view import follow, job_bar
from viz.ui.parts import data_table, explanation

if TYPE_CHECKING:
    from model.analysis.weights.health import Finding

LIST = "w_findings"
BESIDE = "health_beside"
MEASURED, EXAMINED = "health_measured", "health_examined"  # bars


def show(session: Session, subject: Subject, statistics: TensorStatistics) -> None:
    """Findings in groups; a click chooses the tensor, which is shown large below."""
    other = beside(subject, statistics)
    if follow([statistics], partial(job_bar, MEASURED, statistics)):
        return
    examined: HealthJob = statistics.remember(("health",), lambda: HealthJob(statistics))
    follow([examined], partial(job_bar, EXAMINED, examined), lambda: examined.findings is None)
    known = report(subject, statistics, examined, other)
    chosen = statistics.table[place_of(statistics, known)]
    if known is None:
        st.caption(_("Looking for what is wrong …"))
    else:
        health_list(known, subject.name, chosen.name, LIST, partial(on_finding, statistics, known))()
    tensor.show(subject, statistics, chosen)
    file = f"health-{subject.name}"
    tensor.beside(explain, lambda: data_table("health_data", known.table, file) if known else None)


def beside(subject: Subject, statistics: TensorStatistics) -> Subject | None:
    """Another checkpoint of the same run, where there is one and it is chosen."""
    others = {each.name: each for each in subjects() if each.name != subject.name and same_embeddings(each, statistics)}
    if not others:
        return None
    name = st.selectbox(
        _("Tokens that never moved: beside an earlier checkpoint of the run"),
        list(others),
        index=None,
        key=BESIDE,
        bind="query-params",
        persist_state="session",
        placeholder=_("another checkpoint"),
        width=420,
    )
    return others.get(name or "")


def same_embeddings(other: Subject, statistics: TensorStatistics) -> bool:
    """True if both have a table of tokens of one name and shape."""
    try:
        theirs = {(info.name, info.shape) for info in other.table()}
    except (ValueError, OSError):
        return False
    return any(role(info.name) == "embedding" and (info.name, info.shape) in theirs for info in statistics.table)


def report(subject: Subject, statistics: TensorStatistics, examined: HealthJob, other: Subject | None) -> Report | None:
    """Findings so far; None while there are none."""
    if examined.findings is None:
        return None
    known = list(examined.findings)
    if other is not None:
        key = ("unmoved", str(other.path), other.changed)
        known += examined.remember(key, lambda: health.unmoved_tokens(statistics.table, other.table(), other.name))
    return Report(known, partial(labels, subject, statistics), other is not None)


def labels(subject: Subject, statistics: TensorStatistics, name: str) -> Callable[[int], str] | None:
    """Names of a tensor's rows, where there is a tokenizer."""
    info = next(each for each in statistics.table if each.name == name)
    tokenizer = tensor_figures.tokenizer_of(info, model_of(subject))
    return tokenizer.label if tokenizer else None


def place_of(statistics: TensorStatistics, known: Report | None) -> int:
    """The number of the tensor that is looked at, at first that of the first finding."""
    if not known or not known.findings:
        return chosen_place(statistics.table)
    return chosen_place(statistics.table, lambda place: statistics.table[place].name == known.findings[0].tensor)


def on_finding(statistics: TensorStatistics, known: Report, clicked: dict[str, Any]) -> None:
    """A click on a finding chooses its tensor."""
    wanted = known.at(int(clicked["group"]), int(clicked["place"])).tensor
    choose_tensor(statistics.table, next(place for place, info in enumerate(statistics.table) if info.name == wanted))


def explain() -> None:
    explanation(
        "health_explanation",
        _(
            "Weights alone already show some troubles of a model: units that can never do anything, tokens that were "
            "never trained. Each finding is something to look at, and not always a mistake."
        ),
        [
            r"\text{dead}: \|w^{\text{in}}_u\| \approx 0 \ \text{ or } \ \|w^{\text{out}}_u\| \approx 0",
            r"\text{stands out}: \big|\ln\|e_t\| - m\big| > \max(5 \cdot 1.4826\,d,\ \ln 1.25),\quad "
            r"m = \operatorname{median}_s \ln\|e_s\|,\ d = \operatorname{median}_s \big|\ln\|e_s\| - m\big|",
        ],
        _(
            "What is looked for needs no input, only the weights; where a tensor's role matters, its name tells it. A "
            "finding is a number that is far from what is usual, and not always a mistake. A token that never came in "
            "the training is found where its row was left behind by the others or shrunk by weight decay (Land and "
            "Bartolo, *Fishing for Magikarp*, 2024); where its length is by chance as theirs, only an earlier "
            "checkpoint of the run tells it: no step has moved its row. This is the code that has just run:"
        ),
        health.health,
        apart,
        unmoved,
    )


# Findings about the weights of a file in words.

MOST = 60  # findings of a kind that are listed
ROWS = 8  # rows that are named
_findings = component("pages/checkpoints/findings")
UNMOVED_TOKENS = "unmoved_tokens"  # found only beside another checkpoint
TOKENS = (UNMOVED_TOKENS, "zero_tokens", "short_tokens", "odd_tokens", "same_tokens")  # whose rows have names


def grouped(all_findings: Sequence[Finding], beside: bool) -> list[tuple[str, list[Finding]]]:
    """Kinds with findings first, in the order in which they are looked for. beside: another checkpoint was seen."""
    groups = [
        (kind, [each for each in all_findings if each.kind == kind])
        for kind in KINDS
        if beside or kind != UNMOVED_TOKENS
    ]
    return sorted(groups, key=lambda group: not group[1])


def health_list(report: Report, file: str, chosen: str, key: str, on_find: Answer) -> View:
    """The findings in groups; a group without any says what was looked for."""
    all_findings, sentence = report.findings, report.sentence
    groups: list[Mapping[str, Any]] = []
    for kind, each in grouped(all_findings, report.beside):
        title, explanation = words_of(kind)
        items = [{"name": one.tensor, "sentence": sentence(one), "chosen": one.tensor == chosen} for one in each[:MOST]]
        groups.append({"title": title, "explanation": explanation, "items": items, "more": len(each) - len(items)})
    count = len(all_findings)
    summary = (
        _("findings: {count}; each opens its tensor").format(count=count)
        if count
        else _("nothing was found; this is what was looked for")
    )
    header = {
        "name": _("Health of {file}").format(file=file),
        "sentence": summary,
        "alt": in_turn(
            stopped(with_label(file, summary)),
            clauses(with_label(one.tensor[:80], sentence(one)) for one in all_findings[:12]),
        ),
        "stamp": f"{file} {count}",
        "groups": groups,
    }
    return PackedView(_findings, key, pack(header), {"finding": on_find})


@dataclass(frozen=True)
class Report:
    """Findings of a file. labels: of the rows of a tensor, where they are tokens whose names are known. beside: whether
    another checkpoint of the run was looked at too.
    """

    findings: Sequence[Finding]
    labels: Callable[[str], Callable[[int], str] | None]
    beside: bool

    def at(self, group: int, place: int) -> Finding:
        """Finding that was clicked on."""
        return grouped(self.findings, self.beside)[group][1][place]

    def sentence(self, finding: Finding) -> str:
        """Sentence on a finding, with its number."""
        return sentence(finding, self.labels(finding.tensor) if finding.kind in TOKENS else None)

    def table(self) -> pd.DataFrame:
        lines = [(words_of(each.kind)[0], each.tensor, each.number, self.sentence(each)) for each in self.findings]
        return pd.DataFrame(lines, columns=[_("kind"), _("tensor"), _("number"), _("finding")])


def rows_text(rows: Sequence[int], label: Callable[[int], str] | None = None) -> str:
    """The rows in a few words: the first of them by number, tokens also by name."""
    listed = ", ".join(f"{row:,}" if label is None else f"{row:,} {token_sign(label(row))}" for row in rows[:ROWS])
    return listed if len(rows) <= ROWS else _("{listed} and {more} more").format(listed=listed, more=len(rows) - ROWS)


def words_of(kind: str) -> tuple[str, str]:
    """Name of a kind of finding, and what is looked for."""
    return {
        "nan": (_("NaN values"), _("values that are no numbers")),
        "infinite": (_("Infinite values"), _("values that are +∞ or −∞")),
        "zero": (_("Nothing but zeros"), _("every value is 0")),
        "constant": (_("One value only"), _("every value is the same, such as a norm's γ that never learned")),
        "half": (_("Too large for float16"), _("values above a quarter of what float16 holds")),
        "condition": (_("Nearly singular"), _("σ₁/σₙ above a million: rounding decides the weakest directions")),
        "copy": (_("Stored twice"), _("tensors that are equal value for value, and not tied")),
        "near_copy": (_("Nearly a copy"), _("tensors that differ by less than a hundredth")),
        "dead_units": (_("Dead units"), _("feed-forward units without weights into them or out of them")),
        "large_gain": (_("Saturated norms"), _("features that a norm makes very large")),
        "small_gain": (_("Silenced features"), _("features that a norm takes away")),
        "long_rows": (_("Exploding rows"), _("rows much longer than the median row")),
        "unmoved_tokens": (_("Tokens that never moved"), _("tokens whose rows another checkpoint of the run has too")),
        "zero_tokens": (_("Tokens of zeros"), _("tokens whose row is all zeros")),
        "short_tokens": (
            _("Unused tokens"),
            _("rows below a tenth of the median length"),
        ),
        "odd_tokens": (
            _("Tokens that stand out"),
            _("rows far longer or shorter than the others: never seen, or special"),
        ),
        "same_tokens": (_("Tokens alike"), _("tokens that share their row with another")),
    }[kind]


def sentence(finding: Finding, label: Callable[[int], str] | None = None) -> str:
    """Sentence on a finding, with its number."""
    return {
        "nan": _("values that are NaN: {number}"),
        "infinite": _("values that are infinite: {number}"),
        "zero": _("all {number} values are 0"),
        "constant": _("every value is {number}"),
        "half": _("the largest is {number}"),
        "condition": _("σ₁/σₙ is {number}"),
        "copy": _("equal to {other}: {bytes} could be saved"),
        "near_copy": _("differs from {other} by {share}"),
        "dead_units": _("units: {rows} ({share} of all)"),
        "large_gain": _("features: {rows} ({share} of all)"),
        "small_gain": _("features: {rows} ({share} of all)"),
        "long_rows": _("rows: {rows} (the longest {number} times the median)"),
        "unmoved_tokens": _("tokens: {rows} ({share} of the vocabulary), as in {other}"),
        "zero_tokens": _("tokens: {rows} ({share} of the vocabulary)"),
        "short_tokens": _("tokens: {rows} ({share} of the vocabulary)"),
        "odd_tokens": _("tokens: {rows} (up to {number} times longer or shorter than the median)"),
        "same_tokens": _("tokens: {rows} ({share} of the vocabulary)"),
    }[finding.kind].format(
        number=f"{finding.number:,.0f}" if 1000 <= abs(finding.number) < 1e9 else significant(finding.number),
        share=percent(finding.number),
        bytes=bytes_text(int(finding.number)) if finding.kind == "copy" else "",
        other=short(finding.other),
        rows=rows_text(finding.rows, label),
    )
