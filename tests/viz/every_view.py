"""Every view of every page, and what the application shows and does when it is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest
from torch.nn.modules.module import register_module_forward_pre_hook

from model.network.attention import MultiHeadAttention
from tests.app_reading import body, sound
from tests.viz.components.test_registry import unpack
from viz.pages.feed_forward.text import UNIT_VIEWS
from viz.pages.masks.page import EXPERIMENTS
from viz.pages.positions.laboratory import EXPERIMENTS as LABORATORY
from viz.pages.predictions.page import VIEWS as PREDICTIONS
from viz.pages.residual.text import RESIDUAL_VIEWS

# A page's views, and what is chosen for each by the keys of controls; what the view before it chose stays.
VIEWS: dict[str, dict[str, dict[str, str]]] = {
    "map": {"map": {}},
    "positions": {
        "tokens": {"part": "tokens"},
        **{f"laboratory {name}": {"part": "laboratory", "experiment": name} for name in LABORATORY},
        "applied": {"part": "applied"},
        "order": {"part": "order"},
    },
    "attention": {
        "weights": {"attention": "decoder"},
        "weighted": {"quantity": "value"},
        "lines": {"draw": "lines"},
        "average": {"combine": "average"},
        "maximum": {"combine": "maximum"},
        "rollout": {"combine": "rollout"},
        "importance": {"below": "importance"},
    },
    "masks": {name: {"mask_experiment": name} for name in EXPERIMENTS},
    "residual": {name: {"residual_view": name} for name in RESIDUAL_VIEWS},
    "feed_forward": {name: {"look": name} for name in UNIT_VIEWS[:-1]},
    "predictions": {name: {"view": name} for name in PREDICTIONS},
}
EVERY = [(page, view) for page, views in VIEWS.items() for view in views]
PARTS = ("map", "tokens", "laboratory", "applied", "order", "mask", "residual", "units", "predictions")
FOLDS = [
    *("explanation", "data", "metrics", "importance_data"),
    *(f"{part}_explanation" for part in PARTS),
    *(f"{part}_data" for part in PARTS),
]


@dataclass
class Seen:
    """What a view has shown and done."""

    attentions: int
    formulas: str
    text: str
    html: str
    code: str
    plain: list[str]  # words that an explanation begins with
    plots: list[dict[str, Any]]  # their headers
    tables: list[str]
    order: list[str]  # of figures and folds, as on a phone
    frames: list[pd.DataFrame] = field(repr=False)


def walk(app: AppTest, views: list[tuple[str, str]]) -> dict[tuple[str, str], Seen]:
    """Each of these views as it is when all that can be opened is open."""
    counted: list[str] = []
    hook = register_module_forward_pre_hook(
        lambda module, _given: counted.append("") if isinstance(module, MultiHeadAttention) else None
    )
    found, here = {}, ""
    for page, view in views:
        before = len(counted)
        for key, value in (VIEWS[page][view] | dict.fromkeys(FOLDS, True)).items():
            app.session_state[key] = value
        sound((app if page == here else app.switch_page(f"viz/pages/{page}/page.py")).run())
        here = page
        sent = [each.proto for each in app.get("bidi_component") if each.proto.WhichOneof("data") == "bytes"]
        said = [app.markdown, app.caption, app.info, app.warning, app.success]
        found[page, view] = Seen(
            len(counted) - before,
            "\n".join(each.value for each in app.latex),
            "\n".join(str(each.value) for elements in said for each in elements),
            "\n".join(each.proto.body for each in app.get("html") if "<style" not in each.proto.body),
            "\n".join(each.value for each in app.code),
            [each.markdown[0].value for each in app.get("expander") if each.label == "What am I looking at?"],
            [unpack(body(proto.bytes))[0] for proto in sent],
            [option for each in app.selectbox if str(each.key).endswith("data_of") for option in each.options],
            order(app),
            [each.value for each in app.dataframe],
        )
    hook.remove()
    return found


def order(app: AppTest) -> list[str]:
    """What is drawn ("figure") and what is folded (its title), in the order in which a phone shows them."""
    drawn = ("bidi_component", "plotly_chart", "iframe")
    kinds = [
        ("figure" if each.type in drawn else getattr(each, "label", "") * (each.type == "expander"))
        for each in app.main
        if getattr(each.proto, "component_name", "") != "vitrine_learnt"  # which shows nothing
    ]
    return list(filter(None, kinds))
