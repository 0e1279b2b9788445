"""Two texts at a time: models of BERT's kind read them with token types, as transformers does."""

from __future__ import annotations

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from model.analysis.checks import checks
from model.capture.trace import record
from model.checkpoints.export import export_huggingface
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.network.config import TransformerConfig
from tests.model.checkpoints.bridge.models import random_model

NAMES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
WORDS = [*NAMES.values(), *"the cat sees a dog . she runs".split()]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SIZES |= {"vocab_size": len(WORDS), "max_position_embeddings": 32, "pad_token_id": 0}
KINDS = {
    "BertForMaskedLM": {},
    "BertModel": {},
    "ElectraForMaskedLM": {"embedding_size": 16},
    "AlbertForMaskedLM": {"embedding_size": 16},
    "RobertaForMaskedLM": {"type_vocab_size": 1},
    "DebertaV2ForMaskedLM": {"type_vocab_size": 2},
    "DebertaForMaskedLM": {"type_vocab_size": 0},
}
PAIR = ("the cat sees [MASK]", "she runs .")


def made(kind, folder):
    """A folder of the model with a tokenizer of words, and transformers' tokenizer of it."""
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({name: row for row, name in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ids = [("[CLS]", 2), ("[SEP]", 3)]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    theirs = PreTrainedTokenizerFast(tokenizer_object=inner, **NAMES)
    model = random_model(kind, **(SIZES | KINDS[kind]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    theirs.save_pretrained(folder)
    return model, theirs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [PAIR, PAIR[:1]], ids=["pair", "single"])
def test_states_of_a_pair_are_those_of_transformers(kind, texts, tmp_path):
    model, theirs = made(kind, tmp_path)
    ours = open_checkpoint(tmp_path)
    trace = ours.trace(" [SEP] ".join(texts))
    given = theirs(*texts, return_tensors="pt", return_token_type_ids=True)
    assert ours.source_tokens(" [SEP] ".join(texts)).ids == given["input_ids"][0].tolist()
    named = {name: value for name, value in given.items() if name != "attention_mask"}
    if KINDS[kind].get("type_vocab_size", 2) < 2:
        named.pop("token_type_ids")
    with torch.inference_mode():
        expected = model(**named, output_hidden_states=True, output_attentions=True)
    attentions = torch.stack([each[0] for each in expected.attentions])
    torch.testing.assert_close(trace.attention("encoder"), attentions, atol=1e-5, rtol=1e-5)
    if "MaskedLM" in kind:
        torch.testing.assert_close(trace["output.logits"], expected.logits[0], atol=1e-5, rtol=1e-5)
    if len(texts) > 1 and KINDS[kind].get("type_vocab_size", 2) > 1:
        plain = model(given["input_ids"], output_attentions=True)
        assert not torch.allclose(torch.stack([each[0] for each in plain.attentions]), attentions, atol=1e-4)
    assert all(check.passed for check in checks(trace))


def test_the_vector_of_a_second_text_is_a_quantity_and_kept_in_copies(tmp_path):
    model, _theirs = made("BertForMaskedLM", tmp_path / "theirs")
    ours = open_checkpoint(tmp_path / "theirs")
    text = " [SEP] ".join(PAIR)
    trace = ours.trace(text)
    types = model.bert.embeddings.token_type_embeddings.weight
    expected = torch.zeros(len(trace.source_tokens), 32)
    expected[6:] = types[1] - types[0]
    torch.testing.assert_close(trace["encoder.embedding.types"], expected, atol=1e-6, rtol=0)
    assert "encoder.embedding.types" in trace.names()
    whole = trace["encoder.embedding.tokens"] + trace["encoder.embedding.positions"] + trace["encoder.embedding.types"]
    norm = ours.network.encoder.embedding.output.norm
    torch.testing.assert_close(norm(whole), trace["encoder.embedding.output"], atol=1e-6, rtol=1e-5)
    tokenizers = (ours.source_tokenizer, ours.target_tokenizer)
    save_checkpoint(tmp_path / "kept", ours.network, tokenizers, {}, "")
    again = open_checkpoint(tmp_path / "kept").trace(text)
    assert torch.equal(again["output.logits"], trace["output.logits"])
    with record(ours.network) as batch, torch.inference_mode():
        ids = torch.tensor([ours.source_tokens(text).ids])
        padded = torch.nn.functional.pad(ids, (0, 3))
        ours.network(padded, padded != 0)
    torch.testing.assert_close(batch["output.logits"][: ids.shape[1]], trace["output.logits"], atol=1e-5, rtol=1e-5)
    export_huggingface(ours, tmp_path / "exported")
    exported = open_checkpoint(tmp_path / "exported").trace(text)
    torch.testing.assert_close(exported["output.logits"], trace["output.logits"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "separator", "message"),
    [
        ("decoder-only", 3, r"separator \(3\) must be the id of a token of an encoder-only model"),
        ("encoder-only", 13, r"separator \(13\) must be the id of a token .* below 13"),
        ("encoder-only", -1, "separator"),
        ("encoder-only", True, "separator"),
    ],
)
def test_a_separator_is_a_token_of_a_model_that_reads(kind, separator, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig.one_stack(kind, 13, 2, separator=separator)
