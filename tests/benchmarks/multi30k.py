"""Multi30k, English to German: trains the model that RESULTS.md tells of, and translates test_2016_flickr.

    python -m tests.benchmarks.multi30k FOLDER OUT [--cycles 3] [--steps STEPS] [--length-penalty 1.6]

FOLDER holds .en.gz and .de.gz of train, val and test_2016_flickr. It takes hours on a CPU: stopped with Ctrl-C, the
same command goes on. The rate rises and falls as a cosine once in each cycle, which begins with the averaged weights
of the one before (warm restarts: Loshchilov and Hutter, 2017). The weights stay in OUT-1, OUT-2 …; the repository
keeps none.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from model.checkpoints.load import open_checkpoint
from model.data.pairs import Pair
from model.inference.text_model import TextModel
from tests.benchmarks.results import at_least_one

ROOT = Path(__file__).parents[2]
BEAM, LENGTH_PENALTY = 5, 1.6  # the best one on the validation set
NETWORK = "--preset small --d-model 128 --n-heads 4 --d-ff 256 --n-encoder-layers 4 --n-decoder-layers 4".split()
NETWORK += "--norm-placement pre --tied-embeddings all --units joint --vocabulary 6000".split()
NETWORK += ["--attention-dropout", "0.1"]
TRAINING = "--batch-tokens 4096 --schedule cosine --label-smoothing 0.1".split()
TRAINING += "--average 0.998 --bpe-dropout 0.2 --precision bfloat16".split()
CYCLES = ("--steps 8000 --rate 4e-3 --warmup 800 --dropout 0.2 --seed 1".split(),)
CYCLES += ("--steps 5000 --rate 2e-3 --warmup 300 --dropout 0.25 --seed 2".split(),)
CYCLES += ("--steps 4500 --rate 2e-3 --warmup 300 --dropout 0.25 --seed 3".split(),)


def pairs_of(folder: Path, part: str) -> list[Pair]:
    """The pairs of a part, lower-cased.

    Raises:
        ValueError: a file is missing, or the two do not have as many lines.
    """
    english, german = (_lines(folder / f"{part}.{language}.gz") for language in ("en", "de"))
    if len(english) != len(german):
        raise ValueError(f"{folder}: {part} has {len(english)} English lines and {len(german)} German ones")
    return [Pair(*both) for both in zip(english, german, strict=True) if all(both)]


def _lines(path: Path) -> list[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            return [" ".join(line.lower().split()) for line in file]
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error}): give the folder of Multi30k's .gz files") from error


def write_tsv(path: Path, pairs: Sequence[Pair]) -> Path:
    """As `python -m model train` reads them."""
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return path


def place_of(out: Path, cycle: int) -> Path:
    """Where the weights of a cycle go, counted from 1."""
    return out.parent / f"{out.name}-{cycle}"


def training_options(data: Path, validation: Path, out: Path, cycle: int, steps: int = 0) -> list[str]:
    """Those of `python -m model` for a cycle; the same ones go on with a run. steps: 0 for as many as it has."""
    places = ["--data", str(data), "--validation", str(validation), "--out", str(place_of(out, cycle))]
    shorter = ["--steps", str(steps), "--warmup", "0"] if steps else []  # the later ones of an option count
    network = NETWORK if cycle == 1 else ["--start", str(place_of(out, cycle - 1))]
    return ["train", *places, *network, *TRAINING, *CYCLES[cycle - 1], *shorter]


def score(model: TextModel, pairs: Sequence[Pair], length_penalty: float = LENGTH_PENALTY) -> tuple[float, str]:
    """BLEU of the translations with a beam, upper and lower case alike, and sacrebleu's signature."""
    written = model.generate_batch([pair.source for pair in pairs], beam=BEAM, length_penalty=length_penalty)
    bleu = BLEU(lowercase=True)
    found = bleu.corpus_score([made.text for made in written], [[pair.target for pair in pairs]])
    return found.score, str(bleu.get_signature())


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on Multi30k, and translate test_2016_flickr.")
    parser.add_argument("folder", type=Path, help="where the .gz files are")
    parser.add_argument("out", type=Path, help="folders of the checkpoints to write, without their numbers")
    parser.add_argument(
        "--cycles", type=int, choices=range(1, len(CYCLES) + 1), default=len(CYCLES), help="of the rate"
    )
    parser.add_argument("--steps", type=at_least_one, default=0, help="of each cycle, in the place of its thousands")
    parser.add_argument(
        "--length-penalty", type=float, default=LENGTH_PENALTY, help=f"of the beam search ({LENGTH_PENALTY})"
    )
    options = parser.parse_args()
    try:
        train, validation, test = (pairs_of(options.folder, part) for part in ("train", "val", "test_2016_flickr"))
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        data = write_tsv(Path(folder) / "multi30k.tsv", train), write_tsv(Path(folder) / "val.tsv", validation)
        for cycle in range(1, options.cycles + 1):
            command = training_options(*data, options.out.resolve(), cycle, options.steps)
            if status := subprocess.run([sys.executable, "-m", "model", *command], cwd=ROOT, check=False).returncode:
                raise SystemExit(status)
    bleu, signature = score(open_checkpoint(place_of(options.out, options.cycles)), test, options.length_penalty)
    print(f"test_2016_flickr, beam {BEAM}, length penalty {options.length_penalty}: {bleu:.2f} BLEU ({signature})")


if __name__ == "__main__":
    main()
