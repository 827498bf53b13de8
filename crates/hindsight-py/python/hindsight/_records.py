"""Records of runs as objects: numbers, tables, figures, pages."""

from __future__ import annotations

import json
import os
from html import escape
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Union, overload

import numpy as np

from . import _core

__all__ = ["Figure", "Record", "Records", "read"]

_Path = Union[str, "os.PathLike[str]"]


class Record:
    """The result of one run. All fields of docs/records.md are in ``record["name"]``."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._fields: Dict[str, Any] = json.loads(line)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def keys(self) -> Iterable[str]:
        """The names of all fields."""
        return self._fields.keys()

    @property
    def method(self) -> str:
        """The method."""
        return self["method"]

    @property
    def benchmark(self) -> str:
        """The benchmark, or the name of the custom stream."""
        return self["benchmark"]

    @property
    def seed(self) -> int:
        """The seed."""
        return self["seed"]

    @property
    def settings(self) -> Dict[str, Any]:
        """All settings, those of the method under ``method.key``."""
        return dict(self["config"])

    @property
    def diverged(self) -> bool:
        """Whether the run ended because a loss or a parameter was not finite."""
        return self["status"] == "diverged"

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the tasks after the last one, in percent; NaN if the run diverged."""
        return _number(self["accuracy"])

    @property
    def forgetting(self) -> float:
        """Mean fall from each task's best accuracy before the last task, as a fraction."""
        return _number(self["forgetting"])

    @property
    def learning_accuracy(self) -> float:
        """Mean accuracy on each task right after it was learned, as a fraction."""
        return _number(self["learning_accuracy"])

    @property
    def metrics(self) -> Dict[str, float]:
        """All measures by name."""
        own = {name: _number(self[name]) for name in ("accuracy", "forgetting", "learning_accuracy")}
        return {**own, **{name: _number(value) for name, value in self["metrics"].items()}}

    @property
    def matrix(self) -> np.ndarray:
        """``matrix[i, j]``: accuracy on task j after task i, as a fraction; NaN where not evaluated."""
        rows = self["matrix"]
        return np.array(rows, dtype=float).reshape(len(rows), -1)

    @property
    def seconds(self) -> float:
        """Seconds of training."""
        return self["train_seconds"]

    def __repr__(self) -> str:
        result = (
            "diverged"
            if self.diverged
            else f"accuracy {self.accuracy:.2f} %, forgetting {self.forgetting:.3f}"
        )
        return f"<hindsight.Record {self.method} on {self.benchmark}, seed {self.seed}: {result}>"


