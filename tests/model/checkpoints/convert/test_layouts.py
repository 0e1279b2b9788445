"""Weights without a config: each layout computes as the model it was saved from, or is refused in a sentence."""

from __future__ import annotations

import json
import pickle
import re

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from model.checkpoints.convert.state_dict import HeadsNeededError
from model.checkpoints.load import open_checkpoint
from model.checkpoints.load_hints import LoadHints
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.convert.layout_references import (
    GPT,
    Annotated,
    FirstGPT,
    Seq2Seq,
    quietly,
    random_weights,
    sines,
)

CPU, EXACT = torch.device("cpu"), {"atol": 1e-5, "rtol": 1e-5}
IDS, TARGET = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]]), torch.tensor([[2, 7, 1, 8]])


def opened(path, **options):
    return open_checkpoint(path, CPU, torch.float32, **options)


def saved(folder, network, wrapped=None):
    path = folder / "model.pt"
    torch.save(network.state_dict() if wrapped is None else wrapped(network.state_dict()), path)
    return path


@pytest.fixture(scope="module")
def folder_of_gpt2(tmp_path_factory):
    """Its config tells everything."""
    folder = tmp_path_factory.mktemp("gpt2")
    config = transformers.GPT2Config(n_layer=1, n_head=3, n_embd=12, vocab_size=19, n_positions=16)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def nano(state):
    """As train.py of nanoGPT saves a compiled model."""
    own = {f"_orig_mod.{name}": each for name, each in state.items()}
    arguments = {"n_layer": 2, "n_head": 3, "n_embd": 12, "block_size": 16, "bias": False, "vocab_size": 19}
    moments = {0: {"step": torch.tensor(7.0), "exp_avg": torch.zeros(19, 12)}}
    optimizer = {"state": moments, "param_groups": [{"lr": 6e-4, "foreach": None}]}
    return {"model": own, "optimizer": optimizer, "model_args": arguments, "iter_num": 7, "config": {"dataset": "x"}}


def beside(**said):
    """As Lightning saves weights, with hyper-parameters beside them."""
    return lambda state: {"state_dict": state, "hparams": {"nhead": 3, **said}}


def in_module(state):
    return {f"module.{name}": each for name, each in state.items()}


LAYOUTS = {
    "nanoGPT": (GPT(bias=False), {}, nano),
    "nanoGPT with biases": (GPT(bias=True), {"heads": 3}, None),
    "minGPT": (GPT(mini=True), {"heads": 3, "activation": "gelu-tanh"}, None),
    "minGPT of 2020": (FirstGPT(), {"heads": 3}, in_module),
    "The Annotated Transformer": (Annotated(), {"heads": 3, "norm": "pre"}, None),
    "an Annotated Transformer, post-norm": (
        Annotated(post=True, activation=F.gelu),
        {"heads": 3, "norm": "post", "activation": "gelu"},
        None,
    ),
    "The Annotated Transformer, torch's norm": (Annotated(norm=nn.LayerNorm), {"heads": 3, "norm": "pre"}, None),
    "torch.nn.Transformer": (Seq2Seq(), {}, beside()),
    "pre-norm": (Seq2Seq(norm_first=True), {}, beside(norm_first=True)),
    "learned positions": (Seq2Seq(activation="gelu", learned=True), {}, beside(activation="gelu")),
    "no biases": (Seq2Seq(bias=False), {}, beside()),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_computes_as_the_model_it_was_saved_from(name, tmp_path):
    network, options, wrapped = LAYOUTS[name]
    model = opened(saved(tmp_path, random_weights(network), wrapped), **options)
    one = "GPT" in name
    assert (model.kind, model.config.n_heads) == ("decoder-only" if one else "encoder-decoder", 3)
    inputs = (IDS,) if one else (IDS, TARGET)
    with torch.inference_mode():
        torch.testing.assert_close(model.network(*inputs), network(*inputs), **EXACT)
    assert model.trace("3 1 4", *([] if one else ["2 7"]))["output.logits"].shape == (3, 19)
    assumed = isinstance(network, Seq2Seq) and name != "pre-norm"
    assert any("norm_first" in each for each in model.training["assumed"]) == assumed


def test_an_encoder_of_torch_gives_states_and_no_logits(tmp_path):
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)
    stack = quietly(nn.TransformerEncoder, layer, 2)
    network = random_weights(nn.ModuleDict({"embedding": nn.Embedding(17, 12), "encoder": stack}))
    save_file(network.state_dict(), tmp_path / "encoder.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model": {"nhead": 3, "scale_embedding": False}}))
    model = opened(tmp_path)
    trace = model.trace("3 1 4")
    assert (model.kind, model.predicts, "output.logits" in trace.names()) == ("encoder-only", False, False)
    with torch.inference_mode():
        expected = network["encoder"](network["embedding"](torch.tensor([[3, 1, 4]])) + sines(3, 12))[0]
    torch.testing.assert_close(trace["encoder.layers.1.feed_forward_block.norm.output"], expected, **EXACT)


