"""Numbers and names as they are written on the screen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from viz.i18n import messages
from viz.i18n.catalogue import _, language
from viz.i18n.messages import in_language
from viz.i18n.names import NO_PREDICTIONS, attention_title, page_title, scale_title

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind, Trace
    from model.checkpoints.tensors import TensorInfo

MARKS = re.compile(r"[\\`*\[\]$~#<&]|(?<!\w)_|_(?!\w)")  # signs of Markdown; HTML is text to Streamlit
FIRST = re.compile(r"\A(?:[>+=|-]|\d+(?=[.)]))")  # signs at the beginning
# Patterns of Streamlit's own, sought once Markdown is read, so that no sign before it helps: addresses, pictures by
# their names, arrows. An invisible sign behind a match breaks it.
LATER = re.compile(
    r"\w:(?=//)|\bwww(?=\.)|[\w.+-](?=@)|:(?=[\w+/-]+:|[a-z-]+\[)|(?<!\S)[-<>~](?=[-=>]+(?!\S))", re.IGNORECASE
)
TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # not seen; what follows is read backwards
WORDS = re.compile(r"(?<=\\text\{)(?!(?:model|in|out)\})[^{}]+(?=\})")  # in a formula; not of names such as d_model
RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def not_ours() -> str:
    """Sentence in the place of what only our own networks can do."""
    return _("This model is run by transformers' own code: it can be looked into, not copied, changed or trained.")


def no_predictions() -> str:
    """Said where predictions would stand, of a bare encoder."""
    return in_language(NO_PREDICTIONS)


def no_training(ours: bool, predicts: bool) -> str:
    """Reason why a model cannot learn; empty if it can."""
    return ("" if predicts else no_predictions()) if ours else not_ours()


def significant(value: float) -> str:
    """Three significant digits; all of a whole number below a million."""
    if 999.5 <= abs(value) < 1e6:
        return f"{value:,.0f}".replace("-", "−")
    return with_power(f"{value:.3g}")


def with_power(text: str) -> str:
    """A number's digits with a true minus, and with a power of ten as axes have it: 4e-08 is 4×10⁻⁸."""
    digits, _e, power = text.partition("e")
    number = f"{digits}×{power_text(int(power))}" if power else digits
    return re.sub(r"^(-?)1×", r"\1", number).replace("-", "−")


def power_text(power: int) -> str:
    """Power of ten, 10⁻⁸, by its exponent."""
    return f"10{str(power).translate(RAISED)}"


def significant_alike(*values: float) -> list[str]:
    """Numbers of one comparison: as many decimals as the largest has with three digits; one that would vanish then has
    digits of its own.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not 1e-4 <= largest < 1000:
        return [significant(value) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(float(f"{largest:.2e}"))))
    texts = [f"{value:.{decimals}f}".replace("-", "−") for value in values]
    lost = [abs(value) < 0.5 * 10**-decimals for value in values]
    return [significant(value) if gone else text for value, text, gone in zip(values, texts, lost, strict=True)]


def three_digits(value: float) -> str:
    """Three significant digits, with zeros at their end, as in the browser's pictures."""
    return significant_alike(value)[0]


def percent(share: float, decimals: int = 1) -> str:
    """A share in percent, the sign behind a gap that no line breaks; one that would vanish is said to be less."""
    least = 10**-decimals
    number = f"< {least:g}" if 0 < 100 * share < least / 2 else f"{100 * share:.{decimals}f}" if share else "0"
    return f"{number}\u00a0%".replace("-", "−")


def grouped(value: float) -> str:
    """Six significant digits, thousands apart; all digits of the whole number from a million on."""
    return f"{value:,.0f}" if 1e6 <= value < 1e15 else with_power(f"{value:,.6g}")


def clock(seconds: float) -> str:
    """A time as minutes and seconds; a long one in hours or days."""
    minutes, rest = divmod(round(seconds), 60)
    hours, days = minutes // 60, minutes // 1440
    if not hours:
        return f"{minutes}:{rest:02d}"
    if days < 2:
        return _("{hours} h {minutes} min").format(hours=hours, minutes=minutes % 60)
    return _("{days} days").format(days=f"{days:,}")


def duration(seconds: float) -> str:
    """A time in words: seconds, from 90 on minutes, from 90 minutes on hours."""
    if seconds < 90:
        return _("{seconds} s").format(seconds=f"{seconds:.0f}")
    minutes = round(seconds / 60)
    return _("{minutes} min").format(minutes=minutes) if minutes < 90 else clock(seconds)


def token_sign(label: str) -> str:
    """A token as it is written on the screen: a space is a dot, and what would be invisible gets a sign."""
    return {" ": "·", "\n": "⏎", "\t": "⇥"}.get(label, label.replace("▁", "·"))


def token_code(label: str) -> str:
    """A token inside a sentence of Markdown, where nothing of it means anything."""
    label = " ".join(label.splitlines()) if label.strip() else label  # an empty line would end it
    label = label.replace(":material/", ":\N{WORD JOINER}material/")  # which Streamlit reads in code, too
    fence = "`" * (label.count("`") + 1)
    return f"{fence} {token_sign(label)} {fence}" if "`" in label else f"`{token_sign(label) or '∅'}`"


