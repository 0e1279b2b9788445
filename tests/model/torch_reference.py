"""torch's own Transformer layers as a reference for our network."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.network.positions import sinusoidal
from model.network.transformer import Transformer


class Reference(nn.Module):
    """torch's encoder and decoder layers; post-norm stacks without the final norm of nn.Transformer."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        size, pre = ours.config, ours.config.norm_placement == "pre"
        options = {"dim_feedforward": size.d_ff, "dropout": 0.0, "activation": size.activation}
        options |= {"batch_first": True, "norm_first": pre, "dtype": torch.float64}

        def norm() -> nn.LayerNorm | None:
            return nn.LayerNorm(size.d_model, dtype=torch.float64) if pre else None

        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(size.d_model, size.n_heads, **options),
            size.n_encoder_layers,
            norm(),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(size.d_model, size.n_heads, **options), size.n_decoder_layers, norm()
        )
        self.own = nn.ParameterDict({"source": ours.encoder.embedding.tokens.weight.detach().clone()})
        self.own["target"] = ours.decoder.embedding.tokens.weight.detach().clone()
        self.own["logits"] = ours.output.logits.weight.detach().clone()

    def embed(self, side: str, ids: Tensor) -> Tensor:
        size = self.own[side].shape[1]
        return self.own[side][ids] * math.sqrt(size) + sinusoidal(ids.shape[1], size)

    def forward(self, source: Tensor, target: Tensor, source_real: Tensor, target_real: Tensor) -> Tensor:
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        memory = self.encoder(self.embed("source", source), src_key_padding_mask=~source_real)
        states = self.decoder(
            self.embed("target", target),
            memory,
            tgt_mask=later,
            tgt_key_padding_mask=~target_real,
            memory_key_padding_mask=~source_real,
        )
        return states @ self.own["logits"].T


def matched(ours: Transformer, theirs: Reference) -> list[tuple[list[Tensor], Tensor]]:
    """For each of torch's parameters, those of ours that make it up."""

    def linear(a: nn.Linear, b: nn.Linear) -> list[tuple[list[Tensor], Tensor]]:
        return [([a.weight], b.weight), ([a.bias], b.bias)]

    found = [([ours.encoder.embedding.tokens.weight], theirs.own["source"])]
    found += [([ours.decoder.embedding.tokens.weight], theirs.own["target"])]
    found += [([ours.output.logits.weight], theirs.own["logits"])]
    for our_stack, their_stack in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        if their_stack.norm is not None:
            found += linear(our_stack.norm, their_stack.norm)
        for layer, other in zip(our_stack.layers, their_stack.layers, strict=True):
            attentions = [(layer.self_attention, other.self_attn)]
            blocks = [layer.self_attention_block]
            if our_stack is ours.decoder:
                attentions.append((layer.cross_attention, other.multihead_attn))
                blocks.append(layer.cross_attention_block)
            for a, b in attentions:
                projections = (a.query, a.key, a.value)
                found.append(([part.weight for part in projections], b.in_proj_weight))
                found.append(([part.bias for part in projections], b.in_proj_bias))
                found += linear(a.output, b.out_proj)
            norms = [other.norm1, other.norm2, getattr(other, "norm3", None)]
            for block, norm in zip([*blocks, layer.feed_forward_block], norms, strict=False):
                found += linear(block.norm, norm)
            found += linear(layer.feed_forward.hidden, other.linear1)
            found += linear(layer.feed_forward.output, other.linear2)
    return found
