"""HAL: the anchored step, the search for anchors and the running means.

Step: g = gradient of l (mean cross-entropy of the joined batch) at theta; theta~ = theta - alpha g;
theta <- theta - alpha * gradient of [l + lambda R], R = mean (or sum) over anchors of the sum over logits of
(f_theta(e) - f_theta~(e))^2. `exact` differentiates through g, by autograd and not by a formula; `first` takes g as a
constant (theta~ still moves with theta); `frozen` takes theta~ as a constant. `exact_masked`: with a mask for every
sample, which the others ignore, and R sums over an anchor's allowed logits only.

Search, every anchor by itself, CE being the cross-entropy of its label:
`authors`: Adam (0.001, 0.9, 0.999, 1e-8; fresh state) minimises -(CE(theta_M, e) - CE(theta_t, e)) + gamma * D with
D = 1 - <n(phi_theta_t(e)), n(phi_y)>, n(a) = a / sqrt(max(<a,a>, 1e-12)); at the end each anchor is scaled to [0,1] by
its own minimum and maximum.
`paper`: e <- e + alpha * gradient of CE(theta_M, e) - CE(theta_t, e) - gamma * |phi_theta_t(e) - phi_y|^2.

Running means, from zero, with decay beta: for every class c in a batch
`mean`: m_c <- beta m_c + (1 - beta) * mean of the batch's rows of class c; `sum`: the same with their sum (the authors'
phi); `sample`: m_c <- beta m_c + (1 - beta) row, row by row (the authors' images)."""
from common import *

draw = Draw(1)
ALPHA, LAMBDA, GAMMA = 0.1, 0.3, 0.1
theta = draw.normal(PARAMETERS, scale=0.6)
batches = [draw.batch(6) for _ in range(3)]
anchors = draw.images(4)


def drift(t, ahead, mask):
    change = forward(t, anchors)[0] - forward(ahead, anchors)[0]
    return (change if mask is None else change * mask).square().sum(1)


def run(form, over_anchors=torch.mean, mask=None):
    at, steps = theta, []
    for batch in batches:
        t = at.clone().requires_grad_()
        l = loss(t, batch)
        (g,) = torch.autograd.grad(l, t, create_graph=True)
        ahead = {"exact": t - ALPHA * g, "first": t - ALPHA * g.detach(), "frozen": (t - ALPHA * g).detach()}[form]
        r = over_anchors(drift(t, ahead, mask))
        (total,) = torch.autograd.grad(l + LAMBDA * r, t)
        at = at - ALPHA * total
        steps.append({"loss": l.detach(), "r": r.detach(), "theta": at})
    return steps


step = {form: run(form) for form in ("exact", "first", "frozen")} | {"exact_sum": run("exact", torch.sum)}
for batch in batches:
    batch["mask"] = draw.mask(batch["y"])
anchor_mask = draw.mask(draw.labels(4))
step["exact_masked"] = run("exact", mask=anchor_mask)

# The search: theta_M stands near theta_t.
theta_t = draw.normal(PARAMETERS, scale=0.6)
theta_m = theta_t + draw.normal(PARAMETERS, scale=0.2)
labels = torch.arange(CLASSES)
start = draw.images(CLASSES)
phi = draw.normal(CLASSES, SIZES[-2], scale=1.0).abs()
SHOW = (1, 2, 5, 20)


def normalised(a):
    return a / a.square().sum(1, keepdim=True).clamp_min(1e-12).sqrt()


def forgetting(e):
    return sum(
        sign * F.cross_entropy(forward(t, e)[0], labels, reduction="sum") for sign, t in ((1, theta_m), (-1, theta_t))
    )


def search_authors():
    e, after = start.clone().requires_grad_(), {}
    opt = torch.optim.Adam([e], lr=0.001, betas=(0.9, 0.999), eps=1e-8)
    for k in range(1, 21):
        features = forward(theta_t, e)[1]
        d = 1 - (normalised(features) * normalised(phi)).sum(1)
        opt.zero_grad()
        (-forgetting(e) + GAMMA * d.sum()).backward()
        # Adam turns any gradient into a step of the rate's size: a tiny one would make rounding decide.
        assert features.sum(1).min() > 0.1 and e.grad.abs().min() > 1e-5
        opt.step()
        if k in SHOW:
            after[k] = e.detach().clone()
    low, high = (f(e.detach(), 1, keepdim=True) for f in (torch.amin, torch.amax))
    return {"steps": after, "scaled": (e.detach() - low) / (high - low)}


def search_paper():
    e, after = start, {}
    for k in range(1, 21):
        gain = lambda e: forgetting(e) - GAMMA * (forward(theta_t, e)[1] - phi).square().sum()
        _, g = gradient(gain, e)
        e = e + ALPHA * g
        if k in SHOW:
            after[k] = e
    return {"steps": after}


def running(kind, beta, rows_and_labels):
    means, after = torch.zeros(CLASSES, rows_and_labels[0][0].shape[1]), []
    for rows, labels in rows_and_labels:
        for c in labels.unique():
            rows_c = rows[labels == c]
            updates = rows_c if kind == "sample" else [getattr(rows_c, kind)(0)]
            for update in updates:
                means[c] = beta * means[c] + (1 - beta) * update
        after.append(means.clone())
    return after


streams, present = {}, ([0, 0, 1, 0, 1], [2, 0, 2, 2, 2], [1, 2, 0, 0, 2])
for name, width, beta, kinds in (("features", 4, 0.5, ("mean", "sum")), ("images", INPUTS, 0.9, ("mean", "sample"))):
    given = [(draw.normal(5, width).abs(), torch.tensor(y)) for y in present]
    streams[name] = {"beta": beta, "batches": [{"rows": r, "y": y} for r, y in given]}
    streams[name] |= {kind: running(kind, beta, given) for kind in kinds}

write(__file__, {
    "sizes": SIZES, "alpha": ALPHA, "lambda": LAMBDA, "gamma": GAMMA, "theta": theta, "batches": batches,
    "anchors": anchors, "anchor_mask": anchor_mask, "step": step,
    "search": {
        "theta_t": theta_t, "theta_m": theta_m, "labels": labels, "phi": phi, "start": start,
        "authors": search_authors(), "paper": search_paper(),
    },
    "running": streams,
})
