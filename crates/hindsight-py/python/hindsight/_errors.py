"""Exceptions: the text and the hint of the library's own errors."""

from __future__ import annotations

from typing import Optional

__all__ = ["Diverged", "HindsightError"]


class HindsightError(ValueError):
    """What was found and what was expected; ``hint`` says what can be done about it."""

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class Diverged(HindsightError):
    """A loss or a parameter is infinite or not a number; the learner is of no use any more."""
