"""An estimator of river: learns from one sample at a time."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Dict, Hashable, List, Optional, Sequence

import numpy as np
from river import base

from ._agent import Agent

__all__ = ["HindsightClassifier"]


class HindsightClassifier(base.MiniBatchClassifier):
    """A network that learns from a stream and replays what it has seen.

    The features are those of the first sample. One that is missing later is 0; one that is new is left out, with a
    warning.

    Parameters
    ----------
    method
        One of `hindsight.methods()`.
    hidden
        Widths of the hidden layers.
    rate
        Learning rate; the method's default if left out.
    slots
        Remembered samples per class.
    standardise
        Bring each feature to mean 0 and deviation 1, as over the first 1000 samples.
    seed
        The seed of all random numbers.
    settings
        Any other key of `hindsight.settings(method)`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from hindsight.river import HindsightClassifier
    >>> model = HindsightClassifier(method="er-ring", seed=1)
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> accuracy.get() > 0.8
    True
    """

    def __init__(
        self,
        method: str = "er-ring",
        hidden: Sequence[int] = (64,),
        rate: Optional[float] = None,
        slots: int = 10,
        standardise: bool = True,
        seed: int = 0,
        settings: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.rate = rate
        self.slots = slots
        self.standardise = standardise
        self.seed = seed
        self.settings = settings
        self._agent: Optional[Agent] = None
        self._features: List[Hashable] = []
        self._warned = False

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"method": "er-ring", "hidden": (16,)}
        yield {"method": "hal", "hidden": (16,)}

    def _begin(self, features: Sequence[Hashable]) -> Agent:
        # A dictionary has no order that would mean anything.
        self._features = sorted(features, key=str)
        chosen: Dict[str, Any] = {
            "hidden": list(self.hidden),
            "rate": self.rate,
            "slots": self.slots,
            **(self.settings or {}),
        }
        return Agent(
            len(self._features),
            method=self.method,
            task_ends=False,
            standardise=self.standardise,
            seed=self.seed,
            **chosen,
        )

    def _row(self, x: Dict[Hashable, Any]) -> np.ndarray:
        if not self._warned and not set(x) <= set(self._features):
            self._warned = True
            new = sorted(map(str, set(x) - set(self._features)))
            warnings.warn(
                f"features that the first sample did not have are left out: {', '.join(new)}", stacklevel=3
            )
        row = np.array([[x.get(name, 0.0) for name in self._features]], dtype=np.float32)
        return np.nan_to_num(row)

    def learn_one(self, x: Dict[Hashable, Any], y: Hashable) -> None:
        """Learns from a sample.

        Parameters
        ----------
        x
            Its features by name.
        y
            Its label.

        """
        if self._agent is None:
            self._agent = self._begin(list(x))
        self._agent.observe(self._row(x), [y])

    def predict_proba_one(self, x: Dict[Hashable, Any], **kwargs: Any) -> Dict[Any, float]:
        """The probability of each label seen so far.

        Parameters
        ----------
        x
            The features by name.

        """
        if self._agent is None:
            return {}
        return dict(zip(self._agent.classes, self._proba(self._row(x))[0].tolist()))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learns from the rows of a DataFrame, as `learn_one` does from each of them in turn.

        Parameters
        ----------
        X
            A row for each sample.
        y
            Their labels.

        """
        if self._agent is None:
            self._agent = self._begin(list(X.columns))
        for row, label in zip(self._rows(X), y.tolist()):
            self._agent.observe(row[None], [label])

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of each label seen so far, by row.

        Parameters
        ----------
        X
            A row for each sample.

        """
        import pandas

        if self._agent is None:
            return pandas.DataFrame(index=X.index)
        return pandas.DataFrame(self._proba(self._rows(X)), index=X.index, columns=self._agent.classes)

    def _proba(self, rows: np.ndarray) -> np.ndarray:
        # The sum is 1 to the precision of what river computes with.
        proba = self._agent.predict_proba(rows).astype(np.float64)  # type: ignore[union-attr]
        return proba / proba.sum(axis=1, keepdims=True)

    def _rows(self, X: Any) -> np.ndarray:
        return np.nan_to_num(X.reindex(columns=self._features, fill_value=0.0).to_numpy(dtype=np.float32))

    def __deepcopy__(self, memo: Any) -> "HindsightClassifier":
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return other
