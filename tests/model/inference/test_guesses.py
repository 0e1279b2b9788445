"""What models of one stack hold most probable: at hidden tokens, and after a text."""

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.text.tokenizer import MASK
from model.text.tokenizer_training import train_characters
from tests.model.examples import one_stack
from tests.model.network.test_kinds import PAIRS, TOKENIZERS, model


def test_masks_are_filled_with_what_is_most_probable(tmp_path):
    given = model("encoder-only", tmp_path / "c")
    text = f"The {MASK} sees the {MASK}."
    tokens = given.source_tokens(text)
    places = [place for place, label in enumerate(tokens.labels) if label == MASK]
    assert len(places) == 2
    made = given.generate(text)
    best = given.trace(text)["output.logits"].log_softmax(dim=-1)[places][:, 5:]  # 0 to 4 are special
    assert made.ids == (best.argmax(dim=-1) + 5).tolist()
    assert made.log_probabilities == pytest.approx(best.max(dim=-1).values.tolist(), abs=1e-5)
    assert [len(each) for each in made.alternatives] == [5, 5]
    assert given.generate("The cat.").ids == []
    with pytest.raises(ValueError, match="fills in <mask> and does not write"):
        given.generate(text, beam=2)
    with pytest.raises(ValueError, match="encoder-only models do not write"):
        given.network.read(torch.ones(1, 2, dtype=torch.long), padding=0, start=1)


def test_a_language_model_guesses_what_comes_next(tmp_path):
    given = model("decoder-only", tmp_path / "c")
    (guess,) = given.guesses(given.trace("The cat"))
    expected = given.network(torch.tensor([given.source_tokens("The cat").ids]))[0, -1].log_softmax(dim=-1)
    ordinary = [token for token in expected.argsort(descending=True).tolist() if token > 3]  # 0 to 3 are special
    assert [each.token for each in guess.choices] == ordinary[:5]
    own = expected[ordinary[:5]].tolist()
    assert [each.log_probability for each in guess.choices] == pytest.approx(own, abs=1e-5)
    letter = TOKENIZERS["decoder-only"].encode("s").ids[0]
    assert given.take("The cat", 0, letter) == "The cats"


def test_a_guess_is_put_in_the_place_of_its_mask(tmp_path):
    given, tokenizer = model("encoder-only", tmp_path / "c"), TOKENIZERS["encoder-only"]
    text = f"The {MASK} sees the {MASK}."
    guesses = given.guesses(given.trace(text))
    assert [each.choices for each in guesses] == given.generate(text).alternatives
    assert not {each.token for guess in guesses for each in guess.choices} & set(range(5))
    labels = [tokenizer.label(token) for token in range(len(tokenizer))]
    word = next(label for label in labels if label.startswith("▁") and len(label) > 2)
    piece = next(label for label in labels[5:] if not label.startswith("▁"))
    assert given.take(text, 0, labels.index(word)) == f"The {word[1:]} sees the {MASK}."
    assert given.take(text, 1, labels.index(piece)) == f"The {MASK} sees the{piece}."
    assert given.take(f"The cat{MASK}dog", 0, labels.index(word)) == f"The cat {word[1:]} dog"  # as the model reads it
    assert given.take(f"{MASK}.", 0, labels.index(word)) == f"{word[1:]}."
    assert given.guesses(given.trace("The cat.")) == []


def test_what_is_filled_in_is_what_the_model_read(tmp_path):
    """The text with its masks filled is cut into the tokens that the model saw and chose."""
    given, tokenizer = model("encoder-only", tmp_path / "c"), TOKENIZERS["encoder-only"]
    for text in (f"The {MASK} sees the {MASK}.", f"{MASK} cat", f"the cat {MASK}", f"The {MASK}dog {MASK}. {MASK}"):
        tokens, made = given.source_tokens(text), given.generate(text)
        chosen = iter(made.ids)
        ids = [next(chosen) if token == tokenizer.mask else token for token in tokens.ids]
        assert made.text.replace(" ", "") == tokenizer.decode(ids).replace(" ", "")


def test_characters_keep_the_spaces_beside_a_mask(tmp_path):
    made = train_characters([pair.source for pair in PAIRS], mask=True)
    save_checkpoint(tmp_path / "c", one_stack("encoder-only", vocabulary=len(made)), (made, made))
    given = open_checkpoint(tmp_path / "c")
    text = f"The {MASK}at {MASK} sees {MASK}"
    assert given.source_tokens(text).labels[1:-1] == [
        *"The ", MASK, *"at ", MASK, *" sees ", MASK,
    ]  # fmt: skip
    assert given.take(text, 0, made.encode("c").ids[0]) == f"The cat {MASK} sees {MASK}"
