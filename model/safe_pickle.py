"""What a pickle of torch.save would make torch do, found out without doing it.

torch.load(weights_only=True) runs no code of the file, but it carries out every allowed call before anybody can look at
the outcome: tables of any size, keys whose hash takes for ever, storages beyond the file. So the same opcodes are gone
through here first with stand-ins for what they make, in time and memory proportional to the pickle's bytes; only what a
dictionary of tensors and plain values needs is let through.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from model.safe_calls import BYTES, CALLS, UNREADABLE, Dictionary, Made, Named, kind, why_not

MOST_STEPS = 500_000  # opcodes, of which a tensor takes about 30
DEEPEST = 1000  # containers begun and not ended
MOST_TENSORS = 20_000
STOP = ord(".")
LARGEST_KEY = 1 << 31  # of a dictionary: larger numbers can be chosen so that all fall into one place


class RefusedError(Exception):
    """Why the pickle must not be loaded, to stand after the name of the file."""


def inspect(content: bytes, sizes: Mapping[str, int]) -> None:
    """Go through a pickle. sizes: bytes of each file in the archive.

    Raises:
        RefusedError: it is damaged, or would make something else than tensors and plain values.
    """
    reading = _Reading(content, sizes)
    try:
        reading.run()
    except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        why = f"its data.pkl makes no sense at byte {reading.at:,}"
        raise RefusedError(f"is damaged: torch cannot load it ({why})") from error


class _Reading:
    """The machine of torch's restricted unpickler: a stack, marks on it, and a memory by number."""

    def __init__(self, content: bytes, sizes: Mapping[str, int]) -> None:
        self.content, self.sizes = content, sizes
        self.at = self.steps = self.tensors = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memory: dict[int, Any] = {}

    def run(self) -> None:
        while self.steps < MOST_STEPS:
            self.steps += 1
            code = self.content[self.at]
            self.at += 1
            if code == STOP:
                self.stack.pop()
                return
            step = STEPS.get(code)
            if step is None:
                raise RefusedError(f"is damaged: torch cannot load it (its data.pkl has the step {bytes([code])!r})")
            step(self)
        raise RefusedError(f"has a data.pkl of more than {MOST_STEPS:,} steps, the most that are read")

    def version(self) -> None:
        if (found := self.number("<B")) != 2:
            raise RefusedError(f"is a pickle of version {found}, and torch.save writes 2: save it again")

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.content, self.at)
        self.at += struct.calcsize(form)
        return value

    def some(self, count: int) -> bytes:
        if self.at + count > len(self.content):
            raise IndexError(count)
        self.at += count
        return self.content[self.at - count : self.at]

    def line(self) -> str:
        end = self.content.index(b"\n", self.at)
        return self.some(end + 1 - self.at)[:-1].decode("utf-8")

    def marked(self) -> list[Any]:
        """What was made since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def push(self, value: object) -> None:
        self.stack.append(value)

    def mark(self) -> None:
        if len(self.below) == DEEPEST:
            raise RefusedError("holds containers too deep: save only a model's state_dict")
        self.below.append(self.stack)
        self.stack = []

    def pair_up(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) < count:
            raise IndexError(count)
        self.stack[-count:] = [items]

    def keep(self, place: int) -> None:
        self.memory[place] = self.stack[-1]

    def append(self, items: list[Any]) -> None:
        if self.stack[-1] is not Made.LIST:
            raise RefusedError(f"is damaged: it appends to {kind(self.stack[-1])}")

    def set_items(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if not isinstance(into, Dictionary) or len(items) % 2:
            raise RefusedError(f"is damaged: it sets names in {kind(into)}")
        into.entries += len(items) // 2
        for key in items[::2]:
            if type(key) is not str and type(key) is not int:
                raise RefusedError(f"holds a name that is {kind(key)}, not a text: save only a model's state_dict")
            if type(key) is int and not -LARGEST_KEY < key < LARGEST_KEY:
                raise RefusedError(f"holds the number {str(key)[:30]} as a name: save only a model's state_dict")

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.some(self.number("B")), "little", signed=True))

    def text(self, form: str, encoding: str) -> None:
        self.stack.append(str(self.some(self.number(form)), "utf-8", encoding))

    def global_name(self) -> None:
        self.stack.append(Named(f"{self.line()}.{self.line()}"))

    def storage(self) -> None:
        word, asked, key, place, count = self.stack.pop()
        name = asked.path.rpartition(".")[2] if isinstance(asked, Named) else ""
        if isinstance(asked, Named) and asked.path in UNREADABLE:
            raise RefusedError(why_not(asked.path))
        if word != "storage" or name not in BYTES or type(key) is not str or type(place) is not str:
            raise RefusedError(f"holds more than tensors ({name[:60] or kind(asked)}): save only a model's state_dict")
        held = self.sizes.get(f"data/{key}")
        if held is None:
            raise RefusedError(f"is damaged: its values data/{key[:60]} are not in it")
        if type(count) is not int or not 0 <= count * BYTES[name] <= held:
            asked_for = f"those of {str(count)[:30]} numbers" if type(count) is int else kind(count)  # never its text
            raise RefusedError(f"is damaged: data/{key} has {held:,} bytes, not {asked_for}")
        self.stack.append(Made.STORAGE)

    def build(self) -> None:
        """A state_dict carries `_metadata`, versions of its modules, as an attribute."""
        state, made = self.stack.pop(), self.stack[-1]
        if not isinstance(state, Dictionary) or not isinstance(made, Dictionary):
            raise RefusedError(f"holds objects of Python ({kind(made)}): save only a model's state_dict")
        self.steps += state.entries

    def create(self) -> None:
        """What no dictionary of tensors needs: an object made past its class's own beginning."""
        self.stack.pop()
        asked = self.stack.pop()
        raise RefusedError(why_not(asked.path if isinstance(asked, Named) else "objects of Python"))

    def call(self) -> None:
        given, asked = self.stack.pop(), self.stack[-1]
        if not isinstance(asked, Named) or type(given) is not tuple:
            raise RefusedError("is damaged: it calls what is no function")
        call = CALLS.get(asked.path)
        if call is None:
            raise RefusedError(why_not(asked.path))
        if (made := call(given)) is None:
            raise RefusedError(f"is damaged: it calls {asked.path} with what that does not take")
        self.steps += made.entries if isinstance(made, Dictionary) else 0
        self.tensors += made is Made.TENSOR
        if self.tensors > MOST_TENSORS:
            raise RefusedError(f"holds more than {MOST_TENSORS:,} tensors, the most that are read")
        self.stack[-1] = made


