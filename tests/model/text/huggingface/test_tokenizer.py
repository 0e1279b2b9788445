"""Tokenizers of Hugging Face against transformers' own reading of the same files."""

from __future__ import annotations

import json
import random

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Inner

from model.text.huggingface.load import open_tokenizers, read_saved
from model.text.tokenizer import visible

TEXTS = [
    "I am a teacher.",
    "  two  spaces\nand a line",
    "我是老师。你好",
    "smile 😀🧑‍🚀!",
    "שלום עולם مرحبا",
    "<s> [CLS] </s> <|endoftext|> <pad>",
    "",
    "naïve Ünïcode ﬁ",
]
CORPUS = [*TEXTS[:5], "I am not a teacher. We are teachers, and they teach."] * 4


def byte_level(start=False):
    """As GPT-2's, or with <s> … </s> around a text as RoBERTa's."""
    inner = Inner(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if start else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(CORPUS, trainers.BpeTrainer(**options(300, special), initial_alphabet=alphabet))
    if not start:
        inner.post_processor = processors.ByteLevel(trim_offsets=False)
        return inner, {"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "tokenizer_class": "GPT2Tokenizer"}
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    mask = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "special": True}
    return inner, {**names, "cls_token": "<s>", "sep_token": "</s>", "mask_token": mask}


def word_piece():
    """As BERT's."""
    inner = Inner(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(CORPUS, trainers.WordPieceTrainer(**options(120, special)))
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return inner, {**names, "mask_token": "[MASK]"}


def unigram():
    """As T5's: </s> after a text."""
    inner = Inner(models.Unigram())
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    inner.train_from_iterator(CORPUS, trainers.UnigramTrainer(**options(90, special), unk_token="<unk>"))
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return inner, {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def byte_fallback():
    """As Llama's: <s> before a text, bytes of what is in no token."""
    inner = Inner(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    inner.decoder = decoders.Sequence(parts)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    inner.train_from_iterator(["I am a teacher."] * 3, trainers.BpeTrainer(**options(290, special)))
    inner = Inner.from_str(_bytes_are_plain(inner))
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return inner, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}


def _bytes_are_plain(inner):
    record = json.loads(inner.to_str())
    record["added_tokens"] = record["added_tokens"][:3]
    return json.dumps(record)


def options(vocabulary, special):
    return {"vocab_size": vocabulary, "special_tokens": special, "show_progress": False}


MADE = {
    "GPT-2": byte_level,
    "RoBERTa": lambda: byte_level(True),
    "BERT": word_piece,
    "T5": unigram,
    "Llama": byte_fallback,
}


@pytest.fixture(scope="module", params=MADE)
def files(request, tmp_path_factory):
    inner, names = MADE[request.param]()
    inner.enable_truncation(3)
    inner.enable_padding(length=5)
    folder = tmp_path_factory.mktemp("tokenizer")
    inner.save(str(folder / "tokenizer.json"))
    usual = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(usual | names))
    return request.param, folder, inner.get_vocab_size()


@pytest.fixture(scope="module")
def both(files):
    from transformers import PreTrainedTokenizerFast

    _name, folder, size = files
    reference = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return open_tokenizers(folder, {}, (size, size))[0], reference


@pytest.mark.parametrize("text", TEXTS)
def test_ids_text_and_ends_are_those_of_transformers(both, text):
    ours, reference = both
    ours = ours.reading(False)
    given = reference(text, split_special_tokens=True, return_offsets_mapping=True, add_special_tokens=False)
    assert ours.encode(text).ids == given["input_ids"]
    assert ours.decode(given["input_ids"]) == reference.decode(given["input_ids"], skip_special_tokens=True)
    ends = [end for _begin, end in given["offset_mapping"]]
    assert ours.ends(text)[-1:] == ends[-1:]
    assert all(mine <= theirs for mine, theirs in zip(ours.ends(text), ends, strict=True))


ROLES = {"GPT-2": "prompt", "Llama": "prompt", "T5": "source", "BERT": "whole", "RoBERTa": "whole"}


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_what_stands_around_a_text_is_what_its_post_processor_puts_there(both, files, text):
    ours, reference = both
    text = text.replace(ours.pair_label or "</s>", "</ s>")  # which would part it
    assert ours.framed(text, ROLES[files[0]], 512).ids == reference(text)["input_ids"]


def test_labels_show_spaces_bytes_and_special_tokens(both, files):
    ours, _reference = both
    labels = ours.framed("I am 😀\n", ROLES[files[0]], 99).labels
    words = [label for label in labels if not label.startswith("<0x")]
    bytes_shown = [label for label in labels if label.startswith("<0x")]
    every = [ours.label(token) for token in range(len(ours))]
    assert not any(sign in label for label in every for sign in "\N{REPLACEMENT CHARACTER}\0\x7f\r")
    if files[0] in ("GPT-2", "RoBERTa"):
        assert [label for label in words if label not in ours.special_labels][:2] == ["I", "▁am"]
        assert "\n" in labels
    if files[0] == "RoBERTa":
        assert (words[0], words[-1]) == ("<s>", "</s>")
    if files[0] == "Llama":
        assert (words[0], bytes_shown[:4]) == ("<s>", ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"])
    if files[0] == "BERT":
        assert (words[0], words[-1], ours.continues) == ("[CLS]", "[SEP]", "##")
        assert not any("▁" in label for label in words)
    if files[0] == "T5":
        assert (words[0][0], words[-1]) == ("▁", "</s>")


def test_a_masked_model_reads_the_name_of_its_mask_even_where_others_are_plain(both, files):
    ours, reference = both
    if ours.mask is None:
        assert ours.encode("a <mask>", masks=True) == ours.encode("a <mask>")
        return
    text = f"I am a {ours.mask_label} and {ours.mask_label}."
    for role in ("whole", "source"):
        assert ours.framed(text, role, 99).ids == reference(text)["input_ids"]
    assert ours.reading(False).framed(text, "whole", 99).ids == reference(text)["input_ids"]
    assert ours.mask not in ours.reading(False).framed(text, "source", 99).ids


@pytest.mark.parametrize("text", [*TEXTS, "I <s>am</s> a[SEP] teacher <|endoftext|>", "</s></s>"])
def test_special_tokens_are_read_in_a_text_unless_they_are_not_wanted(both, text):
    ours, reference = both
    assert ours.reads_special
    given = reference(text, return_offsets_mapping=True, add_special_tokens=False)
    assert ours.encode(text).ids == given["input_ids"]
    assert ours.ends(text)[-1:] == [end for _begin, end in given["offset_mapping"]][-1:]
    plain = ours.reading(False)
    assert plain.reading(True) is ours
    assert ours.reading(False) is plain
    assert plain.encode(text).ids == reference(text, split_special_tokens=True, add_special_tokens=False)["input_ids"]


CHAT = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


@pytest.mark.parametrize("where", ["in its names", "in tokenizer_config.json", "among several", "in a file of its own"])
def test_a_tokenizer_of_conversations_reads_their_marks(where, tmp_path):
    """As transformers makes them of a conversation."""
    from transformers import PreTrainedTokenizerFast

    inner, names = byte_level()
    inner.add_special_tokens(CHAT)
    inner.save(str(tmp_path / "tokenizer.json"))
    said = {
        "in its names": {},
        "in tokenizer_config.json": {"chat_template": TEMPLATE},
        "among several": {
            "chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": TEMPLATE}]
        },
        "in a file of its own": {},
    }[where]
    if where == "in a file of its own":
        (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names | said))
    ours = open_tokenizers(tmp_path, {}, (inner.get_vocab_size(),) * 2)[0]
    reference = PreTrainedTokenizerFast.from_pretrained(tmp_path, local_files_only=True)
    reference.chat_template = TEMPLATE
    talk = [{"role": "user", "content": "I am a teacher."}, {"role": "assistant", "content": "你好"}]
    text = reference.apply_chat_template(talk, tokenize=False)
    assert ours.reads_special
    assert ours.encode(text).ids == reference.apply_chat_template(talk, tokenize=True, return_dict=False)
    assert ours.template == ("" if where == "in its names" else TEMPLATE)
    assert CHAT[0] not in ours.reading(False).encode(text).labels
    (tmp_path / "ours.json").write_text(ours.to_json())
    again = read_saved(tmp_path / "ours.json")
    assert (again.template, again.reads_special) == (ours.template, True)
    assert again.encode(text) == ours.encode(text)


