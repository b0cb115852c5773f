"""``bagwise explain``: why a bag is predicted as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bagwise._utils.work import printable
from bagwise.cli import options
from bagwise.cli.inputs import names, open_model, read_like, written_as
from bagwise.cli.shell import STDOUT, Output, answer, answer_json, check_outputs, command, say
from bagwise.cli.tables import table_output, write_explanation
from bagwise.exceptions import BagwiseError


@command
def explain(
    model: options.Model,
    points: options.Points,
    wanted: Annotated[
        str,
        typer.Option("--id", help="Which bag; an id of several columns with commas between."),
    ],
    of: Annotated[
        str | None,
        typer.Option(
            "--class",
            help="Class whose latent value is explained; default: of two the second, of more the "
            "predicted one.",
            show_default=False,
        ),
    ] = None,
    labels: options.Labels = None,
    bag: options.ModelBag = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write what each point adds, as a table (all the numbers if it ends in "
            ".json): .csv, .csv.gz, .tsv, .parquet or .json; - is standard output."
        ),
    ] = None,
    form: options.TableFormat = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the contributions: .png, .svg or .pdf; - is a PNG on standard output."
        ),
    ] = None,
    safe_csv: options.SafeCsv = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Say what pushes a prediction up or down.

    Which points and columns of a bag do so, and by how much. Contributions
    add up to the difference from the prediction of the average bag.
    """
    table = table_output(out, form, force=force)
    drawing = None if picture is None else _drawing(picture, force)
    outputs = [output for output in (table, drawing) if output is not None]
    check_outputs(outputs, inputs=[model, points, labels], json=json)
    saved = open_model(model, names(bag))
    written = written_as(sep, decimal, thousands, na)
    data = read_like(saved, points, labels=labels, stream=False, labelled=False, written=written)
    position = find_bag(data.bags.ids, wanted)
    one = data.bags[position : position + 1]
    chosen = {} if of is None else {"of": _class_of(saved.model, of)}
    explanation = saved.model.explain(one, **chosen)
    if table is not None:
        write_explanation(explanation, table, form, safe=safe_csv)
    if drawing is not None:
        _draw(explanation, drawing)
    if json:
        answer_json(explanation.to_dict())
        return
    told = say if any(output.is_stdout for output in outputs) else answer
    for line in explanation.lines():
        told(printable(line))
    for output in outputs:
        if not output.is_stdout:
            told(f"written: {output.path}")


def _class_of(model: Any, wanted: str) -> Any:
    """Return the class that is written like this."""
    known = getattr(model, "classes_", np.empty(0)).tolist()
    found = [label for label in known if str(label) == wanted]
    if not found:
        raise BagwiseError.because(
            f"--class is {wanted!r}",
            f"one of {', '.join(map(str, known))}" if known else "none, as labels are numbers",
            "Check --class." if known else "Leave --class out.",
        )
    return found[0]


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


def _drawing(picture: Path, force: bool) -> Output:
    """Return where the picture goes, after a look at the ending of its name."""
    from matplotlib.backend_bases import FigureCanvasBase

    if picture != STDOUT and _kind(picture) not in FigureCanvasBase.filetypes:
        raise BagwiseError.because(
            f"--picture is {picture.name!r}", "a name that ends in .png, .svg or .pdf", "Rename it."
        )
    return Output(picture, force, option="--picture", text=False)


def _kind(picture: Path) -> str:
    return "png" if picture == STDOUT else picture.suffix.lstrip(".").lower()


def _draw(explanation: Any, drawing: Output) -> None:
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    import matplotlib.pyplot as plt

    from bagwise.inspection import plots

    drawn = plots.contributions(explanation)
    figure = getattr(drawn, "figure", drawn)
    with drawing.opened() as file:
        figure.savefig(file, format=_kind(drawing.path), dpi=150)
    plt.close(figure)
