"""
Is it worth learning where features look?
=========================================

An image is a bag of patches again, here of all ten digits, and the label is the digit as a number.
A patch is seen by how near it is to each of some landmarks. By default these are typical patches;
``learn=`` moves them, and the scale of every column, to where the labels are told apart. What comes
out is the exact model on the features found.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import bagwise
from bagwise.inference import Training

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))[:1000]
images, y = digits.images[order] / 16, digits.target[order].astype(float)

# %%
# All 25 patches of 4 × 4 pixels of an image, each with its row and column.
windows = np.lib.stride_tricks.sliding_window_view(images, (4, 4), axis=(1, 2))
pixels = windows.reshape(len(images), 25, 16)
places = np.stack(np.divmod(np.arange(25), 5), axis=1)
places = np.broadcast_to(places, (len(images), 25, 2))
bags = bagwise.Bags.from_array(np.concatenate([pixels, places], axis=2))
train, new = slice(0, 400), slice(400, None)

# %%
# The same model twice, with 30 landmarks. A fifth of the training images is held out and says
# when to end; new images have no say.
learn = Training("bandwidth, ard, landmarks", epochs=6)
embeddings = {
    "fixed": bagwise.KernelEmbedding(30),
    "learnt": bagwise.KernelEmbedding(30, learn=learn),
}
models = {
    name: bagwise.DistributionGPRegressor(each, center=False).fit(bags[train], y[train])
    for name, each in embeddings.items()
}
found = {name: model.predict_dist(bags[new]) for name, model in models.items()}
for name, p in found.items():
    error, missed = np.sqrt(np.mean((p.mean - y[new]) ** 2)), -p.log_prob(y[new]).mean()
    print(f"{name:6s}  root mean square error {error:.2f}, −log density {missed:.2f}")

# %%
# Left, how the search went; right, errors on new images and the standard deviations stated.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
bagwise.plots.learning(models["learnt"], ax=left)
for (name, p), colour in zip(found.items(), ("0.6", "tab:blue"), strict=True):
    away = np.abs(p.mean - y[new])
    right.plot(np.sort(away), np.linspace(0, 1, len(away)), color=colour, label=name)
    right.axvline(np.median(p.std), color=colour, ls=":", lw=1)
right.set(xlim=(0, 3), xlabel="digits that the prediction is away", ylabel="share of new images")
right.set_title("errors, and (dotted) the standard deviation stated")
right.legend(loc="lower right")
plt.show()
