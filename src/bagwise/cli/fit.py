"""``bagwise fit``: from a file of points to a saved model."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bagwise.cli import options
from bagwise.cli.inputs import (
    CONFORMAL,
    ModelName,
    TableData,
    are_classes,
    batch_name,
    engine_of,
    estimator,
    names,
    of_conformal,
    read,
    read_groups,
    roles_of,
    written_as,
)
from bagwise.cli.shell import (
    MODEL,
    SUMS,
    Output,
    WrongLine,
    answer,
    answer_json,
    check_outputs,
    command,
    say,
)
from bagwise.exceptions import BagwiseError

# Level at which the calibration of a model is shown.
CALIBRATION_LEVEL = 0.9


@command
def fit(
    points: options.Points,
    bag: options.BagColumn,
    label: options.LabelColumn,
    out: Annotated[
        Path,
        typer.Option(help="Where to save the model; - is standard output.", show_default=False),
    ],
    model: Annotated[
        ModelName,
        typer.Option(help="Which model; gp, a Gaussian process, is the one to try first."),
    ] = ModelName.GP,
    labels: options.Labels = None,
    features: options.FeatureColumns = None,
    covariates: options.CovariateColumns = None,
    weights: options.WeightColumn = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column of groups of bags that err together, such as the year of a race: bags of "
            "new groups are then as unsure as they should be. Of gp; with --tune and --conformal, "
            "groups are never parted between folds, of any model.",
            show_default=False,
        ),
    ] = None,
    one_hot: options.OneHot = None,
    ignore: options.Ignored = None,
    missing: options.MissingValues = options.Missing.ERROR,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    task: options.TaskOption = options.Task.AUTO,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="parameter=value of the model, such as n_landmarks=90, inference=variational or "
            "support=(0,1); may repeat.",
            show_default=False,
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose landmarks and bandwidth by cross-validation.")
    ] = False,
    conformal: Annotated[
        bool,
        typer.Option(
            "--conformal",
            help="Calibrate on bags left out, so that intervals, or sets of classes, hold whether "
            "or not the model is right. --set method=split or jackknife+ (default cv+), cv=5, "
            "by_size=3, target_sizes=predicted and symmetric=False are of it.",
        ),
    ] = False,
    sums: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep the sums of the bags, so that `bagwise update` can add points.",
            show_default=False,
        ),
    ] = None,
    stream: options.Stream = None,
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Fit a model to points in a file, and save it.

    bagwise fit points.parquet --bag person --label age --out age.bagwise
    """
    saved = Output(out, force, MODEL, text=False)
    outputs = [saved]
    if sums is not None:
        outputs.append(Output(sums, force, SUMS, option="--sums", text=False))
    check_outputs(outputs, inputs=[points, labels], json=json)
    apart = names(ignore)
    if groups is not None and features is None and groups not in names(covariates):
        apart.append(groups)  # else a column of numbers would be a feature
    written = written_as(sep, decimal, thousands, na) | {"ignore": apart}
    roles = roles_of(bag, label, features, covariates, weights, one_hot, missing.value, written)
    of_calibration, of_model = of_conformal(settings or []) if conformal else ({}, settings or [])
    if groups is not None and sums is not None:
        raise _sums_with_groups()
    with engine_of(cluster, workers, stream) as engine:
        data = read(points, roles, labels=labels, stream=stream, engine=engine)
        also = CONFORMAL if conformal else ()
        unfitted = _unfitted(model, data, task, of_model, seed, also)
        if sums is not None:
            _check_sums(unfitted, conformal=conformal)
        given = {}
        if groups is not None:
            given["groups"] = read_groups(points, roles, groups, data, labels=labels, engine=engine)
        start = time.perf_counter()
        fitted = _tuned(unfitted, data, given) if tune else unfitted
        if conformal:
            fitted = _calibrated(fitted, of_calibration).fit(data.bags, data.labels, **given)
        elif not tune:
            fitted = fitted.fit(data.bags, data.labels, **given)
        summary = training_summary(data, time.perf_counter() - start)
        held = None if sums is None else fitted.sums(data.bags, data.labels)

    from bagwise.estimators.saving import to_bytes

    schema = data.schema.to_dict()
    if held is not None:
        held.batches[batch_name((points, labels))] = held.n_points
        summary["sums_state"] = held.state
        sums_file = to_bytes(held, schema=schema)
        with outputs[1].opened() as file:
            file.write(sums_file)
    model_file = to_bytes(fitted, schema=schema, summary=summary)
    with saved.opened() as file:
        file.write(model_file)
    _report(fitted, summary, outputs, json)


