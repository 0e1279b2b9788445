"""Vitrine's Transformer: network, capture, training and checkpoints. Knows no screen."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.analysis.checks import checks as checks
    from model.analysis.norms import norm_table as norm_table
    from model.capture.trace import Trace as Trace
    from model.capture.trace import record as record
    from model.checkpoints.load import open_checkpoint as open_checkpoint
    from model.checkpoints.native import save_checkpoint as save_checkpoint
    from model.inference.text_model import TextModel as TextModel
    from model.network.config import TransformerConfig as TransformerConfig
    from model.network.transformer import Transformer as Transformer
    from model.network.transformer import build as build
    from model.training.trainer import Trainer as Trainer

_MODULES = {
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
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Public name, imported when it is first asked for: a command can be stopped in the seconds that torch takes."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
