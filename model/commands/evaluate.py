"""python -m model evaluate: BLEU, chrF and loss of a checkpoint."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from model.card import card
from model.checkpoints import CARD, TRAINING, open_checkpoint
from model.data import Pair, in_split
from model.files import write_text
from model.inspectable import Inspectable
from model.reading import read_pairs

Figures = dict[str, float | int | str]
BATCH = 64  # sentences translated together


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="measure a translation model",
        description="Translate the test split, greedily or with a beam; print BLEU (sacrebleu, tokenizer zh) and chrF "
        "against all translations of each sentence.",
    )
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--data", type=Path, required=True, help="sentence, tab, translation on each line; UTF-8")
    parser.add_argument("--split", default="test", choices=["test", "validation"])
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N sentences with their translations")
    add_beam_options(parser)
    parser.set_defaults(run=run)


def add_beam_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beam", type=int, default=1, help="hypotheses kept in a beam search; 1 is greedy (1)")
    parser.add_argument(
        "--length-penalty", type=float, default=0.6, help="0: the most probable; the larger, the longer (0.6)"
    )


def run(options: argparse.Namespace) -> None:
    lens = open_checkpoint(options.checkpoint)
    pairs = in_split(read_pairs(options.data), options.split)
    if not pairs:
        raise ValueError(f"the {options.split} split of {options.data} is empty: it needs more sentences")
    figures, translations = measure(lens, pairs, options.beam, options.length_penalty)
    for source, text in list(translations.items())[: options.show]:
        print(f"{source}\t{text}")
    print_figures(figures)


def print_figures(figures: Figures) -> None:
    for name, value in figures.items():
        print(f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}")


def record_figures(folder: Path, pairs: list[Pair]) -> Figures:
    """Measure a checkpoint and write the figures into its training.json and model card."""
    lens = open_checkpoint(folder)
    figures, _ = measure(lens, pairs)
    record = {**lens.training, "test": figures}
    write_text(folder / TRAINING, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / CARD, card(lens.name, lens.config, lens.model.parameter_count(), record))
    return figures


def measure(
    lens: Inspectable, pairs: list[Pair], beam: int = 1, length_penalty: float = 0.6
) -> tuple[Figures, dict[str, str]]:
    """BLEU and chrF of the translations, and the translation of each source sentence."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    references: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(pair.target)
    sources = sorted(references, key=len)
    outputs: list[str] = []
    for first in tqdm(range(0, len(sources), BATCH), unit="batch", leave=False):
        batch = sources[first : first + BATCH]
        outputs += [made.text for made in lens.generate_batch(batch, beam=beam, length_penalty=length_penalty)]
    most = max(len(given) for given in references.values())
    # sacrebleu wants one list per reference number; None where a sentence has fewer, which its types omit.
    columns: Any = [[_get(references[source], number) for source in sources] for number in range(most)]
    bleu, chrf = BLEU(tokenize="zh"), CHRF()
    figures: Figures = {
        "sentences": len(sources),
        "BLEU": bleu.corpus_score(outputs, columns).score,
        "chrF": chrf.corpus_score(outputs, columns).score,
        "BLEU signature": str(bleu.get_signature()),
        "chrF signature": str(chrf.get_signature()),
    }
    return figures, dict(zip(sources, outputs, strict=True))


def _get(texts: list[str], number: int) -> str | None:
    return texts[number] if number < len(texts) else None
