"""No text of a file or of a visitor reaches Streamlit's Markdown as Markdown: read from the syntax tree."""

from __future__ import annotations

import pytest

from tests.markdown_flow import Code, read
from tests.test_rooms import ROOT

# Fields that hold numbers or words of our own; what is given to them is looked at as if it were shown.
OWN = [
    *(f"Instrument.{name}" for name in ("claim", "truth", "explanation")),
    *("Findings.info", "Measurement.begin", "Measurement.forecast"),
    *("About.sentence", "Task.description", "Field.label", "Option.name"),
    *("Weighed.unit", "Chosen.head", "Chosen.layer", "Chosen.place", "Place.head", "Setup.steps", "Film.kinds"),
]
# What the tree alone does not tell, and why it is harmless.
UNDERSTOOD = {
    (
        "viz/frame/model_list.py",
        "f\"<style>{STYLE.format(list=listed)}{' '.join(rules)}</style>\"",
    ): "a style, of words in which content() leaves no sign that could end them",
    ("viz/pages/attention/controls.py", "label"): "what views are called, through a table",
    ("viz/pages/attention/controls.py", "lambda number: str(number + 1)"): "a number",
    ("viz/pages/attention/importance.py", "both"): "a method called as others are; labels pass through token_code",
    ("viz/pages/attention/importance.py", "of_chosen(weighed, head, labels)"): "the same",
    ("viz/pages/attention/importance.py", "verdict(weighed, labels)"): "the same",
    ("viz/pages/attention/page.py", "in_language(sentence)"): "of missing() in attention/text.py",
    ("viz/pages/checkpoints/keep.py", "without_pictures(rest[:SHOWN]) or _('There is no card yet.')"): (
        "a card is shown as it looks, without pictures; the browser fetches none either (viz/frame/guard.py)"
    ),
    ("viz/pages/checkpoints/open.py", "model"): "text of a popover of its own, of assumptions.in_short",
    ("viz/pages/checkpoints/subjects.py", "warning"): "kept from one run to the next, made with literal above",
    ("viz/pages/checkpoints/tensor.py", r"'  \n'.join(lines)"): "numbers",
    ("viz/pages/feed_forward/page.py", "sentence"): "of beside_pin",
    ("viz/pages/feed_forward/page.py", "in_language(summary)"): "numbers",
    (
        "viz/pages/lessons/question.py",
        "reaction(question, answer, verdict, guess)",
    ): "numbers, and options through literal",
    ("viz/pages/lessons/strip.py", "markdown(step.paragraphs)"): "text through literal, addresses through quote",
    ("viz/pages/lessons/strip.py", "words"): "of before.sentence and score_words: sentences of our own, and numbers",
    ("viz/pages/masks/page.py", "_('The layers differ in their window: {widths}').format(widths=widths)"): "numbers",
    ("viz/pages/masks/page.py", "in_language(sentence)"): "words of our own beside a chart",
    ("viz/pages/positions/applied.py", "possible"): "names of our options, through position_name",
    (
        "viz/pages/residual/page.py",
        "batch_norm.sentence(batch, measured, path)",
    ): "numbers, and paths of our own network",
    (
        "viz/ui/parts.py",
        "f'<div class=\"saved_table\">{html}</div>'",
    ): "HTML, in which pandas escapes what is in the table",
    ("viz/pages/checkpoints/open.py", "lambda name: name"): "precisions have names of our own",
    ("viz/pages/lab/experiment.py", "lacking"): "of absent_words",
    ("viz/pages/masks/page.py", "f':small[{alarm}]'"): "numbers of a layer and a head",
    ("viz/pages/predictions/page.py", "shares.sentence"): "of absent_words, or of no_sum, which has numbers",
    ("viz/pages/predictions/page.py", "lambda width: _('beam {width}').format(width=width)"): "one of BEAMS",
    ("viz/pages/lab/page.py", "lambda name: ARITHMETIC[name][0]"): "one of our own headings",
    ("viz/pages/lab/page.py", "lambda name: SECTIONS[name][0]"): "one of our own headings",
    (
        "viz/pages/training/curves.py",
        "Message('The share of feed-forward units that are off at all tokens of the probe, the text that the film "
        "shows, by the rule of the page Feed-forward: what W₂ multiplies is 0 with ReLU, and at most {small} in size "
        "with other activations, which are never exactly 0.', small=SMALL)",
    ): "a number",
    ("viz/ui/fields.py", "label"): "of an option of ours, or of a field",
    ("viz/ui/file_field.py", "label"): "words of our own, by the way",
    (
        "viz/pages/lab/statements.py",
        "_('Card {number} of {count} · {group}').format(number=place + 1, count=len(names), group=group)",
    ): "groups of cards have names of our own",
    ("viz/pages/residual/norms.py", "purpose"): "one of three sentences of ours",
    ("viz/state/position_override.py", "f'<span style=\"{NOTE}\">{html.escape(text)}</span>'"): "escaped",
    (
        "viz/ui/parts.py",
        "'\\n'.join((f'- {line}' for line in lines))",
    ): "formulas and words of our own",
    ("viz/pages/lab/outcome.py", "plain"): "sentences of ours on a card; their values are numbers",
    ("viz/ui/parts.py", "plain"): "sentences of About, which are looked at where they are given",
    ("viz/state/session.py", "options"): "names of our own, through words",
    ("viz/state/session.py", "lambda option: in_language(words(option))"): "looked at wherever choose is called",
    ("viz/ui/text_table.py", "label"): "one of two words",
}


