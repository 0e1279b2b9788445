"""State of a step, in the form of the application's own addresses: /attention?layer=2&head=6&source=She reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from model.capture.interventions import (
    AttentionChange,
    Intervention,
    RemovedExpert,
    RemovedHead,
    intervening,
    read_changes,
)
from model.capture.trace import AttentionKind, Trace
from model.inference.models import Translator
from model.inference.text_model import TextModel
from model.message import InputError
from model.text.tokenizer import Tokens
from model.training.demonstration import DEMONSTRATIONS
from model.training.live.runs import Run

PAGES = (
    *("map", "positions", "attention", "masks", "residual", "feed_forward", "predictions"),
    *("training", "lessons", "lab", "checkpoints"),
)
FIRST_PAGES = ("", "first")  # names of the map in an address
NUMBERS = ("layer", "head", "query")  # which count from 0, as in every address
FRAME = ("language", "lesson", "step", "join", "class", "run")  # of whoever reads an address, and not of what it shows
# What a state may hide, so that a learner sees one thing at a time.
CONTROLS = ("sidebar", "model", "training", "menu", "header", "texts", "choices", "more", "explanations")
LONGEST = 4000  # characters of a value


@dataclass(frozen=True)
class State:
    """Page, and parameters by their names: model, source, target, layer, head, query, attention, changes, hide,
    training with training_step or training_least, and choices of pages.
    """

    page: str
    parameters: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, address: str) -> State:
        """State of an address, as it is copied from a browser or written by hand; its server does not matter.

        Raises:
            ValueError: it leads to no page, or a parameter has no value that it can have.
        """
        try:
            parts = urlsplit(address.strip())
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=50)
        except ValueError as error:
            raise InputError("{address!r} is no address: copy one from the browser", address=address[:80]) from error
        page = parts.path.strip("/")
        page = "map" if page in FIRST_PAGES else page
        if page not in PAGES:
            raise InputError("there is no page {page!r}: it is one of {pages}", page=page[:40], pages=", ".join(PAGES))
        parameters = {name: value for name, value in pairs if name not in FRAME}
        for name, value in parameters.items():
            if not name.isidentifier() or len(value) > LONGEST:
                raise InputError("{name!r} is no parameter of an address", name=name[:40])
            if name in NUMBERS and not (value.isascii() and value.isdigit() and len(value) < 6):
                raise InputError("{name} ({value!r}) must be a whole number, from 0", name=name, value=value[:20])
        read_changes(parameters.get("changes", ""))
        state = cls(page, parameters)
        for name in state.hidden:
            if name not in CONTROLS:
                known = ", ".join(CONTROLS)
                raise InputError("hide ({name!r}) must be one of {names}", name=name[:20], names=known)
        state._require_training()
        return state

    @property
    def address(self) -> str:
        """Address from which `read` gives this state."""
        return f"/{self.page}" + (f"?{urlencode(self.parameters)}" if self.parameters else "")

    def number(self, name: str) -> int | None:
        """Layer, head or query; None where the address leaves it out."""
        return int(self.parameters[name]) if name in self.parameters else None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the controls that are hidden, of CONTROLS."""
        return tuple(name for name in self.parameters.get("hide", "").split(",") if name)

    @property
    def trained(self) -> tuple[str, int] | None:
        """Demonstration whose model is shown, and the step to which it is trained; None: another model."""
        if (name := self.parameters.get("training")) is None:
            return None
        return name, int(self.parameters.get("training_step") or self.parameters.get("training_least") or "0")

    @property
    def keeps_training(self) -> bool:
        """True if a training that has come further than the state's step is left as it is."""
        return "training_least" in self.parameters

    @property
    def untrained(self) -> State:
        """The same before the first step of its training."""
        others = {name: each for name, each in self.parameters.items() if name != "training_least"}
        return replace(self, parameters={**others, "training_step": "0"}) if self.trained else self

    def _require_training(self) -> None:
        name, exact, least = (self.parameters.get(each) for each in ("training", "training_step", "training_least"))
        if name is None and exact is None and least is None:
            return
        if exact is not None and least is not None:
            raise InputError("a state has training_step or training_least, not both")
        step = least if exact is None else exact
        if name not in DEMONSTRATIONS:
            known = ", ".join(DEMONSTRATIONS)
            raise InputError("training ({name!r}) must be one of {names}", name=str(name)[:20], names=known)
        total = DEMONSTRATIONS[name].steps
        if step is not None and not (step.isascii() and step.isdigit() and len(step) < 6 and int(step) <= total):
            raise InputError(
                "training_step ({step!r}) must be a whole number, at most {total}", step=step[:20], total=total
            )

    @property
    def changes(self) -> tuple[AttentionChange, ...]:
        """What-if changes to the pass."""
        return read_changes(self.parameters.get("changes", ""))


