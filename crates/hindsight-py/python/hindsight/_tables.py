"""What there is: methods, benchmarks, settings."""

from __future__ import annotations

from html import escape
from typing import Any, Dict, List, Tuple

from . import _core
from ._errors import HindsightError

__all__ = ["Table", "benchmarks", "methods", "settings"]


class Table(List[Dict[str, Any]]):
    """A list of dictionaries that prints as a table; ``table.names`` are the names."""

    columns: Tuple[str, ...] = ("name", "summary")

    @property
    def names(self) -> List[str]:
        return [row["name"] for row in self]

    def __repr__(self) -> str:
        width = max((len(row["name"]) for row in self), default=0)
        return "\n".join(
            f"{row['name']:{width}}  " + "  ".join(str(row[key]) for key in self.columns[1:]) for row in self
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{key}</th>" for key in self.columns)
        rows = (
            "".join(f"<td style='text-align:left'>{escape(str(row[key]))}</td>" for key in self.columns)
            for row in self
        )
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


class _Settings(Table):
    columns = ("name", "default", "values", "doc")


def methods() -> Table:
    """All methods: name, title, summary, paper, settings.

    ``oracle`` is true for those that know more than a continual learner may, ``joint`` for those that are given all
    tasks at once, which an ``Agent`` cannot be.
    """
    return Table(_core.methods())


def benchmarks() -> Table:
    """All benchmarks: name, summary, data set, settings."""
    return Table(_core.benchmarks())


def settings(method: str = "hal") -> Table:
    """The settings of a method, then those that all have: name, default for data of your own, values, meaning."""
    for about in _core.methods():
        if about["name"] == method:
            return _Settings(about["settings"] + _core.shared_settings())
    raise HindsightError(f"unknown method `{method}`", f"one of {', '.join(methods().names)}")
