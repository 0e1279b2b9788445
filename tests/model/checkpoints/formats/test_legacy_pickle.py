"""Files of torch.save before torch 1.6: read as torch reads them, and refused where they are damaged or hold code."""

import io
import pickle
import random
import struct
from collections import Counter

import pytest
import torch

from model.checkpoints.formats.legacy_pickle import BEGINNING
from model.checkpoints.formats.pickle import read_pickled, read_state
from model.checkpoints.tensors import tensor_table
from model.runtime.errors import CheckpointError

pytestmark = pytest.mark.unchecked


def saved(path, content):
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_every_type_is_read_as_torch_reads_it(dtype, tmp_path):
    values = torch.arange(-6, 6).to(getattr(torch, dtype)).reshape(3, 4)
    content = {"a": values, "turned": values.t(), "part": values[1:, 2:], "none": values[:0], "one": values[0, 0]}
    path = saved(tmp_path / "x.bin", content)
    expected = torch.load(path, weights_only=True)
    found = read_pickled(path)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert (tensor.dtype, tensor.shape) == (expected[name].dtype, expected[name].shape)
        assert torch.equal(tensor, expected[name]), name


def test_a_training_is_read_with_its_plain_values_and_tied_weights_once(tmp_path):
    model = torch.nn.Linear(3, 2)
    content = {
        "model": model.state_dict(),
        "tied": model.weight,
        "optimizer": {"state": {0: {"exp_avg": torch.ones(2, 3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "plan": {"milestones": Counter([5, 9])},
        "epoch": 7,
    }
    path = saved(tmp_path / "x.bin", content)
    tensors, records = read_state(path)
    assert torch.equal(tensors["model.weight"], model.weight)
    assert torch.equal(tensors["optimizer.state.0.exp_avg"], torch.ones(2, 3))
    assert (records["epoch"], records["optimizer.param_groups.0.lr"], records["plan.milestones.5"]) == (7, 0.1, 1)
    places = {info.name: info.place for info in tensor_table(path)}
    assert places["tied"] == places["model.weight"] != places["model.bias"]


class Code:
    def __reduce__(self):
        return print, ("this must not run",)


def test_code_is_not_run(tmp_path, capsys):
    path = tmp_path / "x.bin"
    saved(path, {"a": torch.ones(1), "b": Code()})
    with pytest.raises(CheckpointError, match=r"holds more than tensors \(__builtin__\.print\), which could run code"):
        read_pickled(path)
    assert capsys.readouterr().out == ""


def test_a_file_cut_anywhere_or_with_a_turned_byte_is_refused_or_read(tmp_path):
    content = saved(tmp_path / "x.bin", {"a": torch.arange(6.0), "b": [torch.ones(2), {"c": 3}]}).read_bytes()
    path, chance, refused = tmp_path / "y.bin", random.Random(0), 0
    for cut in range(len(BEGINNING), len(content)):
        path.write_bytes(content[:cut])
        with pytest.raises(CheckpointError):
            read_pickled(path)
    for _ in range(1500):
        damaged = bytearray(content)
        damaged[chance.randrange(len(BEGINNING), len(content))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            read_pickled(path)
        except CheckpointError:
            refused += 1
    assert refused > 500


def test_a_dictionary_that_holds_itself_has_an_end(tmp_path):
    content = {"a": torch.ones(1)}
    content["itself"] = content
    with pytest.raises(CheckpointError, match=r"containers too deep|too much"):
        read_pickled(saved(tmp_path / "x.bin", content))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"little_endianq\x02\x88", b"little_endianq\x02\x89", "written by an old torch in a form that is not read"),
        (struct.pack("<q", 6) + struct.pack("<f", 0), struct.pack("<q", 600) + struct.pack("<f", 0), "not 6 numbers"),
        (b"K\x06\x85", b"M\xff\xff\x85", r"goes beyond its values|damaged"),
    ],
)
def test_what_contradicts_itself_is_said(old, new, sentence, tmp_path):
    content = saved(tmp_path / "x.bin", {"a": torch.arange(6.0)}).read_bytes()
    assert old in content
    (tmp_path / "x.bin").write_bytes(content.replace(old, new, 1))
    with pytest.raises(CheckpointError, match=sentence):
        read_pickled(tmp_path / "x.bin")


def test_another_pickle_behind_the_magic_number_is_refused(tmp_path):
    made = io.BytesIO(BEGINNING)
    made.seek(0, 2)
    for part in (1001, {"little_endian": True}, [1, 2], []):
        pickle.dump(part, made, 2)
    (tmp_path / "x.bin").write_bytes(made.getvalue())
    with pytest.raises(CheckpointError, match="not tensors by name"):
        read_pickled(tmp_path / "x.bin")
