"""EWC with the running Fisher: g_i is the gradient of the mean loss of batch i at the parameters before step i.
After every 10th step F <- 0.1 F + 0.9 * mean of the last 10 g_i^2, from F = 0; what is left of a task (here steps 21 to
25) is dropped. At the task's end F is scaled by its global minimum and maximum to [0,1] and kept with theta* = theta.
Later steps: SGD on loss + lambda * sum F (theta - theta*)^2 (no factor 1/2; g_i never contains the penalty)."""
from common import *

draw = Draw(2)
ALPHA, LAMBDA, EVERY, NEW = 0.1, 2.0, 10, 0.9
theta = draw.normal(PARAMETERS, scale=0.6)
first = [draw.batch(4) for _ in range(25)]
second = [draw.batch(4) for _ in range(3)]

at, fisher, chunk = theta, torch.zeros(PARAMETERS), []
for batch in first:
    _, g = gradient(lambda t: loss(t, batch), at)
    at = at - ALPHA * g
    chunk.append(g**2)
    if len(chunk) == EVERY:
        fisher, chunk = (1 - NEW) * fisher + NEW * torch.stack(chunk).mean(0), []
star, kept = at, (fisher - fisher.min()) / (fisher.max() - fisher.min())

steps = []
for batch in second:
    value, at = sgd(at, lambda t: loss(t, batch) + LAMBDA * (kept * (t - star) ** 2).sum(), ALPHA)
    steps.append({"objective": value, "theta": at})
write(__file__, {
    "sizes": SIZES, "alpha": ALPHA, "lambda": LAMBDA, "theta": theta, "first_task": first, "theta_star": star,
    "fisher_running": fisher, "fisher": kept, "second_task": second, "steps": steps,
})
