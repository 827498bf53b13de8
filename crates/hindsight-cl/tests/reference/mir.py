"""MIR: theta' = theta - alpha * gradient on the stream batch; score = loss(theta') - loss(theta) of every candidate;
the k with the largest scores (largest first) are replayed: one SGD step on the mean loss over stream and chosen
together."""
from common import *

draw = Draw(1)
ALPHA, K = 0.1, 3
theta = draw.normal(PARAMETERS, scale=0.6)
at, steps = theta, []
for _ in range(3):
    stream, candidates = draw.batch(4), draw.batch(8)
    _, virtual = sgd(at, lambda t: loss(t, stream), ALPHA)
    before, after = (loss(t, candidates, "none") for t in (at, virtual))
    order = torch.argsort(after - before, descending=True)
    score = (after - before)[order]
    assert (score[K - 1] - score[K]) > 1e-4 and (score[: K - 1] - score[1:K]).min() > 1e-4  # no near ties
    chosen = order[:K]
    _, at = sgd(at, lambda t: loss(t, join(stream, {k: v[chosen] for k, v in candidates.items()})), ALPHA)
    steps.append({
        "stream": stream, "candidates": candidates, "theta_virtual": virtual, "loss_before": before,
        "loss_after": after, "chosen": chosen, "theta": at,
    })
write(__file__, {"sizes": SIZES, "alpha": ALPHA, "k": K, "theta": theta, "steps": steps})
