"""
Which model should I take?
==========================

The one that predicts bags that it has not seen. Here four are compared by the density that they
give to labels left out (NLL, smaller is better) and by their errors. A county is a bag of houses
with the radon in their air, 1 to 258 of them; its label is how much uranium is in the soil.
``bagwise report`` does this for any table.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold

import bagwise

radon = bagwise.datasets.load_radon()
rng = np.random.default_rng(0)
some = np.sort(rng.choice(radon.bags.n_bags, 150, replace=False))
bags, y = radon.bags[some], np.asarray(radon.labels)[some]
print(bags)

# %%
kernel = bagwise.KernelEmbedding(20, kernel="rbf", bandwidth=1.0)
models = {
    "RBF network (averages)": bagwise.RBFNetworkRegressor(kernel),
    "BLR (averages)": bagwise.BayesianLinearRegressor(kernel),
    "shrinkage": bagwise.ShrinkageRegressor(kernel),
    "Gaussian process": bagwise.DistributionGPRegressor(kernel),
}
folds = KFold(3, shuffle=True, random_state=0)
found = {
    name: bagwise.cross_val_predict_dist(model, bags, y, cv=folds, progress=False)
    for name, model in models.items()
}

# %%
edges = (1, 4, 16)
groups = ["all", "1–3", "4–15", "16+"]
fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for place, (name, p) in enumerate(found.items()):
    rows = {row["group"]: row for row in bagwise.evaluate(p, y, edges=edges).rows}
    for ax, metric in zip(axes, ("nll", "rmse"), strict=True):
        at = np.arange(len(groups)) + 0.2 * (place - 1.5)
        ax.bar(at, [rows[g][metric] for g in groups], 0.18, label=name)
for ax, title in zip(axes, ("NLL of labels left out", "RMSE of labels left out"), strict=True):
    ax.set_xticks(range(len(groups)), groups)
    ax.set(xlabel="houses of the county", title=title)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()
