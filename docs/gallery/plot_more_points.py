"""
How many more points do I need?
===============================

Points cost money. Before buying more, ask the model how sure it would be of this bag with n of
them, and which part of its doubt would not go away.
"""

import matplotlib.pyplot as plt
import numpy as np

import bagwise

rng = np.random.default_rng(0)
share = rng.uniform(0, 1, 150)  # of customers who will stay
sizes = rng.integers(5, 150, 150)
answers = [
    rng.normal(np.where(rng.random(n) < s, 1, -1), 0.8)[:, None] for s, n in zip(share, sizes)
]
score = 100 * share + rng.normal(0, 3, 150)

model = bagwise.DistributionGPRegressor(bagwise.KernelEmbedding(20, kernel="rbf", bandwidth=1.0))
model.fit(answers, score)

# %%
# A new town, of which eight customers were asked:
town = rng.normal(np.where(rng.random(8) < 0.6, 1, -1), 0.8)[:, None]
p = model.predict_dist([town])
print(
    f"{p.mean[0]:.0f} ± {p.std[0]:.0f}; by cause:",
    {name: round(float(np.sqrt(part[0])), 1) for name, part in p.parts.to_dict().items()},
)
for n in (8, 30, 100, 1000):
    print(f"with {n:4d} customers: ± {p.at_size(n).std[0]:.1f}")

# %%
fig, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
bagwise.plots.more_points(p[0], ax=ax)
plt.show()
