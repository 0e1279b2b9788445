"""What the benchmark of Multi30k reads, how it trains and how it scores, on a few sentences and a tiny model."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from sacrebleu import corpus_bleu

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.data.pairs import Pair
from model.data.readers import read_pairs
from model.text.tokenizer_training import train_bpe
from tests.benchmarks.multi30k import BEAM, CYCLES, pairs_of, place_of, score, training_options, write_tsv
from tests.model.examples import network, sentences


def write_part(folder: Path, part: str, english: str, german: str) -> None:
    for language, text in {"en": english, "de": german}.items():
        (folder / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))


def test_pairs_are_lower_cased_and_read_by_the_command(tmp_path) -> None:
    write_part(tmp_path, "train", 'A "Dog"\truns .\nTwo  Men.\n\n', "Ein Hund läuft.\nZwei Männer.\nÜbrig.\n")
    pairs = pairs_of(tmp_path, "train")
    assert pairs == [Pair('a "dog" runs .', "ein hund läuft."), Pair("two men.", "zwei männer.")]
    assert read_pairs(write_tsv(tmp_path / "pairs.tsv", pairs)) == pairs


def test_parts_that_do_not_belong_together_are_refused(tmp_path) -> None:
    write_part(tmp_path, "train", "One.\n", "Eins.\nZwei.\n")
    with pytest.raises(ValueError, match="train has 1 English lines and 2 German ones"):
        pairs_of(tmp_path, "train")
    with pytest.raises(ValueError, match=r"test_2016_flickr\.en\.gz cannot be read"):
        pairs_of(tmp_path, "test_2016_flickr")


def test_the_command_takes_the_options(tmp_path, capsys) -> None:
    data = write_tsv(tmp_path / "pairs.tsv", [Pair(pair.source, pair.source) for pair in sentences(60)])
    for cycle in range(1, len(CYCLES) + 1):
        if cycle > 1:
            tokenizer = train_bpe([pair.source for pair in sentences(60)], 90)
            sizes = {"source_vocabulary": len(tokenizer), "target_vocabulary": len(tokenizer)}
            save_checkpoint(place_of(tmp_path / "out", cycle - 1), network(**sizes), (tokenizer, tokenizer))
        assert main([*training_options(data, data, tmp_path / "out", cycle), "--dry-run"]) == 0
        assert not place_of(tmp_path / "out", cycle).exists()
        assert "parameters" in capsys.readouterr().out


def test_the_score_is_sacrebleus_without_case(tmp_path) -> None:
    texts = [pair.source for pair in sentences(60)]
    tokenizer = train_bpe(texts, 90)
    sizes = {"source_vocabulary": len(tokenizer), "target_vocabulary": len(tokenizer)}
    save_checkpoint(tmp_path / "c", network(**sizes), (tokenizer, tokenizer))
    model = open_checkpoint(tmp_path / "c")
    made = [model.generate(text, beam=BEAM, length_penalty=1.0).text for text in texts[:3]]
    references = [f"{made[0].upper()} The cat", made[1], "The dog sees a cat"]
    expected = corpus_bleu(made, [references], lowercase=True).score
    found, signature = score(model, [Pair(*both) for both in zip(texts, references, strict=False)])
    assert found == pytest.approx(expected)
    assert found > 0
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|")
