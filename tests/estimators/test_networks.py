"""Networks: filters for images, and those that users bring."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import correlate2d
from sklearn.base import clone

import bagwise
from bagwise import Bags, NetworkEmbedding
from bagwise.exceptions import BagwiseError, SavedModelError
from bagwise.features.integrated_gradients import split_by_column
from bagwise.features.maps import Scaling
from bagwise.features.network import NetworkFeatures, UserNetworkFeatures
from bagwise.inference import Training

FEW = Training(epochs=8, batch_bags=16, learning_rate=0.01)


def images(n=80, seed=0):
    """Return bags of images of 4 × 4 pixels, of which a corner is as bright as the label."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(0.5, 2.0, n)
    bags = []
    for level in y:
        points = rng.normal(size=(rng.integers(3, 9), 16))
        points[:, :2] += 2.0 * level
        bags.append(points)
    return Bags.from_list(bags), y


@pytest.mark.parametrize(("shape", "extra"), [((4, 4), 0), ((5, 3, 2), 2), ((1, 3), 0)])
def test_filters_are_those_of_scipy(shape, extra):
    rng = np.random.default_rng(1)
    p = int(np.prod(shape)) + extra
    network = NetworkFeatures.drawn(Scaling.of(np.zeros(p)), [3, 2, 5], rng, shape)
    x = rng.normal(size=(4, p))
    expected = []
    for row in x:
        maps = row[: p - extra].reshape(*shape[:2], -1)
        for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
            filters = weight.reshape(3, 3, maps.shape[2], -1)
            made = np.stack(
                [
                    sum(
                        correlate2d(maps[..., c], filters[:, :, c, o], "same")
                        for c in range(maps.shape[2])
                    )
                    for o in range(filters.shape[3])
                ],
                axis=2,
            )
            made = np.tanh(made + bias)
            high, wide = (max(side // 2, 1) for side in made.shape[:2])
            a, b = (min(2, side) for side in made.shape[:2])
            maps = np.array(
                [
                    [
                        made[a * i : a * i + a, b * j : b * j + b].mean(axis=(0, 1))
                        for j in range(wide)
                    ]
                    for i in range(high)
                ]
            )
        last = np.concatenate([maps.ravel(), row[p - extra :]])
        expected.append(np.tanh(last @ network.weights[-1] + network.biases[-1]))
    assert_allclose(network(x), expected, rtol=1e-10)
    with jax.enable_x64(True):
        found = network.forward(jnp.asarray(x), network.weights, network.biases, jnp)
    assert_allclose(found, expected, rtol=1e-10)


def apply(params, x):
    for weight, bias in params:
        x = jnp.tanh(x @ weight + bias)
    return x


def start(key):
    first, second = jax.random.split(key)
    return [
        (0.3 * jax.random.normal(first, (16, 6)), jnp.zeros(6)),
        (0.5 * jax.random.normal(second, (6, 4)), jnp.zeros(4)),
    ]


def pair():
    return start, apply


@jax.tree_util.register_pytree_node_class
class Module:
    """A tree that is called with one point, as modules of libraries are."""

    def __init__(self, weight, bias, power):
        self.weight, self.bias, self.power = weight, bias, power

    def __call__(self, x):
        return jnp.tanh(x @ self.weight + self.bias) ** self.power

    def tree_flatten(self):
        return (self.weight, self.bias, self.power), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def module():
    rng = np.random.default_rng(3)
    return Module(jnp.asarray(rng.normal(0, 0.3, (16, 4))), jnp.zeros(4), 1)


def other_module():
    return Module(module().weight, module().bias, 2)


def equinox_module():
    equinox = pytest.importorskip("equinox")
    return equinox.nn.MLP(16, 4, 6, 1, activation=jnp.tanh, key=jax.random.key(0))


NETWORKS = {
    "conv": ({"network": "conv", "hidden": (3,), "image_shape": (4, 4)}, None),
    "conv of two layers": (
        {"network": "conv", "hidden": (3, 2), "image_shape": (2, 2, 4), "n_features": 3},
        None,
    ),
    "pair": ({"network": pair}, pair),
    "module": ({"network": module()}, module),
    "equinox": ({"network": equinox_module}, equinox_module),
}


# Each compiles a model of its own.
LONG = ("conv of two layers", "module")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in NETWORKS],
)
def test_networks_learn_explain_and_are_saved(name, tmp_path):
    options, factory = NETWORKS[name]
    bags, y = images()
    model = bagwise.ShrinkageRegressor(NetworkEmbedding(**options, learn=FEW))
    model = clone(model).fit(bags, y)
    begun = model.embedding.candidates(bags)[0]
    assert model.history_.best > 0
    assert not np.allclose(model.features_(bags.points), begun(bags.points))
    found = model.predict_dist(bags)
    assert_allclose(found.parts.total, found.std**2)
    assert (found.at_size(1).std > found.at_size(1000).std).all()
    why = model.explain(bags[:1])
    assert_allclose(why.baseline + why.points.sum(), why.prediction)
    assert_allclose(why.baseline + why.reference + why.columns.sum(), why.prediction)
    bagwise.save(model, tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m", network=factory)
    for twin in (loaded, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin.predict_dist(bags).mean, found.mean)
    assert_allclose(loaded.explain(bags[:1]).columns, why.columns)


def test_a_users_network_is_trained_as_ours_is():
    bags, y = images()
    ours = NetworkEmbedding(4, hidden=(6,), learn=FEW)
    drawn = ours.candidates(bags)[0]
    params = list(zip(drawn.weights, drawn.biases, strict=True))
    theirs = NetworkEmbedding(network=(params, apply), learn=FEW)
    first, second = (bagwise.ShrinkageRegressor(e).fit(bags, y) for e in (ours, theirs))
    assert_allclose(first.history_.validation, second.history_.validation, rtol=1e-6)
    assert_allclose(first.predict(bags), second.predict(bags), rtol=1e-6)
    # by hand, and by differences
    why, because = (model.explain(bags[:1]) for model in (first, second))
    assert_allclose(why.columns, because.columns, rtol=1e-4, atol=1e-6)


def test_columns_of_filters_are_those_of_the_same_layer_written_out():
    rng = np.random.default_rng(2)
    scaling = Scaling.of(np.zeros(4))
    conv = NetworkFeatures.drawn(scaling, [3], rng, (2, 2))  # no filters: the last layer alone
    plain = NetworkFeatures(scaling, conv.weights, conv.biases)
    x, v = rng.normal(size=(3, 4)), rng.normal(size=3)
    assert_allclose(split_by_column(conv, v, x), split_by_column(plain, v, x), rtol=1e-6)


def test_any_number_of_points_has_the_same_outputs():
    features = UserNetworkFeatures.drawn(Scaling.of(np.zeros(16)), module, 0)
    x = np.random.default_rng(0).normal(size=(200, 16))
    whole = features(x)
    assert_allclose(np.vstack([features(x[:1]), features(x[1:70]), features(x[70:])]), whole)
    assert_allclose(whole, np.tanh(x @ np.asarray(module().weight, np.float64)), rtol=1e-6)


def test_files_ask_for_the_network_and_know_it_again(tmp_path):
    bags, y = images()
    path = tmp_path / "m"
    model = bagwise.ShrinkageRegressor(NetworkEmbedding(network=module, learn=FEW)).fit(bags, y)
    bagwise.save(model, path)
    with pytest.raises(SavedModelError, match=r"load\(path, network=module\)"):
        bagwise.load(path)
    with pytest.raises(SavedModelError, match="has not the outputs"):
        bagwise.load(path, network=other_module)
    with pytest.raises(SavedModelError, match=r"has 130 parameters; expected 68"):
        bagwise.load(path, network=pair)
    assert np.array_equal(bagwise.load(path, network=module()).predict(bags), model.predict(bags))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": "deep"}, "network is 'deep'"),
        ({"network": "conv"}, r"image_shape is None for points of 16 columns"),
        ({"network": "conv", "image_shape": (5, 4)}, "no more pixels than columns"),
        ({"network": "conv", "image_shape": (4, 0)}, "no more pixels than columns"),
        ({"image_shape": (4, 4)}, "None, but for network"),
        ({"network": 3}, "network is a int; expected a module"),
        ({"network": ({"n": 1}, apply)}, "no arrays of real numbers to be learnt"),
        ({"network": ([jnp.ones(2)], lambda p, x: x[0])}, r"makes \(16,\) of 64 points"),
        ({"network": module, "learn": "ard"}, "for a network"),
    ],
)
def test_what_is_no_network_is_refused(options, message):
    bags, y = images()
    with pytest.raises(BagwiseError, match=message):
        bagwise.ShrinkageRegressor(NetworkEmbedding(**options)).fit(bags, y)


def test_layers_that_do_not_fit_are_no_model(tmp_path):
    from bagwise.estimators.saving.codec import check_network

    features = NetworkFeatures.drawn(Scaling.of(np.zeros(4)), [3, 2], np.random.default_rng(0))
    weights = features.weights[0], np.ones((5, 2))
    broken = NetworkFeatures(features.scaling, weights, features.biases)
    with pytest.raises(SavedModelError, match="layers that do not fit"):
        check_network(broken, "features")


def test_networks_have_no_convolved_prior():
    bags, y = images()
    with pytest.raises(BagwiseError, match="convolved prior was asked for with a network"):
        bagwise.ShrinkageRegressor(NetworkEmbedding(network=module), prior="convolved").fit(bags, y)
