"""Every page shows networks with the options of published families: learned distances, parallel blocks, other heads."""

import pytest

from tests.app_reading import opened, sound
from tests.viz.small import write_small

FAMILIES = {
    "t5": {
        "position": "relative",
        "norm": "rms",
        "bias": False,
        "scale_attention": False,
        "head_width": 6,
        "activation": "geglu-tanh",
        "scale_output": True,
    },
    "neox": {"position": "rotary", "rotary_channels": 4, "parallel": True, "output_bias": True},
    "masked": {
        "norm_placement": "post",
        "output_head": "transform",
        "output_bias": True,
        "embedding_norm": True,
        "position": "sinusoidal-halves",
        "attention_bias": "inputs",
    },
}
PAGES = ("attention", "masks", "positions", "residual", "feed_forward", "predictions", "training")


@pytest.mark.slow
@pytest.mark.parametrize("options", FAMILIES.values(), ids=list(FAMILIES))
def test_every_page_shows_it(here, options):
    write_small(here / "small", **options)
    app = sound(opened("map", source="The cat sees."))
    for page in PAGES:
        sound(app.switch_page(f"viz/pages/{page}/page.py").run())
