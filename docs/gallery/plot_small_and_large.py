"""
Is a method as sure of 5 points as of 1,000?
============================================

The paper's figure 3, on a part of its data: predicted against true labels of gamma bags, a row
for each bag size and a column for each method. The colour is the standard deviation that the
method states. Methods that average points have one colour for all sizes. Shrinkage has not.
"""

import matplotlib.pyplot as plt

import bagwise

data = bagwise.datasets.gamma_varying(25, seed=23)
train, test = data.train, data.test
print(train.bags)

# %%
# A third of the bags is enough for the picture.
bags, y = train.bags[:350], train.labels[:350]
new, truth = test.bags[:400], test.labels[:400]
kernel = bagwise.KernelEmbedding(40, bandwidth=1.0)
found = {"Optimal": bagwise.datasets.bayes_optimal(new)}
for name, model in {
    "RBF network": bagwise.RBFNetworkRegressor(kernel),
    "BLR": bagwise.BayesianLinearRegressor(kernel),
    "shrinkage": bagwise.ShrinkageRegressor(kernel),
    "BDR": bagwise.BDRRegressor(kernel, inference="laplace"),
}.items():
    found[name] = model.fit(bags, y).predict_dist(new)
    print(f"{name:12s} NLL {bagwise.metrics.nll(found[name], truth):.3f}")

# %%
bagwise.plots.predictions_by_size(found, truth, new.sizes)
plt.show()
