"""Streams of tasks made of arrays."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import Any, Dict, Hashable, List, Optional, Sequence, Union

import numpy as np

from . import _core
from ._agent import _name, _names, _plain
from ._arrays import as_labels, as_rows
from ._errors import HindsightError

__all__ = ["Stream", "stream"]


class Stream:
    """A stream of tasks, for ``hindsight.run``: made by ``hindsight.stream``.

    It is a folder with the arrays and a description, as ``hindsight run --stream`` reads it; ``save`` copies it.
    """

    def __init__(self, folder: str, temporary: Optional["tempfile.TemporaryDirectory[str]"] = None) -> None:
        self._folder, self._temporary = folder, temporary
        self.path = os.path.join(folder, "stream.toml")
        self.name, self.tasks, self.classes = _core.check_stream(self.path)

    def save(self, folder: Union[str, "os.PathLike[str]"]) -> str:
        """Copies it to ``folder`` and returns the path of its description."""
        shutil.copytree(self._folder, folder, dirs_exist_ok=True)
        return os.path.join(os.fspath(folder), "stream.toml")

    def __repr__(self) -> str:
        return f"<hindsight.Stream {self.name}: {len(self.tasks)} tasks, {len(self.classes)} classes>"


def stream(
    X: Any,
    y: Any,
    task: Any = None,
    *,
    test: float = 0.2,
    test_rows: str = "random",
    name: str = "arrays",
    heads: str = "shared",
    standardise: bool = True,
    shuffle: Optional[bool] = None,
) -> Stream:
    """A stream of tasks from arrays.

    Parameters
    ----------
    X : array of shape (samples, features), or (samples, height, width) or (samples, channels, height, width)
    y : sequence of labels
    task : sequence, optional
        The task of each sample: numbers are learned in their order, other names as they first come. Without it
        there is one task without an end, in the order of the rows.
    test : float
        The share of each class of each task that is held out for test.
    test_rows : "random" or "last"
        Which ones: drawn anew for each seed, or the last rows.
    name : str
        Its name in records and reports.
    heads : "shared" or "per-task"
        Whether the learner has to choose among all classes, or is told the task and chooses among its classes.
    standardise : bool
        Bring each feature to mean 0 and deviation 1 over the training rows.
    shuffle : bool, optional
        Whether training rows come in random order within their task; by default where there are tasks.
    """
    labels: Sequence[Hashable] = [_plain(label) for label in as_labels(y)]
    distinct = list(dict.fromkeys(labels))
    names = dict(zip(distinct, _names(distinct)))
    features = as_rows(X)
    if np.ndim(X) > 2:
        features = features.reshape(np.shape(X))
    arrays: Dict[str, Any] = {"x": features, "y": np.array([names[label] for label in labels])}
    settings: List[str] = [
        'format = "npz"',
        f"name = {json.dumps(name)}",
        'features = "x"',
        'label = "y"',
        f"heads = {json.dumps(heads)}",
        f"hold_out = {float(test)}",
        f"standardise = {str(bool(standardise)).lower()}",
    ]
    if test_rows not in ("random", "last"):
        raise HindsightError(f"`test_rows` is `{test_rows}`, expected `random` or `last`")
    if task is None:
        settings.append('tasks = "none"')
    else:
        arrays["task"] = np.array([_name(_plain(name)) for name in as_labels(task)])
        settings += ['tasks = "column"', 'task = "task"']
    if test_rows == "last" or task is None:
        settings.append(f'hold_out_rows = "{test_rows}"')
    if shuffle is not None:
        settings.append(f'order = "{"shuffled" if shuffle else "file"}"')
    temporary = tempfile.TemporaryDirectory(prefix="hindsight-")
    np.savez(os.path.join(temporary.name, "samples.npz"), **arrays)
    with open(os.path.join(temporary.name, "stream.toml"), "w", encoding="utf-8") as file:
        file.write("\n".join(settings) + '\n\n[[files]]\ntrain = "samples.npz"\n')
    return Stream(temporary.name, temporary)
