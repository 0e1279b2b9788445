"""The one door from figures to a browser: language, groups of tokens, pin, alternative text, table, bytes."""

from viz.render import chart, heatmap, panels  # renderers of these kinds; a page registers those of its own figures

__all__ = ["chart", "heatmap", "panels"]
