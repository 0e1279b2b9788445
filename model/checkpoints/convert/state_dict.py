"""A state dict without a config: sizes and options read from its names and shapes, and from values beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor

from model.checkpoints.convert.family import ACTIVATIONS
from model.checkpoints.convert.weight_map import WeightMap
from model.checkpoints.formats.pickle import Plain
from model.checkpoints.load_hints import Function, LoadHints, Positions
from model.message import Message
from model.network.config import TiedEmbeddings, TransformerConfig
from model.network.positions import sinusoidal
from model.runtime.errors import CheckpointError

MOST_LAYERS = 512
MOST_SINES = 4096  # rows that are kept of a longer table of sines
POSITIONS = r"(^|[._])(pe|pos\w*|encoding)(\.\w+)?$"  # names of tables of positions
FUNCTIONS = {name: name for name in get_args(Function)}
ALIASES = {**ACTIVATIONS, "gelu_tanh": "gelu-tanh"}
HEADS = ("n_head", "n_heads", "num_heads", "nhead", "heads", "h", "num_attention_heads", "n_attn_heads")


class HeadsNeededError(CheckpointError):
    """The number of heads is neither in the weights nor in the hints. possible: the divisors of d_model."""

    def __init__(self, name: str, d_model: int) -> None:
        self.possible = [heads for heads in range(1, d_model + 1) if d_model % heads == 0]
        numbers = ", ".join(map(str, self.possible))
        super().__init__(
            Message(
                "{file} does not say how many heads it has: open it with heads=N (on the command line --heads N), "
                "for d_model {d_model} one of {numbers}",
                file=name,
                d_model=d_model,
                numbers=numbers,
            )
        )


@dataclass(frozen=True)
class Layout:
    """A recognised state dict as config and weights of ours. name: of the program that defines the layout.

    config: None where transformers runs it; settings are then those of its config.json, and weights have its names.
    assumed: assumptions about what the weights do not tell, in words. open: values of the options that a user may
    choose otherwise on opening: "heads", "positions", "start". models: beginnings of the names of several models in the
    file, of which `prefix` is this one's. beside: names of tensors outside the model.
    """

    name: str
    config: TransformerConfig | None
    weights: dict[str, Tensor]
    assumed: tuple[str, ...] = ()
    open: Mapping[str, int | str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    prefix: str | None = None
    beside: tuple[str, ...] = ()

    @property
    def two_stacks(self) -> bool:
        """True if it reads a source and writes a target."""
        return self.config is not None and self.config.kind == "encoder-decoder"

    @property
    def vocabularies(self) -> tuple[int, int]:
        """Numbers of tokens of source and target."""
        return self.config.vocabularies if self.config else (self.settings["vocab_size"],) * 2


@dataclass(frozen=True)
class State:
    """Tensors of the file called `name`, and the plain values of the file and of a config beside it (records).

    hints: of the user who opens it.
    """

    name: str
    tensors: Mapping[str, Tensor]
    records: Mapping[str, Plain] = field(default_factory=dict)
    hints: LoadHints = field(default_factory=LoadHints)

    def below(self, anchor: str) -> State | None:
        """Tensors of the model that has one called `anchor`, without the path of what wraps it; None: there is none."""
        roots = [name[: -len(anchor)] for name in self.tensors if name.endswith(anchor)]
        roots = [root for root in roots if not root or root.endswith(".")]
        if not roots:
            return None
        root = min(roots, key=len)
        tensors = {name.removeprefix(root): value for name, value in self.tensors.items() if name.startswith(root)}
        return State(self.name, tensors, self.records, self.hints)

    def record(self, *names: str) -> Plain | None:
        """Plain value by the last part of its name, of the first of `names` that there is; None: of none."""
        values = {name.rpartition(".")[2].lower(): value for name, value in self.records.items()}
        return next((values[name] for name in names if name in values), None)

    def shape(self, name: str, dimensions: int = 2) -> tuple[int, ...]:
        """Shape of a tensor.

        Raises:
            CheckpointError: the tensor is missing, is empty, or has not so many dimensions.
        """
        if name not in self.tensors:
            raise CheckpointError(
                "{file} lacks {name}, without which its model cannot be put together", file=self.name, name=name
            )
        shape = tuple(self.tensors[name].shape)
        if len(shape) != dimensions or not all(shape):
            raise CheckpointError(
                "{name}: {name_2} has shape {shape}, not {dimensions} dimensions above 0",
                name=self.name,
                name_2=name,
                shape=shape,
                dimensions=dimensions,
            )
        return shape

    def layers(self, pattern: str) -> int:
        """Number of layers, by a pattern whose first group is a layer's number in a name.

        Raises:
            CheckpointError: a number is left out, or there are too many.
        """
        numbers = {int(match[1]) for name in self.tensors if (match := re.match(pattern, name)) and len(match[1]) < 6}
        if numbers != set(range(len(numbers))) or len(numbers) > MOST_LAYERS:
            raise CheckpointError(
                "{file}: its layers are not numbered from 0 to at most {most_layers}",
                file=self.name,
                most_layers=MOST_LAYERS - 1,
            )
        return len(numbers)

    def n_heads(self, d_model: int) -> int:
        """Number of heads from the hints, else from the records.

        Raises:
            HeadsNeededError: neither has it.
            CheckpointError: d_model cannot be divided by the number.
        """
        heads = self.hints.heads if self.hints.heads is not None else self.record(*HEADS)
        if heads is None:
            raise HeadsNeededError(self.name, d_model)
        if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1 or d_model % heads:
            raise CheckpointError(
                "{file}: d_model ({d_model}) cannot be divided among heads ({heads!r})",
                file=self.name,
                d_model=d_model,
                heads=heads,
            )
        return heads

    @property
    def open_heads(self) -> dict[str, int | str]:
        """Number of heads as `Layout.open` has it, where only the hints tell it."""
        return {} if self.hints.heads is None or self.record(*HEADS) is not None else {"heads": self.hints.heads}

    def positions(self) -> tuple[Positions, tuple[str, ...]]:
        """Positions of a model without a table of them: from the hints, else sinusoidal; and the assumption made."""
        if self.hints.positions:
            return self.hints.positions, ()
        return "sinusoidal", ("sinusoidal positions (there is no table of them)",)

    def same(self, name: str, other: str) -> bool:
        """True if both tensors are there and are one, or equal."""
        if name not in self.tensors or other not in self.tensors:
            return False
        first, second = self.tensors[name], self.tensors[other]
        return first.shape == second.shape and (first.data_ptr() == second.data_ptr() or torch.equal(first, second))

    def tied(self, source: str, target: str, output: str) -> TiedEmbeddings:
        """Option `tied_embeddings`, by which of these three matrices are the same."""
        inputs, outputs = self.same(source, target), self.same(target, output)
        return "all" if inputs and outputs else "inputs" if inputs else "output" if outputs else "none"

    def require_words(self, output: str, tokens: str) -> None:
        """Refuse an output that is not over the tokens. output, tokens: names of its matrix and of the embedding's.

        Raises:
            CheckpointError: its numbers are not one for each token.
        """
        classes, words = self.shape(output)[0], self.shape(tokens)[0]
        if classes != words:
            raise CheckpointError(
                "{file} is a classifier: {output} gives {classes:,} numbers, and there are {words:,} tokens in "
                "{tokens}, so that it predicts no words; its tensors can be looked at under Checkpoints → Read",
                file=self.name,
                output=output,
                classes=classes,
                words=words,
                tokens=tokens,
            )

    def weights(self, plan: WeightMap) -> dict[str, Tensor]:
        """Weights by our names, in the shapes of our parameters.

        Raises:
            CheckpointError: a tensor is missing or has a shape that its parameter cannot be made from.
        """
        weights: dict[str, Tensor] = {}
        for parameter, source in plan.items():
            if missing := [name for name in source.names if name not in self.tensors]:
                raise CheckpointError(
                    "{file} lacks {missing}, without which its model cannot be put together",
                    file=self.name,
                    missing=missing[0],
                )
            try:
                weights[parameter] = source.make(*(self.tensors[name] for name in source.names))
            except (RuntimeError, IndexError) as error:
                raise CheckpointError(
                    "{file}: {parameter} cannot be made from {names}: {error}",
                    file=self.name,
                    parameter=parameter,
                    names=source.names[0],
                    error=error,
                ) from error
        return weights

    def require_all_used(self, plan: WeightMap, kind: str, buffers: str) -> None:
        """Refuse a model that has more than the layout. kind: of the layout, in words. buffers: a pattern of names of
        tensors that are no weights.

        Raises:
            CheckpointError: a tensor has no place in the plan.
        """
        self.require_names((name for row in plan.values() for name in (*row.names, *row.copies)), kind, buffers)

    def require_names(self, known: Iterable[str], kind: str, buffers: str = r"(?!)") -> None:
        """Refuse a model that has tensors of other names; arguments as of `require_all_used`.

        Raises:
            CheckpointError: it has one.
        """
        used = set(known)
        more = [name for name in self.tensors if name not in used]
        more = [name for name in more if not re.search(buffers, name) or not self._is_buffer(name)]
        if more:
            raise CheckpointError(
                "{file} looks like {kind}, but holds {more} ({count} in all), for which that network has no "
                "place: its tensors can be looked at under Checkpoints → Read",
                file=self.name,
                kind=kind,
                more=more[0],
                count=len(more),
            )

    def _is_buffer(self, name: str) -> bool:
        """True if a tensor that is called as one is a mask of two values, a table of sines, or one of indices: others,
        such as biases by distance, would have a part in what is computed.
        """
        tensor = self.tensors[name]
        if tensor.ndim < 2 or not tensor.numel() or "freqs" in name:
            return True
        if re.search(POSITIONS, name):
            return not (tensor.is_floating_point() or tensor.is_complex()) or is_sinusoidal(tensor)
        values = _real(tensor)
        return values is not None and bool(((values == values.min()) | (values == values.max())).all())


def is_sinusoidal(table: Tensor) -> bool:
    """True if a table (…, position, d_model) is of sines and cosines by turns, up to its precision."""
    if table.ndim < 2 or not table.numel() or table.shape[-1] % 2:
        return False
    table = table.reshape(-1, table.shape[-1])[:MOST_SINES]
    coarse, values = table.dtype in (torch.float16, torch.bfloat16), _real(table)
    if values is None:
        return False
    return bool(torch.allclose(values, sinusoidal(*table.shape), atol=1e-2 if coarse else 1e-3))


def _real(tensor: Tensor) -> Tensor | None:
    """Values in float64; None: they are complex, or of a type with which torch cannot compute."""
    try:
        return None if tensor.is_complex() else tensor.double()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Choices:
    """Options that no tensor tells, from the file or beside it, from the hints, else a program's defaults, which are
    then `assumed`. open: those that may be told otherwise, as `Layout.open`.
    """

    state: State
    assumed: list[str]
    open: dict[str, int | str] = field(default_factory=dict)

    def of(self, hint: str, names: tuple[str, ...], possible: Mapping[Any, str], usual: str) -> Any:
        """One of the possible values, by default the first. possible: with the hint that stands for each. usual: what
        is assumed with the first one, in words.

        Raises:
            CheckpointError: another value is said, and no hint overrides it; or the hint is of none.
        """
        setting = self.state.record(*names)
        value = ALIASES.get(setting.lower(), setting.lower()) if isinstance(setting, str) else setting
        if value in possible:
            return value
        hint_value = getattr(self.state.hints, hint) if hint else None
        if setting is not None:
            name = next(each for each in names if self.state.record(each) is not None)
            if hint_value is None:
                ways = (
                    ""
                    if not hint
                    else Message(", or open it with {hint}={values}", hint=hint, values="|".join(possible.values()))
                )
                raise CheckpointError(
                    "{file} says {name} {said!r}, which is none of {str}: say which one in a config.json beside "
                    "it{ways}",
                    file=self.state.name,
                    name=name,
                    said=str(setting)[:40],
                    str=", ".join(map(str, possible)),
                    ways=ways,
                )
            self.assumed.append(
                Message(
                    "{hint} {told} as it is told (the file says {name} {said!r})",
                    hint=hint,
                    told=hint_value,
                    name=name,
                    said=str(setting)[:40],
                )
            )
        if hint_value is None:
            value = next(iter(possible))
            self.assumed.append(usual)
        else:
            value = next((each for each, word in possible.items() if word == hint_value), None)
            if value is None:
                raise CheckpointError(
                    "{file}: {hint} ({told}) must be one of {values}",
                    file=self.state.name,
                    hint=hint,
                    told=hint_value,
                    values=", ".join(possible.values()),
                )
        if hint:
            self.open[hint] = possible[value]
        return value

    def number(self, names: tuple[str, ...], usual: float, words: str = "") -> float:
        """A number above 0, by default the usual one. words: for what is assumed then.

        Raises:
            CheckpointError: what is said is no such number.
        """
        value = self._record(names, words)
        if value is None:
            return usual
        if isinstance(value, bool | str) or not value > 0 or not math.isfinite(value):
            raise CheckpointError(
                "{file}: {names} ({value}) must be a number above 0",
                file=self.state.name,
                names=names[0],
                value=str(value)[:40],
            )
        return float(value)

    def count(self, names: tuple[str, ...], usual: int, words: str = "") -> int:
        """A whole number from 1 on, by default the usual one. words: for what is assumed then.

        Raises:
            CheckpointError: what is said is no such number.
        """
        value = self._record(names, words)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise CheckpointError(
                "{file}: {names} ({value}) must be a whole number above 0",
                file=self.state.name,
                names=names[0],
                value=str(value)[:40],
            )
        return value

    def _record(self, names: tuple[str, ...], words: str) -> Plain | None:
        value = self.state.record(*names)
        if value is None and words:
            self.assumed.append(unsaid(words, names[0]))
        return value


def unsaid(words: str, setting: str) -> Message:
    """Assumption in words, where a file does not have this setting."""
    return Message("{words} ({setting} is not said)", words=words, setting=setting)


def config_of(name: str, **options: Any) -> TransformerConfig:
    """Config of these options of `TransformerConfig`, or with a `kind` of `TransformerConfig.one_stack`.

    Raises:
        CheckpointError: an option is out of its range, or two contradict each other. name: of the file, for the
            sentence.
    """
    make: Callable[..., TransformerConfig] = TransformerConfig.one_stack if "kind" in options else TransformerConfig
    try:
        return make(**options)
    except ValueError as error:
        raise CheckpointError(
            "{file} does not describe a model that can be built: {error}", file=name, error=error
        ) from error
