"""The model card of a checkpoint: a README.md made from what training and evaluation recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.network.config import TWO_STACKS, TransformerConfig
from model.options import present_names
from model.training.settings import TRAINING_OPTIONS

WORDS = {"encoder-decoder": "Encoder-decoder", "decoder-only": "Decoder-only", "encoder-only": "Encoder-only"}
UNUSUAL = ("accumulation", "average_last", "compile")  # settings that are told where they are on
SPLIT = (
    "what is kept for the test has 0 or 1 as the SHA-1 of its UTF-8 bytes modulo 100, for validation {numbers}; "
    "the rest is trained on"
)


def card(name: str, config: TransformerConfig, parameters: int, record: Mapping[str, Any]) -> str:
    """Text of the card. parameters: their number. record: content of training.json, whose `tests` has figures by the
    options of evaluate.
    """
    settings = present_names(record.get("settings", {}), TRAINING_OPTIONS)
    lines = [
        f"# {name}",
        "",
        f"{_network(config, parameters)}, dropout {config.dropout}. {_vocabularies(config)}",
        "",
        "## Data",
        "",
        f"`{record.get('data', '?')}`: {record.get('licence') or 'licence not recorded'}. {_split(record)}",
        "",
        "## Training",
        "",
        "| what | value |",
        "| --- | --- |",
        f"| steps | {record.get('steps', 0):,} |",
        f"| seed | {record.get('seed', '?')} |",
        f"| validation loss | {_loss(record.get('validation_loss'))} |",
        f"| device, torch | {record.get('device', '?')}, {record.get('torch', '?')} |",
        *(f"| {name.replace('_', ' ')} | {value} |" for name, value in _chosen(settings).items()),
        "",
        f"The weights are {_weights(settings, last=record.get('kept') == 'last')}.",
        *(["", str(record["note"])] if "note" in record else []),
        "",
    ]
    if test := record.get("test"):
        part = "Validation" if "training_characters" in record else "Test"  # a running text has no third part
        lines += [f"## {part}", "", "| figure | value |", "| --- | --- |"]
        lines += [f"| {key} | {_figure(value)} |" for key, value in test.items()]
        how = "Greedy; every translation of a sentence is a reference. " if "BLEU" in test else ""
        lines += ["", f"{how}The same figures come from", ""]
        command = f"    python -m model evaluate checkpoints/{name} --data {record.get('data', 'FILE.tsv')}"
        lines += [command, ""]
        for options, figures in record.get("tests", {}).items():
            numbers = ", ".join(f"{key} {_figure(value)}" for key, value in figures.items() if isinstance(value, float))
            lines += [f"With `{options}`: {numbers}.", ""]
    return "\n".join(lines)


def _chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for the table: without those that are off, and without epochs where steps were counted."""
    listed = {"seed", "steps", *(["epochs"] if settings.get("steps") else [])}  # in the table already
    return {
        name: settings[name]
        for name, option in TRAINING_OPTIONS.items()
        if name in settings
        and name not in listed
        and settings[name] is not None
        and not (name in UNUSUAL and settings[name] == option.default)
    }


def _network(config: TransformerConfig, parameters: int) -> str:
    if config.kind == "recurrent":
        return (
            f"Recurrent encoder-decoder with additive attention (Bahdanau et al., 2015), {parameters:,} parameters: "
            f"bidirectional GRU, {config.d_model // 2} channels each way, and a GRU of {config.d_model} that writes"
        )
    return (
        f"{WORDS[config.kind]} Transformer, {parameters:,} parameters: {_layers(config)}, d_model {config.d_model}, "
        f"{config.n_heads} head{'' if config.n_heads == 1 else 's'}, {_feed_forward(config)}, "
        f"{config.norm_placement}-norm, {config.position} positions"
    )


def _feed_forward(config: TransformerConfig) -> str:
    if config.n_experts is None:
        return f"d_ff {config.d_ff}"
    return f"{config.n_experts} experts of d_ff {config.d_ff}, {config.experts_per_token} for each token"


def _layers(config: TransformerConfig) -> str:
    counts = [count for count in (config.n_encoder_layers, config.n_decoder_layers) if count]
    return f"{' + '.join(map(str, counts))} layer{'' if counts == [1] else 's'}"


def _vocabularies(config: TransformerConfig) -> str:
    reads = f"At most {config.max_length} tokens"
    if config.kind not in TWO_STACKS:
        return f"Vocabulary: {config.vocabulary:,} tokens. {reads}."
    return (
        f"Vocabulary: {config.source_vocabulary:,} source, {config.target_vocabulary:,} target tokens. {reads} a side."
    )


def _split(record: Mapping[str, Any]) -> str:
    shared, every = record.get("validation_overlap") or (0, 0)
    seen = f" Of {every:,} texts for validation {shared:,} are trained on too: its loss is too low." if shared else ""
    return _parts(record) + seen


def _parts(record: Mapping[str, Any]) -> str:
    file = record.get("validation_data")
    if "training_characters" in record:
        percent = record.get("validation_percent") or 10
        first, rest = ("All", f"`{file}` is") if file else ("The first", f"the last {percent} % are")
        return f"{first} {record['training_characters']:,} characters; {rest} for validation."
    count = record.get("training_pairs") or record.get("training_sentences", 0)
    last = 1 + (record.get("validation_percent") or 1)
    split = SPLIT.format(numbers="2" if last == 2 else f"2 to {last}")
    rest = f"`{file}` is for validation, and nothing is kept for a test" if file else f"of the sources, {split}"
    return f"{count:,} training {'pairs' if 'training_pairs' in record else 'sentences'}; {rest}."


def _weights(settings: Mapping[str, Any], last: bool) -> str:
    phrase = "as it was after the last step" if last else "kept at the best validation loss"
    if count := settings.get("average_last"):
        return f"the mean of those at the last {count} validations, {phrase}"
    if settings.get("average") == 0:
        return "those of the last step" if last else f"those {phrase}"
    return f"a running average over training, {phrase}"


def _figure(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _loss(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{f'{value:.4f}' if value >= 0.00005 else 'below 0.0001'} nats per predicted token"
