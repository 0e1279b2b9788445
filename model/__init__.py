"""Vitrine's Transformer: network, capture, training and checkpoints. Knows no screen."""

from model.checkpoints import open_checkpoint, save_checkpoint
from model.config import TransformerConfig
from model.inspectable import Inspectable
from model.trace import Trace, record
from model.training import Trainer
from model.transformer import Transformer, build

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
