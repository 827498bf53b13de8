"""GEM with one, two and three past tasks: the gradient of the stream, plus sum v_k g_k where it opposes some g_k, with v
the minimiser of |sum v_k g_k|^2 / 2 + sum v_k <g, g_k> over v >= margin, found here by trying every set of active
constraints."""
from itertools import product

from common import *

draw = Draw(1)
RATE, MARGIN = 0.1, 0.1
theta = draw.normal(PARAMETERS, scale=0.6)


def solve(p, q):
    n = len(q)
    for free in product([False, True], repeat=n):
        on = [i for i in range(n) if free[i]]
        off = [i for i in range(n) if not free[i]]
        v = torch.full((n,), MARGIN)
        if on:
            v[on] = torch.linalg.solve(p[on][:, on], -q[on] - p[on][:, off] @ v[off])
        slope = p @ v + q
        if (v >= MARGIN - 1e-12).all() and (slope[off] >= -1e-12).all():
            return v
    raise AssertionError("no solution")


at, steps, projected = theta, [], 0
for count in (1, 2, 3):
    stream, pasts = draw.batch(4), [draw.batch(3) for _ in range(count)]
    _, g = gradient(lambda t: loss(t, stream), at)
    rows = torch.stack([gradient(lambda t: loss(t, past), at)[1] for past in pasts])
    if (rows @ g).min() < 0:
        g, projected = g + solve(rows @ rows.T, rows @ g) @ rows, projected + 1
    at = at - RATE * g
    steps.append({"stream": stream, "pasts": pasts, "theta": at})
assert projected == 3, projected
write(__file__, {"sizes": SIZES, "rate": RATE, "margin": MARGIN, "theta": theta, "steps": steps})
