"""The `tokenizers` library at work on a text: here, or, where a tokenizer has regular expressions that nobody here
knows, in a process of its own with a limit on time.

The library looks for such expressions by trying; `(?:a|aa)+c` in a few thousand letters takes it a minute.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import tokenizers

from model.message import InputError
from model.runtime import cancellation
from model.runtime.errors import CheckpointError
from model.runtime.locks import Lock, RLock

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{LETTERS}\p{{L}}+|\p{{N}}{{1,3}}{REST}"
QWEN2 = rf"{LETTERS}\p{{L}}+|\p{{N}}{REST}"
# Expressions of tokenizers that are trained here.
SPACES, CHARACTER, ANY_CHARACTER = r"\s+", ".", "(?m:.)"
WORDS = r"▁?\w+|▁?[^\w\s▁]+|\s|▁+"  # and runs of signs, with the space before them
# They and those of published tokenizers take time in proportion to a text.
KNOWN = {
    *(SPACES, CHARACTER, ANY_CHARACTER, WORDS),
    LLAMA3,
    QWEN2,
    rf"{LETTERS}[\p{{L}}\p{{M}}]+|\p{{N}}" + REST.replace(r"\p{L}", r"\p{L}\p{M}"),  # Qwen 3.5
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP
    r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
    *(r"\s", " ", " {2,}", r"\n", r"[\r\n]", r"[\n\r\t]", r"\s{2,}|[\n\r\t]", r"\p{N}", r"\d", "[0-9]"),
    *(r"\p{N}{1,3}", r"[0-9][0-9][0-9]", "▁"),
}
SECONDS = 2.0  # of the processor, for a text
LOADING, PATIENCE = 20.0, 10.0  # seconds beside them for which a tokenizer and a busy machine are waited for
STEP = 0.05  # seconds between two looks whether who waits still wants the answer
MOST = (os.cpu_count() or 1) + 1  # processes
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
    """Tokenizer of the library in this process; other threads go on meanwhile."""

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
    """The library in a worker's process.

    Of what used its time up, half as much is refused at once from then on: nobody is to wait for it again and again.
    """

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        super().__init__(inner)
        self._worker = Worker({"json": inner.to_str(), "special": inner.encode_special_tokens})
        self._most = {"encode": math.inf, "decode": math.inf}  # letters, and tokens, that are not tried

    def encode(self, *texts: str, frame: bool = False) -> Encoded:
        wish = {"encode": texts, "frame": frame}
        fields = self._ask("this text", "encode", sum(map(len, texts)), wish)["encoded"]
        return EncodedElsewhere(fields[0], fields[1], [(begin, end) for begin, end in fields[2]], *fields[3:])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._ask("these tokens", "decode", len(ids), {"decode": list(ids)})["text"])

    def _ask(self, doing: str, kind: str, size: int, wish: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] | None = {"spent": True}
        if size < self._most[kind]:
            answer = self._worker.ask(wish)
            if answer == {"spent": True}:
                self._most[kind] = size // 2 + 1
        if answer is None:
            raise InputError(
                "the process in which this tokenizer's regular expressions are tried has ended twice at {doing}, "
                "as where memory is short or the machine busy: try again, shorten it, or choose another model",
                doing=doing,
            )
        if answer.get("spent"):
            raise InputError(
                "the regular expressions of this tokenizer take longer than {seconds:g} s for {doing}: shorten "
                "it, or choose another model",
                seconds=SECONDS,
                doing=doing,
            )
        if answer.get("panic"):
            raise CheckpointError(
                "the tokenizer fails at {doing}: {told}; give another tokenizer.json", doing=doing, told=answer["error"]
            )
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def cutter(inner: tokenizers.Tokenizer) -> Cutter:
    """Cutter of texts by a tokenizer, which must not change from now on."""
    return Cutter(inner) if all(map(is_known, expressions(inner))) else CutterElsewhere(inner)


def is_known(expression: str) -> bool:
    """True if a regular expression takes time in proportion to a text: one of KNOWN, or plain characters."""
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
    """The other process of a tokenizer, for any thread: one wish at a time. It begins when it is needed, and ends where
    a wish takes too long or is superseded, or where it has idled longest when one more is to live.
    """

    _alive: ClassVar[set[Worker]] = set()  # at most MOST
    _places: ClassVar = RLock("tokenizer processes")  # around it

    def __init__(self, tokenizer: dict[str, Any]) -> None:
        """tokenizer: what the process reads first."""
        self._tokenizer = json.dumps(tokenizer) + "\n"
        self._lock = Lock("tokenizer process")
        self._process: subprocess.Popen[str] | None = None
        self._used = 0.0

    def ask(self, wish: dict[str, Any]) -> dict[str, Any] | None:
        """Answer to a wish; `spent` where it used its time up; None where the process ended twice for another reason.

        Raises:
            SupersededError: nobody waits for it any more.
        """
        while not self._lock.acquire(timeout=STEP):
            cancellation.check_waiting()
        try:
            self._used = time.monotonic()
            line = json.dumps({**wish, "seconds": SECONDS}) + "\n"
            return self._answer(line) or self._answer(line)
        finally:
            self._lock.release()

    def stop(self) -> None:
        """End the process; the next wish begins another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # closes the pipes
            self._process = None
        with self._places:
            self._alive.discard(self)

    def _answer(self, line: str) -> dict[str, Any] | None:
        late = time.monotonic() + SECONDS + PATIENCE
        if self._process is None or self._process.poll() is not None:
            self._begin()
            line, late = self._tokenizer + line, time.monotonic() + LOADING + SECONDS + PATIENCE
        process = self._process
        assert process is not None
        lines: list[str] = []
        thread = threading.Thread(target=_exchange, args=(process, line, lines), daemon=True)
        thread.start()
        try:
            thread.join(STEP)
            while thread.is_alive():
                cancellation.check_waiting()
                if time.monotonic() > late:
                    process.kill()
                thread.join(STEP)
        finally:
            if not (lines and lines[0].endswith("\n")):
                process.kill()
                thread.join()
                self.stop()
        if self._process is None:
            return {"spent": True} if process.returncode == -signal.SIGPROF else None
        answer: dict[str, Any] = json.loads(lines[0])
        return answer

    def _begin(self) -> None:
        self.stop()
        while not self._has_place():
            cancellation.check_waiting()
            time.sleep(STEP)
        command, pipe = [sys.executable, "-I", str(WORKER)], subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def _has_place(self) -> bool:
        """True if it may live, if need be in the place of the one that has idled longest."""
        with self._places:
            if len(self._alive) >= MOST:
                workers = sorted(self._alive, key=lambda worker: worker._used)
                idle = next((worker for worker in workers if worker._lock.acquire(blocking=False)), None)
                if idle is None:
                    return False
                idle.stop()
                idle._lock.release()
            self._alive.add(self)
            return True


def _exchange(process: subprocess.Popen[str], line: str, lines: list[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):  # it has ended
        process.stdin.write(line)
        process.stdin.flush()
        lines.append(process.stdout.readline())
