"""Small models in the layouts of others, written plainly in torch: what their weights are compared with."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import nn


def random_weights(model: nn.Module, seed: int = 0) -> nn.Module:
    """Large enough that every part matters."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.3 if parameter.dim() > 1 else 0.1
            parameter.add_(spread * torch.randn(parameter.shape, generator=chance))
    return model.eval()


class PackedAttention(nn.Module):
    """Causal self-attention of nanoGPT and minGPT: query, key and value in one matrix."""

    def __init__(self, width, heads, bias, buffer):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)
        if buffer:
            self.register_buffer("bias", torch.ones(16, 16).tril()[None, None])

    def forward(self, x):
        heads = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.c_attn(x).chunk(3, -1))
        return self.c_proj(_attend(*heads, causal=True).transpose(1, 2).flatten(2))


def _attend(query, key, value, causal=False):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ value


class Norm(nn.Module):
    """LayerNorm whose bias may be missing."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class GPT(nn.Module):
    """nanoGPT (tied, exact GELU) or minGPT of 2022 (untied, its approximation, kept masks)."""

    def __init__(self, vocabulary=19, length=16, width=12, heads=3, layers=2, bias=True, mini=False):
        super().__init__()
        self.approximate = "tanh" if mini else "none"
        blocks = []
        for _ in range(layers):
            mlp = {"c_fc": nn.Linear(width, 4 * width, bias=bias), "c_proj": nn.Linear(4 * width, width, bias=bias)}
            parts = {"ln_1": Norm(width, bias), "attn": PackedAttention(width, heads, bias, buffer=mini)}
            blocks.append(nn.ModuleDict({**parts, "ln_2": Norm(width, bias), "mlp": nn.ModuleDict(mlp)}))
        tables = {"wte": nn.Embedding(vocabulary, width), "wpe": nn.Embedding(length, width)}
        self.transformer = nn.ModuleDict({**tables, "h": nn.ModuleList(blocks), "ln_f": Norm(width, bias)})
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if not mini:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids):
        own = self.transformer
        x = own["wte"](ids) + own["wpe"](torch.arange(ids.shape[1]))
        for block in own["h"]:
            x = x + block["attn"](block["ln_1"](x))
            hidden = F.gelu(block["mlp"]["c_fc"](block["ln_2"](x)), approximate=self.approximate)
            x = x + block["mlp"]["c_proj"](hidden)
        return self.lm_head(own["ln_f"](x))


class SeparateAttention(nn.Module):
    """Causal self-attention of minGPT of 2020."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.key, self.query, self.value, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.register_buffer("mask", torch.ones(16, 16).tril()[None, None])

    def forward(self, x):
        parts = (self.query(x), self.key(x), self.value(x))
        heads = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in parts)
        return self.proj(_attend(*heads, causal=True).transpose(1, 2).flatten(2))


class FirstGPT(nn.Module):
    """minGPT of 2020."""

    def __init__(self, vocabulary=19, length=16, width=12, heads=3, layers=2):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(1, length, width))
        blocks = []
        for _ in range(layers):
            mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
            parts = {"ln1": nn.LayerNorm(width), "ln2": nn.LayerNorm(width), "attn": SeparateAttention(width, heads)}
            blocks.append(nn.ModuleDict({**parts, "mlp": mlp}))
        self.blocks, self.ln_f = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb[:, : ids.shape[1]]
        for block in self.blocks:
            x = x + block["attn"](block["ln1"](x))
            x = x + block["mlp"](block["ln2"](x))
        return self.head(self.ln_f(x))


class SampleNorm(nn.Module):
    """The Annotated Transformer's: the sample deviation, ε added to it."""

    def __init__(self, width):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


class LinearsAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory, causal):
        pairs = zip(self.linears, (x, memory, memory), strict=False)
        heads = (linear(each).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear, each in pairs)
        return self.linears[3](_attend(*heads, causal=causal).transpose(1, 2).flatten(2))