WAYS = ("lstrip", "rstrip", "single_word", "normalized")


@pytest.mark.parametrize("place", ["added_tokens", "mask_token", "added_tokens_decoder"])
@pytest.mark.parametrize("number", range(16))
def test_an_added_token_is_found_as_transformers_finds_it(number, place, tmp_path):
    """Wherever its settings stand, and whatever they are."""
    from transformers import AutoTokenizer

    inner, names = byte_level(start=True)
    record = json.loads(inner.to_str())
    ways = {way: bool(number >> bit & 1) for bit, way in enumerate(WAYS)}
    mask = {"content": "<mask>", "special": True, **ways}
    record["added_tokens"] = [token for token in record["added_tokens"] if token["content"] != "<mask>"]
    if place == "added_tokens":
        record["added_tokens"].append({"id": 4, **mask})
    names |= {"mask_token": {"__type": "AddedToken", **mask} if place == "mask_token" else "<mask>"}
    names |= {"added_tokens_decoder": {"4": mask}} if place == "added_tokens_decoder" else {}
    (tmp_path / "tokenizer.json").write_text(json.dumps(record))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    ours = open_tokenizers(tmp_path, {}, (inner.get_vocab_size(),) * 2)[0]
    reference = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in ("I <mask> am", "I<mask>am", "I am <mask>\n<mask>.", " <mask> ", "I <MASK> am"):
        assert ours.framed(text, "whole", 99).ids == reference(text)["input_ids"], text


