"""Files of torch.save made to harm: each is refused by a rule, and what training programs write opens.

Without its rule such a file takes hours or all memory, so that no test needs a clock.
"""

import json
import struct
import warnings
import zipfile
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints.formats.pickle import read_pickled, read_state
from model.checkpoints.tensors import tensor_table
from model.runtime.errors import CheckpointError

pytestmark = pytest.mark.unchecked

HEAD, STOP = b"\x80\x02", b"."
DICT = b"ccollections\nOrderedDict\n)R"


def archived(path, pickle, data=b"\0" * 16, more=(), without="", compression=zipfile.ZIP_STORED):
    """A file of torch.save with this pickle and one storage, data/0; with more files, or without one."""
    files = [("data.pkl", pickle), ("byteorder", b"little"), ("data/0", data), ("version", b"3\n")]
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # a name twice
        for name, content in [*((f"archive/{name}", content) for name, content in files if name != without), *more]:
            archive.writestr(name, content)
    return path


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(count=b"K\x04", kind=b"FloatStorage", key="0"):
    return b"(" + text("storage") + b"ctorch\n" + kind + b"\n" + text(key) + text("cpu") + count + b"tQ"


def tensor(shape=b"K\x04\x85", strides=b"K\x01\x85", offset=b"K\x00", held=None):
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n("
    return rebuild + (held or storage()) + offset + shape + strides + b"\x89" + DICT + b"tR"


def named(*pairs):
    return HEAD + b"}(" + b"".join(text(name) + value for name, value in pairs) + b"u" + STOP


def long(value):
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def test_the_handmade_archive_is_as_torch_writes_it(tmp_path):
    path = archived(tmp_path / "x.pt", named(("a", tensor())), torch.arange(4.0).numpy().tobytes())
    assert read_pickled(path)["a"].tolist() == torch.load(path, weights_only=True)["a"].tolist() == [0, 1, 2, 3]


def test_a_checkpoint_of_nanogpt_opens(tmp_path):
    model = torch.nn.Linear(3, 2)
    moments = {"step": torch.tensor(5.0), "exp_avg": torch.zeros(2, 3)}
    content = {
        "model": {f"_orig_mod.{name}": value for name, value in model.state_dict().items()},
        "ema": model.state_dict(),
        "optimizer": {"state": {0: moments}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95), "params": [0]}]},
        "plan": {"milestones": Counter([5, 9])},
        "model_args": {"n_layer": 12, "bias": False, "dtype": torch.bfloat16, "vocab_size": None},
        "iter_num": 5,
        "best_val_loss": torch.tensor(1.5),
        "config": {"out_dir": "out", "learning_rate": 6e-4, "shape": torch.Size([2, 3])},
    }
    torch.save(content, tmp_path / "ckpt.pt")
    tensors, records = read_state(tmp_path / "ckpt.pt")
    assert torch.equal(tensors["model._orig_mod.weight"], model.weight.detach())
    assert torch.equal(tensors["ema.weight"], model.weight.detach())
    assert {"optimizer.state.0.exp_avg", "best_val_loss"} < set(tensors)
    expected = {"iter_num": 5, "model_args.n_layer": 12, "model_args.bias": False, "config.out_dir": "out"}
    expected |= {"config.learning_rate": 6e-4, "config.shape.1": 3, "optimizer.param_groups.0.betas.1": 0.95}
    expected |= {"plan.milestones.5": 1}
    assert expected.items() <= records.items()
    assert set(read_pickled(tmp_path / "ckpt.pt")) == set(tensors)


def test_parameters_and_new_types_open(tmp_path):
    torch.save({"a": torch.nn.Parameter(torch.ones(2)), "b": torch.ones(3, dtype=torch.uint16)}, tmp_path / "x.bin")
    assert [info.dtype for info in tensor_table(tmp_path / "x.bin")] == ["float32", "uint16"]


PLAIN = {
    "device": torch.device("cuda", 0),
    "set": {1, "b", None, 0.5, (1, 2)},
    "frozen": frozenset("ab"),
    "bytes": bytes(range(256)),
    "layout": torch.strided,
    "none": (b"", bytearray(b"ab"), bytearray(), set(), 1j, torch.float16),
}
NUMBERS = (
    np.float64(1.5),
    np.float32(-2),
    np.float16(3),
    np.int64(1 << 40),
    np.uint8(200),
    np.bool_(True),
    np.str_("ab"),
)


