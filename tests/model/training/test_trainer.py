"""The trainer: loss, optimizer, average, validation. Settings, precision and resuming have files of their own."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from model.data.datasets import IGNORED
from model.training.losses import summed_loss
from model.training.schedule import learning_rate
from model.training.settings import StepReport
from tests.model.examples import trainer
from tests.model.training.training_examples import PAIRS, batches_taken, make, unchanged


def naive_losses(model, examples, smoothing: float) -> list[float]:
    """For each target token (1 − ε) of its −log p, ε of the vocabulary's mean −log p; nothing is padded."""
    losses = []
    for source, target in examples:
        logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0].double()
        for row, token in zip(logits, target[1:], strict=True):
            total = math.log(math.fsum(math.exp(value) for value in row.tolist()))
            surprise = [total - value for value in row.tolist()]
            losses.append((1 - smoothing) * surprise[token] + smoothing * math.fsum(surprise) / len(surprise))
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_smoothed_cross_entropy_over_real_tokens(smoothing):
    given = make()
    chosen = [*range(6), *range(len(given.train) - 6, len(given.train))]
    examples = [given.train.examples[index] for index in chosen]
    assert len({len(example.target) for example in examples}) > 1
    assert len({len(example.source) for example in examples}) > 1
    given.network.eval()
    batch = given.train.batch(chosen, None)
    loss = summed_loss(given.network, batch, smoothing)
    losses = naive_losses(given.network, examples, smoothing)
    assert batch.predicted == len(losses)
    assert loss.item() == pytest.approx(math.fsum(losses), rel=1e-6)


def test_validation_is_nats_per_token_of_the_averaged_weights():
    given = make(batch_tokens=12)  # several batches, of different numbers of tokens
    list(given.steps(4))
    trained = given.network.output.logits.weight.detach().clone()
    with unchanged(given.network):
        validation = given.validate()
    with given.averaged_weights():
        assert not torch.equal(given.network.output.logits.weight, trained)
        losses = naive_losses(given.network, given.validation.examples, 0.0)
        smoothed = naive_losses(given.network, given.validation.examples, 0.1)
    assert validation == pytest.approx(math.fsum(losses) / len(losses), abs=1e-5)
    assert given.settings.label_smoothing == 0.1
    assert given.smoothed == pytest.approx(math.fsum(smoothed) / len(smoothed), abs=1e-5)


@pytest.mark.parametrize("every", [None, 7])
def test_a_report_says_what_the_step_did(every):
    given = make(epochs=2, validate_every=every)
    weight = given.network.output.logits.weight
    reports: list[StepReport] = []
    for report in given.steps():
        assert given.progress.step == report.step
        assert weight.grad.norm() <= report.gradient_norm + 1e-6 or report.gradient_norm > 1.0
        reports.append(report)
    total = given.total_steps
    assert [report.step for report in reports] == list(range(1, total + 1))
    ends, validated = given.epochs.ends, [report.step for report in reports if report.validation is not None]
    assert validated == (ends if every is None else [*range(every, total, every), total])
    assert [report.epoch for report in reports] == [0] * ends[0] + [1] * (ends[1] - ends[0])
    assert [r.rate for r in reports] == [learning_rate(r.step, total, given.settings) for r in reports]
    assert given.progress.validations == [(r.step, r.validation) for r in reports if r.validation is not None]
    best = min(given.progress.validations, key=lambda entry: entry[1])
    assert (given.progress.best_step, given.progress.best_validation) == best
    assert list(given.steps()) == []


def test_the_step_is_adamw_with_clipping_by_hand():
    given = make(clip=0.05, weight_decay=0.1, average=0.9)
    names = list(given.average)
    weights = {name: p.detach().double().clone() for name, p in given.network.named_parameters()}
    average = {name: weights[name].clone() for name in names}
    first, second = ({name: torch.zeros_like(weights[name]) for name in names} for _ in range(2))
    for report in given.steps(4):
        gradients = {name: p.grad.double() for name, p in given.network.named_parameters()}  # already clipped
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
        assert norm == pytest.approx(min(0.05, report.gradient_norm), rel=1e-3)
        decay = min(0.9, report.step / (report.step + 9))
        for name in names:
            first[name] = 0.9 * first[name] + 0.1 * gradients[name]
            second[name] = 0.98 * second[name] + 0.02 * gradients[name].square()
            mean = first[name] / (1 - 0.9**report.step)
            deviation = (second[name] / (1 - 0.98**report.step)).sqrt()
            weights[name] *= 1 - report.rate * 0.1
            weights[name] -= report.rate * mean / (deviation + 1e-9)
            average[name] = decay * average[name] + (1 - decay) * weights[name]
    for name, parameter in given.network.named_parameters():
        assert_close(parameter.detach().double(), weights[name], rtol=0, atol=2e-5)
        assert_close(given.average[name].double(), average[name], rtol=0, atol=2e-5)


