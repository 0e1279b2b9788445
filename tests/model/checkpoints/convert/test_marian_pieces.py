"""Tokenizers of two sentencepiece models, a Marian's: read, kept, exported, and led nowhere else by any file."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from random import Random

import pytest
import sentencepiece
import torch
import transformers

from model.checkpoints.export import huggingface_zipped
from model.checkpoints.load import open_checkpoint
from model.checkpoints.manage import keep_as_ours
from model.runtime.errors import CheckpointError
from model.text.huggingface.load import open_tokenizers
from model.text.huggingface.slow_tokenizer import SlowTokenizer
from tests.model.checkpoints.fuzzing_files import damaged
from tests.model.text.huggingface.sentencepiece_models import CHINESE, ENGLISH, pieces, trained

# transformers' advice to install what its MarianTokenizer does not use to cut a text
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
CPU = torch.device("cpu")
SIZES = {"d_model": 16, "max_position_embeddings": 32} | {
    f"{stack}_{name}": size
    for stack in ("encoder", "decoder")
    for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))
}


@pytest.fixture
def marian(tmp_path):
    """A folder as `save_pretrained` of model and tokenizer leaves it."""
    both = {"source": trained(*ENGLISH), "target": trained(*CHINESE)}
    for side, content in both.items():
        (tmp_path / f"{side}.spm").write_bytes(content)
    known = dict.fromkeys(piece for content in both.values() for piece in pieces(content))
    names = ["</s>", "<unk>", *(piece for piece in known if piece not in ("<unk>", "<s>", "</s>")), "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: row for row, name in enumerate(names)}))
    ids = {"pad_token_id": len(names) - 1, "decoder_start_token_id": len(names) - 1, "eos_token_id": 0}
    torch.manual_seed(0)
    config = transformers.MarianConfig(vocab_size=len(names), forced_eos_token_id=0, **ids, **SIZES)
    network = transformers.MarianMTModel(config).eval()
    network.save_pretrained(tmp_path)
    files = [str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files, source_lang="en", target_lang="zh")
    tokenizer.save_pretrained(tmp_path)
    return tmp_path, network, tokenizer


def test_a_marian_reads_and_writes_each_language_by_its_own_pieces(marian):
    folder, network, tokenizer = marian
    model = open_checkpoint(folder, CPU, torch.float32)
    assert isinstance(model.source_tokenizer, SlowTokenizer)
    for text in (*ENGLISH[:4], "naïve 😀", "a  b", "", "</s> <pad>"):
        assert model.source_tokens(text).ids == tokenizer(text)["input_ids"], text
        ids = tokenizer(text)["input_ids"]
        assert model.source_tokenizer.ends(text)[-1:] == ([len(text)] if len(ids) > 1 else [])
    for text in (*CHINESE[:4], "我 是", "teacher"):
        wanted = tokenizer(text_target=text)["input_ids"]
        assert model.target_tokens(text).ids == [network.config.decoder_start_token_id, *wanted[:-1]], text
        assert model.target_tokenizer.decode(wanted) == tokenizer.decode(wanted, skip_special_tokens=True)
    assert model.target_tokens(CHINESE[0]).labels[:2] == ["<pad>", "▁我"]
    source = torch.tensor([model.source_tokens(ENGLISH[0]).ids])
    written = network.generate(source, max_new_tokens=6, num_beams=1, do_sample=False)[0, 1:].tolist()
    made = model.generate(ENGLISH[0], length=6)
    assert made.ids == written
    assert made.text == tokenizer.decode(written, skip_special_tokens=True)
    assert model.trace(ENGLISH[0], CHINESE[0]).target_tokens[0] == "<pad>"


def same(one, other):
    """Both read and write the same tokens, and compute the same of them."""
    for text in (*ENGLISH[:4], *CHINESE[:4], "naïve 😀", "a  b", "", "</s> <pad> >>de<< x", "\x00\u202e</script>"):
        for side in ("source_tokenizer", "target_tokenizer"):
            ids = getattr(one, side).encode(text).ids
            assert getattr(other, side).encode(text).ids == ids, text
            assert getattr(other, side).ends(text) == getattr(one, side).ends(text)
            assert getattr(other, side).decode(ids) == getattr(one, side).decode(ids)
    pair = ENGLISH[0], CHINESE[0]
    mine, theirs = one.trace(*pair), other.trace(*pair)
    assert mine.source_tokens == theirs.source_tokens
    assert mine.target_tokens == theirs.target_tokens
    for name in mine.names():
        torch.testing.assert_close(theirs[name], mine[name], rtol=0, atol=0)
    assert other.generate(pair[0], length=6).ids == one.generate(pair[0], length=6).ids


def test_a_copy_of_ours_keeps_both_languages_pieces(marian, tmp_path):
    folder, _model, _tokenizer = marian
    model = open_checkpoint(folder, CPU, torch.float32)
    keep_as_ours(tmp_path / "copy", model)
    for file in ("source.spm", "target.spm", "vocab.json"):
        (folder / file).unlink()
    copy = open_checkpoint(tmp_path / "copy", CPU, torch.float32)
    same(model, copy)
    keep_as_ours(tmp_path / "again", copy)
    same(model, open_checkpoint(tmp_path / "again", CPU, torch.float32))
    assert (tmp_path / "again" / "source_tokenizer.json").read_text() == copy.source_tokenizer.to_json()


def test_an_exported_marian_is_read_by_transformers_and_opens_again(marian, tmp_path):
    folder, _model, tokenizer = marian
    model = open_checkpoint(folder, CPU, torch.float32)
    with zipfile.ZipFile(io.BytesIO(huggingface_zipped(model, "theirs"))) as archive:
        archive.extractall(tmp_path)
    made = tmp_path / "theirs"
    for file in ("source.spm", "target.spm", "vocab.json"):
        assert (made / file).read_bytes() == (folder / file).read_bytes()
    assert not (made / "target_tokenizer").exists()
    same(model, open_checkpoint(made, CPU, torch.float32))
    theirs = transformers.AutoTokenizer.from_pretrained(made, local_files_only=True)
    assert type(theirs) is type(tokenizer)
    for text in ENGLISH[:4]:
        assert theirs(text)["input_ids"] == tokenizer(text)["input_ids"]
        assert theirs(text_target=text)["input_ids"] == tokenizer(text_target=text)["input_ids"]
    assert "tokenizer(text_target=...)" in (made / "README.md").read_text()


def changed_copies() -> dict[str, tuple[dict, str]]:
    """What a copy of ours may say of its files, and how it is refused."""
    pieces = trained(*ENGLISH)
    return {
        "elsewhere": ({"../source.spm": pieces}, "is no file of a tokenizer"),
        "a program": ({"x.py": b"1/0"}, "is no file of a tokenizer"),
        "damaged pieces": ({"source.spm": pieces[:999]}, "source.spm cannot be read as a sentencepiece model"),
        "none": ({"vocab.json": b"{}"}, "its tokenizer cannot be read|is no|of the class"),
        "of numbers": ({"vocab.json": b"[1]"}, "must hold a JSON object"),
    }


@pytest.mark.parametrize("kind", changed_copies())
def test_a_hostile_copy_is_refused_in_a_sentence(kind, marian, tmp_path):
    folder, _model, _tokenizer = marian
    files, sentence = changed_copies()[kind]
    keep_as_ours(tmp_path / "copy", open_checkpoint(folder, CPU, torch.float32))
    path = tmp_path / "copy" / "source_tokenizer.json"
    record = json.loads(path.read_text())
    record["foreign"]["files"] = {name: base64.b64encode(content).decode() for name, content in files.items()}
    path.write_text('{"foreign":' + json.dumps(record["foreign"]) + ',"tokenizer":null}')
    with pytest.raises(CheckpointError, match=sentence):
        open_checkpoint(tmp_path / "copy", CPU, torch.float32)


def test_a_config_does_not_lead_to_other_files(marian, tmp_path):
    """transformers goes where tokenizer_config.json says that a vocabulary lies."""
    folder, _model, _tokenizer = marian
    (tmp_path / "elsewhere.spm").write_bytes((folder / "source.spm").read_bytes())
    said = json.loads((folder / "tokenizer_config.json").read_text())
    for name in ("source_spm", "target_spm", "target_vocab_file"):
        (folder / "tokenizer_config.json").write_text(json.dumps(said | {name: str(tmp_path / "elsewhere.spm")}))
        model = open_checkpoint(folder, CPU, torch.float32)
        assert model.target_tokenizer.encode(CHINESE[0]).labels[:2] == ["▁我", "是"] or name != "target_spm"
        assert "elsewhere" not in model.source_tokenizer.files["tokenizer_config.json"].decode()


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("name", ["source_spm", "sp_model_kwargs", "init_inputs", "fast_tokenizer_files"])
def test_no_file_gives_an_argument_that_leads_to_unchecked_bytes(name, file, marian, tmp_path):
    """sentencepiece is given the paths of the folder that was checked, and no other."""
    folder, _model, _tokenizer = marian
    elsewhere = tmp_path / "not here" / "elsewhere.spm"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"unchecked")
    given = {"sp_model_kwargs": {"model_file": str(elsewhere)}, "source_spm": str(elsewhere)}
    said = {"source_lang": "en", "target_lang": "zh", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))  # transformers then reads the map of special tokens
    said = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    (folder / file).write_text(json.dumps(said | {name: given.get(name, [str(elsewhere)])}))
    model = open_checkpoint(folder, CPU, torch.float32)
    assert isinstance(model.source_tokenizer, SlowTokenizer), model.source_tokenizer.reason
    own = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    assert model.source_tokenizer.encode(ENGLISH[0]).labels == own.encode(ENGLISH[0], out_type=str)
    assert not any(b"elsewhere" in content for content in model.source_tokenizer.files.values())


def test_whatever_is_in_the_files_a_text_is_read_or_refused(marian):
    """Either both sides cut a text into tokens of the model, or they are of bare ids and say why."""
    folder, network, _tokenizer = marian
    original, random = (folder / "source.spm").read_bytes(), Random(1)
    settings = json.loads((folder / "config.json").read_text())
    size, refused = network.config.vocab_size, 0
    for _case in range(40):
        (folder / "source.spm").write_bytes(damaged(random, original))
        source, _target = open_tokenizers(folder, settings, (size, size))
        refused += bool(source.reason)
        if not source.reason:
            tokens = source.encode("I am a 😀 teacher.")
            assert all(0 <= token < size for token in tokens.ids)
            source.decode(tokens.ids)
    assert 0 < refused < 40
