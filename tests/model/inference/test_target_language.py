"""Translators into many languages: what they write in each is what transformers has them write."""

from __future__ import annotations

import json
from functools import cache

import pytest
import torch
import transformers

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from tests.model.text.huggingface.sentencepiece_models import ENGLISH, pieces, trained

TEXT, LENGTH = "I am a teacher.", 9
SIZES = {"d_model": 32, "max_position_embeddings": 64, "init_std": 0.5}
for stack in ("encoder", "decoder"):
    SIZES |= {f"{stack}_layers": 1, f"{stack}_ffn_dim": 48, f"{stack}_attention_heads": 4}
IDS = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3}
# Class of the tokenizer, family, first token of a target in the config, a language, and the way of transformers.
FAMILIES = {
    "M2M-100": ("M2M100Tokenizer", "M2M100", 2, "__fr__", "forced_bos_token_id"),
    "NLLB": ("NllbTokenizer", "M2M100", 2, "fra_Latn", "forced_bos_token_id"),
    "mBART-50": ("MBart50Tokenizer", "MBart", 2, "fr_XX", "forced_bos_token_id"),
    "mBART": ("MBartTokenizer", "MBart", None, "fr_XX", "decoder_start_token_id"),
    "mBART for Romanian": ("MBartTokenizer", "MBart", "ro_RO", "fr_XX", "decoder_start_token_id"),
}


@cache
def tokenizer_files(class_name: str) -> dict[str, bytes]:
    content = trained(*ENGLISH, **({"model_type": "bpe"} if class_name == "NllbTokenizer" else IDS))
    vocabulary = {piece: row for row, piece in enumerate(pieces(content))}
    return {
        "sentencepiece.bpe.model": content,
        "tokenizer_config.json": json.dumps({"tokenizer_class": class_name}).encode(),
        **({"vocab.json": json.dumps(vocabulary).encode()} if class_name == "M2M100Tokenizer" else {}),
    }


@pytest.fixture(params=FAMILIES)
def translator(request, tmp_path):
    """Folder of the model, with the model and the tokenizer of transformers, a language, and the name of its way."""
    class_name, family, start, language, way = FAMILIES[request.param]
    for name, content in tokenizer_files(class_name).items():
        (tmp_path / name).write_bytes(content)
    more = {"additional_special_tokens": ["eng_Latn", "fra_Latn", "zho_Hans"]} if class_name == "NllbTokenizer" else {}
    tokenizer = getattr(transformers, class_name).from_pretrained(tmp_path, **more)
    for path in tmp_path.iterdir():
        path.unlink()
    first = tokenizer.convert_tokens_to_ids(start) if isinstance(start, str) else start
    config = getattr(transformers, f"{family}Config")(
        vocab_size=max(tokenizer.convert_tokens_to_ids(language), len(tokenizer)) + 64,
        decoder_start_token_id=first,
        **SIZES,
    )
    torch.manual_seed(0)
    theirs = getattr(transformers, f"{family}ForConditionalGeneration")(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path, theirs, tokenizer, language, way


def test_a_language_is_written_as_transformers_has_it_written(translator, capsys):
    folder, theirs, tokenizer, language, way = translator
    token = tokenizer.convert_tokens_to_ids(language)
    model = open_checkpoint(folder, torch.device("cpu"), torch.float32)
    given = tokenizer(TEXT, return_tensors="pt")
    assert model.source_tokens(TEXT).ids == given.input_ids[0].tolist()
    assert language in model.languages
    into = model.into(language)
    begun, _ = into.target_tokenizer.margins("target")
    assert begun[-1] == token
    options = {"max_new_tokens": LENGTH + (way == "forced_bos_token_id"), "num_beams": 1, "do_sample": False}
    expected = theirs.generate(**given, **options, **{way: token})[0].tolist()
    made = into.generate(TEXT, length=LENGTH)
    assert [*begun, *made.ids] == expected
    assert into.target_tokens("I am").ids[: len(begun)] == begun
    trace = into.trace(TEXT)
    assert trace.target_tokens[: len(begun)][-1] == language
    for other in model.languages[:2]:  # from one language to another
        assert into.into(other).target_tokenizer.margins("target")[0][-1] == tokenizer.convert_tokens_to_ids(other)
    assert into is model.into(language)
    assert into.reading(False).target_tokenizer.margins("target")[0] == begun
    with pytest.raises(ValueError, match=f"language \\('xx'\\) must be one of .*{language}.*: the tokens of languages"):
        model.into("xx")
    said = ["generate", str(folder), TEXT, "--length", str(LENGTH)]
    assert main([*said, "--target-language", language]) == 0
    assert capsys.readouterr().out == made.text + "\n"
    assert main(said) == 0
    told = model.target_tokenizer.margins("target")[0][0] in model.target_tokenizer.languages.values()
    assert ("and no file says which: give --target-language" in capsys.readouterr().err) != told
