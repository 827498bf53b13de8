"""CLS-ER with both averages moved at every step: SGD on the mean loss of stream and replay together plus strength times
the mean squared distance of the replay's logits from those of the average that gives the label the higher probability.
Average n of n-th step keeps min(share, n / (n + 1)) of itself."""
from common import *

draw = Draw(7)
RATE, STRENGTH, SHARES = 0.1, 0.6, {"stable": 0.9, "plastic": 0.6}
theta = draw.normal(PARAMETERS, scale=0.6)
averages = {name: draw.normal(PARAMETERS, scale=0.6) for name in SHARES}
given = {f"theta_{name}": value for name, value in averages.items()}
at, steps, chosen = theta, [], set()
for n in (1, 2, 3):
    stream, replay = draw.batch(4), draw.batch(4)
    logits = {name: forward(a, replay["x"])[0] for name, a in averages.items()}
    own = {name: z.softmax(1).gather(1, replay["y"][:, None]) for name, z in logits.items()}
    stable = own["stable"] > own["plastic"]
    assert (own["stable"] - own["plastic"]).abs().min() > 1e-4
    chosen |= set(stable.flatten().tolist())
    target = torch.where(stable, logits["stable"], logits["plastic"])
    both = join(stream, replay)

    def total(t):
        return loss(t, both) + STRENGTH * F.mse_loss(forward(t, replay["x"])[0], target)

    value = loss(at, both)
    _, at = sgd(at, total, RATE)
    for name, share in SHARES.items():
        keep = min(share, n / (n + 1))
        averages[name] = keep * averages[name] + (1 - keep) * at
    steps.append({"stream": stream, "replay": replay, "cross_entropy": value, "theta": at} | averages)
assert chosen == {True, False}
write(__file__, {"sizes": SIZES, "rate": RATE, "strength": STRENGTH, "theta": theta, "steps": steps} | SHARES | given)
