"""python -m model train | evaluate | generate | inspect"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from model.commands import evaluate, generate, inspect, train
from model.processes import speaks


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m model", description="Train a Transformer, measure it, let it write, or look into its file."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (train, evaluate, generate, inspect):
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough, as in "… | head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, FloatingPointError, OSError) as error:
        if speaks():
            print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
