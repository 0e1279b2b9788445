"""Operations ask for memory before they take it: as much as their results have, and no more is taken than there is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from model.runtime import room
from model.runtime.ledger import Ledger, NoRoomError
from model.runtime.room import asking, makes_new, most_numbers, new_bytes

ROWS = 400  # so that a square of them is large
X, W, IDS = torch.randn(ROWS, 8), torch.randn(8, 500), torch.arange(ROWS) % 8
COMPUTATIONS = {
    "product": lambda: X @ W,
    "product of batches": lambda: torch.bmm(X[None].expand(3, -1, -1), W[None].expand(3, -1, -1)),
    "linear layer": lambda: torch.nn.functional.linear(X, W.T, torch.zeros(500)),
    "outer difference": lambda: X[:, None, 0] - X[None, :, 0],
    "comparison": lambda: X[:, None, 0] > X[None, :, 0],
    "softmax": lambda: torch.zeros(ROWS, ROWS).softmax(dim=-1),
    "best": lambda: torch.zeros(ROWS, ROWS).topk(300),
    "row of a table": lambda: torch.nn.functional.embedding(IDS, W),
    "joined": lambda: torch.cat([X, X, X], dim=1).repeat(1, 40),
    "wider": lambda: torch.zeros(ROWS, ROWS).double(),
    "chosen cells": lambda: torch.ones(ROWS, ROWS)[torch.ones(ROWS, ROWS, dtype=torch.bool)],
    "places": lambda: torch.ones(ROWS, ROWS).nonzero(),
    "einsum": lambda: torch.einsum("ic,jc->ijc", X, X),
    "cumulative": lambda: torch.ones(ROWS, ROWS).cumsum(dim=0),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None]),
    "views": lambda: X.T.unflatten(0, (2, 4)).movedim(0, 1)[:, :1].expand(4, 5, ROWS),
    "in place": lambda: X.add_(0.0).clamp_(min=-9.0),
}


class Compared(TorchDispatchMode):
    """Mode that compares what an operation is said to take with what its results have."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        asked, known = new_bytes(func, args, kwargs), {each.untyped_storage().data_ptr() for each in tensors}
        made = func(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        taken = sum(each.nbytes for each in results if each.untyped_storage().data_ptr() not in known)
        exact = func.overloadpacket not in UNKNOWN
        assert taken < room.LARGE or (asked == taken if exact else asked >= taken), (func, asked, taken)
        if tensors and makes_new(func) and (most := most_numbers(func, tensors)) is not None:
            assert most >= max(each.numel() for each in results), func
        return made


UNKNOWN = {torch.ops.aten.nonzero, torch.ops.aten.index}  # the values tell how much


@pytest.mark.parametrize("computation", COMPUTATIONS)
def test_an_operation_asks_for_what_its_results_have(computation, monkeypatch):
    monkeypatch.setattr(room, "LARGE", 1 << 10)
    with torch.inference_mode(), Compared():
        COMPUTATIONS[computation]()


@pytest.fixture
def book(monkeypatch):
    """A ledger with 10 MB for this process."""
    made = Ledger(10_000_000, lambda: 0, lambda: None)
    monkeypatch.setattr(room, "ledger", lambda: made)
    return made


def test_what_does_not_fit_is_refused_before_it_is_computed(book):
    done = []

    class Done(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = func(*args, **kwargs or {})
            done.extend([tuple(made.shape)] * (made.device.type == "cpu"))
            return made

    with Done(), asking():
        torch.ones(1000, 2000)
        with pytest.raises(
            NoRoomError, match=r"^what is computed of this text needs about 0\.016 GB, and 0\.010 GB are"
        ):
            torch.zeros(2000, 2000)
    assert done == [(1000, 2000)]
    assert book.promises == ()


def test_what_others_were_promised_is_not_taken_and_the_own_promise_is(book):
    other = book.reserve("the training", 6_000_000)
    with asking(), pytest.raises(NoRoomError):
        torch.ones(1000, 1500)
    with asking(within=other):
        torch.ones(1000, 1500)
    with asking(False):
        torch.ones(1000, 1500)


def test_a_block_within_another_asks_once_and_by_its_own_name(book):
    with asking():
        with asking(name="a comparison"):
            torch.ones(1000, 2000)  # 8 of 10 MB
            with pytest.raises(NoRoomError, match=r"^a comparison needs"):
                torch.zeros(2000, 2000)
        with pytest.raises(NoRoomError, match=r"^what is computed of this text needs"):
            torch.zeros(2000, 2000)
