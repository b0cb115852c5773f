"""Double sums: exact inner products of mean embeddings, over all pairs of points."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bagwise._utils.work import Progress, wanted
from bagwise.bags.bags import Bags
from bagwise.embedding.sums import blocks_of
from bagwise.features.kernels import Kernel, Linear
from bagwise.features.maps import Scaling

# Points on each side of the pairs worked on at once: 8 MB of kernel values.
BLOCK_POINTS = 1024


def bag_gram(
    kernel: Kernel, scaling: Scaling, left: Bags, right: Bags
) -> Float64[np.ndarray, "n m"]:
    """Return K_ij = Σ_a Σ_b w_ia w_jb k(x_ia, x_jb), weights of each bag adding up to 1.

    ⟨μ̂_i, μ̂_j⟩ in the RKHS of k, in bounded memory; time grows with the product of the numbers of
    points. If both sides are the same bags, half of it is computed. For the linear kernel the
    sums are inner products of means, and cost next to nothing.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0], [3.0]], [[5.0]]])
    >>> bag_gram(Linear(), Scaling.of(np.zeros(1), np.ones(1)), bags, bags)
    array([[ 4., 10.], [10., 25.]])
    """
    if isinstance(kernel, Linear):
        return _means(left, scaling) @ _means(right, scaling).T
    same = left is right
    gram = np.zeros((left.n_bags, right.n_bags))
    left_shares, right_shares = left.shares, right.shares
    with Progress("pairs of points", left.n_points, wanted() and left.n_bags > 1) as bar:
        for a in blocks_of(left.offsets, BLOCK_POINTS):
            x = scaling(left.points[a.rows])
            for b in blocks_of(right.offsets, BLOCK_POINTS):
                if same and b.rows.start < a.rows.start:
                    continue
                half = a.pool(kernel(x, scaling(right.points[b.rows])), left_shares[a.rows])
                part = b.pool(half.T, right_shares[b.rows])
                gram[np.ix_(a.bags, b.bags)] += part.T
                if same and b.rows.start > a.rows.start:
                    gram[np.ix_(b.bags, a.bags)] += part
            bar.advance(len(x))
    return gram


def bag_norms(kernel: Kernel, scaling: Scaling, bags: Bags) -> Float64[np.ndarray, " n"]:
    """Return K_ii = ‖μ̂_i‖² for each bag."""
    single = (bags[i : i + 1] for i in range(bags.n_bags))
    return np.array([bag_gram(kernel, scaling, bag, bag)[0, 0] for bag in single])


def _means(bags: Bags, scaling: Scaling) -> Float64[np.ndarray, "n p"]:
    means, shares = np.zeros((bags.n_bags, bags.n_features)), bags.shares
    for block in blocks_of(bags.offsets, BLOCK_POINTS):
        means[block.bags] += block.pool(scaling(bags.points[block.rows]), shares[block.rows])
    return means
