"""
Which patches of an image give it away?
=======================================

An image is a bag of patches: each point has the nine pixels of a patch and where it is. The label
is what the image shows. Here it is a handwritten 3 or 8 of 8 × 8 pixels; ``explain`` says what
each patch adds to the answer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import bagwise

digits = load_digits(n_class=10)
chosen = np.isin(digits.target, (3, 8))
images, y = digits.images[chosen] / 16, digits.target[chosen]

# %%
# All 36 patches of 3 × 3 pixels of an image, each with its row and column.
windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
pixels = windows.reshape(len(images), 36, 9)
rows, columns = np.divmod(np.arange(36), 6)
places = np.broadcast_to(np.stack([rows, columns], axis=1), (len(images), 36, 2))
bags = bagwise.Bags.from_array(np.concatenate([pixels, places], axis=2))
print(bags)

# %%
model = bagwise.ShrinkageClassifier(bagwise.KernelEmbedding(80, bandwidth=0.5), sampling=0.01)
model.fit(bags[:200], y[:200])
p = model.predict_dist(bags[200:])
print(f"right: {bagwise.metrics.accuracy(p, y[200:]):.1%} of {len(y) - 200} new images")

# %%
# What pushes each image towards 8 (orange) or 3 (purple). The gap at the left of a 3 is what
# tells.
fig, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
shown = [200 + int(i) for label in (3, 8) for i in np.flatnonzero(y[200:] == label)[:4]]
for ax, i in zip(axes.flat, shown, strict=True):
    why = model.explain(bags, bag=i)
    adds = np.zeros((8, 8))
    for row, column, value in zip(rows, columns, why.points, strict=True):
        adds[row : row + 3, column : column + 3] += value / 9
    most = np.abs(adds).max()
    ax.imshow(images[i], cmap="gray_r", vmin=0, vmax=1.6)
    ax.imshow(adds, cmap="PuOr_r", alpha=0.65, vmin=-most, vmax=most, interpolation="bilinear")
    eight = p[i - 200].proba[0, list(p.classes).index(8)]
    ax.set_title(f"a {y[i]}: P(8) = {eight:.2f}", fontsize=10)
    ax.set_axis_off()
plt.show()
