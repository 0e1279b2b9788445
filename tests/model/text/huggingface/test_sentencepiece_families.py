"""Families whose only tokenizer file is a sentencepiece model: as their authors' code and transformers read it."""

from __future__ import annotations

import json
import unicodedata

import pytest
import torch
import transformers

from model.checkpoints.load import open_checkpoint
from model.text.huggingface.load import open_tokenizers
from model.text.huggingface.tokenizer import HuggingFaceTokenizer
from tests.model.text.huggingface.sentencepiece_models import (
    ALBERT,
    BERT,
    DEBERTA,
    ENGLISH,
    T5,
    pieces,
    processor,
    trained,
)

CPU = torch.device("cpu")
LOWER = [text.lower() for text in ENGLISH] + ['9,000 (or 2,9) cost £5 - 3.5 € "more".'] * 5
HOSTILE = [
    "",
    " ",
    "  two  spaces\t\nand a line ",
    "naïve Ünïcode ﬁ ＡＢ Å",
    "smile 😀🧑‍🚀!",
    "שלום עולם مرحبا",
    "</script><b>&amp;",
    "``quoted'' ''x``",
    "a\u200bb\ufeffc\u202ed",
    "x" * 300,
    "的猫坐在垫子上。",
    "\x00\x07\x1b[31m",
]
# family: the file, how its model is trained, special tokens by role
FAMILIES = {
    "albert": ("spiece.model", BERT, ("[CLS]", "[SEP]", "<pad>", "<unk>", "[MASK]")),
    "rembert": ("sentencepiece.model", BERT, ("[CLS]", "[SEP]", "<pad>", "<unk>", "[MASK]")),
    "camembert": ("sentencepiece.bpe.model", {}, ("<s>", "</s>", "<pad>", "<unk>", "<mask>")),
    "xlm-roberta": ("sentencepiece.bpe.model", {}, ("<s>", "</s>", "<pad>", "<unk>", "<mask>")),
    "xlm-roberta-xl": ("sentencepiece.bpe.model", {}, ("<s>", "</s>", "<pad>", "<unk>", "<mask>")),
    "deberta-v2": ("spm.model", DEBERTA, ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")),
    "mbart": ("sentencepiece.bpe.model", {}, ("<s>", "</s>", "<pad>", "<unk>", "<mask>")),
    "pegasus": ("spiece.model", T5, (None, "</s>", "<pad>", "<unk>", "<mask_2>")),
    "t5": ("spiece.model", T5, (None, "</s>", "<pad>", "<unk>", None)),
}
OURS = {"albert": "AlbertTokenizer", "xlm-roberta-xl": "XLMRobertaTokenizer", "rembert": "RemBertTokenizer"}
# How many ids lie before the first piece that is no special one, and which piece that is.
OFFSETS = {"albert": (5, 5), "rembert": (5, 5), "camembert": (7, 3), "xlm-roberta": (4, 3), "xlm-roberta-xl": (4, 3)}
OFFSETS |= {"deberta-v2": (4, 4), "mbart": (4, 3), "pegasus": (106, 3), "t5": (3, 3)}


def opened(folder, family, content, size=1000):
    (folder / FAMILIES[family][0]).write_bytes(content)
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return open_tokenizers(folder, {"model_type": family}, (size, size))[0]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    name = request.param
    content = trained(*LOWER, vocab_size=90, **FAMILIES[name][1])
    folder = tmp_path_factory.mktemp(name)
    ours = opened(folder, name, content)
    kind = getattr(transformers, OURS.get(name, "AutoTokenizer"))
    return name, ours, kind.from_pretrained(folder, local_files_only=True), content


def test_special_tokens_are_the_familys(family):
    name, ours, _theirs, _content = family
    assert isinstance(ours, HuggingFaceTokenizer), ours.reason
    found = [ours.start, ours.end, ours.padding, ours.unknown, ours.mask]
    assert [None if token is None else ours.label(token) for token in found] == list(FAMILIES[name][2])


def test_ids_are_the_models_own_with_the_familys_offset(family):
    """A word's pieces, as sentencepiece itself numbers them, moved by what the family puts before them."""
    name, ours, _theirs, content = family
    first, row = OFFSETS[name]
    own = processor(content)
    for text in LOWER[:6]:
        known = [number - row + first if number >= row else ours.unknown for number in own.encode(text)]
        assert ours.encode(text).ids == known, text
        assert ours.decode(known) == text


@pytest.mark.parametrize("text", [*LOWER[:6], *HOSTILE])
def test_ids_are_those_of_transformers_on_hostile_texts_too(family, text):
    name, ours, theirs, _content = family
    wanted = theirs(text, split_special_tokens=True, add_special_tokens=False)["input_ids"]
    if name == "rembert":  # its class takes the third piece for the unknown one
        wanted = [ours.unknown if token == 2 else token for token in wanted]
    assert ours.encode(text).ids == wanted
    if name != "rembert" and wanted:  # and forgets what stands around a text
        framed = theirs(text, split_special_tokens=True)["input_ids"]
        assert ours.framed(text, "source", 999).ids == framed
    assert ours.ends(text) == sorted(ours.ends(text))
    ours.decode(ours.encode(text).ids)


def test_what_stands_around_a_text(family):
    name, ours, _theirs, _content = family
    around = {
        "t5": ([], ["</s>"]),
        "pegasus": ([], ["</s>"]),
        "mbart": ([], ["</s>", "en_XX"]),
        "xlm-roberta": (["<s>"], ["</s>"]),
        "xlm-roberta-xl": (["<s>"], ["</s>"]),
        "camembert": (["<s>"], ["</s>"]),
    }
    before, after = ([ours.label(token) for token in part] for part in ours.margins("source"))
    assert (before, after) == around.get(name, (["[CLS]"], ["[SEP]"]))


def published(content: bytes, text: str) -> list[int]:
    """ALBERT's own `preprocess_text` and `encode_pieces` (google-research/albert, tokenization.py)."""
    own, found = processor(content), []
    text = " ".join(text.strip().split()).replace("``", '"').replace("''", '"')
    text = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in text if not unicodedata.combining(letter)).lower()
    for piece in own.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            again = own.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁" and again[0][0] == "▁":
                again = again[1:] if len(again[0]) == 1 else [again[0][1:], *again[1:]]
            found += [*again, ","]
        else:
            found.append(piece)
    return [own.piece_to_id(piece) for piece in found]


