"""Curves for TensorBoard, read back by TensorBoard's own reader."""

import math
import sys

import pytest

from model.training.live import runs
from model.training.tensorboard import Curves, write_curves
from tests.model.examples import trainer
from tests.model.training.training_examples import PAIRS, read_curves


def make(validation=PAIRS[:10]):
    options = {"epochs": 2, "batch_tokens": 100, "warmup": 5, "rate": 5e-3, "bpe_dropout": 0.0}
    return trainer(PAIRS[10:], validation, {"n_encoder_layers": 1, "n_decoder_layers": 1}, **options)


@pytest.mark.parametrize("validation", [PAIRS[:10], []], ids=["validation split", "none"])
def test_every_figure_of_a_report_is_a_curve(validation, tmp_path):
    reports = list(make(validation).steps())
    assert math.isnan(reports[-1].validation) == (not validation)
    with Curves(tmp_path, 0) as curves:
        for report in reports:
            curves.add(report)
    found = read_curves(tmp_path)
    expected = {
        "loss/training": [(r.step, r.loss) for r in reports],
        "rate": [(r.step, r.rate) for r in reports],
        "gradient_norm/all": [(r.step, r.gradient_norm) for r in reports],
        "parameter_norm": [(r.step, r.parameter_norm) for r in reports],
        "tokens_per_second": [(r.step, r.tokens / r.seconds) for r in reports],
    }
    if validation:
        expected["loss/validation"] = [(r.step, r.validation) for r in reports if r.validation is not None]
    layers = ("encoder.embedding", "encoder.layers.0", "decoder.embedding", "decoder.layers.0", "output.logits")
    for part in layers:
        expected[f"gradient_norm/{part}"] = [(r.step, r.gradient_norms[part]) for r in reports]
    assert found.keys() == expected.keys()
    for tag, values in expected.items():
        assert dict(found[tag]) == pytest.approx(dict(values), rel=1e-6)


def test_a_resumed_run_goes_on_with_the_same_curve_and_no_step_is_doubled(tmp_path):
    """A run that was killed after step 8, where the state to go on from is that of step 5."""
    reports = list(make().steps(12))
    with Curves(tmp_path, 0) as curves:
        for report in reports[:8]:
            curves.add(report)
    with Curves(tmp_path, 5) as curves:
        for report in reports[5:]:
            curves.add(report)
    assert [step for step, _ in read_curves(tmp_path)["loss/training"]] == list(range(1, 13))


def test_what_was_flushed_is_on_the_disk(tmp_path):
    (report,) = make([]).steps(1)
    with Curves(tmp_path, 0) as curves:
        curves.add(report)
        curves.flush()
        assert read_curves(tmp_path)["loss/training"] == [(1, pytest.approx(report.loss))]


def test_without_tensorboard_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"^curves need TensorBoard: pip install tensorboard \("):
        Curves(tmp_path / "curves", 0)
    assert not (tmp_path / "curves").exists()


def test_the_curves_of_a_live_run_are_written_with_their_steps(tmp_path):
    measured = runs.Curves(["loss", "gradient norm/output.logits"])
    measured.add(0, {"loss": None})
    measured.add(1, {"loss": 2.5, "gradient norm/output.logits": 0.5, "validation": 3.0})
    measured.add(2, {"loss": 1.5, "gradient norm/output.logits": 0.25})
    write_curves(tmp_path, measured)
    assert read_curves(tmp_path) == {
        "loss": [(1, 2.5), (2, 1.5)],
        "gradient_norm/output.logits": [(1, 0.5), (2, 0.25)],
        "validation": [(1, 3.0)],
    }
