"""Questions are answered by the model that is there: keys beside an independent computation, and of wrong weights."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.inference.copies import with_weights
from model.inference.text_model import TextModel
from model.lessons.check import CHECKPOINTS
from model.lessons.light import Light
from model.lessons.questions import Answer, Question, largest, light, measured
from model.lessons.state import State, Subject
from model.lessons.trained import rehearsal, trained_subject
from model.lessons.wording import wording
from model.message import InputError
from model.training.demonstration import DEMONSTRATIONS, REVERSE

TEXT = "She bought a red car yesterday."
STATE = State("attention", {"source": TEXT, "attention": "cross", "layer": "2", "head": "6", "query": "7"})
SCALE = 32**-0.5  # 1/√d_k
HINTS = {"hints": ["a nudge", "a suggestion"]}


@pytest.fixture(scope="module")
def model() -> TextModel:
    return open_checkpoint(CHECKPOINTS / "eng-cmn")


@pytest.fixture(scope="module")
def subject(model) -> Subject:
    return Subject.of(model, STATE)


def question(**record) -> Question:
    return Question.read({**record, **HINTS}, STATE)


def scores(subject: Subject, kind: str, layer: int, head: int) -> torch.Tensor:
    """Q Kᵀ from the recorded vectors, in float64."""
    path = subject.trace.attention_paths(kind)[layer]
    query, key = (subject.trace[f"{path}.{name}"][head].double() for name in ("query", "key"))
    return query @ key.T


def softmax(scores: torch.Tensor, causal: bool = False) -> torch.Tensor:
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def test_the_key_is_that_of_the_largest_product_of_query_and_key(subject):
    answer = question(kind="key").answer(subject)
    row = softmax(scores(subject, "cross", 2, 6) * SCALE)[7]
    assert answer.options[answer.right] == subject.source.labels[int(row.argmax())] == "▁red"
    assert max(answer.measures) == pytest.approx(float(row.max()), abs=1e-5)
    assert wording(question(kind="key"), subject) == (
        "In head 7 of layer 3 of the cross-attention: which token does 辆 look at most?"
    )


def test_another_sentence_has_another_key(model):
    other = Subject.of(model, State("attention", {"source": "I am a teacher."}))
    asked, answer = question(kind="key"), question(kind="key").answer(other)
    assert set(answer.options) <= {*other.source.labels}
    assert other.target.labels[min(7, len(other.target) - 1)] in wording(asked, other)
    row = softmax(scores(other, "cross", 2, 6) * SCALE)[min(7, len(other.target) - 1)]
    assert max(answer.measures) == pytest.approx(float(row.max()), abs=1e-5)


def test_without_the_scale_the_entropy_of_a_first_layer_is_that_of_the_bare_products(subject):
    asked = question(kind="change", of="entropy", attention="encoder", layer=0, head=1, change="unscaled")
    bare = scores(subject, "encoder", 0, 1)
    before, after = (
        float(-(weights * weights.clamp_min(1e-300).log()).sum(-1).mean())
        for weights in (softmax(bare * SCALE), softmax(bare))
    )
    answer = asked.answer(subject)
    assert answer.measures == pytest.approx((before, after), abs=1e-4)
    assert answer.options[answer.right] == "it goes down"


def test_a_removed_head_changes_the_loss_as_a_network_without_its_rows_of_w_o(subject, model):
    asked = question(kind="change", of="loss", change="cross.2.6:remove")
    path = "decoder.layers.2.cross_attention.output.weight"
    parameters = {id(each): name for name, each in model.network.named_parameters()}

    def without(weight):
        copy = weight.detach().clone()
        if parameters[id(weight)] == path:
            copy[:, 6 * 32 : 7 * 32] = 0
        return copy

    other = with_weights(model, without)
    with torch.inference_mode():
        ids = [torch.tensor([tokens.ids]) for tokens in (subject.source, subject.target)]
        logs = other.network(*ids)[0].double().log_softmax(-1)
    labels = [*subject.target.ids[1:], model.target_tokenizer.end]
    loss = -float(logs[range(len(labels)), labels].mean())
    assert asked.answer(subject).measures[1] == pytest.approx(loss, rel=1e-3)
    assert wording(asked, subject) == (
        "What becomes of the mean loss (in nats) with head 7 of layer 3 of the cross-attention removed?"
    )


def test_shuffled_positions_are_those_of_the_source_alone(subject):
    asked = question(kind="change", of="loss", change="shuffled")
    before, after = asked.answer(subject).measures
    assert after != before
    with pytest.raises(InputError, match="no positions"):
        asked.answer(Subject.of(_with_positions(subject.model, "none"), STATE))


def _with_positions(model, position):
    from model.inference.copies import vary

    return vary(model, position=position)


def test_the_next_token_is_that_of_the_largest_logit(subject):
    answer = question(kind="next", query=3).answer(subject)
    best = int(subject.trace["output.logits"][3].argmax())
    assert answer.options[answer.right] == subject.model.target_tokenizer.label(best) == "买"


def test_a_number_is_right_within_its_tolerance(subject):
    answer = question(kind="number", of="entropy", tolerance=0.2).answer(subject)
    weights = softmax(scores(subject, "cross", 2, 6) * SCALE)
    entropy = float(-(weights * weights.clamp_min(1e-300).log()).sum(-1).mean())
    assert answer.judge(entropy * 1.19)
    assert not answer.judge(entropy * 1.22)


def test_the_head_and_the_cell_are_the_largest(subject):
    answer = question(kind="head", of="first", attention="encoder").answer(subject)
    firsts = [
        float(softmax(scores(subject, "encoder", layer, head) * SCALE)[:, 0].mean())
        for layer in range(subject.maps("encoder")[0])
        for head in range(8)
    ]
    assert answer.measures == pytest.approx(firsts, abs=1e-4)
    assert answer.right in (None, firsts.index(max(firsts)))
    weights = softmax(scores(subject, "decoder", 1, 2) * SCALE, causal=True)[1:]  # the first query sees one key alone
    cell = question(kind="cell", attention="decoder", layer=1, head=2).answer(subject)
    query, key = divmod(int(weights.argmax()), weights.shape[1])
    labels = subject.target.labels
    assert max(cell.measures) == pytest.approx(float(weights.max()), abs=1e-4)
    assert cell.options[cell.measures.index(max(cell.measures))] == f"{labels[query + 1]} → {labels[key]}"


def test_what_is_within_five_percent_is_not_scored():
    assert largest(["a", "b"], [0.5, 0.48]).right is None
    assert largest(["a", "b"], [0.5, 0.47]).right == 0
    assert largest(["a", "b"], [0.5, 0.47], most=False).right == 1
    assert largest(["a"], [0.5]).right is None
    undecided = Answer(("a", "b"), (0.5, 0.49), None)
    assert undecided.judge(0) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("unscaled", "without the factor 1/√d_k"),
        ("cross:padding:off", "without the padding mask of the cross-attention"),
        ("encoder:window:1", "with a window of 1 in the encoder"),
        ("encoder.*.*:hide:*,3;cross.*.*:hide:*,3", "with ▁red hidden in the encoder and in the cross-attention"),
        ("cross.*.*:hide:*,3", "with ▁red hidden in the cross-attention"),
        ("cross.*.*:hide:*,3;cross.*.*:hide:*,4", "with this change: cross.*.*:hide:*,3;cross.*.*:hide:*,4"),
        ("cross.*.*:hide:*,30", "with this change: cross.*.*:hide:*,30"),
        ("cross.2.*:hide:*,3", "with this change: cross.2.*:hide:*,3"),
    ],
)
def test_a_change_is_said_in_words(change, words, subject):
    asked = question(kind="change", of="translation", change=change)
    assert wording(asked, subject) == f"What becomes of the translation {words}?"


def test_the_change_of_nothing_is_none(subject):
    """A window as wide as the text hides nothing."""
    answer = question(kind="change", of="loss", change="decoder:window:90").answer(subject)
    assert answer.options[answer.right] == "it stays the same"


def test_a_change_is_asked_between_the_step_with_and_without_it_whatever_the_reader_has_changed(subject):
    """Who takes the mask off, as the step says, and then answers, is judged by the same two numbers and texts."""
    done = subject.changed(*State("masks", {"changes": "decoder:causal:off;encoder.0.0:remove"}).changes)
    for of in ("loss", "entropy"):
        asked = question(kind="change", of=of, attention="decoder", change="decoder:causal:off")
        first, second = asked.answer(subject), asked.answer(done)
        assert (first.right, second.options) == (0, first.options)
        assert second.measures == first.measures
    asked = question(kind="change", of="translation", change="decoder:causal:off")
    answer = asked.answer(done)
    assert answer.texts == asked.answer(subject).texts == ("她昨天买了一辆红色汽车。", "她昨天买了一辆红色车。")
    assert answer.options[answer.right] == "it becomes another"
    state = replace(STATE, parameters={**STATE.parameters, "changes": "decoder:causal:off"})
    own = Question.read({"kind": "change", "of": "loss", "change": "encoder.0.0:remove", **HINTS}, state)
    before = subject.changed(*state.changes)
    assert own.answer(subject).measures[0] == pytest.approx(measured(own, before))


def test_the_place_of_an_answer_is_the_cell_or_head_with_the_largest_number(subject):
    keyed = question(kind="key")
    assert light(keyed, keyed.answer(subject), subject) == Light("cell", f"7.{subject.source.labels.index('▁red')}")
    asked = question(kind="head", of="first", attention="encoder")
    answer = asked.answer(subject)
    layer, head = light(asked, answer, subject).place
    assert answer.measures[layer * 8 + head] == max(answer.measures)
    asked = question(kind="next", query=3)
    assert light(asked, asked.answer(subject), subject) is None
    words = "Find the head of the encoder's self-attention with most of this: weight on the very first token."
    assert wording(question(kind="head", of="first", attention="encoder"), subject) == words


def test_wrong_weights_have_other_keys(model, subject):
    generator = torch.Generator().manual_seed(1)

    def shuffled(weight):
        order = torch.randperm(weight.numel(), generator=generator)
        return weight.detach().flatten()[order].view_as(weight)

    target = subject.target
    wrong = with_weights(model, shuffled)
    planted = Subject(wrong, wrong.trace_tokens(subject.source, target), subject.source, target)
    asked = [question(kind="key", query=query, layer=layer) for query in range(1, 7) for layer in (1, 2)]
    asked += [question(kind="next", query=query) for query in range(6)]

    def best(each: Question, of: Subject) -> str:
        answer = each.answer(of)
        return answer.options[answer.measures.index(max(answer.measures))]

    assert sum(best(each, subject) != best(each, planted) for each in asked) > len(asked) / 2


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"kind": "key", "layer": 9}, r"layer \(9\) is not there"),
        ({"kind": "key", "head": 99}, r"head \(99\) is not there"),
    ],
)
def test_a_head_that_is_not_there_is_refused(record, words, subject):
    with pytest.raises(InputError, match=words):
        question(**record).answer(subject)


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "change", "of": "loss"},
        {"kind": "key", "change": "unscaled"},
        {"kind": "change", "of": "norm", "change": "unscaled"},
        {"kind": "change", "of": "loss", "change": "nothing"},
        {"kind": "head", "of": "loss"},
        {"kind": "number", "of": "loss", "tolerance": 2},
        {"kind": "key", "query": -1},
        {"kind": "key", "attention": "global"},
    ],
)
def test_a_question_that_cannot_be_is_refused(record):
    with pytest.raises(InputError):
        question(**record)


def test_the_step_asked_for_is_that_of_the_run_and_goes_back_with_it(monkeypatch):
    """Trained here from the demonstration's seed, twice: to an earlier step from a key frame, and the same again."""
    monkeypatch.setitem(DEMONSTRATIONS, "reverse", replace(REVERSE, pairs=600))
    rehearsal.cache_clear()
    state = State("training", {"training": "reverse", "training_step": "12"})
    subject = trained_subject(state)
    steps, losses = subject.run.curves.get("loss")
    assert steps.tolist() == list(range(1, 13))
    assert subject.target.labels[-1] == "t"  # the right answer: rem…snart
    value = float(losses[6:].max()) + 0.001
    first = next(int(step) for step, loss in zip(steps, losses, strict=True) if loss < value)
    asked = question(kind="step", of="loss", value=value, tolerance=0.2)
    answer = asked.answer(subject)
    assert answer.measures == (first,)
    assert answer.judge(first)
    assert not answer.judge(first * 1.5)
    earlier = trained_subject(State("training", {"training": "reverse", "training_step": "11"}))
    assert earlier.run.curves.latest("loss") == pytest.approx(losses[10], rel=1e-3)
    with pytest.raises(InputError, match="not come that far"):
        question(kind="step", of="loss", value=0.001).answer(subject)
    with pytest.raises(InputError, match="needs a state with training"):
        asked.answer(Subject(subject.model, subject.trace, subject.source, subject.target))
    rehearsal.cache_clear()


