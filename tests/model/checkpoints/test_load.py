"""Folders of Hugging Face opened by `open_checkpoint`: read and written as transformers does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from model.analysis.checks import checks
from model.analysis.comparison import Comparison
from model.analysis.predictions import text_losses
from model.checkpoints.bridge import load as bridged
from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import random_model
from tests.model.examples import disturb
from tests.model.text.huggingface.test_tokenizer import byte_level, word_piece

CPU = torch.device("cpu")
TEXT = "I am not a teacher."


def opened(folder):
    return open_checkpoint(folder, CPU, torch.float32)


def saved(folder: Path, kind: str, tokenizer, **settings):
    """A tiny model with random weights, its tokenizer beside it; gives both as transformers has them."""
    inner, names = tokenizer
    network = random_model(kind, vocab_size=inner.get_vocab_size(), **settings)
    disturb(network)
    network.save_pretrained(folder)
    inner.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return network


BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
BERT |= {"max_position_embeddings": 24, "pad_token_id": 0}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 24, "eos_token_id": 0, "bos_token_id": 0}
BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 24}
BART |= {"decoder_start_token_id": 2, "eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1}


def test_a_gpt2_reads_and_goes_on_without_special_tokens(tmp_path):
    network = saved(tmp_path, "GPT2LMHeadModel", byte_level(), **GPT2)
    model = opened(tmp_path)
    read = model.source_tokens(TEXT)
    assert (read.before, read.labels[:2]) == (0, ["I", "▁am"])
    expected = network.generate(torch.tensor([read.ids]), max_new_tokens=6, do_sample=False, eos_token_id=None)
    made = model.generate(TEXT, length=6)
    assert made.ids == expected[0, len(read) :].tolist()[: len(made.ids)]
    assert model.source_tokens("").labels == ["<|endoftext|>"]
    trace = model.trace(TEXT)
    assert [guess.place for guess in model.guesses(trace)] == [len(read) - 1]
    assert model.take(TEXT, 0, read.ids[1]) == f"{TEXT} am"
    assert text_losses(model, trace, read).isnan().sum() == 1
    long = "a " * 99
    assert len(model.source_tokens(long)) == 24
    assert len(model.generate(long, length=3).ids) == 3


def test_writing_ends_at_any_of_several_tokens(tmp_path):
    saved(tmp_path, "GPT2LMHeadModel", byte_level(), **GPT2)
    first = opened(tmp_path).generate(TEXT, length=8).ids
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [first[2], 0]}))
    model = opened(tmp_path)
    assert model.generate(TEXT, length=8).ids == first[: first.index(first[2]) + 1]
    assert model.generate(TEXT, length=8, beam=2).ids


@pytest.mark.parametrize("forced", [None, 7])
def test_a_bart_writes_what_transformers_writes(forced, tmp_path):
    network = saved(tmp_path, "BartForConditionalGeneration", byte_level(start=True), **BART)
    settings = json.loads((tmp_path / "config.json").read_text()) | {"forced_bos_token_id": forced}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "generation_config.json").unlink()
    model = opened(tmp_path)
    source = model.source_tokens(TEXT)
    assert (source.labels[0], source.labels[-1]) == ("<s>", "</s>")
    first = [2, 0] if forced is None else [2, forced]
    assert model.target_tokens("I").ids == [*first, *model.target_tokenizer.encode("I").ids]
    given = torch.tensor([source.ids]), torch.tensor([first])
    expected = network.generate(given[0], decoder_input_ids=given[1], max_new_tokens=5, num_beams=1, do_sample=False,
                              forced_bos_token_id=None)  # fmt: skip
    assert model.generate(TEXT, length=5).ids == expected[0, 2:].tolist()
    trace = model.trace(TEXT)
    assert trace.target_tokens[:2] == model.target_tokenizer.tokens(first).labels
    texts = model.generate_batch([TEXT, "I am"], length=5)
    assert [each.ids for each in texts] == [model.generate(text, length=5).ids for text in (TEXT, "I am")]


@pytest.mark.parametrize("made", [word_piece, lambda: byte_level(True)], ids=["WordPiece", "bytes"])
def test_a_masked_model_fills_in_its_own_mask(made, tmp_path):
    network = saved(tmp_path, "BertForMaskedLM", made(), **BERT)
    model = opened(tmp_path)
    assert model.training["in_file"] == sum(each.numel() for each in network.parameters())  # but for a row of types
    assert model.training["in_file"] > model.network.parameter_count()
    mask = model.source_tokenizer.mask_label
    assert mask == ("[MASK]" if made is word_piece else "<mask>")
    text = f"I am a {mask}."
    tokens = model.source_tokens(text)
    place = tokens.ids.index(model.source_tokenizer.mask)
    with torch.no_grad():
        logits = network(torch.tensor([tokens.ids])).logits[0, place]
    logits[model.source_tokenizer.special] = -torch.inf
    best = int(logits.argmax())
    assert model.guesses(model.trace(text))[0].choices[0].token == best
    filled = model.take(text, 0, model.source_tokenizer.encode(" teacher").ids[0])
    assert filled == "I am a teacher." or model.source_tokenizer.continues == ""
    assert mask not in model.generate(text).text
    assert not text_losses(model, model.trace(text), tokens)[1:place].isnan().any()


def test_the_rest_of_a_word_is_put_beside_it_and_words_apart(tmp_path):
    saved(tmp_path, "BertForMaskedLM", word_piece(), **BERT)
    model = opened(tmp_path)
    tokenizer = model.source_tokenizer
    rest = next(token for token in range(len(tokenizer)) if tokenizer.label(token).startswith("##"))
    word = tokenizer.encode("i").ids[0]
    assert model.take("teach [MASK] us", 0, rest) == f"teach{tokenizer.label(rest)[2:]} us"
    assert model.take("teach[MASK]us", 0, word) == "teach i us"
    assert model.take("[MASK] am [MASK].", 1, word) == "[MASK] am i."


def test_a_bare_encoder_reads_and_predicts_nothing(tmp_path):
    network = saved(tmp_path, "BertModel", word_piece(), **BERT)
    model = opened(tmp_path)
    trace, other = model.trace(TEXT), model.trace("I am a teacher.")
    with torch.inference_mode():
        states = network(torch.tensor([model.source_tokens(TEXT).ids])).last_hidden_state[0]
    torch.testing.assert_close(trace["encoder.layers.1.feed_forward_block.norm.output"], states, atol=1e-5, rtol=1e-5)
    assert (model.predicts, model.fills, model.guesses(trace)) == (False, False, [])
    assert all(check.passed for check in checks(trace))
    assert text_losses(model, trace, model.source_tokens(TEXT)).isnan().all()
    changes = Comparison(trace, other).changes
    assert set(changes["kind"]) == {"head", "layer", "position"}
    with pytest.raises(ValueError, match="only reads: it has no output that predicts tokens"):
        model.generate(TEXT)


def test_a_bare_encoder_and_decoder_read_a_target_and_write_none(tmp_path):
    saved(tmp_path, "BartModel", byte_level(start=True), **BART)
    model = opened(tmp_path)
    trace, target, made = model.trace_generated(model.source_tokens(TEXT))
    assert (trace.target_tokens, made.ids) == (["</s>", "<s>"], [])
    assert text_losses(model, trace, model.source_tokens(TEXT), target).isnan().all()
    assert model.trace(TEXT, "I am").target_tokens == ["</s>", "<s>", *model.target_tokenizer.encode("I am").labels]
    with pytest.raises(ValueError, match="no output head"):
        model.generate(TEXT)


def test_what_is_not_rebuilt_runs_as_it_is(tmp_path, monkeypatch):
    asked, made = [], open_checkpoint("checkpoints/sort", CPU)
    monkeypatch.setattr(bridged, "open_bridged", lambda *given, **_whole: asked.append(given) or made)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Something"]}))
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    assert opened(tmp_path) is made
    assert asked == [(tmp_path, {"architectures": ["Something"]}, CPU, torch.float32)]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "config.json is not valid JSON"),
        ("[]", "config.json must hold a JSON object"),
        ('{"a": 1}', "0 files of weights"),
    ],
)
def test_a_damaged_config_is_refused(config, sentence, tmp_path):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=sentence):
        opened(tmp_path)


HEADS_OF_ONE = {"d_model": 400, "encoder_attention_heads": 400, "decoder_attention_heads": 400}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 10_000_000}, "the config says d_model 10,000,000, and no tensor in the weights is wider"),
        ({**HEADS_OF_ONE, "max_position_embeddings": 1 << 17}, "max_length 131,072, whose table of positions"),
    ],
    ids=["wide", "long"],
)
def test_positions_that_would_fill_the_memory_are_refused_before_they_are_computed(changes, sentence, tmp_path):
    """Marian's are in no file: once the process was killed for them."""
    sizes = BART | {"encoder_ffn_dim": 400, "decoder_ffn_dim": 400}
    saved(tmp_path, "MarianMTModel", byte_level(start=True), **sizes)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    with pytest.raises(CheckpointError, match=sentence):
        open_checkpoint(tmp_path, torch.device("cpu"), torch.float32)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="is neither a file nor a folder"):
        opened(tmp_path / "model.pt")


def test_a_file_that_is_not_mapped_whole_opens_unless_the_model_needs_more_memory_than_is_free(tmp_path, monkeypatch):
    """As of 70 billion parameters in one file: its header says how much they need."""

    def unmapped(*_given, **_options):
        raise RuntimeError("unable to mmap 141107505433 bytes: Cannot allocate memory")

    saved(tmp_path, "GPT2LMHeadModel", byte_level(), **GPT2)
    monkeypatch.setattr("model.checkpoints.formats.safetensors.safe_open", unmapped)
    assert checks(opened(tmp_path).trace("a"))
    monkeypatch.setattr("model.runtime.memory.available", lambda device: 0)
    with pytest.raises(CheckpointError, match=r"this model needs .* GB in float32 and 0.0 GB are free"):
        opened(tmp_path)
