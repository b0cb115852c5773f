"""
Which molecules smell of musk?
==============================

A molecule has many shapes: it bends. Each of 92 molecules is a bag of 2 to 40 shapes (Musk 1),
each shape 166 numbers, and experts said which molecules are musks. Nobody knows which shape it is
that smells. Is a stated probability of 80 % right in 80 % of cases?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold

import bagwise

musk = bagwise.datasets.load_musk()
print(musk.bags)

# %%
# Every molecule is predicted by a model that has not seen it.
model = bagwise.ShrinkageClassifier(bagwise.KernelEmbedding(40, bandwidth=1.0))
folds = StratifiedKFold(10, shuffle=True, random_state=0)
p = bagwise.cross_val_predict_dist(model, musk.bags, musk.labels, cv=folds, progress=False)
print(bagwise.evaluate(p, musk.labels, edges=(1, 3, 6)))

# %%
# Left: each molecule with its probability and what is not known about that, sorted. Right:
# reliability.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
order = np.argsort(p.probability)
low, high = p.interval(0.8)[order].T
place = np.arange(len(order))
left.vlines(place, low, high, color="0.8", zorder=0)
for label, colour, name in ((1, "tab:orange", "musk"), (0, "tab:blue", "no musk")):
    of = np.asarray(musk.labels)[order] == label
    left.scatter(place[of], p.probability[order][of], s=16, color=colour, label=name)
left.set(xlabel="molecules, sorted", ylabel="P(musk), with 80 % intervals")
left.legend(loc="upper left")
bagwise.plots.reliability(bagwise.metrics.reliability(p, musk.labels, 5), ax=right)
plt.show()