class AnnotatedLayer(nn.Module):
    def __init__(self, width, hidden, heads, cross, norm, post, activation):
        super().__init__()
        self.post, self.activation = post, activation
        self.self_attn = LinearsAttention(width, heads)
        if cross:
            self.src_attn = LinearsAttention(width, heads)
        self.feed_forward = nn.ModuleDict({"w_1": nn.Linear(width, hidden), "w_2": nn.Linear(hidden, width)})
        self.sublayer = nn.ModuleList(nn.ModuleDict({"norm": norm(width)}) for _ in range(3 if cross else 2))

    def forward(self, x, memory=None):
        blocks = [lambda x: self.self_attn(x, x, causal=memory is not None)]
        if memory is not None:
            blocks.append(lambda x: self.src_attn(x, memory, causal=False))
        blocks.append(lambda x: self.feed_forward["w_2"](self.activation(self.feed_forward["w_1"](x))))
        for block, each in zip(blocks, self.sublayer, strict=True):
            x = each["norm"](x + block(x)) if self.post else x + block(each["norm"](x))
        return x


def sines(length, width):
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


class Annotated(nn.Module):
    def __init__(
        self,
        source=17,
        target=19,
        width=12,
        hidden=20,
        heads=3,
        layers=2,
        norm=SampleNorm,
        post=False,
        activation=torch.relu,
    ):
        super().__init__()
        self.width = width
        for name, cross in (("encoder", False), ("decoder", True)):
            made = (AnnotatedLayer(width, hidden, heads, cross, norm, post, activation) for _ in range(layers))
            setattr(self, name, nn.ModuleDict({"layers": nn.ModuleList(made), "norm": norm(width)}))
        for name, count in (("src_embed", source), ("tgt_embed", target)):
            lut, positions = nn.Module(), nn.Module()
            lut.lut = nn.Embedding(count, width)
            positions.register_buffer("pe", sines(40, width)[None])
            setattr(self, name, nn.ModuleList([lut, positions]))
        self.generator = nn.ModuleDict({"proj": nn.Linear(width, target)})

    def forward(self, source, target):
        memory = self._stack(self.encoder, self._embed(self.src_embed, source))
        return self.generator["proj"](self._stack(self.decoder, self._embed(self.tgt_embed, target), memory))

    def _embed(self, embed, ids):
        return embed[0].lut(ids) * math.sqrt(self.width) + embed[1].pe[:, : ids.shape[1]]

    def _stack(self, stack, x, memory=None):
        for layer in stack["layers"]:
            x = layer(x, memory)
        return stack["norm"](x)


def quietly(make, *arguments, **options):
    """torch warns of what it cannot make faster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*arguments, **options)


class Seq2Seq(nn.Module):
    """What one writes around torch.nn.Transformer, after torch's own tutorial."""

    def __init__(self, source=17, target=19, width=12, heads=3, learned=False, positions=True, **options):
        super().__init__()
        self.width, self.learned = width, learned
        self.transformer = quietly(nn.Transformer, width, heads, 2, 2, 20, dropout=0.0, batch_first=True, **options)
        self.src_tok_emb, self.tgt_tok_emb = nn.Embedding(source, width), nn.Embedding(target, width)
        self.generator = nn.Linear(width, target)
        if learned:
            self.src_pos, self.tgt_pos = nn.Embedding(30, width), nn.Embedding(30, width)
        else:
            self.register_buffer("pos_embedding", positions * sines(40, width)[:, None], persistent=positions)

    def forward(self, source, target, **padding):
        causal = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
        pairs = ((self.src_tok_emb, "src_pos", source), (self.tgt_tok_emb, "tgt_pos", target))
        embedded = [self._embed(table(ids), name) for table, name, ids in pairs]
        return self.generator(self.transformer(*embedded, tgt_mask=causal, tgt_is_causal=True, **padding))

    def _embed(self, x, name):
        if self.learned:
            return x + getattr(self, name)(torch.arange(x.shape[1]))
        return x * math.sqrt(self.width) + self.pos_embedding[: x.shape[1], 0]
