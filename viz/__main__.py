"""vitrine [CHECKPOINT], or python -m viz: the application of this tree, from any folder, with a checkpoint opened."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("app.py", ".streamlit/config.toml", "checkpoints")  # beside model/ and viz/: only a clone has all of them


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the application until it is stopped; the exit status: 2 after an error in the command line."""
    try:
        words = streamlit_words(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from streamlit.web.cli import main as streamlit  # after the command line: --help is there at once

    streamlit(words, prog_name="streamlit")
    return 0


def streamlit_words(arguments: Sequence[str] | None = None) -> list[str]:
    """Words for `streamlit` that do what the command line of `vitrine` asks for.

    Options that are not ours are Streamlit's, which says what it does not know.

    Raises:
        ValueError: nothing is where the checkpoint should be, there are two, or this is not a clone of the project.
    """
    parser = argparse.ArgumentParser(
        prog="vitrine",
        description="Open Vitrine in the browser. Stop it with Ctrl-C.",
        epilog="Options of Streamlit are passed on, with their values behind =, such as --server.port=8502.",
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", nargs="?", help="folder or file of a trained model, shown at first")
    parser.add_argument(
        *("--hints", "--told"),
        help="what its weights do not tell: heads:8,positions:none,start:1; --told is its old name",
    )
    options, others = parser.parse_known_args(arguments)
    if unknown := [word for word in others if not word.startswith("-")]:
        raise ValueError(f"one checkpoint is opened, and {' '.join(unknown)} is more; values of options stand behind =")
    if missing := [name for name in NEEDED if not (ROOT / name).exists()]:
        raise ValueError(
            f"{ROOT} has no {' and no '.join(missing)}, which pip does not copy: install Vitrine by "
            "pip install -e . from its clone, which then stays where it is"
        )
    words = ["run", str(ROOT / "app.py"), *others, "--"]
    if options.checkpoint:
        path = Path(options.checkpoint).expanduser().absolute()
        if not path.exists():
            value, given = options.checkpoint, sys.argv[1:] if arguments is None else arguments
            for option, word in pairwise(given):
                if word == value and option in others and "=" not in option:
                    raise ValueError(f"the value of {option} stands behind =: {option}={value}")
            raise ValueError(f"nothing is at {path}")
        words += ["--checkpoint", str(path)]
    return words + (["--hints", options.hints] if options.hints else [])


if __name__ == "__main__":
    sys.exit(main())
