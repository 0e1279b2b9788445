"""Lesson: one Markdown file with a front matter, split into steps, each with a state, a text, perhaps a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from model.lessons.light import Light
from model.lessons.questions import Question
from model.lessons.state import State
from model.message import InputError, Message
from model.runtime.files import open_file

ENDING = ".md"
LARGEST = 200_000  # bytes of a file
LONGEST_RECORD = 4000  # characters of a front matter, a question
MOST = 200  # files of a folder
LANGUAGES = ("en", "zh")
BLOCKS = ("state", "question", "light", "notes")  # that a step may have, beside its text
PARAGRAPHS = {"paragraph_open", "paragraph_close", "inline", "fence"}
LISTS = {f"{name}_{end}" for name in ("bullet_list", "ordered_list", "list_item") for end in ("open", "close")}
STYLES: dict[str, Style] = {"strong": "strong", "em": "emphasis", "link": "link"}

Style = Literal["", "strong", "emphasis", "code", "link"]


@dataclass(frozen=True)
class Span:
    """Text of one style. address: of a link: a lesson's file, a page of ours, or another site."""

    content: str
    style: Style = ""
    address: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Text of a paragraph, or of an item of a list. number: of a numbered item, 0 of another, None of no list."""

    spans: tuple[Span, ...]
    number: int | None = None


@dataclass(frozen=True)
class Step:
    """Step of a lesson.

    state: None where the one of before stays. line: of its title in the file. lights: what is lit up in it. notes: for
    the teacher alone. minutes: that it is planned to take, None where nothing says so. state_line: of its own state.
    """

    title: str
    paragraphs: tuple[Paragraph, ...]
    state: State | None
    question: Question | None
    line: int
    lights: tuple[Light, ...] = ()
    notes: tuple[Paragraph, ...] = ()
    minutes: int | None = None
    state_line: int = 0

    @property
    def links(self) -> list[str]:
        """Addresses that its text leads to."""
        return [span.address for paragraph in self.paragraphs for span in paragraph.spans if span.style == "link"]


@dataclass(frozen=True)
class Lesson:
    """Lesson, as its file has it. name: of the file, up to its first dot. minutes: that it takes, in class where it has
    others `alone`, of one who reads it by himself.
    """

    name: str
    title: str
    minutes: int
    level: str
    model: str
    language: str
    steps: tuple[Step, ...]
    file: str = ""
    alone: int | None = None


def read_folder(folder: Path) -> tuple[list[Lesson], list[InputError]]:
    """Lessons of a folder, by the names of their files, and the sentence of each file that is none.

    Raises:
        ValueError: there is no such folder.
    """
    if not folder.is_dir():
        raise InputError("{folder} is no folder of lessons", folder=folder.name)
    lessons, faults = [], []
    for file in sorted(folder.glob(f"*{ENDING}"))[:MOST]:
        if file.name == "README.md":
            continue
        try:
            lessons.append(read_lesson(file))
        except InputError as error:
            faults.append(error)
    return lessons, faults


def read_lesson(file: Path) -> Lesson:
    """Lesson of a file.

    Raises:
        ValueError: it is none; the sentence names the file and the line.
    """
    try:
        with open_file(file) as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise error_at(file.name, 1, Message("it is longer than {most:,} bytes", most=LARGEST))
        text = content.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise error_at(file.name, 1, Message("it cannot be read as UTF-8")) from error
    return parse(text, file.name)


def error_at(file: str, line: int, problem: str) -> InputError:
    """Error at a line of a lesson's file."""
    return InputError("{file}, line {line}: {problem}", file=file, line=line, problem=problem)


