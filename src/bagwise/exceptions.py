"""Errors and warnings: each says what was found, what was expected and what to do."""

from __future__ import annotations

from typing import Self

__all__ = [
    "BagwiseError",
    "BagwiseWarning",
    "InvalidBagsError",
    "InvalidLabelsError",
    "SavedModelError",
    "UnknownBagError",
]


class BagwiseError(ValueError):
    """Something given to bagwise cannot be used.

    Examples
    --------
    >>> print(BagwiseError.because("bag 'a' is empty", "at least one point", "Drop the bag."))
    bag 'a' is empty; expected at least one point. Drop the bag.
    """

    @classmethod
    def because(cls, found: str, expected: str, remedy: str) -> Self:
        """Make the error from its three parts: what was found, what was expected, the remedy."""
        return cls(f"{found}; expected {expected}. {remedy}")


class InvalidBagsError(BagwiseError):
    """The points, ids, weights or covariates of some bags cannot be used.

    Examples
    --------
    >>> import bagwise
    >>> bagwise.Bags.from_list([[[float("nan")]]])
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidBagsError: bag 0, row 0, column 0 is nan; ...
    """


class InvalidLabelsError(BagwiseError):
    """The labels cannot be used with these bags.

    Examples
    --------
    >>> import bagwise
    >>> bagwise.RBFNetworkRegressor().fit([[[1.0]], [[2.0]]], [1.0])
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidLabelsError: ...
    """


class UnknownBagError(BagwiseError, KeyError):
    """No bag has this id.

    Examples
    --------
    >>> import bagwise
    >>> bagwise.Bags.from_list({"anna": [[1.0]]})["ben"]
    Traceback (most recent call last):
    ...
    bagwise.exceptions.UnknownBagError: ...
    """

    __str__ = Exception.__str__  # a KeyError would show the sentence in quotes


class SavedModelError(BagwiseError):
    """A model cannot be saved as asked, or a file is no model that can be loaded.

    Examples
    --------
    >>> import bagwise
    >>> bagwise.load("no such file")
    Traceback (most recent call last):
    ...
    bagwise.exceptions.SavedModelError: there is no file no such file; expected a model saved by
    bagwise.save. Check the path.
    """


class BagwiseWarning(UserWarning):
    """The result can be used, but probably not as it was meant.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", BagwiseWarning)  # to stop where one arises
    """
