"""What others would train with: a network of torch's own modules and the usual loop around it.

They read like nanoGPT's and like torch's tutorials, so that a ratio says what a reader of those would gain. Their
weights are copied from ours, so that both losses must follow the same curve.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.data.datasets import IGNORED, Batch
from model.network.transformer import DecoderOnly, Network, Transformer


class Block(nn.Module):
    """One layer of GPT-2 in nanoGPT's manner: one projection for queries, keys and values, fused attention."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.before_attention = nn.LayerNorm(d_model, bias=False)
        self.projection = nn.Linear(d_model, 3 * d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)
        self.before_units = nn.LayerNorm(d_model, bias=False)
        self.units = nn.Sequential(
            nn.Linear(d_model, 4 * d_model, bias=False), nn.GELU(), nn.Linear(4 * d_model, d_model, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, d_model = x.shape
        parts = self.projection(self.before_attention(x)).split(d_model, dim=2)
        query, key, value = (part.view(batch, length, self.n_heads, -1).transpose(1, 2) for part in parts)
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(heads.transpose(1, 2).contiguous().view(batch, length, d_model))
        return x + self.units(self.before_units(x))


class PlainGPT(nn.Module):
    """GPT-2 in nanoGPT's manner, its loss over every position."""

    def __init__(self, ours: DecoderOnly) -> None:
        super().__init__()
        size = ours.config
        self.tokens = nn.Embedding(size.target_vocabulary, size.d_model)
        self.positions = nn.Embedding(size.max_length, size.d_model)
        self.blocks = nn.ModuleList(Block(size.d_model, size.n_heads) for _ in range(size.n_decoder_layers))
        self.norm = nn.LayerNorm(size.d_model, bias=False)
        self.logits = nn.Linear(size.d_model, size.target_vocabulary, bias=False)
        self.logits.weight = self.tokens.weight
        self._take(ours)

    def forward(self, batch: Batch) -> Tensor:
        ids = batch.inputs[0]
        assert ids is not None
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.logits(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), batch.labels.reshape(-1), ignore_index=IGNORED)

    @torch.no_grad()
    def _take(self, ours: DecoderOnly) -> None:
        stack = ours.decoder
        pairs = [(self.tokens.weight, stack.embedding.tokens.weight), (self.norm.weight, stack.norm.weight)]
        pairs += [(self.positions.weight, stack.embedding.positions.table)]
        for block, layer in zip(self.blocks, stack.layers, strict=True):
            attention, units = layer.self_attention, layer.feed_forward
            projections = [attention.query.weight, attention.key.weight, attention.value.weight]
            pairs += [(block.projection.weight, torch.cat(projections)), (block.output.weight, attention.output.weight)]
            pairs += [(block.before_attention.weight, layer.self_attention_block.norm.weight)]
            pairs += [(block.before_units.weight, layer.feed_forward_block.norm.weight)]
            pairs += [(block.units[0].weight, units.hidden.weight), (block.units[2].weight, units.output.weight)]
        for own, given in pairs:
            own.copy_(given)


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` between embeddings with sinusoids and an output that shares their matrix."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        size = ours.config
        options = {"dropout": size.dropout, "batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(size.d_model, size.n_heads, size.d_ff, **options)
        norm = nn.LayerNorm(size.d_model)
        self.inner = nn.Transformer(
            size.d_model,
            size.n_heads,
            num_decoder_layers=size.n_decoder_layers,
            dim_feedforward=size.d_ff,
            custom_encoder=nn.TransformerEncoder(layer, size.n_encoder_layers, norm, enable_nested_tensor=False),
            **options,
        )
        self.tokens = nn.Embedding(size.target_vocabulary, size.d_model)
        self.logits = nn.Linear(size.d_model, size.target_vocabulary, bias=False)
        self.logits.weight = self.tokens.weight
        self.register_buffer("positions", ours.encoder.embedding.positions.table.clone())
        self.factor = size.d_model**0.5
        self._take(ours)

    def forward(self, batch: Batch) -> Tensor:
        source, target, source_real, target_real = batch.inputs
        assert source is not None
        assert target is not None
        unseen = None if source_real is None else ~source_real
        states = self.inner(
            self._embed(source),
            self._embed(target),
            tgt_mask=torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device).triu(1),
            src_key_padding_mask=unseen,
            tgt_key_padding_mask=None if target_real is None else ~target_real,
            memory_key_padding_mask=unseen,
        )
        logits = self.logits(states)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), batch.labels.reshape(-1), ignore_index=IGNORED)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.tokens(ids) * self.factor + self.positions[: ids.shape[1]]

    @torch.no_grad()
    def _take(self, ours: Transformer) -> None:
        self.tokens.weight.copy_(ours.encoder.embedding.tokens.weight)
        for our_stack, stack in ((ours.encoder, self.inner.encoder), (ours.decoder, self.inner.decoder)):
            stack.norm.load_state_dict(our_stack.norm.state_dict())
            for layer, other in zip(our_stack.layers, stack.layers, strict=True):
                attentions, blocks = [(layer.self_attention, other.self_attn)], [layer.self_attention_block]
                if our_stack is ours.decoder:
                    attentions.append((layer.cross_attention, other.multihead_attn))
                    blocks.append(layer.cross_attention_block)
                for a, b in attentions:
                    b.in_proj_weight.copy_(torch.cat([a.query.weight, a.key.weight, a.value.weight]))
                    b.in_proj_bias.copy_(torch.cat([a.query.bias, a.key.bias, a.value.bias]))
                    b.out_proj.load_state_dict(a.output.state_dict())
                for number, block in enumerate([*blocks, layer.feed_forward_block], start=1):
                    getattr(other, f"norm{number}").load_state_dict(block.norm.state_dict())
                other.linear1.load_state_dict(layer.feed_forward.hidden.state_dict())
                other.linear2.load_state_dict(layer.feed_forward.output.state_dict())


class PlainLoop:
    """Loss, gradients, clipping, AdamW: the loop of the tutorials."""

    def __init__(self, ours: Network, batches: list[Batch], rate: float, clip: float) -> None:
        self.network = PlainGPT(ours) if isinstance(ours, DecoderOnly) else TorchTransformer(ours)
        self.batches, self.clip, self.done = batches, clip, 0
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0
        )
        self.network.train()

    def step(self) -> float:
        """One step; gives its loss."""
        batch = self.batches[self.done % len(self.batches)]
        self.done += 1
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.network(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
        return float(loss.detach())
