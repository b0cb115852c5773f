"""
What does a fleet of noisy sensors say while readings keep coming?
==================================================================

Each machine has a sensor; how worn the machine is shows in the distribution of its vibrations.
Readings come day by day. Old ones are not kept: sums of features are, and predictions follow as
if all readings had been there.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import bagwise

rng = np.random.default_rng(0)


def readings(wear: float, n: int) -> np.ndarray:
    """Return vibrations: worn machines have bursts."""
    burst = rng.random(n) < wear
    return np.where(burst, rng.normal(2, 1, n), rng.normal(0, 1, n))[:, None]


# %%
# 150 machines were opened, so their wear is known. They had 10 to 200 readings.
wear = rng.uniform(0, 0.6, 150)
known = {f"old {i}": readings(w, rng.integers(10, 200)) for i, w in enumerate(wear)}
model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(25, bandwidth=1.0))
model.fit(known, dict(zip(known, wear, strict=True)))

# %%
# Three machines run, and send some readings a day. ``sums`` is all that is kept of them.
truth = {"A": 0.1, "B": 0.3, "C": 0.5}
first = {name: readings(w, 3) for name, w in truth.items()}
sums = model.sums(first)
days = [model.predict_dist(sums)]
sent = {}
for day in range(1, 60):
    for name, w in truth.items():
        batch = f"{name}, day {day}"
        sent[batch] = readings(w, int(rng.integers(1, 6)))
        sums.add(name, sent[batch], batch=batch)
    days.append(model.predict_dist(sums))
print(sums)

# %%
# A batch that arrives twice is counted once, and a warning says so:
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    added = sums.add("A", sent["A, day 7"], batch="A, day 7")
print(added, "-", said[0].message)

# %%
fig, ax = plt.subplots(figsize=(8.5, 4.4), layout="constrained")
at = np.arange(len(days))
for place, (name, colour) in enumerate(zip(truth, ("#2a6f7f", "#e0a75e", "#c7522a"), strict=True)):
    low, high = np.array([day.interval(0.9)[place] for day in days]).T
    ax.fill_between(at, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(at, [day.mean[place] for day in days], color=colour, label=f"machine {name}")
    ax.axhline(truth[name], color=colour, ls=":", lw=1.5)
ax.set(xlabel="day", ylabel="wear", title="90 % intervals as readings come in; dotted: the truth")
ax.legend(loc="upper right")
plt.show()
