"""Models and traces on a pretended device (tests/pretended_device.py), and comparing what they give with the CPU's."""

import copy
import dataclasses
from functools import cache
from typing import Any

import pandas
import torch
from torch import Tensor
from torch.testing import assert_close

from model.capture.trace import Trace
from model.inference.models import MODEL_CLASSES, MaskedLanguageModel
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.text.tokenizer import Tokenizer
from model.text.tokenizer_training import train_bpe
from tests.model.examples import network, one_stack, sentences, tokenizers
from tests.pretended_device import NAME

KINDS: list[Kind] = ["encoder-decoder", "decoder-only", "encoder-only"]
OPTIONS: list[dict[str, Any]] = [
    {"norm_placement": "pre", "position": "learned", "activation": "gelu-tanh", "embedding_norm": True},
    {"position": "alibi", "window": 3, "norm": "textbook"},
    {"position": "rotary", "n_key_value_heads": 1, "norm": "rms", "activation": "swiglu", "qk_norm": True},
    {"position": "relative", "norm": "textbook-sample", "norm_placement": "sandwich"},
    {"position": "none", "norm": "none", "residual": False},
]
TEXT = "The cat sees a dog. The bird likes"


@cache
def words() -> tuple[Tokenizer, Tokenizer, Tokenizer]:
    """Of a source, of a target, and with a mask."""
    pairs = sentences(40)
    return *tokenizers(pairs), train_bpe([pair.source for pair in pairs], 90, mask=True)


def model_of(kind: Kind, **options: Any) -> TextModel:
    source, target, masked = words()
    both = {KINDS[0]: (source, target), KINDS[1]: (source, source), KINDS[2]: (masked, masked)}[kind]
    if kind == "encoder-decoder":
        transformer: Any = network(source_vocabulary=len(both[0]), target_vocabulary=len(both[1]), **options)
    else:
        transformer = one_stack(kind, vocabulary=len(both[0]), **options)
    return MODEL_CLASSES[kind](kind, transformer.requires_grad_(False), both, {})


def elsewhere(model: TextModel, dtype: torch.dtype = torch.float32) -> TextModel:
    moved = copy.deepcopy(model.network).to(NAME, dtype)
    return type(model)(model.name, moved, (model.source_tokenizer, model.target_tokenizer), {})


def trace_of(model: TextModel, text: str = TEXT) -> Trace:
    if model.kind == "encoder-decoder":
        return model.trace(text, "师学")
    return model.trace(text.replace("cat", "<mask>") if isinstance(model, MaskedLanguageModel) else text)


def at_home(value: Any) -> Any:
    """Numbers and texts, wherever their tensors were."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, pandas.DataFrame):
        return value.to_dict("list")
    if dataclasses.is_dataclass(value):
        return {each.name: at_home(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: at_home(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [at_home(each) for each in value]
    return value


def alike(there: Any, here: Any) -> None:
    there, here = at_home(there), at_home(here)
    if isinstance(here, dict):
        assert list(there) == list(here)
        there, here = list(there.values()), list(here.values())
    if isinstance(here, list):
        assert len(there) == len(here)
        for one, other in zip(there, here, strict=True):
            alike(one, other)
    elif isinstance(here, (Tensor, float)):
        assert_close(there, here, rtol=1e-4, atol=1e-5, equal_nan=True)
    elif isinstance(here, (str, int, bool, type(None))):
        assert there == here
