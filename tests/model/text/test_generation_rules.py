"""Bad words, suppressed tokens and forced ends: what is written is what transformers' own generate writes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch
from transformers import GenerationConfig

from model.checkpoints.export import token_ids, written_rules
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.decoding import Sampling, greedy
from model.text.generation_rules import GenerationRules, rules_in
from model.text.huggingface.load import read_saved
from model.text.huggingface.tokenizer import NO_TOKENS, IdTokenizer
from tests.model.checkpoints.convert.twins import saved

CPU = torch.device("cpu")
LENGTH = 9
TEXTS = ["5 9 30 7 2", "8 41 3 2"]
STOP = 40
RULES = {
    "none": {},
    "end": {"bad_words_ids": [[1], [STOP]], "forced_eos_token_id": STOP},
    "suppressed": {"suppress_tokens": "written", "begin_suppress_tokens": "first"},
    "runs": {"bad_words_ids": "runs", "forced_bos_token_id": 11, "begin_suppress_tokens": "first"},
}


@cache
def theirs(family: str):
    folder = Path(mkdtemp()) / family
    return saved(family, folder), folder


def generated(network, said: dict, beams: int = 1) -> list[int]:
    """What transformers writes after what a target begins with."""
    begun = [said[name] for name in ("decoder_start_token_id", "forced_bos_token_id") if name in said]
    network.generation_config = GenerationConfig()
    config = GenerationConfig(**said, max_new_tokens=LENGTH + len(begun) - 1, do_sample=False, num_beams=beams,
                              length_penalty=0.0, pad_token_id=1, bos_token_id=0, eos_token_id=STOP)  # fmt: skip
    source = torch.tensor([[int(each) for each in TEXTS[0].split()]])
    row = network.generate(input_ids=source, attention_mask=torch.ones_like(source), generation_config=config)[
        0
    ].tolist()
    assert row[: len(begun)] == begun
    return row[len(begun) :]


def opened(family: str, kind: str, folder: Path):
    """Theirs, ours of the same folder, what is said of writing, and what is written without it."""
    (network, original), start = theirs(family), {"decoder_start_token_id": 1 if family == "marian" else 2}
    free = generated(network, start)
    named = {"written": free[1:3], "first": [free[0], 11], "runs": [free[0:2], [11, free[0]], free[2:5]]}
    said = start | {name: named.get(str(value), value) for name, value in RULES[kind].items()}
    for file in original.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "generation_config.json").write_text(json.dumps(said | {"pad_token_id": 1, "eos_token_id": STOP}))
    return network, open_checkpoint(folder, CPU, torch.float32), said, free


@pytest.mark.parametrize(
    ("family", "kind"),
    [("marian", "none"), ("marian", "suppressed"), ("marian", "end"), ("mbart", "end"), ("mbart", "runs")],
)
def test_greedy_and_beams_are_those_of_generate(family, kind, tmp_path):
    network, model, said, free = opened(family, kind, tmp_path)
    written = model.generate(TEXTS[0], length=LENGTH)
    assert written.ids == generated(network, said)
    assert (written.ids != free) == bool(RULES[kind])
    assert model.generate(TEXTS[0], beam=4, length_penalty=0.0, length=LENGTH).ids == generated(network, said, 4)


def test_rules_hold_however_a_text_is_written_and_in_a_copy_of_ours(tmp_path):
    _model, model, asked, _free = opened("marian", "runs", tmp_path)
    rules = model.target_tokenizer.rules
    assert len(rules.runs) == 3
    alone = [model.generate(text, length=LENGTH).ids for text in TEXTS]
    assert [each.ids for each in model.generate_batch(TEXTS, length=LENGTH)] == alone
    whole = model.generate(TEXTS[0])
    assert model.trace_generated(model.source_tokens(TEXTS[0]), [whole])[2].ids == whole.ids
    assert model.generate(TEXTS[0], sampling=Sampling(seed=1), length=1).ids[0] not in rules.first
    save_checkpoint(tmp_path / "ours", model.network, (model.source_tokenizer, model.target_tokenizer))
    again = open_checkpoint(tmp_path / "ours", CPU)
    assert again.target_tokenizer.rules == rules
    assert again.generate(TEXTS[0], length=LENGTH).ids == alone[0]
    said = written_rules(again) | {"decoder_start_token_id": token_ids(again)["decoder_start_token_id"]}
    assert said == asked


def test_an_empty_run_in_a_file_forbids_nothing(tmp_path):
    special = replace(NO_TOKENS, rules=GenerationRules(never=(1,), runs=((), (2, 3))))
    (tmp_path / "tokenizer.json").write_text(IdTokenizer(9, "none", special).to_json())
    assert read_saved(tmp_path / "tokenizer.json").rules == GenerationRules(never=(1,), runs=((2, 3),))


def test_a_draft_is_bound_by_the_rules_at_each_of_its_steps():
    from tests.model.examples import network

    network, source = network(0), torch.tensor([[4, 5, 6]])
    free = greedy(network.read(source, padding=0, start=1), ends=(), limits=[6])[0][0]
    rules = GenerationRules(never=(free[1],), runs=((1, free[0]),), last=3)
    wanted = greedy(network.read(source, padding=0, start=1), ends=(), limits=[6], rules=rules)[0][0]
    assert free[0] != wanted[0]
    assert free[1] not in wanted
    assert wanted[-1] == 3
    for draft in (wanted, free, [*wanted[:2], *free[2:]]):
        again = greedy(network.read(source, padding=0, start=1), ends=(), limits=[6], rules=rules, draft=draft)
        assert again[0][0] == wanted


def test_only_tokens_of_the_model_are_taken():
    said = {"bad_words_ids": [[2], [3], [3, 99], [], [4, 5], "x", [True]], "suppress_tokens": [7, 99, -1, None], "x": 1}
    assert rules_in(said, 10, {2}) == GenerationRules(never=(3, 7), runs=((4, 5),))
    for odd in (5, "x", {"a": 1}, None, [[[1]]]):
        assert not rules_in({"bad_words_ids": odd, "forced_eos_token_id": [odd]}, 4, ()).runs


def test_rules_that_leave_nothing_are_not_kept():
    made, none = torch.zeros(1, 2, 4), -torch.inf
    assert torch.equal(GenerationRules(never=(0, 1, 2, 3)).allowed(made, [9], 0, []), made)
    ended = GenerationRules(never=(0, 1, 2), last=0).allowed(made, [2], 0, [])
    assert ended[0].tolist() == [[none, none, none, 0], [0, none, none, none]]
