"""Evaluate a translator: BLEU and chrF on any file of pairs, and the sentences that it translates worst and best."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.inspection import LIMIT
from model.data.pairs import Pair, in_split
from model.data.sources import digest_of_pairs
from model.message import Message
from model.network.config import TWO_STACKS
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, no_predictions
from viz.pages.checkpoints.translating import FileTranslation
from viz.state import checkpoints, shown_model, target_language, training
from viz.state.session import Key, Session, choose, follow_language
from viz.state.texts import write_source
from viz.ui.file_field import Content, FileField, Way
from viz.ui.job_view import show_job
from viz.ui.parts import explanation, harmless
from viz.ui.text_table import read_file, read_rows

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.training.translation_scores import FoundTokenizer, Scores

MOST = 10_000  # sentences that are translated; more are for the command line
ROWS = 100  # of the table of sentences
BEAMS = (1, 2, 4, 8)
ORDERS = {"worst": Message("Worst first"), "best": Message("Best first")}
STOPPING = 1.0  # seconds that a click on Stop waits, so that the page is drawn as it is then


class Part(StrEnum):
    """Names in the session state; those of choices are in the address."""

    ORDER = "evaluate_order"
    HELD_OUT = "evaluate_held_out"
    REFERENCES = "evaluate_references"
    FOUND = "evaluate_found"
    TOKENIZER = "evaluate_tokenizer"
    BEAM = "evaluate_beam"
    BEGIN = "evaluate_begin"
    GO_ON = "evaluate_go_on"
    JOB = "evaluate_job"
    SAID = "evaluate_said"
    BAR = "evaluate_bar"
    SENTENCES = "evaluate_sentences"
    CSV = "evaluate_csv"
    EXPLANATION = "evaluate_explanation"


@dataclass(frozen=True)
class Subject:
    """The translator that is measured. name: as it is written. key: another where its weights are others."""

    model: TextModel
    name: str
    key: Hashable


@dataclass(frozen=True)
class Evaluation:
    """A file that is being translated, or was. name: of the model. file: of the pairs."""

    job: FileTranslation
    name: str
    file: str


@dataclass(frozen=True)
class Choices:
    """Choices of the form. references: of each source. tokenizer: of BLEU. file: of the pairs."""

    references: Mapping[str, Sequence[str]]
    beam: int
    tokenizer: str
    file: str

    def is_of(self, evaluation: Evaluation, subject: Subject) -> bool:
        """True if it was begun with these."""
        return evaluation.job.references is self.references and evaluation.job.of == (subject.key, self.beam)


def show(session: Session) -> None:
    """The file and how it is translated; how far it is; then the figures, and the sentences."""
    evaluation: Evaluation | None = st.session_state.get(Part.JOB)
    if evaluation is not None:
        _of_window(evaluation.job)
    subject, choices, place = translator(session), None, st.container()
    if subject is not None:
        choices, place = ask(session, subject, evaluation)
    with place:
        controls(evaluation, subject, choices)
    if evaluation is not None:
        show_evaluation(evaluation, subject, choices)
    if subject is not None or evaluation is not None:
        explain()


def translator(session: Session) -> Subject | None:
    """The model that is shown, where it translates; else it is said why it is not measured."""
    name = str(st.session_state.get(Key.MODEL) or "")
    if session.traced_input is None:
        return None
    if name == training.ENTRY:
        live, step = training.training(session), session.training.step or 0
        words = _("{name}, step {step}").format(name=session.model.name, step=f"{step:,}")
        subject = Subject(session.model, words, (name, live.number if live else 0, step))
    else:
        try:  # without this session's changes to its positions
            place = checkpoints.find(name, checkpoints.all_places(session))
            model = target_language.as_chosen(shown_model.open_named(name))
        except ValueError as error:
            st.error(as_sentence(translate_error(error)))
            return None
        language = target_language.chosen(model)
        words = f"{name} → {language}" if language else name
        subject = Subject(model, words, (str(place.path), place.changed, str(model.dtype), language))
    if subject.model.kind not in TWO_STACKS:
        st.info(
            _(
                "{name} is no translator: BLEU and chrF compare what an encoder-decoder writes with references. Other "
                "models are measured by python -m model evaluate."
            ).format(name=literal(subject.name))
        )
        return None
    if not subject.model.predicts:
        st.info(no_predictions())
        return None
    if subject.model.source_tokenizer.reason:
        st.info(_("{name} came without a tokenizer: it reads no sentences.").format(name=literal(subject.name)))
        return None
    return subject


# The choices: the pairs, and how they are translated and scored.


def ask(session: Session, subject: Subject, evaluation: Evaluation | None) -> tuple[Choices | None, DeltaGenerator]:
    """The fields: what is chosen, None while there is nothing to translate, and the place for what begins it."""
    left, right = st.columns(2, gap="large")
    left.markdown(f"**{_('Measure {name} on a file of pairs').format(name=literal(subject.name))}**")
    content = pairs_field().content(left)
    if content is None:
        right.markdown(f"**{_('What you get')}**")
        right.markdown(
            _(
                "BLEU and chrF as sacrebleu computes them, with their signatures; and each sentence with what the "
                "model writes for it, the worst first. A row of the file is a source and its reference; a source that "
                "comes in several rows has several references. Sentences that the model has learnt from give figures "
                "that are too high."
            )
        )
        return None, right
    references = read(session, left, right, content, subject.model)
    if not references:
        return None, right
    usual_tokenizer = session.cached(Part.FOUND, (references,), lambda: found_tokenizer(references))
    fields_row = right.columns(2, gap="small")
    tokenizer = choose_tokenizer(fields_row[0], usual_tokenizer)
    widths = {beam: beam_name(beam) for beam in BEAMS}
    follow_language(Part.BEAM)
    beam = fields_row[1].selectbox(
        _("Decoding"), BEAMS, format_func=widths.__getitem__, key=Part.BEAM, persist_state="session", help=beam_help()
    )
    right.caption(literal(tokenizer_words(usual_tokenizer)))
    choices = Choices(references, int(beam), tokenizer, content.name)
    if evaluation is not None and choices.is_of(evaluation, subject):
        evaluation.job.tokenizer = tokenizer
    return choices, right


def pairs_field() -> FileField:
    """Ways to give a file of pairs."""
    labels: dict[Way, str] = {
        "file": _("TSV, CSV or text in UTF-8, at most {size} MB").format(size=LIMIT >> 20),
        "paste": _("Rows of source and reference"),
        "path": _("Its path on this machine"),
    }
    return FileField(key="evaluate", labels=labels, examples={"path": "/home/me/pairs.tsv"})


def read(
    session: Session, left: DeltaGenerator, right: DeltaGenerator, content: Content, model: TextModel
) -> Mapping[str, Sequence[str]] | None:
    """References of each source in what was given; None where there are none, which is said."""
    contents = read_file(right, "evaluate", content)
    chosen = contents and read_rows(right, (contents[1], left), "evaluate", contents[0], 2, counts())
    if not chosen:
        return None
    own = is_own(model, content.name, chosen.pairs)
    if not own and is_own(model, content.name):
        right.caption(
            _("The model was trained on data of this name, but of another content: all of these are translated.")
        )
    held_out = own and right.toggle(
        _("Only its test split"),
        value=True,
        key=Part.HELD_OUT,
        help=_("The model was trained on these data: figures of all of them would be too high.")
        if model.training.get("data_digest")
        else _("The model was trained on data of this name: figures of all of them would be too high."),
        persist_state="session",
    )
    every, references = session.cached(Part.REFERENCES, (chosen, held_out), lambda: limited(chosen.pairs, held_out))
    if not references:
        right.error(_("No sentence of this file is in the test split: it needs more."))
        return None
    if every > len(references):
        sentence = _(
            "{count} sentences are more than are translated here: the first {most} are. python -m model evaluate takes "
            "them all."
        )
        right.warning(sentence.format(count=f"{every:,}", most=f"{MOST:,}"))
    return references


def counts() -> str:
    """Sentence for `report`, where there are pairs to translate."""
    return _(
        "Between columns: {delimiter} · columns: {columns} · pairs: {usable} · duplicates left out: {duplicates} · "
        "empty lines: {blank} · rows in error: {faults}"
    )


def is_own(model: TextModel, file: str, pairs: Sequence[Pair] = ()) -> bool:
    """True if a model's record says that it was trained on a part of these pairs; without them, or where the record has
    no digest of the content, on data of this name.
    """
    if "validation_data" in model.training:
        return False
    if pairs and (digest := model.training.get("data_digest")):
        return bool(digest_of_pairs(pairs) == digest)
    return bool(file) and model.training.get("data") == file


def limited(pairs: Sequence[Pair], held_out: bool) -> tuple[int, dict[str, list[str]]]:
    """Number of sources, and the references of the first `MOST`. held_out: of the test split alone."""
    from model.training.translation_scores import references_of

    references = references_of(in_split(pairs, "test") if held_out else pairs)
    return len(references), dict(list(references.items())[:MOST])


def found_tokenizer(references: Mapping[str, Sequence[str]]) -> FoundTokenizer:
    """BLEU's tokenizer by the script of these references."""
    from model.training.translation_scores import find_tokenizer

    return find_tokenizer([text for texts in references.values() for text in texts])


