"""What the golden programs of this directory share: the small MLP 6-5-4-3, its loss, random inputs and the writer.

Everything is double precision. theta is one flat vector [W1 (in x out, row-major), b1, W2, b2, W3, b3]. A mask is
[batch, classes], true for a class that takes part in the softmax. Given numbers are multiples of 1/1024, so that f32
and f64 readers start from the same ones. `python NAME.py` writes NAME.json beside it.
"""
import json
from pathlib import Path

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
SIZES = [6, 5, 4, 3]
PARAMETERS = sum(n * m + m for n, m in zip(SIZES, SIZES[1:]))
INPUTS, CLASSES = SIZES[0], SIZES[-1]
_closest_kink, _units, _active = float("inf"), 0, 0


class Draw:
    """Random given numbers from one seed."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def normal(self, *shape, scale=1.0):
        return torch.round(scale * torch.randn(shape, generator=self.rng) * 1024) / 1024

    def images(self, n):
        return torch.round(torch.rand(n, INPUTS, generator=self.rng) * 1024) / 1024

    def labels(self, n):
        return torch.randint(CLASSES, (n,), generator=self.rng)

    def batch(self, n):
        return {"x": self.images(n), "y": self.labels(n)}

    def mask(self, y):
        """Every sample's own class and each other one with probability one half."""
        mask = torch.rand(len(y), CLASSES, generator=self.rng) < 0.5
        return mask.scatter(1, y[:, None], True)


def forward(theta, x):
    """Logits and features; remembers how near any ReLU came to its kink and how many were active."""
    global _closest_kink, _units, _active
    at, h = 0, x
    for layer, (n, m) in enumerate(zip(SIZES, SIZES[1:])):
        w, b = theta[at : at + n * m].view(n, m), theta[at + n * m : at + n * m + m]
        at += n * m + m
        z = h @ w + b
        if layer == len(SIZES) - 2:
            return z, h
        _closest_kink = min(_closest_kink, z.detach().abs().min().item())
        _units, _active = _units + z.numel(), _active + (z > 0).sum().item()
        h = torch.relu(z)


def masked(logits, mask):
    return logits if mask is None else logits.masked_fill(~mask, -torch.inf)


def loss(theta, batch, reduction="mean"):
    logits, _ = forward(theta, batch["x"])
    return F.cross_entropy(masked(logits, batch.get("mask")), batch["y"], reduction=reduction)


def gradient(f, at, **options):
    """f(at) and its gradient."""
    at = at.detach().clone().requires_grad_()
    value = f(at)
    return value.detach(), torch.autograd.grad(value, at, **options)[0]


def sgd(theta, f, rate):
    """One plain SGD step on f: the value before it, and theta after it."""
    value, g = gradient(f, theta)
    return value, theta - rate * g


def join(a, b):
    return {key: torch.cat([a[key], b[key]]) for key in a}


def write(program, numbers):
    # Nearer to a kink, f32 could fall on the other side of it and no tolerance would help.
    assert _closest_kink > 1e-4, f"a ReLU came within {_closest_kink} of its kink: take another seed"
    assert 0.3 < _active / _units < 0.8, f"{_active} of {_units} ReLUs are active: take another seed"
    text = json.dumps(numbers, default=lambda t: t.tolist(), allow_nan=False, separators=(",", ":"))
    Path(program).with_suffix(".json").write_text(text + "\n")
