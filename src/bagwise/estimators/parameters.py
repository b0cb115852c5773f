"""Parameters of estimators: checks that name the parameter and say how to set it."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags.validation import is_positive, random_generator
from bagwise.exceptions import BagwiseError

# Parameters within these bounds can be squared, and multiplied with the data, without overflow.
LEAST, MOST = 1e-100, 1e100

# What sets a parameter of an estimator; one of a part of it is set by the part's constructor.
SETTER = "set_params"


def positive(name: str, value: Any, of: str = SETTER) -> float:
    """Return a parameter as a float, or raise unless it is a number > 0 of usable size."""
    if not is_positive(value):
        raise wrong(name, value, "a finite number > 0", of)
    if not LEAST <= float(value) <= MOST:
        raise wrong(name, value, f"a number between {LEAST:g} and {MOST:g}", of)
    return float(value)


def choice(name: str, value: Any, options: tuple[str, ...], of: str = SETTER) -> str:
    """Return a parameter, or raise unless it is one of the options."""
    if not isinstance(value, str) or value not in options:
        raise wrong(name, value, " or ".join(f'"{option}"' for option in options), of)
    return str(value)


def number_or(name: str, value: Any, *words: str, of: str = SETTER) -> float | None:
    """Return a positive number, or None if the parameter is one of the words."""
    if isinstance(value, str):
        if value not in words:
            raise wrong(name, value, f"a number > 0 or {' or '.join(map(repr, words))}", of)
        return None
    return positive(name, value, of)


def wrong(name: str, value: Any, expected: str, of: str = SETTER) -> BagwiseError:
    """Return the error of a parameter that is not what was expected; ``of`` is called to set it."""
    shown = repr(value) if len(repr(value)) < 80 else f"a {type(value).__name__}"
    return BagwiseError.because(f"{name} is {shown}", expected, f"Set it with {of}({name}=...).")


def flag(name: str, value: Any, of: str = SETTER) -> bool:
    """Return a parameter as a bool, or raise unless it is one."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, "True or False", of)
    return bool(value)


def whole(name: str, value: Any, of: str = SETTER) -> int | None:
    """Return a parameter, or raise unless it is a whole number of at least 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise wrong(name, value, "a whole number of at least 1, or None", of)
    return int(value)


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from whatever scikit-learn users call a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return random_generator(random_state)
