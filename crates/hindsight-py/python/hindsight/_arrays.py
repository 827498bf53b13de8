"""Rows and labels, from whatever holds them."""

from __future__ import annotations

from typing import Any, Hashable, List, Optional, Sequence

import numpy as np

from ._errors import HindsightError


def as_rows(X: Any, columns: Optional[Sequence[str]] = None) -> np.ndarray:
    """`X` as contiguous ``float32`` of two dimensions; not a copy if it is that already.

    Arrays of numpy, DataFrames, lists, and CPU tensors of PyTorch and others, through ``__array__`` or DLPack.
    """
    if type(X) is not np.ndarray:
        if columns is not None and hasattr(X, "columns"):
            missing = [name for name in columns if name not in X.columns]
            if missing:
                raise HindsightError(f"X has no column {', '.join(f'`{name}`' for name in missing)}")
            X = X[list(columns)]
        if hasattr(X, "detach"):
            # A tensor of PyTorch that requires a gradient does not give its values.
            X = X.detach()
        if hasattr(X, "__dlpack__") and not hasattr(X, "__array__"):
            X = np.from_dlpack(X)
    try:
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise HindsightError(
            f"X cannot be read as numbers: {error}", "encode text as numbers, and copy tensors to the CPU"
        ) from None
    if rows.ndim > 2:
        rows = rows.reshape(len(rows), -1)
    if rows.ndim != 2 or np.ndim(X) < 2:
        raise HindsightError(
            f"X has {np.ndim(X)} dimensions, expected 2: (samples, features)", "`X[None]` is one sample"
        )
    return rows


def as_labels(y: Any) -> List[Hashable]:
    """`y` as a list of Python values."""
    if isinstance(y, str):
        raise HindsightError(f"y is the text {y!r}, expected a label for each row")
    if hasattr(y, "tolist"):
        y = y.tolist()
    try:
        return list(y)
    except TypeError:
        raise HindsightError(f"y is {y!r}, expected a label for each row") from None


def label_array(labels: Sequence[Hashable]) -> np.ndarray:
    """Labels as an array that has each of them unchanged."""
    if len({type(label) for label in labels}) == 1 and type(labels[0]) in (str, int, float, bool):
        try:
            return np.array(labels)
        except OverflowError:
            pass
    array = np.empty(len(labels), dtype=object)
    for i, label in enumerate(labels):
        array[i] = label
    return array
