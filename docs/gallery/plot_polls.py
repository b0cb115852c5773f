"""
How sure should I be of an election that was polled once?
=========================================================

A race has 1 to 94 polls. Averaging them treats a race with one poll like a race with fifty. Here
each race is a bag of polls, and the answer is as sure as the bag is large.
"""

import matplotlib.pyplot as plt
import numpy as np

import bagwise

polls = bagwise.datasets.load_polls()
order = np.random.default_rng(0).permutation(polls.bags.n_bags)
known, asked = order[:1200], order[1200:]
train, new = polls.bags[known], polls.bags[asked]
y_train, y_new = polls.labels[known], polls.labels[asked]
print(train)

# %%
# ``ShrinkageRegressor`` answers in a second. (``DistributionGPRegressor()`` takes some ten
# seconds, and is a little better: see the benchmarks.)
model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(30, bandwidth=4.0)).fit(train, y_train)
prediction = model.predict_dist(new)
print(bagwise.evaluate(prediction, y_new, edges=(1, 2, 3, 6, 11), level=0.9))

# %%
# The plain average of the polls errs by more. (Races were drawn at random. Of a year that was
# left out whole, polls err together, and intervals of races with many polls are too narrow: the
# benchmarks say by how much.)
average = polls.average[asked]
rmse = np.sqrt(np.mean((average - y_new) ** 2))
print(f"average of the polls: RMSE {rmse:.2f}; ours {bagwise.metrics.rmse(prediction, y_new):.2f}")

# %%
# And here is what a race with n polls is worth. Bars are the standard deviation that the model
# states, by cause; dots are the errors that were made.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
edges = (1, 2, 3, 6, 11)
bagwise.plots.predicted_against_true(prediction, y_new, sizes=new.sizes, ax=axes[0])
bagwise.plots.spread_by_size(prediction, y_new, edges=edges, ax=axes[1])
axes[0].set_xlabel("actual margin, in points")
axes[0].set_ylabel("predicted margin")
plt.show()