@dataclass(frozen=True)
class Subject:
    """What a question is asked of: a model, the tokens that are there, and the trace of its pass over them.

    run: in which the model is being trained, if it is.
    """

    model: TextModel
    trace: Trace
    source: Tokens
    target: Tokens | None
    run: Run | None = None

    @classmethod
    def of(cls, model: TextModel, state: State) -> Subject:
        """Model with the texts and changes of a state; without a target the unchanged model writes one.

        Raises:
            ValueError: the model cannot read the texts, or lacks the page's layer, head, query or what is changed.
        """
        source = model.source_tokens(state.parameters.get("source", model.example))
        target = None
        if isinstance(model, Translator):
            text = state.parameters.get("target", "")
            target = model.target_tokens(text) if text else model.trace_generated(source)[1]
        subject = cls(model, model.trace_tokens(source, target), source, target)
        subject._require(state)
        return subject.changed(*state.changes)

    def changed(self, *changes: Intervention) -> Subject:
        """Subject of a pass over the same tokens with more changes."""
        return self.with_changes(*self.trace.changes, *changes)

    def with_changes(self, *changes: Intervention) -> Subject:
        """Subject of a pass over the same tokens with these changes and no others."""
        if changes == tuple(self.trace.changes):
            return self
        with intervening(self.model.network, changes):
            return replace(self, trace=self.model.trace_tokens(self.source, self.target))

    @property
    def attentions(self) -> list[AttentionKind]:
        """Kinds of attention of the model."""
        return self.trace.attention_kinds

    def maps(self, kind: AttentionKind) -> tuple[int, int]:
        """Number of layers and of heads of one kind of attention.

        Raises:
            ValueError: the model has none of this kind.
        """
        paths = self.trace.attention_paths(kind)
        if not paths:
            raise InputError("{name} has no attention of the kind {kind}", name=self.model.name, kind=kind[:40])
        return len(paths), self.trace[f"{paths[0]}.query"].shape[-3]

    def _require(self, state: State) -> None:
        wanted = cast("AttentionKind", state.parameters.get("attention") or self.attentions[-1])
        layers, heads = self.maps(wanted)
        queries = len(self.source if wanted == "encoder" or self.target is None else self.target)
        for name, count in zip(NUMBERS, (layers, heads, queries), strict=True):
            if (number := state.number(name)) is not None and number >= count:
                raise InputError(
                    "{name} ({number}) is not there: there are {count}, from 0", name=name, number=number, count=count
                )
        for change in state.changes:
            layers, heads = self.maps(change.kind)
            if isinstance(change, RemovedHead) and (change.layer >= layers or change.head >= heads):
                raise InputError("{change} removes a head that {name} lacks", change=change, name=self.model.name)
            if isinstance(change, RemovedExpert) and (
                change.layer >= layers or change.expert >= self.model.config.units_of(change.kind, change.layer).experts
            ):
                raise InputError("{change} removes an expert that {name} lacks", change=change, name=self.model.name)
