"""Golden numbers of the engine's MLP, from PyTorch in double precision: run `python mlp.py` to write mlp.json.

theta is one flat vector [W1 (in x out, row-major), b1, W2, b2, W3, b3]; h = relu(x W + b), the last layer is linear;
the features are the last hidden layer after the ReLU. Loss: mean cross-entropy, where a masked class (false) takes no
part in the softmax. Inputs are multiples of 1/1024, so that f32 and f64 readers start from the same numbers.
"""
import json
from pathlib import Path

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
SIZES = [7, 6, 5, 4]
BATCH = 5
LABELS = torch.tensor([0, 3, 1, 2, 3])
MASK = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
closest_kink = float("inf")


def grid(x):
    return torch.round(x * 1024) / 1024


def forward(theta, x):
    """Logits and features; remembers how near any ReLU came to its kink."""
    global closest_kink
    at, h = 0, x
    for layer, (n, m) in enumerate(zip(SIZES, SIZES[1:])):
        w, b = theta[at : at + n * m].view(n, m), theta[at + n * m : at + n * m + m]
        at += n * m + m
        z = h @ w + b
        if layer == len(SIZES) - 2:
            return z, h
        closest_kink = min(closest_kink, z.detach().abs().min().item())
        h = torch.relu(z)


def loss(theta, x, mask=None):
    logits, _ = forward(theta, x)
    if mask is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    return F.cross_entropy(logits, LABELS)


def hvp(theta, x, v, mask=None):
    theta = theta.clone().requires_grad_()
    (g,) = torch.autograd.grad(loss(theta, x, mask), theta, create_graph=True)
    return torch.autograd.grad(g @ v, theta)[0]


def gradient(f, at):
    at = at.clone().requires_grad_()
    return torch.autograd.grad(f(at), at)[0]


def trajectory(theta, x, optimiser, steps=3):
    theta = theta.clone().requires_grad_()
    opt = optimiser([theta])
    after = []
    for _ in range(steps):
        opt.zero_grad()
        loss(theta, x).backward()
        opt.step()
        after.append(theta.detach().clone())
    return after


def main():
    rng = torch.Generator().manual_seed(1)
    parameters = sum(n * m + m for n, m in zip(SIZES, SIZES[1:]))
    theta = grid(0.6 * torch.randn(parameters, generator=rng))
    x = grid(torch.rand(BATCH, SIZES[0], generator=rng))
    x[torch.rand(x.shape, generator=rng) < 0.5] = 0
    v = grid(torch.randn(parameters, generator=rng))
    c_logits = grid(torch.randn(BATCH, SIZES[-1], generator=rng))
    c_features = grid(torch.randn(BATCH, SIZES[-2], generator=rng))

    def paired(theta, x):
        logits, features = forward(theta, x)
        return (c_logits * logits).sum() + (c_features * features).sum()

    logits, features = forward(theta, x)
    active = (features > 0).double().mean().item()
    numbers = {
        "sizes": SIZES, "theta": theta, "x": x, "labels": LABELS, "mask": MASK,
        "logits": logits, "features": features,
        "loss": loss(theta, x), "loss_masked": loss(theta, x, MASK),
        "grad": gradient(lambda t: loss(t, x), theta),
        "grad_masked": gradient(lambda t: loss(t, x, MASK), theta),
        "c_logits": c_logits, "c_features": c_features,
        "vjp_theta": gradient(lambda t: paired(t, x), theta),
        "vjp_x": gradient(lambda e: paired(theta, e), x),
        "v": v,
        "hvp": hvp(theta, x, v), "hvp_masked": hvp(theta, x, v, MASK),
        "jvp_logits": torch.func.jvp(lambda t: forward(t, x)[0], (theta,), (v,))[1],
        "sgd": {"lr": 0.1, "theta": trajectory(theta, x, lambda p: torch.optim.SGD(p, lr=0.1))},
        "adam": {
            "lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
            "theta": trajectory(theta, x, lambda p: torch.optim.Adam(p, lr=0.001)),
        },
    }
    # Near a kink f32 could fall on the other side, and without dead and live units ReLU is not tested.
    assert closest_kink > 1e-4 and 0.2 < active < 0.8, (closest_kink, active)
    text = json.dumps(numbers, default=lambda t: t.tolist(), allow_nan=False, separators=(",", ":"))
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
