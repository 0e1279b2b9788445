"""python -m model inspect: the table, its order and choice, the header, and errors in one sentence."""

import re

import pytest
import torch
from safetensors.torch import save_file

from model.__main__ import main
from model.checkpoints.native import save_checkpoint
from tests.model.examples import network, sentences, tokenizers

TENSORS = {
    "layers.10.weight": torch.full((2, 3), 2.0),
    "layers.2.weight": torch.full((5, 4), 0.5).half(),
    "layers.2.bias": torch.tensor([torch.nan, 30.0, torch.inf, -torch.inf, 40.0]),
    "count": torch.tensor(7),
}


def inspected(capsys, *arguments) -> list[list[str]]:
    """The cells of each printed row, without header and totals."""
    assert main(["inspect", *map(str, arguments)]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(lines) if re.match(r"name +shape +dtype", line))
    return [re.split(r"  +", line) for line in lines[start + 1 : -2]]


@pytest.fixture
def file(tmp_path):
    torch.save(TENSORS, tmp_path / "x.pt")
    return tmp_path / "x.pt"


def test_a_row_says_what_a_tensor_is(file, capsys):
    assert inspected(capsys, file) == [
        ["layers.10.weight", "2 × 3", "float32", "24", "4.899", "2"],
        ["layers.2.weight", "5 × 4", "float16", "40", "2.236", "0.5"],
        ["layers.2.bias", "5", "float32", "20", "50", "40", "1 NaN, 2 infinite"],
        ["count", "one number", "int64", "8", "7", "7"],
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--sort", "name"], ["count", "layers.2.bias", "layers.2.weight", "layers.10.weight"]),
        (["--sort", "size"], ["layers.2.weight", "layers.10.weight", "layers.2.bias", "count"]),
        (["--sort", "norm"], ["layers.2.bias", "count", "layers.10.weight", "layers.2.weight"]),
        (["--match", "weight"], ["layers.10.weight", "layers.2.weight"]),
        (["--match", "rs.?.*t", "--sort", "name"], ["layers.2.weight"]),
    ],
)
def test_rows_are_sorted_and_chosen(options, names, file, capsys):
    assert [row[0] for row in inspected(capsys, file, *options)] == names


def test_statistics_are_of_the_finite_values(tmp_path, capsys):
    torch.save(TENSORS | {"turned": torch.ones(1, dtype=torch.complex64)}, tmp_path / "x.pt")
    rows = inspected(capsys, tmp_path / "x.pt", "--statistics")
    assert rows[0][6:] == ["2", "0", "2", "2", "0"]
    assert rows[2][4:] == ["50", "40", "35", "5", "30", "40", "0", "1 NaN, 2 infinite"]
    assert rows[4] == ["turned", "1", "complex64", "8", "1", "1"]


def test_totals_count_tied_tensors_once(tmp_path, capsys):
    weight = torch.ones(4, 3)
    torch.save({"a": weight, "b": weight, "c": torch.ones(2)}, tmp_path / "x.pt")
    rows = inspected(capsys, tmp_path / "x.pt", "--match", "b")  # whose place has the name of one not shown
    assert rows == [["b", "4 × 3", "float32", "48", "3.464", "1", "same as a"]]
    assert main(["inspect", str(tmp_path / "x.pt")]) == 0
    assert capsys.readouterr().out.endswith("\n3 tensors in 2 places of the file; 14 parameters; 56 bytes\n")
    assert main(["inspect", str(tmp_path / "x.pt"), "--match", "c"]) == 0
    assert capsys.readouterr().out.endswith("\n1 tensor; 2 parameters; 8 bytes\n")


def test_a_checkpoint_of_ours_begins_with_its_records(tmp_path, capsys):
    both = tokenizers(sentences(50))
    model = network(source_vocabulary=len(both[0]), target_vocabulary=len(both[1]))
    record = {"data": "x.tsv", "steps": 12, "settings": {"rate": 0.001}, "validations": [[1, 2.0]]}
    save_checkpoint(tmp_path / "c", model, both, record)
    assert main(["inspect", str(tmp_path / "c")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "d_model 16, n_heads 2" in lines[0]
    assert lines[1:3] == ["training.json: data x.tsv, steps 12, settings (rate 0.001)", ""]
    parameters = dict(model.named_parameters())
    rows = {line.split("  ")[0]: line for line in lines[4:-2]}
    assert rows.keys() == parameters.keys()
    for name, tensor in parameters.items():
        assert f"{tensor.norm():.4g}" in rows[name].split()
    count = model.parameter_count()
    assert lines[-1] == f"{len(rows)} tensors; {count:,} parameters; {4 * count:,} bytes"


def test_names_cannot_drive_the_terminal(tmp_path, capsys):
    torch.save({"\x1b[31m\n\ud800": torch.ones(1)}, tmp_path / "x.pt")
    assert main(["inspect", str(tmp_path / "x.pt")]) == 2
    said = capsys.readouterr().err
    assert r"holds the name '\x1b[31m\n\ud800'" in said
    assert "\x1b" not in said


def test_errors_are_one_sentence(tmp_path, capsys, file):
    (tmp_path / "c").mkdir()
    save_file({"w": torch.ones(2)}, tmp_path / "c" / "model.safetensors")
    (tmp_path / "c" / "config.json").write_text("[" * 100_000)
    (tmp_path / "c" / "training.json").write_text("{}")
    (tmp_path / "cut.pt").write_bytes(file.read_bytes()[:300])
    for arguments, message in [
        ([file, "--match", "nothing"], "no name of the 4 tensors in .* matches 'nothing'"),
        ([tmp_path / "c"], "config.json is not valid JSON"),
        ([tmp_path / "cut.pt"], "cut.pt cannot be read as a file of torch.save"),
        ([tmp_path / "none"], "none does not exist: give"),
    ]:
        assert main(["inspect", *map(str, arguments)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert re.fullmatch(rf"error: .*{message}.*\n", printed.err)
