"""Blocks are those that computed, in their order, with the weights, shapes and operations of the modules that ran."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.blocks import blocks, rows
from model.network.kernels import plain_kernels
from model.network.layers import FeedForward, Residual
from model.network.norms import Norm
from model.network.transformer import Network, build
from tests.model.examples import SOURCE, TARGET, config, network, one_stack, traced

MODELS = {
    "pre": lambda: network(norm_placement="pre", tied_embeddings="output"),
    "post": lambda: network(norm_placement="post", n_decoder_layers=1, n_key_value_heads=1),
    "sandwich": lambda: network(norm_placement="sandwich", embedding_norm=True, activation="swiglu", position="alibi"),
    "bare": lambda: network(norm="none", residual=False, bias=False, heads="full", position="learned"),
    "inputs": lambda: build(config(source_vocabulary=13, tied_embeddings="all")).eval(),
    "decoder": lambda: one_stack("decoder-only", norm_placement="pre", norm="rms", qk_norm=True),
    "relative": lambda: network(norm_placement="pre", position="relative", scale_output=True, head_width=6),
    "masked": lambda: one_stack("encoder-only", output_head="transform", output_bias=True, tied_embeddings="output"),
    "headless": lambda: one_stack("encoder-only", output_head="none", attention_bias="inputs", bias=False),
    "encoder": lambda: one_stack("encoder-only", norm_placement="post", embedding_norm=True),
}


@pytest.fixture(params=MODELS)
def model(request) -> Network:
    return MODELS[request.param]()


def inputs(model: Network) -> tuple[torch.Tensor, ...]:
    return (SOURCE, TARGET) if model.kind == "encoder-decoder" else (SOURCE,)


def test_blocks_have_the_models_parameters_and_the_operations_that_torch_counts(model):
    with plain_kernels(), FlopCounterMode(display=False) as counter:
        model(*inputs(model))
    counted = {
        path.partition(".")[2]: sum(operations.values()) for path, operations in counter.get_flop_counts().items()
    }
    found = blocks(traced(model))
    for block in found:
        assert block.flops == counted.get(block.path, 0), block.path
    assert sum(block.flops for block in found) == counter.get_total_flops()
    assert sum(block.parameters for block in found) == model.parameter_count()
    assert len({block.path for block in found}) == len(found)


def test_blocks_stand_in_the_order_in_which_their_modules_finish(model):
    finished: list[str] = []
    kinds = (Norm, Residual, FeedForward)
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        named = name in ("self_attention", "cross_attention", "embedding") or (hasattr(module, "logits") and path)
        if isinstance(module, kinds) or named:
            module.register_forward_hook(lambda *_, path=path: finished.append(path))
    with torch.inference_mode():
        model(*inputs(model))
    # The norm of an embedding's sum is inside of the embedding, and drawn after it.
    expected = [path for path in finished if ".embedding." not in path]
    found = [block.path for block in blocks(traced(model))]
    assert [path for path in found if ".embedding." not in path] == expected
    for norm in (path for path in finished if ".embedding." in path):
        assert found.index(norm) == found.index(norm.partition(".output.")[0]) + 1


def test_shapes_are_those_that_the_modules_read_and_give(model):
    read, given = {}, {}

    def keep(path):
        def hook(_module, arguments, output):
            read[path], given[path] = [tuple(x.shape[1:]) for x in arguments if torch.is_tensor(x)], output.shape[1:]

        return hook

    found = blocks(traced(model))
    for block in found:
        model.get_submodule(block.path).register_forward_hook(keep(block.path))
    with torch.inference_mode():
        model(*inputs(model))
    for block in found:
        assert list(block.inputs.values()) == read[block.path], block.path
        assert block.shape == tuple(given[block.path]), block.path
        own = dict(model.get_submodule(block.path).named_parameters(remove_duplicate=False))
        assert block.weights.items() <= {name: tuple(weight.shape) for name, weight in own.items()}.items()


def test_a_tied_matrix_counts_where_it_is_first_used():
    found = {block.path: block for block in blocks(traced(MODELS["pre"]()))}
    matrix = 13 * 16
    assert (found["output"].parameters, found["output"].tied) == (0, matrix)
    assert (found["decoder.embedding"].parameters, found["decoder.embedding"].tied) == (matrix, 0)


ROWS = {
    "pre": ["norm", "self-attention", "residual"],
    "post": ["self-attention", "residual", "norm"],
    "sandwich": ["norm", "self-attention", "norm", "residual"],
    "bare": ["self-attention", "residual"],
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_a_sublayer_with_its_norms_where_they_compute(name):
    found = blocks(traced(MODELS[name]()))
    together = rows(found)
    assert sorted(number for row in together for number in row) == list(range(len(found)))
    assert [found[number].kind for number in together[1]] == ROWS[name]
    assert found[together[0][0]].kind == "embedding"
    last = [found[number].kind for number in together[-1]]
    assert last == (["norm", "output"] if name in ("pre", "sandwich") else ["output"])
    encoder = [row for row in together if found[row[0]].stack == "encoder"]
    assert all(found[number].kind != "output" for row in encoder for number in row)  # claim 33
