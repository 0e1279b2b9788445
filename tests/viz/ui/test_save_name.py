"""The name that a training is offered to be saved under."""

from viz.ui import save_name


def test_the_name_offered_is_one_that_can_be_saved_under(monkeypatch):
    monkeypatch.setattr(save_name, "bundled_names", lambda: ["reverse"])
    monkeypatch.setattr(save_name, "saved_names", lambda: ["reverse-2"])
    monkeypatch.setattr(save_name.checkpoints, "own_names", lambda _bench: {"reverse-3"})
    monkeypatch.setattr(save_name, "current_session", lambda: None)
    assert save_name.free_name("reverse") == "reverse-4"
    assert save_name.free_name("new") == "new"
