"""Sliders of sampling, which alone may write their parameters of the address: names, and values that they can have."""

from __future__ import annotations

from collections.abc import Mapping

TEMPERATURE, TOP_K, TOP_P = "temperature", "top_k", "top_p"
LIMITS = [1, 2, 3, 4, 5, 8, 10, 20, 30, 50, 100, 200, 500, 1000, 0]  # of top-k; 0: none
RANGES = {TEMPERATURE: (0.05, 5.0), TOP_P: (0.05, 1.0)}


def slider_values(parameters: Mapping[str, str]) -> dict[str, float]:
    """Value of each slider by its name; as at first where a parameter is missing, or cannot be."""
    wanted = {name: _number(parameters.get(name, "")) for name in (TEMPERATURE, TOP_K, TOP_P)}
    values: dict[str, float] = {TOP_K: int(wanted[TOP_K]) if wanted[TOP_K] in LIMITS else 0}
    for name, (low, high) in RANGES.items():
        values[name] = wanted[name] if low <= wanted[name] <= high else 1.0
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
