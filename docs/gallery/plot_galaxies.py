"""
How heavy is a galaxy cluster, from a handful of velocities?
============================================================

The heavier a cluster, the faster its galaxies move. The textbook takes the standard deviation of
their velocities; but it is often known from ten galaxies, and some galaxies only happen to be in
the line of sight. Each cluster is a bag of velocities. (Simulated, after the idea of Ntampaka et
al. 2015.)
"""

import matplotlib.pyplot as plt
import numpy as np

import bagwise

rng = np.random.default_rng(0)
n = 270
mass = rng.uniform(14, 15.3, n)  # log10 of solar masses
dispersion = 1000 * 10 ** ((mass - 15) / 3)  # km/s: M grows as the cube
sizes = np.exp(rng.uniform(np.log(5), np.log(120), n)).astype(int)


def velocities(sigma: float, galaxies: int) -> np.ndarray:
    """Return velocities along the line of sight; one galaxy in seven does not belong."""
    v = rng.normal(0, sigma, galaxies)
    stranger = rng.random(galaxies) < 1 / 7
    return np.where(stranger, rng.uniform(-3000, 3000, galaxies), v)[:, None]


bags = bagwise.Bags.from_list([velocities(s, k) for s, k in zip(dispersion, sizes, strict=True)])
train, new = bags[:180], bags[180:]

# %%
# A Gaussian process on the distribution of velocities. (The default tries nine kernels and takes
# longer.)
embedding = bagwise.KernelEmbedding(20, kernel="rbf", bandwidth=0.5)
model = bagwise.DistributionGPRegressor(embedding).fit(train, mass[:180])
p = model.predict_dist(new)
print(bagwise.evaluate(p, mass[180:], edges=(1, 15, 50)))

# %%
# The textbook: a straight line through the log of the standard deviation.
spread = np.log10([bag.std(ddof=1) for bag in bags])
line = np.polyfit(spread[:180], mass[:180], 1)
textbook = np.polyval(line, spread[180:])
rmse = np.sqrt(np.mean((textbook - mass[180:]) ** 2))
print(f"RMSE of log10 mass: textbook {rmse:.3f}, ours {bagwise.metrics.rmse(p, mass[180:]):.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
low, high = p.interval(0.68).T
groups = np.digitize(new.sizes, (15, 50))
colours, names = ("#c7522a", "#e0a75e", "#2a6f7f"), ("5–14", "15–49", "50+")
for group, (colour, name) in enumerate(zip(colours, names, strict=True)):
    of = groups == group
    axes[0].scatter(mass[180:][of], textbook[of], s=14, color=colour, label=f"{name} galaxies")
    axes[1].vlines(mass[180:][of], low[of], high[of], color=colour, alpha=0.4)
    axes[1].scatter(mass[180:][of], p.mean[of], s=14, color=colour)
for ax, title in zip(axes, ("textbook", "a process on distributions, with 68 % intervals")):
    ax.axline((14, 14), slope=1, color="0.5", lw=1, zorder=0)
    ax.set(xlabel="true log10 mass", title=title)
axes[0].set_ylabel("estimated log10 mass")
axes[0].legend()
plt.show()
