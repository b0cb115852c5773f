"""Faces: the authors' layout, splits, the network's own predictions, and the simulation."""

import gzip
import os
import tracemalloc

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bagwise.datasets import (
    Faces,
    ImageMixture,
    cnn_baseline,
    faces,
    load_imdb_wiki,
    simulate_faces,
)
from bagwise.exceptions import BagwiseError
from bagwise.predictions import metrics

HEADER = "index,name,dob,age,pred,path"
ROWS = [
    ("Ann", "1950-01-01", 30, 31.5),
    ("Bo", "1960-02-02", 40, 35.0),
    ("Ann", "1950-01-01", 34, 36.0),
    ("Ann", "1980-03-03", 20, 22.0),  # another Ann
    ("Åsa, Jr", "", 50, 44.0),
    ("Bo", "1960-02-02", 41, 45.0),
]
TOGETHER = [ROWS[i] for i in (0, 2, 1, 5, 3, 4)]
FEATURES = np.arange(18, dtype=np.float32).reshape(6, 3)


def write(folder, rows=TOGETHER, features=FEATURES, header=HEADER):
    lines = [f'{i},"{name}",{dob},{age},{pred},x' for i, (name, dob, age, pred) in enumerate(rows)]
    text = "\n".join([header, *lines]) + "\n"
    (folder / "data.csv.gz").write_bytes(gzip.compress(text.encode()))
    np.save(folder / "feats.npy", features)
    return folder


