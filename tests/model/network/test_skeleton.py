"""A network without values has the names, shapes, ties and tables of the real one, and loads nothing to draw with."""

import subprocess
import sys

import pytest

from model.network.transformer import build, skeleton
from tests.model.examples import config

LOADED = """
import sys, torch
before = set(sys.modules)
from model.network.config import TransformerConfig
from model.network.transformer import skeleton
skeleton(TransformerConfig(source_vocabulary=9, target_vocabulary=9, position="learned", tied_embeddings="all"))
print(sorted(name for name in set(sys.modules) - before if name.startswith(("torch._refs", "torch._decomp"))))
"""


@pytest.mark.parametrize("options", [{}, {"position": "relative"}, {"tied_embeddings": "output"}], ids=str)
def test_it_is_the_network_without_its_values(options):
    made, real = skeleton(config(**options)), build(config(**options))
    assert made.config == real.config
    assert [(name, each.shape) for name, each in made.named_parameters()] == [
        (name, each.shape) for name, each in real.named_parameters()
    ]
    assert all(parameter.is_meta for parameter in made.parameters())
    for one, other in zip(made.buffers(), real.buffers(), strict=True):
        assert one.equal(other)


@pytest.mark.slow
def test_nothing_is_loaded_to_draw_with():
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