def parse(text: str, file: str) -> Lesson:
    """Lesson of a text. file: name by which errors call it.

    Raises:
        ValueError: it is none; the sentence names the file and the line.
    """
    lines = text.split("\n")
    if lines[0].strip() != "---" or "---" not in (rest := [line.rstrip() for line in lines[1:]]):
        raise error_at(
            file, 1, Message("a lesson begins with its title, minutes, level, model, language between lines ---")
        )
    end = rest.index("---") + 1
    record = _record("\n".join(lines[1:end]), file, 1)
    # Lines of the front matter stay, empty: the numbers of all others are those of the file.
    body = "\n" * (end + 1) + "\n".join(lines[end + 1 :])
    steps = tuple(_steps(body, file))
    if not steps:
        raise error_at(file, end + 1, Message("there is no step: a step begins with ## and its title"))
    name = file.partition(".")[0]
    return Lesson(name=name, steps=steps, file=file, **_front_matter(record, file))


def _front_matter(record: dict[str, Any], file: str) -> dict[str, Any]:
    kinds = {"title": str, "minutes": int, "level": str, "model": str, "language": str}
    if "alone" in record:
        kinds["alone"] = int
    for name, kind in kinds.items():
        if type(record.get(name)) is not kind or not record[name]:
            if kind is int:
                raise error_at(file, 1, Message("{name} is missing, or is no whole number", name=name))
            raise error_at(file, 1, Message("{name} is missing, or is no text", name=name))
    if others := set(record) - set(kinds):
        raise error_at(
            file, 1, Message("{name!r} is not known here: leave it out", name=str(min(others, key=str))[:40])
        )
    if record["language"] not in LANGUAGES:
        raise error_at(file, 1, Message("language ({language!r}) must be en or zh", language=record["language"][:20]))
    for name in ("minutes", "alone"):
        if name in kinds and not 0 < record[name] < 1000:
            words = Message("{name} ({minutes}) must be between 1 and 999", name=name, minutes=record[name])
            raise error_at(file, 1, words)
    return {name: record[name] for name in kinds}


def _record(text: str, file: str, before: int) -> dict[str, Any]:
    """YAML of names and values. before: number of lines of the file before it."""
    if len(text) > LONGEST_RECORD:
        raise error_at(file, before + 1, Message("this is longer than {most:,} characters", most=LONGEST_RECORD))
    try:
        record = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        problem = Message("this is no YAML: {problem}", problem=str(error.problem)[:200])
        raise error_at(file, before + line + 1, problem) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise error_at(file, before + 1, Message("this is no YAML: {problem}", problem=str(error)[:200])) from error
    if not isinstance(record, dict):
        raise error_at(file, before + 1, Message("here names and values are expected, one a line: name: value"))
    return record


def _steps(body: str, file: str) -> Iterator[Step]:
    """Steps of the Markdown below the front matter."""
    tokens = MarkdownIt("commonmark", {"html": False}).parse(body)
    starts = [place for place, token in enumerate(tokens) if token.type == "heading_open"]
    if not starts:
        return
    if before := tokens[: starts[0]]:
        raise error_at(
            file, _line(before[0]), Message("this stands before the first step: a step begins with ## and its title")
        )
    state: State | None = None
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        line = _line(tokens[start])
        if tokens[start].tag != "h2":
            raise error_at(file, line, Message("a step begins with ## and its title: there are no other headings"))
        title = "".join(span.content for span in _spans(tokens[start + 1], file))
        inside = tokens[start + 3 : end]
        blocks = _blocks(inside, file)
        own = _state(blocks, file)
        state = own or state
        if state is None:
            raise error_at(file, line, Message("the first step needs an address in a block ```state"))
        notes, minutes = _notes(blocks, file)
        question, lights = _question(blocks, state, file), _lights(blocks, file)
        state_line = _line(blocks["state"]) + 1 if own else 0
        yield Step(title, tuple(_paragraphs(inside, file)), own, question, line, lights, notes, minutes, state_line)


def _blocks(tokens: Sequence[Token], file: str) -> dict[str, Token]:
    """Fenced blocks of a step, by what they are called."""
    blocks: dict[str, Token] = {}
    for token in tokens:
        if token.type == "fence":
            name = token.info.strip()
            if name not in BLOCKS or name in blocks:
                problem = Message("a step has at most one block each of {names}, and no other", names=", ".join(BLOCKS))
                raise error_at(file, _line(token), problem)
            blocks[name] = token
    return blocks


