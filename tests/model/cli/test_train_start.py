"""python -m model train --start: begins with the weights of a checkpoint."""

from pathlib import Path

import pytest
import torch

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from tests.model.examples import sentences, write_pairs

RUN = "--epochs 1 --batch-tokens 700 --warmup 1 --average 0".split()
SMALL = "--preset tiny --d-model 8 --n-heads 2 --d-ff 8 --vocabulary 90".split()


def trained(folder: Path, name: str, *options: str) -> Path:
    if not (folder / "pairs.tsv").exists():
        write_pairs(folder / "pairs.tsv", sentences(200))
    place = folder / name
    assert main(["train", "--data", str(folder / "pairs.tsv"), "--out", str(place), *RUN, *options]) == 0
    return place


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_it_begins_where_the_other_ended(kind, tmp_path, capsys):
    first = open_checkpoint(trained(tmp_path, "first", "--kind", kind, *SMALL))
    # The rate rises in so many steps that the first ones hardly move a weight.
    slow = ["--warmup", "1000000", "--rate", "1e-9", "--dropout", "0.4"]
    second = open_checkpoint(trained(tmp_path, "second", "--start", str(tmp_path / "first"), *slow))
    assert second.kind == kind
    assert second.config.dropout == 0.4
    assert second.source_tokenizer.to_json() == first.source_tokenizer.to_json()
    theirs = dict(first.network.named_parameters())
    for name, weight in second.network.named_parameters():
        torch.testing.assert_close(weight, theirs[name], rtol=0, atol=1e-6)
    card = (tmp_path / "second" / "README.md").read_text(encoding="utf-8")
    assert "Trained on in Vitrine from first (trained on `pairs.tsv`: licence not recorded)." in card
    assert "not comparable" not in card + capsys.readouterr().out
    write_pairs(tmp_path / "pairs.tsv", sentences(150))  # others under the same name
    third = trained(tmp_path, "third", "--start", str(tmp_path / "first"))
    said = "Its validation loss is not comparable with that of first"
    assert f"note: {said}" in capsys.readouterr().out
    assert said in (third / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--d-model", "16"], "d_model (16)"),
        (["--units", "characters"], "units (characters)"),
        (["--vocabulary", "70"], "vocabulary (70)"),
        (["--kind", "encoder-only"], "kind (encoder-only)"),
        (["--preset", "small"], "preset (small)"),
    ],
)
def test_another_network_is_refused(options, named, tmp_path, capsys):
    first = trained(tmp_path, "first", *SMALL)
    capsys.readouterr()
    begun = ["train", "--data", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "second"), "--start", str(first)]
    assert main([*begun, *options]) != 0
    assert capsys.readouterr().err.startswith(f"error: {named} must be left out with --start: ")
    assert not (tmp_path / "second").exists()


def test_a_run_goes_on_only_from_where_it_began(tmp_path, capsys):
    for name in ("first", "second"):
        trained(tmp_path, name, *SMALL)
    trained(tmp_path, "third", "--start", str(tmp_path / "first"))
    again = ["train", "--data", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "third"), *RUN, "--epochs", "2"]
    capsys.readouterr()
    assert main([*again, "--start", str(tmp_path / "second")]) != 0
    assert "is of a run that did not begin with that checkpoint: leave out --start" in capsys.readouterr().err
    assert main([*again, "--start", str(tmp_path / "first")]) == 0
    assert "going on at step" in capsys.readouterr().out
    assert "Trained on in Vitrine from first" in (tmp_path / "third" / "README.md").read_text(encoding="utf-8")
    assert main([*again, "--start", str(tmp_path / "third")]) != 0
    assert "give --out another folder" in capsys.readouterr().err