def test_positions_and_the_start_can_be_told_where_nothing_says_them(tmp_path):
    network = random_weights(Seq2Seq(positions=False))
    path = saved(tmp_path, network, beside())
    assumed = opened(path).training
    assert {
        "sinusoidal positions (there is no table of them)",
        "targets begin with token 0 (there is no tokenizer)",
    } <= {*assumed["assumed"]}
    usual = {"norm": "post", "activation": "relu"}
    assert assumed["open"] == {"positions": "sinusoidal", "start": 0} | usual
    model = opened(path, positions="none", start=2)
    assert model.training["open"] == {"positions": "none", "start": 2} | usual
    assert not [each for each in model.training["assumed"] if "position" in each or "token 0" in each]
    with torch.inference_mode():
        torch.testing.assert_close(model.network(IDS, TARGET), network(IDS, TARGET), **EXACT)
    assert model.trace("3 1 4", "7").target_tokens == ["2", "7"]
    with pytest.raises(CheckpointError, match=r"start \(19\) must be the id of one of its 19 tokens"):
        opened(path, start=19)
    annotated = random_weights(Annotated()).state_dict()
    torch.save({name: each for name, each in annotated.items() if not name.endswith(".pe")}, path)
    asked = {"heads": 3, "start": 0, "norm": "pre", "activation": "relu"}
    model = opened(path, heads=3)
    assert model.training["open"] == asked | {"positions": "sinusoidal"}
    assert "norms before each block (norm_first is not said)" in model.training["assumed"]
    assert opened(path, heads=3, positions="none").config.position == "none"
    torch.save(annotated, path)  # with its table
    assert opened(path, heads=3).training["open"] == asked
    with pytest.raises(CheckpointError, match="has positions sinusoidal, whatever it is told: leave positions:none"):
        opened(path, heads=3, positions="none")


