"""Tensors of files: what the header says, and what the values measure."""

import math
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.__main__ import main
from model.analysis.weights.statistics import readable
from model.checkpoints.formats import safetensors
from model.checkpoints.formats.pickle import read_state
from model.checkpoints.tensors import PIECE, measure, read_tensors, tensor_table
from model.runtime.errors import CheckpointError, UnmeasuredError
from tests.model.tensor_files import raw_safetensors

DTYPES = "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu complex64 bool".split()
DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ending", ["safetensors", "pt", "pth"])
def test_every_type_is_listed_and_measured(dtype, ending, tmp_path):
    tensor = torch.tensor([[0.5, 1, 2], [4, 1, 0.25]]).to(getattr(torch, dtype))
    path = tmp_path / f"t.{ending}"
    save_file({"a": tensor}, path) if ending == "safetensors" else torch.save({"a": tensor}, path)
    (info,) = tensor_table(path)
    assert (info.name, info.shape, info.dtype, info.elements) == ("a", (2, 3), dtype, 6)
    assert info.bytes == 6 * tensor.element_size()
    values = np.array(tensor.to(torch.complex64).tolist())
    found = info.measure()
    assert found.norm == pytest.approx(np.sqrt((np.abs(values) ** 2).sum()), rel=1e-12)
    assert (found.largest, found.nan, found.infinite) == (np.abs(values).max(), 0, 0)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2 * PIECE + 3, dtype=torch.float64),
        torch.randn(7, 5).T,
        torch.tensor([3e200, -4e200], dtype=torch.float64),
        torch.tensor([3e-200, 4e-200], dtype=torch.float64),
        torch.tensor(-2.5),
        torch.zeros(3),
    ],
)
def test_norms_are_those_of_exact_sums(tensor):
    values = tensor.flatten().tolist()
    found = measure(tensor)
    assert found.norm == pytest.approx(math.hypot(*values), rel=1e-12)
    assert found.largest == max(map(abs, values))


def test_what_is_not_finite_is_counted_and_left_out():
    tensor = torch.full((2 * PIECE,), 0.0)
    tensor[[0, PIECE]] = torch.nan
    tensor[[1, 2, PIECE + 7]] = torch.tensor([torch.inf, -torch.inf, torch.inf])
    tensor[[3, PIECE + 1]] = torch.tensor([-3.0, 4.0])
    found = measure(tensor)
    assert (found.norm, found.largest, found.nan, found.infinite) == (5, 4, 2, 3)
    assert measure(torch.tensor([torch.nan])).norm == measure(torch.zeros(0, 4)).largest == 0


def test_the_table_reads_no_values(tmp_path):
    """Shapes and types of a file whose values cannot be read: torch has no such type."""
    header = {"b": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [4, 7]}}
    header |= {"z": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, "__metadata__": {"format": "pt"}}
    infos = tensor_table(raw_safetensors(tmp_path / "x.safetensors", header, struct.pack("<f", -2) + b"123"))
    assert [(info.name, info.shape, info.dtype, info.bytes) for info in infos] == [
        ("z", (), "float32", 4),
        ("b", (4,), "F6_E2M3", 3),
    ]
    assert infos[0].measure().norm == 2
    with pytest.raises(ValueError, match="torch cannot compute with F6_E2M3, the type of 'b'"):
        infos[1].measure()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", ["complex32", "float4_e2m1fn_x2", "bits8", "bits16"])
def test_a_pickle_of_rare_types_is_listed(dtype, tmp_path, capsys):
    tensor = torch.zeros(16, dtype=torch.uint8).view(getattr(torch, dtype))
    torch.save({"a": tensor, "b": torch.ones(2)}, tmp_path / "t.pt")
    rare, plain = tensor_table(tmp_path / "t.pt")
    assert (rare.shape, rare.dtype, rare.bytes) == (tuple(tensor.shape), dtype, 16)
    assert [readable(info) for info in (rare, plain)] == [False, True]
    if dtype != "complex32":
        with pytest.raises(UnmeasuredError, match=f"torch cannot compute with {dtype}, the type of 'a'"):
            rare.measure()
        assert main(["inspect", str(tmp_path / "t.pt")]) == 0
        assert f"not measured: torch cannot compute with {dtype}" in capsys.readouterr().out


