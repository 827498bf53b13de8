"""A learner for data as it comes."""

from __future__ import annotations

import ast
import inspect
import keyword
import os
from typing import Any, Dict, Hashable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _core
from ._arrays import as_labels, as_rows, label_array
from ._errors import HindsightError

__all__ = ["Agent"]


class Agent:
    """A continual learner: ``observe`` as data arrives, ``predict`` at any time.

    Parameters
    ----------
    features : int or sequence of str
        Number of features, or their names (a DataFrame's columns are then found by name).
    classes : int or sequence, optional
        The labels, or their number where they are 0, 1, 2, ...; any other label is then refused. Without it, a
        label that has not been seen before is a new class.
    method : str
        One of ``hindsight.methods()``.
    heads : "shared", "per-task" or mapping
        Whether the learner answers with any class, or with the classes of the task that it is asked about; a
        mapping gives the labels of each task in advance.
    task_ends : bool
        Whether it will be told when a task ends, by ``end_task`` or because samples of another task come. Without
        ends, memories replay and keep samples of all that came, and methods consolidate every 100 batches.
    standardise : bool
        Bring each feature to mean 0 and deviation 1, as over the first 1000 samples.
    seed : int
        Of all random numbers: the same seed, data and settings give the same bits.
    **settings
        Any key of ``hindsight.settings(method)``, such as ``rate=0.1``, ``hidden=[64]`` or ``slots=5``;
        ``lambda_`` stands for ``lambda``, which is a word of Python.

    Any number of threads may call an agent at a time; the interpreter is free while it learns or answers.

    >>> import numpy as np, hindsight
    >>> agent = hindsight.Agent(2, method="er-ring", hidden=[16], replay_from="all", seed=1)
    >>> X = np.array([[1.0, 0.5], [-1.0, 0.5]] * 100, dtype=np.float32)
    >>> loss = agent.observe(X, ["right", "left"] * 100)
    >>> agent.predict([[0.9, 0.5], [-0.9, 0.5]]).tolist()
    ['right', 'left']
    """

    def __init__(
        self,
        features: Union[int, Sequence[str]],
        classes: Union[None, int, Sequence[Hashable]] = None,
        method: str = "hal",
        *,
        heads: Union[str, Mapping[Hashable, Sequence[Hashable]]] = "shared",
        task_ends: bool = True,
        standardise: bool = True,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        names = None
        if not isinstance(features, (int, np.integer)):
            names = [str(name) for name in features]
            features = len(names)
        if features < 0 or seed < 0:
            raise HindsightError(f"`features` is {features} and `seed` is {seed}, expected positive numbers")
        count: Optional[int] = None
        labels: List[Hashable] = []
        if isinstance(classes, (int, np.integer)):
            count = int(classes)
            if count < 2:
                raise HindsightError(
                    f"`classes` is {count}, expected the labels, or their number from 2 on",
                    "leave it out if classes may come as they like",
                )
        elif classes is not None:
            labels = list(dict.fromkeys(_plain(label) for label in as_labels(classes)))
        groups: Optional[List[List[int]]] = None
        tasks: List[str] = []
        if isinstance(heads, str):
            if heads not in ("shared", "per-task"):
                raise HindsightError(
                    f"`heads` is `{heads}`, expected `shared`, `per-task` or the labels of each task"
                )
            if heads == "per-task":
                if classes is not None:
                    raise HindsightError(
                        "`heads` is `per-task` and `classes` are given, expected one of them",
                        "give the labels of each task, `heads={'a': [0, 1], 'b': [2, 3]}`, or leave out `classes`",
                    )
                groups = []
        else:
            of_task = [[_plain(label) for label in as_labels(group)] for group in heads.values()]
            tasks = [_name(_plain(name)) for name in heads]
            if classes is None:
                labels = list(dict.fromkeys(label for group in of_task for label in group))
            known: Sequence[Hashable] = range(count) if count is not None else labels
            place = {label: code for code, label in enumerate(known)}
            unknown = [label for group in of_task for label in group if label not in place]
            if unknown:
                raise HindsightError(f"label {unknown[0]!r} of a task, expected one of `classes`")
            groups = [[place[label] for label in group] for group in of_task]
        if not task_ends:
            own = {
                key["name"]
                for about in _core.methods()
                if about["name"] == method
                for key in about["settings"]
            }
            usual = {"memory": "reservoir", "consolidate_every": 100}
            settings = {"replay_from": "all", **{key: usual[key] for key in usual if key in own}, **settings}
        class_names = _names(labels) if labels else None
        core = _core.Agent(
            features,
            names,
            count,
            class_names,
            groups,
            bool(standardise),
            int(seed),
            {"method": method, **settings},
        )
        for name in tasks:
            core.task_id(name)
        self._take(core, labels)

    def _take(
        self, core: "_core.Agent", labels: Optional[List[Hashable]] = None, task: Optional[int] = None
    ) -> None:
        """Makes this the agent `core`, whose classes stand for `labels`."""
        self._core = core
        about = core.describe()
        self._features: int = about["features"]
        self._columns: Optional[List[str]] = about["feature_names"]
        self._open: bool = about["open"]
        self._batch: int = about["settings"]["batch"]
        names = about["class_names"]
        # Without names, labels are the numbers of the classes.
        self._named = names is not None or (self._open and about["classes"] == 0)
        if not labels:
            labels = (
                _labels(names, about["label_type"]) if names is not None else list(range(about["classes"]))
            )
        self._labels: List[Hashable] = labels
        self._codes: Dict[Hashable, int] = {label: code for code, label in enumerate(labels)}
        self._array: Optional[np.ndarray] = None
        self._tasks: Dict[str, int] = {name: i for i, name in enumerate(about["task_names"])}
        if task is None:
            running = about["running_task"]
            task = max(len(self._tasks) - 1, 0) if running is None else running
        self._task: int = task

    # Learning and answering

    def observe(
        self, X: Any, y: Any, task: Optional[Hashable] = None, *, batch: Optional[int] = None, epochs: int = 1
    ) -> float:
        """Learns from samples, once, and returns the mean loss on them before that.

        Parameters
        ----------
        X : array of shape (samples, features)
            Read without a copy if it is contiguous and ``float32``. Images may have more dimensions.
        y : sequence of labels
        task : hashable, optional
            What these samples are of; the current task if left out. When samples of another task come, the current
            one ends, as ``end_task`` has it; it may come back later. Tasks without names are called 0, 1, ...
        batch : int, optional
            Samples in a step; the setting ``batch``, 10, unless given.
        epochs : int
            Passes over these samples.
        """
        rows = self._rows(X)
        labels = as_labels(y)
        batch = self._batch if batch is None else batch
        if batch < 1 or epochs < 1:
            raise HindsightError(f"`batch` is {batch} and `epochs` is {epochs}, expected at least 1")
        if len(rows) != len(labels):
            raise HindsightError(f"{len(rows)} rows and {len(labels)} labels, expected as many")
        codes, new = self._encode(labels)
        name = self._current() if task is None else _name(_plain(task))
        if not self._tasks and name != "0" and self._core.describe()["samples"]:
            # What came before had no name.
            self._tasks["0"] = self._core.task_id("0")
        try:
            return self._core.observe(rows, codes, [_name(label) for label in new], name, batch, epochs)
        finally:
            if new or not self._named:
                self._meet(new)
            if name not in self._tasks:
                self._tasks = {known: i for i, known in enumerate(self._core.describe()["task_names"])}
            self._task = self._tasks.get(name, self._task)

    def end_task(self) -> None:
        """Tells that what comes next is another task. Where tasks have no boundaries, it need never be told."""
        self._core.end_task()
        if list(self._tasks) == [str(i) for i in range(len(self._tasks))]:
            # Nobody names them: they are counted, and the next one is noted in the file.
            for i in range(self._task + 2):
                self._task = self._tasks[str(i)] = self._core.task_id(str(i))

    def fit_scaling(self, X: Any) -> None:
        """Takes in mean and deviation of the features and learns nothing.

        For those who learn in small batches: give it the first chunk of data as a whole before.
        """
        self._core.fit_scaling(self._rows(X))

    def predict(self, X: Any, task: Optional[Hashable] = None) -> np.ndarray:
        """The label of each row, as answered for ``task``, or for the current one. Changes nothing."""
        codes = self._core.predict(self._rows(X), self._task_id(task))
        if self._array is None or len(self._array) != len(self._labels):
            self._array = label_array(self._labels)
        return self._array[codes]

    def predict_proba(self, X: Any, task: Optional[Hashable] = None) -> np.ndarray:
        """The probability of each of ``classes`` for each row, ``float32`` of shape (samples, classes)."""
        return self._core.predict_proba(self._rows(X), self._task_id(task))

    # What it is

    @property
    def classes(self) -> List[Hashable]:
        """The labels known so far, in the order of the columns of ``predict_proba``."""
        return list(self._labels)

    @property
    def tasks(self) -> List[str]:
        """The names of the tasks known so far."""
        return list(self._tasks)

    @property
    def features(self) -> int:
        """Number of features."""
        return self._features

    @property
    def feature_names(self) -> Optional[List[str]]:
        """Names of the features, if they have some."""
        return None if self._columns is None else list(self._columns)

    @property
    def method(self) -> str:
        """The method."""
        return self._core.describe()["method"]

    @property
    def seed(self) -> int:
        """The seed."""
        return self._core.describe()["seed"]

    @property
    def settings(self) -> Dict[str, Any]:
        """All settings, those of the method under ``method.key``."""
        return self._core.describe()["settings"]

    @property
    def samples_seen(self) -> int:
        """Samples learned from so far."""
        return self._core.describe()["samples"]

    @property
    def theta(self) -> np.ndarray:
        """A copy of the parameters."""
        return self._core.theta()

    def __repr__(self) -> str:
        about = self._core.describe()
        classes = "no classes yet" if not self._labels else f"{len(self._labels)} classes"
        return (
            f"<hindsight.Agent {about['method']}, seed {about['seed']}: {self._features} features, {classes}, "
            f"{about['samples']} samples seen>"
        )

    # Files, copies

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes it to a file, whole or not at all. ``hindsight predict`` and ``learn`` read it too."""
        self._note_label_type(True)
        self._core.save(os.fspath(path))

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Agent":
        """Reads what ``save``, ``hindsight learn`` or a run has written; it goes on bit for bit."""
        agent = cls.__new__(cls)
        agent._take(_core.Agent.load(os.fspath(path)))
        return agent

    def copy(self) -> "Agent":
        """Another agent in the same state."""
        agent = self.__class__.__new__(self.__class__)
        agent._take(self._core.clone(), list(self._labels), self._task)
        return agent

    def __copy__(self) -> "Agent":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "Agent":
        return self.copy()

    def __getstate__(self) -> Dict[str, Any]:
        self._note_label_type(False)
        return {"agent": self._core.to_bytes(), "labels": self._labels, "task": self._task}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._take(_core.Agent.from_bytes(state["agent"]), state["labels"], state["task"])

    # Labels, tasks, rows

    def _rows(self, X: Any) -> np.ndarray:
        rows = as_rows(X, self._columns)
        if rows.shape[1] != self._features:
            raise HindsightError(f"X has {rows.shape[1]} features, expected {self._features}")
        return rows

    def _encode(self, labels: List[Hashable]) -> Tuple[List[int], List[Hashable]]:
        """The numbers of classes, and the labels that stand for those not known yet, in their order."""
        codes = self._codes
        try:
            return [codes[label] for label in labels], []
        except KeyError:
            new = list(dict.fromkeys(_plain(label) for label in labels if label not in codes))
        except TypeError as error:
            raise HindsightError(f"a label cannot be told from others: {error}") from None
        if not self._open:
            known = ", ".join(map(repr, self._labels[:20])) + (", ..." if len(self._labels) > 20 else "")
            raise HindsightError(
                f"label {new[0]!r}, expected one of {known}", "leave out `classes` if more may come later"
            )
        if not self._named:
            # An agent whose classes are numbers, of a file that was not written by Python.
            if not all(type(label) is int and label >= 0 for label in new):
                raise HindsightError(
                    f"label {new[0]!r}, expected a number from 0 on: the classes have no names"
                )
            return [int(label) for label in labels], []  # type: ignore[call-overload]
        _names(self._labels + new)
        next_ = {label: len(codes) + place for place, label in enumerate(new)}
        return [codes[label] if label in codes else next_[label] for label in labels], new

    def _meet(self, new: List[Hashable]) -> None:
        """Takes over what classes the agent has got to know: all of `new`, unless it was interrupted."""
        count = self._core.classes()
        met = new[: count - len(self._labels)] if self._named else range(len(self._labels), count)
        for label in met:
            self._codes[label] = len(self._labels)
            self._labels.append(label)

    def _current(self) -> str:
        """The name of the current task."""
        for name, task in self._tasks.items():
            if task == self._task:
                return name
        return str(self._task)

    def _task_id(self, task: Optional[Hashable]) -> int:
        """The number of a task that was seen."""
        if task is None:
            return self._task
        name = _name(_plain(task))
        if name not in self._tasks and name != self._current():
            names = ", ".join(f"`{name}`" for name in self._tasks) or "none"
            raise HindsightError(f"task `{name}`, expected one of those seen: {names}")
        return self._tasks.get(name, self._task)

    def _note_label_type(self, needed: bool) -> None:
        if not self._named or not self._labels:
            return
        kind = _label_type(self._labels)
        if kind is None and needed:
            kinds = sorted({type(label).__name__ for label in self._labels})
            raise HindsightError(
                f"labels of type {' and '.join(kinds)} cannot be written to a file and read again",
                "use labels of one type, text or numbers, or save it with `pickle`",
            )
        self._core.set_label_type(kind)


def _plain(label: Any) -> Hashable:
    """A scalar of numpy as Python has it."""
    if isinstance(label, np.generic):
        label = label.item()
    if label != label:
        raise HindsightError(f"a label or task is {label!r}, expected a value that is equal to itself")
    return label


def _name(label: Hashable) -> str:
    """What a label is called in a file."""
    return label if isinstance(label, str) else repr(label)


def _names(labels: Sequence[Hashable]) -> List[str]:
    """The names of labels, all different."""
    names = [_name(label) for label in labels]
    if len(set(names)) < len(names):
        seen: Dict[str, Hashable] = {}
        for label, name in zip(labels, names):
            if name in seen:
                raise HindsightError(
                    f"labels {seen[name]!r} and {label!r} have the same name", "use labels of one type"
                )
            seen[name] = label
    return names


def _label_type(labels: Sequence[Hashable]) -> Optional[str]:
    """How labels can be got back from their names, if they can."""
    if all(isinstance(label, str) for label in labels):
        return "str"
    if all(type(label) is int for label in labels):
        return "int"

    def literal(label: Hashable) -> bool:
        try:
            return not isinstance(label, str) and ast.literal_eval(repr(label)) == label
        except (ValueError, SyntaxError):
            return False

    return "literal" if all(map(literal, labels)) else None


def _labels(names: Sequence[str], kind: Optional[str]) -> List[Hashable]:
    """The labels that names stand for. Names that look like whole numbers are numbers, unless it is known
    that they are text."""
    try:
        if kind == "literal":
            return [ast.literal_eval(name) for name in names]
        if kind != "str" and all(name == str(int(name)) for name in names):
            return [int(name) for name in names]
    except (ValueError, SyntaxError):
        # A program without types has added a class.
        pass
    return list(names)


def _signature() -> inspect.Signature:
    """That of ``Agent``, with all settings as keywords: what tab completion shows."""
    signature = inspect.signature(Agent.__init__)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "settings")]
    names = {p.name for p in parameters}
    keys = {key["name"] for about in _core.methods() for key in about["settings"]}
    keys |= {key["name"] for key in _core.shared_settings()}
    keys = {key for key in keys if key.split("_")[0] not in ("tuning", "evaluate")} - names
    settings = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None)
        for key in sorted(key + "_" if keyword.iskeyword(key) else key for key in keys)
    ]
    return signature.replace(parameters=parameters + settings)


Agent.__signature__ = _signature()  # type: ignore[attr-defined]
