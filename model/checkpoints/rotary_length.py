"""The longest text that rotary positions allow, by the scaling that a config.json of transformers asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def longest_text(trained: int, parameters: object) -> int:
    """Tokens that a model reads: `trained`, or `factor` times as many as it was trained on before they were scaled.

    trained: max_position_embeddings, which some families give after the scaling (Llama 3.1, DeepSeek-V3) and others
    before it (dynamic scaling, bloc97, 2023; linear, Chen et al., 2023). parameters: rope_parameters, or rope_scaling;
    with parameters for each type of layer, as Gemma 3 has them, `trained` is the length after the scaling.
    """
    if not isinstance(parameters, Mapping):
        return trained
    given: Mapping[str, Any] = parameters
    factor, before = _number(given.get("factor")), _number(given.get("original_max_position_embeddings"))
    if given.get("rope_type", given.get("type", "default")) == "default" or factor is None:
        return trained
    return max(trained, int(factor * (before or trained)))


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if usable else None  # type: ignore[arg-type]
