"""Second-level kernel: how alike the labels of two bags are whose embeddings are uncertain.

Bag i has the standardised embedding z_i ~ N(a_i, diag(c_i)), what is known of it from its points,
and an input x_i that is known exactly (log size, covariates). With a linear and a Gaussian part,

    κ(i, j) = s_l z_i·z_j + s_g exp(−‖z_i − z_j‖²/2ℓ²) g(x_i, x_j) + h(x_i, x_j)

has expectations in closed form. For two bags, independent given their points,

    E κ = s_l a_i·a_j + s_g Π_k (1 + (c_ik + c_jk)/ℓ²)^(-1/2) exp(−½ Σ_k (a_ik − a_jk)²/D_k) g + h

with D = ℓ² + c_i + c_j; for a bag and itself z_i·z_i has the expectation ‖a_i‖² + Σ_k c_ik and the
Gaussian is 1. The difference is the bag's *nugget*: what of its label its points cannot tell.

c depends on the size of the bag only. Bags of about one size form a group, so that everything is
matrix products of pairs of groups, and so are all derivatives.

References
----------
Girard, Rasmussen, Quiñonero-Candela, Murray-Smith (2003), Gaussian process priors with uncertain
inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int, Shaped

from bagwise.embedding.posterior import EmbeddingPosterior


@dataclass(frozen=True)
class Scales:
    """Hyperparameters; labels and inputs are standardised.

    Attributes
    ----------
    linear, gauss : s_l, s_g, variances of the two parts
    length : ℓ, where the embeddings of an average bag have the squared norm 1
    tilt : q; the k-th direction of the embedding has the share λ_k^-q of that norm
    prior_scale : η;  sampling : τ, by which the number of points is divided
    effects, effects_length : variance and length of the covariates' part
    size, size_length : variance and length of the part of log N
    noise, size_noise : σ² and c; the noise is σ² + c N_typical/N
    group : g², variance of what the bags of a group have in common beside that; 0 if there are none
    """

    linear: float = 0.3
    gauss: float = 0.5
    length: float = 1.0
    tilt: float = 0.0
    prior_scale: float = 1.0
    sampling: float = 1.0
    effects: float = 1.0
    effects_length: float = 5.0
    size: float = 0.05
    size_length: float = 5.0
    noise: float = 0.1
    size_noise: float = 0.005
    group: float = 0.0

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names, in the order of vectors of them."""
        return tuple(field.name for field in fields(cls))

    def vector(self, names: tuple[str, ...]) -> Float64[np.ndarray, " h"]:
        """Return some of them, logs of all but the tilt."""
        return np.array([_to_real(name, getattr(self, name)) for name in names])

    def moved(self, names: tuple[str, ...], vector: Float64[np.ndarray, " h"]) -> Scales:
        """Return scales of which some are those of a vector."""
        values = zip(names, vector.tolist(), strict=True)
        return replace(self, **{name: _from_real(name, value) for name, value in values})


def _to_real(name: str, value: float) -> float:
    return value if name == "tilt" else float(np.log(value))


