"""What the commands refuse, and how they end: in one sentence, without a traceback."""

import re
import subprocess
import sys

import pytest
import torch

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.data.pairs import Pair
from model.inference.models import Translator
from model.text.tokenizer_training import train_text_characters
from tests.model.checkpoints.convert.layout_references import Annotated, random_weights
from tests.model.cli.test_commands import PAIRS, ROOT, checkpoint
from tests.model.examples import TINY, one_stack, write_pairs


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (None, [], "error: {data} does not exist"),
        ("one\tеден\ntwo\n", [], "error: line 2 of {data} has no sentence and translation"),
        ("Sentence 42.\tb\n", [], "error: there is nothing to train on: all rows are kept for validation and test"),
        ("a\tb\n", ["--d-model", "15"], "error: d_model (15) must be even"),
        ("a\tb\n", ["--epochs", "0"], "error: epochs (0) must be between 1 and 10000"),
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
        (
            "a\tb\n",
            ["--units", "characters", "--bpe-dropout", "0.2"],
            "error: bpe_dropout (0.2) must be 0 or left out: the source's tokenizer has no merges",
        ),
        (
            "a\tb\n",
            ["--kind", "decoder-only", "--n-encoder-layers", "0", "--bpe-dropout", "0.2"],
            "error: bpe_dropout (0.2) must be 0 or left out: a decoder-only model",
        ),
        ("a\tb\n", ["--out", "."], "error: out (.) must end in a name of its own"),
        ("a\tb\n", ["--out", "{data}/x/y"], "error: {data}/x/y cannot be a folder, as {data} is a file"),
        ("a\tb\n", ["--out", "{data}"], "error: {data} exists and is not a checkpoint: give --out a new folder"),
        ("a\tb\n", ["--out", "{folder}"], "error: {folder} exists and is not a checkpoint"),
        ("a\tb\n", ["--out", "{folder}", "--dry-run"], "error: {folder} exists and is not a checkpoint"),
        ("a\tb\n", ["--keep-last"], "error: {folder} exists and is not a checkpoint"),
        (
            "a\tb\n",
            ["--log-dir", "{data}"],
            "error: log_dir ({data}) cannot be a folder, as {data} is a file: give --log",
        ),
        ("a\tb\n", ["--data", "task:sort:100000000000"], "error: task:sort:100000000000: the count must be at most"),
    ],
)
def test_training_errors_are_one_sentence(content, arguments, message, tmp_path, capsys):
    places = {"data": tmp_path / "out-last" / "pairs.tsv", "folder": tmp_path / "out-last"}
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
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith("config.json: ")
    assert done.stdout.endswith("\n0\n")
    assert done.stderr == ""


def test_a_language_model_writes_as_much_as_it_is_told(tmp_path, capsys):
    tokenizer = train_text_characters([pair.source for pair in PAIRS])
    network = one_stack("decoder-only", vocabulary=len(tokenizer))
    save_checkpoint(tmp_path / "c", network, (tokenizer, tokenizer))
    assert main(["generate", str(tmp_path / "c"), "The c", "--length", "7"]) == 0
    model = open_checkpoint(tmp_path / "c")
    assert capsys.readouterr().out == model.generate("The c", length=7).text + "\n"
    assert main(["generate", str(tmp_path / "c"), "The c", "--length", "0"]) == 2
    assert "length (0) must be at least 1" in capsys.readouterr().err
    data = write_pairs(tmp_path / "pairs.tsv", PAIRS[:60])
    assert main(["evaluate", str(tmp_path / "c"), "--data", str(data)]) == 0
    note = "note: c was not trained on pairs: it goes on with each sentence as a text\n"
    assert note in capsys.readouterr().err


def test_a_file_that_does_not_say_its_heads_is_told(tmp_path, capsys):
    file = tmp_path / "annotated.pt"
    state = {f"model.{name}": each for name, each in random_weights(Annotated()).state_dict().items()}
    torch.save(state | {"projection.weight": torch.ones(2, 2)}, file)
    assert main(["generate", str(file), "3 1 4"]) == 2
    assert "(on the command line --heads N)" in capsys.readouterr().err
    assert main(["generate", str(file), "3 1 4", "--heads", "3"]) == 0
    assert capsys.readouterr().out == open_checkpoint(file, heads=3).generate("3 1 4").text + "\n"
    assert main(["generate", str(file), "3 1 4", "--hints", "heads:3,norm:post"]) == 0
    printed = capsys.readouterr()
    assert printed.out == open_checkpoint(file, heads=3, norm="post").generate("3 1 4").text + "\n"
    assert "note: annotated: assumed: targets begin with token 0" in printed.err
    assert "note: annotated: not part of it: projection.weight (1 such)" in printed.err
    assert "norm_first" not in printed.err
    assert main(["generate", str(file), "3 1 4", "--told", "heads:3,causal:no"]) == 2
    assert "leave causal:no out" in capsys.readouterr().err
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
