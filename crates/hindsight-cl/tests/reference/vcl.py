"""VCL: q = N(mu, exp(logvar)) for every weight; weights of sample k: mu + exp(logvar/2) * eps_k.
Objective: mean negative log-likelihood, averaged over the weight samples, + KL(q || prior) / N; one Adam step (0.001,
0.9, 0.999, 1e-8) on mu and logvar. KL = sum 1/2 [logvar0 - logvar + (exp(logvar) + (mu - mu0)^2) / exp(logvar0) - 1].
`local_*`: the local reparameterisation (Kingma et al., 2015) instead: outputs of a layer are drawn, for each row, from
the normal that they have under q; `local_eps` is one list of the noise of each layer, [SAMPLES, rows, outputs].
`first`: prior N(0,1); `later`: the prior is an earlier posterior. Prediction: softmax averaged over weight samples."""
from common import *

draw = Draw(3)
RATE, N, SAMPLES = 0.001, 50.0, 2
theta = draw.normal(PARAMETERS, scale=0.6)
logvar = -6 + draw.normal(PARAMETERS, scale=0.3)
earlier = {"mu": theta + draw.normal(PARAMETERS, scale=0.1), "logvar": -5 + draw.normal(PARAMETERS, scale=0.3)}
batches = [draw.batch(4) | {"eps": draw.normal(SAMPLES, PARAMETERS)} for _ in range(3)]
noise = Draw(4)
for batch in batches:
    batch["local_eps"] = [[noise.normal(SAMPLES, 4, width) for width in SIZES[1:]]]


def kl(mu, logvar, prior):
    spread = (logvar.exp() + (mu - prior["mu"]) ** 2) / prior["logvar"].exp()
    return 0.5 * (prior["logvar"] - logvar + spread - 1).sum()


def sampled(mu, logvar, eps):
    return [mu + (logvar / 2).exp() * e for e in eps]


def weights(mu, logvar, batch):
    return torch.stack([loss(w, batch) for w in sampled(mu, logvar, batch["eps"])]).mean()


def local(mu, logvar, batch):
    """Mean loss over draws of the outputs: z ~ N(h M + b, h^2 S + c), M, b and S, c the weights' means and variances."""
    x, noise = batch["x"], iter(batch["local_eps"][0])
    at, h = 0, x.expand(SAMPLES, *x.shape)
    for layer, (n, m) in enumerate(zip(SIZES, SIZES[1:])):
        (w, b), (s, c) = ((v[at : at + n * m].view(n, m), v[at + n * m : at + n * m + m]) for v in (mu, logvar.exp()))
        at += n * m + m
        z = h @ w + b + (h**2 @ s + c).sqrt() * next(noise)
        # As in common.py: no ReLU near its kink.
        assert layer == 2 or z.detach().abs().min() > 1e-3
        h = torch.relu(z)
    return F.cross_entropy(z.flatten(0, 1), batch["y"].repeat(SAMPLES))


def run(prior, objective):
    q = [theta.clone().requires_grad_(), logvar.clone().requires_grad_()]
    opt = torch.optim.Adam(q, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    steps = []
    for batch in batches:
        nll = objective(*q, batch)
        divergence = kl(*q, prior)
        opt.zero_grad()
        (nll + divergence / N).backward()
        # Adam's first steps have the size of the rate whatever the gradient: a tiny one would make rounding decide.
        assert min(v.grad.abs().min() for v in q) > 1e-5
        opt.step()
        steps.append({"nll": nll.detach(), "kl": divergence.detach(), "mu": q[0].tolist(), "logvar": q[1].tolist()})
    return steps


def by_torch(prior):
    """The closed form against PyTorch's own."""
    normals = (torch.distributions.Normal(m, (v / 2).exp()) for m, v in ((theta, logvar), prior.values()))
    return torch.distributions.kl_divergence(*normals).sum()


standard = {"mu": torch.zeros(PARAMETERS), "logvar": torch.zeros(PARAMETERS)}
for prior in (standard, earlier):
    torch.testing.assert_close(kl(theta, logvar, prior), by_torch(prior))
queries, eps = draw.images(3), draw.normal(SAMPLES, PARAMETERS)
probabilities = torch.stack([forward(w, queries)[0].softmax(1) for w in sampled(theta, logvar, eps)]).mean(0)
write(__file__, {
    "sizes": SIZES, "rate": RATE, "n": N, "mu": theta, "logvar": logvar, "prior": earlier, "batches": batches,
    "first": run(standard, weights), "later": run(earlier, weights),
    "local_first": run(standard, local), "local_later": run(earlier, local),
    "prediction": {"queries": queries, "eps": eps, "probabilities": probabilities},
})