@pytest.mark.parametrize("legacy", [False, True])
def test_plain_values_beside_the_weights_open(legacy, tmp_path):
    """torch's own weights_only reads the first; NumPy's scalars are what a mean of losses or np.prod of sizes gives."""
    content = {"weight": torch.ones(2), "args": {**PLAIN, "numbers": list(NUMBERS), "older": np.float64(2.5)}}
    torch.save(content, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    if not legacy:  # as NumPy before 2 names it
        raw = (tmp_path / "x.pt").read_bytes()
        with zipfile.ZipFile(tmp_path / "x.pt") as archive:
            pickle = archive.read("x/data.pkl").replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        assert b"numpy._core" in raw
        archived(tmp_path / "x.pt", pickle, torch.ones(2).numpy().tobytes())
    tensors, records = read_state(tmp_path / "x.pt")
    assert tensors["weight"].tolist() == [1, 1]
    numbers = [records[f"args.numbers.{at}"] for at in range(len(NUMBERS))]
    assert (numbers, records["args.older"]) == ([1.5, -2, 3, 1 << 40, 200, True, "ab"], 2.5)
    assert {type(each) for each in numbers} == {float, int, bool, str}
    assert len(records) == len(numbers) + 1


def lists_within_lists():
    """26 lists, each holding the one before twice: 2²⁶ leaves."""
    held = b"]q\x00K\x01a" + b"".join(
        b"]q" + bytes([at + 1]) + b"(h" + bytes([at]) + b"h" + bytes([at]) + b"e" for at in range(26)
    )
    return HEAD + b"}" + text("all") + b"(" + held + b"ts" + STOP


# A tuple of tuples 2⁴⁰ times: its hash alone takes hours, its text would have as many parts.
TUPLES = b"K\x01K\x02\x86" + b"".join(b"q" + bytes([at]) + b"h" + bytes([at]) + b"\x86" for at in range(40))


def names_in_one_place():
    """Numbers that fall into the same place of a dictionary: each is compared with all before."""
    numbers = (long(at * ((1 << 53) - 1) << 3) + b"N" for at in range(1, 9_000))
    return HEAD + b"}(" + b"".join(numbers) + b"u" + STOP


def copies_of_a_dictionary():
    """20,000 names, copied 100,000 times."""
    filled = b"}q\x00(" + b"".join(b"M" + struct.pack("<H", at) + b"N" for at in range(2_000)) + b"u"
    return HEAD + b"(" + filled + b"ccollections\nCounter\nq\x01" + b"h\x01h\x00\x85R" * 100_000 + b"t" + STOP


def attributes_without_end():
    filled = b"}q\x00(" + b"".join(text(str(at)) + b"N" for at in range(2_000)) + b"u"
    return HEAD + b"(" + filled + DICT + b"h\x00b" * 100_000 + STOP


def call(name, *arguments):
    return b"c" + "\n".join(name.rsplit(".", 1)).encode() + b"\n(" + b"".join(arguments) + b"tR"


def copies_of_a_set():
    """One list of 2,000 numbers, from which 10,000 sets are made."""
    filled = b"]q\x00(" + b"".join(b"M" + struct.pack("<H", at) for at in range(2_000)) + b"e"
    return HEAD + b"(" + filled + call("builtins.set", b"h\x00") * 10_000 + b"t" + STOP


def copies_of_bytes(function):
    """One text of 999,000 characters, of which 480 copies are made."""
    return HEAD + b"(" + text("a" * 999_000) + b"q\x00" + call(function, b"h\x00", text("latin1")) * 480 + b"t."


NUMPY_TYPE = call("numpy.dtype", text("U9"), b"\x89", b"\x88")

HARMFUL = {
    "sets": (copies_of_a_set, "more than 500,000 steps"),
    "chosen": (
        lambda: (
            HEAD
            + call("builtins.set", b"](" + b"".join(b"G" + struct.pack(">d", at) for at in range(1001)) + b"e")
            + STOP
        ),
        "a set of more than 1,000 values",
    ),
    "hashes": (lambda: HEAD + call("builtins.set", b"]" + TUPLES + b"a") + STOP, "a set with a value of type tuple"),
    "encoded": (lambda: copies_of_bytes("_codecs.encode"), "makes more bytes than it holds"),
    "arrays": (lambda: copies_of_bytes("builtins.bytearray"), "makes more bytes than it holds"),
    "codec": (lambda: HEAD + call("_codecs.encode", text("a"), text("rot13")) + STOP, "with what that does not take"),
    "array": (lambda: HEAD + call("builtins.bytearray", b"J\xff\xff\xff\x7f") + STOP, "with what that does not take"),
    "no bytes": (lambda: HEAD + call("builtins.bytes", b"J\xff\xff\xff\x7f") + STOP, "with what that does not take"),
    "objects": (
        lambda: HEAD + call("numpy.dtype", text("O8"), b"\x89", b"\x88") + STOP,
        "with what that does not take",
    ),
    "wide": (
        lambda: HEAD + NUMPY_TYPE + b"(K\x03" + text("<") + b"NNNJ\xff\xff\xff\x7fK\x04K\x08tb" + STOP,
        "holds objects",
    ),
    "short": (
        lambda: HEAD + call("numpy._core.multiarray.scalar", NUMPY_TYPE, call("builtins.bytes")) + STOP,
        "with what that does not take",
    ),
    "leaves": (lists_within_lists, "more than 200,000 values"),
    "hash": (lambda: HEAD + b"}" + TUPLES + b"K\x01s" + STOP, "a name that is a value of type tuple"),
    "text": (lambda: named(("a", tensor(held=storage(count=TUPLES)))), "has 16 bytes, not a value of type tuple"),
    "collisions": (names_in_one_place, "holds the number 72057594037927928 as a name"),
    "copies": (copies_of_a_dictionary, "more than 500,000 steps"),
    "attributes": (attributes_without_end, "more than 500,000 steps"),
    "steps": (lambda: HEAD + b"(" + b"N" * 600_000 + b"t" + STOP, "more than 500,000 steps"),
    "marks": (lambda: HEAD + b"(" * 400_000 + STOP, "containers too deep"),
    "nesting": (lambda: HEAD + b"]" + b"\x85" * 30_000 + STOP, "holds a value of type tuple, not tensors by name"),
    "bytearray": (lambda: HEAD + b"cbuiltins\nbytearray\n" + long(1 << 40) + b"\x85R" + STOP, "does not take"),
    "storage": (lambda: HEAD + b"ctorch.storage\nUntypedStorage\n" + long(1 << 40) + b"\x85R" + STOP, "UntypedStorage"),
    "tensor": (lambda: HEAD + b"ctorch\nFloatTensor\n" + long(1 << 40) + b"\x85R" + STOP, "torch.FloatTensor"),
    "new": (lambda: HEAD + b"ctorch\nFloatTensor\n" + long(1 << 40) + b"\x85\x81" + STOP, "torch.FloatTensor"),
    "code": (lambda: HEAD + b"cposix\nsystem\n" + text("false") + b"\x85R" + STOP, r"posix.system\), which could run"),
    "elements": (lambda: named(("a", tensor(shape=long(1 << 40) + b"\x85", strides=b"K\x00\x85"))), "claims 1,099,511"),
    "strides": (lambda: named(("a", tensor(strides=long(1 << 40) + b"\x85"))), "is damaged: torch cannot load it"),
    "backward": (lambda: named(("a", tensor(strides=long(-1) + b"\x85"))), "is damaged: torch cannot load it"),
    "offset": (lambda: named(("a", tensor(offset=long(1 << 40)))), "is damaged: torch cannot load it"),
    "size": (lambda: named(("a", tensor(shape=long(-4) + b"\x85"))), "is damaged: torch cannot load it"),
    "huge": (lambda: named(("a", tensor(shape=long(1 << 63) + b"\x85"))), "is damaged: torch cannot load it"),
    "dimensions": (lambda: named(("a", tensor(shape=b"(" + b"K\x01" * 99 + b"t"))), "with what that does not take"),
    "beyond": (lambda: named(("a", tensor(held=storage(count=long(1 << 40))))), "data/0 has 16 bytes, not those of"),
    "negative": (lambda: named(("a", tensor(held=storage(count=long(-4))))), "data/0 has 16 bytes, not those of -4"),
    "elsewhere": (lambda: named(("a", tensor(held=storage(key="../version")))), "its values data/../version are not"),
    "quantized": (lambda: named(("a", tensor(held=storage(kind=b"QInt8Storage")))), "a tensor that is quantized"),
    "version": (lambda: b"\x80\x04" + named(("a", tensor()))[2:], "a pickle of version 4, and torch.save writes 2"),
    "name": (lambda: named(("x" * 300, tensor())), "a name has up to 250 characters"),
    "utf-8": (lambda: HEAD + b"X\xff\xff\xff\xff" + STOP, "makes no sense at byte"),
    "memory": (lambda: HEAD + b"h\x07" + STOP, "makes no sense at byte"),
    "empty": (lambda: b"", "makes no sense at byte 0"),
    "cut": (lambda: named(("a", tensor()))[:-9], "is damaged: torch cannot load it"),
    "unfinished": (lambda: HEAD + b"K\x01", "is damaged: torch cannot load it"),
    "shadow": (lambda: HEAD + DICT + b"}" + text("items") + b"K\x01sb" + STOP, "holds no tensors"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_pickle_is_refused(name, tmp_path):
    pickle, message = HARMFUL[name]
    path = archived(tmp_path / "x.pt", pickle())
    with pytest.raises(CheckpointError, match=message) as refused:
        tensor_table(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": [("archive/DATA/0", b"?")]}, "holds two files called 'archive/data/0'"),
        ({"more": [("archive/data.pkl", b"?")]}, "holds two files called 'archive/data.pkl'"),
        ({"more": [("archive/../x", b"?")]}, r"holds a file called 'archive/\.\./x'"),
        ({"more": [("/etc/passwd", b"?")]}, "holds a file called '/etc/passwd'"),
        ({"more": [("archive/constants.pkl", b"?")]}, "is a program of TorchScript"),
        ({"more": [("archive/other", bytes(9999))]}, "holds a 'other' of 9,999 bytes"),
        ({"more": [(f"archive/data/{number}", b"") for number in range(1, 300)]}, ""),
        ({"without": "data.pkl"}, "zip archive of something else"),
        ({"without": "data/0"}, "its values data/0 are not in"),
        ({"compression": zipfile.ZIP_DEFLATED}, "is a packed zip archive"),
    ],
)
def test_the_archive_holds_what_torch_writes(changes, message, tmp_path):
    path = archived(tmp_path / "x.pt", named(("a", tensor())), **changes)
    if not message:
        assert len(tensor_table(path)) == 1
        return
    with pytest.raises(CheckpointError, match=message):
        tensor_table(path)


def test_numbers_of_another_order_are_refused(tmp_path):
    path = archived(tmp_path / "x.pt", named(("a", tensor())))
    path.write_bytes(path.read_bytes().replace(b"little", b"gittle"))
    with pytest.raises(CheckpointError, match=r"damaged|cannot be read|big-endian"):
        tensor_table(path)


def test_a_shadowed_method_of_a_dictionary_is_not_called(tmp_path):
    """A state_dict may have attributes; one called `items` would replace the method."""
    content = HEAD + DICT + b"(" + text("a") + tensor() + b"u}" + text("items") + b"K\x01sb" + STOP
    assert list(read_pickled(archived(tmp_path / "x.pt", content))) == ["a"]


@pytest.mark.parametrize(
    ("write", "name", "ending"), [(torch.save, "pytorch_model", "bin"), (save_file, "model", "safetensors")]
)
def test_two_indexed_files_are_one_table(write, name, ending, tmp_path):
    first, second = (f"{name}-{number}.{ending}" for number in (1, 2))
    write({"b": torch.ones(2)}, tmp_path / first)
    write({"a": torch.ones(3)}, tmp_path / second)
    places, index = {"b": first, "a": second}, tmp_path / f"{name}.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert [(info.name, info.load().sum().item()) for info in tensor_table(tmp_path)] == [("b", 2), ("a", 3)]
    for said, message in [
        ({"a": first}, f"says that 'a' is in '{first}', where it is not"),
        ({**places, "a": first}, f"is in '{first}', where it is not"),
        ({"a": f"../x.{ending}"}, rf"names '\.\./x.{ending}', which is no \.{ending} file of its folder"),
        ({"a": f"/x.{ending}"}, rf"names '/x.{ending}', which is no \.{ending} file of its folder"),
        ({"a": "x.pt"}, rf"names 'x.pt', which is no \.{ending} file of its folder"),
        ({"a": f"x.{ending}"}, f"names 'x.{ending}', which is not in its folder"),
        ({"a": 1}, "must say in weight_map"),
        ({}, "must say in weight_map"),
    ]:
        index.write_text(json.dumps({"weight_map": said}))
        with pytest.raises(CheckpointError, match=message):
            tensor_table(tmp_path)


@pytest.mark.parametrize("name", "x.pkl x.h5 x.npz x.onnx x.msgpack x.zip x.json X.PKL".split())
def test_other_formats_are_refused_with_what_to_do(name, tmp_path):
    (tmp_path / name).write_bytes(b"?")
    with pytest.raises(CheckpointError, match=r" is (a|an|no|NumPy's) .+: \w+ .+"):
        tensor_table(tmp_path / name)