def test_experts_are_those_of_the_router_and_a_removed_one_is_not_there():
    model = open_checkpoint(CHECKPOINTS / "experts")
    state = State("feed_forward", {"source": "3hello", "stack": "decoder", "layer": "0", "query": "2"})
    subject = Subject.of(model, state)
    asked = Question.read({"kind": "expert", **HINTS}, state)
    path = "decoder.layers.0.feed_forward"
    router = model.network.get_submodule(f"{path}.router").weight.detach().double()
    probabilities = softmax(subject.trace[f"{path}.routed"][2].double() @ router.T)
    best = int(probabilities.argmax())
    answer = asked.answer(subject)
    assert (answer.right, answer.options[best]) == (best, f"expert {best + 1}")
    assert max(answer.measures) == pytest.approx(float(probabilities.max()), abs=1e-5)
    assert wording(asked, subject) == "In layer 1 of the decoder: to which expert does the router send h?"
    gone = subject.changed(*State("feed_forward", {"changes": f"decoder.0.expert.{best}:remove"}).changes)
    probabilities[best] = 0
    assert asked.answer(gone).right == int(probabilities.argmax()) != best
    held = Question.read({"kind": "number", "of": "parameters", "tolerance": 0.05, **HINTS}, state)
    expert = sum(weight.numel() for weight in model.network.get_submodule(f"{path}.experts.0").parameters())
    assert held.answer(subject).measures == (model.network.parameter_count() - 2 * 3 * expert,)
    elsewhere = Subject.of(open_checkpoint(CHECKPOINTS / "sort"), State("feed_forward", {}))
    with pytest.raises(InputError, match="sort has no experts in layer 0 of the decoder"):
        asked.answer(elsewhere)
    with pytest.raises(InputError, match=r"decoder\.0\.expert\.9:remove removes an expert that experts lacks"):
        Subject.of(model, State("feed_forward", {"changes": "decoder.0.expert.9:remove"}))


@pytest.mark.parametrize("text", ["The book on the table is mine.", "She bought a red car yesterday."])
def test_a_search_is_answered_by_what_the_model_writes_in_both_ways(text, model):
    state = State.read(f"/predictions?source={text}")
    answer = Question.read({"kind": "search", "beam": 2, "hints": ["a", "b"]}, state).answer(Subject.of(model, state))
    texts = model.generate(text).text, model.generate(text, beam=2).text
    assert (answer.texts, answer.right) == (texts, int(texts[0] == texts[1]))
    assert answer.right == int(text.startswith("She"))


@pytest.mark.parametrize("record", [{"kind": "search"}, {"kind": "search", "beam": 99}, {"kind": "cell", "beam": 2}])
def test_a_beam_is_of_a_search_alone(record):
    with pytest.raises(ValueError, match=r"beam .* must be a whole number from 2 to 16"):
        Question.read({**record, "hints": ["a", "b"]}, State.read("/predictions"))
