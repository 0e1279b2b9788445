"""What is fetched from Hugging Face: asked for first, no code, within the disk; told by a library of our own making."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import model.checkpoints.hub
from model.checkpoints.hub import Offer, ask, fetch, wanted
from model.runtime import cancellation
from model.runtime.errors import CheckpointError

FILES = {"config.json": 100, "model.safetensors": 10**6, "tokenizer.json": 500, "modeling.py": 9, "onnx/model.json": 7}
OFFER = Offer("me/mine", "abc", ("config.json", "model.safetensors"), 1000)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Their library, with one model and no network."""
    asked = SimpleNamespace(files=FILES, downloads=[], error=None)

    def model_info(name, files_metadata, timeout):
        assert files_metadata
        if asked.error:
            raise asked.error
        return SimpleNamespace(
            sha="abc", siblings=[SimpleNamespace(rfilename=name, size=size) for name, size in asked.files.items()]
        )

    def snapshot_download(name, **options):
        asked.downloads.append((name, options))
        return asked.fetch(options["tqdm_class"])

    library = SimpleNamespace(HfApi=lambda: SimpleNamespace(model_info=model_info), snapshot_download=snapshot_download)
    asked.fetch = lambda _counter: str(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    monkeypatch.setattr(model.checkpoints.hub, "_cache", lambda: tmp_path)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    return asked


def test_files_are_weights_once_and_texts_without_code():
    assert wanted(FILES) == ["model.safetensors", "config.json", "tokenizer.json"]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    both = [*shards, "consolidated.safetensors", "pytorch_model.bin", "model.safetensors.index.json"]
    assert wanted(both) == [*shards, "model.safetensors.index.json"]
    assert wanted(["adapter.safetensors", "pytorch_model.bin"]) == ["adapter.safetensors"]
    old = ["pytorch_model.bin", "training_args.bin", "run.py", "vocab.txt", "spiece.model", "source.spm"]
    assert wanted(old) == ["pytorch_model.bin", "vocab.txt", "spiece.model", "source.spm"]


def test_the_size_is_known_before_anything_is_fetched(hub):
    offer = ask(" me/mine ")
    assert (offer.name, offer.revision, offer.bytes) == ("me/mine", "abc", 10**6 + 600)
    assert not hub.downloads


@pytest.mark.parametrize("name", ["", "a/b/c", "../etc", "https://x.org/a", "a b", "-a/b", "a" * 3000])
def test_what_is_no_name_asks_nobody_and_is_cut_in_the_sentence(hub, name):
    hub.error = AssertionError("asked")
    with pytest.raises(CheckpointError, match=r"^.{1,140}openai-community/gpt2$"):
        ask(name)


def test_refusals_are_sentences(hub, monkeypatch):
    hub.error = type("RepositoryNotFoundError", (Exception,), {})("404")
    with pytest.raises(CheckpointError, match=r"me/mine .* no model of that name"):
        ask("me/mine")
    hub.error = OSError("no route\nto host")
    with pytest.raises(CheckpointError, match="no route"):
        ask("me/mine")
    hub.error, hub.files = None, {"config.json": 1}
    with pytest.raises(CheckpointError, match="no weights"):
        ask("me/mine")
    hub.files = {"model.safetensors": 10**18}
    with pytest.raises(CheckpointError, match=r"1e\+09 GB .* free"):
        ask("me/mine")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE"):
        ask("me/mine")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError, match="pip install huggingface_hub"):
        ask("me/mine")


def test_a_download_counts_its_bytes_and_ends_in_a_folder(hub, tmp_path):
    counts = []

    def download(counter):
        with counter(total=0, unit="B", name="bytes") as bar, counter(total=2, unit="it") as files:
            bar.update(500)
            files.update(1)
            bar.update(500)
        return str(tmp_path)

    hub.fetch = download
    assert fetch(OFFER, counts.append) == tmp_path
    assert counts == [500, 500, 1000]
    ((name, options),) = hub.downloads
    assert name == "me/mine"
    assert (options["revision"], options["allow_patterns"]) == ("abc", list(OFFER.files))


def test_a_download_ends_with_what_its_counter_raises_or_fails_in_a_sentence(hub):
    def download(counter):
        counter(unit="B").update(1)
        raise AssertionError("it goes on")

    def cancelled(_size):
        raise cancellation.SupersededError

    hub.fetch = download
    with pytest.raises(cancellation.SupersededError):
        fetch(OFFER, cancelled)

    def fail(_counter):
        raise ConnectionError("gone")

    hub.fetch = fail
    with pytest.raises(CheckpointError, match="me/mine could not be fetched: there is no connection"):
        fetch(OFFER, print)
