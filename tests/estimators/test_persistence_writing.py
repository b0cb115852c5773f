"""Saving replaces a file whole: with kills, with two savers, and without room."""

import errno
import json
import os
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bagwise
from bagwise import Bags, BagwiseError, KernelEmbedding, MeanEmbeddingRidge

# Forks savers of two models, which differ in what they predict, and kills them at any moment; says
# what became of the file. One interpreter, as each new one would take seconds to import.
TORTURE = """
import json, os, random, signal, sys, time
import bagwise

path, *sources = sys.argv[1:]
models = [bagwise.load(source) for source in sources]
answers = [float(model.predict([[[1.0, 2.0]]])[0]) for model in models]
rng, parent = random.Random(0), os.getpid()


def saver(model):
    child = os.fork()
    if child:
        return child
    try:
        while os.getppid() == parent:  # not for ever, should the parent fail
            bagwise.save(model, path)
    finally:
        os._exit(1)


def seen():
    return answers.index(float(bagwise.load(path).predict([[[1.0, 2.0]]])[0]))


bagwise.save(models[0], path)
after_kills = []
for i in range(12):
    child = saver(models[i % 2])
    time.sleep(rng.uniform(0.0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    after_kills.append(seen())
children = [saver(model) for model in models]
end = time.monotonic() + 1.5
while_two = []
while time.monotonic() < end:
    while_two.append(seen())
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(json.dumps([after_kills, while_two, seen()]))
"""


@cache
def models():
    """Two models that keep some megabytes of points, and predict differently."""
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 2, 20)
    bags = Bags.from_list([rng.normal(level, 0.4, (6, 2)) for level in y])
    return [
        MeanEmbeddingRidge(KernelEmbedding(kernel="linear", bandwidth=1.0)).fit(bags, unit * y)
        for unit in (1.0, 10.0)
    ]


def big(model, n_points):
    """The same with so many points more, so that saving takes its time."""
    bags = model.bags_
    sizes = bags.sizes * n_points
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    model.bags_ = Bags(np.repeat(bags.points, n_points, axis=0), offsets, bags.ids)
    return model


def test_kills_and_two_savers_leave_a_whole_model(tmp_path):
    sources = [tmp_path / "one", tmp_path / "ten"]
    for model, source in zip(models(), sources, strict=True):
        bagwise.save(model, source)
        bagwise.save(big(bagwise.load(source), 500), source)
    assert sources[0].stat().st_size > 500_000
    path = tmp_path / "model.bagwise"
    done = subprocess.run(
        [sys.executable, "-c", TORTURE, path, *sources],
        env=os.environ | {"PYTHONPATH": str(Path(bagwise.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    after_kills, while_two, last = json.loads(done.stdout)
    assert len(after_kills) == 12 and set(while_two) == {0, 1} and last in (0, 1)
    for part in tmp_path.glob(".*.part"):
        os.utime(part, (1, 1))
    bagwise.save(models()[0], path)  # which clears what the killed ones left
    assert {file.name for file in tmp_path.iterdir()} == {"one", "ten", "model.bagwise"}


def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch):
    path = tmp_path / "model.bagwise"
    bagwise.save(models()[0], path)
    write = Path.write_bytes

    def half(self, data):
        write(self, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(BagwiseError, match=r"model.bagwise cannot be written \(No space left on"):
        bagwise.save(models()[1], path)
    assert list(tmp_path.iterdir()) == [path]
    new = [[[1.0, 2.0]]]
    assert_array_equal(bagwise.load(path).predict(new), models()[0].predict(new))


def test_a_model_that_cannot_be_saved_leaves_the_old_one(tmp_path):
    path = tmp_path / "model.bagwise"
    bagwise.save(models()[0], path)
    before = path.read_bytes()
    with pytest.raises(BagwiseError, match="is not fitted"):
        bagwise.save(MeanEmbeddingRidge(), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_any_name_will_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "ein Modell.ü", Path("m.bagwise")):
        bagwise.save(models()[0], name)
        assert type(bagwise.load(name)) is MeanEmbeddingRidge
    assert stat.S_IMODE(Path("model").stat().st_mode) & 0o111 == 0
    with pytest.raises(BagwiseError, match=r"cannot be written .* folder that exists"):
        bagwise.save(models()[0], "no/such/folder/m.bagwise")
    with pytest.raises(BagwiseError, match=r"not of a folder\. Add a file name"):
        bagwise.save(models()[0], tmp_path)
