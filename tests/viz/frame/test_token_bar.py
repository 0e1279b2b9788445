"""What the frame says of a pin."""

from __future__ import annotations

from tests.test_app_kinds import write
from tests.viz.small import small_model
from viz.frame.token_bar import pinned
from viz.state.session import Session


def test_a_model_that_shares_nothing_with_the_pinned_one_is_not_said_to_be_the_same(tmp_path):
    model, session = small_model(tmp_path / "small"), Session()
    session.look(model, "The cat sees.", "")
    session.keep()
    said = pinned(session)
    assert (said["changes"], said["words"]["none"]) == ([], "nothing differs from the pin")
    session.look(write(tmp_path / "other", "encoder-only", n_heads=4, d_model=24), "The cat sees.", "")
    said = pinned(session)
    assert (said["changes"], said["words"]["none"]) == ([], "nothing here can be compared with the pin")
