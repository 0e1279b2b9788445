"""python -m model lesson check: lessons of a folder, opened and answered without a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command to those of argparse."""
    parser = commands.add_parser(
        "lesson",
        help="check lessons before they are given",
        description="Open every state of the lessons of a folder, answer every question, follow every link; prints a "
        "line a lesson, then what is wrong, each with its file and line. The exit status is 1 if anything is.",
    )
    parser.add_argument("action", choices=("check",))
    parser.add_argument("folder", type=Path, help="folder with the lessons' files, NAME.LANGUAGE.md")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print a line for each lesson, then the faults.

    Raises:
        SystemExit: with status 1, there are faults.
    """
    from model.lessons.check import check_folder

    faults = []
    for check in check_folder(options.folder):
        faults += check.faults
        if check.lesson is not None:
            print(check.line)
    if faults:
        print(*faults, sep="\n")
        raise SystemExit(1)
