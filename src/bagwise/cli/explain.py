"""``bagwise explain``: why a bag is predicted as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bagwise.cli import options
from bagwise.cli.data import open_model, read_like, written_as
from bagwise.cli.options import names
from bagwise.cli.output import check_folder
from bagwise.cli.shell import answer, answer_json, command
from bagwise.exceptions import BagwiseError


@command
def explain(
    model: options.Model,
    points: options.Points,
    wanted: Annotated[
        str,
        typer.Option("--id", help="Which bag; an id of several columns with commas between."),
    ],
    labels: options.Labels = None,
    bag: options.ModelBag = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the contributions: .png, .svg or .pdf.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what pushes a prediction up or down.

    Which points and columns of a bag do so, and by how much. Contributions
    add up to the difference from the prediction of the average bag.
    """
    if picture is not None:
        check_folder(picture)
    saved = open_model(model, names(bag))
    written = written_as(sep, decimal, thousands, na)
    data = read_like(saved, points, labels=labels, stream=False, labelled=False, written=written)
    position = find_bag(data.bags.ids, wanted)
    one = data.bags[position : position + 1]
    explanation = saved.model.explain(one)
    if json:
        answer_json(explanation.to_dict())
    else:
        for line in explanation.lines():
            answer(line)
    if picture is not None:
        _draw(explanation, picture)


def find_bag(ids: np.ndarray, wanted: str) -> int:
    """Return the position of the bag whose id is written like this.

    Examples
    --------
    >>> find_bag(np.array([3, 12]), "12")
    1
    """
    written = [_written(bag) for bag in ids.tolist()]
    if wanted in written:
        return written.index(wanted)
    from difflib import get_close_matches

    near = get_close_matches(wanted, written, n=3) or written[:3]
    raise BagwiseError.because(
        f"there is no bag {wanted!r} among {len(written):,}",
        f"an id such as {', '.join(map(repr, near))}",
        "Check --id and the file.",
    )


def _written(bag: Any) -> str:
    return ",".join(map(str, bag)) if isinstance(bag, tuple) else str(bag)


def _draw(explanation: Any, picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    import matplotlib.pyplot as plt

    from bagwise import plots
    from bagwise.atomic import replacing

    drawn = plots.contributions(explanation)
    figure = getattr(drawn, "figure", drawn)
    suffix = picture.suffix.lstrip(".").lower()
    if suffix not in figure.canvas.get_supported_filetypes():
        raise BagwiseError.because(
            f"--picture is {picture.name!r}", "a name that ends in .png, .svg or .pdf", "Rename it."
        )
    with replacing(picture) as part:
        figure.savefig(part, format=suffix, dpi=150)
    plt.close(figure)
    answer(f"drawn: {picture}")
