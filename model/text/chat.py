"""Conversations as texts, by the template of a tokenizer, which runs in a process of its own; and what of them the
assistant wrote.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.message import InputError
from model.runtime.untrusted_json import parse_json
from model.text.chat_worker import BEGIN, END, SECONDS

MARKED = re.compile(r"\{%[-+]?\s*generation\b")
LARGEST = 1 << 20  # letters of a text
WORKER = Path(__file__).with_name("chat_worker.py")


@dataclass(frozen=True)
class Turn:
    """Message of one role in a conversation."""

    role: str
    content: str


@dataclass(frozen=True)
class Conversation:
    """Text of a conversation. written: begin and end of each piece that the assistant wrote, as places in the text;
    None: the template does not tell.
    """

    text: str
    written: tuple[tuple[int, int], ...] | None

    def counts(self, ends: Sequence[int]) -> list[bool]:
        """True for each token that the loss counts, as one that the assistant wrote. ends: of the tokens in the text.

        Raises:
            ValueError: the template does not tell.
        """
        if self.written is None:
            raise ValueError("the template does not tell which part of a text the assistant wrote")
        begins = [0, *ends[:-1]]
        return [
            any(first <= begin and end <= last and begin < end for first, last in self.written)
            for begin, end in zip(begins, ends, strict=True)
        ]


def converse(
    template: str,
    turns: Sequence[Turn],
    names: Mapping[str, str],
    prompt: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
    thinking: bool | None = None,
) -> Conversation:
    """Conversation as the template writes it. names: of special tokens, such as bos_token. prompt: whether the text
    ends where the assistant is to begin. tools: that the assistant may call, each as a JSON schema, see `tools_in`.
    thinking: what the template is told as `enable_thinking`; None: nothing.

    What the assistant wrote is what the template puts between `generation` and `endgeneration`; without these, what its
    turn adds to the text that asks for it.

    Raises:
        ValueError: the template refuses the conversation, is no template, or takes too long.
    """
    messages = [{"role": turn.role, "content": turn.content} for turn in turns]
    marked = bool(MARKED.search(template))
    places = [] if marked else [number for number, turn in enumerate(turns) if turn.role == "assistant"]
    requests = [
        (messages, prompt),
        *((messages[:number], True) for number in places),
        *((messages[: n + 1], False) for n in places),
    ]
    given: dict[str, Any] = {"tools": None if tools is None else list(tools), "documents": None, **names}
    given |= {} if thinking is None else {"enable_thinking": thinking}
    named = [{"messages": part, "add_generation_prompt": begin, **given} for part, begin in requests]
    text, *parts = _rendered(template, named)
    if marked:
        return Conversation(*_without_marks(text))
    before, after = parts[: len(places)], parts[len(places) :]
    spans = [(len(one), len(other)) for one, other in zip(before, after, strict=True)]
    known = all(text.startswith(each) for each in after) and all(
        other.startswith(one) for one, other in zip(before, after, strict=True)
    )
    return Conversation(text, tuple(spans) if known else None)


def tools_in(text: str) -> list[dict[str, Any]] | None:
    """Tools in a JSON text, a list of one object each; a single object is a list of one. None: the text is empty.

    Raises:
        ValueError: it is something else.
    """
    if not text.strip():
        return None
    tools = parse_json(text.encode("utf-8", "replace"), "the list of tools")
    tools = [tools] if isinstance(tools, dict) else tools
    if not isinstance(tools, list) or not all(isinstance(each, dict) for each in tools):
        raise ValueError("the list of tools must be a list of JSON objects, one for each tool")
    return tools


def takes(template: str, name: str) -> bool:
    """True if a template speaks of what it may be told by this name, such as tools."""
    return re.search(rf"\b{name}\b", template) is not None


def _without_marks(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Text without the marks, and the places between them."""
    plain, spans = "", []
    for number, piece in enumerate(text.replace(END, BEGIN).split(BEGIN)):
        if number % 2:
            spans.append((len(plain), len(plain) + len(piece)))
        plain += piece
    return plain, tuple(spans)


def _rendered(template: str, several: Sequence[Mapping[str, Any]]) -> list[str]:
    """Texts of a template for several conversations.

    Raises:
        ValueError: as of `converse`.
    """
    command = [sys.executable, "-I", str(WORKER)]
    request = json.dumps({"template": template, "several": list(several)})
    try:
        done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=5 * SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(
            "the template of conversations took longer than {seconds} s: it is broken off", seconds=5 * SECONDS
        ) from error
    if done.returncode or not done.stdout:
        raise ValueError("the template of conversations takes too much time or memory: it is broken off")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InputError("the template of conversations refuses this one: {answer}", answer=answer["error"])
    texts = [str(text) for text in answer["texts"]]
    if any(len(text) > LARGEST for text in texts):
        raise InputError(
            "the template of conversations writes more than {largest:,} letters: shorten what is said", largest=LARGEST
        )
    return texts
