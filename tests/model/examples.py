"""Small models, texts and settings that many tests use."""

import random
from pathlib import Path
from typing import Any

import torch

from model.capture.interventions import Intervention, intervening
from model.capture.trace import Trace, record
from model.data.datasets import PairDataset
from model.data.pairs import Pair
from model.network.config import TWO_STACKS, Kind, RecurrentConfig, TransformerConfig
from model.network.recurrent import Recurrent
from model.network.transformer import Network, Transformer, build
from model.text.tokenizer import Tokenizer
from model.text.tokenizer_training import train_bpe, train_characters
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer

NOUNS = "teacher doctor student cat dog bird river mountain letter window garden train".split()
VERBS = "sees likes follows finds paints forgets hears watches".split()
TINY = "--preset tiny --d-model 16 --n-heads 2 --d-ff 24 --n-encoder-layers 1 --n-decoder-layers 1".split()
SMALL = {
    "d_model": 16,
    "n_heads": 2,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "d_ff": 24,
    "max_length": 32,
}
SOURCE, TARGET = torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]])


def config(**options: Any) -> TransformerConfig:
    """A config of a few thousand weights that does not drop out."""
    sizes = {"source_vocabulary": 11, "target_vocabulary": 13, "dropout": 0.0}
    return TransformerConfig(**(sizes | SMALL | options))


def network(seed: int = 0, **options: Any) -> Transformer:
    """A network in evaluation mode, every weight random, biases and norms too: none can hide an error."""
    torch.manual_seed(seed)
    model = Transformer(config(**options)).eval()
    disturb(model)
    return model


def one_stack(kind: Kind, seed: int = 0, **options: Any) -> Network:
    """The same of a decoder-only or encoder-only network."""
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "max_length": 32, "dropout": 0.0}
    model = build(
        TransformerConfig.one_stack(kind, options.pop("vocabulary", 13), options.pop("layers", 2), **(sizes | options))
    ).eval()
    disturb(model)
    return model


def recurrent(seed: int = 0, **options: Any) -> Recurrent:
    """The same of a recurrent network."""
    torch.manual_seed(seed)
    sizes = {"source_vocabulary": 11, "target_vocabulary": 13, "d_model": 16, "dropout": 0.0, "max_length": 32}
    model = Recurrent(RecurrentConfig(**(sizes | options))).eval()
    disturb(model)
    return model


def traced(model: Network, *changes: Intervention, ids: tuple[Any, ...] = (), maps: bool = False) -> Trace:
    """A trace of `ids`, or of SOURCE and TARGET, of SOURCE alone where the model has one stack."""
    inputs = ids or ((SOURCE, TARGET) if model.kind in TWO_STACKS else (SOURCE,))
    with torch.inference_mode(), intervening(model, changes), record(model, maps=maps) as trace:
        model(*inputs)
    return trace


@torch.no_grad()
def disturb(model: Network) -> None:
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.2)


def sentences(count: int, seed: int = 0) -> list[Pair]:
    """Distinct sentences, each with a "translation" that can be learned: its words as Chinese characters."""
    generator = random.Random(seed)
    characters = {word: chr(0x4E00 + 7 * index) for index, word in enumerate(NOUNS + VERBS)}
    found: dict[str, str] = {}
    while len(found) < count:
        words = [generator.choice(NOUNS), generator.choice(VERBS), generator.choice(NOUNS)]
        words += [generator.choice(NOUNS)] * generator.randrange(2)
        found.setdefault(f"The {' '.join(words)}.", "".join(characters[word] for word in words) + "。")
    return [Pair(source, target) for source, target in found.items()]


def write_pairs(path: Path, pairs: list[Pair]) -> Path:
    """A file as `python -m model train` takes it, with an attribution behind each pair."""
    path.write_text("".join(f"{pair.source}\t{pair.target}\tby us\n" for pair in pairs), encoding="utf-8")
    return path


def tokenizers(pairs: list[Pair]) -> tuple[Tokenizer, Tokenizer]:
    return train_bpe([pair.source for pair in pairs], 90), train_characters([pair.target for pair in pairs])


def trainer(
    pairs: list[Pair],
    validation: list[Pair],
    network_options: dict[str, Any],
    **settings: Any,
) -> Trainer:
    """A trainer of a new small model on these pairs; the same arguments give the same one."""
    both = tokenizers(pairs)
    torch.manual_seed(7)
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    model = Transformer(config(**(sizes | network_options)))
    chosen = TrainingSettings(**settings)
    train = PairDataset(pairs, both, model.config.max_length, chosen.bpe_dropout)
    return Trainer(model, train, PairDataset(validation, both, model.config.max_length), chosen)
