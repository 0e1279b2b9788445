"""The text of a request as the loaded model reads it."""

from __future__ import annotations

import torch
from torch import Tensor

from model.capture.trace import AttentionKind, Trace
from model.experiments.experiment import Outcome
from model.inference.models import Translator
from model.inference.text_model import TextModel
from model.message import Message, say
from model.text.tokenizer import Tokens

MOST = 48  # tokens of a map that is drawn


def read(model: TextModel, text: str) -> tuple[Trace, list[Tokens]]:
    """Trace of a text, and the tokens of each stack: of a translator the target is the one that it writes."""
    source = model.source_tokens(text)
    if isinstance(model, Translator):
        trace, target, _generation = model.trace_generated(source)
        return trace, [source, target]
    return model.trace_tokens(source), [source]


def kind_name(kind: AttentionKind) -> Message:
    """Kind of attention in words."""
    return {
        "encoder": say("self-attention of the encoder"),
        "decoder": say("self-attention of the decoder"),
        "cross": say("cross-attention"),
    }[kind]


def ids_of(model: TextModel, texts: list[Tokens]) -> list[Tensor]:
    """Ids (1, length) of each stack."""
    return [torch.tensor([text.ids], device=model.device) for text in texts]


def another(model: TextModel, token: int) -> int:
    """Another token of the target's vocabulary, not a special one where there is a choice."""
    vocabulary, special = model.config.vocabularies[1], {token, *model.target_tokenizer.special}
    return next((each for each in range(vocabulary) if each not in special), (token + 1) % vocabulary)


def too_short(least: int, texts: list[Tokens]) -> Outcome:
    """Outcome of a text that has too few tokens to be judged on, or to which a translator writes too few."""
    if len(texts[0]) >= least:
        return unanswered(
            say(
                "this needs {least} written tokens at least, and the model writes {count}: type another text, or "
                "choose another model",
                least=least,
                count=len(texts[-1]),
            )
        )
    return unanswered(say("this needs a text of {least} tokens at least: type a longer one", least=least))


def recurrent() -> Outcome:
    """Outcome of a recurrent network, of which a statement on Transformers says nothing."""
    return unanswered(say("this model is recurrent, and the statement is about Transformers: choose one of those"))


def unanswered(reason: Message) -> Outcome:
    """Outcome of a model or a text that cannot answer."""
    return Outcome(None, reason)


def tolerance(model: TextModel) -> float:
    """Relative difference up to which two computations of the model's precision agree: √ε."""
    return float(torch.finfo(model.dtype).eps ** 0.5)
