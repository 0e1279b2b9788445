"""The `tokenizers` library at work on a text: here, or, where a tokenizer has regular expressions that nobody here
knows, in a process of its own with a limit on time.

The library looks for such expressions by trying; `(?:a|aa)+c` in a few thousand letters takes it a minute.
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from model.runtime.errors import CheckpointError
from model.runtime.once import once

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{LETTERS}\p{{L}}+|\p{{N}}{{1,3}}{REST}"
QWEN2 = rf"{LETTERS}\p{{L}}+|\p{{N}}{REST}"
# Expressions of published tokenizers, which take time in proportion to a text.
KNOWN = {
    LLAMA3,
    QWEN2,
    rf"{LETTERS}[\p{{L}}\p{{M}}]+|\p{{N}}" + REST.replace(r"\p{L}", r"\p{L}\p{M}"),  # Qwen 3.5
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP
    r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
    *(r"\s+", r"\s", " ", " {2,}", r"\n", r"[\r\n]", r"[\n\r\t]", r"\s{2,}|[\n\r\t]", r"\p{N}", r"\d", "[0-9]"),
    *(r"\p{N}{1,3}", r"[0-9][0-9][0-9]", "▁"),
}
SECONDS, LOADING = 2.0, 20.0  # of the processor, for a text and for a tokenizer
PATIENCE = 10.0  # seconds beside them for which a busy machine is waited for
WORKER = Path(__file__).with_name("cutting_worker.py")


class EncodedElsewhere(NamedTuple):
    """Tokens that another process has found, as `tokenizers.Encoding` has them."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]
    type_ids: list[int]


Encoded = tokenizers.Encoding | EncodedElsewhere


class Cutter:
    """The library in this process; other threads go on meanwhile."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self.inner = inner

    def encode(self, *texts: str, frame: bool = False) -> Encoded:
        """Tokens of a text, or of a pair. frame: with special tokens around them.

        Raises:
            ValueError: it takes too long.
            Exception: any of the library.
        """
        (encoded,) = self.inner.encode_batch([texts if len(texts) > 1 else texts[0]], add_special_tokens=frame)
        return encoded

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids without special tokens; errors as of `encode`."""
        return self.inner.decode_batch([list(ids)], skip_special_tokens=True)[0]


class CutterElsewhere(Cutter):
    """The library in the worker's process.

    Of what took too long, half as much is refused at once from then on: nobody is to wait for it again and again.
    """

    _most: float = math.inf  # letters, or tokens, that are not tried

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        super().__init__(inner)
        self._json, self._special = inner.to_str(), inner.encode_special_tokens
        self._id = hashlib.sha256(f"{self._special} {self._json}".encode()).hexdigest()

    def encode(self, *texts: str, frame: bool = False) -> Encoded:
        found = self._ask("this text", encode=texts, frame=frame)["encoded"]
        return EncodedElsewhere(found[0], found[1], [(begin, end) for begin, end in found[2]], *found[3:])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._ask("these tokens", decode=list(ids))["text"])

    def _ask(self, doing: str, **wish: Any) -> dict[str, Any]:
        size = sum(map(len, wish.get("encode") or [wish["decode"]]))
        told = None
        if size < self._most:
            load = {"load": self._id, "json": self._json, "special": self._special}
            told = worker().ask({"id": self._id, **wish}, load)
        if told is None:
            self._most = min(self._most, size // 2 + 1)
            raise ValueError(
                f"the regular expressions of this tokenizer take longer than {SECONDS:g} s, or too much memory, for "
                f"{doing}: shorten it, or choose another model"
            )
        if told.get("panic"):
            raise CheckpointError(f"the tokenizer fails at {doing}: {told['error']}; give another tokenizer.json")
        if "error" in told:
            raise RuntimeError(told["error"])
        return told


def cutter(inner: tokenizers.Tokenizer) -> Cutter:
    """What cuts texts by a tokenizer, which stays as it is from now on."""
    return Cutter(inner) if all(map(is_known, expressions(inner))) else CutterElsewhere(inner)


def is_known(expression: str) -> bool:
    """Whether a regular expression takes time in proportion to a text: one of KNOWN, or plain characters."""
    return expression in KNOWN or (expression.isascii() and expression.isalnum())


def expressions(inner: tokenizers.Tokenizer) -> Iterator[str]:
    """Regular expressions of a tokenizer's steps."""
    waiting: list[Any] = [
        json.loads(step.__getstate__())
        for step in (inner.normalizer, inner.pre_tokenizer, inner.decoder)
        if step is not None
    ]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(expression := part.get("Regex"), str):
                yield expression
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


class Worker:
    """The other process, for any thread: one wish at a time. It begins when it is needed, and ends where one takes too
    long.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def stop(self) -> None:
        """End the process; the next wish begins another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # closes the pipes
            self._process = None

    def ask(self, wish: dict[str, Any], load: dict[str, Any]) -> dict[str, Any] | None:
        """Answer to a wish; None where it takes too long. load: the wish that makes its tokenizer known."""
        with self._lock:
            told = self._told({**wish, "seconds": SECONDS})
            if told is not None and told.get("unknown"):
                told = self._told({**load, "seconds": LOADING})
                if not told:  # no error
                    told = told if told is None else self._told({**wish, "seconds": SECONDS})
            return told

    def _told(self, wish: dict[str, Any]) -> dict[str, Any] | None:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            command = [sys.executable, "-I", str(WORKER)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(wish["seconds"] + self.patience, process.kill)
        late.start()
        try:
            process.stdin.write(json.dumps(wish) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:  # it has ended
            line = ""
        finally:
            late.cancel()
        if not line.endswith("\n"):
            self.stop()
            return None
        told: dict[str, Any] = json.loads(line)
        return told


@once
def worker() -> Worker:
    """The one of this process."""
    return Worker()