def is_mapped(array):
    """Whether an array is a view of a memory map."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


# ---------------------------------------------------------------- layout


def test_files_come_back(tmp_path):
    data = load_imdb_wiki(write(tmp_path))
    assert data.names.tolist() == ["Ann", "Bo", "Ann", "Åsa, Jr"]
    assert data.bags.ids[[0, 2]].tolist() == ["Ann (1950-01-01)", "Ann (1980-03-03)"]
    assert data.bags.sizes.tolist() == [2, 2, 1, 1]
    np.testing.assert_array_equal(data.bags.points, FEATURES)
    np.testing.assert_array_equal(data.labels, [32.0, 40.5, 20.0, 50.0])
    np.testing.assert_array_equal(data.cnn_ages, [31.5, 36.0, 35.0, 45.0, 22.0, 44.0])
    assert not (tmp_path / "feats-by-person.npy").exists()


def test_rows_in_any_order(tmp_path):
    order = [0, 2, 1, 5, 3, 4]
    data = load_imdb_wiki(write(tmp_path, ROWS))
    np.testing.assert_array_equal(data.bags.points, FEATURES[order])
    np.testing.assert_array_equal(data.labels, [32.0, 40.5, 20.0, 50.0])
    np.testing.assert_array_equal(data.cnn_ages, [ROWS[i][3] for i in order])
    assert data.names.tolist() == ["Ann", "Bo", "Ann", "Åsa, Jr"]
    assert is_mapped(data.bags.points)
    assert sorted(os.listdir(tmp_path)) == ["data.csv.gz", "feats-by-person.npy", "feats.npy"]


def test_sorted_copy_is_used_until_it_is_older(tmp_path):
    load_imdb_wiki(write(tmp_path, ROWS))
    copy = tmp_path / "feats-by-person.npy"
    np.save(copy, FEATURES + 100)
    for age, shift in ((10, 100), (-10, 0)):  # seconds newer than the features
        newest = max((tmp_path / name).stat().st_mtime for name in ("feats.npy", "data.csv.gz"))
        os.utime(copy, (newest + age, newest + age))
        data = load_imdb_wiki(tmp_path)
        np.testing.assert_array_equal(data.bags[0][0], FEATURES[0] + shift)


def test_features_stay_on_disk(tmp_path, monkeypatch):
    """Neither loading, nor sorting, nor splitting holds more than a few blocks."""
    monkeypatch.setattr(faces, "BLOCK_BYTES", 1 << 20)
    people, n_features = 400, 1024
    rows = [(f"P{i % people}", "1950", 30, 31) for i in range(20 * people)]
    write(tmp_path, rows, np.empty((0, n_features), np.float32))
    shape = (len(rows), n_features)
    np.lib.format.open_memmap(tmp_path / "feats.npy", "w+", np.float32, shape).flush()
    tracemalloc.start()
    data = load_imdb_wiki(tmp_path)
    train = data.split(20).train
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.bags.points.nbytes == 2**15 * 1000
    assert peak < 2**23
    assert is_mapped(data.bags.points)
    assert is_mapped(train.bags.points)
    assert len(os.listdir(tmp_path)) == 3  # the copy of the training bags has no name


@pytest.mark.parametrize("absent", ["data.csv.gz", "feats.npy"])
def test_missing_file(tmp_path, absent):
    (write(tmp_path) / absent).unlink()
    expected = rf"there is no file {absent} in .*; expected a folder with data.csv.gz .*feats.npy"
    with pytest.raises(BagwiseError, match=expected + r".*authors of Bayes.*simulate_faces\(\)"):
        load_imdb_wiki(tmp_path)


def test_missing_folder(tmp_path):
    with pytest.raises(BagwiseError, match=r"there is no file data.csv.gz in .*nowhere"):
        load_imdb_wiki(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": "index,name,born,age,guess,path"}, "index, name, .* without dob, pred; expec"),
        ({"features": FEATURES[:5]}, "feats.npy has 5 rows but data.csv.gz has 6; expected one"),
        ({"features": FEATURES.astype(float)}, r"feats.npy is float64 \(6, 3\); expected a matrix"),
        ({"features": np.asfortranarray(FEATURES)}, r"float32 \(6, 3\), by column; expected"),
        ({"features": FEATURES[0]}, r"feats.npy is float32 \(3,\); expected a matrix"),
        ({"features": FEATURES * np.nan}, r"bag 'Ann \(1950-01-01\)', row 0, column 0 is nan"),
        ({"rows": [*ROWS[:5], ("Bo", "1", "old", 3)]}, r"data.csv.gz cannot be read .*old"),
        ({"rows": [*ROWS[:5], ("Bo", "1", "", 3)]}, "data.csv.gz, row 5, age is nan; expected"),
        ({"rows": [*ROWS[:5], ("Bo", "1", 3, "inf")]}, "data.csv.gz, row 5, pred is inf; expected"),
    ],
)
def test_bad_files(tmp_path, options, message):
    with pytest.raises(BagwiseError, match=message):
        load_imdb_wiki(write(tmp_path, **options))


@pytest.mark.parametrize(
    ("file", "size", "message"),
    [
        ("feats.npy", 150, "feats.npy cannot be mapped .* expected a whole file"),
        ("data.csv.gz", 5, "data.csv.gz cannot be read .* expected a gzipped table"),
    ],
)
def test_half_a_file(tmp_path, file, size, message):
    path = write(tmp_path) / file
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(BagwiseError, match=message):
        load_imdb_wiki(tmp_path)


# ---------------------------------------------------------------- splits

SPLITS = ("train", "early_stop", "validation", "test")


@pytest.fixture(scope="module")
def simulated():
    return simulate_faces(scale=0.05, n_features=32, random_state=1)


def test_paper_sized_split():
    n = 19_642
    data = simulate_faces(n / 19_545, n_features=1).split(20)
    positions = [data.positions(split) for split in SPLITS]
    assert [len(part) for part in positions] == [9820, 2948, 2946, 3928]
    np.testing.assert_array_equal(np.sort(np.concatenate(positions)), np.arange(n))


def test_split_goes_by_the_legacy_permutation(simulated):
    n = len(simulated.labels)
    data = simulated.split(23)
    chosen = np.random.RandomState(23).permutation(n)[: round(n * 9820 / 19_642)]
    np.testing.assert_array_equal(data.positions("train"), np.sort(chosen))
    assert data.train is data.train
    other = simulated.split(24).positions("train")
    assert not np.array_equal(other, data.positions("train"))


def test_parts_hold_the_same_people(simulated):
    data = simulated.split(20)
    for split in SPLITS:
        part = getattr(data, split)
        positions = data.positions(split)
        np.testing.assert_array_equal(part.labels, simulated.labels[positions])
        np.testing.assert_array_equal(part.names, simulated.names[positions])
        np.testing.assert_array_equal(part.bags[-1], simulated.bags[int(positions[-1])])
        assert part.cnn_ages.shape == (part.bags.n_points,)


def test_parts_of_a_map_equal_parts_in_memory(tmp_path, simulated):
    mapped = simulate_faces(scale=0.05, n_features=32, random_state=1, path=tmp_path)
    one, other = mapped.split(20).validation, simulated.split(20).validation
    assert is_mapped(one.bags.points)
    np.testing.assert_array_equal(one.bags.points, other.bags.points)
    np.testing.assert_array_equal(one.bags.offsets, other.bags.offsets)
    np.testing.assert_array_equal(one.bags.ids, other.bags.ids)
    np.testing.assert_array_equal(one.cnn_ages, other.cnn_ages)


def test_too_few_to_split(tmp_path):
    with pytest.raises(BagwiseError, match="there are 4 people to split; expected at least one in"):
        load_imdb_wiki(write(tmp_path)).split()


# ---------------------------------------------------------------- the network's predictions


def small_mixture(rng, sizes=(1, 4, 30), sd=3.0):
    centers = rng.normal(40.0, 8.0, sum(sizes))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return ImageMixture(centers, offsets, image_sd=sd), np.split(centers, offsets[1:-1])


def test_mixture_is_the_average_of_its_images():
    mixture, bags = small_mixture(np.random.default_rng(0))
    y = np.array([41.0, 30.0, 52.0])
    for i, centers in enumerate(bags):
        images = stats.norm(centers, 3.0)
        assert mixture.mean[i] == pytest.approx(centers.mean())
        second = np.mean(images.moment(2))
        assert mixture.std[i] == pytest.approx(np.sqrt(second - centers.mean() ** 2))
        assert mixture.log_prob(y)[i] == pytest.approx(np.log(images.pdf(y[i]).mean()))
        assert mixture.cdf(y)[i] == pytest.approx(images.cdf(y[i]).mean())
        score, _ = integrate.quad(
            lambda t, i=i, images=images: (images.cdf(t).mean() - (t >= y[i])) ** 2,
            -20.0,
            100.0,
            points=[y[i]],
        )
        assert mixture.crps(y)[i] == pytest.approx(score, rel=1e-6)
    lower, upper = mixture.interval(0.9).T
    np.testing.assert_allclose(mixture.cdf(lower), 0.05, atol=1e-12)
    np.testing.assert_allclose(mixture.cdf(upper), 0.95, atol=1e-12)


def test_far_labels_have_a_finite_density():
    mixture, bags = small_mixture(np.random.default_rng(1), sizes=(2,), sd=0.01)
    expected = stats.norm.logpdf(1000.0, bags[0].max(), 0.01) - np.log(2)
    assert mixture.log_prob(1000.0)[0] == pytest.approx(expected)


def test_baseline_maximises_the_likelihood(simulated):
    data = simulated.split(20)
    train, test = data.train, data.test

    def loss(sd):
        images = np.split(train.cnn_ages, train.bags.offsets[1:-1])
        pairs = zip(train.labels, images, strict=True)
        return -sum(np.log(stats.norm.pdf(y, centers, sd).mean()) for y, centers in pairs)

    best = optimize.minimize_scalar(loss, bracket=(5.0, 10.0), options={"xtol": 1e-6}).x
    prediction = cnn_baseline(train, test)
    assert prediction.image_sd == pytest.approx(best, rel=1e-4)
    scores = metrics.evaluate(prediction, test.labels).overall
    assert 8.0 < scores["rmse"] < 12.5
    assert 0.88 < scores["coverage"] < 1.0


def test_baseline_of_single_images_is_the_root_mean_square(simulated):
    single = simulated.take(np.flatnonzero(simulated.bags.sizes == 1))
    errors = single.labels - single.cnn_ages
    expected = np.sqrt(np.mean(errors**2))
    assert cnn_baseline(single, single).image_sd == pytest.approx(expected)


def test_baseline_errors(simulated):
    single = simulated.take(np.flatnonzero(simulated.bags.sizes == 1))
    exact = Faces(single.bags, single.labels, single.names, single.labels)
    with pytest.raises(BagwiseError, match=r"every training label equals .* has no maximum"):
        cnn_baseline(exact, single)
    prediction = cnn_baseline(single, single)
    with pytest.raises(BagwiseError, match=r"y has shape \(2,\); expected a number or"):
        prediction.log_prob([1.0, 2.0])
    with pytest.raises(BagwiseError, match=r"level is 1; expected .* between 0 and 1"):
        prediction.interval(1)


# ---------------------------------------------------------------- simulation


def test_full_size():
    data = simulate_faces(n_features=1)
    sizes = data.bags.sizes
    assert data.bags.n_bags == 19_545
    assert data.bags.n_points == pytest.approx(397_949, rel=0.02)
    assert np.mean(sizes == 1) == pytest.approx(0.225, abs=0.001)
    assert sizes.min() == 1
    assert 700 < sizes.max() <= 796
    assert data.labels.mean() == pytest.approx(38.0, abs=0.5)
    assert data.labels.std() == pytest.approx(13.0, abs=0.7)
    assert 10.0 <= data.labels.min() <= data.labels.max() <= 90.0


def test_features_look_like_those_of_a_network(simulated):
    points = simulated.bags.points
    assert points.dtype == np.float32
    assert points.min() == 0.0
    assert 0.6 < np.mean(points == 0) < 0.9


def test_same_seed_same_faces(tmp_path, simulated, monkeypatch):
    monkeypatch.setattr(faces, "BLOCK_BYTES", 4 * 32 * 7)  # seven images at a time
    again = simulate_faces(scale=0.05, n_features=32, random_state=1, path=tmp_path)
    np.testing.assert_array_equal(again.bags.points, simulated.bags.points)
    np.testing.assert_array_equal(again.labels, simulated.labels)
    np.testing.assert_array_equal(again.cnn_ages, simulated.cnn_ages)
    np.testing.assert_array_equal(again.bags.ids, simulated.bags.ids)
    np.testing.assert_array_equal(again.names, simulated.names)


def test_simulated_faces_do_not_replace_real_ones(tmp_path, monkeypatch):
    """Nor does half a simulation look like a whole one."""
    for name in ("data.csv.gz", "feats.npy"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(b"the authors'")
        with pytest.raises(BagwiseError, match=rf"{name} already; expected a folder without"):
            simulate_faces(scale=0.001, n_features=2, path=folder)
        assert [path.read_bytes() for path in folder.iterdir()] == [b"the authors'"]

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bagwise.datasets.faces_simulation.write_features", killed)
    with pytest.raises(KeyboardInterrupt):
        simulate_faces(scale=0.001, n_features=2, path=tmp_path / "new")
    assert not (tmp_path / "new" / "data.csv.gz").exists()


def test_other_seeds_and_numbers_of_features(simulated):
    other = simulate_faces(scale=0.05, n_features=32, random_state=2)
    assert not np.array_equal(other.labels, simulated.labels)
    narrow = simulate_faces(scale=0.05, n_features=2, random_state=1)
    np.testing.assert_array_equal(narrow.labels, simulated.labels)


def test_features_tell_age_and_more_images_tell_more():
    data = simulate_faces(scale=0.1, n_features=128)
    means = np.add.reduceat(data.bags.points, data.bags.offsets[:-1], axis=0, dtype=np.float64)
    means /= data.bags.sizes[:, None]
    experiment = data.split(20)
    train, test = experiment.positions("train"), experiment.positions("test")
    center, constant = means[train].mean(axis=0), data.labels[train].mean()
    x, y = means[train] - center, data.labels[train] - constant
    weights = np.linalg.solve(x.T @ x + 500.0 * np.eye(128), x.T @ y)
    errors = (means[test] - center) @ weights + constant - data.labels[test]
    rmse = np.sqrt(np.mean(errors**2))
    assert 8.0 < rmse < 10.5
    assert rmse < 0.85 * np.std(data.labels[test])
    sizes = data.bags.sizes[test]
    assert np.mean(errors[sizes > 10] ** 2) < 0.8 * np.mean(errors[sizes == 1] ** 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0}, "scale is 0; expected a number > 0"),
        ({"n_features": 0}, "n_features is 0; expected a whole number > 0"),
    ],
)
def test_simulation_errors(options, message):
    with pytest.raises(BagwiseError, match=message):
        simulate_faces(**{"scale": 0.001, "n_features": 2} | options)
