"""What tests of the laboratory's arithmetic start from."""

from __future__ import annotations

from tests.app_reading import opened, sound

TEXT = "The cat sees the dog."


def page(claim: str, **address: str):
    return sound(opened("lab", **({"source": TEXT, "lab_part": "arithmetic", "arithmetic": claim} | address)))


def said(app) -> str:
    return "\n".join(each.value for each in app.text)
