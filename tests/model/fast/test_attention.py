"""Self-attention of a small model that learns, against torch's kernel and against the modules one by one."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.fast.attention import self_attention
from model.network import attention as attending
from model.network.masks import Mask
from tests.model.network.test_attention import attention

PADDED = torch.tensor([[True] * 5, [True, True, True, False, False], [True] * 4 + [False]])
MASKS = {
    "causal": Mask(causal=True),
    "padding": Mask(keys=PADDED),
    "both": Mask(keys=PADDED, causal=True),
    "window": Mask(causal=True, window=2),
}
SAME = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # of the largest gradient: a key's bias has none but rounding


def joint_of(made: attending.MultiHeadAttention, monkeypatch) -> list[bool]:
    """From now on, whether each pass of `made` took the one node."""
    calls, plain = [], attending.self_attention
    monkeypatch.setattr(attending, "self_attention", lambda *given: calls.append(True) or plain(*given))
    return calls


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_it_is_torchs_kernel_with_its_gradients(name, n_heads):
    projected = torch.randn(3, 5, 3 * 8, dtype=torch.float64, requires_grad=True)
    visible, added = MASKS[name].visible(5, 5, projected.device), MASKS[name].added(5, 5, projected)
    parts = [part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in projected.split(8, dim=-1)]
    theirs = F.scaled_dot_product_attention(*parts, attn_mask=visible, scale=0.7).transpose(1, 2).flatten(2)
    ours = self_attention(projected, added, 0.7, n_heads)
    assert_close(ours, theirs, rtol=0, atol=1e-12)
    towards = torch.randn_like(ours)
    (own,), (other,) = (torch.autograd.grad(made, projected, towards) for made in (ours, theirs))
    assert_close(own, other, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda each: self_attention(each, added, 0.7, n_heads), projected)


APART = {
    "rotary": {"position": "rotary"},
    "QK-norm": {"qk_norm": True},
    "ALiBi": {"position": "alibi"},
    "relative": {"position": "relative"},
    "shared": {"n_key_value_heads": 1},
    "wide": {"d_model": 256},
}


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMSNorm, of bfloat16 with float32 weights
@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("dtype", SAME)
@pytest.mark.parametrize("cross", [True, False])
def test_with_every_option_it_learns_what_the_modules_do(name, dtype, cross):
    made = attention(2, torch.float32, bias=False, **APART[name])
    width = made.query.in_features
    texts = torch.randn(2, 5, width), torch.randn(2, 7, width)
    found = []
    for each in (made.eval(), made.train()):
        each.zero_grad()
        x, memory = (text.clone().requires_grad_() for text in texts)
        memory = memory if cross else x
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            written = each(x, memory, Mask(causal=not cross))
        written.float().square().sum().backward()
        found.append([written.detach().float(), x.grad, memory.grad, *(weight.grad for weight in each.parameters())])
    size = max(float(tensor.norm()) for tensor in found[0])
    for own, expected in zip(*found, strict=True):
        assert float((own - expected).norm()) <= 2 * SAME[dtype] * size


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", SAME)
@pytest.mark.parametrize("bias", [True, False])
def test_training_takes_it_and_learns_the_same(name, dtype, bias, monkeypatch):
    made = attention(2, torch.float32, bias=bias)
    joint, mask, x = joint_of(made, monkeypatch), MASKS[name], torch.randn(3, 5, 16)

    def learnt() -> list[torch.Tensor]:
        made.zero_grad()
        given = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            written = made(given, given, mask)
        written.float().square().sum().backward()
        return [written.detach().float(), given.grad, *(each.grad for each in made.parameters())]

    by_modules = learnt()
    assert not joint
    made.train()
    size = max(float(each.norm()) for each in by_modules)
    for own, expected in zip(learnt(), by_modules, strict=True):
        assert float((own - expected).norm()) <= SAME[dtype] * size
    assert len(joint) == 1


@pytest.mark.parametrize("bias", [True, False])
def test_a_single_token_learns_too(bias):
    """Of one text with one token the parts are in order already: nothing may be written over them."""
    made = attention(2, torch.float32, bias=bias)
    found = []
    for each in (made.eval(), made.train()):
        each.zero_grad()
        x = torch.ones(1, 1, 16, requires_grad=True)
        written = each(x, x, Mask(causal=True))
        written.square().sum().backward()
        found.append([written.detach(), x.grad, each.value.weight.grad])
    assert_close(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"position": "rotary"}, {"qk_norm": True}, {"n_key_value_heads": 1}, {"position": "alibi"}, {"d_model": 256}],
    ids=lambda options: next(iter(options)),
)
def test_others_do_not_take_it(options, monkeypatch):
    made = attention(2, torch.float32, **options).train()
    joint, x = joint_of(made, monkeypatch), torch.randn(2, 5, made.query.in_features)
    assert made(x, x, Mask(causal=True)).isfinite().all()
    assert not joint


def test_nor_does_dropout_of_weights_or_a_text_that_may_look_nowhere(monkeypatch):
    made = attention(2, torch.float32).train()
    joint, x = joint_of(made, monkeypatch), torch.randn(2, 5, 16)
    blind = Mask(keys=torch.tensor([[True] * 5, [False] * 5]))
    assert made(x, x, blind).isfinite().all()
    made.dropout = 0.5
    made(x, x, Mask())
    assert not joint
    made.dropout = 0.0
    made(x, x, Mask())
    assert joint
