"""The type checker that jaxtyping calls in our tests: typeguard, one annotation at a time.

jaxtyping hands a checker functions that it has generated. ``typeguard.typechecked`` (version 4)
looks for the source of a function and does not find any; ``typeguard.check_type`` needs none. It is
asked only where a plain look at the type does not settle the matter, as the look is far quicker.
"""

import inspect
from abc import ABCMeta
from collections.abc import Callable
from functools import cache, wraps
from itertools import count
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin

from typeguard import check_type
from typing_extensions import is_protocol, is_typeddict

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# Calls of a function that are checked in each test; of one with many cases, in all of them at once.
# In a loop the same line makes arrays of the same shape again and again, and checking takes several
# times as long as what is checked.
FIRST_CALLS = 3

_tests = count(1)
_test = 0  # which one runs
_name: object = None  # what it is called, without its case

_conforming = set[tuple[type, Any]]()  # classes whose objects were found to be what is asked for


def begin_test(name: object = None) -> None:
    """Check the first calls of every function once more, unless it is another case of the test."""
    global _test, _name
    if name is None or name != _name:
        _test, _name = next(_tests), name


def first_calls(jaxtyped: Callable) -> Callable:
    """Return jaxtyping's decorator of functions and data classes, for the first calls of a test."""

    def decorator_of(*args: Any, **kwargs: Any) -> Callable:
        decorate = jaxtyped(*args, **kwargs)

        def decorator(given: Any) -> Any:
            if not inspect.isclass(given):
                decorated = decorate(given)
                return _first(decorated, given) if inspect.isfunction(given) else decorated
            plain = given.__init__
            decorated = decorate(given)
            if decorated.__init__ is not plain:
                decorated.__init__ = _first(decorated.__init__, plain)
            return decorated

        return decorator

    return decorator_of


def _first(decorated: Callable, plain: Callable) -> Callable:
    """Return a function that is the decorated one in the first calls of a test."""
    test, left = 0, FIRST_CALLS

    @wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal test, left
        if test != _test:
            test, left = _test, FIRST_CALLS
        if left:
            left -= 1
            return decorated(*args, **kwargs)
        return plain(*args, **kwargs)

    return wrapper


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
    if checks_result and any(map(_is_result, parameters)):
        hints = {}  # the arguments were checked before the call

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hints:
            for name, value in (*zip(positions, args, strict=False), *kwargs.items()):
                if name in hints:
                    _check(value, hints[name])
        result = function(*args, **kwargs)
        if checks_result:
            _check(result, result_hint)
        return result

    return wrapper


def _is_result(parameter: inspect.Parameter) -> bool:
    """Whether jaxtyping, which checks arguments and then both, hands over a result here."""
    by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return by_name and parameter.annotation is Any and parameter.name.startswith("ret")


def _check(value: Any, hint: Any) -> None:
    if any(isinstance(value, plain) for plain in _plain_classes(hint)):
        return
    if (type(value), hint) not in _conforming:
        check_type(value, hint)
        if _by_class(hint):
            _conforming.add((type(value), hint))  # signatures of methods take long to compare


@cache
def _by_class(hint: Any) -> bool:
    """Whether the class of an object decides: for a protocol, None or an object of a plain class.

    An array of a shape is not decided by its class, and neither is what a list holds.
    """
    if get_origin(hint) in (Union, UnionType):
        return all(map(_by_class, get_args(hint)))
    if hint is NoneType:
        return True
    plain = inspect.isclass(hint) and get_origin(hint) is None
    return plain and (is_protocol(hint) or type(hint) in (type, ABCMeta))


@cache
def _plain_classes(hint: Any) -> tuple[type, ...]:
    """Return classes whose objects are what is asked for, whatever they hold; others may be, too.

    Those of a union in its order: an array that fits names the lengths of its axes.
    """
    if get_origin(hint) in (Union, UnionType):
        return tuple(plain for each in get_args(hint) for plain in _plain_classes(each))
    if hint is None:
        return (NoneType,)
    plain = inspect.isclass(hint) and get_origin(hint) is None
    if not plain or is_protocol(hint) or is_typeddict(hint) or issubclass(hint, tuple):
        return ()
    return (hint,)


def _can_check(hint: Any) -> bool:
    return hint not in (inspect.Signature.empty, Any, Self) and not isinstance(hint, str)