def test_what_is_told_is_written_and_read():
    for told in (LoadHints(), LoadHints(8, "none", 0), LoadHints(positions="sinusoidal"), LoadHints(start=3)):
        assert LoadHints.read(told.text()) == told
    assert LoadHints(8, None, 1).text() == "heads:8,start:1"
    several = LoadHints(causal="yes", norm="pre", activation="gelu-tanh", alphabet="\n ,:%a的", prefix="a,b.c")
    assert LoadHints.read(several.text()) == several
    assert several.text().startswith("causal:yes,norm:pre,activation:gelu-tanh,alphabet:%0A%20%2C%3A%25a")
    for wrong in ("heads:x", "positions:learned", "start:-1", "x:1", "heads", "causal:1", "norm:", "alphabet:"):
        with pytest.raises(ValueError, match="must be heads:N"):
            LoadHints.read(wrong)


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("where", ["told", "beside", "in the file"])
def test_a_language_model_of_torchs_encoder_is_causal_where_that_is_said(order, where, tmp_path):
    """As in PyTorch's tutorial: nn.TransformerEncoder with a causal mask, which is in no tensor."""
    pre = order == "pre"
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, activation="gelu", batch_first=True, norm_first=pre)
    stack = quietly(nn.TransformerEncoder, layer, 2, nn.LayerNorm(12) if pre else None)
    parts = {"encoder": nn.Embedding(19, 12), "transformer_encoder": stack, "decoder": nn.Linear(12, 19)}
    network = random_weights(nn.ModuleDict(parts))
    said = {"is_causal": True, "norm_first": pre, "activation": "gelu", "scale_embedding": True}
    told = {"causal": "yes", "norm": order, "activation": "gelu"}
    path = saved(tmp_path, network, beside(**said) if where == "in the file" else None)
    if where == "beside":
        (tmp_path / "config.json").write_text(json.dumps(said | {"nhead": 3}))
    model = opened(path, **(told | {"heads": 3} if where == "told" else {}))
    assert model.kind == "decoder-only"
    with torch.inference_mode():
        x = network["encoder"](IDS) * 12**0.5 + sines(8, 12)
        states = network["transformer_encoder"](x, nn.Transformer.generate_square_subsequent_mask(8), is_causal=True)
        torch.testing.assert_close(model.network(IDS), network["decoder"](states), **EXACT)
    assert not [each for each in model.training["assumed"] if "causal" in each or "norm" in each or "relu" in each]
    assert ("causal" in model.training["open"]) == (where == "told")
    trace = model.trace("3 1 4 1")
    assert torch.equal(trace.attention("encoder"), trace.attention("decoder"))
    assert len(model.generate("3 1").tokens) > 0
    if where == "told":
        assert opened(path, heads=3).kind == "encoder-only"
    if where == "told" and not pre:
        with pytest.raises(CheckpointError, match="norms before each block and none behind the last layer"):
            opened(path, heads=3, norm="pre")


@pytest.mark.parametrize("name", ["ln_f", "transformer_encoder.final_norm", "norm"])
def test_the_last_norm_may_lie_outside_of_the_stack(name, tmp_path):
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True, norm_first=True)
    parts = {"emb": nn.Embedding(19, 12), "transformer_encoder": quietly(nn.TransformerEncoder, layer, 2)}
    network = random_weights(nn.ModuleDict({**parts, "last": nn.LayerNorm(12), "head": nn.Linear(12, 19)}))
    path = tmp_path / "model.pt"
    torch.save({each.replace("last.", f"{name}."): value for each, value in network.state_dict().items()}, path)
    model = opened(path, heads=3, norm="pre", causal="yes", positions="none")
    with torch.inference_mode():
        mask = nn.Transformer.generate_square_subsequent_mask(8)
        states = network["transformer_encoder"](network["emb"](IDS) * 12**0.5, mask, is_causal=True)
        torch.testing.assert_close(model.network(IDS), network["head"](network["last"](states)), **EXACT)
    said = f"{name} is the norm behind the last layer (no tensor says where it stands)"
    assert said in model.training["assumed"]
    untold = opened(path, heads=3)  # a norm behind the last layer is what pre-norm needs
    assert untold.config.norm_placement == "pre"
    assert "norms before each block (norm_first is not said)" in untold.training["assumed"]
    torch.save({**torch.load(path), "second.weight": torch.ones(12), "second.bias": torch.ones(12)}, path)
    with pytest.raises(CheckpointError, match="holds several norms outside of its layers"):
        opened(path, heads=3, norm="pre")