def literal(text: str) -> str:
    """A sentence in which strangers' names may be, as Markdown that shows it as it is: no link, picture or formula.
    What would turn the direction of the rest is shown by its code.
    """
    text = TURNING.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
    broken = LATER.sub("\\g<0>\N{WORD JOINER}", " ".join(text.splitlines()).lstrip(" "))
    first, rest = FIRST.match(broken), MARKS.sub(r"\\\g<0>", broken)
    return f"\\{rest}" if first and not first[0].isdigit() else FIRST.sub(r"\g<0>\\", rest) if first else rest


def formula_in_language(formula: str) -> str:
    """A formula in LaTeX, with the words in it in the language in use."""
    return WORDS.sub(lambda word: _(word[0]), formula)


def as_sentence(text: str) -> str:
    """The text with a full stop: what `model/` says has none, since it may be a part of another sentence."""
    return literal(stopped(text))


def in_turn(*sentences: str) -> str:
    """Sentences one after the other, without those that are empty; Chinese ones without a gap."""
    return ("" if language() == "zh" else " ").join(filter(None, sentences))


def with_label(label: str, text: str) -> str:
    """A label and what it is of, behind the colon of the language in use."""
    return in_language(messages.labelled(label, text))


def enumeration(parts: Iterable[str]) -> str:
    """Parts of a list one after the other, with commas of the language in use."""
    return in_language(messages.joined(", ", *parts))


def clauses(parts: Iterable[str]) -> str:
    """Parts of a sentence one after the other."""
    return in_language(messages.clauses(*parts))


def stopped(text: str) -> str:
    """The text with a full stop, where Markdown means nothing."""
    ends = not text or text.endswith((".", "!", "?", "…", "。", "！", "？"))
    return text if ends else text + ("。" if language() == "zh" else ".")


def page_name(name: str) -> str:
    """A page in the navigation."""
    return in_language(page_title(name))


def attention_name(kind: str) -> str:
    """A kind of attention on its button."""
    return in_language(attention_title(kind))


def scale_name(name: str, weights: bool = True) -> str:
    return in_language(scale_title(name, weights))


def check_name(name: str) -> str:
    return {
        "rows": _("rows sum to 1"),
        "future": _("no weight on the future"),
        "padding": _("no weight on padding"),
        "hidden": _("no weight on hidden cells"),
        "fused": _("fused = explicit"),
        "norm": _("norms = formula"),
    }[name]


def check_explanation(name: str) -> str:
    return {
        "rows": _("The weights of each query were added up, in every head of every layer."),
        "future": _("The largest weight that a token gives to a later one, where none may."),
        "padding": _("The largest weight on padding that is not in the future."),
        "hidden": _("The largest weight on a cell that a window, or a change of the mask, hides."),
        "fused": _(
            "The output of each head, computed in one go by a fused kernel, against softmax and values step by step."
        ),
        "norm": _("The output of each norm, against its formula computed in float64 from the same input."),
    }[name]


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(f"{size:,}" for size in shape) or _("one number")


def type_text(info: TensorInfo) -> str:
    """Type of a tensor in the file's word; of quantized values also what they are turned into."""
    if not info.quantized:
        return info.dtype
    return _("{dtype}, quantized, measured as {type}").format(dtype=info.dtype, type=info.values)


def one_row(text: str) -> str:
    """Text at whose spaces no row ends."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def seconds_text(seconds: float) -> str:
    """A time of three significant digits, in seconds or in parts of a thousand of them."""
    units = ((_("{seconds} s"), 1.0), (_("{number} ms"), 1e-3), (_("{number} µs"), 1e-6))
    text, size = next((unit for unit in units if abs(seconds) >= 0.9995 * unit[1]), units[-1])
    number = significant(seconds / size)
    return one_row(text.format(seconds=number, number=number))


def bytes_text(count: int) -> str:
    """A size in units of a thousand."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size or (unit == "kB" and count >= size):  # three digits of it are 1.00 of the next unit
            return f"{count / size:.3g} {unit}" if count < 999.5 * size else f"{count / size:,.0f} {unit}"
    return f"{count} B"


def count_text(count: int) -> str:
    """A number of parameters, of three digits, in units of a thousand."""
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 0.9995 * size:  # three digits of it are 1.00 of this unit
            return f"{count / size:.3g} {letter}" if count < 999.5 * size else f"{count / size:,.0f} {letter}"
    return f"{count}"


# Whose tokens are the rows and columns of an attention map.

SIDES = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}


def sides(trace: Trace, kind: AttentionKind) -> tuple[str, str]:
    """Sides whose tokens are the rows and the columns of a map. A model of one stack has source tokens alone."""
    return SIDES[kind] if trace.target_tokens else ("source", "source")


def tokens(trace: Trace, side: str) -> list[str]:
    return trace.source_tokens if side == "source" else trace.target_tokens
