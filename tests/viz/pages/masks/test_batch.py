"""The padded batch on the page of masks: its masks with their shapes, and which tokens light up with the page's."""

from __future__ import annotations

from tests.app_reading import opened, sent
from tests.viz.pages.masks.test_page import TEXT


def test_the_masks_of_a_padded_batch_have_their_shapes_and_the_pages_tokens(small):
    app = opened("masks", source=TEXT, mask_experiment="batch")
    header, arrays = sent(app, "mask_batch")
    tokens = app.session_state["session"].trace.target_tokens
    read, long = (len(header["panels"][place]["columns"]["labels"]) for place in (0, 1))
    shapes = [(each["name"], each["note"]) for each in header["panels"][:4]]  # claims 18 and 50
    assert shapes == [
        ("padding, source", f"[batch, 1, 1, key] = [3, 1, 1, {read}]"),
        ("padding, target", f"[batch, 1, 1, key] = [3, 1, 1, {long}]"),
        ("causal", f"[1, 1, query, key] = [1, 1, {long}, {long}]"),
        ("text 1", "[0, 0, :, :]"),
    ]
    assert header["note"] == f"[batch, 1, query, key] = [3, 1, {long}, {long}]"
    texts = [each for each in header["panels"] if each["name"].startswith("text ")]
    assert len(texts) == 3
    drawn = [visible.shape for visible in arrays[1::2]]  # a panel is of values, here none, and of what is to be seen
    assert drawn == [(3, read), (3, long), *[(long, long)] * 4]
    for axis in (text[name] for text in texts for name in ("rows", "columns")):
        assert axis["side"] == "target"  # a token of another text lights up where the page's text has it
        known = [place for place in axis["places"] if place >= 0]
        assert known == sorted(set(known))
        assert all(
            place < 0 or label == tokens[place] for label, place in zip(axis["labels"], axis["places"], strict=True)
        )
        assert known[0] == 0  # all begin alike
    assert texts[0]["rows"]["places"] == [*range(len(tokens)), *[-1] * (len(texts[0]["rows"]["labels"]) - len(tokens))]
