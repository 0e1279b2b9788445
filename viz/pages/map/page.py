"""Map: the whole model as one picture of what it computes on this input."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from model.analysis.blocks import Block, blocks, elsewhere, total_flops
from model.analysis.downsample import mean_norm
from model.inference.text_model import TextModel
from model.message import Message
from model.network.layers import BLOCKS, Residual
from model.network.recurrent import GRU, AdditiveAttention, AttendingGRU, Readout, RecurrentEncoder
from viz.components.view import live
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.pages.map import blocks as of_blocks
from viz.pages.map import kv_cache
from viz.pages.map.components import ModelMap
from viz.pages.map.pictures import Pictures
from viz.pages.map.text import BLOCK_NAMES, flops_text, place_name, shape_text
from viz.render.grouping import place_of
from viz.render.view import view
from viz.state.opened_page import open_page
from viz.state.session import Key, Parameter, choice, current_session
from viz.state.token_groups import merged
from viz.ui.parts import Drawing, Placed, Views, data_table, explanation, frame_of, under_figures
from viz.ui.plots import caption

if TYPE_CHECKING:
    from viz.state.inputs import Inputs


class Part(StrEnum):
    """Keys of this page's components, and of the page to which a click leads."""

    MAP = "model_map"
    EXPLANATION = "map_explanation"
    DATA = "map_data"


