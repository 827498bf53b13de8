"""Experiments."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _core
from ._errors import HindsightError
from ._progress import Progress
from ._records import Records, read
from ._stream import Stream

__all__ = ["run"]


def run(
    benchmark: Union[str, Stream, "os.PathLike[str]"] = "permuted-digits",
    methods: Union[str, type, Sequence[Any]] = ("finetune", "er-ring", "hal"),
    seeds: Union[int, Sequence[int], range] = 1,
    *,
    jobs: Optional[int] = None,
    data_dir: Union[None, str, "os.PathLike[str]"] = None,
    out: Union[None, str, "os.PathLike[str]"] = None,
    progress: Optional[bool] = None,
    **settings: Any,
) -> Records:
    """Runs methods on a stream of tasks, each with every seed, and returns their records.

    Parameters
    ----------
    benchmark : str, Stream or path
        One of ``hindsight.benchmarks()``, a stream made by ``hindsight.stream``, or the path of a stream file.
    methods : name, class, or several
        Names of ``hindsight.methods()``, and methods written in Python: classes with ``observe(X, y, task)``,
        ``end_task()`` and ``predict(X, task)``, where ``y`` and what ``predict`` returns are numbers of classes.
        A class is called with those of ``features``, ``classes``, ``seed``, ``shape``, ``tasks`` and ``heads``
        that its signature has; ``functools.partial`` gives it settings, which go into the record. Its name in
        tables is its attribute ``name``, or that of the class.
    seeds : int or range
        How many, from 0 on, or which.
    jobs : int, optional
        Runs at a time; as many as there are cores if left out. Methods in Python run one after the other.
    data_dir : path, optional
        Where data sets are; ``HINDSIGHT_DATA`` or the user's cache directory if left out.
    out : path, optional
        A folder for the records. They are written as runs end, and runs that have one are not repeated.
    progress : bool, optional
        Whether to show a progress bar; by default in a terminal and in notebooks.
    **settings
        Settings of all runs (``tasks=5``), of one method (``hal__lambda=0.3``, ``er_ring__rate=0.1``), and, with one
        method, of that (``rate=0.1``).
    """
    if isinstance(methods, str) or callable(methods):
        methods = [methods] if callable(methods) else methods.split(",")
    names: List[str] = []
    own: List[Tuple[str, Callable[[Dict[str, Any]], Any], Dict[str, Any]]] = []
    for method in methods:
        if isinstance(method, str):
            names.append(method)
        else:
            own.append(_own(method))
            names.append(own[-1][0])
    if not names:
        raise HindsightError("no methods, expected at least one", "`hindsight.methods()` lists them")
    wanted: Dict[str, Any] = {**settings, "method": ",".join(names), "seeds": _seeds(seeds)}
    file = None
    if isinstance(benchmark, Stream):
        file = benchmark.path
    elif not isinstance(benchmark, str) or benchmark.endswith(".toml"):
        file = os.fspath(benchmark)
    else:
        wanted["benchmark"] = benchmark
    known: List[str] = []
    records_file = None
    if out is not None:
        os.makedirs(out, exist_ok=True)
        path = os.path.join(os.fspath(out), "records.jsonl")
        if os.path.exists(path) and os.path.getsize(path):
            known = read(out)._lines
        records_file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    bar = Progress(progress)

    def report(index: int, runs: int, label: str, done: int, total: int, line: Optional[str]) -> None:
        bar.update(index, runs, label, done / total)
        if line is not None and records_file is not None:
            records_file.write(line + "\n")
            records_file.flush()

    folder = None if data_dir is None else os.fspath(data_dir)
    jobs = jobs or _cores()
    try:
        lines, snapshots = _core.run(wanted, file, own, folder, jobs, known, report)
    finally:
        bar.close()
        if records_file is not None:
            records_file.close()
    return Records(lines, snapshots)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _seeds(seeds: Union[int, Sequence[int], range]) -> Union[int, str]:
    if not hasattr(seeds, "__iter__"):
        return int(seeds)  # type: ignore[call-overload]
    chosen = list(seeds)  # type: ignore[arg-type]
    if not chosen or chosen != list(range(chosen[0], chosen[0] + len(chosen))):
        raise HindsightError(
            f"seeds are {chosen}, expected a number of seeds or consecutive ones, `range(3, 8)`"
        )
    return f"{chosen[0]}..{chosen[-1] + 1}"


def _own(method: Any) -> Tuple[str, Callable[[Dict[str, Any]], Any], Dict[str, Any]]:
    """Name, what makes an object, and settings of a method written in Python."""
    settings: Dict[str, Any] = {}
    factory = method
    while isinstance(factory, functools.partial):
        settings = {**factory.keywords, **settings}
        factory = factory.func
    if not callable(factory):
        raise HindsightError(
            f"method {method!r}, expected a name or a class", "an object is good for one run: give its class"
        )
    missing = [
        name
        for name in ("observe", "end_task", "predict")
        if isinstance(factory, type) and not callable(getattr(factory, name, None))
    ]
    if missing:
        raise HindsightError(
            f"`{factory.__name__}` has no method `{missing[0]}`, expected observe, end_task, predict"
        )
    name = str(getattr(factory, "name", None) or getattr(factory, "__name__", "python"))
    parameters = inspect.signature(method).parameters.values()
    every = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    taken = {p.name for p in parameters}

    def make(about: Dict[str, Any]) -> Any:
        return method(**{key: value for key, value in about.items() if every or key in taken - set(settings)})

    return name, make, settings
