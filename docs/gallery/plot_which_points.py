"""
Which points matter?
====================

An answer about a bag is an average over its points. ``explain`` takes it apart: what each point,
column and covariate adds. The contributions add up to the prediction.
"""

import matplotlib.pyplot as plt
import numpy as np

import bagwise

rng = np.random.default_rng(4)


def bag(share: float, n: int) -> np.ndarray:
    """Return points of two columns: some of them, in one corner, are what the label is about."""
    points = rng.normal(0, 1, (n, 2))
    return np.where(rng.random((n, 1)) < share, points * 0.4 + [2.2, 1.8], points)


share = rng.uniform(0, 0.5, 150)
bags = bagwise.Bags.from_list([bag(s, n) for s, n in zip(share, rng.integers(10, 120, 150))])
bags = bags.with_covariates(rng.normal(size=(150, 1)), names=["age"])
y = 10 * share + 0.5 * bags.covariates[:, 0] + rng.normal(0, 0.2, 150)
model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(40, bandwidth=0.5)).fit(bags, y)

# %%
which = int(np.argmax((bags.sizes > 30) & (bags.sizes < 60) & (share > 0.25)))
why = model.explain(bags, bag=which)
print("\n".join(why.lines()))

# %%
# The background is the witness function: what the bag would add if all its points were there.
# Points are drawn where they are, with what each adds.
fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
bagwise.plots.witness(why, ax=ax)
plt.show()
