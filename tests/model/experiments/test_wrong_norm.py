"""The wrong pre-norm is the formula as it is said, and nothing else of the network is changed."""

from __future__ import annotations

import torch
from torch import nn

from model.experiments.arms import NormOnTheShortCut, put_norm_on_the_short_cut
from model.network.layers import PreNorm
from tests.model.examples import network


class ByHand(nn.Module):
    """An encoder layer of Sublayer(x) + LayerNorm(x), by torch's own attention and layer norm."""

    def __init__(self, layer: nn.Module, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64)
        own = layer.self_attention
        with torch.no_grad():
            for number, part in enumerate((own.query, own.key, own.value)):
                self.attention.in_proj_weight[number * width : (number + 1) * width] = part.weight
                self.attention.in_proj_bias[number * width : (number + 1) * width] = part.bias
            self.attention.out_proj.weight.copy_(own.output.weight)
            self.attention.out_proj.bias.copy_(own.output.bias)
        self.layer, self.width = layer, width

    def normalised(self, x: torch.Tensor, block: nn.Module) -> torch.Tensor:
        return nn.functional.layer_norm(x, (self.width,), block.norm.weight, block.norm.bias, 1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer = self.layer
        y = self.attention(x, x, x, need_weights=False)[0] + self.normalised(x, layer.self_attention_block)
        hidden, output = layer.feed_forward.hidden, layer.feed_forward.output
        units = torch.relu(y @ hidden.weight.T + hidden.bias) @ output.weight.T + output.bias
        return units + self.normalised(y, layer.feed_forward_block)


def test_it_is_the_sublayer_of_the_bare_stream_plus_the_normalised_stream() -> None:
    model = network(norm_placement="pre").double()
    put_norm_on_the_short_cut(model)
    ids = torch.tensor([[3, 4, 5, 6, 7]])
    x = model.encoder.embedding(ids)
    for layer in model.encoder.layers:
        x = ByHand(layer, 16, 2)(x)
    norm = model.encoder.norm
    x = nn.functional.layer_norm(x, (16,), norm.weight, norm.bias, 1e-5)
    torch.testing.assert_close(model.encode(ids), x, rtol=1e-12, atol=1e-12)


def test_every_block_is_replaced_and_no_weight() -> None:
    model = network(norm_placement="pre")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 4]])
    right = model(source, target)
    put_norm_on_the_short_cut(model)
    blocks = [module for module in model.modules() if isinstance(module, PreNorm)]
    assert len(blocks) == 2 * 2 + 2 * 3
    assert all(type(block) is NormOnTheShortCut for block in blocks)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not torch.allclose(model(source, target), right)
