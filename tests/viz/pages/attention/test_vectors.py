"""The vectors behind one query: by hand from the recorded ones; the heads' parts of W^O's output add up to it."""

from __future__ import annotations

import torch

from tests.viz.small import looking, small_model
from viz.pages.attention.vectors import vector_panels
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.state.session import Selection


def test_the_vectors_are_the_traces_and_the_heads_parts_add_up(tmp_path):
    model = small_model(tmp_path / "small")
    trace = looking(model, "The cat sees.", "我").trace
    shown, path = HeadMaps(trace, HeadSettings("cross"), None, False), "decoder.layers.1.cross_attention"
    attention, parts = trace.attention_at(path), []
    for head in (0, 1):
        q, k, v, o, written = vector_panels(shown, Selection(1, head, 1)).panels
        torch.testing.assert_close(torch.tensor(q.values[0]), trace[f"{path}.query"][head, 1])
        torch.testing.assert_close(torch.tensor(k.values), trace[f"{path}.key"][head])
        torch.testing.assert_close(torch.tensor(v.values), trace[f"{path}.value"][head])
        weights = trace[f"{path}.weights"][head, 1]
        torch.testing.assert_close(torch.tensor(o.values[0]), weights @ trace[f"{path}.value"][head])
        parts.append(torch.tensor(written.values[0]))
        assert list(k.rows.labels) == trace.source_tokens
    whole = sum(parts) + (0 if attention.output.bias is None else attention.output.bias)
    torch.testing.assert_close(whole, trace[f"{path}.output"][1])
