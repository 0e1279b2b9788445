"""Direct logit attribution: what each block and each head adds to the logits of one position (Elhage et al., 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.logit_lens import last_stack
from model.analysis.residual import blocks
from model.analysis.weights.heads import head_weights, unclear
from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.norms import Norm
from model.network.transformer import Network
from model.runtime.device import exact
from model.runtime.errors import MissingQuantityError

ATTENTIONS = ("self_attention", "cross_attention")
# Largest errors of a sum that rounding alone explains, relative to its parts.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Part:
    """Part of the logits: "embedding", a block by its sublayer, "bias", what every text gets, or "sum", all of them.

    layer, head: of a block, of a head, or of an attention's bias; else None.
    """

    name: str
    layer: int | None = None
    head: int | None = None
    is_bias: bool = False


@dataclass(frozen=True)
class Attribution:
    """Logits that each part adds, minus their mean over the vocabulary: softmax does not see the mean.

    parts: of each row, the last one their sum. error: difference of that sum from what it should be, the model's own
    logits, or those of the attentions whose heads are added up, where rounding explains it least. allowed: error that
    rounding explains there.
    """

    parts: list[Part]
    logits: Float[Tensor, "part vocabulary"]
    error: float
    allowed: float

    @property
    def holds(self) -> bool:
        """True if the parts add up."""
        return self.error <= self.allowed < math.inf  # False for NaN


class FrozenNorm:
    """A norm with the mean and deviation that it had for x (d_model): γ ⊙ (v − v̄) / σ(x), without v̄ in RMSNorm.

    So Norm(x) is this of x, plus β; and this of a sum is the sum of it.
    """

    def __init__(self, norm: Norm, x: Float[Tensor, d_model]) -> None:
        x = exact(x)
        mean, std, self.centred = Norm.mean(x), Norm.std(x), norm.centred
        self.scale = exact(norm.weight.detach()).to(x.device) / norm.divisor(mean, std)
        self.shift = torch.zeros_like(x) if norm.bias is None else exact(norm.bias.detach()).to(x.device)

    def __call__(self, vectors: Float[Tensor, "part d_model"]) -> Float[Tensor, "part d_model"]:
        return (vectors - vectors.mean(dim=-1, keepdim=True) if self.centred else vectors) * self.scale


class FrozenStream:
    """Residual stream of the stack that writes, at one position, with every norm's statistics frozen: so it is linear
    in what the blocks add, in post-norm stacks too.

    Raises:
        MissingQuantityError: the model does not show its stream or its norms.
    """

    def __init__(self, trace: Trace, position: int) -> None:
        config, self.stack = trace.network.config, last_stack(trace.network)
        self.trace, self.position, self.residual = trace, position, config.residual
        self.blocks = blocks(config, self.stack)
        post = config.norm != "none" and config.norm_placement == "post"
        self._norms = [self._norm(part.after.removesuffix(".output")) if post else None for part in self.blocks]
        self._final = self._norm(f"{self.stack}.norm")

    def at(self, name: str) -> Float[Tensor, d_model]:
        """Quantity of this name at the position, in float64."""
        return exact(self.trace[name][..., self.position, :])

    def _norm(self, path: str) -> FrozenNorm | None:
        norm = self.trace.network.get_submodule(path)
        return FrozenNorm(norm, self.trace[f"{path}.input"][self.position]) if isinstance(norm, Norm) else None

    def added_by(self, number: int, vectors: Float[Tensor, "part d_model"]) -> Float[Tensor, "part d_model"]:
        """Vectors that block `number` adds, as the vocabulary's matrix reads them: behind the norms that follow."""
        norm = self._norms[number]
        return self.onward(vectors if norm is None else norm(vectors), number + 1)

    def onward(self, vectors: Float[Tensor, "part d_model"], after: int) -> Float[Tensor, "part d_model"]:
        """Vectors in the stream behind `after` blocks, as they are at its end: scaled by each norm that follows."""
        for norm in self._norms[after:]:
            if not self.residual:
                vectors = torch.zeros_like(vectors)
            vectors = vectors if norm is None else norm(vectors)
        return vectors if self._final is None else self._final(vectors)

    @property
    def shifts(self) -> Float[Tensor, "1 d_model"]:
        """Sum of the β of all these norms, each scaled by those that follow."""
        total = torch.zeros_like(self.at(self.blocks[0].before))[None]
        for number, norm in enumerate(self._norms):
            if norm is not None:
                total = total + self.onward(norm.shift[None], number + 1)
        return total if self._final is None else total + self._final.shift

    def output_norm(self, number: int) -> FrozenNorm | None:
        """Norm on the output of block `number`, of a sandwich."""
        path = self.blocks[number].added.removesuffix(".output")
        return self._norm(path) if path.endswith(".output_norm") else None


