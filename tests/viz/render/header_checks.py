"""Whether a header is what the schema says of it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from viz.render.schema import HEADERS

BY_COMPONENT = {f"vitrine_{path.rpartition('/')[2]}": header for path, header in HEADERS.items()}


def misfits(value: Any, kind: Any, place: str = "header") -> Iterator[str]:
    """Places of a header that do not fit its type."""
    if get_origin(kind) in (Union, types.UnionType):
        if all(list(misfits(value, each, place)) for each in get_args(kind)):
            yield f"{place}: {value!r} is no {kind}"
    elif not has_form(value, kind):
        yield f"{place}: {sorted(value) if isinstance(value, dict) else value!r} is no {kind}"
    else:
        for name, part, of_part in parts(value, kind):
            yield from misfits(part, of_part, f"{place}.{name}")


def has_form(value: Any, kind: Any) -> bool:
    """Whether a value is of this type, whatever its parts are."""
    if kind is Any:
        return True
    if is_typeddict(kind):
        return isinstance(value, dict) and kind.__required_keys__ <= value.keys() <= get_type_hints(kind).keys()
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is float and isinstance(value, dict):  # NaN and infinities, see `pack`
        return value.keys() == {"~"}
    form = (int, float) if kind is float else get_origin(kind) or kind
    return isinstance(value, form) and (kind is bool or not isinstance(value, bool))


def parts(value: Any, kind: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Names, values and types of what a value consists of."""
    if is_typeddict(kind):
        fields = get_type_hints(kind)
        yield from ((name, part, fields[name]) for name, part in value.items())
    elif get_origin(kind) in (list, dict):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        yield from ((name, part, get_args(kind)[-1]) for name, part in pairs)
