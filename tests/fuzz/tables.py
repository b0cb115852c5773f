"""Tables to try: frames of three libraries and files, whole, odd and damaged."""

import datetime as dt
import gzip
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bagwise import Bags, BayesianLinearRegressor, KernelEmbedding, ShrinkageRegressor
from fuzz.trial import Found, Refused


def columns(trial):
    """Draw a table as a dict of pyarrow arrays: bag, two features, a label, and something odd."""
    rng = trial.rng
    n = trial.draw("rows", [10, 40, 200], [0, 1, 2, 3], 0.1)
    bag = rng.integers(0, max(1, n // 3), n)
    y = 0.5 * bag + (rng.random(n) < 0.01 if trial.chance(0.05) else 0.0)
    found = {
        "bag": pa.array(bag),
        "a": pa.array(rng.normal(size=n) + y),
        "b": pa.array(rng.normal(size=n)),
        "y": pa.array(y),
    }
    how = trial.draw("bag type", ["int", "text"], ["float", "date", "null", "bool", "list"], 0.2)
    found["bag"] = cast_bag(found["bag"], how)
    odd = trial.draw("odd column", ["nothing"] * 12 + list(ODD_COLUMNS))
    if odd != "nothing":
        values = [ODD_COLUMNS[odd](rng, i) for i in range(n)]
        target = trial.draw("in place of", ["c", "c", "c", "b"], ["y", "bag"], 0.2)
        found[target] = arrow(values)
    return found


def cast_bag(ids, how):
    """Return bag ids of another type."""
    if how == "null":
        return pa.array([None if i == 0 else i for i in ids.to_pylist()], pa.int64())
    if how == "list":
        return pa.array([[i] for i in ids.to_pylist()], pa.list_(pa.int64()))
    kinds = {"int": pa.int64(), "text": pa.string(), "float": pa.float64(), "bool": pa.bool_()}
    return ids.cast(pa.timestamp("s") if how == "date" else kinds[how])


def arrow(values):
    """Return an arrow array of whatever type the values suggest, text if none."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([str(value) for value in values])


ODD_COLUMNS = {
    "missing": lambda rng, i: None if i % 3 == 0 else 1.0 * i,
    "all missing": lambda rng, i: None,
    "nan": lambda rng, i: np.nan if i == 1 else 1.0,
    "inf": lambda rng, i: np.inf if i == 0 else 1.0,
    "1e308": lambda rng, i: (-1.0) ** i * 1e308,
    "1e100": lambda rng, i: 1e100 * i,
    "words": lambda rng, i: "uvw"[i % 3],
    "nearly numbers": lambda rng, i: "n.d." if i == 2 else str(i),
    "numbers as words": lambda rng, i: f"{i}.5",
    "thousands": lambda rng, i: f"{i},234.5",
    "bools": lambda rng, i: i % 2 == 0,
    "decimals": lambda rng, i: Decimal(i) / 4,
    "dates": lambda rng, i: dt.date(2020, 1, 1 + i % 28),
    "times": lambda rng, i: dt.datetime(2020, 1, 1, i % 24),
    "durations": lambda rng, i: dt.timedelta(days=i),
    "lists": lambda rng, i: [1.0, 2.0],
    "structs": lambda rng, i: {"u": i},
    "bytes": lambda rng, i: bytes([i % 256, 0]),
    "uint64": lambda rng, i: 2**63 + i,
    "constant": lambda rng, i: 4.0,
    "float16": lambda rng, i: np.float16(i % 9),
    "empty words": lambda rng, i: "",
    "long words": lambda rng, i: "x" * 10_000,
    "control": lambda rng, i: f"\x1b[31m{i}\x00\n",
    "formulas": lambda rng, i: f"=SUM(A{i})",
    "fill value": lambda rng, i: 9.97e36 if i == 3 else float(rng.normal()),
}


def roles(trial, names):
    """Draw what the columns are, mostly as it should be."""
    bag = trial.draw("bag", ["bag"], ["nobody", ["bag", "y"], [], None, 3, ["bag", "bag"]], 0.1)
    found, odd_names = {"bag": bag}, [name for name in names if name == "c"]
    label = trial.draw("label", ["y", "y", "y", None], ["a", "nobody", "bag", 3, ""], 0.1)
    found |= {} if label is None else {"label": label}
    if trial.chance(0.3):
        odd = [[], "c", ["a", "a"], ["bag"], None, ["nobody"], 3, ["a", None]]
        found["features"] = trial.draw("features", [["a"], ["a", "b"]], odd, 0.4)
    if trial.chance(0.2):
        odd = [None, ["nobody"], ["a"], 3, "c", ["y"]]
        found["covariates"] = trial.draw("covariates", [*odd_names, []], odd, 0.3)
    if trial.chance(0.1):
        found["weights"] = trial.draw("weights", ["b", *odd_names], ["nobody", 3, ["b"]], 0.3)
    if trial.chance(0.15) and odd_names:
        odd = [["nobody"], {"c": []}, {"c": ["u", "u"]}, 3, ["a"], {"c": "uv"}, {"c": [None]}]
        found["one_hot"] = trial.draw("one_hot", ["c", {"c": ["u", "v"]}], odd, 0.5)
    found["missing"] = trial.draw("missing", ["error", "drop", "impute"], ["keep", None, 1], 0.03)
    return found


def frame(trial, table):
    """Return the table as a data frame of one of three libraries."""
    library = trial.draw("library", ["pandas", "polars", "pyarrow"])
    made = pa.table(table)
    if library == "pandas":
        found = made.to_pandas()
        twist = trial.draw("pandas", ["plain"] * 4, ["twice", "index", "objects", "multi"], 0.2)
        if twist == "twice":
            found = pd.concat([found, found[["a"]]], axis=1)
        elif twist == "index" and len(found):
            found = found.set_index("bag")
        elif twist == "objects":
            found = found.astype(object)
        elif twist == "multi":
            found.columns = pd.MultiIndex.from_tuples([(name, 0) for name in found.columns])
        return found
    return pl.from_arrow(made) if library == "polars" else made


def tables(trial):
    """Bags from data frames, and a model fitted to them."""
    table = columns(trial)
    try:
        found = frame(trial, table)
    except Exception:  # the library itself has no such type
        trial.drawn.append("no such frame")
        return
    labels = None
    if trial.chance(0.15):
        labels = pa.table({"bag": table["bag"], "y": table["y"]})
        kept = trial.draw("label rows", ["unique", "first", "all", "none"])
        n = {"unique": None, "first": 2, "all": labels.num_rows, "none": 0}[kept]
        try:
            labels = labels.group_by("bag").aggregate([("y", "min")]) if n is None else labels[:n]
            labels = labels.rename_columns({"y_min": "y"}) if n is None else labels
        except pa.ArrowException:
            labels = None
    options = roles(trial, list(table)) | ({} if labels is None else {"labels": labels})
    made = trial.call("from_frame", Bags.from_frame, found, **options)
    trial.counts["made"] += 1
    fit_table(trial, made)


def fit_table(trial, made):
    """Check bags from a table, and fit a quick model to their labels if they have any."""
    from fuzz.kinds import check_bags, predicted

    bags, y = made if isinstance(made, tuple) else (made, None)
    check_bags(trial, bags)
    if y is None or not trial.chance(0.4):
        return
    model = trial.draw("model", [BayesianLinearRegressor, ShrinkageRegressor])
    model = model(KernelEmbedding(bandwidth=1.0), weight_var=1.0)
    trial.call("fit", model.fit, bags, y)
    trial.counts["fitted"] += 1
    predicted(trial, "train", model, bags, y, False, np.ones(bags.n_bags, dtype=bool))


# ---- files --------------------------------------------------------------------------------------


def files(trial):
    """Bags from CSV and Parquet files, whole or damaged; in passes as at once."""
    table = columns(trial)
    path = write(trial, table)
    options = roles(trial, list(table))
    read = Bags.from_csv if "csv" in path.name or "tsv" in path.name else Bags.from_parquet
    if trial.chance(0.05):
        read = Bags.from_csv if read == Bags.from_parquet else Bags.from_parquet
    outcome = None
    try:
        outcome = trial.call(read.__name__, read, path, **options, allow=(OSError,))
        trial.counts["made"] += 1
        fit_table(trial, outcome)
    except (Refused, Found):
        pass
    if path.suffix == ".parquet" and read == Bags.from_parquet:
        streamed = trial.call("scan_parquet", Bags.scan_parquet, path, progress=False, **options,
                              allow=(OSError,))  # fmt: skip
        compare(trial, outcome, streamed)


def compare(trial, outcome, streamed):
    """What is read in passes is what is read at once."""
    if outcome is None:
        trial.find("scan_parquet", "reads what from_parquet refuses")
        return
    one, other = (made[0] if isinstance(made, tuple) else made for made in (outcome, streamed))
    if list(one.ids) != list(other.ids) or list(one.sizes) != list(other.sizes):
        trial.find("scan_parquet", "other bags than from_parquet")
    if isinstance(outcome, tuple) and list(outcome[1]) != list(streamed[1]):
        trial.find("scan_parquet", "other labels than from_parquet")


def write(trial, table, p_damage=0.5):
    """Write the table to a file, whole or damaged, and return its path."""
    endings = [".csv", ".csv", ".csv.gz", ".tsv", ".parquet", ".parquet"]
    ending = trial.draw("ending", endings, [".txt", ".CSV", ".pq", ""], 0.05)
    path = trial.folder / f"points{ending}"
    made = pa.table(table)
    content = as_parquet(made) if ending in (".parquet", ".pq", "") else as_csv(made, ending)
    damage = trial.draw("damage", ["none"], DAMAGES, p_damage)
    content = damaged(trial.rng, content, damage)
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(gzip.compress(content) if ending == ".csv.gz" else content)
        if ending == ".csv.gz" and trial.chance(0.1):
            path.write_bytes(path.read_bytes()[: len(content) // 3])
    return path


DAMAGES = [
    "empty", "header only", "cut", "cut in a row", "nul", "latin-1", "utf-16", "bom", "quote",
    "long field", "more fields", "fewer fields", "twice the header", "semicolons", "decimal comma",
    "cr", "noise", "flip", "folder", "missing", "blank lines", "same name", "no header",
]  # fmt: skip


def damaged(rng, content, how):
    """Return the bytes of a file after something happened to it."""
    head, newline, rest = content.partition(b"\n")
    at = int(rng.integers(len(content) + 1))
    ways = {
        "empty": lambda: b"",
        "header only": lambda: head + newline,
        "cut": lambda: content[:at],
        "cut in a row": lambda: content[:-4],
        "nul": lambda: content[:at] + b"\x00" + content[at:],
        "latin-1": lambda: content[:at] + "é".encode("latin-1") + content[at:],
        "utf-16": lambda: content.decode("latin-1").encode("utf-16"),
        "bom": lambda: b"\xef\xbb\xbf" + content,
        "quote": lambda: content[:at] + b'"' + content[at:],
        "long field": lambda: content[:at] + b"9" * 3_000_000 + content[at:],
        "more fields": lambda: content + b"1,2,3,4,5,6,7,8,9\n",
        "fewer fields": lambda: content + b"1\n",
        "twice the header": lambda: head + newline + content,
        "semicolons": lambda: content.replace(b",", b";"),
        "decimal comma": lambda: content.replace(b",", b";").replace(b".", b","),
        "cr": lambda: content.replace(b"\n", b"\r"),
        "noise": lambda: rng.bytes(500),
        "flip": lambda: content[:at] + rng.bytes(1) + content[at + 1 :],
        "blank lines": lambda: content.replace(b"\n", b"\n\n"),
        "same name": lambda: head.replace(b'"b"', b'"a"') + newline + rest,
        "no header": lambda: rest,
    }
    return ways.get(how, lambda: content)()


def as_parquet(table):
    """Return the table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    try:
        pa.parquet.write_table(table, sink)
    except pa.ArrowException:  # no such type in Parquet
        return b""
    return sink.getvalue().to_pybytes()


def as_csv(table, ending):
    """Return the table as CSV; what has no place there is written as text."""
    separator = "\t" if ending == ".tsv" else ","
    lines = [separator.join(f'"{name}"' for name in table.column_names)]
    for row in table.to_pylist():
        lines.append(separator.join("" if x is None else str(x) for x in row.values()))
    return ("\n".join(lines) + "\n").encode()
