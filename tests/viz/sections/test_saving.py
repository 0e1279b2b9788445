"""A server that dies while the page saves a model: the old or the new one is there, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from model.checkpoints import open_checkpoint
from tests.viz.small import write_small
from viz.opening import SAVED, saved_names
from viz.sections import training_saving

ROOT = Path(__file__).parents[3]

# Saves a run after its third step; then, in a fork for each death, after none, and is killed at that rename.
SAVER = """
import dataclasses, os, signal, sys
from pathlib import Path
import viz.opening, viz.sections.training_demonstration, viz.sections.training_start
viz.opening.CHECKPOINTS = Path(sys.argv[1])
from model.demonstration import REVERSE
settings = dataclasses.replace(REVERSE.settings, steps=3, validate_every=3, batch_tokens=60)
small = {"d_model": 8, "n_heads": 2, "d_ff": 8, "dropout": 0.0}
short = dataclasses.replace(REVERSE, pairs=60, settings=settings, network=small)
viz.sections.training_demonstration.REVERSE = viz.sections.training_start.REVERSE = short
from tests.app_reading import opened
from viz import training

def dying(call, number):
    left = number

    def wrapped(*arguments, **options):
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)

    return wrapped

def save():
    app.button(key="saving_save").click().run()
    assert not app.exception
    assert live.settled(60)

app = opened(training_part="begin")
app.switch_page("viz/pages/training.py").run()
app.button(key="demonstration_begin").click().run()
(live,) = training.trainings()._trainings.values()
assert live.settled(60)
app.session_state["training_part"] = "runs"
app.run()
app.text_input(key="saving_name").set_value("mine").run()
print(sum(float(weight.sum()) for weight in live._driver.own.trainer.model.parameters()), flush=True)
save()
live.rewind(live.current.film.key_frames[0])
assert live.settled(60)
app.run()
app.checkbox(key="saving_replace").set_value(True).run()
print(sum(float(weight.sum()) for weight in live._driver.own.trainer.model.parameters()), flush=True)
for line in sys.stdin:
    child = os.fork()  # nothing is under way: no thread is missed in it
    if child == 0:
        os.rename = os.replace = dying(os.rename, int(line))
        save()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_kill_while_the_page_saves_leaves_one_model_whole(tmp_path, monkeypatch):
    write_small(tmp_path / "bundled" / "small")
    saved = tmp_path / "saved"
    monkeypatch.setenv(SAVED, str(saved))
    found = []
    with subprocess.Popen(
        [sys.executable, "-c", SAVER, str(tmp_path / "bundled")],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        weights = {steps: float(server.stdout.readline()) for steps in (3, 0)}
        for number in range(1, 9):
            server.stdin.write(f"{number}\n")
            server.stdin.flush()
            died = int(server.stdout.readline())
            assert saved_names() == ["mine"], number
            lens = open_checkpoint(saved / "mine")
            found.append(lens.training["steps"])
            assert sum(float(each.sum()) for each in lens.model.parameters()) == weights[found[-1]]
            if died == 0:
                break
            assert died == -signal.SIGKILL
    assert found == sorted(found, reverse=True)
    assert set(found) == {3, 0}
    assert found.count(3) > 1
    assert [path.name for path in saved.iterdir() if not path.name.startswith(".")] == ["mine"]


def test_the_name_offered_is_one_that_can_be_saved_under(monkeypatch):
    monkeypatch.setattr(training_saving, "bundled_names", lambda: ["reverse"])
    monkeypatch.setattr(training_saving, "saved_names", lambda: ["reverse-2"])
    monkeypatch.setattr(training_saving.opened, "own_names", lambda _bench: {"reverse-3"})
    monkeypatch.setattr(training_saving, "workbench", lambda: None)
    assert training_saving.free_name("reverse") == "reverse-4"
    assert training_saving.free_name("new") == "new"
