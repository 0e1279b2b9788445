"""Where a training stands after a step whose loss or gradients were not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.gradients import first_not_finite
from model.runtime.errors import AGAIN, NO_PREDICTIONS, NO_WAY_BACK, NOT_FINITE, STANDS, WENT_BACK

if TYPE_CHECKING:
    from model.watched import Watched


def settled(own: Watched, error: FloatingPointError) -> str:
    """Stand on the last good step, with the settings in force; says which, and what to change, in a sentence.

    The step that failed has moved no weight: that is the one before it, unless its weights are broken or it has
    failed before. Then it is the last key frame that was gone on from.
    """
    what, stood, choices = str(error).partition(";")[0], own.stands, own.choices
    rate = own.trainer.settings.rate
    why = AGAIN if own.failed == stood else _broken(own)
    own.failed = None if why else stood
    if not why:
        return STANDS.format(what=what, step=stood, rate=rate)
    for key in reversed(own.run.film.key_frames):
        if key.step < stood and not first_not_finite(key.tensors):
            own.rewind(key)
            own.change({name: there for name, (_here, there) in own.choices.differences(choices).items()})
            return WENT_BACK.format(what=what, why=why, step=key.step, rate=rate)
    return NO_WAY_BACK.format(what=what)


def _broken(own: Watched) -> str:
    """What is wrong with the model as it is now; nothing if its weights and its predictions are finite."""
    if name := first_not_finite(dict(own.trainer.model.named_parameters())):
        return NOT_FINITE.format(name=name, step=own.stands)
    trace = own.lens.trace_tokens(own.probe.source, own.probe.target)
    return "" if bool(trace["output.logits"].isfinite().all()) else NO_PREDICTIONS.format(step=own.stands)
