"""A progress bar for terminals and notebooks."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Dict, Optional


class Progress:
    """One line on standard error that is written over; nothing where nobody would see it."""

    def __init__(self, shown: Optional[bool]) -> None:
        self.shown = (sys.stderr.isatty() or "ipykernel" in sys.modules) if shown is None else shown
        self.started = self.told = time.monotonic()
        self.done: Dict[int, float] = {}
        self.width = 0

    def update(self, index: int, runs: int, label: str, done: float) -> None:
        """Run `index` of `runs` is done to a part."""
        self.done[index] = done
        now = time.monotonic()
        if not self.shown or (now - self.told < 0.1 and done < 1):
            return
        self.told = now
        part = min(sum(self.done.values()) / runs, 1.0)
        elapsed = now - self.started
        left = f"{_clock(elapsed)}<{_clock(elapsed / part - elapsed)}" if part > 0 else _clock(elapsed)
        ended = sum(done >= 1 for done in self.done.values())
        text = f"{100 * part:3.0f}%|{'█' * round(20 * part):20}| {ended}/{runs} runs [{left}] {label}"
        # A terminal would break a longer line, and leave its first part behind.
        self._write(text[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def close(self) -> None:
        """Leaves the last line where it is."""
        if self.shown and self.width:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
