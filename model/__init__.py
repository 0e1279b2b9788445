"""Vitrine's Transformer: network, capture, training and checkpoints. Knows no screen."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.capture.trace import Trace, record
    from model.checkpoints import open_checkpoint, save_checkpoint
    from model.inference.model import Inspectable
    from model.network.config import TransformerConfig
    from model.network.transformer import Transformer, build
    from model.training import Trainer

__all__ = [
    "Inspectable",
    "Trace",
    "Trainer",
    "Transformer",
    "TransformerConfig",
    "build",
    "open_checkpoint",
    "record",
    "save_checkpoint",
]
_PLACES = {"open_checkpoint": "checkpoints", "save_checkpoint": "checkpoints", "TransformerConfig": "config"}
_PLACES |= {"Inspectable": "inspectable", "Trace": "trace", "record": "trace", "Trainer": "training"}
_PLACES |= {"Transformer": "transformer", "build": "transformer"}


def __getattr__(name: str) -> Any:
    """Each is imported when it is asked for: in the seconds that torch takes, a command can be stopped."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
