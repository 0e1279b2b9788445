"""RESULTS.md: the figures of every benchmark, each section with its date and the machine it was measured on."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "RESULTS.md"
HEADING = (
    "# Results\n\nMeasured by `python -m tests.benchmarks.NAME --write`; each section has its own day and machine.\n"
)


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