def choose_tokenizer(place: DeltaGenerator, usual_tokenizer: FoundTokenizer) -> str:
    """BLEU's tokenizer: the one that was found, or another."""
    from model.training.translation_scores import AUTO, TOKENIZERS, is_installed

    usual = _("{tokenizer}, found by itself").format(tokenizer=usual_tokenizer.name)
    names = [AUTO, *filter(is_installed, TOKENIZERS)]
    follow_language(Part.TOKENIZER)
    chosen = place.selectbox(
        _("Tokenizer of BLEU"),
        names,
        format_func=lambda name: usual if name == AUTO else name,
        key=Part.TOKENIZER,
        persist_state="session",
        help=_(
            "What BLEU counts: 13a words and punctuation; zh each Chinese character and other words; char each "
            "character; intl words by Unicode's punctuation; none what stands between spaces. BLEU of two tokenizers "
            "cannot be compared. chrF needs none."
        ),
    )
    return usual_tokenizer.name if chosen == AUTO else str(chosen)


def tokenizer_words(usual_tokenizer: FoundTokenizer) -> str:
    """Script by which the tokenizer was found, and what it replaces where its packages are not here."""
    from model.training.translation_scores import NEEDS

    if usual_tokenizer.instead_of:
        sentence = {
            "Japanese": _(
                "By their script the references are Japanese. {usual} would cut them into words and is not installed "
                "(pip install '{package}'): char counts characters."
            ),
            "Korean": _(
                "By their script the references are Korean. {usual} would cut them into words and is not installed "
                "(pip install '{package}'): char counts characters."
            ),
        }[usual_tokenizer.language]
        return sentence.format(usual=usual_tokenizer.instead_of, package=NEEDS[usual_tokenizer.instead_of][1])
    return {
        "Chinese": _("By their script the references are Chinese: BLEU's tokenizer is zh."),
        "Japanese": _("By their script the references are Japanese: BLEU's tokenizer is ja-mecab."),
        "Korean": _("By their script the references are Korean: BLEU's tokenizer is ko-mecab."),
        "other": _("The references are neither Chinese, Japanese nor Korean: BLEU's tokenizer is 13a, as is usual."),
    }[usual_tokenizer.language]


