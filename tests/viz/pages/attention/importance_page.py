"""What tests of the importance of heads start from."""

from __future__ import annotations

from model.analysis.head_importance import Removals
from model.analysis.predictions import actual_tokens
from tests.app_reading import opened

TEXT = "The cat sees."
KINDS = ["encoder", "decoder", "cross"]


def importance(**address):
    return opened(source=TEXT, below="importance", **address)


def effects(model):
    """What each head costs by the model itself, on the tokens that the page shows."""
    source = model.source_tokens(TEXT)
    _trace, target, written = model.trace_generated(source)
    ended = not model.target_tokenizer.stops.isdisjoint(written.ids)
    actual = actual_tokens(model.kind, target.ids, model.target_tokenizer.end if ended else None, None)
    return dict(Removals(model, source, target, actual).each(KINDS))


def words(app) -> str:
    return "\n".join(each.value for each in app.markdown)
