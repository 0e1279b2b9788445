"""What tests of reading and comparing on the page Checkpoints start from."""

from __future__ import annotations

import torch
from safetensors.torch import load_file, save_file

from tests.app_reading import opened, sent, sound

WEIGHTS = "model.safetensors"
MATRIX = "encoder.layers.1.feed_forward.output.weight"


def page(part: str = "read", **address: str):
    return sound(opened("checkpoints", checkpoints_part=part, **address))


def columns(app, key: str = "tensor_tree") -> dict[str, dict[str, float]]:
    """The numbers beside each name, by the column's title."""
    header, (values, _pictures, states) = sent(app, key)
    titles = [column["title"] for column in header["columns"]]
    return {
        name: dict(zip(titles, row.tolist(), strict=True)) if state else {}
        for name, row, state in zip(header["names"], values, states, strict=True)
    }


def change(folder, **changed) -> dict[str, torch.Tensor]:
    """Write the weights again, some of them as their functions give them."""
    weights = load_file(folder / WEIGHTS)
    for name, function in changed.items():
        weights[name] = function(weights[name].clone())
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    return weights
