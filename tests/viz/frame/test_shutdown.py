"""A server that is told to stop while a training goes on: it is saved, the log says where, and one session is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from model.checkpoints.load import open_checkpoint
from model.training.live.saved_training import read_saved_training
from tests.browser.server import PATIENCE, ROOT, answers, free_port
from tests.model.training.live.live_examples import LONG, SETTINGS, Gate, live, settled
from tests.model.training.live.test_saved_training import begun
from viz.frame import shutdown
from viz.state import checkpoints, training
from viz.state.session import Session

HERE = {"host": "localhost:8501"}
pytestmark = pytest.mark.unchecked


@pytest.fixture
def toasts(monkeypatch, tmp_path) -> list[str]:
    """What visitors are told; models are saved, and trainings kept, in a folder of the test's own."""
    monkeypatch.setenv(checkpoints.SAVED, str(tmp_path / "saved"))
    monkeypatch.delenv(training.TRAININGS, raising=False)
    found: list[str] = []
    monkeypatch.setattr(shutdown.st, "toast", lambda text, **_how: found.append(text))
    sit_at(monkeypatch, HERE)
    return found


def sit_at(monkeypatch, headers: dict[str, str]) -> None:
    monkeypatch.setattr(shutdown.st, "context", SimpleNamespace(headers=SimpleNamespace(to_dict=lambda: headers)))
    monkeypatch.setattr(shutdown.st, "get_option", lambda _name: "127.0.0.1")


def going_on(monkeypatch, given) -> None:
    """This training, and no other, goes on in the process: it stands in front of a batch after its first step."""
    given.advance(1)
    gate = Gate(settled(given))
    given.run()
    assert gate.reached.wait(LONG)
    gate.open.set()
    monkeypatch.setattr(training, "trainings", lambda: SimpleNamespace(all=lambda: (given,)))
    assert given.snapshot.status == "running"


def test_the_model_becomes_a_checkpoint_in_the_list_and_the_next_session_hears_of_it_once(
    toasts, tmp_path, monkeypatch, caplog
):
    given = live(replace(SETTINGS, steps=100_000))
    going_on(monkeypatch, given)
    shutdown.save_trainings()
    folder, step = tmp_path / "saved" / "new-stopped1", given.snapshot.step
    assert given.snapshot.status == "paused"
    assert open_checkpoint(folder).training["steps"] == step >= 1
    assert caplog.messages == [f"the training of new is saved as it stands after step {step}: {folder}"]
    assert checkpoints.saved_names() == ["new-stopped1"]
    shutdown.tell(Session())
    (said,) = toasts
    assert f"after step {step:,} it is in the list of models, as new-stopped1" in said.replace("\\", "")
    assert str(folder) in said.replace("\\", "")
    shutdown.tell(Session())
    assert len(toasts) == 1
    given.close()


def test_where_trainings_are_kept_its_newest_state_is(toasts, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv(training.TRAININGS, str(tmp_path / "trainings"))
    given = begun(tmp_path / "trainings" / "run", settings=replace(SETTINGS, steps=100_000))
    going_on(monkeypatch, given)
    shutdown.save_trainings()
    step = given.snapshot.step
    assert read_saved_training(tmp_path / "trainings" / "run").state["step"] == step
    assert caplog.messages == [f"the training of new is saved as it stands after step {step}: {tmp_path}/trainings/run"]
    assert checkpoints.saved_names() == []
    shutdown.tell(Session())
    assert "the address of its window goes on with it" in toasts[0]
    given.close()


def test_of_a_server_open_to_strangers_only_the_owner_is_told_and_no_path(toasts, tmp_path, monkeypatch):
    monkeypatch.setenv("VITRINE_PUBLIC", "1")
    monkeypatch.setenv("VITRINE_SAVING", "1")
    owner = Session()
    owner.browser = "a secret"
    given = live(replace(SETTINGS, steps=100_000), owner=training.owner(owner))
    going_on(monkeypatch, given)
    shutdown.save_trainings()
    for stranger in ("", "another"):
        session = Session()
        session.browser = stranger
        shutdown.tell(session)
    assert not toasts
    shutdown.tell(owner)
    assert len(toasts) == 1
    assert str(tmp_path) not in toasts[0].replace("\\", "")
    given.close()


def test_a_server_that_saves_nothing_says_what_is_lost(toasts, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("VITRINE_SAVING", "0")
    given = live(replace(SETTINGS, steps=100_000))
    going_on(monkeypatch, given)
    shutdown.save_trainings()
    assert "the training of new is lost, as it stands after step" in caplog.text
    assert not (tmp_path / "saved").exists()
    given.close()


def test_what_rests_is_not_saved_and_what_is_no_note_says_nothing(toasts, tmp_path, monkeypatch, caplog):
    given = live(steps=2)
    monkeypatch.setattr(training, "trainings", lambda: SimpleNamespace(all=lambda: (given,)))
    shutdown.save_trainings()
    assert not caplog.messages
    folder = tmp_path / "saved"
    folder.mkdir()
    told = {"owner": "", "name": "a", "step": 1, "path": "p", "saved": "a-stopped1"}
    for number, text in enumerate(("{", "[]", json.dumps(told | {"step": "x"}), "")):
        (folder / f".stopped-{number}.json").write_text(text)
    old = folder / ".stopped-old.json"
    old.write_text(json.dumps(told))
    os.utime(old, (1, time.time() - shutdown.STALE - 60))
    shutdown.tell(Session())
    assert not toasts
    assert not list(folder.iterdir())


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_whole_server_saves_what_trains_before_it_ends(tmp_path, told):
    from playwright.sync_api import sync_playwright

    from tests.benchmarks.window import open_window

    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "app.py",
        "--server.headless",
        "true",
        "--server.port",
        str(port),
    ]
    environment = {**os.environ, checkpoints.SAVED: str(tmp_path)}
    log = tmp_path / "log"
    with log.open("w") as said, sync_playwright() as play:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)
        try:
            end = time.monotonic() + PATIENCE / 1000
            while not answers(address):
                assert time.monotonic() < end
                time.sleep(0.1)
            page = open_window(play, f"{address}/?model=reverse&source=abcd", ".vitrine.strip")
            page.get_by_role("button", name="Train on", exact=True).click()
            page.wait_for_selector(".vitrine.strip[data-status='running']:not([data-step='0'])")
            server.send_signal(told)
            server.wait(PATIENCE / 1000)
        finally:
            server.kill()
    folder = Path(tmp_path / "reverse-stopped1")
    assert f"{folder}" in log.read_text()
    assert open_checkpoint(folder).training["steps"] >= 1