def test_the_alphabet_of_nanogpt_is_read_without_running_it(tmp_path):
    """meta.pkl as data/shakespeare_char/prepare.py writes it, in each protocol of pickle."""
    letters = "\n !,abcdefghijklmn"
    assert len(letters) == 18
    letters += "的"
    meta = {"vocab_size": 19, "itos": dict(enumerate(letters)), "stoi": {c: n for n, c in enumerate(letters)}}
    path = saved(tmp_path, GPT(), nano)
    assert opened(path).training["open"] == {"activation": "gelu", "alphabet": ""}
    assert opened(path).source_tokenizer.reason
    for protocol in range(2, 6):
        (tmp_path / "meta.pkl").write_bytes(pickle.dumps(meta, protocol))
        model = opened(path)
        tokens = model.source_tokens("a cab的\n")
        assert tokens.ids == [letters.index(letter) for letter in "a cab的\n"]
        assert tokens.labels[:4] == ["a", "▁", "c", "a"]
        assert model.source_tokenizer.decode(tokens.ids) == "a cab的\n"
        assert model.source_tokenizer.ends("ab") == [1, 2]
    with pytest.raises(ValueError, match="'z' is none of the 19 characters that this model was trained on"):
        model.trace("az")
    (tmp_path / "meta.pkl").unlink()
    by_hand = opened(path, alphabet=letters)
    assert by_hand.source_tokens("cab").ids == [letters.index(letter) for letter in "cab"]
    assert by_hand.training["open"]["alphabet"] == letters
    with pytest.raises(CheckpointError, match="has 19 tokens, and the alphabet 3 different characters"):
        opened(path, alphabet="abcc")


class Runs:
    def __reduce__(self):
        return print, ("this must not run",)


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (pickle.dumps({"itos": Runs()}), "meta.pkl is a pickle that is damaged or holds more than texts and numbers"),
        (pickle.dumps({"itos": {0: "a"}}), "does not have a character for each of the 19 tokens"),
        (pickle.dumps({"itos": dict.fromkeys(range(19), "aa")}), "does not have a character for each"),
        (b"\x80\x04\x95", "meta.pkl is a pickle that is damaged"),
        (pickle.dumps([1]), "does not have a character for each"),
    ],
)
def test_another_pickle_in_its_place_is_not_run(meta, reason, tmp_path, capsys):
    path = saved(tmp_path, GPT(), nano)
    (tmp_path / "meta.pkl").write_bytes(meta)
    assert re.search(reason, opened(path).source_tokenizer.reason)
    assert capsys.readouterr().out == ""


def test_the_form_of_gelu_that_nanogpt_leaves_open_is_assumed_and_can_be_told(tmp_path):
    path = saved(tmp_path, network := random_weights(GPT()), nano)
    (assumed,) = opened(path).training["assumed"]
    assert assumed == "the exact GELU (nanoGPT before June 2023 had its form with tanh)"
    network.approximate = "tanh"
    model = opened(path, activation="gelu-tanh")
    assert model.training["assumed"] == []
    with torch.inference_mode():
        torch.testing.assert_close(model.network(IDS), network(IDS), **EXACT)


def test_the_number_of_heads_is_asked_for(tmp_path):
    path = saved(tmp_path, GPT())
    sentence = r"open it with heads=N \(on the command line --heads N\), for d_model 12 one of 1, 2, 3, 4, 6, 12"
    with pytest.raises(HeadsNeededError, match=sentence) as asked:
        opened(path)
    assert asked.value.possible == [1, 2, 3, 4, 6, 12]
    with pytest.raises(CheckpointError, match=r"d_model \(12\) cannot be divided among heads \(5\)"):
        opened(path, heads=5)
    with pytest.raises(CheckpointError, match="sort has heads 4, whatever it is told: leave heads:3 out"):
        opened("checkpoints/sort", heads=3)


@pytest.mark.parametrize("kind", [GPT, Annotated, Seq2Seq])
@pytest.mark.parametrize("paths", [("student", "teacher"), ("", "ema"), ("net.actor", "net.critic")])
def test_of_two_models_in_a_file_the_opened_one_is_said_and_the_other_can_be_chosen(kind, paths, tmp_path):
    networks = [random_weights(kind(), seed) for seed in range(2)]
    both = {}
    for path, network in sorted(zip(paths, networks, strict=True), key=lambda each: not each[0]):  # ema's come first
        both |= {f"{path}.{name}".removeprefix("."): each for name, each in network.state_dict().items()}
    torch.save(both, tmp_path / "m.pt")
    inputs = (IDS,) if kind is GPT else (IDS, TARGET)
    for prefix, network, other in zip((None, paths[1]), networks, reversed(paths), strict=True):
        model = opened(tmp_path / "m.pt", heads=3, prefix=prefix)
        with torch.inference_mode():
            torch.testing.assert_close(model.network(*inputs), network(*inputs), **EXACT)
        training = model.training
        assert (training["models"], training["open"]["prefix"]) == ([*paths], prefix or paths[0])
        assert any("the file holds others" in each for each in training["assumed"]) == (prefix is None)
        outside = [name for name in training["beside"] if other and name.startswith(f"{other}.")]
        assert bool(outside) == bool(other)
    with pytest.raises(CheckpointError, match=r"no tensors whose names begin with x\.: leave prefix:x out"):
        opened(tmp_path / "m.pt", heads=3, prefix="x")


