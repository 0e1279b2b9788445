"""The model card of a checkpoint: a README.md made from what training and evaluation recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.config import TransformerConfig


def card(name: str, config: TransformerConfig, parameters: int, record: Mapping[str, Any]) -> str:
    """The card's text. `record` is the content of training.json."""
    settings = record.get("settings", {})
    lines = [
        f"# {name}",
        "",
        f"Encoder-decoder Transformer, {parameters:,} parameters: {config.n_encoder_layers} + "
        f"{config.n_decoder_layers} layers, d_model {config.d_model}, {config.n_heads} heads, d_ff {config.d_ff}, "
        f"{config.norm_placement}-norm, {config.position} positions, dropout {config.dropout}. "
        f"Source: BPE, {config.source_vocabulary:,} tokens; target: {config.target_vocabulary:,} characters. "
        f"At most {config.max_length} tokens a side.",
        "",
        "## Data",
        "",
        f"`{record.get('data', '?')}`: {record.get('licence') or 'licence not recorded'}. "
        f"{record.get('training_pairs', 0):,} training pairs; an English sentence goes to test when the SHA-1 of its "
        "UTF-8 bytes is 0 or 1 modulo 100, to validation when it is 2, else to training.",
        "",
        "## Training",
        "",
        "| what | value |",
        "| --- | --- |",
        f"| steps | {record.get('steps', 0):,} |",
        f"| seed | {record.get('seed', '?')} |",
        f"| validation loss | {_loss(record.get('validation_loss'))} |",
        f"| device, torch | {record.get('device', '?')}, {record.get('torch', '?')} |",
        *(f"| {key.replace('_', ' ')} | {value} |" for key, value in settings.items() if key != "seed"),
        "",
        "The weights are a running average over training, kept at the best validation loss.",
        *(["", str(record["note"])] if "note" in record else []),
        "",
    ]
    if test := record.get("test"):
        lines += ["## Test", "", "| figure | value |", "| --- | --- |"]
        lines += [f"| {key} | {_figure(value)} |" for key, value in test.items()]
        lines += [
            "",
            "Greedy; every translation of a sentence is a reference. The same figures come from",
            "",
        ]
        lines += [
            f"    python -m model evaluate checkpoints/{name} --data {record.get('data', 'FILE.tsv')}",
            "",
        ]
    return "\n".join(lines)


def _figure(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _loss(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4f} nats per target token"