def _state(blocks: dict[str, Token], file: str) -> State | None:
    if (token := blocks.get("state")) is None:
        return None
    state: State = _checked(State.read, token.content, file=file, line=_line(token) + 1)
    return state


def _question(blocks: dict[str, Token], state: State, file: str) -> Question | None:
    if (token := blocks.get("question")) is None:
        return None
    first = _line(token)
    question: Question = _checked(Question.read, _record(token.content, file, first), state, file=file, line=first + 1)
    return question


def _lights(blocks: dict[str, Token], file: str) -> tuple[Light, ...]:
    if (token := blocks.get("light")) is None:
        return ()
    lines = enumerate(token.content.split("\n"), _line(token) + 1)
    return tuple(_checked(Light.read, content, file=file, line=line) for line, content in lines if content.strip())


def _notes(blocks: dict[str, Token], file: str) -> tuple[tuple[Paragraph, ...], int | None]:
    """Notes of a step, and its minutes, which may stand in their first line."""
    if (token := blocks.get("notes")) is None:
        return (), None
    first, _end, rest = token.content.partition("\n")
    name, colon, text = (part.strip() for part in first.partition(":"))
    minutes = None
    if name == "minutes" and colon:
        if not (text.isascii() and text.isdigit() and 0 < int(text[:4]) < 1000):
            raise error_at(file, _line(token) + 1, Message("{name} is missing, or is no whole number", name=name))
        minutes = int(text)
    body = "\n" * (_line(token) + 1) + rest if colon and minutes else "\n" * _line(token) + token.content
    return tuple(_paragraphs(MarkdownIt("commonmark", {"html": False}).parse(body), file)), minutes


def _checked(read: Any, *content: Any, file: str, line: int) -> Any:
    """What `read` makes of a block; its error has the line."""
    try:
        return read(*content)
    except ValueError as error:
        raise error_at(file, line, str(error)) from error


def _line(token: Token) -> int:
    """Line of a token in the file, from 1."""
    return token.map[0] + 1 if token.map else 1


def _paragraphs(tokens: Sequence[Token], file: str) -> Iterator[Paragraph]:
    numbers: list[int] = []
    for token in tokens:
        if token.type not in PARAGRAPHS | LISTS:
            raise error_at(
                file, _line(token), Message("only paragraphs and lists are shown here: no pictures, quotes, HTML")
            )
        if token.type in ("bullet_list_open", "ordered_list_open") and token.level:
            raise error_at(file, _line(token), Message("a list within a list is not shown"))
        if token.type == "list_item_open":
            numbers.append(int(token.info or 0))
        elif token.type == "list_item_close":
            numbers.pop()
        elif token.type == "inline":
            yield Paragraph(tuple(_spans(token, file)), numbers[-1] if numbers else None)


def _spans(token: Token, file: str) -> Iterator[Span]:
    """Text of a line with its styles; the innermost one counts."""
    styles: list[tuple[Style, str]] = [("", "")]
    for part in token.children or []:
        name, _, side = part.type.rpartition("_")
        if name in STYLES and side == "open":
            styles.append((STYLES[name], _target(str(part.attrGet("href") or ""), token, file)))
        elif name in STYLES:
            styles.pop()
        elif part.type in ("softbreak", "hardbreak"):
            yield Span(" ")
        elif part.type == "code_inline":
            yield Span(part.content, "code")
        elif part.type == "text":
            if part.content:
                yield Span(part.content, *styles[-1])
        else:
            raise error_at(
                file, _line(token), Message("only text, emphasis, code and links are shown here: no pictures")
            )


def _target(address: str, token: Token, file: str) -> str:
    """Address of a link: of a site, of a lesson, or of ours; "" where there is none.

    Raises:
        ValueError: it leads nowhere.
    """
    if address.startswith(("https://", "http://")) and urlsplit(address).hostname:
        return address
    if not address or ("/" not in address and address.endswith(ENDING)):
        return address
    return str(_checked(State.read, address, file=file, line=_line(token)).address)
