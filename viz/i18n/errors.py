"""Errors of `model/`, translated.

`model/` knows no languages: a sentence of its is a `Message`, whose text the catalogue `errors` has.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from model.checkpoints.bridge.missing import Reason
from model.message import Message
from model.network.recurrent import Absence
from model.runtime.errors import MissingQuantityError, printable, require
from viz.i18n.catalogue import LOCALE, _, language
from viz.i18n.format import as_sentence, token_code, with_label

QUOTED_PATH = re.compile(r"(['\"])/[^'\"\n]*/([^'\"/\n]+)\1")
PATH = re.compile(r"(?<![\w/:.…])/(?:[^/\s'\",:;]+/)+([^/\s'\",:;]+)")


def translate_error(error: Exception | str) -> str:
    """Sentence of an error, with those inside of it; in English where it is not translated.

    Of a path the last name is told: where a server keeps its files is no visitor's business.
    """
    return PATH.sub(r"\1", QUOTED_PATH.sub(r"\1\2\1", _translate_values(str(error))))


def _translate_values(value: Any) -> Any:
    """Sentence, or value in one, in the language in use."""
    if isinstance(value, Exception):
        return _translate_values(str(value))
    if not isinstance(value, str) or not value:
        return value
    sentences = _sentences(language())
    if not isinstance(value, Message):
        return sentences.gettext(value)
    if language() == "en":
        return value
    text = sentences.gettext(value.text)
    return printable(text.format(**{name: _translate_values(each) for name, each in value.values.items()}))


@cache
def _sentences(language: str) -> gettext.NullTranslations:
    return gettext.translation("errors", localedir=LOCALE, languages=[language], fallback=True)


def slow_precision(precision: str) -> str:
    """Sentence about a precision that this processor is slower with than with float32; "" if it is not."""
    from model.runtime.device import choose_device, slower

    sentence = slower(precision, choose_device())
    return as_sentence(translate_error(sentence)) if sentence else ""


# Sentences on quantities that a model of others does not have, in the place of their figure.

Made = TypeVar("Made")


def unless_absent(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """The value, or the sentence why it cannot be had."""
    try:
        return make(), ""
    except MissingQuantityError as absent:
        return None, absent_words(absent)


def beside_pin(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """Value of the pinned model, or the sentence, which says that it is the pinned one's."""
    value, absent = unless_absent(make)
    return value, with_label(_("pinned"), absent) if absent else ""


def lacks(network: object, *names: str) -> bool:
    """True if a model says that it does not have one of these quantities."""
    return bool(unless_absent(lambda: require(network, *names))[1])


def reason_words(reason: str) -> str:
    """Translated reason why a quantity does not exist."""
    words: dict[str, str] = {
        Reason.OUTSIDE: _(
            "This model computes its attention by code of its own: only its weights can be seen, not the steps to them."
        ),
        Reason.STEPS: _(
            "This model's attention takes a step that is not known here: its weights can be seen, not the steps to "
            "them."
        ),
        Reason.SINK: _(
            "This model's softmax counts a sink of each head: its weights, and what the sink keeps, can be seen, not "
            "the steps to them."
        ),
        Reason.UNITS: _(
            "This model's feed-forward network is of another form than activation(x W₁) W₂, gated or not: "
            "its units cannot be told apart."
        ),
        Reason.EXPERTS: _(
            "The feed-forward network of this layer is a mixture of experts: units are those of one expert, and are "
            "shown for each of them."
        ),
        Reason.FLOW: _("In this model no module was found that computes exactly this: it is not shown."),
        Reason.EMBEDDING: _(
            "What enters this model's first layer is not simply the sum of a token's row and a position's."
        ),
        Reason.WIDTH: _(
            "The matrix over the vocabulary is not as wide as this model's stream: something stands between them."
        ),
        Reason.OUTPUT: _("This model has no logits: it was opened without an output for words."),
        Reason.HEADS: _(
            "Which rows of this model's matrices make which head's queries, keys or values could not be told apart."
        ),
        Reason.SEVERAL: _(
            "This model makes its queries, keys or values in several steps: no one matrix makes them from the stream."
        ),
        Reason.WRITTEN: _("The matrix by which this model writes its heads to the stream was not found."),
        Absence.ADDITIVE: _(
            "This network scores by vᵀ tanh(W s + U h): it has no products of queries and keys, no values and no heads "
            "to be told apart. The Lab shows its three steps."
        ),
        Absence.STATE: _(
            "This network is recurrent: it has no residual stream and no norms; gates pass on its state from token to "
            "token."
        ),
        Absence.UNITS: _("This network is recurrent: it has no feed-forward layers."),
        Absence.ORDER: _(
            "This network is recurrent: it reads one token after the other, so that it needs no positions and no mask "
            "of the future."
        ),
    }
    return words[reason]


def absent_words(absent: MissingQuantityError) -> str:
    """The reason, with the name of what is missing."""
    return f"{reason_words(absent.reason)} ({token_code(absent.name)})"
