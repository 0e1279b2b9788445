"""An exported model, opened by transformers itself, gives our logits and reads our tokens."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache

import pytest
import torch
import transformers
from torch.testing import assert_close

from model.checkpoints.export import export_huggingface, folder_zipped, huggingface_zipped, without_front_matter
from model.checkpoints.load import open_checkpoint
from model.inference.models import MODEL_CLASSES
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.network.transformer import build
from model.runtime.errors import CheckpointError
from model.text.tokenizer_training import train_bpe
from tests.model.examples import disturb, sentences, tokenizers

SIZES = {"d_model": 16, "n_heads": 4, "d_ff": 24, "max_length": 20, "dropout": 0.1}
RECORD = {"licence": "Tatoeba, CC BY 2.0 FR", "example": "The cat sees."}
TIED = {"tied_embeddings": "output", "scale_embedding": False}
LLAMA = {"norm": "rms", "norm_placement": "pre", "position": "rotary", "activation": "swiglu"}
PRE = {"norm_placement": "pre"}
DECODERS = {
    "gpt2": PRE | TIED | {"position": "learned", "activation": "gelu-tanh"},
    "gpt2-sines": PRE | {"tied_embeddings": "output", "bias": False, "n_key_value_heads": 2, "scale_attention": False},
    "gpt2-none": PRE | {"position": "none", "activation": "silu", "scale_output": True, "norm_epsilon": 1e-3},
    "neox": PRE | {"position": "rotary", "activation": "gelu", "rotary_channels": 2, "parallel": True},
    "neox-whole": PRE | {"position": "rotary", "scale_embedding": False, "tied_embeddings": "output"},
    "llama": LLAMA | {"bias": False, "n_key_value_heads": 2, "tied_embeddings": "output", "scale_embedding": False},
    "llama-wide": LLAMA | {"head_width": 6, "position_base": 500.0, "tied_embeddings": "output"},
}
ENCODERS = {
    "bert": {"embedding_norm": True, "position": "learned", "activation": "gelu", "output_head": "transform"},
    "bert-tied": {"embedding_norm": True, "output_head": "transform", "output_bias": True, "tied_embeddings": "output"},
    "bert-states": {"embedding_norm": True, "tied_embeddings": "output"},
    "megatron": PRE | {"position": "learned", "output_head": "transform"},
    "megatron-states": PRE | {"tied_embeddings": "output", "scale_embedding": False},
}
PAIRS = {
    "marian": {"activation": "silu", "tied_embeddings": "output"},
    "marian-halves": {"position": "sinusoidal-halves", "scale_embedding": False, "n_decoder_layers": 1},
    "pre": PRE | {"tied_embeddings": "output"},
    "pre-learned": PRE | {"position": "learned", "activation": "gelu-tanh", "n_encoder_layers": 1, "bias": False},
}


@cache
def both_tokenizers():
    return tokenizers(sentences(30))


@cache
def one_tokenizer():
    return train_bpe([pair.source for pair in sentences(30)], 90, mask=True)


def model_of(kind: str, options: dict) -> TextModel:
    both = both_tokenizers() if kind == "encoder-decoder" else (one_tokenizer(), one_tokenizer())
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    if kind == "encoder-decoder":
        config = TransformerConfig(**(SIZES | sizes | {"n_encoder_layers": 2, "n_decoder_layers": 2} | options))
    else:
        config = TransformerConfig.one_stack(kind, len(both[0]), 2, **(SIZES | options))
    network = build(config).eval().requires_grad_(False)
    disturb(network)
    return MODEL_CLASSES[kind]("mine", network, both, RECORD)


def opened(auto, folder):
    """Their model; every tensor of the file is used, and none is missing."""
    network, report = auto.from_pretrained(folder, output_loading_info=True)
    assert not [report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[key]]
    return network


def tokenizer_of(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def ids(model: TextModel, text: str) -> torch.Tensor:
    return torch.tensor([model.source_tokens(text).ids])


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_the_same_in_transformers(name, tmp_path):
    model = model_of("decoder-only", DECODERS[name])
    export_huggingface(model, tmp_path)
    theirs = opened(transformers.AutoModelForCausalLM, tmp_path)
    read = ids(model, "The cat sees the doctor.")
    assert tokenizer_of(tmp_path)("The cat sees the doctor.").input_ids == read[0].tolist()
    assert_close(theirs(read).logits, model.network(read), rtol=1e-5, atol=1e-5)
    matrix = theirs.get_output_embeddings().weight
    assert (matrix is theirs.get_input_embeddings().weight) == (DECODERS[name].items() >= TIED.items())


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_the_same_in_transformers(name, tmp_path):
    model = model_of("encoder-only", ENCODERS[name])
    export_huggingface(model, tmp_path)
    states = name.endswith("-states")
    auto = transformers.AutoModel if states else transformers.AutoModelForMaskedLM
    theirs = opened(auto, tmp_path)
    tokenizer = tokenizer_of(tmp_path)
    read = ids(model, "The cat <mask> the doctor.")
    assert tokenizer("The cat sees the doctor.").input_ids == ids(model, "The cat sees the doctor.")[0].tolist()
    assert tokenizer.mask_token_id == model.source_tokenizer.mask
    if states:  # as the card says
        found = theirs(read).last_hidden_state @ theirs.get_input_embeddings().weight.T
        found = found / model.config.d_model**0.5 if model.config.scale_embedding else found
        assert "get_input_embeddings().weight.T" in (tmp_path / "README.md").read_text()
    else:
        found = theirs(read).logits
    assert_close(found, model.network(read), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_an_encoder_decoder_is_the_same_in_transformers(name, tmp_path):
    model = model_of("encoder-decoder", PAIRS[name])
    export_huggingface(model, tmp_path)
    theirs = opened(transformers.AutoModelForSeq2SeqLM, tmp_path)
    read, written = ids(model, "The cat sees the doctor."), model.target_tokens("一")
    target = torch.tensor([written.ids])
    assert_close(
        theirs(input_ids=read, decoder_input_ids=target).logits, model.network(read, target), rtol=1e-5, atol=1e-5
    )
    both = [tokenizer_of(folder) for folder in (tmp_path, tmp_path / "target_tokenizer")]
    assert both[0]("The cat sees the doctor.").input_ids == read[0].tolist()
    assert both[1]("一").input_ids == written.ids
    made = theirs.generate(read, num_beams=1, do_sample=False, max_length=8)[0].tolist()
    assert made[0] == model.target_tokenizer.start
    assert made[1:] == model.generate("The cat sees the doctor.", length=7).ids


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ("decoder-only", PRE | {"position": "alibi"}, "position 'alibi'"),
        ("decoder-only", PRE | {"window": 3}, "window 3"),
        ("decoder-only", LLAMA | {"qk_norm": True}, "qk_norm True"),
        ("decoder-only", PRE | {"residual": False}, "residual False"),
        *(
            ("decoder-only", DECODERS["gpt2"] | {option: value}, f"{option} {value}")
            for option, value in {"window": 2, "qk_norm": True, "embedding_norm": True, "output_bias": True}.items()
        ),
        ("encoder-only", PRE, "output_head 'linear'"),
        ("encoder-only", {"norm": "none"}, "norm 'none'"),
        ("encoder-decoder", {"norm": "textbook"}, "norm 'textbook'"),
        ("encoder-decoder", {"norm_placement": "sandwich"}, "norm_placement 'sandwich'"),
    ],
)
def test_what_no_family_has_is_named(kind, options, named, tmp_path):
    with pytest.raises(CheckpointError, match=named):
        export_huggingface(model_of(kind, options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_card_keeps_its_text_under_a_front_matter_for_the_hub(tmp_path):
    model = model_of("decoder-only", DECODERS["llama"])
    export_huggingface(model, tmp_path, "---\nold: front\n---\n# Mine\n\nAbout **it**.\n")
    text = (tmp_path / "README.md").read_text()
    front, _, rest = text.removeprefix("---\n").partition("\n---\n")
    assert "license: cc-by-2.0" in front.splitlines()
    assert "pipeline_tag: text-generation" in front.splitlines()
    assert "old" not in text
    assert rest.strip().startswith("# Mine\n\nAbout **it**.")
    assert "AutoModelForCausalLM" in rest
    assert without_front_matter(text) == rest
    assert without_front_matter("---\nnever ends") == "---\nnever ends"


def test_a_zip_unpacks_into_one_folder(tmp_path):
    model = model_of("decoder-only", DECODERS["llama"])
    with zipfile.ZipFile(io.BytesIO(huggingface_zipped(model, "mine"))) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"mine"}
        assert json.loads(archive.read("mine/config.json"))["model_type"] == "llama"
    folder = tmp_path / "own"
    (folder / ".hidden").mkdir(parents=True)
    (folder / ".hidden" / "x").write_text("x")
    (folder / "a.txt").write_text("a")
    (folder / "link").symlink_to(tmp_path)
    with zipfile.ZipFile(io.BytesIO(folder_zipped(folder, "n"))) as archive:
        assert archive.namelist() == ["n/a.txt"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("decoder-only", DECODERS["llama"]), ("decoder-only", DECODERS["gpt2"]), ("encoder-decoder", PAIRS["pre"])],
    ids=["llama", "gpt2", "pre"],
)
def test_an_export_opens_here_again(kind, options, tmp_path):
    model = model_of(kind, options)
    export_huggingface(model, tmp_path / "out")
    again = open_checkpoint(tmp_path / "out", torch.device("cpu"), torch.float32)
    tokens = [model.source_tokens("The cat sees the doctor.")]
    tokens += [model.target_tokens("一")] if kind == "encoder-decoder" else []
    first, second = model.trace_tokens(*tokens), again.trace_tokens(*tokens)
    assert_close(second["output.logits"], first["output.logits"], rtol=1e-5, atol=2e-5)
    assert again.source_tokens("The cat sees the doctor.") == tokens[0]
    if kind == "encoder-decoder":  # each language by its own tokenizer
        assert again.target_tokens("一") == tokens[1]
        one, other = (each.generate("The cat sees the doctor.", length=6) for each in (model, again))
        assert (one.ids, one.text) == (other.ids, other.text)


@pytest.mark.parametrize("name", ["..", "a/b", ""])
def test_a_name_that_leads_elsewhere_is_no_folder_in_an_archive(tmp_path, name):
    with pytest.raises(CheckpointError, match="no name of a folder"):
        folder_zipped(tmp_path, name)
