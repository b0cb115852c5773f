"""
Do 90 % intervals hold 90 % of labels, for small bags too?
==========================================================

A model is never quite right. Here labels of small bags are noisier for a reason of their own, of
which the model is not told. ``Conformal`` calibrates it on bags left out: then 90 % of labels are
inside, on average over all bags. Calibrated by size, that holds for small bags on their own.
"""

import matplotlib.pyplot as plt
import numpy as np

import bagwise

rng = np.random.default_rng(0)
SIZES = np.array([3, 10, 30, 100])


def world(n: int) -> tuple[bagwise.Bags, np.ndarray]:
    """Return bags and where they are, which is measured badly where the bag is small."""
    place, sizes = rng.normal(0, 1, n), rng.choice(SIZES, n)
    bags = bagwise.Bags.from_list([rng.normal(m, 1, (k, 1)) for m, k in zip(place, sizes)])
    return bags, place + np.where(sizes < 5, 1.5, 0.3) * rng.normal(size=n)


# %%
# What is promised is promised on average, so here are 20 worlds, each with 150 bags to learn
# from, 200 to calibrate with and 400 new ones.
model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(15, bandwidth=1.0))
options = {
    "conformal, plain errors": {"scale": None},
    "conformal, in units of the sd": {},
    "the same, by size": {"by_size": (1, 5, 20, 50)},
}
inside = {name: [] for name in ("the model itself", *options)}
width = {name: [] for name in inside}
for _ in range(20):
    (bags, y), (left_out, known), (new, truth) = world(150), world(200), world(400)
    fitted = model.fit(bags, y)
    ways = {"the model itself": fitted} | {
        name: bagwise.Conformal(fitted, "split", cv="prefit", **each).fit(left_out, known)
        for name, each in options.items()
    }
    for name, way in ways.items():
        low, high = way.predict_dist(new).interval(0.9).T
        held = (low <= truth) & (truth <= high)
        inside[name].append([100 * held[new.sizes == n].mean() for n in SIZES])
        width[name].append([np.median((high - low)[new.sizes == n]) for n in SIZES])

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for name, mark in zip(inside, "os^D", strict=True):
    left.plot(SIZES, np.mean(inside[name], axis=0), marker=mark, label=name)
    right.plot(SIZES, np.mean(width[name], axis=0), marker=mark)
    print(f"{name:30s}", " ".join(f"{share:5.1f} %" for share in np.mean(inside[name], axis=0)))
left.axhline(90, color="0.6", lw=1, zorder=0)
left.set(ylabel="labels inside, %", title="coverage of 90 % intervals, mean of 20 worlds")
right.set(ylabel="median width", title="width")
for ax in (left, right):
    ax.set(xscale="log", xlabel="points of the bag")
    ax.set_xticks(SIZES, [str(n) for n in SIZES])
    ax.minorticks_off()
fig.legend(loc="outside lower center", ncols=4)
plt.show()