def test_averaged_weights_leave_the_model_as_it_was():
    """In training mode too: a model left in evaluation mode would train on without dropout."""
    given = make()
    list(given.steps(2))
    for training in (True, False):
        given.network.train(training)
        with unchanged(given.network), given.averaged_weights() as model:
            assert not model.training
            for name, parameter in model.named_parameters():
                assert torch.equal(parameter, given.average[name])
        assert given.network.training == training


def test_accumulated_batches_are_one_batch():
    """The mean is over all tokens to predict: the batches have different numbers of them."""
    options = {"warmup": 0, "schedule": "constant", "label_smoothing": 0.0, "clip": 1e9, "bpe_dropout": 0.0}
    given = trainer(PAIRS[10:], [], {"bias": False}, epochs=1, batch_tokens=60, accumulation=3, **options)
    alone = trainer(PAIRS[10:], [], {"bias": False}, epochs=1, batch_tokens=60, **options)
    batch_of, batches = given.train.batch, batches_taken(given)
    (report,) = given.steps(1)
    assert len(batches) == 3
    assert given.total_steps == math.ceil(alone.total_steps / 3)
    joined = batch_of(list(itertools.chain.from_iterable(batches)), None)
    model, labels = alone.network.train(), joined.labels
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.98), 1e-9, 0.05, fused=False)
    logits = model(*joined.inputs)
    mean = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    mean.backward()
    optimizer.step()
    assert report.loss == pytest.approx(mean.item(), abs=1e-6)
    for name, parameter in model.named_parameters():
        trained = given.network.get_parameter(name)
        assert_close(trained.grad, parameter.grad, rtol=1e-4, atol=1e-6)
        assert_close(trained, parameter, rtol=0, atol=1e-6)
    assert len({batch_of(indices, None).predicted for indices in batches}) > 1


def test_batches_with_nothing_to_predict_change_no_weight():
    given = make(weight_decay=0.0)
    batch_of = given.train.batch
    given.train.batch = lambda indices, chance: replace(
        batch_of(indices, chance), labels=torch.full_like(batch_of(indices, None).labels, IGNORED)
    )
    with unchanged(given.network):
        (report,) = given.steps(1)
    assert (report.loss, report.gradient_norm) == (0.0, 0.0)


@pytest.mark.parametrize("tied", ["none", "output"])
def test_norms_of_each_layer_are_torchs(tied):
    given = trainer(PAIRS[10:], [], {"tied_embeddings": tied, "norm_placement": "pre"}, epochs=1, clip=1e9)
    (report,) = given.steps(1)
    parts = ["encoder.embedding", "encoder.layers.0", "encoder.layers.1", "encoder.norm"]
    parts += ["decoder.embedding", "decoder.layers.0", "decoder.layers.1", "decoder.norm"]
    parts += ["output.logits"] if tied == "none" else []
    assert sorted(report.gradient_norms) == sorted(parts)
    for part, norm in report.gradient_norms.items():
        gradients = [parameter.grad for parameter in given.network.get_submodule(part).parameters()]
        assert norm == pytest.approx(torch.nn.utils.get_total_norm(gradients).item(), rel=1e-5)
    everything = [parameter.grad for parameter in given.network.parameters()]
    assert report.gradient_norm == pytest.approx(torch.nn.utils.get_total_norm(everything).item(), rel=1e-5)
    weights = torch.nn.utils.parameters_to_vector(given.network.parameters()).double()
    assert report.parameter_norm == pytest.approx(weights.norm().item(), rel=1e-5)


def test_the_last_weights_are_averaged_plainly():
    given = make(average_last=3, validate_every=4, epochs=6)
    seen = []
    for report in given.steps(21):
        if report.validation is not None:
            seen.append({name: tensor.detach().double().clone() for name, tensor in given.network.named_parameters()})
            last = seen[-3:]
            for name, tensor in given.average.items():
                mean = sum(each[name] for each in last) / len(last)
                assert_close(tensor.double(), mean, rtol=0, atol=1e-6)
            assert report.validation == given.validate()
    assert len(seen) == 5