def test_what_strangers_wrote_is_made_literal_wherever_streamlit_reads_markdown():
    found = Code(read(ROOT / "viz", ROOT / "model"), OWN).findings()
    found = [each for each in found if each[0].startswith("viz/")]
    wrong = [" ".join(each) for each in found if each[:2] not in UNDERSTOOD]
    assert not wrong, "make these literal (viz.i18n.format), or say why they are harmless:\n" + "\n".join(wrong)
    assert not UNDERSTOOD.keys() - {each[:2] for each in found}, "no longer needed"


HARMLESS = """
from words import literal, _
def shown(place, entry, count: int):
    place.caption(_("{name} has {count} of {size:.3g}").format(name=literal(entry.name), count=count, size=entry.size))
    place.button(words(entry), help="what it does")
    place.selectbox(_("Choice"), [entry.name])
    place.markdown(" · ".join(f"{literal(each)}: {len(each)}" for each in entry.names))
def words(entry):
    found = [_("one")]
    if entry.many:
        found.append(literal(entry.name))
    return ", ".join(found)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name=literal(entry.name)", "name=entry.name"),
        ("count=count", "count=entry.count"),
        ("{size:.3g}", "{size}"),
        ("count: int", "count"),
        ('help="what it does"', "help=entry.help"),
        ("{literal(each)}", "{each}"),
        ("append(literal(entry.name))", "append(entry.name)"),
        ("return", "return entry.name or"),
        ("words(entry)", "entry.name"),
        ("place.selectbox", "place.radio"),
        ('_("Choice"), [', "entry.label, ["),
        ('_("one")', "entry.one"),
        ("place.button(words(entry)", "{1: place.info}[1](entry.name"),
    ],
)
def test_a_strangers_text_is_found_by_whatever_way_it_comes(before, after):
    assert Code({"viz/a.py": HARMLESS}).findings() == []
    assert before in HARMLESS
    (file, *_rest), *_others = Code({"viz/a.py": HARMLESS.replace(before, after, 1)}).findings()
    assert file == "viz/a.py"


def test_the_words_of_choices_are_looked_at_wherever_they_are_given():
    """A function of ours hands them on to Streamlit's format_func."""
    code = (
        "from words import literal, _, choose\ndef shown(place, model):\n"
        "    choose(_('Way'), WAYS, WAYS[0], 'way', lambda way: words(way, model), place)\n"
        "def words(way, model):\n    return _('new') if way == 'new' else _('on with {{name}}').format(name={})\n"
        "WAYS = ('new', 'on')\n"
    )
    assert Code({"viz/a.py": code.format("literal(model.name)")}).findings() == []
    (found,) = Code({"viz/a.py": code.format("model.name")}).findings()
    assert found[1] == "lambda way: words(way, model)"


def test_a_parameter_is_followed_to_every_call_and_a_field_to_all_that_is_given_to_it():
    called = {"viz/b.py": "def said(place, text):\n    place.info(text)\n", "viz/c.py": "from viz.b import said\n"}
    assert Code(called | {"viz/c.py": called["viz/c.py"] + "said(here, 'own')"}).findings() == []
    assert Code(called | {"viz/c.py": called["viz/c.py"] + "said(here, file.name)"}).findings()
    field = "class Told:\n    text: str\ndef show(place, told):\n    place.info(told.text)\nTold({})\n"
    assert Code({"viz/d.py": field.format("'own'")}, ["Told.text"]).findings() == []
    assert Code({"viz/d.py": field.format("file.name")}, ["Told.text"]).findings()
    assert Code({"viz/d.py": field.format("'own'")}).findings()
