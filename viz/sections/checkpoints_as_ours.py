"""A model that others have trained, kept: where it came from, or saved as a model of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlit.delta_generator import DeltaGenerator

from viz.i18n.catalogue import _
from viz.i18n.format import literal, not_ours
from viz.sections.checkpoints_kept import ask, attempt, refused_name
from viz.state import shown_model
from viz.state.checkpoints import Place, saved_folder
from viz.state.workbench import workbench

if TYPE_CHECKING:
    from model.inference.model import Inspectable


def show_as_ours(place: DeltaGenerator, kept: Place) -> None:
    """A model of others is kept where it came from; what is put together as ours can be saved as ours."""
    found = kept.listed()
    form = f"{found.format}: {found.family}" if found.family else found.format
    sentence = _("{name} is not of Vitrine ({format}): it stays as it came.")
    place.caption(sentence.format(name=literal(kept.name), format=literal(form)))
    lens = workbench().lens
    if lens is None or not lens.model.ours:
        place.caption(not_ours())
        place.caption(
            _(
                "Vitrine keeps no copy of it: its folder or file stays where it is. Its figures and tables can be "
                "downloaded where they are shown."
            )
        )
        return
    place.markdown(_("Saved as a model of Vitrine it can be taken away, renamed and described; so can what you train."))
    ask(place, kept, _("Its name"), _("Save it as a model of Vitrine"), _keep, lens)


def _keep(lens: Inspectable, name: str) -> None:
    from model.checkpoints.manage import keep_as_ours

    if refused_name(name):
        return
    if attempt(
        lambda: keep_as_ours(saved_folder() / name, lens),
        _("Saved as {name}: it is in the list of models.").format(name=name),
    ):
        shown_model.show(name)
