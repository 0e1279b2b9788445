"""Changes of a session's model: the model as it was changed, beside the same tokens without the changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, token_sign
from viz.i18n.messages import in_language, labelled

if TYPE_CHECKING:
    from model.capture.interventions import AttentionChange, Cells
    from model.capture.trace import Trace
    from model.inference.decoding import Generation
    from model.inference.text_model import TextModel
    from model.network.config import TransformerConfig
    from model.text.tokenizer import Tokens

CHANGES = "changes"  # the parameter of the address bar
NAMED = 3  # changes that a note spells out


@dataclass
class WhatIf:
    """changes: what the session's trace is computed with. plain: the trace of the same tokens without them.

    refused: what is wrong with the changes in the address bar, or why this model cannot make some, in a sentence.
    """

    changes: tuple[AttentionChange, ...] = ()
    plain: Trace | None = None
    refused: str = ""
    _made: tuple[AttentionChange, ...] = ()
    _trace: Trace | None = None
    _aside: tuple[AttentionChange, ...] = ()  # changes that `_model` cannot make, until another one is shown
    _why: str = ""
    _model: TextModel | None = None

    def look(self, model: TextModel, plain: Trace | None, source: Tokens, target: Tokens | None) -> Trace:
        """The trace with the changes, computed once. plain: a new one without them, None while the texts are the same.

        Before and after are of the same tokens: the target that follows typing is what the unchanged model writes.
        """
        trace, trace_changes = (self._trace, self._made) if plain is None else (plain, ())
        plain = plain or self.plain
        assert plain is not None
        assert trace is not None
        if self._aside and model is not self._model:
            self.changes, self._aside = self.listed, ()
            self.refused = self._why = ""
        if self.changes != trace_changes:
            trace = self._make(model, source, target) or plain
            trace_changes = self.changes
        # All at once: the computation may be given up before.
        self.plain, self._trace, self._made = plain, trace, trace_changes
        return trace

    def change(self, changes: Sequence[AttentionChange]) -> bool:
        """Compute with these changes from now on; what this model cannot make still waits for another.

        False, and `refused` says why, where they are too many.
        """
        from model.capture.interventions import MOST

        count = len(changes) + len(self._aside)
        if count > MOST:
            refused = _("{count} changes are too many: {most} are the most, restore some first")
            self.refused = refused.format(count=count, most=MOST)
            return False
        self.changes, self.refused = tuple(changes), self._why
        return True

    def clear(self) -> None:
        """The model computes as it was trained, and so does the next one."""
        self.changes = self._aside = ()
        self.refused = self._why = ""

    @property
    def listed(self) -> tuple[AttentionChange, ...]:
        """Changes in the address bar: those that this model cannot make too."""
        return (*self.changes, *self._aside)

    def _make(self, model: TextModel, source: Tokens, target: Tokens | None) -> Trace | None:
        """The trace with as many changes as this model can make: of masks, heads, experts, or some; None with none."""
        from model.capture.interventions import RemovedExpert, RemovedHead, intervening
        from model.runtime.ledger import NoRoomError

        heads = tuple(each for each in self.changes if isinstance(each, RemovedHead))
        others = tuple(each for each in self.changes if not isinstance(each, RemovedExpert))
        masks = tuple(each for each in others if not isinstance(each, RemovedHead))
        trace, subset, why = None, self.changes, ""
        for subset in dict.fromkeys((self.changes, others, masks, heads, ())):
            try:
                if subset:
                    with intervening(model.network, subset):
                        trace = model.trace_tokens(source, target)
                break
            except NoRoomError:
                raise  # which tells nothing of the changes
            except ValueError as error:
                why = why or str(error)
        if why:
            possible = set(subset)
            aside = (each for each in self.changes if each not in possible)
            self._model, self._aside, self.changes = model, (*self._aside, *aside), subset
            self.refused = self._why = why
        return trace

    @contextmanager
    def in_effect(self, model: TextModel) -> Iterator[None]:
        """A block in which `model` computes, and so writes, with the changes."""
        if not self.changes:
            yield
            return
        from model.capture.interventions import intervening

        with intervening(model.network, self.changes):
            yield

    def generate(self, model: TextModel, text: str, **options: Any) -> Generation:
        """Text that the changed model writes for `text`; options: those of its `generate`."""
        with self.in_effect(model):
            return model.generate(text, **options)

    @classmethod
    def read(cls, text: str) -> WhatIf:
        """Begin with the changes that the address bar lists, if it does."""
        if not text:
            return cls()
        from model.capture.interventions import read_changes

        try:
            return cls(read_changes(text))
        except ValueError as error:
            return cls(refused=str(error))


def note(what_if: WhatIf, trace: Trace, config: TransformerConfig) -> str:
    """Sentence on the changes, for the frame around every page; empty while there are none. config: of the model."""
    here = [each for each in what_if.changes if trace.attention_paths(each.kind) and _is_there(each, config)]
    return _named(here, config, trace) if here else ""


def elsewhere(what_if: WhatIf, trace: Trace, config: TransformerConfig) -> str:
    """A sentence on changes that are asked for and that this model has no place for; empty where it has."""
    absent = [each for each in what_if.changes if not (trace.attention_paths(each.kind) and _is_there(each, config))]
    if not absent:
        return ""
    return _("This model has nothing to change there: {changes}").format(changes=_named(absent, config))


def _named(here: Sequence[AttentionChange], config: TransformerConfig, trace: Trace | None = None) -> str:
    named = [change_name(each, config.max_length, trace) for each in here[:NAMED]]
    if len(here) > NAMED:
        named.append(_("and {count} more").format(count=len(here) - NAMED))
    return " · ".join(named)


def change_name(changed: AttentionChange, longest: int, trace: Trace | None = None) -> str:
    """A change in words, as a model that reads at most `longest` tokens makes it; they count from 1, as layers do.

    trace: whose tokens are named.
    """
    from model.capture.interventions import Causal, Cells, RemovedExpert, RemovedHead, Window

    if isinstance(changed, RemovedHead):
        text = _("Layer {layer}, head {head} removed").format(layer=changed.layer + 1, head=changed.head + 1)
    elif isinstance(changed, RemovedExpert):
        text = _("Layer {layer}, expert {expert} removed").format(layer=changed.layer + 1, expert=changed.expert + 1)
    elif isinstance(changed, Cells):
        cell = _cell(changed, *_tokens(changed.kind, trace))
        everywhere = changed.layer is None and changed.head is None
        text = cell if everywhere else f"{_place(changed.layer, changed.head)}, {cell}"
    elif isinstance(changed, Causal):
        text = _("causal mask on") if changed.on else _("causal mask off")
    elif isinstance(changed, Window):
        text = _window(changed.width, longest)
    else:
        text = _("padding mask off")
    return in_language(labelled(attention_name(changed.kind), text))


def _is_there(changed: AttentionChange, config: TransformerConfig) -> bool:
    """True if a model has what is changed; of another model's heads in the address bar it may have none."""
    from model.capture.interventions import RemovedExpert, RemovedHead

    stack = "encoder" if changed.kind == "encoder" else "decoder"
    if not isinstance(changed, RemovedHead | RemovedExpert):
        return True
    if changed.layer >= config.depth(stack):
        return False
    if isinstance(changed, RemovedExpert):
        return changed.expert < config.units_of(stack, changed.layer).experts
    return changed.head < config.shape_of(stack).heads


