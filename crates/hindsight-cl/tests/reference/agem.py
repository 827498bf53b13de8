"""A-GEM: g on the stream, r on the replay batch; if <g,r> < 0 then g <- g - (<g,r>/<r,r>) r; theta <- theta - alpha g.
The replay batches are the stream's images, with their own labels (agreement) or other ones (conflict)."""
from common import *

draw = Draw(1)
ALPHA = 0.1
theta = draw.normal(PARAMETERS, scale=0.6)
at, steps = theta, []
for other_labels in (False, True, True):
    stream = draw.batch(4)
    replay = {"x": (stream["x"] + draw.normal(4, INPUTS, scale=0.05)).clamp(0, 1), "y": stream["y"]}
    if other_labels:
        replay["y"] = (replay["y"] + 1) % CLASSES
    _, g = gradient(lambda t: loss(t, stream), at)
    _, r = gradient(lambda t: loss(t, replay), at)
    dot, conflict = g @ r, (g @ r).item() < 0
    if conflict:
        g = g - dot / (r @ r) * r
    at = at - ALPHA * g
    steps.append({"stream": stream, "replay": replay, "dot": dot, "conflict": conflict, "theta": at})
assert [s["conflict"] for s in steps] == [False, True, True]
assert min(abs(s["dot"]) for s in steps) > 1e-3  # rounding must not decide
write(__file__, {"sizes": SIZES, "alpha": ALPHA, "theta": theta, "steps": steps})