def _unfitted(
    model: ModelName,
    data: TableData,
    task: options.Task,
    settings: list[str],
    seed: int,
    also: tuple[str, ...],
) -> Any:
    """Return the estimator that the line asks for, by what the labels are."""
    classes = are_classes(data.labels, task.value)
    if classes and task == options.Task.AUTO and data.labels.dtype.kind in "fiu":
        say("note: there are two labels, which are taken as classes; --task numbers says otherwise")
    return estimator(model, classes=classes, settings=settings, seed=seed, also=also)


def _check_sums(unfitted: Any, *, conformal: bool) -> None:
    """Refuse a model that cannot do without its points; leave centring out if it is our choice."""
    if conformal:
        raise BagwiseError.because(
            "--sums with --conformal, whose calibration is of bags as they were",
            "one of the two",
            "Leave out --conformal, or --sums.",
        )
    if getattr(unfitted, "exact", False) or getattr(unfitted, "center", False) is True:
        what = "exact" if getattr(unfitted, "exact", False) else "center"
        raise BagwiseError.because(
            f"a model with {what}=True needs its old points when new ones come",
            "a model whose sums can be kept",
            f"Add --set {what}=False, or leave out --sums.",
        )
    if getattr(unfitted, "center", False) == "auto":
        unfitted.set_params(center=False)
        say("note: with --sums, bags are not centred (center=False): their means would move")


def _sums_with_groups() -> WrongLine:
    return WrongLine.because(
        "--sums with --groups, of which sums do not know",
        "one of the two",
        "Leave out --groups, or --sums.",
    )


def _tuned(unfitted: Any, data: TableData, given: dict[str, Any]) -> Any:
    from bagwise.estimators.selection import tune

    found = tune(unfitted, data.bags, data.labels, **given)
    chosen = found.params.items()
    shown = ", ".join(f"{name.removeprefix('embedding__')} {value}" for name, value in chosen)
    say(f"chosen by cross-validation: {shown} ({found.metric} {found.score:.4g})")
    return found.estimator


def _calibrated(model: Any, settings: dict[str, Any]) -> Any:
    from bagwise.estimators.conformal import Conformal

    return Conformal(model, **settings)


def training_summary(data: TableData, seconds: float) -> dict[str, Any]:
    """Return what a reader of the saved model would like to know of the training bags."""
    sizes, y = data.bags.sizes, data.labels
    summary: dict[str, Any] = {
        "source": data.source,
        "bags": int(data.bags.n_bags),
        "points": int(data.bags.n_points),
        "smallest_bag": int(sizes.min()),
        "median_bag": float(np.median(sizes)),
        "largest_bag": int(sizes.max()),
        "seconds": round(seconds, 3),
    }
    if y.dtype.kind in "fiu":
        return summary | {
            "label_mean": float(y.mean()),
            "label_sd": float(y.std()),
            "label_least": float(y.min()),
            "label_largest": float(y.max()),
        }
    classes, counts = np.unique(y, return_counts=True)
    return summary | {"classes": dict(zip(map(str, classes), counts.tolist(), strict=True))}


def _report(fitted: Any, summary: dict[str, Any], outputs: list[Output], json: bool) -> None:
    out, sums = outputs[0], outputs[1] if len(outputs) > 1 else None
    calibrated = hasattr(fitted, "coverage_by_size")
    of = type(fitted.model if calibrated else fitted).__name__
    facts = {"model": of, "out": str(out.path)} | summary
    if sums is not None:
        facts["sums"] = str(sums.path)
    shares = fitted.coverage_by_size(CALIBRATION_LEVEL) if calibrated else None
    if shares is not None:
        facts["conformal"] = {"method": fitted.method, "level": shares.level, "rows": shares.rows}
    if json:
        answer_json(facts)
        return
    told = say if any(output.is_stdout for output in outputs) else answer
    told(
        f"{facts['model']} fitted to {summary['bags']:,} bags of {summary['smallest_bag']:,} to "
        f"{summary['largest_bag']:,} points ({summary['points']:,} in all) in "
        f"{summary['seconds']:.1f} s"
    )
    if shares is not None:
        told(
            f"calibrated ({fitted.method}); share of bags that {100 * shares.level:g} % intervals "
            "or sets made of the errors of the others hold:"
        )
        for line in str(shares).splitlines():
            told(line)
    if not out.is_stdout:
        name = shlex.quote(str(out.path))
        told(f"saved as {out.path}: try bagwise predict {name} NEW_POINTS --out predictions.csv")
        if sums is not None and not sums.is_stdout:
            kept = shlex.quote(str(sums.path))
            told(f"sums kept in {sums.path}: bagwise update {name} {kept} NEW_POINTS adds points")