def beam_name(beam: int) -> str:
    return _("greedy") if beam == 1 else _("beam {width}").format(width=beam)


def beam_help() -> str:
    return _(
        "Greedy writes the most probable token at each step. A beam keeps several texts and takes the best of them, "
        "which takes longer."
    )


# Progress of the evaluation, and its results.


@st.cache_resource(
    max_entries=1,
    show_spinner=False,
    scope="session",
    on_release=lambda job: job.cancel(),
    hash_funcs={FileTranslation: id},
)
def _of_window(job: FileTranslation) -> FileTranslation:
    """The job that is cancelled when the window is closed, or another one begins."""
    return job


def _begin(subject: Subject, choices: Choices) -> None:
    before: Evaluation | None = st.session_state.get(Part.JOB)
    if before is not None:
        before.job.cancel()
    try:
        job = FileTranslation(
            subject.model, choices.references, choices.beam, choices.tokenizer, of=(subject.key, choices.beam)
        )
    except ValueError as error:
        st.session_state[Part.SAID] = translate_error(error)
        return
    st.session_state[Part.JOB] = Evaluation(job, subject.name, choices.file)


def _stop(job: FileTranslation) -> None:
    job.cancel()
    job.wait(STOPPING)


def _go_on(job: FileTranslation, model: TextModel) -> None:
    try:
        job.resume(model)
    except ValueError as error:
        st.session_state[Part.SAID] = translate_error(error)


