"""The estimator of river, by river's own checks."""

import numpy as np
import pytest

pytest.importorskip("river")
from river import checks, compose, datasets, evaluate, metrics, preprocessing

from hindsight.river import HindsightClassifier

CHECKS = [
    (params, place, getattr(getattr(check, "func", check), "__name__", str(check)))
    for params in HindsightClassifier._unit_test_params()
    for place, check in enumerate(checks.yield_checks(HindsightClassifier(**params)))
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("params, place, name", CHECKS, ids=[f"{p['method']}-{i}-{n}" for p, i, n in CHECKS])
def test_every_check_of_river_passes(params, place, name):
    model = HindsightClassifier(**params)
    # Checks hold their data, which is used up by one run.
    list(checks.yield_checks(model))[place](model.clone())


def test_it_learns_from_a_stream():
    model = compose.Pipeline(preprocessing.StandardScaler(), HindsightClassifier(seed=1))
    accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert accuracy.get() > 0.85


def test_features_that_come_later_are_left_out_with_a_warning():
    model = HindsightClassifier(hidden=(8,))
    assert model.predict_proba_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0, "b": 2.0}, "x")
    with pytest.warns(UserWarning, match="left out: c"):
        model.learn_one({"a": 1.0, "c": 2.0}, "y")
    proba = model.predict_proba_one({"b": 1.0})
    assert set(proba) == {"x", "y"} and np.isclose(sum(proba.values()), 1)


def test_labels_keep_their_type():
    model = HindsightClassifier(hidden=(8,))
    for i in range(20):
        model.learn_one({"a": float(i % 2)}, bool(i % 2))
    assert model.predict_one({"a": 1.0}) in (True, False)
    assert set(model.predict_proba_one({"a": 1.0})) == {True, False}
