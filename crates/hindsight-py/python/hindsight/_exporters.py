"""Records for the programs that others look at runs with."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, Tuple

if TYPE_CHECKING:
    from ._records import Record, Records


def _steps(record: "Record") -> Iterator[Tuple[int, Dict[str, float]]]:
    """What is known after each task: the accuracy on every task, and the mean over those learned."""
    for step, row in enumerate(record.matrix):
        known = {f"task/{task}": accuracy for task, accuracy in enumerate(row) if not math.isnan(accuracy)}
        seen = [accuracy for accuracy in row[: step + 1] if not math.isnan(accuracy)]
        if seen:
            known["accuracy"] = sum(seen) / len(seen)
        yield step + 1, known


def _name(record: "Record") -> str:
    return f"{record.benchmark}/{record.method}/seed{record.seed}"


def _names(records: "Records") -> Iterator[Tuple[str, "Record"]]:
    """Records that differ only in settings get numbers."""
    count: Dict[str, int] = {}
    for record in records:
        name = _name(record)
        count[name] = count.get(name, 0) + 1
        yield (name if count[name] == 1 else f"{name}-{count[name]}"), record


def to_tensorboard(records: "Records", folder: str) -> None:
    """A folder with an event file for each record: scalars by task, measures and settings at the end."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for name, record in _names(records):
        writer = EventFileWriter(os.path.join(folder, *name.split("/")))

        def write(step: int, values: Dict[str, float]) -> None:
            summary = Summary(
                value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
            )
            writer.add_event(Event(step=step, summary=summary))

        settings = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value)
            for key, value in record.settings.items()
        }
        writer.add_event(Event(step=0, summary=hparams_pb({"method": record.method, **settings})))
        last = 0
        for last, values in _steps(record):
            write(last, values)
        write(last, {f"final/{key}": value for key, value in record.metrics.items() if not math.isnan(value)})
        writer.close()


def to_wandb(records: "Records", project: str, init: Dict[str, Any]) -> None:
    """A run of Weights & Biases for each record."""
    import wandb

    for name, record in _names(records):
        config = {
            "method": record.method,
            "benchmark": record.benchmark,
            "seed": record.seed,
            **record.settings,
        }
        options = {"project": project, "name": name, "group": record.method, "reinit": "finish_previous"}
        started = wandb.init(config=config, **{**options, **init})
        for step, values in _steps(record):
            started.log(values, step=step)
        started.summary.update({key: value for key, value in record.metrics.items() if not math.isnan(value)})
        started.finish()
