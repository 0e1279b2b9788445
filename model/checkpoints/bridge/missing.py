"""Reasons why a quantity does not exist in a bridged model."""

from __future__ import annotations

from enum import StrEnum

from model.network.experts import NO_UNITS


class Reason(StrEnum):
    """Reason why a quantity does not exist, as a sentence."""

    OUTSIDE = "this model computes its attention by code of its own: only its weights can be seen"
    STEPS = "this model's attention takes a step that is not known here: only its weights can be seen"
    SINK = "this model's softmax counts a sink of each head: its weights and the sink's can be seen, not the steps"
    UNITS = "this model's feed-forward network is of another form than activation(x W₁) W₂, gated or not"
    EXPERTS = NO_UNITS
    FLOW = "no module of this model was found to compute exactly this"
    EMBEDDING = "what enters this model's first layer is not the sum of a token's row and a position's"
    WIDTH = "what this model multiplies by for its logits is not as wide as its stream: something stands between them"
    OUTPUT = "this model has no logits: it was opened without an output for words"
    HEADS = "which rows of this model's matrices make which head's queries, keys or values could not be told apart"
    SEVERAL = "this model makes its queries, keys or values in several steps: no one matrix makes them from the stream"
    WRITTEN = "the matrix by which this model writes its heads to the stream was not found"
