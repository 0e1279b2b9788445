"""What takes more than one pass, on a device that is not the CPU: writing, training, its film, files, models of others.

The device is a pretended one (tests/pretended_device.py), once with float64, as CUDA, and once without, as MPS.
"""

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torchgen

from model.analysis.checks import checks
from model.checkpoints.bridge.load import open_network
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.decoding import Sampling
from model.network.transformer import Network
from model.training.live.live_training import LiveTraining
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.trainer import Trainer
from tests.model import examples
from tests.model.checkpoints.bridge import models
from tests.model.checkpoints.convert import twins
from tests.model.elsewhere import KINDS, TEXT, alike, elsewhere, model_of, trace_of
from tests.model.training.live import live_examples
from tests.model.training.live.live_examples import SETTINGS, losses, settled
from tests.pretended_device import NAME, pretending, run_as_on_mps

pytestmark = pytest.mark.unchecked

# Not gpt_oss: its code asks any device but the CPU for a histogram of integers, and the CPU computes here.
BRIDGED = ["gemma2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gptj", "electra", "pegasus", "t5"))]
REBUILT = [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("gpt2", "bert", "t5")), "llama"]
OTHERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:]]
STEPS = {"epochs": 3, "batch_tokens": 100, "warmup": 5, "rate": 5e-3, "bpe_dropout": 0.0, "validate_every": 2}


@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"sampling": Sampling(seed=3, top_p=0.9), "length": 9}], ids=str)
@pytest.mark.parametrize("kind", [KINDS[0], OTHERS[0]])
def test_the_same_is_written(pretended, kind, options):
    model = model_of(kind)
    other = elsewhere(model)
    texts = [TEXT, "A dog"]
    here, there = (each.generate_batch(texts, **options) for each in (model, other))
    assert [each.ids for each in there] == [each.ids for each in here]
    alike([each.log_probabilities for each in there], [each.log_probabilities for each in here])
    if options:
        return
    begun = "师学" if kind == "encoder-decoder" else TEXT
    assert model.continue_from(TEXT, begun, 2, [5]) == other.continue_from(TEXT, begun, 2, [5])
    alike(other.guesses(trace_of(other)), model.guesses(trace_of(model)))
    if kind == "encoder-decoder":  # a draft, all of whose steps are computed at once
        _trace, _target, drafted = other.trace_generated(other.source_tokens(TEXT), [here[1]])
        assert drafted.ids == here[0].ids


def test_the_same_is_filled_in(pretended):
    model = model_of("encoder-only")
    text = "The <mask> sees a <mask>."
    alike(elsewhere(model).generate(text), model.generate(text))


def trainer(dropout: float, place: str, settings: dict[str, Any]) -> Trainer:
    pairs, layers = examples.sentences(16), {"n_encoder_layers": 1, "n_decoder_layers": 1}
    made = examples.trainer(pairs[:12], pairs[12:], layers | {"dropout": dropout}, **(STEPS | settings))
    return Trainer(made.network.to(place), made.train, made.validation, made.settings)


TRAININGS = [
    (0.0, {"accumulation": 2, "clip": 0.1, "average": 0.9, "label_smoothing": 0.1}),
    (0.2, {"average_last": 2}),
    (0.0, {"precision": "bfloat16"}),
    (0.0, {"precision": "float16"}),
]


@pytest.mark.parametrize(("dropout", "settings"), TRAININGS)
def test_steps_are_the_same_and_can_be_resumed(tmp_path, dropout, settings):
    close, roughly = (0.02, 0.1) if "precision" in settings else (1e-4, 1e-3)
    # torch's GradScaler leaves float64 out on a device of the name "mps" alone.
    with pretending(float64=settings.get("precision") == "float16"):
        here, there = (trainer(dropout, place, settings) for place in ("cpu", NAME))
        for one, other in zip(list(there.steps(2)), list(here.steps(2)), strict=True):
            if not dropout:  # else each device draws numbers of its own
                assert one.loss == pytest.approx(other.loss, rel=close)
                assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=roughly)
                assert one.validation == (other.validation and pytest.approx(other.validation, rel=close))
        assert {each.device.type for each in there.network.parameters()} == {NAME}
        there.save_state(tmp_path / "run.resume")
        again = trainer(dropout, NAME, settings)
        again.load_state(tmp_path / "run.resume")
        assert [each.loss for each in again.steps(1)] == [each.loss for each in there.steps(1)]


