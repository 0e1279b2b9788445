"""What tests of the page of tokens and positions start from."""

from __future__ import annotations

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.app_reading import opened
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS

TEXT = "The cat sees the dog."


def page(part: str, **address: str):
    return sound(opened("positions", **({"source": TEXT, "part": part} | address)))


def sound(app):
    assert not app.exception
    assert not app.error
    assert not app.warning
    return app


def said(app) -> str:
    return "\n".join(each.value for each in app.text)


def one(folder, kind, **options):
    made = TOKENIZERS[kind]
    save_checkpoint(folder, one_stack(kind, vocabulary=len(made), **options), (made, made))
    return open_checkpoint(folder)
