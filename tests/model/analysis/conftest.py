"""The model that most analyses are tried on."""

from __future__ import annotations

import pytest

from model.inference.text_model import TextModel
from tests.model.elsewhere import model_of


@pytest.fixture
def model() -> TextModel:
    """A small translator."""
    return model_of("encoder-decoder", norm_placement="pre")
