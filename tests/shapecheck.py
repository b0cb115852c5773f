"""The type checker that jaxtyping calls in our tests: typeguard, one annotation at a time.

jaxtyping hands a checker functions that it has generated. ``typeguard.typechecked`` (version 4)
looks for the source of a function and does not find any; ``typeguard.check_type`` needs none. It is
asked only where a plain look at the type does not settle the matter, as the look is far quicker.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

from jaxtyping import AbstractArray
from typeguard import check_type

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def checked(function: Callable) -> Callable:
    """Check arguments and result of every call against the annotations."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    positions = [parameter.name for parameter in parameters if parameter.kind in BY_POSITION]
    hints = {
        parameter.name: parameter.annotation
        for parameter in parameters
        if parameter.kind not in VARIADIC and _can_check(parameter.annotation)
    }
    result_hint = signature.return_annotation
    checks_result = _can_check(result_hint)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(positions, args, strict=False), *kwargs.items()):
            if name in hints:
                _check(value, hints[name])
        result = function(*args, **kwargs)
        if checks_result:
            _check(result, result_hint)
        return result

    return wrapper


def _check(value: Any, hint: Any) -> None:
    plain = hint in (float, int, str) or (
        isinstance(hint, type) and issubclass(hint, AbstractArray)
    )
    if not (plain and isinstance(value, hint)):
        check_type(value, hint)


def _can_check(hint: Any) -> bool:
    return hint not in (inspect.Signature.empty, Any, Self) and not isinstance(hint, str)
