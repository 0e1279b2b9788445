"""Experts of a bridged layer: router, gates, and what each expert computes, recognised by the numbers of a probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import permutations, product
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.checkpoints.bridge.hooks import batched, given_tensors, tensors_of
from model.checkpoints.bridge.modules import (
    GATES,
    MirrorActivation,
    MirrorFeedForward,
    MirrorGatedFeedForward,
    MirrorLinear,
    activation_name,
    frozen,
    module_tensor,
)
from model.checkpoints.bridge.probe import Event, close, is_linear
from model.network.config import Units
from model.network.layers import ACTIVATIONS

PARAMETERS = range(2, 4)  # matrices of an expert


@dataclass(frozen=True)
class ExpertsCall:
    """A call of a module that holds all experts, and the gates that it was given.

    x: (position, d_model). gates: (position, expert), 0 where a token does not go through an expert; of `scaled` ones
    the input of an expert is gate · x, of others its output is multiplied by the gate.
    """

    event: Event
    x: Float[Tensor, "position d_model"]
    gates: Float[Tensor, "position expert"]
    scaled: bool = False

    @property
    def count(self) -> int:
        """Number of experts."""
        return int(self.gates.shape[-1])

    @property
    def chosen(self) -> int:
        """Largest number of experts that a token of the probe goes through."""
        return int((self.gates != 0).sum(dim=-1).max())

    @property
    def per_token(self) -> int:
        """Multiply-adds of a token in matrices of the module's own; 0 where experts are modules inside it."""
        sizes = sum(tensor.numel() for _module, _name, tensor in expert_tensors(self.event.module, self.count))
        given = chosen_and_weights(self.event.inputs)
        share = self.count if given is None else given[0].shape[-1]
        return sizes // self.count * share


def expert_tensors(module: nn.Module, count: int) -> list[tuple[nn.Module, str, Tensor]]:
    """Matrices of all experts (expert, row, column) that a module, or one inside it, keeps together: its holder, its
    name there, and the tensor, which may be flattened (expert · row, column); empty where experts are modules.
    """
    own: list[tuple[nn.Module, str, Tensor]] = [
        (module, name, tensor) for name, tensor in module.named_parameters(recurse=False) if tensor.dim() == 3
    ]
    if own:
        return own if all(len(tensor) == count for *_names, tensor in own) else []
    inner = [
        (child, name, tensor) for child in module.children() for name, tensor in child.named_parameters(recurse=False)
    ]
    flat: list[tuple[nn.Module, str, Tensor]] = [
        each for each in inner if each[2].dim() == 2 and len(each[2]) % count == 0
    ]
    return flat if len(flat) in PARAMETERS and len(flat) == len(inner) and _listed(module) is None else []


def _listed(module: nn.Module) -> list[nn.Module] | None:
    """Modules of the experts, of a list or a dictionary of modules; None: it is no such."""
    if not isinstance(module, nn.ModuleDict | nn.ModuleList):
        return None
    return [child for child in module.children() if next(child.parameters(), None) is not None]


def chosen_and_weights(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor] | None:
    """Numbers (position, k) of the experts of each token, or marks (position, 1, expert), and their weights (position,
    k); None: a call with these inputs was given no such.
    """
    if len(inputs) < 3 or not inputs[0].is_floating_point() or inputs[0].dim() != 2:
        return None
    tokens = len(inputs[0])
    rest = [tensor for tensor in inputs[1:] if tensor.dim() in (2, 3) and len(tensor) == tokens]
    whole = [tensor for tensor in rest if tensor.dtype in (torch.long, torch.int, torch.bool)]
    parts = [tensor for tensor in rest if tensor.is_floating_point()]
    if len(whole) != 1 or len(parts) != 1 or parts[0].dim() != 2:
        return None
    chosen, weights = whole[0], parts[0]
    marked = chosen.dim() == 3 and chosen.shape[:2] == weights.shape
    return (chosen, weights) if marked or chosen.shape == weights.shape else None


def dense_gates(
    chosen: Int[Tensor, "position ..."], weights: Float[Tensor, "position k"], count: int
) -> Float[Tensor, "position expert"]:
    """Gates of all experts; numbers of none of them, as some models have for tokens that skip, count for nothing."""
    if chosen.dim() == 3:
        return (chosen * weights[..., None]).sum(dim=1)
    gates = weights.new_zeros(len(weights), count + 1)
    return gates.scatter_add(1, chosen.long().clamp(max=count), weights)[:, :count]


