"""
Can a patient's status be told from their cells?
================================================

A donor is a bag of cells. In an ``AnnData`` object each row is a cell, and ``obs`` says whose it
is. Here is a simulated one: of ill donors, two rare kinds of cells are more frequent, one with
more and one with less of a marker. Averages of all cells (pseudobulk) do not see it; a
distribution does.
"""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bagwise

rng = np.random.default_rng(1)
n_donors = 120
n_cells = rng.integers(15, 300, n_donors)
ill = np.arange(n_donors) % 2
donor = np.repeat(np.arange(n_donors), n_cells)

# Six principal components: two common kinds of cells in varying proportions, and two rare ones.
kind = rng.random(len(donor)) < np.repeat(rng.uniform(0.2, 0.8, n_donors), n_cells)
rare = rng.random(len(donor)) < np.repeat(np.where(ill, 0.12, 0.04), n_cells)
centres = np.array([[2, 0], [-2, 0], [0, 3], [0, -3]]) @ np.eye(2, 6)
which = np.where(rare, 2 + rng.integers(0, 2, len(donor)), kind.astype(int))
cells = centres[which] + 0.7 * rng.normal(size=(len(donor), 6))

# %%
# With the package anndata this is ``AnnData(obs=obs, obsm={"X_pca": cells})``, or the path of a
# file. All that is asked of it are these attributes.
obs = pd.DataFrame({"donor": donor, "status": np.where(ill, "ill", "well")[donor]})
adata = SimpleNamespace(obs=obs, obsm={"X_pca": cells}, layers={}, var_names=[], X=None)
bags, status = bagwise.Bags.from_anndata(adata, bag="donor", label="status", use_rep="X_pca")
print(bags)

# %%
# Out-of-fold probabilities, by a model of distributions and by one of averages:
models = {
    "distributions": bagwise.ShrinkageClassifier(bagwise.KernelEmbedding(30, bandwidth=1.0)),
    "averages": bagwise.BayesianLogisticClassifier(bagwise.KernelEmbedding(kernel="linear")),
}
found = {
    name: bagwise.cross_val_predict_dist(model, bags, status, cv=3, progress=False)
    for name, model in models.items()
}
for name, p in found.items():
    print(
        f"{name}: log loss {bagwise.metrics.log_loss(p, status):.3f}, "
        f"right {bagwise.metrics.accuracy(p, status):.0%}"
    )

# %%
# Left, the cells of one ill donor among all; right, the probability of "well" for each donor. The
# more cells, the surer.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
some = rng.choice(len(cells), 4000, replace=False)
left.scatter(*cells[some, :2].T, s=3, color="0.8", label="all donors")
one = bags[int(np.flatnonzero((ill == 1) & (n_cells > 150))[0])]
left.scatter(*one[:, :2].T, s=8, color="tab:red", label="one ill donor")
left.set(xlabel="X_pca_0", ylabel="X_pca_1", title="cells")
left.legend(loc="upper left")
p = found["distributions"]
well = p.proba[:, list(p.classes).index("well")]
for name, colour in (("ill", "tab:red"), ("well", "tab:blue")):
    of = status == name
    right.scatter(n_cells[of], well[of], color=colour, s=22, label=name)
right.axhline(0.5, color="0.7", lw=1, zorder=0)
right.set(xscale="log", xlabel="cells of the donor", ylabel="P(well), out of fold", title="donors")
right.set_xticks([20, 50, 100, 200, 300], ["20", "50", "100", "200", "300"])
right.minorticks_off()
right.legend(loc="upper left")
plt.show()
