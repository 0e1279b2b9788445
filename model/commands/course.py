"""The course of python -m model train: what is printed and saved on the way, and where a run stands that fails."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from tqdm import tqdm

from model.data.datasets import unshuffled
from model.runtime.device import give_back_memory
from model.training import state as training_state
from model.training.gradients import first_not_finite
from model.training.losses import loss_and_hits
from model.training.tensorboard import Curves
from model.training.trainer import Trainer

SAVE_EVERY = 200  # steps between two writes of the resume state
TRIM_EVERY = 10  # steps between two times that freed memory is given back to the system


def say_nothing(text: str) -> None:
    """What the processes beside the first print."""


@contextmanager
def interrupts_remembered(insist: bool = True) -> Iterator[Callable[[], bool]]:
    """Ctrl-C or a polite kill waits until it is asked about; a second one stops at once, if it can `insist`.

    A launcher of several processes passes on the signal that the terminal has sent them already.
    A step cut off in the middle has drawn random numbers or moved weights: no exact resume from there.
    """
    received: list[int] = []

    def remember(number: int, frame: object) -> None:
        if received and insist:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(
    trainer: Trainer, state: Path, save: Callable[[], None], interrupted: Callable[[], bool], curves: Curves | None
) -> None:
    """Train to the end. save: writes the checkpoint. state: where an exact resume begins.

    Raises:
        FloatingPointError: the loss or a gradient is not finite; the sentence says where one can go on.
        KeyboardInterrupt: it was interrupted, and its state is saved.
    """
    silent = not trainer.processes.main
    saved = trainer.progress.step  # the step of the state; 0: there is none
    with tqdm(total=trainer.total_steps, initial=saved, unit="step", smoothing=0.02, disable=silent) as bar:
        say = say_nothing if silent else bar.write

        def save_state() -> int:
            """What cannot be gone on from never takes the place of what can."""
            if not sound(trainer):
                return saved
            if curves:
                curves.flush()
            trainer.save_state(state)
            return trainer.progress.step

        try:
            for report in trainer.steps():
                if report.step % TRIM_EVERY == 0:
                    give_back_memory()
                bar.update()
                bar.set_postfix(loss=f"{report.loss:.3f}", rate=f"{report.rate:.1e}", refresh=False)
                if curves:
                    curves.add(report)
                if report.validation is not None:
                    best = trainer.progress.best_step == report.step
                    mark = "  best so far" if best else ""
                    where = f"epoch {report.epoch + 1}"
                    if trainer.settings.validate_every:
                        where += f", step {report.step}"
                    if len(trainer.validation):
                        say(f"{where}: validation {report.validation:.4f} nats per token{mark}")
                    if best or not len(trainer.validation):
                        save()
                stopping = trainer.processes.any(interrupted())  # all stop at the same step
                if report.validation is not None or report.step % SAVE_EVERY == 0 or stopping:
                    saved = save_state()
                if stopping:
                    raise KeyboardInterrupt(f"stopped at step {report.step}; run the same command to go on")
        except FloatingPointError as error:
            what, step = str(error).partition(";")[0], trainer.progress.step
            saved = save_state() if step else 0
            raise FloatingPointError(f"{what}; {_way_on(state, step, saved)}") from error


def sound(trainer: Trainer) -> bool:
    """All that a resume needs is finite, and so is the loss of a batch that no step is made on."""
    if first_not_finite(training_state.tensors_of(trainer)):
        return False
    batch = next(unshuffled(trainer.validation if len(trainer.validation) else trainer.train, 1))
    trainer.model.eval()
    with torch.inference_mode(), trainer.autocast():
        loss = loss_and_hits(trainer.model, batch.to(trainer.device)).loss
    trainer.model.train()
    return math.isfinite(loss)


def _way_on(state: Path, step: int, saved: int) -> str:
    """After a step that failed: with the same weights and batches it would fail again at any rate."""
    if not saved:
        return "nothing is saved that one could go on from: begin again with a lower --rate or another --seed"
    if saved == step:
        return f"{state} holds step {step}, the last good one: go on with another --seed, which takes other batches"
    return (
        f"the model of step {step} makes no finite predictions, and {state} still holds step {saved}: go on from there "
        "with a lower --rate"
    )
