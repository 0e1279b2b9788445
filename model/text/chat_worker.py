"""A conversation made into a text by a stranger's template: a program of its own, started by `chat`, with limits on
time, memory and files. It reads a record of JSON from its input and writes one to its output.

The environment is that of Hugging Face's chat templates: Jinja's immutable sandbox, blocks trimmed, break and continue,
raise_exception and strftime_now, and `generation` around what the assistant writes.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

SECONDS, BYTES = 2, 512 << 20
BEGIN, END = "\ue0f0", "\ue0f1"  # around what the assistant writes; no text has them


class Generation(Extension):
    """The block `generation`, whose text is put between BEGIN and END."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja's own extensions have it

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Any) -> str:
        return f"{BEGIN}{caller()}{END}"


def refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def in_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson`, which Jinja's own would escape for HTML, with the options of Hugging Face's."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def rendered(template: str, named: dict[str, Any]) -> str:
    """Text of a template. named: what it may use by these names."""
    extensions = [Generation, loopcontrols]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = in_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template).render(**named)


def main() -> None:
    for limit, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, BYTES), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(limit, (most, most))
    request = json.load(sys.stdin)
    answer: dict[str, Any]
    try:
        answer = {"texts": [rendered(request["template"], named) for named in request["several"]]}
    except Exception as error:  # noqa: BLE001 - a stranger's template may raise anything
        answer = {"error": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
