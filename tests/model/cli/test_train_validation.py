"""python -m model train --validation: all of the data is trained on, and measured on other files."""

from pathlib import Path

import pytest

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.data.pairs import Pair
from model.data.sources import prepare
from tests.model.examples import sentences, write_pairs

pytestmark = pytest.mark.unchecked

RUN = "--vocabulary 90 --epochs 1 --batch-tokens 700 --preset tiny --d-model 8 --n-heads 2 --d-ff 8".split()


def files(folder: Path, kind: str, text: bool) -> list[str]:
    """For training, for validation, and others; 60, 12 and 9 different lines."""
    pairs, places = sentences(81), []
    for name, part in (("train", pairs[:60]), ("others", pairs[60:72]), ("new", pairs[72:])):
        path = folder / f"{name}.{'txt' if text else 'tsv'}"
        if text:
            path.write_text("".join(f"{source} {target}\n" for source, target in part), encoding="utf-8")
        else:
            write_pairs(path, [Pair(*each) for each in part])
        places.append(str(path))
    return places


def units_of(kind: str, text: bool) -> str:
    """What a record counts."""
    if kind == "encoder-only":
        return "training_sentences"
    return "training_characters" if text else "training_pairs"


CASES = [("encoder-decoder", False), ("decoder-only", False), ("encoder-only", False)]
CASES += [("decoder-only", True), ("encoder-only", True)]


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_all_of_the_data_is_trained_on(kind, text, tmp_path, capsys):
    train, others, new = files(tmp_path, kind, text)
    out = tmp_path / "run"
    given = ["train", "--data", train, "--validation", others, "--kind", kind, "--out", str(out), *RUN]
    assert main(given) == 0
    printed = capsys.readouterr().out
    record = open_checkpoint(out).training
    counted = {name: record.get(f"training_{name}") for name in ("pairs", "sentences", "characters")}
    assert [each for each in counted.values() if each] == [
        len(Path(train).read_text()) if counted["characters"] else 60
    ]
    assert (record["data"], record["validation_data"]) == (Path(train).name, Path(others).name)
    assert len(record["validations"]) == 1
    assert "test" not in record
    assert "best validation loss" in printed
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"`{Path(others).name}` is for validation" in card
    assert "SHA-1" not in card
    assert "last tenth" not in card
    assert main(["evaluate", str(out), "--data", new, "--split", "all"]) == 0
    figures = capsys.readouterr()
    assert f"note: {out.name} was trained on all" not in figures.err
    if kind != "decoder-only":
        assert "sentences: 9\n" in figures.out
    assert main(["evaluate", str(out), "--data", train]) == 0
    assert f"note: {out.name} was trained on all of {train}: measure it on another file\n" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_texts_to_validate_on_that_are_trained_on_too_are_counted(kind, text, tmp_path, capsys):
    train, others, _ = files(tmp_path, kind, text)
    lines = Path(train).read_text(encoding="utf-8").split("\n")
    with Path(others).open("a", encoding="utf-8") as file:
        file.writelines(f" {line}\n" for line in lines[3:8])
    given = ["train", "--data", train, "--validation", others, "--kind", kind, "--out", str(tmp_path / "run"), *RUN]
    assert main([*given, "--dry-run"]) == 0
    assert "the validation overlaps the training: 5 of 17 texts to validate on" in capsys.readouterr().out
    material = prepare(kind, train, None, 90, validation=others)
    assert material.record()["validation_overlap"] == [5, 17]
    assert prepare(kind, train, None, 90).overlap[0] == 0


def test_a_warm_up_longer_than_the_run_is_said(tmp_path, capsys):
    data = ["train", "--data", "task:copy:150", "--out", str(tmp_path / "run"), "--preset", "tiny", "--dry-run"]
    for warmup, said in ((10, False), (11, True), (40, True)):
        assert main([*data, "--steps", "10", "--warmup", str(warmup)]) == 0
        assert ("note: the warm-up has" in (printed := capsys.readouterr().out)) == said
    assert "the warm-up has 40 steps and the training 10: the rate ends at 2.5e-04 of 0.001, still rising" in printed


def test_an_empty_file_to_validate_on_is_refused(tmp_path, capsys):
    train, others, _ = files(tmp_path, "encoder-decoder", text=False)
    Path(others).write_text("", encoding="utf-8")
    assert main(["train", "--data", train, "--validation", others, "--out", str(tmp_path / "run"), *RUN]) == 2
    assert capsys.readouterr().err == f"error: {others} holds no sentence pairs\n"
