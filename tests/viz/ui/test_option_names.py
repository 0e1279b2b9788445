"""Every option that has a field has words."""

from __future__ import annotations

from model.cli.options import HELP
from viz.ui.option_names import option_name


def test_every_option_is_called_something_and_no_two_the_same():
    names = [option_name(name) for name in HELP if not name.endswith("_vocabulary")]
    assert len(set(names)) == len(names)
    assert option_name("d_model") == "Width"