def test_containers_are_flattened_tied_tensors_named_and_plain_values_left_out(tmp_path):
    weight = torch.randn(4, 3)
    content = {"model": OrderedDict(wte=weight, lm_head=torch.nn.Parameter(weight)), "state": {0: {"step": weight[1]}}}
    content |= {"layers": [torch.ones(2), (torch.zeros(3),)], "iter_num": 5, "args": {"n_layer": 2, "bias": None}}
    torch.save(content, tmp_path / "n.pt")
    infos = tensor_table(tmp_path / "n.pt")
    assert [(info.name, info.place) for info in infos] == [
        ("model.wte", "model.wte"),
        ("model.lm_head", "model.wte"),
        ("state.0.step", "state.0.step"),
        ("layers.0", "layers.0"),
        ("layers.1.0", "layers.1.0"),
    ]
    assert infos[2].measure().norm == pytest.approx(float(weight[1].norm()))


def test_a_folder_gives_its_model_safetensors(tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors")
    assert [info.name for info in tensor_table(tmp_path)] == ["w"]
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    assert [info.name for info in tensor_table(tmp_path)] == ["w"]
    save_file({"v": torch.ones(2)}, tmp_path / "another.safetensors")
    with pytest.raises(CheckpointError, match=r"is a folder without model.safetensors: give a checkpoint folder"):
        tensor_table(tmp_path)


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_many_tensors_keep_few_files_open(ending, tmp_path):
    """As of a mixture of experts, whose heads are compared: the system lets a process have about a thousand."""
    made = {f"w{number}": torch.full((2,), float(number)) for number in range(300)}
    write = save_file if ending == "safetensors" else torch.save
    write(made, tmp_path / f"x.{ending}")
    places = Path("/proc/self/fd")
    before = len(list(places.iterdir())) if places.is_dir() else 0
    found = read_tensors(tmp_path / f"x.{ending}")
    assert all(torch.equal(found[name], made[name]) for name in made)
    assert not before or len(list(places.iterdir())) < before + 10


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_a_file_that_is_not_mapped_whole_is_read_tensor_by_tensor(ending, tmp_path, monkeypatch):
    """As where it is larger than the memory: the system refuses it, and its tensors one by one not."""
    made = {dtype: torch.tensor([[0.5, 1, 2], [4, 1, 0.25]]).to(getattr(torch, dtype)) for dtype in DTYPES}
    path = tmp_path / f"x.{ending}"
    if ending == "safetensors":
        save_file(made, path)
    else:
        base = torch.randn(4, 6)
        made |= {"base": base, "tied": base, "turned": base.T, "part": base[1:3, ::2], "empty": torch.empty(0, 3)}
        torch.save(made, path)
    plain = tensor_table(path)
    wanted = {info.name: info.load() for info in plain}
    loaded = torch.load

    def refuse(*given, **options):
        if options.get("mmap", True) and options.get("map_location") != "meta":
            raise RuntimeError(f"unable to mmap 10 bytes from file <{path}>: Cannot allocate memory (12)")
        return loaded(*given, **options)

    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(safetensors, "safe_open", refuse)
    found = tensor_table(path)
    assert found == plain
    for info in found:
        values = info.load()
        assert (values.dtype, values.stride()) == (wanted[info.name].dtype, wanted[info.name].stride())
        assert torch.equal(values.to(torch.complex64), wanted[info.name].to(torch.complex64)), info.name
    if ending == "pt":
        assert torch.equal(read_state(path)[0]["turned"], base.T)
        monkeypatch.setattr(np, "memmap", lambda *_given: loaded(tmp_path / "none"))
        with pytest.raises(CheckpointError, match=r"holds a tensor of 0.0 GB, more than can be had of memory"):
            found[0].load()
