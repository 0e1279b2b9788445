"""Bytes of the KV cache: of ours exactly the formula's, of models that transformers runs those that it keeps itself."""

from __future__ import annotations

import pytest
import torch

from model.analysis.kv_cache import formula, measure, numbers_per_token
from model.inference.models import MODEL_CLASSES
from tests.model.checkpoints.bridge.models import bridged
from tests.model.elsewhere import model_of, words

IDS = [1, 4, 2, 5, 6, 3, 2]


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("options", [{}, {"n_key_value_heads": 1}, {"position": "alibi", "window": 3}])
def test_ours_keeps_what_the_formula_says(kind, options) -> None:
    model = model_of(kind, **options)
    source = IDS[:5] if kind == "encoder-decoder" else []
    sizes = measure(model, source, IDS, [1, 3, 40])
    config = model.config
    each = 2 * config.kv_heads * config.d_head * config.n_decoder_layers * 4
    assert numbers_per_token(model) == each // 4
    assert [size.own for size in sizes] == [each, 3 * each, 40 * each]
    assert {size.cross for size in sizes} == {len(source) * each}
    assert [size.deviation for size in sizes] == [0.0] * 3
    assert all(size.reserved >= size.measured for size in sizes)
    with torch.inference_mode():  # by the very tensors of its cache
        state = model.network.read(torch.tensor([IDS]), padding=-1, start=1)
        state.log_probabilities(torch.tensor([IDS]))
    room = state.cache.layers[0].self_attention.room
    assert room is not None
    assert state.keys_and_values()[0][0].data_ptr() == room[0].data_ptr()


def test_half_precision_takes_half_the_bytes() -> None:
    model = model_of("decoder-only")
    whole = measure(model, [], IDS, [4])[0]
    model.network.to(torch.bfloat16)
    half = measure(model, [], IDS, [4])[0]
    assert (half.measured, half.formula) == (whole.measured // 2, whole.measured // 2)


def test_an_encoder_keeps_nothing() -> None:
    model = model_of("encoder-only")
    assert formula(model, 4) is None
    with pytest.raises(ValueError, match="do not write"):
        measure(model, [], IDS, [4])


@pytest.mark.parametrize(
    ("name", "each", "crossed"),
    [
        ("gpt2", 2 * 2 * 4 * 8, 0),
        ("llama", 2 * 2 * 2 * 8, 0),  # two heads of keys for four of queries
        ("gemma2", 2 * 2 * 2 * 16, 0),  # its window is 4, and all tokens are kept here
        pytest.param("gemma4", 2 * 2 * 16 + 2 * 2 * 24, 0, marks=pytest.mark.slow),  # its layers differ
        ("deepseek_v3", None, 0),
        ("t5", 2 * 2 * 4 * 8, 2 * 2 * 4 * 8),
    ],
)
def test_a_bridged_models_own_cache_is_measured(name: str, each: int | None, crossed: int) -> None:
    network = bridged(name)
    tokenizer = words()[0]
    model = MODEL_CLASSES[network.kind](name, network, (tokenizer, tokenizer), {})
    source = IDS[:5] if network.kind == "encoder-decoder" else []
    sizes = measure(model, source, IDS, [1, 4, 20])
    latents = [network.config.latent_of(layer) for layer in range(network.config.n_decoder_layers)]
    if each is None:
        assert None not in latents
        each = sum(latent.width + latent.turned for latent in latents)
    assert numbers_per_token(model) == each
    assert [size.own for size in sizes] == [4 * each, 16 * each, 80 * each]
    assert {size.cross for size in sizes} == {4 * crossed * len(source)}
    assert all(size.deviation is not None and size.deviation < 0.01 for size in sizes)
