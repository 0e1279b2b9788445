"""python -m model: generate, evaluate, and errors in one sentence. Training is in test_stopping.py."""

from pathlib import Path

import pytest
import torch
from sacrebleu import corpus_bleu, corpus_chrf

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.cli.evaluate import trained_on
from model.data.pairs import Pair, in_split
from model.data.sources import Translations
from model.inference.decoding import Generation, Sampling
from model.inference.models import Translator
from model.training.evaluation import translation_figures
from model.training.translation_scores import ROWS, is_installed
from tests.model.examples import network, sentences, tokenizers, write_pairs

ROOT = Path(__file__).parents[3]
PAIRS = sentences(400)


def checkpoint(folder: Path) -> Path:
    both = tokenizers(PAIRS)
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    save_checkpoint(folder, network(**sizes), both)
    return folder


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--beam", "3"], {"beam": 3}),
        (["--beam", "4", "--length-penalty", "2"], {"beam": 4, "length_penalty": 2.0}),
        (["--temperature", "5"], {"sampling": Sampling(temperature=5.0)}),
        (["--top-k", "3", "--seed", "7"], {"sampling": Sampling(top_k=3, seed=7)}),
        (["--top-p", "0.8"], {"sampling": Sampling(top_p=0.8)}),
    ],
)
def test_generate_prints_a_line_for_each_text(tmp_path, capsys, arguments, options):
    texts = [*(pair.source for pair in PAIRS[:6]), "😀 ??", ""]
    assert main(["generate", str(checkpoint(tmp_path / "c")), *texts, *arguments]) == 0
    written = capsys.readouterr().out
    model = open_checkpoint(tmp_path / "c")
    made = model.generate_batch(texts, **options)
    assert written.split("\n") == [*(each.text for each in made), ""]
    if "sampling" in options:
        assert [each.ids for each in made] != [each.ids for each in model.generate_batch(texts)]
    elif "beam" in options:
        assert all(len(each.tree.ranked()) >= options["beam"] for each in made)


@pytest.mark.parametrize("arguments", [["--temperature", "0"], ["--beam", "0"], ["--beam", "2", "--top-k", "2"]])
def test_options_of_generate_that_make_no_sense_are_refused(tmp_path, capsys, arguments):
    assert main(["generate", str(checkpoint(tmp_path / "c")), "a", *arguments]) != 0
    assert capsys.readouterr().err.startswith(f"error: {arguments[0].strip('-')} (")


@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"sampling": Sampling(temperature=2.0)}])
def test_a_generation_reports_each_token(tmp_path, options):
    model = open_checkpoint(checkpoint(tmp_path / "c"))
    made = model.generate(PAIRS[0].source, **options)
    target = model.target_tokenizer.tokens([model.target_tokenizer.start, *made.ids[:-1]])
    logits = model.trace_tokens(model.source_tokens(PAIRS[0].source), target)["output.logits"]
    expected = logits.log_softmax(dim=-1)
    own = expected.gather(1, torch.tensor(made.ids)[:, None])[:, 0]
    assert made.log_probabilities == pytest.approx(own.tolist(), abs=1e-4)
    assert made.log_probability == pytest.approx(float(own.sum()), abs=1e-3)
    values, tokens = expected.topk(5)
    for place, alternatives in enumerate(made.alternatives):
        assert [each.token for each in alternatives] == tokens[place].tolist()
        assert [each.log_probability for each in alternatives] == pytest.approx(values[place].tolist(), abs=1e-4)
    assert (made.tree is not None) == ("beam" in options)