def experts_call(event: Event, others: Sequence[Event] = ()) -> ExpertsCall | None:
    """Read a module's call as one of a mixture of experts, with its gates; None where it is not one.

    others: calls of the same layer, among which the router is looked for.
    """
    module, given = event.module, chosen_and_weights(event.inputs)
    count = _count(module, None if given is None else given[0])
    if not count or not event.outputs or event.y.shape != event.x.shape:
        return None
    if given is not None:
        return ExpertsCall(event, event.x, dense_gates(*given, count))
    if len(event.inputs) != 1 or not expert_tensors(module, count):
        return None
    for other in others:
        for gates in other.outputs:
            if gates.dim() == 2 and gates.shape == (len(other.x), count) and gates.is_floating_point():
                repeated = (other.x[None] * gates.T[..., None]).flatten(0, 1)
                if close(repeated, event.x):
                    return ExpertsCall(event, other.x, gates, scaled=True)
    return None


def _count(module: nn.Module, chosen: Tensor | None) -> int:
    """Number of experts that a module holds; 0: it holds none."""
    if (listed := _listed(module)) is not None:
        return len(listed)
    own = {len(tensor) for tensor in module.parameters(recurse=False) if tensor.dim() == 3}
    if own:
        return own.pop() if len(own) == 1 else 0
    count = getattr(module, "num_experts", 0)
    return count if chosen is not None and isinstance(count, int) and any(module.children()) else 0


# What one expert computes, found among the ways in which its matrices can be used.


@dataclass(frozen=True)
class Matrix:
    """A matrix (output, input) of each expert. read: the matrix of an expert, and its bias or None, as they are kept.

    part: which half of its rows, 0 or 1; None: all. paired: whether the halves alternate, row by row.
    """

    read: Callable[[int], tuple[Tensor, Tensor | None]]
    turned: bool = False
    part: int | None = None
    paired: bool = False

    def of(self, expert: int) -> MirrorLinear:
        """Matrix of one expert, whose memory it shares."""
        weight, bias = self.read(expert)
        weight = weight.T if self.turned else weight
        if self.part is not None:
            rows = slice(self.part, None, 2) if self.paired else _half(self.part, len(weight))
            weight, bias = weight[rows], None if bias is None else bias[rows]
        return MirrorLinear(weight, bias)


