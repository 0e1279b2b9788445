"""What reaches Streamlit's Markdown, read from the syntax tree: which of it may be the text of a file or of a visitor.

An expression is harmless where it is made of our own words, of numbers, and of texts that `literal`, `as_sentence` or
`token_code` made harmless. Parameters are followed to every call, names to everything that is given to them, functions
to all that they return. What is not understood counts as a stranger's.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from string import Formatter

# Methods of Streamlit whose first argument is Markdown.
SINKS = frozenset(
    [
        *(
            "markdown",
            "caption",
            "write",
            "error",
            "info",
            "warning",
            "success",
            "title",
            "header",
            "subheader",
            "toast",
        ),
        *("html", "button", "checkbox", "toggle", "radio", "selectbox", "multiselect", "popover", "expander", "tabs"),
        *("download_button", "file_uploader", "slider", "select_slider", "segmented_control", "pills", "number_input"),
        *("text_input", "text_area", "metric", "link_button", "spinner", "progress", "badge", "status"),
    ]
)
MARKDOWN = ("label", "body", "help", "text")  # their other arguments that are
SHOWN = ("radio", "segmented_control", "pills", "select_slider")  # whose choices are Markdown too
# Functions of ours that hand arguments on to such a method: their places and names, looked at in every call.
HANDED_ON = {"choose": {0: "label", 4: "words"}}
HARMLESS = frozenset({"literal", "as_sentence", "token_code"})
NUMBERS = frozenset(
    [
        *("range", "tolist", "significant", "clock", "gigabytes", "len", "round", "int", "float", "sum", "abs", "bool"),
        *("ord", "monotonic", "time", "numel"),
    ]
)
OF_TEXTS = frozenset({"strip", "rstrip", "lstrip", "lower", "upper", "removesuffix", "removeprefix", "replace", "join"})
OF_TABLES = frozenset({"values", "keys", "items", "get", "pop", "copy", "capitalize", "partition", "rpartition"})
COLLECT = frozenset({"joined", "sorted", "list", "tuple", "dict", "set", "reversed", "enumerate", "zip", "str", "next"})
NUMERIC = re.compile(r"(int|float|bool|None)(\s*\|\s*(int|float|bool|None))*|Literal\[.*\]")
TRANSLATED = ("_", "Message")
SPECIFIED = re.compile(r"[+,.\d]*[defgn%]|,|0\d+d?|\+")  # a format that no text can have


class Code:
    """All functions, calls and annotations of the files, by their names."""

    def __init__(self, files: dict[str, str], words: Collection[str] = ()) -> None:
        self.trees = {name: ast.parse(text) for name, text in files.items()}
        self.functions: dict[str, list[Function]] = defaultdict(list)
        self.calls: dict[str, list[tuple[Function, ast.Call]]] = defaultdict(list)
        self.types: dict[str, set[str]] = defaultdict(set)
        self.constants: dict[str, list[tuple[Function, ast.expr]]] = defaultdict(list)
        self.fields: dict[str, list[str]] = {}  # of classes, in their order
        self.owners: dict[int, str] = {}  # classes of methods
        self.attributes: dict[str, set[str]] = {}  # of classes: fields, properties, what methods give them
        # Fields that hold numbers or words of our own, as Class.field: what is given to them is looked at.
        self.words = words
        self.kept: set[str] = set()  # of these, whose name no other class has for anything else
        self.busy: set[tuple[str, ...]] = set()
        self.all: list[Function] = []
        self.places = {name.removesuffix(".py").replace("/", "."): name for name in self.trees}
        self.imported = {name: dict(imported(tree)) for name, tree in self.trees.items()}
        for name, tree in self.trees.items():
            self._read(name, tree)
        for name in {each.rpartition(".")[2] for each in words}:
            if all(f"{kind}.{name}" in words for kind, every in self.attributes.items() if name in every):
                self.kept.add(name)

    def _read(self, file: str, tree: ast.Module) -> None:
        module = Function(self, file, tree, None)
        self._walk(module)

    def _walk(self, inside: Function) -> None:
        self.all.append(inside)
        for child in inside.own():
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                found = Function(self, inside.file, child, inside)
                inside.inner[id(child)] = found
                if not isinstance(child, ast.Lambda):
                    self.functions[child.name].append(found)
                    if child.returns is not None:
                        self.types[child.name].add(ast.unparse(child.returns))
                self._walk(found)
            elif isinstance(child, ast.Call):
                self.calls[last(child.func)].append((inside, child))
            elif isinstance(child, ast.ClassDef):
                named = [last(each.target) for each in child.body if isinstance(each, ast.AnnAssign)]
                self.fields[child.name] = named
                self.owners |= {id(each): child.name for each in child.body}
                self.attributes[child.name] = {*named, *attributes(child)}
            if isinstance(child, ast.AnnAssign):
                self.types[last(child.target)].add(ast.unparse(child.annotation))
            if isinstance(inside.node, ast.Module) and isinstance(child, ast.Assign):
                for target in child.targets:
                    if isinstance(target, ast.Name):
                        self.constants[target.id].append((inside, child.value))

    def meant(self, file: str, func: ast.expr) -> list[Function]:
        """The functions that a call of `func` in a file may mean: of a name the file's own or the imported one; of a
        method all that are called so.
        """
        name, known = last(func), self.imported[file]
        every = self.functions.get(name, [])
        of = known.get(func.value.id) if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) else None
        if isinstance(func, ast.Name):
            of = known[name].rpartition(".")[0] if name in known else file.removesuffix(".py").replace("/", ".")
        return [each for each in every if each.file == self.places[of]] if of in self.places else every

    def is_number(self, name: str) -> bool:
        """Whether everything that is called so is a number or one of our own words."""
        found = self.types.get(name, set())
        return bool(found) and all(NUMERIC.fullmatch(each) for each in found)

    def findings(self) -> list[tuple[str, str, str]]:
        """What may bring a stranger's text into Markdown: the file, the expression, and why."""
        found = set()
        for function in self.all:
            for node in function.own():
                if isinstance(node, ast.Call):
                    for part in self._asked(node):
                        if why := function.why(part):
                            found.add((function.file, ast.unparse(part), why))
        return sorted(found)

    def _asked(self, call: ast.Call) -> Iterator[ast.expr]:
        """What a call shows as Markdown, and what it gives to fields that are to hold words of our own."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in SINKS:
            yield from shown(call)
        elif handed := HANDED_ON.get(last(call.func)):
            yield from (call.args[place] for place in handed if place < len(call.args))
            yield from (word.value for word in call.keywords if word.arg in handed.values())
        elif isinstance(call.func, ast.Subscript | ast.IfExp):  # one of several, such as {"good": st.success}[how]
            chosen = (each.attr for each in ast.walk(call.func) if isinstance(each, ast.Attribute))
            yield from call.args if SINKS.intersection(chosen) else ()
        made = last(call.func)
        named = {name for kind, _point, name in (each.partition(".") for each in self.words) if kind == made}
        yield from (value for name, value in zip(self.fields.get(made, []), call.args, strict=False) if name in named)
        yield from (word.value for word in call.keywords if word.arg in named)


def attributes(kind: ast.ClassDef) -> Iterator[str]:
    """Names of what instances of a class have, by properties and by what its methods give them."""
    yield from (each.name for each in kind.body if isinstance(each, ast.FunctionDef) and each.decorator_list)
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and last(node.value) == "self":
            yield node.attr


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a file imports, and what they are, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def shown(call: ast.Call) -> Iterator[ast.expr]:
    """What of a call of Streamlit is Markdown."""
    method = last(call.func)
    yield from call.args[: 2 if method in SHOWN else 1]
    for word in call.keywords:
        if word.arg in MARKDOWN or (word.arg in ("options", "captions", "format_func") and method in SHOWN):
            yield word.value


def last(node: ast.expr) -> str:
    """The last name of `a.b.c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def assigned(target: ast.expr, how: str, value: ast.expr) -> Iterator[tuple[str, tuple[str, ast.expr]]]:
    """Names that an assignment binds, each with what it is given: ("is", value), or ("of", what it is taken from)."""
    if isinstance(target, ast.Name):
        yield target.id, (how, value)
    elif isinstance(target, ast.Tuple | ast.List):
        same = how == "is" and isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for number, each in enumerate(target.elts):
            if same:
                yield from assigned(each, "is", value.elts[number])  # type: ignore[attr-defined]
            else:
                yield from assigned(each, "of", value)
    elif isinstance(target, ast.Starred):
        yield from assigned(target.value, "of", value)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        yield target.value.id, ("is", value)


class Function:
    """A function, or what stands outside of any; `why` says why one of its expressions is not harmless."""

    def __init__(self, code: Code, file: str, node: ast.AST, around: Function | None) -> None:
        self.code, self.file, self.node, self.around = code, file, node, around
        self.inner: dict[int, Function] = {}

    def own(self) -> Iterator[ast.AST]:
        """Nodes of it that are in no function inside it; those functions themselves too."""
        waiting = list(ast.iter_child_nodes(self.node))
        while waiting:
            node = waiting.pop()
            yield node
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                waiting += ast.iter_child_nodes(node)

    @cached_property
    def parameters(self) -> dict[str, ast.arg]:
        given = getattr(self.node, "args", None)
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs] if given else []
        every += [each for each in (given.vararg, given.kwarg) if each] if given else []
        return {each.arg: each for each in every}

    @cached_property
    def given(self) -> dict[str, list[tuple[str, ast.expr]]]:
        """What is given to each name: ("is", value), or ("of", what it is taken from)."""
        found: dict[str, list[tuple[str, ast.expr]]] = defaultdict(list)

        def give(target: ast.expr, how: str, value: ast.expr) -> None:
            for name, source in assigned(target, how, value):
                found[name].append(source)

        for node in self.own():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    give(target, "is", node.value)
            elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
                give(node.target, "is", node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                give(node.target, "of", node.iter)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                give(node.optional_vars, "of", node.context_expr)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("append", "extend", "insert", "setdefault")
                and isinstance(node.func.value, ast.Name)
                and node.args
            ):
                found[node.func.value.id].append(("is", node.args[-1]))
        return found

    def why(self, node: ast.expr | None) -> str:
        """Empty where it is harmless."""
        if node is None:
            return ""
        mark = (str(id(node)), self.file)
        if mark in self.code.busy:  # of itself: the others decide
            return ""
        self.code.busy.add(mark)
        try:
            return self._why(node)
        finally:
            self.code.busy.discard(mark)

    def _first(self, nodes: list[ast.expr | None]) -> str:
        return next(filter(None, map(self.why, nodes)), "")

    def _why(self, node: ast.expr) -> str:  # noqa: C901 - one case for each form
        match node:
            case ast.Constant() | ast.Compare():
                return ""
            case ast.JoinedStr():
                return self._first(list(node.values))
            case ast.FormattedValue():
                specified = node.format_spec and SPECIFIED.fullmatch(ast.unparse(node.format_spec).strip("f'\""))
                return "" if specified else self.why(node.value)
            case ast.BinOp(op=ast.Add() | ast.Mult() | ast.Mod() | ast.BitOr()):
                return self._first([node.left, node.right])
            case ast.BinOp() | ast.UnaryOp():
                return ""  # of numbers
            case ast.BoolOp():
                return self._first(list(node.values))
            case ast.IfExp():
                return self._first([node.body, node.orelse])
            case ast.Tuple() | ast.List() | ast.Set():
                return self._first(list(node.elts))
            case ast.Dict():
                return self._first([*node.keys, *node.values])
            case ast.Starred() | ast.NamedExpr() | ast.Await():
                return self.why(node.value)
            case ast.Subscript():
                return self.why(node.value)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self.why(node.elt)
            case ast.DictComp():
                return self._first([node.key, node.value])
            case ast.Lambda():
                return self.inner[id(node)].why(node.body) if id(node) in self.inner else "a function"
            case ast.Name():
                return self._of_name(node.id)
            case ast.Attribute():
                return self._of_attribute(node)
            case ast.Call():
                return self._of_call(node)
        return ast.unparse(node)[:60]

    def _of_name(self, name: str) -> str:
        if name in self.given:
            return self._first([value for _how, value in self.given[name]])
        if name in self.parameters:
            return self._of_parameter(name)
        if self.around is not None:
            return self.around._of_name(name)
        if name in self.code.functions:
            return self._first_returned(ast.Name(name))
        if name in self.code.constants:
            return next(filter(None, (there.why(value) for there, value in self.code.constants[name])), "")
        return "" if name == "str" else name

    def _of_parameter(self, name: str) -> str:
        annotation = self.parameters[name].annotation
        if annotation is not None and NUMERIC.fullmatch(ast.unparse(annotation)):
            return ""
        if isinstance(self.node, ast.Lambda):
            return f"{name} of a function"
        given = self.node.args  # type: ignore[attr-defined]
        names = [each.arg for each in (*given.posonlyargs, *given.args)]
        defaults = dict(zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True))
        defaults |= {each.arg: value for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value}
        mine = self.node.name  # type: ignore[attr-defined]
        shift = 1 if names[:1] == ["self"] else 0
        if mine == "__init__":
            return f"{name} of a class"
        calls = [
            (there, call)
            for there, call in self.code.calls.get(mine, [])
            if self in self.code.meant(there.file, call.func)
        ]
        if not calls:
            return f"{name} of {mine}, which nobody calls by name"
        for there, call in calls:
            found = [word.value for word in call.keywords if word.arg == name]
            found += [word.value for word in call.keywords if word.arg is None]
            if name in names:
                at = names.index(name) - shift
                starred = [each for each in call.args[: at + 1] if isinstance(each, ast.Starred)]
                found += starred or call.args[at : at + 1]
            elif given.vararg and name == given.vararg.arg:
                found += call.args[len(names) - shift :]
            if why := there._first(list(found)):
                return f"{why} ({there.file}:{call.lineno})"
        return self.why(defaults.get(name))

    def _of_attribute(self, node: ast.Attribute) -> str:
        name = node.attr
        if self.code.is_number(name) or name in self.code.kept:
            return ""
        of = self._class_of(node.value)
        if of is not None and f"{of}.{name}" in self.code.words:
            return ""
        module = isinstance(node.value, ast.Name) and node.value.id in self.code.imported[self.file]
        if module and name in self.code.functions:
            return self._first_returned(node)
        if isinstance(node.value, ast.Name) and node.value.id[:1].isupper():  # an option of ours, or a constant
            return ""
        if name == "__getitem__":
            return self.why(node.value)
        if name in self.code.constants and name.isupper():
            return next(filter(None, (there.why(value) for there, value in self.code.constants[name])), "")
        return ast.unparse(node)[:60]

    def _class_of(self, node: ast.expr) -> str | None:
        """The class of an object, where a parameter says it, or it is the method's own."""
        if not isinstance(node, ast.Name):
            return None
        if node.id == "self":
            return self.code.owners.get(id(self.node))
        if (parameter := self.parameters.get(node.id)) is not None and parameter.annotation is not None:
            return ast.unparse(parameter.annotation).removesuffix(" | None")
        return self.around._class_of(node) if self.around is not None and node.id not in self.given else None

    def _of_call(self, node: ast.Call) -> str:
        name = last(node.func)
        method = isinstance(node.func, ast.Attribute)
        if (
            name in HARMLESS
            or name in NUMBERS
            or (name == "escape" and ast.unparse(node.func) == "html.escape")
            or self.code.is_number(name)
        ):
            return ""
        if name in TRANSLATED:
            return self._of_format(node)
        if name in ("partial", "in_language") and not method:
            return self.why(node.args[0])
        if method and name == "format":
            return self._of_format(node)
        if method and name in OF_TEXTS:
            return self._first([node.func.value, *node.args])  # type: ignore[attr-defined]
        if method and name in OF_TABLES:
            return self._first([node.func.value, *node.args[1:]])  # type: ignore[attr-defined]
        if not method and name in COLLECT:
            return self._first([*node.args, *(word.value for word in node.keywords if word.arg != "key")])
        if not method and name in ("max", "min"):
            return self._first(list(node.args))
        if name == "map":
            return self._of_map(node)
        if name == "filter":
            return self._first(list(node.args[1:]))
        if self.code.meant(self.file, node.func):
            return self._first_returned(node.func)
        return ast.unparse(node)[:60]

    def _of_map(self, node: ast.Call) -> str:
        first = node.args[0]
        if last(first) in HARMLESS | NUMBERS:
            return ""
        if last(first) == "__getitem__":
            return self.why(first.value)  # type: ignore[attr-defined]
        if last(first) in self.code.functions:
            return self._first_returned(first)
        return self._first(list(node.args[1:]))

    def _of_format(self, node: ast.Call) -> str:
        """Of a text with the values in it: by its method, or by `Message`."""
        template, *others = [node.func.value, *node.args] if isinstance(node.func, ast.Attribute) else node.args
        specified = set()
        for text in self._templates(template):
            for _before, field, spec, _conversion in Formatter().parse(text):
                if field and spec and SPECIFIED.fullmatch(spec):
                    specified.add(field)
        parts = [word.value for word in node.keywords if word.arg not in specified]
        return self._first([template, *others, *parts])

    def _templates(self, node: ast.expr) -> list[str]:
        """The texts that may stand before `.format`, as far as they stand near it."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.Call() if last(node.func) in TRANSLATED:
                return [text for part in node.args for text in self._templates(part)]
            case ast.IfExp():
                return self._templates(node.body) + self._templates(node.orelse)
            case ast.Name() if node.id in self.given:
                return [text for _how, value in self.given[node.id] for text in self._templates(value)]
        return []

    def _first_returned(self, func: ast.expr) -> str:
        for function in self.code.meant(self.file, func):
            if isinstance(function.node, ast.Lambda):
                continue
            returned = getattr(function.node, "returns", None)
            if returned is not None and NUMERIC.fullmatch(ast.unparse(returned)):
                continue
            for each in function.own():
                if isinstance(each, ast.Return | ast.Yield) and (why := function.why(each.value)):
                    return f"{why} ({function.file}:{each.lineno})"
        return ""


def read(*folders: Path) -> dict[str, str]:
    """All Python files under some folders, by their paths from the root."""
    root = folders[0].parent
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8") for each in folders for path in each.rglob("*.py")
    }