@pytest.mark.parametrize(
    "text", [*LOWER[-5:], *HOSTILE, "a (cat) 3.5 - £5.", "(a)(b)", "one, 9,000, 2,9", "I-am.a-CAT"]
)
def test_an_alberts_signs_and_numbers_are_cut_as_its_authors_do(text, tmp_path):
    """Its trainer defined signs as symbols, from which transformers would go on as with a new word."""
    content = trained(*LOWER, vocab_size=100, **ALBERT)
    ours = opened(tmp_path, "albert", content, len(pieces(content)))
    assert ours.encode(text).ids == published(content, text)


def test_an_albert_is_opened_with_its_own_tokens_and_fills_its_mask(tmp_path):
    content = trained(*LOWER, vocab_size=100, **ALBERT)
    (tmp_path / "spiece.model").write_bytes(content)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    sizes |= {"embedding_size": 16, "max_position_embeddings": 64, "vocab_size": len(pieces(content))}
    torch.manual_seed(0)
    network = transformers.AlbertForMaskedLM(transformers.AlbertConfig(**sizes)).eval()
    network.save_pretrained(tmp_path)
    model = open_checkpoint(tmp_path, CPU, torch.float32)
    trace = model.trace("The [MASK] sat on the mat.")
    assert trace.source_tokens[:3] == ["[CLS]", "▁the", "[MASK]"]
    assert trace.source_tokens[-2:] == [".", "[SEP]"]
    wanted = network(torch.tensor([model.source_tokens("The [MASK] sat on the mat.").ids])).logits[0]
    assert torch.allclose(trace["output.logits"], wanted, atol=1e-5)


def test_a_family_whose_conversion_is_wrong_says_so(tmp_path):
    """transformers' XGLMTokenizer takes a sentencepiece model's rows for other tokens': every text is unknown ones."""
    FAMILIES["xglm"] = ("sentencepiece.bpe.model", {}, ())
    ours = opened(tmp_path, "xglm", trained(*LOWER))
    assert ours.reason.startswith("transformers cuts texts otherwise than sentencepiece.bpe.model does")
    assert ours.encode("3 1").ids == [3, 1]