STEPS: dict[int, Callable[[_Reading], object]] = {
    ord(code): step
    for code, step in {
        "\x80": _Reading.version,
        "c": _Reading.global_name,
        "R": _Reading.call,
        "\x81": _Reading.create,
        "b": _Reading.build,
        "Q": _Reading.storage,
        "(": _Reading.mark,
        "a": lambda it: it.append([it.stack.pop()]),
        "e": lambda it: it.append(it.marked()),
        "s": lambda it: it.set_items([it.stack.pop(), it.stack.pop()][::-1]),
        "u": lambda it: it.set_items(it.marked()),
        "t": lambda it: it.push(tuple(it.marked())),
        "\x85": lambda it: it.pair_up(1),
        "\x86": lambda it: it.pair_up(2),
        "\x87": lambda it: it.pair_up(3),
        "N": lambda it: it.stack.append(None),
        "\x89": lambda it: it.stack.append(False),
        "\x88": lambda it: it.stack.append(True),
        ")": lambda it: it.stack.append(()),
        "]": lambda it: it.stack.append(Made.LIST),
        "}": lambda it: it.stack.append(Dictionary()),
        "J": lambda it: it.stack.append(it.number("<i")),
        "K": lambda it: it.stack.append(it.number("<B")),
        "M": lambda it: it.stack.append(it.number("<H")),
        "G": lambda it: it.stack.append(it.number(">d")),
        "X": lambda it: it.text("<I", "surrogatepass"),
        "U": lambda it: it.text("<B", "strict"),
        "h": lambda it: it.stack.append(it.memory[it.number("<B")]),
        "j": lambda it: it.stack.append(it.memory[it.number("<I")]),
        "q": lambda it: it.keep(it.number("<B")),
        "r": lambda it: it.keep(it.number("<I")),
        "\x8a": _Reading.long,
    }.items()
}
