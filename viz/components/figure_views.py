"""What stands beside a plotly figure: its title, and the menu of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from viz.components.registry import component, pack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from viz.components.plots import Mount

_figure_files = component("figure_files", "plot")


def figure_files(arrays: Sequence[NDArray[np.float32]], header: Mapping[str, Any], key: str) -> Mount:
    """The title of the plotly figure in the same container, and the menu of its files.

    arrays: x and y of each of the header's `curves`, or one table with so many `columns`. header: `name`, the title;
    `file`, the name of what is saved; `words`, {download, csv: the names of the three columns}.
    """
    return partial(_figure_files, data=pack(header, arrays), key=key)
