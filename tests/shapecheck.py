"""The type checker that jaxtyping calls in our tests: typeguard, one annotation at a time.

jaxtyping hands a checker functions that it has generated. ``typeguard.typechecked`` (version 4)
looks for the source of a function and does not find any; ``typeguard.check_type`` needs none.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

from typeguard import check_type


def checked(function: Callable) -> Callable:
    """Check arguments and result of every call against the annotations."""
    signature = inspect.signature(function)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    hints = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.kind not in variadic and _can_check(parameter.annotation)
    }

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        for name, hint in hints.items():
            if name in arguments:
                check_type(arguments[name], hint)
        result = function(*args, **kwargs)
        if _can_check(signature.return_annotation):
            check_type(result, signature.return_annotation)
        return result

    return wrapper


def _can_check(hint: Any) -> bool:
    return hint not in (inspect.Signature.empty, Any, Self) and not isinstance(hint, str)
