"""Saving and loading of fitted models."""

from __future__ import annotations

import os
from typing import Any

from bagwise._utils.atomic import replaceable, replacing
from bagwise.estimators.saving.container import is_model, pack, unpack
from bagwise.estimators.saving.header import Header, describe
from bagwise.estimators.saving.models import put_together, take_apart
from bagwise.exceptions import SavedModelError


def save(
    model: Any, path: Any, *, schema: Any = None, summary: Any = None, overwrite: bool = False
) -> None:
    """Save a fitted model to one file, from which :func:`bagwise.load` gets it back.

    The file is safe to load even from somebody you do not trust, and is replaced in one step: if
    saving fails or is killed, what was there before stays. A saved model may take the place of
    another; any other file that is there is left alone. MeanEmbeddingRidge with exact sums keeps
    its training points, and so does its file; Gaussian processes keep embeddings, sizes and
    covariates of training bags; other models keep landmarks and statistics.

    Parameters
    ----------
    model : a fitted regressor or classifier of bagwise
    path : str or pathlib.Path of the file, by convention with the suffix .bagwise
    schema, summary : dict, optional
        How the columns of a table became the model's, and facts on the training data: kept in the
        header for :func:`bagwise.estimators.saving.read_header`. Strings, numbers, lists and dicts.
    overwrite : whether to replace even a file that is no saved model

    Examples
    --------
    >>> import numpy as np, tempfile, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 40)
    >>> bags = [rng.normal(0, s, (20, 1)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> path = tempfile.mkdtemp() + "/spread.bagwise"
    >>> bagwise.save(model, path)
    >>> bool((bagwise.load(path).predict(bags) == model.predict(bags)).all())
    True
    """
    name = _checked(path)
    data = to_bytes(model, schema=schema, summary=summary)
    if not overwrite and not replaceable(name, is_model):
        raise SavedModelError.because(
            f"{name} is there already and is no saved model",
            "a new name, or that of a model to be replaced",
            "Choose another name, or add overwrite=True if the file may go.",
        )
    with replacing(name) as part:
        part.write_bytes(data)


def to_bytes(model: Any, *, schema: Any = None, summary: Any = None) -> bytes:
    """Return what :func:`save` writes to a file."""
    tree, writer = take_apart(model)
    return pack(describe(model, tree, writer.notes, schema, summary), writer.tensors)


def load(path: Any) -> Any:
    """Load a model saved by :func:`bagwise.save`.

    It predicts the same, bit by bit where the libraries are the same, and can be cloned, fitted
    again and saved. The file cannot run code; if it is damaged, of a newer format or something
    else, the error says so.

    Examples
    --------
    >>> load("no such file")
    Traceback (most recent call last):
    ...
    bagwise.exceptions.SavedModelError: there is no file no such file; expected a model saved by
    bagwise.save. Check the path.
    """
    return open_saved(path)[0]


def open_saved(path: Any) -> tuple[Any, Header]:
    """Load a model and its header, from one reading of the file."""
    container = unpack(_checked(path))
    header = Header.of(container)
    return put_together(container.header["model"], container.tensors()), header


def read_header(path: Any) -> Header:
    """Return what a saved model says about itself, after checking the file against its checksum."""
    return Header.of(unpack(_checked(path)))


def _checked(path: Any) -> str:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise SavedModelError.because(
            f"the path is {path!r:.80}", "the path of a file", 'For example "model.bagwise".'
        )
    return name