def controls(evaluation: Evaluation | None, subject: Subject | None, choices: Choices | None) -> None:
    """Button to begin, or progress and a button to stop; after that one to go on."""
    if message := st.session_state.pop(Part.SAID, ""):
        st.error(as_sentence(message))
    if evaluation is not None and not evaluation.job.ended:
        state = partial(figures_state, evaluation.job)
        if show_job(evaluation.job, Part.BAR, _("Stop"), on_cancel=partial(_stop, evaluation.job), state=state):
            return
    same = evaluation is not None and subject is not None and evaluation.job.of == (subject.key, evaluation.job.beam)
    left_over = evaluation is not None and evaluation.job.cancelled and same
    with st.container(horizontal=True, vertical_alignment="center"):
        if evaluation is not None and subject is not None and left_over:
            st.button(_("Go on"), key=Part.GO_ON, type="primary", on_click=_go_on, args=(evaluation.job, subject.model))
        if subject is not None and choices is not None:
            done = evaluation is not None and choices.is_of(evaluation, subject)
            st.button(
                ngettext("Translate {count} sentence", "Translate {count} sentences", len(choices.references)).format(
                    count=f"{len(choices.references):,}"
                ),
                key=Part.BEGIN,
                type="secondary" if done else "primary",
                on_click=_begin,
                args=(subject, choices),
            )


def figures_state(job: FileTranslation) -> Hashable:
    """Changes where there are newer figures."""
    return bool(job.error), job.scored and job.scored[1].sentences


def show_evaluation(evaluation: Evaluation, subject: Subject | None, choices: Choices | None) -> None:
    """The figures so far; at its end the sentences."""
    job = evaluation.job
    what = " · ".join(part for part in (evaluation.name, evaluation.file, beam_name(job.beam)) if part)
    st.markdown(f"**{literal(what)}**")
    if subject is not None and choices is not None and not choices.is_of(evaluation, subject):
        st.caption(_("These are the figures of what was begun before: what is chosen above is something else."))
    if job.ended and job.cancelled:
        sentence = _("Stopped: {done} of {all} sentences are translated, and only they count.")
        st.caption(sentence.format(done=f"{len(job.written):,}", all=f"{len(job.references):,}"))
    if job.error:
        sentence = ngettext(
            "{count} batch was not translated, and does not count: {reason}",
            "{count} batches were not translated, and do not count: {reason}",
            len(job.errors),
        )
        st.warning(sentence.format(count=len(job.errors), reason=as_sentence(translate_error(job.error))))
    scores = job.scores(job.tokenizer)
    if scores is None:
        return
    figures(scores, job)
    if job.ended:
        sentences(job)


def figures(scores: Scores, job: FileTranslation) -> None:
    """Both scores with their signatures, and of how many sentences."""
    row = st.container(horizontal=True)
    label = "{score}" if job.ended else _("{score} so far")
    row.metric(label.format(score="BLEU"), f"{scores.bleu:.2f}", width="content", border=True)
    row.metric(label.format(score="chrF"), f"{scores.chrf:.2f}", width="content", border=True)
    if job.ended:
        references = sum(len(job.references[source]) for source in job.written)
        sentences = ngettext("{count} sentence", "{count} sentences", scores.sentences)
        of_each = ngettext("{count} reference", "{count} references", references)
        st.caption(
            _("Of {sentences} with {references}.").format(
                sentences=sentences.format(count=f"{scores.sentences:,}"),
                references=of_each.format(count=f"{references:,}"),
            )
        )
    else:
        sentence = _(
            "Of {done} of {all} sentences, short and long ones mixed: the figures of all may be a little higher or "
            "lower."
        )
        st.caption(sentence.format(done=f"{scores.sentences:,}", all=f"{len(job.references):,}"))
    if job.cut:
        sentence = ngettext(
            "{count} source is longer than the model reads ({length} tokens): what is beyond is cut off.",
            "{count} sources are longer than the model reads ({length} tokens): what is beyond is cut off.",
            job.cut,
        )
        st.warning(sentence.format(count=f"{job.cut:,}", length=f"{job.longest:,}"))
    if job.unended:
        sentence = ngettext(
            "{count} translation did not end before the most tokens: it is cut off.",
            "{count} translations did not end before the most tokens: they are cut off.",
            job.unended,
        )
        st.warning(sentence.format(count=f"{job.unended:,}"))
    signatures = f"BLEU|{scores.bleu_signature} = {scores.bleu:.2f}\nchrF2|{scores.chrf_signature} = {scores.chrf:.2f}"
    st.code(signatures, language=None, wrap_lines=True)


