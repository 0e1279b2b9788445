"""Recurrent encoder-decoder with additive attention (Bahdanau et al., 2015), which the Transformer came after.

Where it differs from the paper, it says so: two states of half the width in the encoder, the gated unit in the form of
torch.nn.GRU, the prediction from s_i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.network.attention import MultiHeadAttention, Weights
from model.network.config import Kind, RecurrentConfig
from model.network.dropout import dropout
from model.network.kernels import with_cache
from model.network.kv_cache import DecoderCache, FixedCache, GrowingCache, LayerCache
from model.network.layers import Embedding
from model.network.lm_head import output
from model.network.masks import Mask
from model.network.network import TwoStacks
from model.network.positions import Unbiased


class Absence(StrEnum):
    """Reason why a recurrent network lacks what a Transformer has, as a sentence."""

    ADDITIVE = "this network scores by vᵀ tanh(W s + U h): it has no queries times keys, no values and no heads apart"
    STATE = "this network is recurrent: it has no residual stream and no norms, its state is passed on by gates"
    UNITS = "this network is recurrent: it has no feed-forward layers, its gates stand in their place"
    ORDER = "this network is recurrent: it reads token after token, so that it needs no positions"


class Gates(NamedTuple):
    """Quantities of a gated recurrent unit, each (batch, position, width): r, z, n and h in the formula of `GRU`."""

    reset: Tensor
    update: Tensor
    candidate: Tensor
    state: Tensor


class GRU(nn.Module):
    """Gated recurrent unit h_t = (1 − z_t) ⊙ n_t + z_t ⊙ h_{t−1} (Cho et al., 2014), in the form of torch.nn.GRU.

    r_t = σ(W_r x_t + U_r h_{t−1}), z_t = σ(W_z x_t + U_z h_{t−1}), n_t = tanh(W_n x_t + r_t ⊙ (U_n h_{t−1})), each with
    biases. The paper (appendix A.1.1) applies r before U_n and swaps z and 1 − z.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.from_input = nn.Linear(inputs, 3 * width)
        self.from_state = nn.Linear(width, 3 * width)
        # Of all positions, for a trace.
        self.reset, self.update, self.candidate, self.states = (nn.Identity() for _ in Gates._fields)

    def forward(
        self,
        x: Float[Tensor, "batch length inputs"],
        real: Bool[Tensor, "batch length"] | None = None,
        backwards: bool = False,
    ) -> Float[Tensor, "batch length width"]:
        """States after each token, read from the left, or `backwards` from the right; padding leaves them as they are.

        real: False on padding; None: no padding.
        """
        steps = list(self.steps(x, real, backwards))
        return self.together(steps[::-1] if backwards else steps)

    def steps(
        self,
        x: Float[Tensor, "batch length inputs"],
        real: Bool[Tensor, "batch length"] | None = None,
        backwards: bool = False,
    ) -> Iterator[Gates]:
        """Gates and state after each token in the order of reading; each waits for the one before."""
        projected, state = self.from_input(x), x.new_zeros(len(x), 1, self.width)
        order = range(x.shape[1])
        for position in reversed(order) if backwards else order:
            here = slice(position, position + 1)
            gates = self.step(projected[:, here], state)
            if real is not None:
                gates = gates._replace(state=torch.where(real[:, here, None], gates.state, state))
            state = gates.state
            yield gates

    def step(self, projected: Float[Tensor, "batch 1 gates"], before: Float[Tensor, "batch 1 width"]) -> Gates:
        """Gates and state after one token. projected: W x of the three gates; before: state before it."""
        reset_x, update_x, candidate_x = projected.chunk(3, dim=-1)
        reset_h, update_h, candidate_h = self.from_state(before).chunk(3, dim=-1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        candidate = torch.tanh(candidate_x + reset * candidate_h)
        return Gates(reset, update, candidate, (1 - update) * candidate + update * before)

    def together(self, steps: Sequence[Gates]) -> Float[Tensor, "batch length width"]:
        """States of all steps, in the order of the text; a trace keeps the gates too."""
        reset, update, candidate, states = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))
        self.reset(reset), self.update(update), self.candidate(candidate)
        text_states: Tensor = self.states(states)
        return text_states


