"""Every text that the application looks up, read from its code."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from pathlib import Path
from typing import get_args

from model.checkpoints.adapters import AdapterBaseError
from model.checkpoints.bridge.load import TEXTS_ALONE
from model.checkpoints.convert.courses import COURSES
from model.checkpoints.convert.from_gguf import READ_ON
from model.checkpoints.convert.state_dict import unsaid
from model.checkpoints.families import REFUSED as UNOPENED
from model.checkpoints.formats.pickle_steps import UNREADABLE, RefusedError
from model.checkpoints.formats.weight_files import PARTS, REFUSED
from model.checkpoints.hub import REASONS
from model.checkpoints.incomplete_weights import KINDS
from model.checkpoints.quantized import ROUNDED, UNSCALED
from model.data.tasks import TASKS
from model.experiments import runner
from model.experiments.experiment import Group
from model.experiments.rule import Verdict
from model.message import Message, MessageError
from model.network.config import NETWORK_OPTIONS, Kind
from model.runtime import errors, files
from model.training.settings import TRAINING_OPTIONS
from viz.i18n.format import WORDS

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = (*NETWORK_OPTIONS.values(), *TRAINING_OPTIONS.values())
# What `_()` is given that is not a literal, and every value it can have.
DYNAMIC = {
    "pattern": set(),  # of texts that are joined, each found where it is made
    **{f"message.{part}": set() for part in ("text", "plural")},  # of a Message, found where that is made
    "model.kind": set(get_args(Kind)),
    "whole.kind": set(get_args(Kind)),
    **{f"option.{part}": {getattr(each, part) for each in OPTIONS} for part in ("label", "help")},
    "task.description": {task.description for task in TASKS.values()},
}


def said_by_experiments() -> set[str]:
    """Every text that an experiment says, by `say("…")`, and the names of verdicts and groups."""
    found = {str(each) for each in (*Verdict, *Group)}
    for path in sorted((ROOT / "model" / "experiments").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "say":
                assert isinstance(node.args[0], ast.Constant), f"{path.name}:{node.lineno}: not a literal"
                found.add(str(node.args[0].value))
    return found


DYNAMIC |= {"value.text": said_by_experiments(), "str(verdict)": {str(each) for each in Verdict}}
DYNAMIC |= {key: {str(each) for each in Group} for key in ("str(group)", "str(experiment.group)")}


# Words of formulas that are the same in every language.
NAMES_IN_FORMULAS = {"B", "BLEU", "chrF", "logits", "softmax", "LayerNorm: ", "BatchNorm: ", "torch: ", " (ReLU), "}
NAMES_IN_FORMULAS |= {"post: ", "pre: ", "sandwich: "}


def words_of_formulas() -> set[str]:
    """Every word that stands in a formula."""
    return {word for text in constants() for word in WORDS.findall(text)} - NAMES_IN_FORMULAS


# The files of model/ whose errors a page shows.
SPEAKING = (
    *("capture/interventions", "checkpoints/**/*", "data/*", "text/**/*", "network/config"),
    *(f"runtime/{name}" for name in ("files", "ledger", "memory", "untrusted_json")),
    *(f"inference/{name}" for name in ("beam_search", "decoding", "models", "text_model")),
    *(f"training/{name}" for name in ("cost", "settings", "trainer", "live/live_training", "live/recorded_trainer")),
    *(
        "analysis/gradients",
        "analysis/weights/heads",
        "analysis/weights/adapter_changes",
        "experiments/claims/additive_attention",
        "experiments/engines/attention_cost",
        "experiments/claims/parameter_free",
        "experiments/claims/costs",
        "experiments/claims/data_lesson",
        "experiments/claims/speed_ups",
        "experiments/claims/trainings",
        "experiments/claims/recommendation",
        "experiments/claims/attention_variants",
        "experiments/engines/training_comparisons",
    ),
)


def heirs(error: type) -> list[type]:
    return [error, *(heir for each in error.__subclasses__() for heir in heirs(each))]


# Calls whose first argument is a sentence, or a piece of one, and what stands before it.
SAYING = {each.__name__: "" for each in (Message, unsaid)} | {RefusedError.__name__: "{file} "}
ERRORS = ("ValueError", "FloatingPointError", "NoRoomError")  # other than those of messages
MESSAGE_ERRORS = {each.__name__ for each in (*heirs(MessageError), AdapterBaseError)}
# Pieces of sentences that are data.
PIECES = {text for pair in REFUSED.values() for text in pair} | set(REASONS.values()) | set(UNREADABLE.values())
PIECES |= {text for pair in PARTS.values() for text in pair if re.search("[a-z] [a-z]", text)}
PIECES |= {text for each in COURSES for text in each.assumed} | set(files.REFUSED.values()) | set(UNOPENED.values())
PIECES |= {ROUNDED, UNSCALED, TEXTS_ALONE, READ_ON, *KINDS.values()}
PIECES |= {runner.NO_ROOM, errors.NO_ROOM_HERE, errors.AGAIN}


LOOKING = ("_", "catalogue._", "ngettext", "Message")


def lookups() -> list[tuple[str, ast.expr]]:
    """Where a text is looked up, and the expression that is."""
    found = []
    for file in [ROOT / "app.py", *sorted((ROOT / "viz").rglob("*.py"))]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in LOOKING:
                arguments = node.args[:2] if name == "ngettext" else node.args
                assert name == "ngettext" or len(arguments) == 1
                plural = [keyword.value for keyword in node.keywords if keyword.arg == "plural"]
                found += [(f"{file.relative_to(ROOT)}:{node.lineno}", each) for each in (*arguments, *plural)]
    return found


def texts() -> set[str]:
    """Every text that is looked up, where it is a literal or one of a known set."""
    found = set()
    for place, argument in lookups():
        if isinstance(argument, ast.Constant):
            assert isinstance(argument.value, str), place
            found.add(argument.value)
        else:
            assert ast.unparse(argument) in DYNAMIC, f"{place}: {ast.unparse(argument)} cannot be found in a catalogue"
            found |= DYNAMIC[ast.unparse(argument)]
    return found | said_by_model()


def said_by_model() -> set[str]:
    """Every text of a message of model/, every sentence of an error in the files whose errors a page shows, and pieces
    of such.
    """
    found = set(PIECES)
    speaking = set(itertools.chain(*((ROOT / "model").glob(f"{name}.py") for name in SPEAKING)))
    assert all(any((ROOT / "model").glob(f"{name}.py")) for name in SPEAKING)
    for path in sorted((ROOT / "model").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                found |= said_by(node, path, path in speaking)
    return {text for text in found if re.search(r"[a-z]", text)}


def said_by(call: ast.Call, path: Path, speaks: bool) -> set[str]:
    """Texts that a call says. speaks: a page shows the errors of this file, also those whose sentence is no message."""
    name, sentence = ast.unparse(call.func).rpartition(".")[2], call.args[0]
    raises = name in ERRORS or name in MESSAGE_ERRORS
    if name not in SAYING and not (raises and (speaks or call.keywords)):
        return set()
    said = [sentence.body, sentence.orelse] if isinstance(sentence, ast.IfExp) else [sentence]
    if isinstance(sentence, ast.Name) and sentence.id.isupper():  # a text with a name of its own
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        return {getattr(module, sentence.id)}
    for each in said:
        assert not isinstance(each, ast.JoinedStr), f"{path}:{call.lineno}: its values are lost: give a text and values"
        if name == Message.__name__ and path.name != "message.py":
            assert isinstance(each, ast.Constant), f"{path}:{call.lineno}: which text this is cannot be read here"
            assert "plural" not in [keyword.arg for keyword in call.keywords], f"{path}:{call.lineno}: for viz/ alone"
    return {SAYING.get(name, "") + str(each.value) for each in said if isinstance(each, ast.Constant)}


def constants() -> set[str]:
    """Every string that stands in the code of model/ and viz/."""
    files = (path for folder in ("model", "viz") for path in sorted((ROOT / folder).rglob("*.py")))
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return {str(node.value) for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


DYNAMIC["word[0]"] = words_of_formulas()
