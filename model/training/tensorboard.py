"""Curves of a training run as event files for TensorBoard."""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from model.training.settings import StepReport

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from model.training.live import runs


class Curves:
    """Writer of step reports to event files in a folder; events there of steps after `done` become void.

    Raises:
        ValueError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, done: int) -> None:
        self.writer = _writer(folder, purge_step=done + 1)

    def add(self, report: StepReport) -> None:
        """Write the figures of a step."""
        values = {
            "loss/training": report.loss,
            "loss/validation": report.validation,
            "rate": report.rate,
            "gradient_norm/all": report.gradient_norm,
            **{f"gradient_norm/{part}": norm for part, norm in report.gradient_norms.items()},
            "parameter_norm": report.parameter_norm,
            "tokens_per_second": report.tokens_per_second,
        }
        for name, value in values.items():
            if value is not None and not math.isnan(value):  # without a validation split, its loss is NaN
                self.writer.add_scalar(name, value, report.step)

    def flush(self) -> None:
        """Write to the disk what is buffered: before the state from which a resume goes on."""
        self.writer.flush()

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.writer.close()


def write_curves(folder: Path, curves: runs.Curves) -> None:
    """Write all curves of a live run as event files, each under its name.

    Raises:
        ValueError: TensorBoard is not installed.
    """
    writer = _writer(folder)
    for name in curves.names:
        for step, value in zip(*curves.get(name), strict=True):
            writer.add_scalar(name.replace(" ", "_"), float(value), int(step))
    writer.close()


def _writer(folder: Path, purge_step: int | None = None) -> SummaryWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(f"curves need TensorBoard: pip install tensorboard ({error})") from error
    return SummaryWriter(folder, purge_step=purge_step)