def _from_real(name: str, value: float) -> float:
    return value if name == "tilt" else float(np.exp(value))


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is known of n bags: the standardised posterior of their embeddings, and exact inputs.

    Attributes
    ----------
    mean : (n, c), a
    var : (g, c), of the bags of a group;  group_of : (n,), the group that each bag has
    log_size : (n,), standardised log N
    design : (n, r), fixed effects
    """

    mean: Float64[np.ndarray, "n c"]
    var: Float64[np.ndarray, "g c"]
    group_of: Int[np.ndarray, " n"]
    log_size: Float64[np.ndarray, " n"]
    design: Float64[np.ndarray, "n r"]

    def __len__(self) -> int:
        return len(self.mean)

    @cached_property
    def order(self) -> Int[np.ndarray, " n"] | None:
        """The bags, group by group; None if they come so."""
        if not np.any(np.diff(self.group_of) < 0):
            return None
        return np.argsort(self.group_of, kind="stable")

    @cached_property
    def places(self) -> Int[np.ndarray, " n"] | slice:
        """Where each bag is among the bags group by group."""
        return slice(None) if self.order is None else np.argsort(self.order)

    @cached_property
    def groups(self) -> list[tuple[int, slice]]:
        """The groups that have bags, and which these are of the bags group by group."""
        used, counts = np.unique(self.group_of, return_counts=True)
        ends = np.cumsum(counts)
        rows = map(slice, (ends - counts).tolist(), ends.tolist())
        return list(zip(used.tolist(), rows, strict=True))

    def by_group(self, rows: Shaped[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n ..."]:
        """Return rows of the bags, group by group."""
        return rows if self.order is None else rows[self.order]

    @property
    def total_var(self) -> Float64[np.ndarray, " n"]:
        """Σ_k c_ik."""
        return self.var.sum(axis=1)[self.group_of]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """From the posterior of an embedding to standardised inputs, and their derivatives.

    z_k = √ω_k e_k/√(ηλ_k),   ω_k = λ_k^-q / Σ_l λ_l^-q,   so that   c_k = ω_k κ_k

    An average bag, of which nothing is known, has E‖z‖² = 1.

    Attributes
    ----------
    spectrum : (c,), λ of the embedding's model
    scales : Scales
    """

    spectrum: Float64[np.ndarray, " c"]
    scales: Scales

    @cached_property
    def shares(self) -> Float64[np.ndarray, " c"]:
        """ω."""
        powers = -self.scales.tilt * np.log(self.spectrum)
        powers = np.exp(powers - powers.max())
        return powers / powers.sum()

    @cached_property
    def tilting(self) -> Float64[np.ndarray, " c"]:
        """∂ log ω/∂q = −(log λ − Σ_l ω_l log λ_l)."""
        logs = np.log(self.spectrum)
        return self.shares @ logs - logs

    @property
    def prior_var(self) -> Float64[np.ndarray, " c"]:
        """ηλ."""
        return self.scales.prior_scale * self.spectrum

    @cached_property
    def units(self) -> Float64[np.ndarray, " c"]:
        """z_k/e_k = √(ω_k/(ηλ_k))."""
        return np.sqrt(self.shares / self.prior_var)

    def mean(self, posterior: EmbeddingPosterior) -> Float64[np.ndarray, "n c"]:
        """Return a."""
        return posterior.mean * self.units

    def var_of(self, posterior: EmbeddingPosterior) -> Float64[np.ndarray, "l c"]:
        """Return c at the sizes that a posterior is asked about."""
        return posterior.var * self.units**2

    def var(self, slack: Float64[np.ndarray, "g c"]) -> Float64[np.ndarray, "g c"]:
        """Return c of bags that have this κ."""
        return self.shares * slack


@dataclass(frozen=True, eq=False)
class SecondLevelKernel:
    """κ at some scales.

    Examples
    --------
    >>> bags = Inputs(
    ...     np.zeros((2, 1)), np.ones((1, 1)), np.zeros(2, int), np.zeros(2), np.ones((2, 1))
    ... )
    >>> kernel = SecondLevelKernel(Scales(linear=1.0, gauss=1.0, effects=1e-9, size=1e-9))
    >>> kernel.between(bags, bags).round(3), kernel.nugget(bags).round(3)
    (array([[0.577, 0.577], [0.577, 0.577]]), array([1.423, 1.423]))
    """

    scales: Scales

    def between(self, x: Inputs, z: Inputs) -> Float64[np.ndarray, "n m"]:
        """Return E κ for bags x and z, as if none were the same."""
        gram = self.gauss(x, z)
        gram += self.exact_part(x, z)
        return gram

    def exact_part(self, x: Inputs, z: Inputs) -> Float64[np.ndarray, "n m"]:
        """Return the parts of E κ that are linear in something."""
        left, right = (
            np.column_stack(
                [
                    np.sqrt(self.scales.linear) * side.mean,
                    np.sqrt(self.scales.effects) * side.design,
                    np.sqrt(self.scales.size) * side.log_size,
                ]
            )
            for side in (x, z)
        )
        return left @ right.T

    def nugget(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Return what a bag and itself have in common more than two such bags would have."""
        spread = np.exp(-0.5 * np.sum(np.log1p(2.0 * x.var / self.scales.length**2), axis=1))
        return self.scales.gauss * (1.0 - spread[x.group_of]) + self.scales.linear * x.total_var

    def variance(self, x: Inputs) -> Float64[np.ndarray, " n"]:
        """Return E κ for each bag and itself: the prior variance of its latent value."""
        return (
            self.scales.gauss
            + self.scales.linear * (np.sum(x.mean**2, axis=1) + x.total_var)
            + self.scales.effects * np.sum(x.design**2, axis=1)
            + self.scales.size * x.log_size**2
        )

    def gauss(self, x: Inputs, z: Inputs) -> Float64[np.ndarray, "n m"]:
        """Return the Gaussian part of E κ: for each group of z the exponential of one product.

        [a/D, x, −½|·|²] · [b, z, 1] − ½|·|² + constant, with what is exact beside what is not
        """
        rows = self._sorted(x)
        columns = rows if x is z else self._sorted(z)
        gram, c = np.empty((len(x), len(z))), x.mean.shape[1]
        left = np.empty((len(x), c + rows.exact.shape[1] + 1))
        left[:, c:-1] = rows.exact
        amplitude = np.log(self.scales.gauss)
        for h, of in z.groups:
            upto = slice(of.stop if x is z else len(x))
            both = x.var + z.var[h]
            inverse = 1.0 / (self.scales.length**2 + both)
            np.multiply(rows.mean[upto], inverse[rows.group_of[upto]], out=left[upto, :c])
            squares = np.einsum("ij,ij->i", left[upto, :c], rows.mean[upto])
            left[upto, -1] = -0.5 * (squares + rows.exact_square[upto])
            right = np.column_stack([columns.mean[of], columns.exact[of], columns.ones[of]])
            constant = amplitude - 0.5 * np.log1p(both / self.scales.length**2).sum(axis=1)
            beside = inverse @ columns.mean_square[of].T + columns.exact_square[of]
            block = np.matmul(left[upto], right.T, out=gram[upto, of])
            block += (constant[:, None] - 0.5 * beside)[rows.group_of[upto]]
            np.exp(block, out=block)
            if x is z:
                gram[of, : of.start] = gram[: of.start, of].T
        return gram if x.order is None and z.order is None else gram[x.places][:, z.places]

    def slope(
        self, x: Inputs, z: Inputs, alpha: Float64[np.ndarray, " m"]
    ) -> Float64[np.ndarray, "n c"]:
        """Return the gradient of Σ_j α_j E κ(i, j) in a_i, for every bag of x."""
        return self.slopes(x, z, self.gauss(x, z))(alpha)

    def slopes(
        self, x: Inputs, z: Inputs, gauss: Float64[np.ndarray, "n m"]
    ) -> Callable[[Float64[np.ndarray, " m"]], Float64[np.ndarray, "n c"]]:
        """Return α ↦ the same, given the Gaussian part between x and z: for many α in turn."""
        rows, columns = self._sorted(x), self._sorted(z)
        gauss = x.by_group(z.by_group(gauss.T).T)
        inverses = [(of, self._inverse(x, z.var[h])) for h, of in z.groups]

        def slope(alpha: Float64[np.ndarray, " m"]) -> Float64[np.ndarray, "n c"]:
            sorted_alpha = z.by_group(alpha)[:, None]
            weighted = np.hstack([sorted_alpha * columns.mean, sorted_alpha])
            gradient = np.tile(self.scales.linear * (alpha @ z.mean), (len(x), 1))
            for of, inverse in inverses:
                pulled = gauss[:, of] @ weighted[of]
                pull = pulled[:, :-1] - pulled[:, -1:] * rows.mean
                gradient += pull * inverse[rows.group_of]
            return gradient[x.places]

        return slope

    def along(
        self,
        x: Inputs,
        way: Float64[np.ndarray, "n c"],
        towards: Float64[np.ndarray, "n n"],
        gauss: Float64[np.ndarray, "n n"],
    ) -> Float64[np.ndarray, "n n"]:
        """Return by how much E κ_ij between bags changes as a_i goes along its way, Σ_k w_ik ∂_ik.

        Of the Gaussian part that is itself times what :meth:`towards` returns.
        """
        return towards * gauss + self.scales.linear * way @ x.mean.T

    def towards(self, x: Inputs, way: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n n"]:
        """Return Σ_k w_ik (a_jk − a_ik)/D_k, of which a row is linear in the way of its bag."""
        found, ways, rows = np.empty((len(x), len(x))), x.by_group(way), self._sorted(x)
        for h, of in x.groups:
            pull = ways * self._inverse(x, x.var[h])[rows.group_of]
            block = np.matmul(pull, rows.mean[of].T, out=found[:, of])
            block -= np.einsum("ij,ij->i", pull, rows.mean)[:, None]
        return found if x.order is None else found[x.places][:, x.places]

    def along_gradient(
        self,
        x: Inputs,
        way: Float64[np.ndarray, "n c"],
        towards: Float64[np.ndarray, "n n"],
        alpha: Float64[np.ndarray, " n"],
        gauss: Float64[np.ndarray, "n n"],
    ) -> Gradient:
        """Return the derivatives of Σ_ij along_ij α_j, at fixed ways and α."""
        pulled = gauss * alpha
        E = towards * pulled
        found = self._gauss_gradient(x, 0.5 * (E + E.T))
        by_mean, by_var = found.by_mean, found.by_var
        by_way, by_length = np.zeros_like(x.mean), 0.0
        ways, rows = x.by_group(way), self._sorted(x)
        pulled = x.by_group(x.by_group(pulled).T).T
        for h, of in x.groups:
            block, inverse = pulled[:, of], self._inverse(x, x.var[h])
            out, pull = block.sum(axis=1)[:, None], ways * inverse[rows.group_of]
            by_way -= out * pull
            by_way[of] += block.T @ pull
            towards = block @ rows.mean[of] - out * rows.mean
            by_both = -rows.summed(ways * towards) * inverse[rows.used] ** 2
            by_var[rows.used] += by_both
            by_var[h] += by_both.sum(axis=0)
            by_length += 2.0 * self.scales.length**2 * float(by_both.sum())
        total = way.sum(axis=0)
        by_mean += by_way[x.places] + self.scales.linear * np.outer(alpha, total)
        by_scale = found.by_scale
        by_scale["length"] += by_length
        by_scale["linear"] = self.scales.linear * float(total @ (alpha @ x.mean))
        return Gradient(by_mean, by_var, by_scale)

    def design_slope(
        self, x: Inputs, z: Inputs, alpha: Float64[np.ndarray, " m"]
    ) -> Float64[np.ndarray, "n r"]:
        """Return the gradient of Σ_j α_j E κ(i, j) in the design of every bag of x."""
        weighted = self.gauss(x, z) * alpha
        pulled = weighted @ z.design - weighted.sum(axis=1)[:, None] * x.design
        return self.scales.effects * (alpha @ z.design) + pulled / self.scales.effects_length**2

    def _exact(self, x: Inputs) -> Float64[np.ndarray, "n e"]:
        """Return the exact inputs in units of their lengths."""
        return np.column_stack(
            [x.log_size / self.scales.size_length, x.design / self.scales.effects_length]
        )

    def _sorted(self, x: Inputs) -> _Sorted:
        return _Sorted(x, self._exact(x))

    def _inverse(self, x: Inputs, var: Float64[np.ndarray, " c"]) -> Float64[np.ndarray, "g c"]:
        """Return 1/D of the groups of x and one group of others."""
        return 1.0 / (self.scales.length**2 + x.var + var)

    def gradient(
        self, x: Inputs, slope: Float64[np.ndarray, "n n"], gauss: Float64[np.ndarray, "n n"]
    ) -> Gradient:
        """Return the derivatives of Σ_ij slope_ij E κ_ij between bags.

        Parameters
        ----------
        x : Inputs, the training bags
        slope : (n, n), symmetric
        gauss : (n, n), the Gaussian part at x
        """
        found = self._gauss_gradient(x, slope * gauss)
        linear, c = np.column_stack([x.mean, x.design, x.log_size]), x.mean.shape[1]
        pulled = slope @ linear
        by_mean = found.by_mean + 2.0 * self.scales.linear * pulled[:, :c]
        sums = np.sum(linear * pulled, axis=0)
        by_scale = {
            "linear": self.scales.linear * float(sums[:c].sum()),
            "effects": self.scales.effects * float(sums[c:-1].sum()),
            "size": self.scales.size * float(sums[-1]),
        }
        return Gradient(by_mean, found.by_var, found.by_scale | by_scale)

    def _gauss_gradient(self, x: Inputs, E: Float64[np.ndarray, "n n"]) -> Gradient:
        """Return the derivatives of the Gaussian part; E, symmetric, is the slope times it."""
        by_mean, by_var, by_length = self._by_embedding(x, x.by_group(x.by_group(E).T))
        exact = self._exact(x)
        distances = 2.0 * (E.sum(axis=1) @ exact**2 - np.sum(exact * (E @ exact), axis=0))
        by_scale = {
            "gauss": float(E.sum()),
            "length": by_length,
            "effects_length": float(distances[1:].sum()),
            "size_length": float(distances[0]),
        }
        return Gradient(by_mean, by_var, by_scale)

    def _by_embedding(
        self, x: Inputs, E: Float64[np.ndarray, "n n"]
    ) -> tuple[Float64[np.ndarray, "n c"], Float64[np.ndarray, "g c"], float]:
        """Return the derivatives of the Gaussian part in a, c and log ℓ.

        E, symmetric and group by group, is the slope times the Gaussian part. Of each group and
        those before it both products, E b and E^T a, are wanted; of it and itself they are one.
        """
        rows, square = self._sorted(x), self.scales.length**2
        by_mean, by_var, by_length = np.zeros_like(x.mean), np.zeros_like(x.var), 0.0
        for i, (h, of) in enumerate(x.groups):
            upto, before, used = slice(of.stop), slice(of.start), rows.used[: i + 1]
            a, b, block = rows.mean[upto], rows.mean[of], E[upto, of]
            inverse = self._inverse(x, x.var[h])
            wide = 2.0 * inverse[rows.group_of[upto]]
            out, right = block.sum(axis=1)[:, None], block @ b
            into = rows.summed(block, i + 1)  # of each group
            by_mean[upto] += (right - out * a) * wide
            by_mean[of] += block[before].T @ (a[before] * wide[before])
            by_mean[of] -= b * (into[:i].T @ (2.0 * inverse[used[:i]]))
            squares = rows.summed(out * rows.mean_square[upto] - 2.0 * a * right, i + 1)
            squares += into @ rows.mean_square[of]
            total, inverse = into.sum(axis=1)[:, None], inverse[used]
            times = np.where(used == h, 1.0, 2.0)[:, None]  # E_pq and E_qp
            by_both = 0.5 * times * (squares * inverse**2 - total * inverse)
            by_var[used] += by_both
            by_var[h] += by_both.sum(axis=0)
            # ℓ² is in D and in the factor's normalisation
            by_length += 2.0 * square * float(by_both.sum())
            by_length += float((times * total).sum()) * inverse.shape[1]
        return by_mean[x.places], by_var, by_length

    def nugget_gradient(self, x: Inputs, slope: Float64[np.ndarray, " n"]) -> Gradient:
        """Return the derivatives of Σ_i slope_i nugget_i."""
        square, sums = self.scales.length**2, np.bincount(x.group_of, slope, minlength=len(x.var))
        spread = np.exp(-0.5 * np.sum(np.log1p(2.0 * x.var / square), axis=1))
        inverse = 1.0 / (square + 2.0 * x.var)
        pull = self.scales.gauss * sums * spread
        by_scale = {
            "linear": self.scales.linear * float(slope @ x.total_var),
            "gauss": self.scales.gauss * float(sums @ (1.0 - spread)),
            "length": -2.0 * float(pull @ np.sum(x.var * inverse, axis=1)),
        }
        by_var = pull[:, None] * inverse + self.scales.linear * sums[:, None]
        return Gradient(np.zeros_like(x.mean), by_var, by_scale)


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of a function of the Gram matrix.

    Attributes
    ----------
    by_mean : (n, c), in a;  by_var : (g, c), in the c of each group
    by_scale : in log s_l, log s_g, log ℓ and so on, at fixed a and c
    """

    by_mean: Float64[np.ndarray, "n c"]
    by_var: Float64[np.ndarray, "g c"]
    by_scale: dict[str, float]

    def __add__(self, other: Gradient) -> Gradient:
        names = self.by_scale.keys() | other.by_scale.keys()
        return Gradient(
            self.by_mean + other.by_mean,
            self.by_var + other.by_var,
            {name: self.by_scale.get(name, 0.0) + other.by_scale.get(name, 0.0) for name in names},
        )


class _Sorted:
    """Bags group by group, and what every pair of groups asks of them.

    Attributes
    ----------
    used : (u,), groups that have bags;  group_of : (n,), of each bag
    mean, mean_square : (n, c), a and a²
    exact : (n, e), exact inputs in units of their lengths;  exact_square : (n,), ‖exact‖²
    """

    def __init__(self, x: Inputs, exact: np.ndarray) -> None:
        self.used = np.array([group for group, _ in x.groups])
        self._starts = np.array([bags.start for _, bags in x.groups])
        self.group_of, self.ones = x.by_group(x.group_of), np.ones(len(x))
        self.mean, self.exact = x.by_group(x.mean), x.by_group(exact)
        self.exact_square = np.sum(self.exact**2, axis=1)

    @cached_property
    def mean_square(self) -> np.ndarray:
        return self.mean**2

    def summed(self, values: np.ndarray, most: int | None = None) -> np.ndarray:
        """Return the sums (u, ...) of values (n, ...) over the bags of each group, or the first."""
        return np.add.reduceat(values, self._starts[:most], axis=0)
