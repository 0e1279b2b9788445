"""What the token bar says of the pin: what is kept, which tokens differ, what changed most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, significant

if TYPE_CHECKING:
    from model.analysis.comparison import Alignment, Comparison
    from viz.state.workbench import Workbench

LISTED = 12  # changes of each kind
KINDS = {"encoder": "encoder", "self": "decoder", "cross": "cross"}


def pinned(bench: Workbench) -> dict[str, Any]:
    """For the token bar: `kept`, None while nothing is; `alignments` of both sides; `changes`, largest first."""
    words = {
        "keep": _("Pin"),
        "explanation": _("Keep this trace as the reference: every view then shows the difference"),
        "pinned": _("pinned"),
        "values": _("values"),
        "differences": _("differences"),
        "release": _("unpin"),
        "most": _("changed most"),
        "all": _("all changes"),
        "none": _("nothing differs from the pin"),
    }
    alignments: dict[str, Any] = {side: {"inserted": [], "deleted": []} for side in ("source", "target")}
    comparison, pin = bench.comparison, bench.pin
    kept, changes = None, []
    if pin and comparison:
        kept = {"text": pin.text, "model": pin.model}
        alignments["source"] = _alignment(comparison.source, pin.trace.source_tokens)
        alignments["target"] = _alignment(comparison.target, pin.trace.target_tokens)
        changes = _changes(comparison)
        if comparison.changes.empty:
            words["none"] = _("nothing here can be compared with the pin")
    return {"words": words, "kept": kept, "differing": bench.differing, "alignments": alignments, "changes": changes}


def _alignment(alignment: Alignment, labels: list[str]) -> dict[str, Any]:
    """Which tokens are new, and those that are gone, each before the token that now stands at its place."""
    kept = list(enumerate(alignment.places))
    before = [max((mine + 1 for mine, other in kept if 0 <= other < place), default=0) for place in alignment.deleted]
    deleted = [{"label": labels[place], "before": at} for place, at in zip(alignment.deleted, before, strict=True)]
    return {"inserted": alignment.inserted, "deleted": deleted}


def _changes(comparison: Comparison) -> list[dict[str, Any]]:
    """A list a kind: its title, its unit, and the largest changes with what a click on them selects."""
    titles = {
        "head": (_("heads"), _("mean total variation of a query's weights, 0 to 1")),
        "layer": (_("layers"), _("change of the residual stream, relative to its norm")),
        "position": (_("positions"), _("change of the last residual stream, relative to its norm")),
        "prediction": (_("predictions"), _("KL divergence from the pinned prediction, in nats")),
    }
    table = comparison.changes
    found = []
    for kind, (title, unit) in titles.items():
        rows = table[(table["kind"] == kind) & (table["change"] > 0)].head(LISTED).to_dict("records")
        if rows:
            items = [_item(comparison, row) for row in rows]
            found.append({"title": title, "unit": unit, "items": items})
    return found


def _item(comparison: Comparison, row: dict[str, Any]) -> dict[str, Any]:
    trace, name = comparison.trace, str(row["name"])
    parts = name.split(".")
    act: dict[str, Any] = {}
    side = ""
    if row["kind"] == "head":
        block = parts[3].removesuffix("_attention")
        kind = "encoder" if parts[0] == "encoder" else KINDS[block]
        act = {"attention": kind, "layer": int(row["layer"]), "head": int(row["head"])}
        label = f"{attention_name(kind)} {row['layer'] + 1}.{row['head'] + 1}"
    elif row["kind"] == "layer":
        act = {"layer": int(row["layer"])}
        label = f"{_stack(parts[0])} {row['layer'] + 1} · {_block(parts[3])}"
    else:
        place = int(row["position"])
        act = {"query": place}
        label = trace.tokens_of(name)[place]
        side = "target" if trace.tokens_of(name) is trace.target_tokens else "source"
    token = {"side": side, "position": act["query"]} if "query" in act else None
    return {"label": label, "value": significant(row["change"]), "exact": row["change"], "act": act, "token": token}


def _stack(name: str) -> str:
    return {"encoder": _("encoder"), "decoder": _("decoder")}[name]


def _block(name: str) -> str:
    """What a block of a layer is called."""
    return {
        "self_attention_block": _("self-attention"),
        "cross_attention_block": _("cross-attention"),
        "feed_forward_block": _("feed-forward"),
    }[name]