@pytest.mark.parametrize("kind", [KINDS[0], *OTHERS])
def test_a_run_is_filmed_and_goes_back_to_a_key_frame(pretended, kind):
    learned = live_examples.material(kind)
    model = live_examples.start(learned, kind)
    model.network.to(NAME)
    run = RecordedTrainer(model, learned, replace(SETTINGS, validate_every=2), live_examples.probe(model), key_every=2)
    first = [run.step().loss for _ in range(3)]
    key = run.run.film.key_frames[1]
    assert {each.device.type for each in key.tensors.values()} == {"cpu"}
    run.rewind(key)
    assert [run.step().loss for _ in range(3 - key.step)] == first[key.step :]


def test_a_live_training_moves(pretended):
    learned = live_examples.material()
    model = live_examples.start(learned)
    model.network.to(NAME)
    training = LiveTraining(model, learned, SETTINGS, live_examples.probe(model), key_every=2)
    try:
        training.advance(3)
        assert (settled(training).snapshot.status, training.snapshot.message) == ("idle", "")
        assert len(losses(training)) == 3
        view = training.view()
        assert view is None or view.model.device.type == NAME
    finally:
        training.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
def test_a_checkpoint_is_saved_from_there_and_opened_there(pretended, tmp_path, dtype):
    model = model_of("encoder-decoder", norm_placement="pre")
    moved = elsewhere(model)
    save_checkpoint(tmp_path / "saved", moved.network, (moved.source_tokenizer, moved.target_tokenizer))
    again = open_checkpoint(tmp_path / "saved", pretended, dtype)
    trace = trace_of(again)
    assert (again.device.type, again.dtype) == (NAME, dtype)
    assert all(check.passed for check in checks(trace))
    if dtype == torch.float32:
        alike(trace["output.logits"], trace_of(model)["output.logits"])
    assert again.generate(TEXT, beam=2).ids


def same_quantities(here: Network, there: Network, ids: tuple[torch.Tensor, ...]) -> None:
    moved = tuple(each.to(next(there.parameters()).device) for each in ids)
    traces = examples.traced(there, ids=moved), examples.traced(here, ids=ids)
    alike(*({name: trace[name] for name in trace.names()} for trace in traces))
    assert all(check.passed for check in checks(traces[0]))


@pytest.mark.parametrize("kind", REBUILT)
def test_a_model_of_another_library_put_together_as_ours(pretended, tmp_path, kind):
    twins.saved(kind, tmp_path)
    here = twins.rebuilt(tmp_path)
    same_quantities(here, copy.deepcopy(here).to(NAME), twins.texts(here))


@pytest.mark.parametrize("name", BRIDGED)
def test_a_model_that_another_library_runs(pretended, name):
    folder: Path = models.theirs(name)[1]
    there = open_network(folder, models.settings_in(folder), pretended, torch.float32)
    same_quantities(models.bridged(name), there, models.inputs(there))


def test_every_operation_so_far_has_a_kernel_on_mps():
    """By torch's own table of operations; which types of numbers a kernel takes is not in it."""
    with pretending(float64=False):
        model = elsewhere(model_of("decoder-only", position="rotary", norm="rms"))
        assert len(checks(trace_of(model))) == 6
        model.generate(TEXT, beam=2)
        next(trainer(0.1, NAME, {"precision": "bfloat16"}).steps(1))
    table = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    entries = {part.split("(", 1)[0]: part for part in table.read_text("utf-8").split("\n- func: ")[1:]}

    def missing(name: str) -> bool:
        entry = entries[name.removeprefix("aten.").removesuffix(".default")]
        if delegate := re.search(r"^  structured_delegate: (\S+)", entry, re.M):
            entry = entries[delegate[1]]
        return "\n  dispatch:" in entry and not re.search(r"^    [\w, ]*(MPS|Composite)\w*[\w, ]*:", entry, re.M)

    assert len(run_as_on_mps) > 50
    asked = {"aten._fused_sdp_choice.default"}  # of other devices than MPS alone
    assert not {name for name in run_as_on_mps - asked if missing(name)}
    assert missing("_linalg_svd")
