"""python -m model train | evaluate | generate | inspect | experiment | lesson"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one line: the usage of `train` would fill a screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0, 2 after an error, 130 when stopped."""
    try:
        return _run(arguments)
    except KeyboardInterrupt as error:  # also in the seconds that it takes to import torch
        if os.environ.get("LOCAL_RANK", "0") == "0":  # as in `distributed.prints_errors`, which may not be there yet
            print(*error.args or ("stopped",), file=sys.stderr)
        return 130


def _run(arguments: Sequence[str] | None) -> int:
    from model.cli import evaluate, experiment, generate, inspect, lesson, train
    from model.runtime.errors import NO_MEMORY_LEFT, is_out_of_memory
    from model.training.distributed import prints_errors

    parser = Parser(
        prog="python -m model", description="Train a Transformer, measure it, let it write, or look into its file."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (train, evaluate, generate, inspect, experiment, lesson):
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it, as in "… | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, FloatingPointError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError | RuntimeError) and not is_out_of_memory(error):
            raise
        if prints_errors():
            print(f"error: {NO_MEMORY_LEFT if is_out_of_memory(error) else error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
