"""VCL: q = N(mu, exp(logvar)) for every weight; weights of sample k: mu + exp(logvar/2) * eps_k.
Objective: mean negative log-likelihood, averaged over the weight samples, + KL(q || prior) / N; one Adam step (0.001,
0.9, 0.999, 1e-8) on mu and logvar. KL = sum 1/2 [logvar0 - logvar + (exp(logvar) + (mu - mu0)^2) / exp(logvar0) - 1].
`first`: prior N(0,1); `later`: the prior is an earlier posterior. Prediction: softmax averaged over weight samples."""
from common import *

draw = Draw(3)
RATE, N, SAMPLES = 0.001, 50.0, 2
theta = draw.normal(PARAMETERS, scale=0.6)
logvar = -6 + draw.normal(PARAMETERS, scale=0.3)
earlier = {"mu": theta + draw.normal(PARAMETERS, scale=0.1), "logvar": -5 + draw.normal(PARAMETERS, scale=0.3)}
batches = [draw.batch(4) | {"eps": draw.normal(SAMPLES, PARAMETERS)} for _ in range(3)]


def kl(mu, logvar, prior):
    spread = (logvar.exp() + (mu - prior["mu"]) ** 2) / prior["logvar"].exp()
    return 0.5 * (prior["logvar"] - logvar + spread - 1).sum()


def sampled(mu, logvar, eps):
    return [mu + (logvar / 2).exp() * e for e in eps]


def run(prior):
    q = [theta.clone().requires_grad_(), logvar.clone().requires_grad_()]
    opt = torch.optim.Adam(q, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    steps = []
    for batch in batches:
        nll = torch.stack([loss(w, batch) for w in sampled(*q, batch["eps"])]).mean()
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
    "first": run(standard), "later": run(earlier),
    "prediction": {"queries": queries, "eps": eps, "probabilities": probabilities},
})