class Records(Sequence[Record]):
    """The results of runs, in the order in which they were asked for."""

    def __init__(self, lines: Sequence[str], snapshots: Sequence[str] = ()) -> None:
        self._lines, self._snapshots = list(lines), list(snapshots)
        self._records = [Record(line) for line in self._lines]

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> "Records": ...
    def __getitem__(self, place: Union[int, slice]) -> Union[Record, "Records"]:
        if isinstance(place, slice):
            return Records(self._lines[place], self._snapshots)
        return self._records[place]

    def __len__(self) -> int:
        return len(self._records)

    def __add__(self, other: "Records") -> "Records":
        return Records(self._lines + other._lines, self._snapshots + other._snapshots)

    @property
    def accuracy(self) -> np.ndarray:
        """The accuracy of each run, in percent."""
        return np.array([record.accuracy for record in self])

    @property
    def forgetting(self) -> np.ndarray:
        """The forgetting of each run, as a fraction."""
        return np.array([record.forgetting for record in self])

    @property
    def matrix(self) -> np.ndarray:
        """The accuracy matrices of all runs, (runs, tasks, tasks); NaN where a run did not get to."""
        shapes = [record.matrix.shape for record in self]
        rows, columns = (max((shape[axis] for shape in shapes), default=0) for axis in (0, 1))
        all_ = np.full((len(self), rows, columns), np.nan)
        for to, record in zip(all_, self):
            matrix = record.matrix
            to[: matrix.shape[0], : matrix.shape[1]] = matrix
        return all_

    def of(self, method: Optional[str] = None, benchmark: Optional[str] = None) -> "Records":
        """Those of a method, or a benchmark."""
        chosen = [
            line
            for line, record in zip(self._lines, self)
            if method in (None, record.method) and benchmark in (None, record.benchmark)
        ]
        return Records(chosen, self._snapshots)

    def to_frame(self, settings: bool = False) -> Any:
        """A pandas DataFrame with a row per run; with ``settings``, their settings too."""
        import pandas

        rows = []
        for record in self:
            row = {"benchmark": record.benchmark, "method": record.method, "seed": record.seed}
            row.update(status=record["status"], **record.metrics)
            row.update(train_seconds=record["train_seconds"], eval_seconds=record["eval_seconds"])
            row.update(memory_bytes=record["memory_bytes"])
            if settings:
                row.update(record.settings)
            rows.append(row)
        return pandas.DataFrame(rows)

    def plot(self, kind: str = "accuracy") -> "Figures":
        """The figures of a kind, ``accuracy`` or ``forgetting`` or another of the report's."""
        benchmarks = dict.fromkeys(record.benchmark for record in self)
        drawn = (
            _core.figures(kind, self.of(benchmark=benchmark)._lines, self._of_benchmark(benchmark))
            for benchmark in benchmarks
        )
        return Figures(Figure(*parts) for figures in drawn for parts in figures)

    def _of_benchmark(self, benchmark: str) -> List[str]:
        return [line for line in self._snapshots if json.loads(line)["benchmark"] == benchmark]

    def table(self) -> str:
        """Accuracy, forgetting and learning accuracy by method, mean and deviation over seeds, as text."""
        return _core.table(self._lines)

    def report(self, path: Optional[_Path] = None, title: str = "Results") -> str:
        """The report as one page of HTML without references to anything else; written to ``path`` if given."""
        page = _core.page(title, self._lines, self._snapshots)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def save(self, folder: _Path) -> None:
        """Writes ``records.jsonl`` to a folder, as ``hindsight report`` reads it."""
        os.makedirs(folder, exist_ok=True)
        for name, lines in (("records.jsonl", self._lines), ("snapshots.jsonl", self._snapshots)):
            if lines:
                with open(os.path.join(os.fspath(folder), name), "w", encoding="utf-8") as file:
                    file.writelines(line + "\n" for line in lines)

    def to_tensorboard(self, folder: _Path) -> None:
        """Writes a run for each record to a folder of TensorBoard; needs the package ``tensorboard``."""
        from ._exporters import to_tensorboard

        to_tensorboard(self, os.fspath(folder))

    def to_wandb(self, project: str = "hindsight", **init: Any) -> None:
        """Logs a run for each record to Weights & Biases; needs the package ``wandb``."""
        from ._exporters import to_wandb

        to_wandb(self, project, init)

    def __repr__(self) -> str:
        return self.table().rstrip() if len(self) else "<hindsight.Records: none>"

    def _repr_html_(self) -> str:
        if not len(self):
            return escape(repr(self))
        return f"<pre>{escape(self.table())}</pre>{self.plot()._repr_html_()}"


class Figure:
    """A drawn figure; a notebook shows it."""

    def __init__(self, name: str, title: str, caption: str, svg: str, png: bytes) -> None:
        self.name, self.title, self.caption, self.svg, self.png = name, title, caption, svg, png

    def save(self, path: _Path) -> None:
        """Writes it as SVG, or as PNG where the name ends in ``.png``."""
        content = self.png if os.fspath(path).lower().endswith(".png") else self.svg.encode()
        with open(path, "wb") as file:
            file.write(content)

    def __repr__(self) -> str:
        return f"<hindsight.Figure {self.name}: {self.title}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<figure style='margin:0'>{self.svg}<figcaption>{escape(self.caption)}</figcaption></figure>"


class Figures(List[Figure]):
    """Figures that a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        return "".join(figure._repr_html_() for figure in self)


def read(*paths: _Path) -> Records:
    """The records in files and folders, such as those that ``hindsight run`` leaves."""
    import warnings

    lines, snapshots, notes = _core.read_records([os.fspath(path) for path in paths])
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Records(lines, snapshots)


def _number(value: Optional[float]) -> float:
    return float("nan") if value is None else value
