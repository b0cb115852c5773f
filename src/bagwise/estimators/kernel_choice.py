"""Which kernel a Gaussian process has, and how it sees its bags: the evidence decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import joblib
import numpy as np

from bagwise._utils.work import Progress, one_thread, wanted
from bagwise.bags.bags import Bags
from bagwise.embedding.sums import Thrift, summarise_each
from bagwise.estimators.base import FEW_POINTS, WITHOUT_COVARIANCE, Pooled
from bagwise.estimators.embeddings import BagEmbedding, need_covariance
from bagwise.exceptions import BagwiseError
from bagwise.features.kernels import Linear, Mixed
from bagwise.features.maps import Features
from bagwise.heads import gp_fit
from bagwise.heads.base import AnyHead, Task, heads_of, some_of
from bagwise.heads.gp import GPHead

# Landmarks by default, and where kernels are compared, each a centre of so many points; and points
# of a bag there, at most. Where points nearly determine a label so many are too few: then all are
# compared (NEARLY_KNOWN in gp_fit).
LANDMARKS = 200
TRIAL_LANDMARKS = 60
PER_LANDMARK = 50
MOST_POINTS = 500

# Points up to which features are summed in double precision. Of more, a mean embedding is wrong by
# at most 1.2e-7 (see Thrift), and its standard error is a thousand times that for 10^7 points.
EXACT_POINTS = 200_000

# Candidates that are tried again with more bags and all landmarks.
SHORTLIST = 2

# Log evidence of the bags compared that is no reason to prefer a kernel to a mixed or simpler one:
# odds of 7 to 1. Of a dozen kernels that are about as good, the one of the largest evidence is the
# luckiest.
NO_REASON = 2.0

# The same for centred bags, which have lost where they were: that the shape alone counts is a
# discovery, and of more kernels some would look better by chance.
NO_REASON_TO_CENTRE = 10.0

# Kernels that are tried with centred bags, and candidates that are tried at most beside those of
# bags as they are: these, and a linear kernel with deviations.
CENTRED = 3
BESIDE = CENTRED + 1

# What a kernel lacks of the best log evidence after a short search for its scales, such that a
# longer one would not find it: the first steps find all but a few of it.
OUT_OF_QUESTION = 12.0

T = TypeVar("T")

# How bags are seen: as they are, centred, or with deviations from their mean beside each column.
# And with it which of the embedding's candidates is taken.
Way = bool | str
Place = tuple[Way, int]
DEVIATIONS = "deviations"


def as_seen(bags: Bags, way: Way) -> Bags:
    """Return bags as the model is to see them."""
    if way == DEVIATIONS:
        return bags.with_deviations()
    return bags.centred() if way else bags


@dataclass(eq=False)
class KernelChoice:
    """What the evidence decides within one fit: kernel, bandwidth, how bags are seen, and prior.

    Kernels and bandwidths are tried on some of the bags and with few landmarks, the best few on
    more of both; the one that is taken is fitted to all.

    Attributes
    ----------
    embedding : its candidates are the kernels
    asked_prior : "auto", "learnt" or "kernel"
    ways : in which bags are to be seen; of several, each is tried
    problems : (pooled, task, prior of embeddings) → what is to be fitted, one of each class
    decided : the prior that the evidence has decided for, if it has
    near : the process near whose scales a search begins: while kernels are tried, that of the
        first in its round; then the one that was taken
    found : that of each that was tried
    tried : name and −log evidence per bag of each that was tried
    compared : places of the bags on which kernels were compared, and these
    """

    embedding: BagEmbedding
    asked_prior: str
    ways: Sequence[Way]
    problems: Callable[[Pooled, Task, str], gp_fit.Problems]
    decided: str | None = None
    near: GPHead | None = None
    found: dict[Place, GPHead] = field(default_factory=dict)
    tried: dict[Place, tuple[str, float]] = field(default_factory=dict)
    compared: tuple[np.ndarray, Bags] | None = None

    @property
    def prior(self) -> str:
        """The prior of embeddings that is taken: learnt, as long as "auto" is not decided."""
        return self.decided or ("learnt" if self.asked_prior == "auto" else self.asked_prior)

    @property
    def _is_open(self) -> bool:
        """Whether it is still to be decided which prior is taken."""
        return self.asked_prior == "auto" and self.decided is None

    def fitted(self, bags: Bags, task: Task) -> tuple[Pooled, AnyHead]:
        """Return the features that are taken of all bags, and the head that is fitted to them."""
        way, place, best, every = self.ways[0], 0, None, False
        if self.embedding.n_candidates > 1:
            every = gp_fit.compares_all(bags.n_bags, bags.n_points)
            some, few = _to_compare(bags, every)
            self._try_out(few, task.take(some))
            least = min(loss for _, loss in self.tried.values())
            if gp_fit.compares_all(bags.n_bags, bags.n_points, least) and not every:
                every, (some, few) = True, _to_compare(bags, True)
            self.compared = some, few
            (way, place), best = self._chosen(bags, few, task.take(some))
        if best is not None and every:
            return best
        features = self._features(bags, way)[place] if best is None else best[0].features
        (pooled,) = _summed(as_seen(bags, way), [features])
        need_covariance(pooled.stats, WITHOUT_COVARIANCE)
        with one_thread("blas"):
            if best is None:
                return pooled, self.fit_head(pooled, task)
            problems = self.problems(pooled, task, self.prior)
            return pooled, gp_fit.resumed(problems, heads_of(best[1])[0])

    def fit_head(self, pooled: Pooled, task: Task) -> AnyHead:
        """Fit to features that are there, and decide about the prior if that is still open."""
        problems, near = self._of_prior(pooled, task, self.prior, self.near)
        head = gp_fit.try_out(problems, near)
        if self._is_open:
            self._rule_out(pooled, task, heads_of(head)[0], head.loss)
        if not self._is_open and self.embedding.training is None:
            return head  # with nothing to be compared with, it is fitted when it is finished
        head = gp_fit.on_more(head, problems)
        if not self._is_open:
            return head
        other = self._fit_near(pooled, task, "kernel", heads_of(head)[0])
        n_compared = min(len(task.labels), gp_fit.SEARCH_BAGS)
        self.decided = believed(head.loss, other.loss, n_compared)
        return other if self.decided == "kernel" else head

    def _chosen(
        self, bags: Bags, few: Bags, task: Task
    ) -> tuple[Place, tuple[Pooled, AnyHead] | None]:
        """Fit the best few with all landmarks; return which is taken, and its fit.

        Features are those of all ``bags``; where ``few`` are not all of these, some points of each
        are enough to compare them.
        """
        losses = {at: loss for at, (_, loss) in self.tried.items()}
        n_bags, mixed = bags.n_bags, self._mixed(bags)
        whole = few.n_points == bags.n_points
        seen = few if whole else few.some(np.arange(few.n_bags), MOST_POINTS)
        likely = [in_doubt(losses, n_bags, mixed), *_best(losses, SHORTLIST)]
        shortlist = list(dict.fromkeys(likely))[:SHORTLIST]
        ways = {way: [place for of, place in shortlist if of == way] for way, _ in shortlist}
        pooled = dict[Place, Pooled]()
        for way, places in ways.items():
            found = self._features(bags, way)
            some = {place: found[place] for place in places if found}
            summed = _summed(as_seen(seen, way), list(some.values()), exact=whole)
            for place, each in zip(some, summed, strict=True):
                with suppress(BagwiseError):  # some points may be too few for a covariance
                    need_covariance(each.stats, WITHOUT_COVARIANCE)
                    pooled[way, place] = each
        if not pooled:
            as_they_are = {place: loss for place, loss in losses.items() if not place[0]}
            best = in_doubt(as_they_are or losses, n_bags, mixed)
            self.near = self.found[best]
            return best, None

        # by what these bags say: that all have as much more to say as they are more is a guess
        n_compared = min(few.n_bags, gp_fit.SEARCH_BAGS)

        def best_of(prior: str, places: Iterable[Place]) -> tuple[Place, AnyHead]:
            heads = self._fit_places({place: pooled[place] for place in places}, task, prior)
            best = in_doubt({at: head.loss for at, head in heads.items()}, n_compared, mixed)
            return best, heads[best]

        best, head = best_of(self.prior, pooled)
        if self._is_open:
            either = pooled if seen.n_bags <= gp_fit.TRIAL_BAGS else (best,)
            other, simpler = best_of("kernel", either)
            self.decided = believed(head.loss, simpler.loss, n_compared)
            if self.decided == "kernel":
                best, head = other, simpler
        self.near = heads_of(head)[0]  # if it is to be fitted once more
        return best, (pooled[best], head)

    def _fit_places(
        self, pooled: dict[Place, Pooled], task: Task, prior: str
    ) -> dict[Place, AnyHead]:
        """Fit with one prior of embeddings, each near the scales that were found on few bags."""
        with Progress("fitting", len(pooled), wanted()) as bar:

            def fitted(place: Place) -> AnyHead:
                head = self._fit_near(pooled[place], task, prior, self.found[place])
                bar.advance()
                return head

            return dict(zip(pooled, _at_once(fitted, pooled), strict=True))

    def _fit_near(self, pooled: Pooled, task: Task, prior: str, near: GPHead | None) -> AnyHead:
        """Fit with one prior of embeddings."""
        problems, near = self._of_prior(pooled, task, prior, near)
        return gp_fit.on_more(gp_fit.try_out(problems, near), problems)

    def _of_prior(
        self, pooled: Pooled, task: Task, prior: str, near: GPHead | None
    ) -> tuple[gp_fit.Problems, GPHead | None]:
        """Return problems with one prior of embeddings, and where to begin.

        Scales that were found are those of the learnt prior, and the tilt is in units of it.
        """
        problems = self.problems(pooled, task, prior)
        if near is not None and self._is_open and prior == "kernel":
            near = replace(near, scales=replace(near.scales, tilt=problems[0].start.tilt))
        return problems, near

    def _mixed(self, bags: Bags) -> set[Place]:
        """Return the candidates whose kernels are mixed."""
        p = bags.n_features
        columns: dict[Way, int] = {False: p, True: p, DEVIATIONS: 2 * p}
        return {
            (way, place)
            for way, n_columns in columns.items()
            for place in self.embedding.places_of(Mixed, n_columns)
        }

    def _try_out(self, bags: Bags, task: Task) -> None:
        """Fit candidates to some of the bags.

        Bags that are centred are tried only with the kernels that were the best of those that are
        not, and with others than the very best only if that is not out of the question; and scales
        of those that are clearly worse are not sought to the end.
        """
        few = _some(bags, gp_fit.TRIAL_BAGS)
        bags, task = bags.some(few, MOST_POINTS), task.take(few)
        tried, every = self.tried, dict[Place, Pooled]()
        most = self.embedding.count(bags) + (BESIDE if len(self.ways) > 1 else 0)
        with Progress("choosing a kernel", most, wanted()) as bar:
            for way in self.ways:
                likely = self._likely(way, bags) if tried else None
                features = [] if likely == [] else self._features(bags, way, TRIAL_LANDMARKS)
                if not features:
                    continue
                places = list(range(len(features))) if likely is None else likely
                rounds = [places[:1], places[1:]] if way is True else [places]
                for places in filter(None, rounds):
                    summed = _summed(
                        as_seen(bags, way), [features[place] for place in places], exact=False
                    )
                    pooled = dict(zip(places, summed, strict=True))
                    for each in pooled.values():
                        need_covariance(each.stats, WITHOUT_COVARIANCE)
                    others = [loss for _, loss in tried.values()]
                    heads = self._fit_candidates(pooled, task, others, bar)
                    for place, head in heads.items():
                        tried[way, place] = _name(pooled[place].features, place), float(head.loss)
                        self.found[way, place] = heads_of(head)[0]
                        every[way, place] = pooled[place]
                    if all(head.loss >= _enough(others, task) for head in heads.values()):
                        break
        if self._is_open:
            best = min(tried, key=lambda at: tried[at][1])
            self._rule_out(every[best], task, self.found[best], tried[best][1])

    def _rule_out(self, pooled: Pooled, task: Task, near: GPHead, learnt: float) -> None:
        """Decide for the learnt prior if that of the kernel is out of the question on few bags."""
        with one_thread("blas"):
            lacks = gp_fit.try_out(*self._of_prior(pooled, task, "kernel", near)).loss - learnt
        if lacks * min(len(task.labels), gp_fit.TRIAL_BAGS) > OUT_OF_QUESTION:
            self.decided = "learnt"

    def _likely(self, way: Way, bags: Bags) -> list[int]:
        """Return the candidates to be tried with bags that are not seen as they are.

        With deviations only the linear kernel, to which a bag is then means and mean deviations:
        the others see how values are spread without them.
        """
        if way == DEVIATIONS:
            return self.embedding.places_of(Linear, 2 * bags.n_features)
        known = {place: loss for place, (_, loss) in self.tried.items() if not place[0]}
        return [place for _, place in _best(known, CENTRED)]

    def _fit_candidates(
        self, pooled: dict[int, Pooled], task: Task, losses: list[float], bar: Progress
    ) -> dict[int, AnyHead]:
        """Fit candidates, those that are out of the question only as far as to see that.

        ``losses`` are those of other candidates. All but the first begin near it.
        """

        def fitted(place: int) -> AnyHead:
            head = gp_fit.try_out(self.problems(pooled[place], task, self.prior), self.near)
            bar.advance()
            return head

        places, self.near = list(pooled), None
        heads = _at_once(fitted, places[:1])
        self.near = heads_of(heads[0])[0]
        found = dict(zip(places, heads + _at_once(fitted, places[1:]), strict=True))
        enough = _enough([*losses, *(head.loss for head in found.values())], task)

        def gone_on(place: int) -> AnyHead:
            return gp_fit.try_on(found[place], self.problems(pooled[place], task, self.prior))

        likely = [place for place, head in found.items() if head.loss < enough]
        return found | dict(zip(likely, _at_once(gone_on, likely), strict=True))

    def _features(self, bags: Bags, way: Way, most: int | None = None) -> list[Any]:
        """Return the candidates' features, of bags as they are seen.

        ``most`` is how many features there are at most, if there is to be a limit. There are none
        if what is left of bags that may be centred has not enough points for the landmarks.
        """
        embedding = self.embedding if most is None else self.embedding.reduced(most)
        try:
            found: list[Any] = embedding.candidates(
                as_seen(bags, way), most or LANDMARKS, per_landmark=PER_LANDMARK
            )
        except BagwiseError:
            if way and len(self.ways) > 1:
                return []
            raise
        return [replace(each, centred=way) for each in found] if way else found


def in_doubt(losses: dict[Place, float], n_bags: int, mixed: Collection[Place]) -> Place:
    """Return which of those to take whose evidence is about the largest.

    The best of those that mix kernels, at ``mixed`` places: where the evidence cannot tell, the
    kernel of the largest is the one that fits these labels best by chance, and is too sure. Else
    the simplest: bags as they are, and candidates become simpler from first to last. Bags are
    centred only where that is worth more.
    """
    placed = _placed(losses)
    gain = min(placed.values(), default=np.inf) - min(losses.values())
    if n_bags * gain <= NO_REASON_TO_CENTRE:
        losses = placed
    least = min(losses.values())
    good = [place for place in losses if n_bags * (losses[place] - least) <= NO_REASON]
    for_all = [place for place in good if place in mixed]
    if for_all:
        return min(for_all, key=losses.__getitem__)
    return max(good, key=lambda place: (not place[0], place[1]))


def believed(learnt: float, kernel: float, n_bags: int) -> str:
    """Return which prior to take by −log evidence per bag: in doubt the kernel's, the simpler."""
    return "kernel" if n_bags * (kernel - learnt) <= NO_REASON else "learnt"


