"""The estimator of scikit-learn, by scikit-learn's own checks and in its own tools."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

from hindsight.sklearn import HindsightClassifier

DIGITS = load_digits(return_X_y=True)


@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn_pass_and_none_is_skipped():
    results = check_estimator(HindsightClassifier(), on_skip=None, on_fail=None)
    wrong = [(r["check_name"], r["status"], str(r["exception"])) for r in results if r["status"] != "passed"]
    assert not wrong
    assert len(results) >= 50


def test_it_learns_one_class_after_the_other():
    X, y = DIGITS
    scores = {}
    for method in ("finetune", "er-ring"):
        model = HindsightClassifier(method, hidden=(64,), random_state=0)
        for task in range(5):
            rows = y // 2 == task
            model.partial_fit(X[rows], y[rows], classes=range(10), task=task)
        scores[method] = model.score(X, y)
    assert scores["er-ring"] > scores["finetune"] + 0.2


def test_classes_may_come_as_they_like():
    X, y = DIGITS
    names = np.array(["zero", "one", "two", "three"])
    model = HindsightClassifier("er-ring", hidden=(64,), random_state=0)
    for pair in ([2, 3], [0, 1]):
        rows = np.isin(y, pair)
        model.partial_fit(X[rows], names[y[rows]])
    assert model.classes_.tolist() == sorted(names)
    rows = y < 4
    proba = model.predict_proba(X[rows])
    assert proba.shape == (rows.sum(), 4)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X[rows]))
    assert model.score(X[rows], names[y[rows]]) > 0.7
    assert set(model.predict(X[rows])) <= set(names)


def test_labels_that_were_not_announced_are_refused():
    X, y = DIGITS
    model = HindsightClassifier("finetune", hidden=(8,)).partial_fit(X[:50], y[:50] % 2, classes=[0, 1])
    with pytest.raises(ValueError, match="label 7, expected one of"):
        model.partial_fit(X[:50], [7] * 50)
    with pytest.raises(ValueError, match="as in the first call"):
        model.partial_fit(X[:50], y[:50] % 2, classes=[0, 1, 2])


def test_random_state_decides_everything():
    X, y = load_wine(return_X_y=True)
    one, same, other = (
        HindsightClassifier("er-ring", hidden=(16,), epochs=2, random_state=s).fit(X, y) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.agent_.theta, same.agent_.theta)
    assert not np.array_equal(one.agent_.theta, other.agent_.theta)
    assert clone(one).get_params() == one.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict_proba(X), one.predict_proba(X))


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(MinMaxScaler(), HindsightClassifier("er-ring", hidden=(16,), random_state=0))
    grid = {"hindsightclassifier__rate": [0.01, 0.1], "hindsightclassifier__method": ["finetune", "er-ring"]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert len(search.cv_results_["params"]) == 4


def test_a_setting_that_does_not_exist_is_named():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="unknown key `ratee`"):
        HindsightClassifier(settings={"ratee": 1}).fit(X, y)
