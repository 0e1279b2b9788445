"""python -m model: generate, evaluate, and errors in one sentence. Training is in test_stopping.py."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sacrebleu import corpus_bleu, corpus_chrf

from model.__main__ import main
from model.checkpoints import open_checkpoint, save_checkpoint
from model.data import Pair
from model.decoding import Generation
from model.inspectable import Inspectable
from model.measuring import translation_figures
from model.sampling import Sampling
from model.text import train_text_characters
from model.writing import Translator
from tests.model.examples import TINY, network, one_stack, sentences, tokenizers, write_pairs
from tests.model.foreign.layout_references import Annotated, random_weights

ROOT = Path(__file__).parents[2]
PAIRS = sentences(400)


def checkpoint(folder: Path) -> Path:
    both = tokenizers(PAIRS)
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    save_checkpoint(folder, network(**sizes), both)
    return folder


def test_generate_prints_a_line_for_each_text(tmp_path, capsys):
    texts = [PAIRS[0].source, "😀 ??", ""]
    assert main(["generate", str(checkpoint(tmp_path / "c")), *texts]) == 0
    lens = open_checkpoint(tmp_path / "c")
    assert capsys.readouterr().out.split("\n") == [*(made.text for made in lens.generate_batch(texts)), ""]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--beam", "3"], {"beam": 3}),
        (["--beam", "4", "--length-penalty", "2"], {"beam": 4, "length_penalty": 2.0}),
        (["--temperature", "5"], {"sampling": Sampling(temperature=5.0)}),
        (["--top-k", "3", "--seed", "7"], {"sampling": Sampling(top_k=3, seed=7)}),
        (["--top-p", "0.8"], {"sampling": Sampling(top_p=0.8)}),
    ],
)
def test_generate_searches_and_draws(tmp_path, capsys, arguments, options):
    texts = [pair.source for pair in PAIRS[:6]]
    assert main(["generate", str(checkpoint(tmp_path / "c")), *texts, *arguments]) == 0
    written = capsys.readouterr().out
    lens = open_checkpoint(tmp_path / "c")
    made = lens.generate_batch(texts, **options)
    assert written.split("\n") == [*(each.text for each in made), ""]
    if "sampling" in options:
        assert [each.ids for each in made] != [each.ids for each in lens.generate_batch(texts)]
    else:
        assert all(len(each.tree.ranked()) >= options["beam"] for each in made)


@pytest.mark.parametrize("arguments", [["--temperature", "0"], ["--beam", "0"], ["--beam", "2", "--top-k", "2"]])
def test_options_of_generate_that_make_no_sense_are_refused(tmp_path, capsys, arguments):
    assert main(["generate", str(checkpoint(tmp_path / "c")), "a", *arguments]) != 0
    assert capsys.readouterr().err.startswith(f"error: {arguments[0].strip('-')} (")


@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"sampling": Sampling(temperature=2.0)}])
def test_a_generation_reports_each_token(tmp_path, options):
    lens = open_checkpoint(checkpoint(tmp_path / "c"))
    made = lens.generate(PAIRS[0].source, **options)
    target = lens.target_tokenizer.tokens([lens.target_tokenizer.start, *made.ids[:-1]])
    logits = lens.trace_tokens(lens.source_tokens(PAIRS[0].source), target)["output.logits"]
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


def test_the_figures_are_sacrebleus_with_every_translation_as_reference(tmp_path):
    class Fixed(Inspectable):
        """Translates from a table."""

        def generate_batch(self, texts, **options):
            assert options == {"beam": 3}
            return [Generation(table[text], [], [], [], []) for text in texts]

    table = {"a": "我是一个老师。", "bb": "他在看书。", "ccc": "今天天气不好。"}
    pairs = [
        Pair("a", "我是老师。"),
        Pair("a", "我是一个老师。"),
        Pair("bb", "他正在看一本书。"),
        Pair("ccc", "天气好。"),
    ]
    lens = open_checkpoint(checkpoint(tmp_path / "c"))
    fixed = Fixed("fixed", lens.model, (lens.source_tokenizer, lens.target_tokenizer), {})
    figures, outputs = translation_figures(fixed, pairs, beam=3)
    references = [["我是老师。", "他正在看一本书。", "天气好。"], ["我是一个老师。", None, None]]
    expected = corpus_bleu(list(table.values()), references, tokenize="zh").score
    assert 0 < expected < 100
    assert figures["BLEU"] == pytest.approx(expected)
    assert figures["chrF"] == pytest.approx(corpus_chrf(list(table.values()), references).score)
    assert (figures["sentences"], outputs) == (3, table)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (None, [], "error: {data} does not exist"),
        ("one\tеден\ntwo\n", [], "error: line 2 of {data} has no sentence and translation"),
        ("Sentence 42.\tb\n", [], "error: there is nothing to train on: all rows are kept for validation and test"),
        ("a\tb\n", ["--d-model", "15"], "error: d_model (15) must be even"),
        ("a\tb\n", ["--epochs", "0"], "error: epochs (0) must be between 1 and 10000"),
        ("a\tb\n", ["--dropout", "1"], "error: dropout (1.0) must be at least 0 and below 1"),
        (
            "a\tb\n",
            ["--preset", "paper-base", "--units", "mixed"],
            "error: tied_embeddings 'all' needs one vocabulary, and --units mixed makes two of",
        ),
        # Of the same size, of other tokens.
        (
            "a\tb\n",
            ["--tied-embeddings", "inputs", "--units", "characters"],
            "error: tied_embeddings 'inputs' needs one vocabulary, and --units characters makes two of 5 and 5 tokens",
        ),
        ("a\tb\n", ["--kind", "decoder-only"], "error: n_encoder_layers (1) must be 0 or left out: a decoder-only"),
        ("a\tb\n", ["--kind", "encoder-only"], "error: n_decoder_layers (1) must be 0 or left out: an encoder-only"),
        ("a\tb\n", ["--n-encoder-layers", "0"], "error: n_encoder_layers (0) must be at least 1: give --kind decoder-"),
        ("a\tb\n", ["--n-decoder-layers", "0"], "error: n_decoder_layers (0) must be at least 1: give --kind encoder-"),
        ("a\tb\n", ["--units", "characters", "--vocabulary", "90"], "error: vocabulary (90) must be left out where"),
        ("a\tb\n", ["--data", "task:sort:90", "--vocabulary", "90"], "error: vocabulary (90) must be left out where"),
        ("a\tb\n", ["--vocabulary", "0"], "error: vocabulary (0) must be between 1 and 1,000,000"),
        ("a\tb\n", ["--vocabulary", "-1"], "error: vocabulary (-1) must be between 1 and 1,000,000"),
        (
            "a\tb\n",
            ["--units", "characters", "--undo-merges", "0.2"],
            "error: undo_merges (0.2) must be 0 or left out: the source's tokenizer has no merges",
        ),
        (
            "a\tb\n",
            ["--kind", "decoder-only", "--n-encoder-layers", "0", "--undo-merges", "0.2"],
            "error: undo_merges (0.2) must be 0 or left out: a decoder-only model",
        ),
        ("a\tb\n", ["--seed", "99999999999999999999"], "error: seed (99999999999999999999) must be between"),
        ("a\tb\n", ["--clip", "0"], "error: clip (0.0) must be greater than 0"),
        ("a\tb\n", ["--out", "."], "error: out (.) must end in a name of its own"),
        ("a\tb\n", ["--out", "{data}/x/y"], "error: {data}/x/y cannot be a folder, as {data} is a file"),
        (
            "a\tb\n",
            ["--out", "{data}"],
            "error: {data} exists and is not a checkpoint: give --out a new folder",
        ),
        ("a\tb\n", ["--out", "{folder}"], "error: {folder} exists and is not a checkpoint"),
    ],
)
def test_training_errors_are_one_sentence(content, arguments, message, tmp_path, capsys):
    places = {"data": tmp_path / "data" / "pairs.tsv", "folder": tmp_path / "data"}
    places["folder"].mkdir()
    if content is not None:
        places["data"].write_text(content, encoding="utf-8")
    arguments = [argument.format(**places) for argument in arguments]
    out = tmp_path / "out"
    assert main(["train", "--data", str(places["data"]), "--out", str(out), *TINY, *arguments]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(message.format(**places))
    assert errors.count("\n") == 1
    assert not out.exists()
    assert content is None or places["data"].read_text(encoding="utf-8") == content


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    command = f"'{sys.executable}' -m model inspect '{checkpoint(tmp_path / 'c')}' | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("config.json: ")
    assert done.stdout.endswith("\n0\n")
    assert done.stderr == ""


def test_a_language_model_writes_as_much_as_it_is_told(tmp_path, capsys):
    tokenizer = train_text_characters([pair.source for pair in PAIRS])
    model = one_stack("decoder-only", vocabulary=len(tokenizer))
    save_checkpoint(tmp_path / "c", model, (tokenizer, tokenizer))
    assert main(["generate", str(tmp_path / "c"), "The c", "--length", "7"]) == 0
    lens = open_checkpoint(tmp_path / "c")
    assert capsys.readouterr().out == lens.generate("The c", length=7).text + "\n"
    assert main(["generate", str(tmp_path / "c"), "The c", "--length", "0"]) == 2
    assert "length (0) must be at least 1" in capsys.readouterr().err
    data = write_pairs(tmp_path / "pairs.tsv", PAIRS[:60])
    assert main(["evaluate", str(tmp_path / "c"), "--data", str(data)]) == 0
    note = "note: c was not trained on pairs: it goes on with each sentence as a text\n"
    assert note in capsys.readouterr().err


def test_a_file_that_does_not_say_its_heads_is_told(tmp_path, capsys):
    file = tmp_path / "annotated.pt"
    torch.save(random_weights(Annotated()).state_dict(), file)
    assert main(["generate", str(file), "3 1 4"]) == 2
    assert "(on the command line --heads N)" in capsys.readouterr().err
    assert main(["generate", str(file), "3 1 4", "--heads", "3"]) == 0
    assert capsys.readouterr().out == open_checkpoint(file, heads=3).generate("3 1 4").text + "\n"
    pairs = [Pair(f"{number % 10} {number // 10}", "1 5") for number in range(100)]
    data = write_pairs(tmp_path / "pairs.tsv", pairs)
    assert main(["evaluate", str(file), "--data", str(data), "--heads", "3"]) == 0
    assert "BLEU: " in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--d-ff", "--max-length"])
def test_a_network_that_does_not_fit_is_refused_before_it_is_built(tmp_path, capsys, option):
    data = write_pairs(tmp_path / "pairs.tsv", PAIRS)
    assert main(["train", "--data", str(data), "--out", str(tmp_path / "run"), *TINY, option, "100000000000"]) == 2
    pattern = r"error: the training needs about \d+\.\d GB, and \d+\.\d GB are free: lower d_model, d_ff, max_length"
    assert re.match(pattern, capsys.readouterr().err.splitlines()[-1])


def test_a_beam_that_does_not_fit_is_refused(tmp_path, capsys):
    assert main(["generate", str(checkpoint(tmp_path / "c")), "The cat", "--beam", "100000000"]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: beam \(100000000\) needs about \d+\.\d GB, and \d+\.\d GB are free: lower it\n", error)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate")])
def test_memory_that_ends_on_the_way_is_one_sentence(tmp_path, capsys, monkeypatch, error):
    def fail(*_given, **_options):
        raise error

    monkeypatch.setattr(Translator, "source_tokens", fail)
    assert main(["generate", str(checkpoint(tmp_path / "c")), "The cat"]) == 2
    assert capsys.readouterr().err == (
        "error: memory is exhausted: give a smaller model, or a lower --batch-tokens, --beam or --length\n"
    )


def test_an_option_that_is_not_known_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["generate", "--beam", "x", "c", "text"])
    error = "error: argument --beam: invalid int value: 'x'; see python -m model generate --help\n"
    assert capsys.readouterr().err == error


def test_a_stop_while_torch_is_imported_is_one_word():
    """Here at once: the first module that a command imports is stopped in the middle."""
    stopped = (
        "import runpy, sys\n"
        "class Stop:\n"
        "    def find_spec(name, *rest):\n"
        "        if name == 'torch': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop)\n"
        "sys.argv = ['model', '--help']\n"
        "runpy.run_module('model', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", stopped], cwd=ROOT, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (130, "stopped\n")


def test_a_seed_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match=r"seed \(18446744073709551616\) must be between -9223372036854775808 and"):
        Sampling(seed=2**64)
