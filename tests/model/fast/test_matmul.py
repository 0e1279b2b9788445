"""The choice of a library for float32 products: only what is exact and faster is taken, and nothing stays behind."""

import pytest
import torch

from model.fast import matmul
from model.fast.matmul import Products, choose_products, probe
from model.network.config import TransformerConfig

CONFIG = TransformerConfig(source_vocabulary=9, target_vocabulary=9, d_model=32, n_heads=4, d_ff=48)


@pytest.mark.parametrize(
    ("speed", "error", "taken"), [(1.5, 3e-7, True), (1.01, 2e-7, False), (9.0, 3e-3, False), (0.8, 2e-7, False)]
)
def test_onednn_is_taken_only_where_it_is_exact_and_faster(speed: float, error: float, taken: bool) -> None:
    found = Products(speed, error, own_error=2e-7)
    assert found.onednn == taken
    assert ("products: oneDNN" in str(found)) == taken
    with found.used():
        assert torch.backends.mkldnn.matmul.fp32_precision == ("bf16" if taken else "none")
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_what_is_chosen_multiplies_as_exactly_as_float32_can() -> None:
    x, weight = torch.randn(64, 32), torch.randn(48, 32)
    exact = x.double() @ weight.double().T
    with choose_products(CONFIG, 64, torch.device("cpu")).used():
        error = ((x @ weight.T).double() - exact).norm() / exact.norm()
    assert error < 1e-6


def test_the_probe_sees_an_inexact_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that rounds its factors to bfloat16, as oneDNN does on processors with AMX."""
    exactly = matmul._error

    def rounded(x: torch.Tensor, weight: torch.Tensor) -> float:
        if torch.backends.mkldnn.matmul.fp32_precision == "none":
            return exactly(x, weight)
        exact = x.double() @ weight.double().T
        return float(((x.bfloat16() @ weight.bfloat16().T).double() - exact).norm() / exact.norm())

    monkeypatch.setattr(matmul, "_error", rounded)
    found = probe.__wrapped__(((16, 32, 48),))
    assert found.error > 1e-3
    assert not found.onednn


def test_elsewhere_there_is_no_choice() -> None:
    assert choose_products(CONFIG, 64, torch.device("meta")) == matmul.OWN
    assert str(matmul.OWN) == "float32 products: torch's own library"
