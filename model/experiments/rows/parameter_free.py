"""Self-attention without parameters, softmax(X Xᵀ) X, on the embeddings of the text's tokens (row 43)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from model.experiments.experiment import Experiment, Grid, Group, Outcome, Quantity, Request, Verdict, at_once, say
from model.runtime.device import exact

OWN = 0.5  # of a token's weight: above it, the token mostly copies itself


def parameter_free(
    x: Float[Tensor, "token channel"],
) -> tuple[Float[Tensor, "token token"], Float[Tensor, "token channel"]]:
    """Weights softmax(X Xᵀ) and outputs softmax(X Xᵀ) X: queries, keys and values are the inputs themselves."""
    weights = (x @ x.mT).softmax(dim=-1)
    return weights, weights @ x


def find(request: Request) -> Outcome:
    """Mean weight of a token on itself, for the rows of the embedding as they are and as the network reads them."""
    tokens, embeddings = request.model.source_tokens(request.text), request.model.network.embeddings()
    if not embeddings:
        raise ValueError("the rows of this model's embedding are not known: choose another model")
    rows = exact(embeddings[0].weight[tokens.ids]).detach().cpu()
    labels, root = list(tokens.labels), rows.shape[-1] ** 0.5
    figures, quantities, kept = [], [], []
    for name, x in ((say("rows as they are"), rows), (say("rows times √d_model"), rows * root)):
        weights, outputs = parameter_free(x)
        kept.append(float(weights.diagonal().mean()))
        moved = float((outputs - x).norm() / x.norm())
        title = say("weights softmax(X Xᵀ), {name}", name=name)
        figures.append(Grid(title, weights.tolist(), labels, labels, say("token that looks"), say("token seen")))
        quantities.append(Quantity(say("weight of a token on itself, {name}", name=name), (kept[-1],)))
        quantities.append(Quantity(say("change ‖Y − X‖ / ‖X‖, {name}", name=name), (moved,)))
    bare, scaled = kept
    mixing = [share < OWN for share in kept]
    verdict = {(True, True): Verdict.HOLDS, (False, False): Verdict.WRONG}.get((mixing[0], mixing[1]), Verdict.ONLY_IF)
    reason = say(
        "a token gives itself {bare} of its weight where rows are as they are, and {scaled} where they are times "
        "√d_model: {end}",
        bare=bare,
        scaled=scaled,
        end={
            Verdict.HOLDS: say("it mixes in both"),
            Verdict.WRONG: say("it copies itself in both"),
            Verdict.ONLY_IF: say("whether it mixes depends on the size of the rows alone"),
        }[verdict],
    )
    return Outcome(verdict, reason, quantities, figures)


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
        of_model=True,
        formulas=(r"Y = \mathrm{softmax}(X X^\top)\, X",),
        code=(parameter_free,),
    ),
)
