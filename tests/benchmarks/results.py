"""What benchmarks share: works timed in turn, and RESULTS.md, each section with its date and its machine."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "RESULTS.md"
HEADING = (
    "# Results\n\nMeasured by `python -m tests.benchmarks.NAME --write`; each section has its own day and machine.\n"
)


def in_turn(
    works: Mapping[str, Callable[[], object]], rounds: int, warm: int = 1, least: float = 0.0
) -> dict[str, list[float]]:
    """Seconds of each work in every round; the order turns round each time, so that none always follows another.

    warm: calls of each before the first that counts. least: seconds that all rounds together take at least.
    """
    for work in works.values():
        for _ in range(warm):
            work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    order, began, done = list(works), time.perf_counter(), 0
    while done < rounds or time.perf_counter() - began < least:
        for name in order:
            start = time.perf_counter()
            works[name]()
            seconds[name].append(time.perf_counter() - start)
        order.reverse()
        done += 1
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], slow: str, fast: str) -> float:
    """Median over the rounds of how many times the time of `fast` that `slow` takes."""
    return statistics.median(a / b for a, b in zip(seconds[slow], seconds[fast], strict=True))


def options(description: str, **numbers: tuple[int, str]) -> argparse.ArgumentParser:
    """The options of a benchmark: numbers, each with its default and its help, and whether RESULTS.md is written."""
    parser = argparse.ArgumentParser(description=description)
    for name, (default, words) in numbers.items():
        parser.add_argument(f"--{name}", type=at_least_one, default=default, help=words)
    parser.add_argument("--write", action="store_true", help="put the figures into RESULTS.md")
    return parser


def at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("it is at least 1")
    return number


def publish(title: str, lines: Sequence[str], written: bool) -> None:
    """Print the figures, and put them into RESULTS.md where that is wished."""
    text = "\n".join(lines)
    print(text)
    if written:
        write(title, f"```text\n{text}\n```")


def machine() -> str:
    """The processor, its cores, and the torch that computes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{processor()}, {cores} cores, Python {platform.python_version()}, "
        f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    )


def processor() -> str:
    """The processor's name; without /proc/cpuinfo, whatever the platform calls it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(title: str, body: str) -> None:
    """Put a section of this title into RESULTS.md, dated today, in the place of an older one."""
    section = f"## {title}\n\n{datetime.date.today().isoformat()}, {machine()}\n\n{body.strip()}\n"
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else HEADING
    RESULTS.write_text(replaced(text, section), encoding="utf-8")


def printed(rows: Iterable[list[str]]) -> str:
    """Rows as a table, each printed as soon as it is there."""
    table = []
    for row in rows:
        table.append("| " + " | ".join(row) + " |")
        print(table[-1], flush=True)
    return "\n".join(table)


def replaced(text: str, section: str) -> str:
    """`text` with `section` in the place of the one of the same heading, else at the end."""
    head, *sections = ("\n" + text.strip() + "\n").split("\n## ")
    new = section.strip().removeprefix("## ")
    title = new.splitlines()[0]
    titles = [old.splitlines()[0] for old in sections]
    if title in titles:
        sections[titles.index(title)] = new
    else:
        sections.append(new)
    return "\n\n## ".join(part.strip() for part in (head, *sections)) + "\n"
