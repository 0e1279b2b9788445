"""Self-attention without parameters, softmax(X Xᵀ) X, on the embeddings of the text's tokens (row 43)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from model.experiments.experiment import Calculation, Experiment, Grid, Group, Outcome, Parameter, Request, at_once
from model.experiments.rule import Quantity, Verdict, at_most, each_of
from model.message import say
from model.runtime.device import exact

OWN = 0.5  # of a token's weight: above it, the token mostly copies itself
SHOWN = 6  # channels of a token that are drawn


def parameter_free(
    x: Float[Tensor, "token channel"],
) -> tuple[Float[Tensor, "token token"], Float[Tensor, "token token"], Float[Tensor, "token channel"]]:
    """Scores X Xᵀ, weights softmax(X Xᵀ), outputs softmax(X Xᵀ) X: the inputs are queries, keys and values at once."""
    scores = x @ x.mT
    weights = scores.softmax(dim=-1)
    return scores, weights, weights @ x


def find(request: Request) -> Outcome:
    """Mean weight of a token on itself, for the rows of the embedding as they are and as the network reads them.

    Raises:
        ValueError: the rows of the embedding are not known.
    """
    tokens, embeddings = request.model.source_tokens(request.text), request.model.network.embeddings()
    if not embeddings:
        raise ValueError("the rows of this model's embedding are not known: choose another model")
    count = request.values["tokens"]
    rows = exact(embeddings[0].weight[tokens.ids[:count]]).detach().cpu()
    labels, root = list(tokens.labels[:count]), rows.shape[-1] ** 0.5
    figures, quantities, own_weights = [], [], []
    for name, x in ((say("rows as they are"), rows), (say("rows times √d_model"), rows * root)):
        _scores, weights, outputs = parameter_free(x)
        own_weights.append(float(weights.diagonal().mean()))
        moved = float((outputs - x).norm() / x.norm())
        figures.append(calculation(say("softmax(X Xᵀ) X step by step, {name}", name=name), x, labels))
        quantities.append(Quantity(say("weight of a token on itself, {name}", name=name), (own_weights[-1],)))
        quantities.append(Quantity(say("change ‖Y − X‖ / ‖X‖, {name}", name=name), (moved,)))
    bare, scaled = own_weights
    rule = each_of(
        [at_most(each, OWN) for each in quantities[::2]], say("the weight of a token on itself is at most a half")
    )
    reason = say(
        "a token gives itself {bare} of its weight where rows are as they are, and {scaled} where they are times "
        "√d_model: {end}",
        bare=bare,
        scaled=scaled,
        end={
            Verdict.HOLDS: say("it mixes in both"),
            Verdict.WRONG: say("it copies itself in both"),
            Verdict.IN_PART: say("whether it mixes depends on the size of the rows alone"),
        }[rule.verdict],
    )
    return Outcome(rule, reason, quantities, figures)


def calculation(title: str, x: Float[Tensor, "token channel"], labels: list[str]) -> Calculation:
    """Figure of every step: inputs, scores, weights, outputs; of inputs and outputs the first channels."""
    scores, weights, outputs = parameter_free(x)
    channels = [str(channel) for channel in range(min(SHOWN, x.shape[-1]))]
    token, seen, channel = say("token that looks"), say("token seen"), say("channel")

    def of_channels(name: str, values: Tensor) -> Grid:
        return Grid(name, values[:, :SHOWN].tolist(), labels, channels, token, channel)

    def of_pairs(name: str, values: Tensor) -> Grid:
        return Grid(name, values.tolist(), labels, labels, token, seen)

    steps = (
        (
            say("1. The vector of each token, {shown} of its {all} channels", shown=len(channels), all=x.shape[-1]),
            (of_channels("X", x),),
        ),
        (say("2. Scores: dot products of all pairs, over all channels"), (of_pairs("X Xᵀ", scores),)),
        (say("3. Weights: softmax of each row"), (of_pairs("softmax(X Xᵀ)", weights),)),
        (say("4. Outputs: for each token, all vectors times its weights"), (of_channels("Y", outputs),)),
    )
    return Calculation(title, steps)


EXPERIMENTS = (
    Experiment(
        name="parameter-free",
        row=43,
        group=Group.ARCHITECTURES,
        statement=say("Self-attention works without parameters: softmax(X Xᵀ) X mixes each word with its context."),
        truth=say(
            "Nothing of it is learnt: a vector resembles itself most, so where norms are large each word only copies "
            "itself. Learnt W_Q, W_K and W_V let it look at others."
        ),
        run=at_once(find),
        parameters=(Parameter("tokens", say("first tokens, at most"), 8, 2, 32),),
        of_model=True,
        formulas=(r"Y = \mathrm{softmax}(X X^\top)\, X",),
        code=(parameter_free,),
    ),
)
