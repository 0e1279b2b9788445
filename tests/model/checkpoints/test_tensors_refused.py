"""Files that are not listed: what does not fit, garbage, code, claims, archives of others."""

import os
import pickle
import struct

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints.load import open_checkpoint
from model.checkpoints.tensors import tensor_table
from model.runtime.errors import CheckpointError

GARBAGE = [b"", b"\0", b"PK\x03\x04", b"not tensors at all " * 9, bytes(range(256)) * 5, pickle.dumps({"a": 1})]


@pytest.mark.parametrize("content", [*GARBAGE, struct.pack("<Q", 2**60) + b"{}"])
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_garbage_is_refused(content, ending, tmp_path):
    path = tmp_path / f"x.{ending}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"x.{ending} cannot be read as .*: ."):
        tensor_table(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_a_file_cut_short_is_refused(share, ending, tmp_path):
    path = tmp_path / f"x.{ending}"
    save_file({"a": torch.ones(500)}, path) if ending == "safetensors" else torch.save({"a": torch.ones(500)}, path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match="cannot be read as"):
        tensor_table(path)


class RunsCode:
    def __reduce__(self):
        return (exec, ("raise SystemExit('this file has run its code')",))


def nested(depth):
    content = {"a": torch.ones(1)}
    for _ in range(depth):
        content = {"d": content}
    return content


def endless():
    content = {}
    content["again"] = content
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": RunsCode()}, r"holds more than tensors \(\w*.?exec\), which could run code: save only"),
        (torch.nn.Linear(2, 2), r"holds more than tensors \(torch.nn.modules.linear.Linear\)"),
        ({"a": torch.zeros(1).expand(2**40)}, "holds at 'a' a tensor that cannot be read: it claims 1,099,511,627,776"),
        ({"a": {"b": 3}}, "holds no tensors: save a model's state_dict"),
        ({(1, 2): torch.ones(1)}, "holds a name that is a value of type tuple, not a text"),
        ({2**40: torch.ones(1)}, "holds the number 1099511627776 as a name"),
        ([torch.ones(1)], "holds a value of type list, not tensors by name"),
        (torch.ones(3), "holds a value of type Tensor, not tensors by name"),
        ({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}, "holds two values called 'a.b'"),
        (nested(40), "containers too deep"),
        (endless(), "holds too much at 'again\\..+' .containers too deep"),
        ({"a": torch.eye(2).to_sparse()}, "holds a tensor that is sparse: only plain ones"),
        ({"a": torch.empty(2**40, device="meta")}, "holds a tensor that is without values, on the device meta"),
    ],
)
def test_a_pickle_of_something_else_is_refused(content, message, tmp_path):
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=message):
        tensor_table(tmp_path / "x.pt")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_tensors_are_refused_as_such(tmp_path):
    torch.save({"a": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="holds a tensor that is quantized: only plain ones"):
        tensor_table(tmp_path / "x.pt")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["saved_model.pb", "variables/variables.index"], "holds saved_model.pb, which is a model of TensorFlow"),
        (
            ["model.ckpt-9.index", "model.ckpt-9.data-00000-of-00001"],
            r"model\.ckpt-9\.index, which is a model of Tensor",
        ),
        (
            ["config.json", "tf_model.h5"],
            r"tf_model\.h5, which is a model of Keras.*: write its weights with safetensors",
        ),
        (["config.json", "flax_model.msgpack"], r"a model of Flax, and is not opened: get its model\.safetensors"),
        (["model.onnx"], "a graph of ONNX"),
        (
            [".metadata", "__0_0.distcp"],
            r"put them together with python -m torch\.distributed\.checkpoint\.format_utils",
        ),
        (["config.json", "pytorch_model_fsdp_0/.metadata", "pytorch_model_fsdp_0/__0_0.distcp"], "dcp_to_torch"),
        (
            ["config.json", "zero_to_fp32.py", "latest", "global_step9/zero_pp_rank_0_mp_rank_00_model_states.pt"],
            r"in parts, as DeepSpeed's ZeRO saves them \(global_step9/zero_.*: put .* with its own zero_to_fp32",
        ),
        (["mp_rank_00_model_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"], "as DeepSpeed's ZeRO saves"),
        (["latest_checkpointed_iteration.txt", "iter_0000009/mp_rank_00/model_optim_rng.pt"], "as Megatron-LM saves"),
        (["default/manifest.ocdbt"], r"as Orbax \(JAX\) saves them"),
        (
            ["a-Q4_K_M.gguf", "a-Q8_0.gguf"],
            r"2 GGUF files, each of them a model: give one .*a-Q4_K_M.gguf, a-Q8_0.gguf",
        ),
        (
            ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"],
            r"parts of a GGUF file \(a-00001-of-00002\.gguf\): join them with llama-gguf-split --merge",
        ),
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], "no index that says which tensor"),
        (
            [f"checkpoint-{step}/config.json" for step in (500, 1000, 9)],
            "folder of checkpoints, and none itself: give one of them, such as checkpoint-9, checkpoint-500, checkp",
        ),
    ],
)
def test_a_folder_of_another_program_is_called_by_its_name(names, sentence, tmp_path):
    """In the list of tensors and where it is opened."""
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b'{"model_type": "bert"}' if name.endswith(".json") else b"?")
    for opens in (tensor_table, open_checkpoint):
        with pytest.raises(CheckpointError, match=sentence):
            opens(tmp_path)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_program_of_torchscript_is_told_how_to_give_its_weights(tmp_path):
    torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)).save(tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match=r"TorchScript, which is not run: .*torch\.jit\.load"):
        tensor_table(tmp_path / "x.pt")


def test_a_ckpt_opens_as_a_pt_does_and_tensorflows_is_told_apart(tmp_path):
    weights = {
        "state_dict": {"model.a": torch.ones(2)},
        "epoch": 3,
        "pytorch-lightning_version": "2.6",
        "callbacks": {},
    }
    torch.save(weights | {"hyper_parameters": {"lr": 0.1}, "loops": {"fit_loop": {"state": {}}}}, tmp_path / "x.ckpt")
    assert [info.name for info in tensor_table(tmp_path / "x.ckpt")] == ["state_dict.model.a"]
    (tmp_path / "y.ckpt").write_bytes(b"\0" * 100)
    with pytest.raises(CheckpointError, match="no file of PyTorch Lightning, and TensorFlow's"):
        tensor_table(tmp_path / "y.ckpt")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "is a folder without model.safetensors: give"),
        ("no.pt", "does not exist"),
        ("x.weights", "must be a checkpoint folder or end in .safetensors, .pt, .pth, .bin, .ckpt, .gguf"),
    ],
)
def test_a_path_of_something_else_is_refused(name, message, tmp_path):
    (tmp_path / "x.weights").write_bytes(b"?")
    with pytest.raises(ValueError, match=message):
        tensor_table(tmp_path / name)


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_a_file_that_has_changed_is_not_read_any_more(tmp_path, name):
    """Its values would be another's, and of one that was cut short the system ends the process."""
    path = tmp_path / name
    write = save_file if path.suffix == ".safetensors" else torch.save
    changes = [
        (lambda: write({"w": torch.ones(40, 50)}, path), "has changed since it was listed"),
        (lambda: os.truncate(path, 3000), "has changed since it was listed"),
        (path.unlink, "no longer there"),
    ]
    for change, sentence in changes:
        write({"w": torch.ones(2000)}, path)
        (info,) = tensor_table(path)
        assert float(info.load().sum()) == 2000
        change()
        with pytest.raises(CheckpointError, match=sentence):
            info.load()
