"""The page of benchmarks is what its table says, and the table what is printed elsewhere."""

import csv
import re
from pathlib import Path

from benchmarks.page import PAGE, STORED, page

ROOT = Path(__file__).parents[2]


def rows():
    with STORED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def test_the_page_is_that_of_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(rows())


def test_scores_on_gamma_bags_are_those_of_their_tables():
    methods = {
        "ShrinkageRegressor": "shrinkage",
        "BayesianLinearRegressor": "BLR",
        "BDRRegressor": "BDR",
        "RBFNetworkRegressor": "RBF network",
    }
    checked = 0
    for row in rows():
        name = re.match(r"\w+", row["model"]).group()
        if "reproduce gamma" not in row["command"] or row["model"] not in methods:
            continue
        study = row["command"].split()[-1]
        table = (ROOT / f"docs/results/{study}-table.md").read_text(encoding="utf-8")
        for metric, value in zip(row["score"].split(" / "), row["ours"].split(" / "), strict=True):
            line = re.search(rf"^\| {methods[name]} \| {metric} \| (\S+)", table, re.MULTILINE)
            assert line.group(1) == value
            checked += 1
    assert checked >= 7