def test_what_lies_outside_of_the_model_is_said(tmp_path):
    state = {f"model.{name}": each for name, each in GPT().state_dict().items()}
    torch.save(state | {"projection.weight": torch.ones(2), "score.weight": torch.ones(2)}, tmp_path / "m.pt")
    assert opened(tmp_path / "m.pt", heads=3).training["beside"] == ["projection.weight"]


ODD = torch.randn(1, 40, 12, generator=torch.Generator().manual_seed(0))
LEFT_OUT = {
    "other positions than sines": (Annotated, "src_embed.1.pe", ODD, "pe"),
    "a complex mask": (GPT, "transformer.h.0.attn.bias", torch.ones(1, 4, 4, dtype=torch.complex64), "attn.bias"),
    "a complex table": (Seq2Seq, "pos_extra.weight", torch.ones(40, 5, dtype=torch.complex64), "pos_extra"),
    "a mask of several values": (GPT, "transformer.h.0.attn.bias", ODD[:, :16, :], "attn.bias"),
    "biases by distance in a layer": (Seq2Seq, "transformer.encoder.layers.0.self_attn.pos_bias", ODD[0, :, :3], "pos"),
    "a table of relative positions": (Seq2Seq, "relative_position.weight", ODD[0, :, :3], "relative_position"),
    "a second table of positions": (Seq2Seq, "pos_extra.weight", ODD[0, :, :5], "pos_extra"),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_called_as_a_buffer_and_is_none_is_not_left_out(name, tmp_path):
    kind, tensor, values, named = LEFT_OUT[name]
    torch.save(kind().state_dict() | {tensor: values}, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match=rf"looks like .*, but holds \S*{named}"):
        opened(tmp_path / "m.pt", heads=3)


def test_masks_and_indices_are_buffers(tmp_path):
    buffers = {"src_mask": torch.full((9, 9), -torch.inf).triu(1), "position_ids": torch.arange(9)[None]}
    torch.save(random_weights(Seq2Seq()).state_dict() | buffers, tmp_path / "m.pt")
    assert opened(tmp_path / "m.pt", heads=3).kind == "encoder-decoder"
    seen = torch.ones(1, 1, 8, 8).tril()
    for mask in (seen.to(torch.float8_e4m3fn), seen.to(torch.uint16), torch.ones(1, 1, 0, 0)):
        torch.save(random_weights(GPT()).state_dict() | {"transformer.h.0.attn.bias": mask}, tmp_path / "m.pt")
        assert opened(tmp_path / "m.pt", heads=3).kind == "decoder-only"


HINTS = {
    "positions": "none",
    "start": 2,
    "causal": "no",
    "norm": "post",
    "activation": "gelu",
    "alphabet": "abc",
    "base": "x",
    "prefix": "ema",
}


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_that_a_model_cannot_follow_is_refused_by_its_name(hint, folder_of_gpt2):
    with pytest.raises(CheckpointError, match=f": leave {hint}:{HINTS[hint]} out"):
        opened(folder_of_gpt2, **{hint: HINTS[hint]})


def test_an_activation_is_the_one_that_the_file_says_or_refused_by_its_name(tmp_path):
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)
    network = nn.ModuleDict({"emb": nn.Embedding(17, 12), "encoder": quietly(nn.TransformerEncoder, layer, 1)})
    for name in ("gelu_new", "gelu_pytorch_tanh", "gelu_tanh", "gelu-tanh"):
        model = opened(saved(tmp_path, network, beside(activation=name)))
        assert model.config.activation == "gelu-tanh"
        assert not any("activation" in each for each in model.training["assumed"])
    path = saved(tmp_path, network, beside(activation="Mish", scale_embedding="maybe"))
    with pytest.raises(
        CheckpointError, match=r"model\.pt says activation 'Mish', which is none of relu, gelu, gelu-tan"
    ):
        opened(path)
    with pytest.raises(CheckpointError, match="says scale_embedding 'maybe', which is none of True, False: say which"):
        opened(path, activation="gelu")
    (tmp_path / "config.json").write_text('{"scale_embedding": true}')
    model = opened(path, activation="gelu")
    assert (model.config.activation, model.training["open"]["activation"]) == ("gelu", "gelu")
    assert "activation gelu as it is told (the file says activation 'Mish')" in model.training["assumed"]


