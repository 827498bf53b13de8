"""ER-ACE: one SGD step on the cross-entropy of the stream among the classes that are in its batch plus the
cross-entropy of the replayed samples among all classes."""
from common import *

draw = Draw(3)
RATE = 0.1
theta = draw.normal(PARAMETERS, scale=0.6)
at, steps = theta, []
for missing in (0, 2, None):
    stream, replay = draw.batch(4), draw.batch(3)
    if missing is not None:
        stream["y"][stream["y"] == missing] = 1
    present = torch.zeros(CLASSES, dtype=torch.bool)
    present[stream["y"]] = True
    among = stream | {"mask": present.expand(len(stream["y"]), -1)}
    value, at = sgd(at, lambda t: loss(t, among) + loss(t, replay), RATE)
    steps.append({"stream": stream, "replay": replay, "loss": value, "theta": at})
assert not torch.equal(steps[0]["stream"]["y"].unique(), torch.arange(CLASSES))
write(__file__, {"sizes": SIZES, "rate": RATE, "theta": theta, "steps": steps})
