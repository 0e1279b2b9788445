"""What will be trained, shown before it begins; a pair of checkpoints is proposed where none is chosen."""

from __future__ import annotations

from tests.app_reading import opened, sound
from viz.i18n.format import token_code
from viz.pages.training import demonstration


def test_begin_shows_words_and_numbers_of_the_training():
    app = sound(opened("training", language="en"))
    words, facts = [each.value for each in app.markdown if each.value.startswith("|")]
    model, _material, _probe = demonstration.REVERSE.begin()
    pairs = [line.strip("| ").split(" | ") for line in words.splitlines()[2:]]
    assert len(pairs) == 8
    assert all(target == token_code(source.strip("`")[::-1]) for source, target in pairs)
    assert f"| parameters | {model.network.parameter_count():,} |" in facts
    assert f"| steps | {demonstration.REVERSE.steps:,} |" in facts
