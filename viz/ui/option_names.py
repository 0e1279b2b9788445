"""What the options of a config and of a training are called on their fields."""

from __future__ import annotations

from viz.i18n.catalogue import _


def option_name(name: str) -> str:
    """An option in words."""
    return {**_of_networks(), **_of_trainings()}[name]


def _of_networks() -> dict[str, str]:
    return {
        "d_model": _("Width"),
        "n_heads": _("Heads"),
        "n_key_value_heads": _("Key and value heads"),
        "n_encoder_layers": _("Encoder layers"),
        "n_decoder_layers": _("Decoder layers"),
        "d_ff": _("Feed-forward units"),
        "dropout": _("Dropout"),
        "attention_dropout": _("Dropout of weights"),
        "activation_dropout": _("Dropout of units"),
        "max_length": _("Longest text"),
        "position": _("Positions"),
        "position_base": _("Base of wavelengths"),
        "position_buckets": _("Distances apart"),
        "position_reach": _("Farthest distance"),
        "rotary_channels": _("Turned channels"),
        "rotary_stretch": _("Stretch"),
        "rotary_short": _("Not stretched below"),
        "rotary_long": _("Stretched above"),
        "window": _("Window"),
        "separator": _("Separator"),
        "embedding_norm": _("Norm of embeddings"),
        "heads": _("Width of a head"),
        "head_width": _("Channels of a head"),
        "qk_norm": _("Norm of queries and keys"),
        "norm": _("Norm"),
        "norm_placement": _("Place of the norm"),
        "last_norm": _("Last norm"),
        "residual": _("Residual"),
        "parallel": _("Blocks side by side"),
        "norm_epsilon": _("Epsilon"),
        "scale_embedding": _("Scale embeddings"),
        "scale_attention": _("Scale scores"),
        "activation": _("Activation"),
        "tied_embeddings": _("Tied embeddings"),
        "bias": _("Biases"),
        "attention_bias": _("Biases of attention"),
        "output_head": _("Output"),
        "output_bias": _("Bias of logits"),
        "scale_output": _("Scale the output"),
    }


def _of_trainings() -> dict[str, str]:
    return {
        "epochs": _("Epochs"),
        "steps": _("Steps"),
        "batch_tokens": _("Tokens of a batch"),
        "accumulation": _("Batches of a step"),
        "rate": _("Learning rate"),
        "warmup": _("Warm-up"),
        "schedule": _("Schedule"),
        "label_smoothing": _("Label smoothing"),
        "weight_decay": _("Weight decay"),
        "clip": _("Clip gradients at"),
        "undo_merges": _("Words cut anew"),
        "average": _("Average of weights"),
        "average_last": _("Average of the last"),
        "validate_every": _("Validate every"),
        "patience": _("Patience"),
        "precision": _("Precision"),
        "compile": _("Compile"),
        "seed": _("Seed"),
    }
