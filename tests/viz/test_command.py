"""The command `vitrine`: what it asks of Streamlit, what it refuses, and that its help does not wait for torch."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.test_rooms import ROOT
from viz import __main__ as command
from viz.state.checkpoints import GIVEN, HINTS


def test_a_checkpoint_its_hints_and_streamlits_options_are_passed_on(monkeypatch):
    monkeypatch.chdir(ROOT / "checkpoints")
    checkpoint = str(ROOT / "checkpoints" / "sort")
    for name in ("--hints", "--told"):  # its old name too
        words = command.streamlit_words(["sort", name, "heads:4", "--server.port=8502"])
        assert words == [
            "run",
            str(ROOT / "app.py"),
            "--server.port=8502",
            "--",
            GIVEN,
            checkpoint,
            HINTS[0],
            "heads:4",
        ]
    assert command.streamlit_words([]) == ["run", str(ROOT / "app.py"), "--"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], f"nothing is at {ROOT / 'nowhere'}"),
        (["./nowhere", "--server.headless"], f"nothing is at {ROOT / 'nowhere'}"),
        (["--server.headless=true", "nowhere"], f"nothing is at {ROOT / 'nowhere'}"),
        (["--server.port", "8502"], "the value of --server.port stands behind =: --server.port=8502"),
        (["checkpoints/sort", "checkpoints/reverse"], "one checkpoint is opened, and checkpoints/reverse is more"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_one_line(words, sentence, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert command.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {sentence}")
    assert error.count("\n") == 1


def test_an_installed_copy_says_that_it_lacks_what_pip_does_not_copy(tmp_path, monkeypatch):
    (tmp_path / "app.py").touch()
    monkeypatch.setattr(command, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"has no \.streamlit/config\.toml and no checkpoints.* pip install -e \. "):
        command.streamlit_words([])


def test_help_imports_neither_torch_nor_streamlit():
    code = "import sys, viz.__main__ as c\ntry: c.main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    words = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "usage: vitrine" in words
    assert not {"torch", "streamlit", "numpy"} & set(words.split())


def test_the_package_installs_the_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"vitrine": "viz.__main__:main"}
    assert project["tool"]["setuptools"]["dynamic"]["dependencies"]["file"] == "requirements.txt"