def test_evaluate_prints_the_figures(tmp_path, capsys):
    data = write_pairs(tmp_path / "pairs.tsv", PAIRS)
    assert main(["evaluate", str(checkpoint(tmp_path / "c")), "--data", str(data), "--show", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("\t" in line for line in lines) == 2
    names = [line.partition(":")[0] for line in lines if "\t" not in line]
    assert {"sentences", "BLEU", "chrF", "BLEU signature"} <= set(names)


@pytest.mark.parametrize(("options", "tokenizer"), [([], "zh"), (["--bleu", "char"], "char")])
def test_evaluate_measures_all_of_any_file_with_the_tokenizer_of_its_script(options, tokenizer, tmp_path, capsys):
    pairs = [*PAIRS[:30], Pair(PAIRS[0].source, "老师喜欢猫。")]
    chinese = [Pair(pair.source, f"我看见{number}只猫在花园里。") for number, pair in enumerate(pairs)]
    data, folder = write_pairs(tmp_path / "others.tsv", chinese), checkpoint(tmp_path / "c")
    assert main(["evaluate", str(folder), "--data", str(data), *options]) == 0
    printed = capsys.readouterr()
    assert f"c was not trained on {data}, by its name: all of it is measured" in printed.err
    figures = dict(line.split(": ", 1) for line in printed.out.splitlines())
    sources = list(dict.fromkeys(pair.source for pair in chinese))
    outputs = [made.text for made in open_checkpoint(folder).generate_batch(sources)]
    of_source = [[pair.target for pair in chinese if pair.source == source] for source in sources]
    references = [[targets[at] if at < len(targets) else None for targets in of_source] for at in range(2)]
    assert figures["BLEU"] == f"{corpus_bleu(outputs, references, tokenize=tokenizer).score:.2f}"
    assert figures["chrF"] == f"{corpus_chrf(outputs, references).score:.2f}"
    assert figures["sentences"] == str(len(sources))
    assert f"|tok:{tokenizer}|" in figures["BLEU signature"]
    assert "nc:6" in figures["chrF signature"]
    found = "zh, found by the script of the references: Chinese"
    assert figures.get("BLEU tokenizer") == (None if options else found)


def test_evaluate_takes_the_test_split_of_what_was_trained_on_unless_told_otherwise(tmp_path, capsys):
    both = tokenizers(PAIRS)
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    save_checkpoint(tmp_path / "c", network(**sizes), both, {"data": "own.tsv"})
    data = write_pairs(tmp_path / "own.tsv", PAIRS)
    assert main(["evaluate", str(tmp_path / "c"), "--data", str(data)]) == 0
    printed = capsys.readouterr()
    assert "was not trained on" not in printed.err
    expected = len({pair.source for pair in in_split(PAIRS, "test")})
    assert f"sentences: {expected}\n" in printed.out
    assert "whether of this content, its record does not tell" in printed.err
    usual = open_checkpoint(tmp_path / "c")
    assert trained_on(usual, "elsewhere/own.tsv") == (True, "name")
    assert trained_on(usual, "task:sort:100") == (True, "task")
    assert trained_on(usual, "other.tsv") == (False, "name")


def test_evaluate_knows_what_was_trained_on_by_its_content(tmp_path, capsys):
    both = tokenizers(PAIRS)
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    record = Translations(PAIRS, "", "bpe", 0, both).record() | {"data": "own.tsv"}
    save_checkpoint(tmp_path / "c", network(**sizes), both, record)
    same = write_pairs(tmp_path / "renamed.tsv", [*PAIRS[::-1], PAIRS[0]])
    other = write_pairs(tmp_path / "own.tsv", [Pair(f"{pair.source} x", pair.target) for pair in PAIRS[:20]])
    assert main(["evaluate", str(tmp_path / "c"), "--data", str(same)]) == 0
    printed = capsys.readouterr()
    assert "c was trained on this content under the name of own.tsv" in printed.err
    assert f"sentences: {len({pair.source for pair in in_split(PAIRS, 'test')})}\n" in printed.out
    assert main(["evaluate", str(tmp_path / "c"), "--data", str(other)]) == 0
    printed = capsys.readouterr()
    assert f"c was trained on another content under the name of {other}: all of it is measured" in printed.err
    assert "sentences: 20\n" in printed.out


def test_evaluate_counts_what_is_cut_off(tmp_path, capsys):
    """The model reads 32 tokens, one of them </s>."""
    model = open_checkpoint(checkpoint(tmp_path / "c"))
    texts = [" ".join(["cat"] * count) for count in (1, 60, 61)]
    assert [bool(model.source_tokens(text).left_out) for text in texts] == [False, True, True]
    data = write_pairs(tmp_path / "others.tsv", [Pair(text, "猫。") for text in texts])
    assert main(["evaluate", str(tmp_path / "c"), "--data", str(data)]) == 0
    printed = capsys.readouterr().out
    assert "texts cut off, as they are longer than max_length (32): 2\n" in printed
    stops = model.target_tokenizer.stops
    unended = sum(not stops & {*made.ids} for made in model.generate_batch(texts))
    assert (f"texts written that did not end before the most tokens: {unended}\n" in printed) == bool(unended)


def test_evaluate_refuses_files_that_hold_no_pairs_and_tokenizers_that_are_not_here(tmp_path, capsys):
    folder = str(checkpoint(tmp_path / "c"))
    for content, reason in (("", "holds no sentence pairs"), ("one\ntwo\n", "line 1 of {} has no sentence")):
        data = tmp_path / "bad.tsv"
        data.write_text(content, encoding="utf-8")
        assert main(["evaluate", folder, "--data", str(data)]) == 2
        assert reason.format(data) in capsys.readouterr().err
    data = write_pairs(tmp_path / "pairs.tsv", PAIRS[:5])
    if not is_installed("ja-mecab"):
        assert main(["evaluate", folder, "--data", str(data), "--bleu", "ja-mecab"]) == 2
        assert "pip install 'sacrebleu[ja]'" in capsys.readouterr().err


def test_the_figures_are_sacrebleus_with_every_translation_as_reference(tmp_path):
    class Fixed(Translator):
        """Translates from a table."""

        def generate_batch(self, texts, **options):
            assert options == {"beam": 3}
            assert len(texts) <= ROWS // 3
            return [Generation(table[text], [], [], [], []) for text in texts]

    table = {"a": "我是一个老师。", "bb": "他在看书。", "ccc": "今天天气不好。"}
    pairs = [
        Pair("a", "我是老师。"),
        Pair("a", "我是一个老师。"),
        Pair("bb", "他正在看一本书。"),
        Pair("ccc", "天气好。"),
    ]
    model = open_checkpoint(checkpoint(tmp_path / "c"))
    fixed = Fixed("fixed", model.network, (model.source_tokenizer, model.target_tokenizer), {})
    figures, outputs = translation_figures(fixed, pairs, beam=3)
    references = [["我是老师。", "他正在看一本书。", "天气好。"], ["我是一个老师。", None, None]]
    expected = corpus_bleu(list(table.values()), references, tokenize="zh").score
    assert 0 < expected < 100
    assert figures["BLEU"] == pytest.approx(expected)
    assert figures["chrF"] == pytest.approx(corpus_chrf(list(table.values()), references).score)
    assert (figures["sentences"], outputs) == (3, table)