@pytest.mark.parametrize("class_name", ["GPT2Tokenizer", "GPTNeoXTokenizerFast", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("wanted", [True, False])
def test_a_space_stands_before_a_text_where_transformers_puts_one(class_name, wanted, tmp_path):
    from transformers import AutoTokenizer

    inner, names = byte_level()
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=not wanted)
    inner.save(str(tmp_path / "tokenizer.json"))
    said = names | {"tokenizer_class": class_name, "add_prefix_space": wanted}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    ours = open_tokenizers(tmp_path, {}, (inner.get_vocab_size(),) * 2)[0]
    reference = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert ours.encode("am I").ids == reference("am I")["input_ids"]


@pytest.mark.parametrize("flags", [{"add_bos_token": False}, {"add_bos_token": True, "add_eos_token": True}])
def test_what_stands_around_a_text_is_the_post_processors_and_not_that_of_a_flag_beside_it(flags, tmp_path):
    from transformers import AutoTokenizer

    inner, names = byte_fallback()
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names | flags | {"tokenizer_class": "LlamaTokenizer"}))
    ours = open_tokenizers(tmp_path, {}, (inner.get_vocab_size(),) * 2)[0]
    reference = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert ours.framed("I am", "prompt", 99).ids == reference("I am")["input_ids"]


def test_sentinels_take_the_spaces_before_them(tmp_path):
    """As those of T5: a ▁ that the tokenizer put before one was in no text that the model has learnt from."""
    from transformers import PreTrainedTokenizerFast

    inner, names = unigram()
    sentinels = ["<extra_id_1>", "<extra_id_0>"]
    record = json.loads(inner.to_str())
    record["model"]["vocab"] += [[name, 0.0] for name in sentinels]
    reference = PreTrainedTokenizerFast(
        tokenizer_object=Inner.from_str(json.dumps(record)), additional_special_tokens=sentinels, **names
    )
    reference.save_pretrained(tmp_path)
    ours = open_tokenizers(tmp_path, {}, (len(reference),) * 2)[0]
    for text in ("I <extra_id_0> a", "<extra_id_0>I am<extra_id_1>", "am  <extra_id_1> <extra_id_0>"):
        assert ours.framed(text, "source", 99).ids == reference(text)["input_ids"], text
    assert set(sentinels) <= {*ours.markers}