@pytest.mark.parametrize("hint", ["norm:post", "causal:no"])
def test_a_hint_against_what_the_file_says_is_refused(hint, tmp_path):
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True, norm_first=True)
    stack = quietly(nn.TransformerEncoder, layer, 1, nn.LayerNorm(12))
    network = nn.ModuleDict({"embedding": nn.Embedding(17, 12), "encoder": stack, "fc_out": nn.Linear(12, 17)})
    path = saved(tmp_path, network, beside(norm_first=True, is_causal=True))
    name, value = hint.split(":")
    with pytest.raises(CheckpointError, match=f"whatever it is told: leave {hint} out"):
        opened(path, **{name: value})
    assert opened(path, norm="pre", causal="yes", heads=3).kind == "decoder-only"


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            {"a.weight": torch.ones(2, 2)},
            r"model.pt holds tensors by whose names \(a\.weight; 1 in all\) it is none of nanoGPT, minGPT",
        ),
        (quietly(nn.Transformer, 12, 3, 1, 1, 20).state_dict(), "layers of torch.nn.Transformer without embeddings"),
        (
            GPT().state_dict() | {"transformer.h.0.attn.q_norm.weight": torch.ones(4)},
            "holds transformer.h.0.attn.q_norm",
        ),
        ({k: v for k, v in GPT().state_dict().items() if "ln_f" not in k}, "lacks transformer.ln_f.weight"),
        ({k: v for k, v in GPT().state_dict().items() if ".h.0.ln" not in k}, "lacks transformer.h.0.ln_1.weight"),
        (GPT().state_dict() | {"transformer.wpe.weight": torch.ones(16)}, "has shape .16,., not 2 dimensions"),
        (GPT().state_dict() | {"transformer.ln_f.weight": torch.ones(13)}, "decoder.norm.weight has shape .13,."),
    ],
)
def test_what_is_not_known_is_refused_in_a_sentence(state, sentence, tmp_path):
    path = tmp_path / "model.pt"
    torch.save(state, path)
    with pytest.raises(CheckpointError, match=sentence):
        opened(path, heads=3)


def test_a_pickle_of_characters_is_never_read(tmp_path):
    path = saved(tmp_path, random_weights(GPT()))
    with (tmp_path / "meta.pkl").open("wb") as file:
        pickle.dump(Bomb(), file)
    model = opened(path, heads=3)
    assert "meta.pkl is a pickle that is damaged or holds more than" in model.source_tokenizer.reason
    assert model.trace(model.example).source_tokens == [str(token) for token in range(8)]
    with pytest.raises(ValueError, match=r"'I' is not the id of a token: .* numbers from 0 to 18, such as 12 5 7"):
        model.trace("I am")


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("the pickle was read",)


def test_folders_without_one_file_of_weights_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"has 0 files of weights and no config.json"):
        opened(tmp_path)
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"has 2 files of weights and no config.json"):
        opened(tmp_path)
    with pytest.raises(CheckpointError, match=r"a.pt"):
        opened(tmp_path / "a.pt")
