"""A model that an experiment has trained is put into the list of models, and every page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import viz.state.checkpoints
from model.experiments.claims import trainings
from model.experiments.engines.ab_training import Arm, Side, train
from model.experiments.engines.training_comparisons import put_norm_on_the_short_cut, setup_of
from model.experiments.experiment import Experiment, Group, Outcome, Request, TrainedModel
from model.experiments.runner import Report
from model.message import say
from model.training.live.saving import save
from model.training.training_log import course_of
from tests.app_reading import experimented, opened, sound
from tests.viz.small import write_small
from viz.pages.lab.trained_models import file_name
from viz.state.session import Key


def trained(seeds: tuple[int, ...] = (1,)) -> Side:
    """Two arms after a step, of which one has a network that no config describes."""
    arms = Arm("pre"), Arm("wrong", change=put_norm_on_the_short_cut, ordinary=False)
    *_before, last = train(arms, setup_of("norms", "encoder-decoder", steps=1, d_model=8, depth=1, seeds=seeds))
    return last.result


def run(request: Request) -> Iterator[Report[Outcome]]:
    yield Report(1.0, Outcome(None, say("holds"), models=trainings.models_of(trained())))


PLANTED = Experiment(name="planted", row=27, group=Group.NORMS, statement=say("attention"), truth=say("masks"), run=run)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.experiments.engines.ab_training.PAIRS", 200)
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setattr("viz.pages.lab.statements.cards", lambda: {"planted": PLANTED})
    write_small(tmp_path / "bundled" / "small")


def test_models_are_those_that_a_checkpoint_can_hold() -> None:
    found = trainings.models_of(trained((1, 2)))
    assert [str(each.name) for each in found] == ["pre-norm, seed 1", "pre-norm, seed 2"]
    assert found[0].model.training["steps"] == 1
    assert found[0].model.training["data"] == "copy, lengths 3 to 8"
    assert file_name(PLANTED, found[1].model) == "planted-pre-2"


def test_a_model_is_saved_with_the_course_of_its_training(tmp_path: Path) -> None:
    side = trained()
    (first, *_others) = trainings.models_of(side)
    save(tmp_path / "arm", first.model, dict(first.model.training))
    (course,) = [each for each in side.courses if each.arm == "pre"]
    found = course_of(tmp_path / "arm")
    assert found.training == [(1, pytest.approx(course.losses[0]))]
    assert found.validation == [(step, pytest.approx(loss)) for step, loss, _right in course.validations]
    assert (found.step, found.latest) == (1, 1)


def test_a_click_shows_the_model_on_every_page() -> None:
    app = experimented(sound(opened("lab", statement="planted")), "statement_planted_run")
    (offered,) = app.session_state["statement_planted_run"].result.models
    app = sound(app.button(key="statement_planted_model_show").click().run())
    assert app.session_state[Key.MODEL] == "planted-pre-1"
    shown = app.session_state[Key.SESSION].model
    for name, weight in offered.model.network.named_parameters():
        assert torch.equal(shown.network.get_parameter(name).cpu(), weight.detach().cpu())
    assert isinstance(offered, TrainedModel)
    assert shown.generate("abc").text == offered.model.generate("abc").text
