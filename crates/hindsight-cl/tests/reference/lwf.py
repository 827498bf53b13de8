"""LwF: one SGD step on the cross-entropy plus strength * mean over the batch of the sum over heads of
KL(softmax f_frozen / T || softmax f_theta / T) among the classes of the head. `single`: one head of all classes.
`heads`: two past tasks whose heads have two classes each; the stream's own loss is among all classes."""
from common import *

draw = Draw(9)
RATE, STRENGTH, T = 0.1, 0.8, 2.0
theta, frozen = draw.normal(PARAMETERS, scale=0.6), draw.normal(PARAMETERS, scale=0.6)
batches = [draw.batch(5) for _ in range(3)]
MASKS = torch.tensor([[True, True, False], [False, True, True], [True, True, True]])


def steps(heads):
    at, found = theta, []
    for batch in batches:
        def total(t):
            now, then = (forward(p, batch["x"])[0] / T for p in (t, frozen))
            kl = (F.kl_div(now[:, h].log_softmax(1), then[:, h].softmax(1), reduction="batchmean") for h in heads)
            return loss(t, batch) + STRENGTH * sum(kl)

        _, at = sgd(at, total, RATE)
        found.append({"theta": at})
    return found


write(__file__, {
    "sizes": SIZES, "rate": RATE, "strength": STRENGTH, "temperature": T, "theta": theta, "theta_frozen": frozen,
    "batches": batches, "head_masks": MASKS, "single": steps([[0, 1, 2]]), "heads": steps([[0, 1], [1, 2]]),
})