SCALES = ("one", "largest")


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted."""
    place = st.container()
    cache = kv_cache.place(model)
    words, plot = None, None
    if cache is not None and (cache.open or current_session().saving):
        words, plot = cache.container(), cache.container()
    data = under_figures(partial(show_explanation, model), Part.DATA)

    def views(model: TextModel) -> Drawing:
        session = current_session()
        session.selection.side = "target" if session.trace.target_tokens else "source"
        inputs = session.inputs
        pictures = Pictures(inputs.trace, inputs.comparison, session.differing, merged(session))
        query = None if session.address.get(Parameter.QUERY) is None else session.selection.query
        picture = model_map(inputs, pictures, query, choice(SCALES, SCALES[0], Key.SCALE))
        mounts: list[Placed] = [(place, view(Part.MAP, picture, open=on_open, token=on_token, scale=on_scale))]
        chart = kv_cache.chart_of(session, model) if plot is not None else None
        if plot is not None and chart is not None:
            mounts.append((plot, view("map_kv_cache_chart", chart)))
        yield mounts

        def rest() -> None:
            if words is not None:
                kv_cache.tell(words, session, model)
            data_table(Part.DATA, lambda: table(model, blocks(inputs.trace), pictures), "map", place=data)

        return rest

    return views


def model_map(inputs: Inputs, pictures: Pictures, query: int | None = None, scale: str = SCALES[0]) -> ModelMap:
    """The model block by block. query: position whose prediction is shown, see `predicted_place`."""
    model, trace, comparison = inputs.model, inputs.trace, inputs.comparison
    block_list, guess = blocks(trace), of_blocks.NOTHING
    if model.predicts:
        chosen = of_blocks.predicted_place(trace, model, query)
        guess = of_blocks.predictions(trace, comparison, model, chosen)
        guess |= {"position": place_of(pictures.merged.get(guess["side"]), guess["position"])}
    note = Message("matrix products on this input: {flops}", flops=flops_text(total_flops(trace, block_list)))
    sentence = Message("read from bottom to top, and within a row from left to right")
    outputs = [block.output for block in block_list if block.kind != "output"]
    if comparison and all(comparison.counterpart(each) is None for each in outputs):
        sentence = Message("the pinned model is of other shapes inside: no block can be compared")
    changed = zip(block_list, of_blocks.changes(comparison, block_list), strict=True)
    described = {
        "stacks": of_blocks.stacks(trace, block_list, pictures.merged),
        "blocks": [of_blocks.describe(block, model, pictures, changes) for block, changes in changed],
        "predictions": guess,
        "summary": of_blocks.summary(trace, model, block_list),
        "bypass": model.config.residual,
        "parallel": model.config.parallel,
        "differing": pictures.differing,
        "scale": scale,
        "top": pictures.top if pictures.differing else 1.0,
    }
    alt, words = of_blocks.alternative(model, guess, note), of_blocks.words(pictures.differing)
    name, finding = Message("The whole model"), of_blocks.finding(trace, model, chosen, guess) if model.predicts else ""
    if comparison and pictures.differing and (changed_most := of_blocks.most_changed(comparison)):
        finding, sentence = changed_most, of_blocks.units_of_change()
    above = caption(inputs, name, f"map-{model.name}", note, sentence, alt, about(model), finding)
    return ModelMap(above, described, [pictures.of(block) for block in block_list], words=words)


def about(model: TextModel) -> About:
    """The map in a sentence: what a block does to the stream, and how thick a line is."""
    sentence = Message(
        "Each block reads the stream at its left and adds to it; a line is as thick as its vectors are long."
    )
    config, added = model.config, r"x + \mathrm{Sublayer}(x)"
    if not config.residual:
        sentence = Message("Each block writes what the next one reads; a line is as thick as its vectors are long.")
        added = r"\mathrm{Sublayer}(x)"
    if config.kind == "recurrent":
        return About(
            sentence,
            list(RECURRENT_FORMULAS),
            [GRU, mean_norm],
            meaning=Message("Each state is made of the one before it, so one token must wait for the other."),
        )
    formulas = [rf"x \leftarrow {added}", r"\text{thickness } \sim \tfrac1n \sum_p \lVert x_p \rVert"]
    return About(
        sentence,
        formulas,
        [BLOCKS[config.norm_placement], mean_norm],
        meaning=Message("Follow a line upwards to see how much each block adds to what came in."),
    )


RECURRENT_FORMULAS = (
    r"h_j = [\overrightarrow{h}_j;\ \overleftarrow{h}_j]",
    r"c_i = \sum_j \alpha_{ij} h_j, \qquad \alpha_i = \mathrm{softmax}_j\left(v^\top \tanh(W s_{i-1} + U h_j)\right)",
    r"s_i = \mathrm{GRU}(y_{i-1}, c_i;\ s_{i-1})",
)


def show_recurrent() -> None:
    """Explanation of the recurrent network."""
    text = _(
        "Bahdanau et al., *Neural Machine Translation by Jointly Learning to Align and Translate*, section 3, with the "
        "numbers of this input. Tokens enter at the bottom. One gated unit reads the source from the left and one from "
        "the right; their states side by side are the annotations. Before each target token the attention weighs the "
        "annotations by how well they fit the decoder's state, and the decoder's unit reads their weighted sum beside "
        "the token. Of a unit its states are shown, a token a row. This is the code that has just run:"
    )
    plain = _(
        "Two networks read a text word by word, one from each side; a third writes the translation. Before each word "
        "it looks back at the source, and here is where."
    )
    explanation(
        Part.EXPLANATION,
        plain,
        RECURRENT_FORMULAS,
        text,
        GRU,
        RecurrentEncoder,
        AdditiveAttention,
        AttendingGRU,
        Readout,
    )


def show_explanation(model: TextModel) -> None:
    network = model.network
    if model.kind == "recurrent":
        return show_recurrent()
    stacks = [stack for stack in (getattr(network, "encoder", None), getattr(network, "decoder", None)) if stack]
    parts = [type(network), *(type(part) for stack in stacks for part in (stack, stack.layers[0]))]
    explanation(
        Part.EXPLANATION,
        _(
            "Text enters at the bottom as vectors and leaves at the top as probabilities of the next token. In "
            "between, attention lets tokens look at each other, feed-forward networks work on each alone, and every "
            "block adds its result to the stream."
        ),
        [r"x \leftarrow x + \mathrm{Sublayer}(x)", r"P(\text{next}) = \mathrm{softmax}(x W^\top)"],
        _(
            "Layers, heads, units, experts and positions count from 1 on every page; names of tensors are the model's "
            "own, and count from 0, as p does in the formulas of positions."
        )
        + " "
        + _(
            "Vaswani et al., *Attention Is All You Need*, section 3 and figure 1, with the numbers of this input. "
            "Tokens enter at the bottom. The line on the left of a stack is the residual stream: each block reads it "
            "and adds to it, at ⊕. A line is as thick as the mean norm of the vectors that flow there. "
            "An attention shows a map for each head, hatched where it is masked; a norm the mean (thin) and the "
            "deviation of what it reads, over the positions; a feed-forward network the mean size of its activations, "
            "neighbouring units together; a mixture of experts what its router gives each token, an expert a row. "
            "Above 64 tokens a cell of a thumbnail is the largest of those it stands for. "
            "Keys and values of cross-attention come from the top of the encoder, which has no softmax. "
            "This is the code that has just run:"
        ),
        *dict.fromkeys([*parts, BLOCKS[model.config.norm_placement], Residual]),
    )


def table(model: TextModel, block_list: list[Block], pictures: Pictures) -> pd.DataFrame:
    """A row for each block, and one for the parameters that are in none."""
    norm = Message("mean norm of what it gives")
    columns: dict[str, Any] = {
        Message("block"): [place_name(block) for block in block_list],
        Message("kind"): [BLOCK_NAMES[block.kind] for block in block_list],
        Message("path"): [block.path for block in block_list],
        Message("reads"): [", ".join(shape_text(shape) for shape in block.inputs.values()) for block in block_list],
        Message("gives"): [shape_text(block.shape) for block in block_list],
        Message("parameters"): [block.parameters for block in block_list],
        Message("tied"): [block.tied for block in block_list],
        "FLOP": [block.flops for block in block_list],
        norm: [pictures.size(block) for block in block_list],
    }
    if pictures.comparison:
        columns[Message("{name}, pinned", name=norm)] = [pictures.pinned_size(block) for block in block_list]
        columns[Message("mean norm of the change")] = [pictures.change(block) for block in block_list]
    frame = frame_of(columns)
    if rest := elsewhere(model.network, block_list):
        frame.loc[len(frame), [_("block"), _("parameters")]] = [_("in no block"), rest]
    return frame


def on_open(clicked: dict[str, Any]) -> None:
    """A click on a block leads to its page, where its stack, its layer, its head, its part of the page are chosen."""
    session = current_session()
    block_list = blocks(session.trace)
    block = block_list[int(clicked["block"])]
    if block.layer is not None:
        session.select(layer=block.layer)
    if "attention" in block.kind and clicked["head"] is not None:
        session.select(head=int(clicked["head"]))
    two = len({each.stack for each in block_list}) > 1
    choices = of_blocks.choices_at(block, two)
    session.query_side = choices.get("side", session.query_side)
    open_page(of_blocks.PAGES[block.kind], choices)


@live
def on_token(clicked: dict[str, Any]) -> None:
    """A click on a token of the stack that predicts makes it the query, whose prediction is then shown; of a run
    that is one, its last.
    """
    session = current_session()
    runs, at = merged(session).get(clicked["side"]), int(clicked["position"])
    session.select(query=at if runs is None else runs.of(min(at, len(runs) - 1))[-1])


@live
def on_scale(clicked: str) -> None:
    current_session().address.set(Key.SCALE, clicked)