class RecurrentEncoder(nn.Module):
    """Annotations h_j = [→h_j; ←h_j]: states of a unit that reads from the left, and of one from the right (3.2).

    Each is d_model / 2 wide, so that an annotation has d_model channels.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.source_vocabulary, config)
        self.forwards = GRU(config.d_model, config.d_model // 2)
        self.backwards = GRU(config.d_model, config.d_model // 2)
        self.annotations = nn.Identity()

    def forward(self, ids: Int[Tensor, "batch source"], mask: Mask) -> Float[Tensor, "batch source d_model"]:
        x = self.embedding(ids)
        both = self.forwards(x, mask.keys), self.backwards(x, mask.keys, backwards=True)
        return self.annotations(torch.cat(both, dim=-1))


class OneHead(nn.Identity):
    """Quantity of an attention as one head has it: (batch, head, …)."""

    n_heads = 1

    def forward(self, x: Float[Tensor, "batch length channel"]) -> Float[Tensor, "batch 1 length channel"]:
        return x[:, None]


class AdditiveAttention(MultiHeadAttention):
    """Alignment of a decoder's states with annotations (section 3.1 and appendix A.1.2), in three steps.

    Energies e_ij = vᵀ tanh(W s_{i−1} + U h_j), weights α_ij = softmax_j(e_ij), context c_i = Σ_j α_ij h_j. State s_i
    needs c_i, and c_{i+1} needs s_i: positions are computed one after the other, in training too.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        nn.Module.__init__(self)
        self.from_state = nn.Linear(config.d_model, config.d_model, bias=False)  # W
        self.from_annotation = nn.Linear(config.d_model, config.d_model)  # U
        self.energy = nn.Linear(config.d_model, 1, bias=False)  # v
        self.softmax, self.biased = Weights(), Unbiased()
        # Of all positions, for a trace: W s, U h, e, α and c.
        self.query, self.key, self.energies, self.weights = OneHead(), OneHead(), OneHead(), OneHead()  # type: ignore[assignment]
        self.context = nn.Identity()

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        mask: Mask,
        before: GrowingCache | None,
        annotations: FixedCache | None,
        unit: AttendingGRU,
    ) -> Float[Tensor, "batch target both"]:
        """States beside contexts at the tokens `x`. before: states of earlier tokens. annotations: cache of U h."""
        key = self.from_annotation(memory) if annotations is None else annotations(self._keys, memory)[0]
        visible = mask.visible(x.shape[1], memory.shape[1], x.device)[:, 0]
        state = _newest(before) if before is not None and before.length else unit.first(memory)
        projected = unit.from_input(x)
        steps: list[Gates] = []
        alignments: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for position in range(x.shape[1]):
            here = slice(position, position + 1)
            query, seen = self.from_state(state), visible[:, here]
            energies = self.energy(torch.tanh(query + key)).mT
            weights = self.softmax(energies.masked_fill(~seen, -torch.inf), seen)
            context = weights @ memory
            steps.append(unit.step(projected[:, here] + unit.from_context(context), state))
            state = steps[-1].state
            alignments.append((query, energies, weights, context))
        queries, energies, weights, contexts = (torch.cat(parts, dim=1) for parts in zip(*alignments, strict=True))
        self.query(queries), self.key(key), self.energies(energies), self.weights(weights)
        states = unit.together(steps)
        if before is not None:
            before(lambda new, _first: (new[:, None], new[:, None, :, :0]), states)
        return torch.cat([states, self.context(contexts)], dim=-1)

    def _keys(self, memory: Tensor, _first: int) -> tuple[Tensor, Tensor]:
        key = self.from_annotation(memory)
        return key, key[..., :0]


def _newest(states: GrowingCache) -> Float[Tensor, "batch 1 d_model"]:
    """State after the newest token of a cache, which keeps states in the place of keys."""
    assert states.room is not None
    return states.room[0][:, 0, states.length - 1 : states.length]


