"""Vitrine's Transformer: network, capture, training and checkpoints. Knows no screen."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.analysis.checks import checks
    from model.analysis.norms import norm_table
    from model.capture.trace import Trace, record
    from model.checkpoints.load import open_checkpoint
    from model.checkpoints.native import save_checkpoint
    from model.inference.text_model import TextModel
    from model.network.config import TransformerConfig
    from model.network.transformer import Transformer, build
    from model.training.trainer import Trainer

__all__ = [
    "TextModel",
    "Trace",
    "Trainer",
    "Transformer",
    "TransformerConfig",
    "build",
    "checks",
    "norm_table",
    "open_checkpoint",
    "record",
    "save_checkpoint",
]
_PLACES = {
    "TextModel": "model.inference.text_model",
    "Trace": "model.capture.trace",
    "Trainer": "model.training.trainer",
    "Transformer": "model.network.transformer",
    "TransformerConfig": "model.network.config",
    "build": "model.network.transformer",
    "checks": "model.analysis.checks",
    "norm_table": "model.analysis.norms",
    "open_checkpoint": "model.checkpoints.load",
    "record": "model.capture.trace",
    "save_checkpoint": "model.checkpoints.native",
}


def __getattr__(name: str) -> Any:
    """Each is imported when it is asked for: in the seconds that torch takes, a command can be stopped."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
