"""The text that a training is watched on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from model.data.sources import Material, Translations
from model.data.tasks import find_task
from model.inference.model import Inspectable
from model.inference.models import Translator
from model.text.tokenizer import Tokens


@dataclass(frozen=True)
class Probe:
    """The text that a training is watched on. target: of a model with two stacks, what the decoder reads."""

    source: Tokens
    target: Tokens | None = None

    def labels(self, lens: Inspectable) -> list[int]:
        """What the model should say at each position, as far as that is known; none if it fills in hidden tokens."""
        if self.target is not None:
            return [*self.target.ids[1:], *lens.target_tokenizer.ending]
        return self.source.ids[1:] if lens.kind == "decoder-only" else []


def right_answer(material: Material, source: str) -> str | None:
    """The target of a source, by the rule of the material's task or as its pairs have it; None where neither knows."""
    if not isinstance(material, Translations):
        return None
    if (answer := _by_rule(material.task, source)) is not None:
        return answer
    return next((pair.target for part in material.pairs.values() for pair in part if pair.source == source), None)


def _by_rule(task: str, source: str) -> str | None:
    """What the rule of a task makes of a source; None without a task, or where the source is none of it."""
    if task:
        with suppress(ValueError):
            return find_task(task).solve(source)
    return None


def probe_of(lens: Inspectable, source: str, target: str = "", task: str = "") -> Probe:
    """The probe of these texts. An empty target is what the rule of `task` makes of the source, else what the model
    writes for it now; models with one stack have none.
    """
    tokens = lens.source_tokens(source)
    if not isinstance(lens, Translator):
        return Probe(tokens)
    target = target or _by_rule(task, source) or ""
    return Probe(tokens, lens.target_tokens(target) if target else lens.trace_generated(tokens)[1])
