"""The worked example: against numbers counted by hand and numpy."""

import math

import numpy as np
import pytest
import torch

from model.experiments.engines.worked_example import DOCUMENT, SHAPES, CellError, parse, take_steps, texts_of


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def test_the_steps_are_those_counted_by_hand():
    steps = take_steps(DOCUMENT, scaled=False)
    assert steps.query.tolist() == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert steps.key.tolist() == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert steps.value.tolist() == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert steps.scores.tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert torch.equal(steps.scaled, steps.scores)
    first = [math.exp(-2) / (math.exp(-2) + 2), 1 / (math.exp(-2) + 2), 1 / (math.exp(-2) + 2)]
    assert steps.weights[0].tolist() == pytest.approx(first, abs=1e-12)
    assert [f"{value:.2f}" for value in steps.outputs[0].tolist()] == ["1.94", "6.68", "1.60"]
    assert torch.allclose(steps.weighted.sum(dim=1), steps.outputs, atol=1e-12)


@pytest.mark.parametrize("scaled", [False, True])
def test_all_outputs_are_those_of_numpy(scaled):
    random = np.random.default_rng(3)
    matrices = {name: tuple(map(tuple, random.normal(size=shape).tolist())) for name, shape in SHAPES.items()}
    steps = take_steps(matrices, scaled)
    x, query, key, value = (np.array(matrices[name]) for name in SHAPES)
    scores = (x @ query) @ (x @ key).T / (math.sqrt(3) if scaled else 1)
    assert np.allclose(steps.outputs, softmax(scores) @ (x @ value), atol=1e-12)
    assert steps.factor == pytest.approx(1 / math.sqrt(3) if scaled else 1)


def test_the_tutorials_rounding_is_to_halves_and_one_decimal_is_no_distribution():
    steps = take_steps(DOCUMENT, scaled=False)
    weights, outputs = steps.rounded(0.5)
    assert weights[0].tolist() == [0, 0.5, 0.5]
    assert outputs[0].tolist() == [2, 7, 1.5]
    weights, outputs = steps.rounded(0.1)
    assert weights[0].tolist() == pytest.approx([0.1, 0.5, 0.5])
    assert outputs[0].tolist() == pytest.approx([2.1, 7.2, 1.8])


def test_what_is_typed_is_read_cell_by_cell():
    texts = texts_of(DOCUMENT)
    assert len(texts) == 48
    assert parse(texts) == DOCUMENT
    typed = ["−1.5", " 2e1 ", *texts[2:]]
    assert parse(typed)["X"][0][:2] == (-1.5, 20.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "empty"), ("  ", "empty"), ("abc", "text"), ("nan", "text"), ("inf", "large"), ("1e9", "large"),
     ("</script>", "text"), ("🙂", "text"), ("1,5", "text")],
)  # fmt: skip
def test_a_cell_that_is_no_number_is_named(text, reason):
    texts = texts_of(DOCUMENT)
    texts[12 + 12 + 4] = text  # W_K, second row, second column
    with pytest.raises(CellError) as error:
        parse(texts)
    found = error.value
    assert (found.name, found.row, found.column, found.reason) == ("W_K", 1, 1, reason)