def _place(layer: int | None, head: int | None) -> str:
    if head is not None:
        return _("Layer {layer}, head {head}").format(layer=_number(layer), head=head + 1)
    return _("layer {layer}, all heads").format(layer=_number(layer))


def _tokens(kind: str, trace: Trace | None) -> tuple[Sequence[str], Sequence[str]]:
    """Queries and keys of this kind of attention, of a trace."""
    if trace is None:
        return (), ()
    queries = trace.source_tokens if kind == "encoder" else trace.target_tokens or trace.source_tokens
    return queries, queries if kind == "decoder" else trace.source_tokens


def _cell(cells: Cells, queries: Sequence[str], keys: Sequence[str]) -> str:
    asks = _("every query") if cells.query is None else _token(_("query {n}"), cells.query, queries)
    key_name = _("every key") if cells.key is None else _token(_("key {n}"), cells.key, keys)
    return f"{asks} {'→' if cells.visible else '↛'} {key_name}"


def _token(numbered: str, place: int, labels: Sequence[str]) -> str:
    """The token at a place, with its number where another is like it; its number alone in another text."""
    number = numbered.format(n=place + 1)
    if place >= len(labels):
        return number
    sign = token_sign(labels[place])
    return sign if labels.count(labels[place]) == 1 else f"{sign} ({number})"


def _window(width: int | None, longest: int) -> str:
    if width is None:
        return _("window off")
    if width <= longest:
        return _("window {n}").format(n=width)
    return _("window {n}, the longest text ({asked} is asked for)").format(n=f"{longest:,}", asked=f"{width:,}")


def _number(index: int | None) -> str:
    return "*" if index is None else str(index + 1)
