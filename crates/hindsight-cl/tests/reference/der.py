"""ER with a reservoir, DER and DER++ on the same batches: one SGD step on CE(stream) + beta CE(replay) +
alpha mean over samples and classes of (f(replay) - stored logits)^2. Replayed and distilled samples are the same here
(the memory is drawn whole), which changes nothing in the formula. `logits` are those of the stream before the step:
what a memory would store."""
from common import *

draw = Draw(5)
RATE, ALPHA, BETA = 0.1, 0.7, 0.4
theta = draw.normal(PARAMETERS, scale=0.6)
batches = [{"stream": draw.batch(4), "replay": draw.batch(3), "logits": draw.normal(3, CLASSES)} for _ in range(3)]


def steps(alpha, beta):
    at, found = theta, []
    for b in batches:
        def entropy(t):
            return loss(t, b["stream"]) + beta * loss(t, b["replay"])

        def total(t):
            return entropy(t) + alpha * F.mse_loss(forward(t, b["replay"]["x"])[0], b["logits"])

        found.append({"cross_entropy": entropy(at), "logits": forward(at, b["stream"]["x"])[0]})
        _, at = sgd(at, total, RATE)
        found[-1]["theta"] = at
    return found


write(__file__, {
    "sizes": SIZES, "rate": RATE, "alpha": ALPHA, "beta": BETA, "theta": theta, "batches": batches,
    "er_reservoir": steps(0.0, 1.0), "der": steps(ALPHA, 0.0), "der_pp": steps(ALPHA, BETA),
})
