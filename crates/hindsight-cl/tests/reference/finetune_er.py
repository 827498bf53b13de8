"""finetune: SGD on the stream batch. er: SGD on the mean loss over stream and replay together. er_masked: the same with
a mask for every sample (the other two ignore it). The first replay batch is smaller than the others, as at the start
of a run."""
from common import *

draw = Draw(1)
ALPHA = 0.1
theta = draw.normal(PARAMETERS, scale=0.6)
stream = [draw.batch(4) for _ in range(3)]
replay = [draw.batch(n) for n in (2, 4, 4)]


def run(batches):
    at, steps = theta, []
    for batch in batches:
        value, at = sgd(at, lambda t: loss(t, batch), ALPHA)
        steps.append({"loss": value, "theta": at})
    return steps


joined = [join(s, r) for s, r in zip(stream, replay)]
finetune, er = run(stream), run(joined)
for batch in stream + replay:
    batch["mask"] = draw.mask(batch["y"])
write(__file__, {
    "sizes": SIZES, "alpha": ALPHA, "theta": theta, "stream": stream, "replay": replay,
    "finetune": finetune, "er": er, "er_masked": run(join(s, r) for s, r in zip(stream, replay)),
})
