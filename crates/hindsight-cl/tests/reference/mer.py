"""MER as in the authors' program: from theta0, one SGD step per replayed sample, in order, at rate alpha; one step
on the stream batch at rate s * alpha; then theta <- theta0 + gamma (theta - theta0)."""
from common import *

draw = Draw(1)
ALPHA, S, GAMMA = 0.03, 10.0, 0.1
theta = draw.normal(PARAMETERS, scale=0.6)
at, steps = theta, []
for _ in range(3):
    replay, stream = draw.batch(3), draw.batch(4)
    start = at
    for x, y in zip(replay["x"], replay["y"]):
        sample = {"x": x[None], "y": y[None]}
        _, at = sgd(at, lambda t: loss(t, sample), ALPHA)
    _, inner = sgd(at, lambda t: loss(t, stream), S * ALPHA)
    at = start + GAMMA * (inner - start)
    steps.append({"replay": replay, "stream": stream, "theta_inner": inner, "theta": at})
write(__file__, {"sizes": SIZES, "alpha": ALPHA, "s": S, "gamma": GAMMA, "theta": theta, "steps": steps})
