"""Every text that the application looks up, read from its code."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import get_args

from model.checkpoints.adapters_and_shards import KINDS
from model.checkpoints.bridge.load import TEXTS_ALONE
from model.checkpoints.convert.courses import COURSES
from model.checkpoints.convert.from_gguf import READ_ON
from model.checkpoints.families import REFUSED as UNOPENED
from model.checkpoints.formats.pickle_steps import UNREADABLE
from model.checkpoints.formats.weight_files import PARTS, REFUSED
from model.checkpoints.hub import REASONS
from model.checkpoints.quantized import ROUNDED, UNSCALED
from model.cli.options import HELP
from model.data.tasks import TASKS
from model.experiments import runner
from model.experiments.experiment import Group, Verdict
from model.network.config import Kind
from model.runtime import errors, files
from model.runtime.errors import (
    AGAIN,
    NO_PREDICTIONS,
    NO_ROOM,
    NO_WAY_BACK,
    NOT_FINITE,
    STANDS,
    TRAINING_BROKEN_OFF,
    WENT_BACK,
)
from model.training.live.live_training import UNKEPT, USED_UP

ROOT = Path(__file__).resolve().parents[3]
# What `_()` is given that is not a literal, and every value it can have.
DYNAMIC = {
    "model.kind": set(get_args(Kind)),
    "whole.kind": set(get_args(Kind)),
    "HELP[name]": set(HELP.values()),
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


DYNAMIC |= {"sentence.text": said_by_experiments()}


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
        "experiments/additive_attention",
        "experiments/attention_cost",
        "experiments/rows/parameter_free",
        "experiments/rows/costs",
        "experiments/rows/data_lesson",
        "experiments/rows/speed_ups",
        "experiments/rows/trainings",
        "experiments/recommendation",
        "experiments/rows/attention_variants",
        "experiments/training_claims",
    ),
)
INHERITED = "super().__init__"  # an error with a sentence of its own
ERRORS = (
    "ValueError",
    "FloatingPointError",
    "CheckpointError",
    "OtherWeightsError",
    "AdapterBaseError",
    "MissingWeightsError",
    "UnmeasuredError",
    "FormatError",
    "RefusedError",
    "NoRoomError",
    INHERITED,
)
# Sentences that are put together elsewhere: an error said again, or words of a known set.
TOLD = ("str(error)", "explain_nonfinite(self, error)", "self._message")
PIECES = {text for pair in REFUSED.values() for text in pair} | set(REASONS.values()) | set(UNREADABLE.values())
PIECES |= {text for pair in PARTS.values() for text in pair if re.search("[a-z] [a-z]", text)}
PIECES |= {text for each in COURSES for text in each.assumed}
PIECES |= {"logits divided by √d_model", "texts of at most 2,048 tokens", "ε = 1e-5 in its norms"}
PIECES |= {"rotary positions of base {0}", "rotary positions stretched with {0}", *KINDS.values()}
PIECES |= {"{0} {1} as it is told (the file says {2} {3})", ", or open it with {0}={1}"}
PIECES |= {"{0} is the norm behind the last layer (no tensor says where it stands)"}
PIECES |= {"it claims {0} elements, {1} bytes, where the file has {2} for it"}
PIECES |= {"step {0}: loss {1}, gradient norm {2}, not finite first in {3}", "step {0}: loss {1}, gradient norm {2}"}
PIECES |= {", not finite first in {0}"}
PIECES |= {"{0} ({1} is not said)", "norms behind each block", "norms before each block"}  # what is assumed
PIECES |= {"relu in the feed-forward networks"}
PIECES |= {ROUNDED, UNSCALED, "whole numbers", TEXTS_ALONE, "the model under {0} (the file holds others, under {1})"}
PIECES |= {"the model whose names have no prefix (the file holds others, under {0})"}
PIECES |= {"embeddings times √d_model", "embeddings as they are", "sinusoidal positions (there is no table of them)"}
PIECES |= set(files.REFUSED.values())
PIECES |= {
    "the training",
    "the text",
    "what is computed of this text",
    "this text",
    "it is not a file",
    "these tokens",
    "a model",
    "a file that is sent",
    "translating a file",
}  # what memory is promised to
PIECES |= {"there is no tokenizer.json beside the weights"}
PIECES |= {READ_ON, "a list"}  # of a GGUF file; the next ones are what is assumed of it
PIECES |= {"scores are divided by √{0}, as in Gemma 2 of this size"}
PIECES |= {"texts are cut into words as {0} does (the file does not say how)"}
PIECES |= {"texts are cut into words as {0} does (the file says {1}, which is not known)"}
PIECES |= {"meta.pkl beside the weights is a pickle, which could run code and is never read"}
PIECES |= {"targets begin with token 0 (there is no tokenizer)"}
PIECES |= {"every token sees every other (a causal mask is in no tensor)"}
PIECES |= {"the exact GELU (nanoGPT before June 2023 had its form with tanh)"}


def lookups() -> list[tuple[str, ast.expr]]:
    """Where a text is looked up, and the expression that is."""
    found = []
    for file in [ROOT / "app.py", *sorted((ROOT / "viz").rglob("*.py"))]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("_", "catalogue._"):
                (argument,) = node.args
                found.append((f"{file.relative_to(ROOT)}:{node.lineno}", argument))
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
    """Every sentence of an error in the files whose errors a page shows, its values numbered; and parts of such."""
    found = PIECES | {numbered(text) for text in (NO_ROOM, TRAINING_BROKEN_OFF, STANDS, WENT_BACK, NO_WAY_BACK)}
    found |= {numbered(text) for text in (AGAIN, NOT_FINITE, NO_PREDICTIONS, USED_UP, UNKEPT)}
    found |= {numbered(text) for text in (runner.NO_ROOM, runner.BROKEN_OFF, errors.BROKEN_OFF)}
    found |= {numbered(text) for text in (errors.NO_ROOM_HERE, errors.DEVICE_GONE)}
    places = {name: sorted((ROOT / "model").glob(f"{name}.py")) for name in SPEAKING}
    assert all(places.values()), f"no file is called so: {[name for name, found in places.items() if not found]}"
    for path in itertools.chain(*places.values()):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ERRORS:
                continue
            if ast.unparse(node.func) == INHERITED and [type(each) for each in node.args] != [ast.JoinedStr]:
                continue  # a module's, not an error's
            (sentence,) = node.args
            if ast.unparse(sentence) in TOLD:
                continue
            for each in (sentence.body, sentence.orelse) if isinstance(sentence, ast.IfExp) else (sentence,):
                before = "{file} " if ast.unparse(node.func) == "RefusedError" else ""  # it is said of a file
                found.add(numbered(before + template(each)))
    return {text for text in found if re.search(r"[a-z]", text)}


def numbered(text: str) -> str:
    numbers = itertools.count()
    return re.sub(r"\{\w+(:[^}]*)?\}", lambda _found: f"{{{next(numbers)}}}", text)


def template(sentence: ast.expr) -> str:
    if isinstance(sentence, ast.Constant):
        return str(sentence.value)
    assert isinstance(sentence, ast.JoinedStr), ast.unparse(sentence)
    numbers = itertools.count()
    parts = (part.value if isinstance(part, ast.Constant) else f"{{{next(numbers)}}}" for part in sentence.values)
    return "".join(map(str, parts))


PIECES |= set(UNOPENED.values())
