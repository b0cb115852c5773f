"""Parameters of estimators: checks that name the parameter and say how to set it."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags.validation import is_positive, random_generator
from bagwise.exceptions import BagwiseError

# Parameters within these bounds can be squared, and multiplied with the data, without overflow.
LEAST, MOST = 1e-100, 1e100


def positive(name: str, value: Any) -> float:
    """Return a parameter as a float, or raise unless it is a number > 0 of usable size."""
    if not is_positive(value):
        raise wrong(name, value, "a finite number > 0")
    if not LEAST <= float(value) <= MOST:
        raise wrong(name, value, f"a number between {LEAST:g} and {MOST:g}")
    return float(value)


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return a parameter, or raise unless it is one of the options."""
    if not isinstance(value, str) or value not in options:
        raise wrong(name, value, " or ".join(f'"{option}"' for option in options))
    return str(value)


def number_or(name: str, value: Any, *words: str) -> float | None:
    """Return a positive number, or None if the parameter is one of the words."""
    if isinstance(value, str):
        if value not in words:
            raise wrong(name, value, f"a number > 0 or {' or '.join(map(repr, words))}")
        return None
    return positive(name, value)


def wrong(name: str, value: Any, expected: str) -> BagwiseError:
    """Return the error of a parameter that is not what was expected."""
    shown = repr(value) if len(repr(value)) < 80 else f"a {type(value).__name__}"
    return BagwiseError.because(
        f"{name} is {shown}", expected, f"Set it with set_params({name}=...)."
    )


def flag(name: str, value: Any) -> bool:
    """Return a parameter as a bool, or raise unless it is one."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, "True or False")
    return bool(value)


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from whatever scikit-learn users call a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return random_generator(random_state)
