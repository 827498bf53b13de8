"""An estimator of scikit-learn that keeps learning."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Dict, Optional, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from ._agent import Agent

__all__ = ["HindsightClassifier"]


class HindsightClassifier(ClassifierMixin, BaseEstimator):
    """A network that learns from a stream and replays what it has seen.

    ``partial_fit`` learns from the next samples, once. ``fit`` starts anew and passes over all of them ``epochs``
    times, as one task.

    Parameters
    ----------
    method : str, default="hal"
        One of ``hindsight.methods()``.
    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers.
    rate : float, optional
        Learning rate; the method's default if left out.
    slots : int, default=10
        Remembered samples per class and task.
    batch : int, default=10
        Samples in a step.
    epochs : int, default=20
        Passes of ``fit`` over its data.
    standardise : bool, default=True
        Bring each feature to mean 0 and deviation 1, as over the first 1000 samples.
    settings : dict, optional
        Any other key of ``hindsight.settings(method)``.
    random_state : int, RandomState instance or None, default=None
        The seed of all random numbers.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features.
    agent_ : hindsight.Agent
        The learner.

    Examples
    --------
    >>> from hindsight.sklearn import HindsightClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HindsightClassifier(method="er-ring", random_state=0)
    >>> for task in range(5):
    ...     rows = y // 2 == task
    ...     _ = model.partial_fit(X[rows], y[rows], classes=range(10), task=task)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    classes_: np.ndarray
    n_features_in_: int
    agent_: Agent

    def __init__(
        self,
        method: str = "hal",
        *,
        hidden: Sequence[int] = (256, 256),
        rate: Optional[float] = None,
        slots: int = 10,
        batch: int = 10,
        epochs: int = 20,
        standardise: bool = True,
        settings: Optional[Dict[str, Any]] = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.rate = rate
        self.slots = slots
        self.batch = batch
        self.epochs = epochs
        self.standardise = standardise
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "HindsightClassifier":
        """Learns anew, from all samples, ``epochs`` times over.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        X, y = self._validated(X, y, reset=True)
        if self.epochs < 1:
            raise ValueError(f"`epochs` is {self.epochs}, expected at least 1")
        self._begin(unique_labels(y))
        # One pass is a stream; over several passes, the order of the file would be learned too.
        order = np.random.default_rng(self._seed)
        self.agent_.fit_scaling(X)
        for _ in range(self.epochs):
            shuffled = order.permutation(len(X))
            self.agent_.observe(X[shuffled], y[shuffled])
        self.agent_.end_task()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, task: Any = None) -> "HindsightClassifier":
        """Learns from the next samples of the stream, once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            All labels that will ever come; in the first call. Without it, classes may come as they like.
        task : hashable, optional
            The task that the samples are of. A task ends when another comes.

        Returns
        -------
        self
        """
        first = not hasattr(self, "agent_")
        X, y = self._validated(X, y, reset=first)
        if first:
            self._begin(unique_labels(y) if classes is None else unique_labels(classes))
            self._announced = classes is not None
        elif classes is not None and not np.array_equal(unique_labels(classes), self.classes_):
            raise ValueError(f"`classes` is {classes!r}, expected {self.classes_!r} as in the first call")
        new = np.setdiff1d(y, self.classes_)
        if len(new):
            if self._announced:
                raise ValueError(
                    f"label {new[0].item()!r}, expected one of {self.classes_!r}: all that were announced"
                )
            self.classes_ = unique_labels(self.classes_, new)
        self.agent_.observe(X, y, task)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row."""
        answers = self.predict_proba(X).argmax(axis=1)
        return self.classes_[answers]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of ``classes_`` for each row."""
        check_is_fitted(self, "agent_")
        X = validate_data(self, X, dtype=np.float32, reset=False)
        found = self.agent_.predict_proba(X)
        # Columns of the agent are in the order in which classes came; some of those announced may not have come.
        place = {label: place for place, label in enumerate(self.classes_.tolist())}
        proba = np.zeros((len(X), len(self.classes_)))
        proba[:, [place[label] for label in self.agent_.classes]] = found
        return proba / proba.sum(axis=1, keepdims=True)

    def _validated(self, X: Any, y: Any, reset: bool) -> Any:
        X, y = validate_data(self, X, y, dtype=np.float32, reset=reset)
        check_classification_targets(y)
        return X, y

    def _begin(self, classes: np.ndarray) -> None:
        state = self.random_state
        self._seed = (
            int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31))
        )
        chosen: Dict[str, Any] = {
            "hidden": [int(width) for width in self.hidden],
            "rate": self.rate,
            "slots": self.slots,
        }
        chosen.update(batch=self.batch, **(self.settings or {}))
        self.agent_ = Agent(
            self.n_features_in_,
            method=self.method,
            task_ends=False,
            standardise=self.standardise,
            seed=self._seed,
            **chosen,
        )
        self._announced = True
        self.classes_ = classes