@pytest.mark.parametrize("kind", [models.WordLevel, models.WordPiece])
def test_a_vocabulary_without_an_unknown_token_reads_its_own_words(kind, tmp_path):
    inner = Inner(kind({"the": 0, "quick": 1, "fox": 2}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    ours = open_tokenizers(tmp_path, {}, (3, 3))[0]
    assert ours.reason == ""
    assert ours.framed("the quick fox", "prompt", 9).labels == ["the", "quick", "fox"]
    for read in (ours.encode, ours.ends):
        with pytest.raises(ValueError, match="the tokenizer has no token for 'slow', and none for what is unknown"):
            read("the slow fox")


def test_a_list_of_words_without_an_unknown_token_reads_its_own_words(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[CLS]", "[SEP]", "the", "quick", "fox"]))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    ours = open_tokenizers(tmp_path, {"model_type": "bert"}, (6, 6))[0]
    assert ours.reason == ""
    assert ours.framed("the quick fox", "whole", 9).labels == ["[CLS]", "the", "quick", "fox", "[SEP]"]
    with pytest.raises(ValueError, match="no token for 'slow'"):
        ours.encode("the slow fox")


def test_what_cannot_be_seen_is_shown_by_its_code():
    inner, names = byte_level()
    odd = ["\u200b", "\u202eRTL", "\ufeff", "\u00ad", "\u00a0", "\u2028", "\ue000", "a\u200db", "❤\ufe0f"]
    odd += ["\u3164", "\u115f", "\uffa0", "\u034f", "\u2800", "\U000e0101", "\u180e"]
    inner.add_tokens(odd)
    ours = made(inner, names)
    labels = [ours.label(inner.token_to_id(each)) for each in odd]
    assert labels == [
        "<U+200B>",
        "<U+202E>RTL",
        "<U+FEFF>",
        "<U+00AD>",
        "<U+00A0>",
        "<U+2028>",
        "<U+E000>",
        "a<U+200D>b",
        "❤<U+FE0F>",
        *("<U+3164>", "<U+115F>", "<U+FFA0>", "<U+034F>", "<U+2800>", "<U+E0101>", "<U+180E>"),
    ]
    assert ours.encode("x\u202ey").labels  # by its bytes
    assert visible("naïve 的 😀\n\t") == "naïve 的 😀\n\t"


@pytest.mark.parametrize(("first", "second"), [("I am", "a teacher."), ("", "x"), ("two  words", "我是")])
def test_a_text_in_two_parts_is_put_together_as_a_pair(both, files, first, second):
    ours, reference = both
    if files[0] not in ("BERT", "RoBERTa"):
        assert (ours.pair_label, ours.separator) == ("", None)
        return
    text = f"{first} {ours.pair_label} {second}"
    given = reference(first, second)
    found = ours.framed(text, "whole", 99)
    assert found.ids == given["input_ids"]
    assert ours.separator == (3 if files[0] == "BERT" else None)
    masked = f"{first} {ours.mask_label} {ours.pair_label} {ours.mask_label}"
    assert ours.framed(masked, "whole", 99).ids.count(ours.mask) == 2
    short = ours.framed(text, "whole", 6)
    assert len(short) == min(6, len(found))
    assert short.left_out == len(found) - len(short)
    assert short.ids[-1] == found.ids[-1]


def test_no_label_of_a_thousand_chinese_sentences_is_a_broken_character(both):
    ours, _reference = both
    chance = random.Random(0)
    for _ in range(1000):
        text = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(chance.randrange(1, 30))) + "。"
        tokens = ours.encode(text)
        assert not any("\N{REPLACEMENT CHARACTER}" in label or not label for label in tokens.labels), text


def test_a_character_that_is_not_whole_leaves_no_trace_in_a_text():
    inner, names = byte_level()
    ours = made(inner, names)
    ids = ours.encode("a 😀").ids
    assert ours.decode(ids[:-1]) == "a "
    assert ours.ends("a 😀")[-1] == 3
    assert ours.ends("a 😀")[-2] == 2


def made(inner, names, settings=None, generation=None, size=None):
    from model.text.huggingface.special_tokens import special_tokens
    from model.text.huggingface.tokenizer import HuggingFaceTokenizer

    size = size or inner.get_vocab_size()
    special = special_tokens(names, settings or {}, generation or {}, inner.token_to_id, size)
    return HuggingFaceTokenizer(inner, special, size, names)


@pytest.mark.parametrize(
    ("settings", "generation", "before", "stops"),
    [
        ({"decoder_start_token_id": 0, "eos_token_id": 1}, {}, [0], {1}),
        ({"decoder_start_token_id": 0, "eos_token_id": 1, "forced_bos_token_id": 7}, {}, [0, 7], {1}),
        (
            {"eos_token_id": 1},
            {"decoder_start_token_id": 1, "eos_token_id": [1, 9], "forced_bos_token_id": None},
            [1],
            {1, 9},
        ),
        ({}, {}, [0], {1}),  # as T5's pad where nothing is said
    ],
)
def test_a_target_begins_and_ends_as_the_model_was_told(settings, generation, before, stops):
    inner, names = unigram()
    ours = made(inner, names, settings, generation)
    assert ours.margins("target") == (before, [])
    assert ours.stops == stops
    assert ours.written([*before, 12, 13, *stops]).ids[len(before) :][-2:] == [12, 13]


def test_a_model_may_know_fewer_or_more_tokens_than_its_tokenizer():
    inner, names = byte_level()
    more = made(inner, names, size=inner.get_vocab_size() + 3)
    assert more.label(len(more) - 1) == f"<{len(more) - 1}>"
    fewer = made(inner, names, size=200)
    with pytest.raises(ValueError, match=r"the model knows 200 tokens and not "):
        fewer.encode("I am a teacher.")
