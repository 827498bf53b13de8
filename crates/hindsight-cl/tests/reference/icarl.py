"""iCaRL. Objective: mean cross-entropy over stream and exemplars together + strength * distillation, where
distillation = mean over the exemplars (not the stream) of KL(p || q), p = softmax of the frozen network's logits,
q = softmax of the current logits, temperature 1, both over the classes of the exemplar's own task (its mask).
Prediction: features divided by their L2 norm; a class's mean is the average of its exemplars' normalised features,
normalised again; the nearest mean (Euclidean) among the allowed classes answers."""
from common import *

draw = Draw(1)
ALPHA, STRENGTH = 0.1, 1.0
theta, frozen = draw.normal(PARAMETERS, scale=0.6), draw.normal(PARAMETERS, scale=0.6)


def distillation(t, batch):
    target = masked(forward(frozen, batch["x"])[0], batch.get("mask")).softmax(1)
    log_q = masked(forward(t, batch["x"])[0], batch.get("mask")).log_softmax(1)
    # xlogy and the zeroed log keep a masked class (p = 0, log q = -inf) at a contribution of exactly 0.
    cross = (target * log_q.masked_fill(target == 0, 0)).sum(1)
    return (torch.xlogy(target, target).sum(1) - cross).mean()


def run(batches):
    at, steps = theta, []
    for stream, exemplars in batches:
        ce, kl = loss(at, join(stream, exemplars)), distillation(at, exemplars)
        objective = lambda t: loss(t, join(stream, exemplars)) + STRENGTH * distillation(t, exemplars)
        _, at = sgd(at, objective, ALPHA)
        steps.append({"cross_entropy": ce, "distillation": kl, "theta": at})
    return steps


def normalised(features):
    return features / features.square().sum(-1, keepdim=True).clamp_min(1e-12).sqrt()


batches = [(draw.batch(4), draw.batch(3)) for _ in range(3)]
plain = run(batches)
for batch in sum(batches, ()):
    batch["mask"] = draw.mask(batch["y"])

exemplars = {"x": draw.images(6), "y": torch.tensor([0, 1, 2, 0, 1, 2])}
queries, allowed = draw.images(5), draw.mask(draw.labels(5))
features = normalised(forward(theta, exemplars["x"])[1])
means = normalised(torch.stack([features[exemplars["y"] == c].mean(0) for c in range(CLASSES)]))
distance = torch.cdist(normalised(forward(theta, queries)[1]), means)
nearest = distance.sort(1).values
assert (nearest[:, 1] - nearest[:, 0]).min() > 1e-3  # no near ties
write(__file__, {
    "sizes": SIZES, "alpha": ALPHA, "strength": STRENGTH, "theta": theta, "theta_frozen": frozen,
    "batches": [{"stream": s, "exemplars": e} for s, e in batches], "unmasked": plain, "masked": run(batches),
    "prediction": {
        "exemplars": exemplars, "class_means": means, "queries": queries, "distance": distance,
        "predicted": distance.argmin(1), "mask": allowed,
        "predicted_masked": distance.masked_fill(~allowed, torch.inf).argmin(1),
    },
})
