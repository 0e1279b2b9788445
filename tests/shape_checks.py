"""jaxtyping for functions that name shapes, while the tests run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any


def of_shapes_alone(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    """jaxtyped, which leaves functions as they are whose annotations name no shape: to check those takes half of the
    tests' time, a part of it whenever a function within a function is made, and mypy knows their types.
    """

    def decorator(**options: Any) -> Callable[[Any], Any]:
        checked = jaxtyped(**options)
        return lambda subject: (
            subject if inspect.isfunction(subject) and not _names_shapes(subject) else checked(subject)
        )

    return decorator


def _names_shapes(function: Callable[..., Any]) -> bool:
    names = {name for each in function.__annotations__.values() for name in re.findall(r"\w+", str(each))}
    return any("jaxtyping" in repr(function.__globals__.get(name)) for name in names)
