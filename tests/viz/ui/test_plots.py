"""What the figures share is written down once."""

from __future__ import annotations

import re

import torch

from model.experiments.scaling import against_width
from tests.test_rooms import ROOT, files
from tests.viz.components.test_registry import unpack
from viz.pages.lab import scaling, softmax
from viz.pages.lab.softmax import Subject
from viz.ui.plots import PINNED


def test_what_is_pinned_has_one_colour_everywhere() -> None:
    defined = re.compile(r"\bPINNED\b[^=\n]*= .*\"#[0-9a-f]{6}\"")
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in files("viz")}
    assert [file for file, source in sources.items() if defined.search(source)] == ["viz/ui/plots.py"]
    assert [file for file, source in sources.items() if PINNED in source] == ["viz/ui/plots.py"]


def test_figures_of_the_laboratory_are_described_by_name_and_number() -> None:
    subject = Subject(torch.tensor([0.0, 1.0]), ["a", "b"], 4, "one query")
    found = next(against_width(4, 0, [2])).result
    mounts = {
        "Weights of one query: at temperature 2 the largest is 0.622": softmax.pack_bars(subject, 2.0, "key"),
        "Over the temperature: largest weight, entropy and derivative of the softmax": softmax.pack_curves(
            subject, 2.0, "key"
        ),
        "Entropy of the weights: over d_k, with 1/√d_k and without": scaling.pack_entropy(found, "key"),
    }
    for alt, shown in mounts.items():
        header, _arrays = unpack(shown.keywords["data"])
        assert header["alt"] == alt
        assert header["stamp"]
        assert header["words"]["csv"]
