"""BertViz's own views (Vig, 2019) as one page of their own: its scripts, d3 and jQuery inline, nothing fetched.

Its Python is not used: it takes scripts from the network, writes tokens into code, and wants all stacks equally deep.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from torch import Tensor

from model.analysis.attention_maps import Maps
from model.analysis.pieces import Pieces
from model.network.attention import for_each_head
from viz.i18n.catalogue import _
from viz.i18n.format import sides, token_sign
from viz.pages.attention.bertviz_scripts import as_script, scripts
from viz.pages.attention.figure import head_colour
from viz.pages.attention.text import bertviz_name
from viz.state.token_groups import GroupedAxes

MOST = 64  # tokens: beyond that the browser stands still while it draws a line for each cell of each head
HEADS_ACROSS = 8  # of the model view, at least: with fewer its thumbnails would be very tall

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head>
<body class="{view} {theme}"><div id="bertviz"><span>{controls}</span><div id="vis"></div></div>
<script type="application/json" id="params">{params}</script>
{scripts}</body></html>"""

STYLE = """
body { margin: 0; font-family: "Source Sans", system-ui, sans-serif; font-size: 14px; background: transparent; }
body.light { color: #31333f; color-scheme: light; }
body.dark { color: #fafafa; color-scheme: dark; }
#bertviz { padding: 2px; background-color: transparent !important; }
#bertviz span { user-select: none; } select { font: inherit; margin-right: 12px; }
#vis { overflow-x: auto; min-height: calc(100vh - 44px); } svg { overflow: visible; }
.head text { fill: currentColor; } .head rect.background { fill: rgba(128, 128, 128, 0.35); }
text, .token { font-family: "Source Code Pro", "Noto Sans Mono CJK SC", monospace; }
.dropdown-label { color: inherit !important; }
.model svg, .attn_background:is([fill="black"], [fill="white"]) { fill: transparent; } rect.detail { fill: Canvas; }
text[fill="black"] { fill: currentColor; } rect.highlight { fill: rgba(128, 128, 128, 0.35); }
"""


def document(maps: Maps, view: str, layer: int, head: int, dark: bool, merged: Mapping[str, Pieces] = {}) -> str:
    """The page of one of VIEWS of one kind of attention, which opens at this layer and head.

    merged: by its side, the runs of tokens that are one, but in the view of queries and keys.

    Raises:
        ValueError: BertViz is not installed, or the view is of queries and keys, and the model shows none.
    """
    name = f"{maps.paths[0]}.query"
    if view == "neuron" and name not in maps.trace:
        raise ValueError(_("This model's queries and keys cannot be seen: choose another view."))
    titles = {"layer": _("Layer"), "att_head": _("Head")}
    lists = {"head": ["layer"], "model": [], "neuron": ["layer", "att_head"]}[view]
    controls = "".join(
        f'<span class="dropdown-label">{escape(titles[name])} </span><select id="{name}"></select>' for name in lists
    )
    return PAGE.format(
        title=escape(bertviz_name(view)),
        style=STYLE,
        view=view,
        theme="dark" if dark else "light",
        controls=controls,
        params=as_script(parameters(maps, view, layer, head, dark, merged)),
        scripts="".join(f"<script>{each}</script>\n" for each in scripts(view)),
    )


def address(page: str) -> str:
    """A page as a `data:` address: its origin is null, so nothing in it reaches the application."""
    return "data:text/html;charset=utf-8;base64," + base64.b64encode(page.encode("utf-8")).decode("ascii")


def height(maps: Maps, view: str, merged: Mapping[str, Pieces] = {}) -> int:
    """Height of the page in pixels, from the measures in BertViz's scripts."""
    longest = max(*map(len, drawn(maps, view, merged).labels))
    if view == "head":
        return round(longest * 22.5) + 90
    if view == "neuron":
        return longest * 26 + 150
    thumbnails = maps.layers * (longest * 84 / max(maps.heads, HEADS_ACROSS) + 10) + 43
    return round(max(thumbnails, longest * 18 + 60)) + 40


def drawn(maps: Maps, view: str, merged: Mapping[str, Pieces]) -> GroupedAxes:
    """Rows and columns: tokens, or runs of them."""
    return GroupedAxes(maps.trace, sides(maps.trace, maps.kind), {} if view == "neuron" else merged)


def parameters(
    maps: Maps, view: str, layer: int, head: int, dark: bool, merged: Mapping[str, Pieces] = {}
) -> dict[str, Any]:
    """Parameters of the view's script, under its own names."""
    runs, everything = drawn(maps, view, merged), slice(0, maps.heads)
    rows, columns = ([token_sign(label) for label in labels] for labels in runs.labels)
    attention: dict[str, Any] = {
        "name": None,
        "attn": [rounded(runs.of(maps.weights(each, everything))) for each in range(maps.layers)],
        "left_text": rows,
        "right_text": columns,
    }
    common = {"root_div_id": "bertviz", "display_mode": "dark" if dark else "light"}
    if view == "neuron":
        trace = maps.trace
        for name, key in (("queries", "query"), ("keys", "key")):
            vectors = (for_each_head(trace[f"{path}.{key}"], maps.heads) for path in maps.paths)
            attention[name] = [rounded(each.float()) for each in vectors]
        options = {"attention": {"all": attention}, "default_filter": "all", "count": True}
        return {**common, **options, "layer": layer, "head": head, "bidirectional": maps.kind != "decoder"}
    numbers = list(range(1, maps.layers + 1))
    options = {"attention": [attention], "default_filter": "0", "include_layers": numbers}
    if view == "head":
        colours = [f"rgb({red},{green},{blue})" for red, green, blue in map(head_colour, range(maps.heads))]
        return {**common, **options, "layer": layer + 1, "heads": [head], "colours": colours}
    across = max(maps.heads, HEADS_ACROSS)
    return {**common, **options, "include_heads": list(range(1, maps.heads + 1)), "total_heads": across}


def rounded(tensor: Tensor) -> Any:
    """Nested lists of numbers with four decimals: a quarter of the letters."""
    return [[[round(value, 4) for value in row] for row in each] for each in tensor.tolist()]