@torch.inference_mode()
def block_attribution(trace: Trace, position: int) -> Attribution:
    """Logits that the embedding, each block and the biases add at a position; together they are the model's logits.

    Each part goes the direct way: through the norms behind it, with their statistics frozen, and the output
    (nostalgebraist, 2020; Elhage et al., 2021; McGrath et al., 2023). What it changes in later blocks counts as theirs.

    Raises:
        MissingQuantityError: the model does not show its stream or its norms.
    """
    stream = FrozenStream(trace, position)
    parts = [Part("embedding"), *(Part(block.sublayer, block.layer) for block in stream.blocks)]
    rows = [stream.onward(stream.at(stream.blocks[0].before)[None], 0)]
    rows += [stream.added_by(number, stream.at(block.added)[None]) for number, block in enumerate(stream.blocks)]
    values, nothing = unembedded(trace.network, torch.cat([*rows, stream.shifts]))
    values[-1] += nothing
    if bool(values[-1].any()):
        parts.append(Part("bias", is_bias=True))
    own = trace["output.logits"][position].to(values.dtype)
    return _attribution(trace, [*parts, Part("sum")], values[: len(parts)], [len(parts)], own[None])


@torch.inference_mode()
def head_attribution(trace: Trace, position: int, layer: int) -> Attribution:
    """Logits that each head o_h W_O^h of a layer, and the biases of its attentions, add; together they are those of the
    attentions.

    Raises:
        MissingQuantityError: the model does not show its stream, or its heads apart.
    """
    stream = FrozenStream(trace, position)
    parts: list[Part] = []
    rows: list[Tensor] = []
    whole: list[Tensor] = []
    for number, block in enumerate(stream.blocks):
        if block.layer != layer or block.sublayer not in ATTENTIONS:
            continue
        written, bias = _heads(trace, f"{stream.stack}.layers.{layer}.{block.sublayer}", position)
        if (norm := stream.output_norm(number)) is not None:
            written, bias = norm(written), norm(bias) + norm.shift
        parts += [Part(block.sublayer, layer, head) for head in range(len(written))]
        if bool(bias.any()):
            written = torch.cat([written, bias])
            parts.append(Part(block.sublayer, layer, is_bias=True))
        rows.append(stream.added_by(number, written))
        whole.append(stream.added_by(number, stream.at(block.added)[None]))
    values, _nothing = unembedded(trace.network, torch.cat(rows))
    own, _nothing = unembedded(trace.network, torch.cat(whole))
    return _attribution(trace, [*parts, Part("sum", layer)], values, [len(each) for each in rows], own)


def _heads(trace: Trace, path: str, position: int) -> tuple[Float[Tensor, "head d_model"], Float[Tensor, "1 d_model"]]:
    """Output of each head of an attention at a position, o_h W_O^h, and the bias of W_O."""
    attention = trace.attention_at(path)
    heads = exact(trace[f"{path}.heads"][:, position])
    if getattr(attention, "unclear", None):
        raise MissingQuantityError(f"{path}.output", str(unclear(trace.network)))
    matrices = exact(head_weights(attention, "output")).to(heads.device)
    written = torch.einsum("hc,hcd->hd", heads, matrices)
    bias = getattr(attention.output, "bias", None)
    return written, torch.zeros_like(written[:1]) if bias is None else exact(bias.detach())[None].to(heads.device)


@torch.inference_mode()
def unembedded(
    network: Network, vectors: Float[Tensor, "part d_model"]
) -> tuple[Float[Tensor, "part vocabulary"], Float[Tensor, " vocabulary"]]:
    """Logits of vectors that the output reads, without its bias; and its bias, the logits of 0."""
    weight = next(network.parameters())
    rows = torch.cat([vectors, torch.zeros_like(vectors[:1])]).to(weight.device, weight.dtype)
    with no_recording():
        logits = network.output(rows)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits[:-1] - logits[-1], logits[-1]


def _attribution(trace: Trace, parts: list[Part], values: Tensor, counts: list[int], own: Tensor) -> Attribution:
    """values: (part, vocabulary). counts: how many of them in turn are to add up to each row of `own`."""
    sums = torch.stack([each.sum(dim=0) for each in values.split(counts)])
    sizes = values.abs().sum(dim=0)  # a small logit may be a difference of what is as large as in others
    allowed = TOLERANCES[trace.dtype()] * sizes.maximum(sizes.median()).clamp(min=torch.finfo(sizes.dtype).tiny)
    errors = (sums - own).abs().amax(dim=0)
    place = int((errors / allowed).argmax())  # NaN is above all numbers
    logits = torch.cat([values, values.sum(dim=0, keepdim=True)])
    return Attribution(parts, logits - logits.mean(dim=-1, keepdim=True), float(errors[place]), float(allowed[place]))
