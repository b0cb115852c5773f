"""
How many stars does a review give, and which words say so?
==========================================================

A text is a bag of words. A word becomes numbers by the pieces it is spelt with (hashing), so
nothing has to be downloaded, and words that are spelt alike are alike. Reviews here are made up,
of 2 to 60 words: of a short one the answer should be less sure. Most words say nothing, and the
model is to find out which.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.random_projection import GaussianRandomProjection

import bagwise

GOOD = "lovely wonderful delicious friendly perfect charming generous warm fresh quick".split()
BAD = "awful rude stale cold dirty slow bland broken noisy burnt".split()
OTHER = (
    "the a we our table dinner waiter room evening place street menu came was had with and then "
    "soup bread wine coffee window garden city again friends children monday hotel breakfast"
).split()

rng = np.random.default_rng(0)


def review(stars: float) -> list[str]:
    """Return the words of a review: the more stars, the more good words."""
    n = int(np.exp(rng.uniform(np.log(2), np.log(60))))
    good = rng.random(n) < (stars - 1) / 4
    telling = rng.random(n) < 0.4
    words = np.where(good, rng.choice(GOOD, n), rng.choice(BAD, n))
    return list(np.where(telling, words, rng.choice(OTHER, n)))


stars = rng.uniform(1, 5, 400)
texts = [review(each) for each in stars]
print(" ".join(texts[3]), f"({stars[3]:.1f} stars)")

# %%
# Words to numbers: pieces of three letters, hashed and projected to 24 columns.
vocabulary = sorted(set(GOOD + BAD + OTHER))
pieces = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 3), n_features=512)
numbers = GaussianRandomProjection(24, random_state=0).fit_transform(
    pieces.transform(vocabulary).toarray()
)
vector = dict(zip(vocabulary, numbers, strict=True))
bags = bagwise.Bags.from_list([[vector[word] for word in text] for text in texts])

# %%
# The same model twice: all words of a review count alike; or each has a weight, which is learnt.
# A review of ten words of which two count is then as unsure as one of two.
fixed = bagwise.KernelEmbedding(50, bandwidth=0.5)
weighed = bagwise.KernelEmbedding(50, bandwidth=0.5, learn="point_weights")
models = [bagwise.ShrinkageRegressor(each) for each in (fixed, weighed)]
for model in models:
    model.fit(bags[:300], stars[:300])
for name, model in zip(("all alike", "weighed"), models, strict=True):
    missed = -model.predict_dist(bags[300:]).log_prob(stars[300:]).mean()
    print(f"{name:9s}  −log density of new reviews {missed:.2f}")
p = model.predict_dist(bags[300:])
print(bagwise.evaluate(p, stars[300:], edges=(1, 6, 20), level=0.9))

# %%
# The words with the most and the least weight.
logs = model.features_(numbers) @ model.features_.point_weights
by_weight = [vocabulary[i] for i in np.argsort(logs)]
print("most:", *by_weight[:-9:-1])
print("least:", *by_weight[:8])

# %%
# One review: what each of its words adds to the stars.
longest = int(np.argmin(np.abs(bags.sizes[300:] - 14))) + 300
why = model.explain(bags, bag=longest)
order = np.argsort(why.points)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
colours = np.where(why.points[order] > 0, "tab:green", "tab:red")
left.barh(np.arange(len(order)), why.points[order], color=colours)
left.set_yticks(np.arange(len(order)), [texts[longest][i] for i in order])
left.axvline(0, color="0.3", lw=1)
title = f"predicted {why.prediction:.1f} stars, given {stars[longest]:.1f}"
left.set(xlabel="stars that the word adds", title=title)
right.scatter(bags.sizes[300:], np.abs(p.mean - stars[300:]), s=14, color="0.6", label="error")
order = np.argsort(bags.sizes[300:])
right.plot(
    bags.sizes[300:][order], p.std[order], color="tab:blue", label="stated standard deviation"
)
right.set(xscale="log", xlabel="words", ylabel="stars", title="short reviews are less sure")
right.set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
right.minorticks_off()
right.legend()
plt.show()
