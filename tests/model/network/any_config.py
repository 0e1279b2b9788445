"""Configs with any option beside any other, small enough to be built."""

from typing import get_args

from hypothesis import strategies as st

from model.network.config import NETWORK_OPTIONS, Kind, TiedEmbeddings, TransformerConfig


@st.composite
def configs(draw) -> TransformerConfig:
    """Any option with any other, as far as they go together."""
    kind = draw(st.sampled_from(get_args(Kind)))
    heads = draw(st.sampled_from([1, 2, 4]))
    vocabulary = draw(st.integers(3, 12))
    head = draw(st.sampled_from(NETWORK_OPTIONS["output_head"].choices))
    tied = draw(st.sampled_from(("none", "inputs") if head == "none" else get_args(TiedEmbeddings)))
    chosen = ("position", "norm", "norm_placement", "activation", "attention_bias")
    other = vocabulary if tied in ("inputs", "all") else draw(st.integers(3, 12))
    layers, residual, short = st.integers(1, 3), draw(st.booleans()), draw(st.floats(0, 1e6))
    rate = st.sampled_from([0.0, 0.1])
    return TransformerConfig(
        source_vocabulary=0 if kind == "decoder-only" else vocabulary,
        target_vocabulary=0 if kind == "encoder-only" else other,
        n_encoder_layers=0 if kind == "decoder-only" else draw(layers),
        n_decoder_layers=0 if kind == "encoder-only" else draw(layers),
        d_model=draw(st.sampled_from([8, 16])),
        n_heads=heads,
        n_key_value_heads=draw(st.sampled_from([None, 1, heads])),
        d_ff=draw(st.sampled_from([1, 24, 100])),
        **{name: draw(rate) for name in ("dropout", "attention_dropout", "activation_dropout")},
        max_length=draw(st.integers(8, 12)),
        position_base=draw(st.floats(1e-3, 1e9)),
        position_buckets=draw(st.sampled_from([4, 32])),
        position_reach=draw(st.integers(33, 1000)),
        rotary_channels=draw(st.sampled_from([None, 2])),
        rotary_stretch=draw(st.floats(0.01, 100)),
        rotary_short=short,
        rotary_long=short + draw(st.floats(0, 1e6)),
        norm_epsilon=draw(st.floats(1e-12, 1e-2)),
        window=draw(st.sampled_from([None, 2])),
        **draw(st.sampled_from([{}, {"heads": "full"}, {"head_width": 6}])),
        tied_embeddings=tied,
        output_head=head,
        output_bias=head != "none" and draw(st.booleans()),
        scale_output=head == "linear" and draw(st.booleans()),
        **{name: draw(st.sampled_from(NETWORK_OPTIONS[name].choices)) for name in chosen},
        residual=residual,
        parallel=residual and draw(st.booleans()),
        **{name: draw(st.booleans()) for name in ("bias", "qk_norm", "embedding_norm", "last_norm")},
        **{name: draw(st.booleans()) for name in ("scale_embedding", "scale_attention")},
    )