def _placed(losses: dict[Place, float]) -> dict[Place, float]:
    """Return those of bags that are not centred, and so have not lost where they were."""
    return {place: loss for place, loss in losses.items() if place[0] is not True}


def _best(losses: dict[Place, float], most: int) -> list[Place]:
    """Return the places of the largest evidence, the best first."""
    return sorted(losses, key=losses.__getitem__)[:most]


def _enough(losses: Iterable[float], task: Task) -> float:
    """Return the −log evidence per bag from which on a kernel is out of the question."""
    return min(losses, default=np.inf) + OUT_OF_QUESTION / len(task.labels)


def _name(features: Features, place: int) -> str:
    """Return the kernel as a text; random frequencies have only a number."""
    kernel = getattr(features, "kernel", None)
    name = f"candidate {place}" if kernel is None else repr(kernel)
    how = {False: "", True: " of centred bags", DEVIATIONS: " with deviations"}
    return name + how[features.centred]


def _to_compare(bags: Bags, every: bool) -> tuple[np.ndarray, Bags]:
    """Return the places of bags on which kernels are compared, and these, in memory."""
    some = _some(bags, bags.n_bags if every else gp_fit.SEARCH_BAGS)
    return some, bags.some(some, int(bags.sizes.max()) if every else FEW_POINTS)


def _some(bags: Bags, most: int) -> np.ndarray:
    """Return the places of some bags, among them one of several points, if there is one.

    Without it nothing would be known of how points of a bag differ.
    """
    some, several = some_of(bags.n_bags, most), np.flatnonzero(bags.sizes > 1)
    if np.any(bags.sizes[some] > 1) or not len(several):
        return some
    return np.union1d(some[len(several) :], several[:most])


def _summed(seen: Bags, some: Sequence[Features], *, exact: bool = True) -> Iterator[Pooled]:
    """Yield features and their statistics, of bags as the model sees them.

    What is only compared needs no more digits than the comparison, and is not ``exact``.
    """
    thrift = Thrift.of(seen)
    if not exact or seen.n_points > EXACT_POINTS:
        thrift = replace(thrift, single=True)
    for features, stats in zip(some, summarise_each(seen, some, thrift=thrift), strict=True):
        yield Pooled(features, stats)


def _at_once(work: Callable[[T], AnyHead], each: Iterable[T]) -> list[AnyHead]:
    """Fit heads in threads, each with one of BLAS's, as for any other head."""
    with one_thread("blas"), ThreadPoolExecutor(joblib.cpu_count()) as threads:
        return list(threads.map(work, each))
