"""
Does a cluster change the answer?
=================================

No. With ``engine="dask"`` the workers of a cluster read pieces of a file and sum features; sums
travel, points do not. Here two workers fit the model that one process fits, to ten digits. A bag
may lie in the pieces of both.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

import bagwise

# %%
# A file of 60,000 rows in random order, of 300 bags.
rng = np.random.default_rng(0)
y = rng.uniform(1, 2, 300)
of = rng.integers(0, 300, 60_000)
frame = pd.DataFrame(
    {"bag": of, "x": rng.normal(0, y[of]), "z": rng.normal(size=len(of)), "y": y[of]}
)
path = Path(tempfile.mkdtemp()) / "points.parquet"
frame.to_parquet(path, row_group_size=5_000)
columns = {"bag": "bag", "label": "y", "features": ["x", "z"], "progress": False}
model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(30, bandwidth=1.0))

# %%
# One process:
bags, labels = bagwise.Bags.scan_parquet(path, **columns)
alone = model.fit(bags, labels).predict_dist(bags)

# %%
# Two workers. They are threads here; ``Client("tcp://10.0.0.1:8786")`` would be machines, which
# see the file under the same path.
with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    bags, labels = bagwise.Bags.scan_parquet(path, **columns, engine=client)
    together = model.fit(bags, labels).predict_dist(bags)
    print(len(client.scheduler_info()["workers"]), "workers")
assert (alone.ids == together.ids).all()  # bags come in the same order
apart = np.abs(alone.mean - together.mean)
print(f"largest difference of a prediction: {apart.max():.1e}")

# %%
# The same predictions, and how far they are apart: rounding, as sums are added in pieces.
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.scatter(alone.mean, together.mean, s=14)
left.axline((1.5, 1.5), slope=1, color="0.6", lw=1, zorder=0)
left.set(xlabel="one process", ylabel="two workers", title="predictions of 300 bags")
bins = np.logspace(-17, -8, 37)
right.hist(np.clip(apart, 1e-17, None), bins=bins, color="tab:orange")
right.axvline(1e-10, color="0.5", ls=":")
right.text(
    7e-11, 0.97, "what is promised", transform=right.get_xaxis_transform(), va="top", ha="right"
)
right.set(xscale="log", xlabel="difference", ylabel="bags", title="how far apart")
plt.show()