def _half(part: int, rows: int) -> slice:
    return slice(part * rows // 2, (part + 1) * rows // 2)


class OwnGate(nn.Module):
    """The model's own function of the outputs of two matrices, as it applies to halves of one.

    paired: whether the halves alternate.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], paired: bool) -> None:
        super().__init__()
        self.__dict__["_function"], self.paired = function, paired

    def forward(self, hidden: Float[Tensor, "*batch unit"], linear: Float[Tensor, "*batch unit"]) -> Tensor:
        whole = torch.stack([hidden, linear], dim=-1).flatten(-2) if self.paired else torch.cat([hidden, linear], -1)
        units: Tensor = self.__dict__["_function"](whole)
        return units


class OwnGatedFeedForward(MirrorFeedForward):
    """gate(x W, x V) W₂, the gate a function of the model's own (OpenAI, 2025, gpt-oss model card, section 2.2)."""

    def __init__(self, hidden: MirrorLinear, gated: OwnGate, output: MirrorLinear, linear: MirrorLinear) -> None:
        nn.Module.__init__(self)
        self.dropout = 0.0
        self.hidden, self.gated, self.output, self.linear = hidden, gated, output, linear

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        output: Tensor = self.output(self.units(x)["gated"])
        return output

    def units(self, x: Float[Tensor, "*batch d_model"]) -> dict[str, Tensor]:
        hidden, linear = self.hidden(x), self.linear(x)
        return {"gated": self.gated(hidden, linear), "linear": linear, "hidden": hidden}


@dataclass(frozen=True)
class ExpertForm:
    """Computation of each expert. function: the activation; own: the model's function of both halves, in its place.
    factor: of the sum of all experts, where the model has one (NLLB Team, 2022, expert output masking).
    """

    hidden: Matrix
    output: Matrix
    linear: Matrix | None = None
    function: Callable[[Tensor], Tensor] | None = None
    own: Callable[[Tensor], Tensor] | None = None
    factor: float = 1.0

    def network(self, expert: int) -> MirrorFeedForward:
        """The feed-forward network that one expert is."""
        hidden, output = self.hidden.of(expert), self.output.of(expert)
        linear = None if self.linear is None else self.linear.of(expert)
        if self.own is not None and linear is not None:
            return OwnGatedFeedForward(hidden, OwnGate(self.own, self.hidden.paired), output, linear)
        assert self.function is not None
        activation = MirrorActivation(self.function)
        if linear is None:
            return MirrorFeedForward(hidden, activation, output)
        return MirrorGatedFeedForward(hidden, activation, output, linear)

    @property
    def activation(self) -> str:
        """Option that names the activation; "": none does."""
        name = "" if self.function is None else activation_name(self.function)
        return name if self.linear is None else GATES.get(name, "")


def find_form(call: ExpertsCall, inside: Sequence[Event]) -> ExpertForm | None:
    """Form of the experts that gives what the call gave; None: none that is known does. inside: calls within it."""
    width, functions = call.x.shape[-1], _functions(call.event.module, inside)
    for matrices in _matrices(call, inside):
        for inner, output, units in _roles(matrices, width):
            for form in _forms(call.event.module, inner, output, units, functions):
                if (factor := _factor(form, call)) is not None:
                    return replace(form, factor=factor)
    return None


Weight = tuple[Matrix, tuple[int, int]]  # a matrix of each expert, and its shape


def _matrices(call: ExpertsCall, inside: Sequence[Event]) -> Iterator[list[Weight]]:
    """Matrices of each expert, with their shapes, in the shape that they are kept in."""
    module, count = call.event.module, call.count
    listed = _listed(module)
    if listed is None:
        triples = [
            (
                Matrix(_slice(holder, name, count, tensor.shape[-1])),
                (tensor.numel() // count // tensor.shape[-1], tensor.shape[-1]),
            )
            for holder, name, tensor in expert_tensors(module, count)
        ]
        yield triples
        return
    first = next((event for event in inside if event.module in listed), None)
    if first is None:
        return
    names = {inner: name for name, inner in first.module.named_modules()}
    linears = [event for event in inside if first in event.within and is_linear(event)]
    yield [
        (Matrix(_part(listed, names[event.module])), (event.y.shape[-1], event.x.shape[-1]))
        for event in linears
        if isinstance(event.module, nn.Linear)
    ]


def _slice(holder: nn.Module, name: str, count: int, columns: int) -> Callable[[int], tuple[Tensor, Tensor | None]]:
    def read(expert: int) -> tuple[Tensor, Tensor | None]:
        weight, bias = module_tensor(holder, name), module_tensor(holder, f"{name}_bias")
        assert weight is not None
        return weight.view(count, -1, columns)[expert], None if bias is None else bias[expert]

    return read


def _part(experts: list[nn.Module], name: str) -> Callable[[int], tuple[Tensor, Tensor | None]]:
    def read(expert: int) -> tuple[Tensor, Tensor | None]:
        module = experts[expert].get_submodule(name)
        weight = module_tensor(module)
        assert weight is not None
        return weight, module_tensor(module, "bias")

    return read


def _roles(matrices: list[Weight], width: int) -> Iterator[tuple[list[Weight], Matrix, int]]:
    """Ways in which some of the matrices read (unit, d_model) and one writes (d_model, unit), with its units."""
    if len(matrices) not in PARAMETERS:
        return
    for order in permutations(matrices):
        for turns in product((False, True), repeat=len(order)):
            turned = [
                (Matrix(matrix.read, turn), shape[::-1] if turn else shape)
                for (matrix, shape), turn in zip(order, turns, strict=True)
            ]
            *inner, (output, (rows, units)) = turned
            if rows == width and all(shape[1] == width for _m, shape in inner) and _fit(inner, units):
                yield inner, output, units


def _fit(inner: list[Weight], units: int) -> bool:
    """True if these matrices make so many units: one as many or twice as many, or two as many each."""
    rows = [shape[0] for _matrix, shape in inner]
    return rows in ([units], [2 * units], [units, units])


def _forms(
    module: nn.Module, inner: list[Weight], output: Matrix, units: int, functions: list[Callable[[Tensor], Tensor]]
) -> Iterator[ExpertForm]:
    """Forms with these matrices."""
    (first, (rows, _width)), *others = inner
    if others:
        pairs = [(first, others[0][0]), (others[0][0], first)]
    elif rows == units:
        pairs = []
        for function in functions:
            yield ExpertForm(first, output, None, function)
    else:
        one, two = (Matrix(first.read, first.turned, part) for part in (0, 1))
        pairs = [(one, two), (two, one)]
    for hidden, linear in pairs:
        for function in functions:
            yield ExpertForm(hidden, output, linear, function)
    own = getattr(module, "_apply_gate", None)
    if callable(own) and rows == 2 * units:
        for paired in (True, False):
            hidden, linear = (Matrix(first.read, first.turned, part, paired) for part in (0, 1))
            yield ExpertForm(hidden, output, linear, own=own)


def _functions(module: nn.Module, inside: Sequence[Event]) -> list[Callable[[Tensor], Tensor]]:
    """Functions that may be the activation: of the module, of one that was called inside it, and our own."""
    holders = dict.fromkeys([module, *module.children(), *(event.module for event in inside)])
    named = [
        getattr(holder, name, None) for holder in holders for name in ("act_fn", "activation_fn", "act", "activation")
    ]
    own = [make() for name, make in ACTIVATIONS.items() if name not in GATES.values()]
    return [each for each in dict.fromkeys([*named, *own]) if callable(each) and _takes_one(each)]


def _takes_one(function: Callable[..., Any]) -> bool:
    """True if a function can be called with one tensor, and not as that of a gate and what it gates."""
    try:
        signature(function.forward if isinstance(function, nn.Module) else function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a builtin function that does not tell
        return True
    return True


def _factor(form: ExpertForm, call: ExpertsCall) -> float | None:
    """Factor with which experts of this form give what the call gave, mostly 1; None: they do not give it."""
    parts = []
    for expert in range(call.count):
        gate = call.gates[:, expert, None].to(call.x.dtype)
        if not call.scaled and not bool(gate.any()):  # of many experts most compute for none of these tokens
            continue
        network = form.network(expert)
        x = gate * call.x if call.scaled else call.x
        parts.append(network(x[None])[0] * (1 if call.scaled else gate))
    y, wanted = torch.cat(parts) if call.scaled else torch.stack(parts).sum(dim=0), call.event.y
    if close(y, wanted):
        return 1.0
    factor = float((y.double() * wanted).sum() / y.double().square().sum().clamp(min=1e-30))
    return factor if factor > 0 and close(factor * y, wanted) else None


# Ours: the router, the gates, and the network of each expert.


class Experts(nn.Module):
    """The networks of all experts, each made of the bridged module's weights when it is asked for."""

    def __init__(self, form: ExpertForm, count: int, module: nn.Module) -> None:
        """module: the bridged one, whose parameters are this module's too."""
        super().__init__()
        self.__dict__["form"], self.count = form, count
        for name, parameter in module.named_parameters():
            if not parameter.is_meta:
                self.register_parameter(name.replace(".", "_"), frozen(parameter))

    def __len__(self) -> int:
        return self.count

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities of an expert's units, first the one that its W₂ multiplies."""
        form: ExpertForm = self.__dict__["form"]
        if form.linear is None:
            return "activation", "hidden"
        return ("gated", "linear", "hidden") if form.own else ("gated", "activation", "linear", "hidden")

    def __getattr__(self, name: str) -> Any:
        if name.isdecimal() and int(name) < self.__dict__["count"]:
            return self.__dict__["form"].network(int(name))
        return super().__getattr__(name)


class MirrorExperts(nn.Module):
    """y = factor · Σ gate_e(x) · expert_e(x) over the experts of a token (Shazeer et al., 2017, section 2).

    router: its logits (position, expert). gates: (position, expert), 0 where a token does not go through an expert.
    routed: what router and experts read, (position, d_model). experts: their networks, where they were recognised.
    shared: network that every token goes through beside them, if there is one. scaled: whether a gate multiplies what
    an expert reads, not what it gives.
    """

    def __init__(
        self,
        form: ExpertForm | None,
        count: int,
        module: nn.Module,
        *,
        router: nn.Module | None,
        scaled: bool,
        shared: nn.Module | None,
    ) -> None:
        """module, router: the bridged ones; None: the router's logits are not known."""
        super().__init__()
        self.scaled, self.factor = scaled, 1.0 if form is None else form.factor
        if router is not None:
            self.router = nn.Identity()
            for name, parameter in router.named_parameters(recurse=False):
                if not parameter.is_meta:
                    self.router.register_parameter(name, frozen(parameter))
        self.routed, self.gates = nn.Identity(), nn.Identity()
        if form is not None:
            self.experts = Experts(form, count, module)
        if shared is not None:
            self.shared = shared

    def read_by(self, expert: int, routed: Tensor, gates: Tensor) -> Tensor:
        """Input of one expert (position, d_model), of that of all and its gates (position, expert)."""
        return routed * gates[:, expert, None].to(routed.dtype) if self.scaled else routed


class GivenExperts(nn.Module):
    """Gives our experts what a call of the bridged ones was given; called before it."""

    def __init__(self, experts: MirrorExperts, count: int) -> None:
        super().__init__()
        self.__dict__["experts"], self.count = experts, count

    def forward(self, inputs: tuple[Any, ...], named: dict[str, Any], batch: int) -> None:
        x, *given = given_tensors(inputs, named)
        x = x.flatten(0, -2)
        choice = chosen_and_weights([x, *given])
        assert choice is not None
        experts = self.__dict__["experts"]
        experts.routed(batched(x, batch))
        experts.gates(batched(dense_gates(*choice, self.count), batch))


class ScalingRouter(nn.Module):
    """Gives our experts the gates that a bridged router returns at `place`, and what it read; called after it."""

    def __init__(self, experts: MirrorExperts, place: int) -> None:
        super().__init__()
        self.__dict__["experts"], self.place = experts, place

    def forward(self, inputs: tuple[Any, ...], named: dict[str, Any], output: Any, batch: int) -> None:
        experts = self.__dict__["experts"]
        experts.routed(batched(given_tensors(inputs, named)[0].flatten(0, -2), batch))
        experts.gates(batched(tensors_of(output)[self.place], batch))


class RouterLogits(nn.Module):
    """Gives our experts the logits that a bridged router returns at `place`; called after it."""

    def __init__(self, experts: MirrorExperts, place: int) -> None:
        super().__init__()
        self.__dict__["experts"], self.place = experts, place

    def forward(self, inputs: tuple[Any, ...], named: dict[str, Any], output: Any, batch: int) -> None:
        self.__dict__["experts"].router(batched(tensors_of(output)[self.place].flatten(0, -2), batch))


class OutputCopy(nn.Module):
    """Calls a mirror, and gives the model a copy: it may go on adding to its output in place."""

    def __init__(self, mirror: nn.Module) -> None:
        super().__init__()
        self.mirror = mirror

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        result: Tensor = self.mirror(x, observed)
        return result.clone()


@dataclass
class ExpertsMatch:
    """experts: ours. links: of a call, a side of it, and the module that mirrors it. units: what is told of them."""

    experts: MirrorExperts
    links: list[tuple[Event, Any, nn.Module]]
    units: Units


def match_experts(calls: Sequence[Event], mixture: ExpertsCall, shared: nn.Module | None, width: int) -> ExpertsMatch:
    """Match of the experts of a layer.

    calls: of its feed-forward network. mixture: that of the experts. shared: network beside them. width: d_model.
    """
    inside = [event for event in calls if mixture.event in event.within]
    form = find_form(mixture, inside)
    router = next(
        ((event, place) for event in calls if (place := _find_router_logits(event, mixture)) is not None), None
    )
    experts = MirrorExperts(
        form,
        mixture.count,
        mixture.event.module,
        router=None if router is None else router[0].module,
        scaled=mixture.scaled,
        shared=shared,
    )
    links: list[tuple[Event, Any, nn.Module]] = []
    if router is not None:
        links.append((router[0], "result", RouterLogits(experts, router[1])))
    if mixture.scaled:
        links += [
            (event, "result", ScalingRouter(experts, place))
            for event in calls
            for place, output in enumerate(event.outputs)
            if output is mixture.gates
        ]
    else:
        links.append((mixture.event, "call", GivenExperts(experts, mixture.count)))
    network = None if form is None else form.network(0)
    units = Units(
        None if network is None else network.output.in_features,
        "" if form is None else form.activation,
        mixture.count,
        mixture.chosen,
        _shared_units(calls, mixture, shared, width),
    )
    return ExpertsMatch(experts, links, units)


def _shared_units(calls: Sequence[Event], mixture: ExpertsCall, shared: nn.Module | None, width: int) -> int:
    """Units that every token goes through beside the experts."""
    if isinstance(shared, MirrorFeedForward):
        return shared.output.in_features
    beside = [
        call for call in calls if mixture.event not in call.within and call is not mixture.event and is_linear(call)
    ]
    wide = [call for call in beside if call.y.shape == (*call.x.shape[:-1], width) and call.x.shape[-1] != width]
    return sum(call.x.shape[-1] for call in wide)


def _find_router_logits(event: Event, mixture: ExpertsCall) -> int | None:
    """Place of the router's logits among what a call returned; None: it is no router of these experts."""
    weight = module_tensor(event.module)
    if weight is None or weight.dim() != 2 or tuple(weight.shape) != (mixture.count, mixture.x.shape[-1]):
        return None
    if not event.inputs or not close(event.x.flatten(0, -2).to(mixture.x.dtype), mixture.x):
        return None
    bias = module_tensor(event.module, "bias")
    bias = bias if bias is not None and bias.shape == weight.shape[:1] else None
    logits = F.linear(event.x.to(weight.dtype), weight.to(event.x.device), bias)
    return next(
        (place for place, y in enumerate(event.outputs) if y.is_floating_point() and close(logits, y.to(logits.dtype))),
        None,
    )