def sentences(job: FileTranslation) -> None:
    """The worst or the best of them by chrF, and all of them as a file."""
    row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    order = choose(_("Order"), list(ORDERS), "worst", Part.ORDER, ORDERS.__getitem__, row)
    row.download_button(
        ngettext("{count} sentence as CSV", "All {count} sentences as CSV", len(job.written)).format(
            count=f"{len(job.written):,}"
        ),
        partial(csv, job, columns()),
        "translations.csv",
        "text/csv",
        key=Part.CSV,
        on_click="ignore",
    )
    sources = ranked(job, order)[:ROWS]
    st.dataframe(
        table(job, sources, columns()),
        hide_index=True,
        height=min(460, 38 + 35 * len(sources)),
        key=Part.SENTENCES,
        selection_mode="single-row",
        on_select=partial(_choose_sentence, sources),
        column_config={
            "chrF": st.column_config.ProgressColumn(format="%.1f", min_value=0, max_value=100, width="small")
        },
    )
    st.caption(
        _(
            "chrF of each sentence alone, from 0 to 100, against the reference that is most like it. A row that is "
            "chosen becomes the source text of every page."
        )
    )


def ranked(job: FileTranslation, order: str) -> list[str]:
    """Sources by the chrF of their translations."""
    return sorted(job.written, key=lambda source: job.chrf[source], reverse=order == "best")


def columns() -> list[str]:
    """Names of the columns of `table`."""
    return ["chrF", _("source"), _("written"), _("reference")]


def table(job: FileTranslation, sources: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """A row for each source, with all its references. names: of the columns."""
    rows = [(job.chrf[source], source, job.written[source], " | ".join(job.references[source])) for source in sources]
    return pd.DataFrame(rows, columns=list(names))


def csv(job: FileTranslation, names: Sequence[str]) -> bytes:
    """Translations in the order of the file. names: of the columns, as no language is known here."""
    sources = [source for source in job.references if source in job.written]
    text: str = harmless(table(job, sources, names)).to_csv(index=False)
    return text.encode("utf-8-sig")


def _choose_sentence(sources: Sequence[str]) -> None:
    chosen = st.session_state[Part.SENTENCES].selection.rows
    if chosen:
        write_source(sources[chosen[0]])


def explain() -> None:
    from model.training.translation_scores import find_language, score

    explanation(
        Part.EXPLANATION,
        _(
            "What the model wrote is compared with what people wrote, by the pieces that both have in common. One "
            "number for many sentences says which of two models is nearer, and little about any single sentence."
        ),
        [
            r"\text{BLEU} = 100 \cdot \min\!\big(1,\, e^{1-r/c}\big) \cdot \Big(\prod_{n=1}^{4} p_n\Big)^{1/4}",
            r"\text{chrF} = 100 \cdot \frac{(1+\beta^2)\, P R}{\beta^2 P + R}, \quad \beta = 2",
        ],
        _(
            "pₙ is the share of the n-grams of what was written that stand in a reference, all sentences together; "
            "c and r are the lengths of what was written and of the references (Papineni et al., 2002, section 2). P "
            "and R are precision and recall of character n-grams up to 6 (Popović, 2015). The signature says how both "
            "were computed: only figures with the same one can be compared (Post, 2018)."
        ),
        find_language,
        score,
    )