class AttendingGRU(GRU):
    """Unit of the decoder: its input is a token beside a context, its first state s_0 = tanh(W_s ←h_1) (A.2.2)."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config.d_model, config.d_model)
        self.from_context = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.from_source = nn.Linear(config.d_model // 2, config.d_model)

    def first(self, memory: Float[Tensor, "batch source d_model"]) -> Float[Tensor, "batch 1 d_model"]:
        """State before the first token: of the unit that has read the source from the right."""
        return torch.tanh(self.from_source(memory[:, :1, memory.shape[-1] // 2 :]))


class RecurrentLayer(nn.Module):
    """Attention and gated unit of the decoder, each of which reads what the other has just computed."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.cross_attention = AdditiveAttention(config)
        self.unit = AttendingGRU(config)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        memory_mask: Mask,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch target both"]:
        """States beside contexts at the tokens `x`."""
        caches = (None, None) if cache is None else (cache.self_attention, cache.cross_attention)
        return self.cross_attention(x, memory, memory_mask, *caches, self.unit)


class Readout(nn.Module):
    """Deep output t_i = maxout(U s_i + V y_{i−1} + C c_i), the larger of each two channels (A.2.2).

    The appendix has s_{i−1} in the place of s_i; the text (equation 4) conditions on s_i.
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        width = config.d_model
        self.from_state = nn.Linear(width, 2 * width)
        self.from_token, self.from_context = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))

    def forward(
        self,
        states: Float[Tensor, "batch target d_model"],
        x: Float[Tensor, "batch target d_model"],
        contexts: Float[Tensor, "batch target d_model"],
    ) -> Float[Tensor, "batch target d_model"]:
        both = self.from_state(states) + self.from_token(x) + self.from_context(contexts)
        return both.unflatten(-1, (-1, 2)).amax(dim=-1)


class RecurrentDecoder(nn.Module):
    """Decoder that aligns each target token with the source and passes on a state (section 3.1)."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.embedding = Embedding(config.target_vocabulary, config)
        self.layers = nn.ModuleList([RecurrentLayer(config)])
        self.readout = Readout(config)

    def forward(
        self,
        ids: Int[Tensor, "batch target"],
        mask: Mask,
        memory: Float[Tensor, "batch source d_model"],
        memory_mask: Mask,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Last states. mask: without effect, as a recurrent network cannot read later tokens."""
        x = self.embedding(ids)
        (layer,) = with_cache(self.layers, cache, ids.numel())
        states, contexts = layer(x, memory, memory_mask).chunk(2, dim=-1)
        return dropout(self.readout(states, x, contexts), self.dropout, self.training)


_LAYERS = ("encoder.layers.0", "decoder.layers.0")
MISSING: dict[str, str] = {
    "positions": Absence.ORDER,
    "stream": Absence.STATE,
    **{
        f"decoder.layers.0.cross_attention.{name}": Absence.ADDITIVE
        for name in ("scores", "scaled", "masked", "value", "heads", "output")
    },
    **{f"{layer}.self_attention.{name}": Absence.STATE for layer in _LAYERS for name in ("scores", "heads", "weights")},
    **{
        f"{layer}.{block}_block.{name}": Absence.STATE
        for layer in _LAYERS
        for block in ("self_attention", "cross_attention", "feed_forward")
        for name in ("norm.output", "residual")
    },
    **{f"{layer}.feed_forward.{name}": Absence.UNITS for layer in _LAYERS for name in ("hidden", "activation")},
    **{f"{stack}.norm.output": Absence.STATE for stack in ("encoder", "decoder")},
}


class Recurrent(TwoStacks):
    """Recurrent encoder-decoder with additive attention, behind the interface of the encoder-decoder Transformer.

    missing: reasons, by quantity of a Transformer that it does not have.
    """

    kind: Kind = "recurrent"
    missing = MISSING

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.encoder = RecurrentEncoder(config)
        self.decoder = RecurrentDecoder(config)
        self.output = output(config)
        self.initialise()
        self.tie()
