#!/usr/bin/env python3
"""The same work as `hindsight run --benchmark permuted-mnist`, in lean eager PyTorch on one thread; see README.md.

    python benches/reference.py --method hal --data-dir DIR --evaluate

DIR/mnist holds the four IDX files, plain or gzipped. Prints one JSON line; `train_seconds` contains everything a
learner does (replay, running means, anchor search) and neither data preparation nor evaluation.
"""
import argparse
import gzip
import json
import math
import time
from pathlib import Path

import torch
import torch.fx.experimental.symbolic_shapes  # else the first Hessian product imports it, on the clock
import torch.nn.functional as F

TASKS, SAMPLES, BATCH, REPLAY, CLASSES, SIZES = 20, 1000, 10, 10, 10, [784, 256, 256, 10]
ALPHA, LAMBDA, GAMMA = 0.1, 0.1, 0.1
FEATURE_DECAY, IMAGE_DECAY = 0.5, 0.9
SEARCH_STEPS, SEARCH_RATE, HINDSIGHT_STEPS = 100, 0.001, 50
ONE_HOT = torch.eye(CLASSES)


def idx(directory, name):
    """An IDX file as a uint8 tensor, [n] or [n, 784]."""
    plain = directory / name
    raw = plain.read_bytes() if plain.exists() else gzip.decompress((directory / f"{name}.gz").read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    data = torch.frombuffer(bytearray(raw[4 + 4 * dimensions :]), dtype=torch.uint8)
    return data.view(shape[0], -1) if dimensions > 1 else data


def tasks(directory):
    """Twenty permutations, with 1000 samples each from the last 55,000 images: ready-made tensors, not timed."""
    images, labels = idx(directory, "train-images-idx3-ubyte")[5000:], idx(directory, "train-labels-idx1-ubyte")[5000:]
    for _ in range(TASKS):
        permutation, chosen = torch.randperm(SIZES[0]), torch.randperm(len(images))[:SAMPLES]
        yield permutation, images[chosen][:, permutation].float().div_(255), labels[chosen].long()


def initial_theta():
    theta = []
    for n, m in zip(SIZES, SIZES[1:]):
        theta.append(torch.nn.init.trunc_normal_(torch.empty(n, m), std=0.1, a=-0.2, b=0.2).requires_grad_())
        theta.append(torch.full((m,), 0.1).requires_grad_())
    return theta


def forward(theta, x):
    w1, b1, w2, b2, w3, b3 = theta
    features = torch.addmm(b2, torch.addmm(b1, x, w1).relu_(), w2).relu_()
    return torch.addmm(b3, features, w3), features


def descend(theta, gradient, rate=ALPHA):
    with torch.no_grad():
        torch._foreach_add_(theta, gradient, alpha=-rate)


def sgd(theta, x, y):
    descend(theta, torch.autograd.grad(F.cross_entropy(forward(theta, x)[0], y), theta))


def follow(means, rows, y, decay):
    """means[c] <- decay * means[c] + (1 - decay) * mean of the rows of class c, for the classes in y."""
    of_class = ONE_HOT.index_select(0, y).T
    counts = of_class.sum(1, keepdim=True)
    target = (of_class @ rows).div_(counts.clamp(min=1))
    means.lerp_(target, (counts > 0) * (1 - decay))


class Finetune:
    def __init__(self):
        self.theta = initial_theta()

    def observe(self, x, y, task):
        sgd(self.theta, x, y)

    def end_task(self, task):
        pass


class ErRing(Finetune):
    """One slot per class per task; replay draws from finished tasks only."""

    def __init__(self):
        super().__init__()
        self.x, self.y = torch.zeros(TASKS * CLASSES, SIZES[0]), torch.arange(TASKS * CLASSES) % CLASSES
        self.joined_x = torch.empty(BATCH + REPLAY, SIZES[0])
        self.joined_y = torch.empty(BATCH + REPLAY, dtype=torch.long)

    def remember(self, x, y, task):
        self.x.index_copy_(0, y + task * CLASSES, x)

    def draw(self, x, y, task):
        """The stream batch joined with the replay batch."""
        if task == 0:
            return x, y
        chosen = torch.randperm(task * CLASSES)[:REPLAY]
        self.joined_x[:BATCH], self.joined_y[:BATCH] = x, y
        torch.index_select(self.x, 0, chosen, out=self.joined_x[BATCH:])
        torch.index_select(self.y, 0, chosen, out=self.joined_y[BATCH:])
        return self.joined_x, self.joined_y

    def observe(self, x, y, task):
        sgd(self.theta, *self.draw(x, y, task))
        self.remember(x, y, task)


class Hal(ErRing):
    def __init__(self, exact=True):
        super().__init__()
        self.exact = exact
        self.anchors = torch.zeros(TASKS * CLASSES, SIZES[0])
        self.phi, self.image = torch.zeros(CLASSES, SIZES[-2]), torch.zeros(CLASSES, SIZES[0])

    def observe(self, x, y, task):
        bx, by = self.draw(x, y, task)
        logits, features = forward(self.theta, bx)
        loss = F.cross_entropy(logits, by)
        if task == 0:
            descend(self.theta, torch.autograd.grad(loss, self.theta))
        else:
            self.anchored_step(loss, task)
        with torch.no_grad():
            follow(self.phi, features.detach(), by, FEATURE_DECAY)
            follow(self.image, x, y, IMAGE_DECAY)
        self.remember(x, y, task)

    def anchored_step(self, loss, task):
        """With u and w the gradients of R in theta and in theta~ (both leaves), R's gradient is u + w - alpha H w.
        Faster than one graph through theta~; and theta~ itself already is theta after the step on the loss."""
        anchors = self.anchors.index_select(0, torch.randperm(task * CLASSES)[:REPLAY])
        gradient = torch.autograd.grad(loss, self.theta, create_graph=self.exact)
        with torch.no_grad():
            ahead = [p.requires_grad_() for p in torch._foreach_add(self.theta, gradient, alpha=-ALPHA)]
        drift = forward(self.theta, anchors)[0] - forward(ahead, anchors)[0]
        both = torch.autograd.grad(drift.square().sum() * (LAMBDA / REPLAY), self.theta + ahead)
        u, w = both[: len(ahead)], both[len(ahead) :]
        if self.exact:
            descend(ahead, torch.autograd.grad(gradient, self.theta, w), rate=-ALPHA * ALPHA)
        descend(ahead, u)
        descend(ahead, w)
        self.theta = ahead

    def end_task(self, task):
        here = slice(task * CLASSES, (task + 1) * CLASSES)
        self.anchors[here] = self.x[here] if task == 0 else self.search(task)
        self.image.zero_()

    def search(self, task):
        """One anchor per class, all as one batch: Adam from the class's mean image."""
        hindsight = [p.detach().clone().requires_grad_() for p in self.theta]
        for _ in range(HINDSIGHT_STEPS):
            chosen = torch.randperm(task * CLASSES)[:REPLAY]
            sgd(hindsight, self.x.index_select(0, chosen), self.y.index_select(0, chosen))
        now, hindsight = [p.detach() for p in self.theta], [p.detach() for p in hindsight]
        e, y, phi = self.image.clone().requires_grad_(), torch.arange(CLASSES), F.normalize(self.phi)
        m, v = torch.zeros_like(self.image), torch.zeros_like(self.image)
        for k in range(1, SEARCH_STEPS + 1):
            logits, features = forward(now, e)
            forgetting = F.cross_entropy(forward(hindsight, e)[0], y, reduction="sum")
            forgetting = forgetting - F.cross_entropy(logits, y, reduction="sum")
            similarity = (F.normalize(features) * phi).sum()
            (g,) = torch.autograd.grad(-forgetting - GAMMA * similarity, e)
            with torch.no_grad():
                m.lerp_(g, 0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                scale = v.sqrt().div_(math.sqrt(1 - 0.999**k)).add_(1e-8)
                e.addcdiv_(m, scale, value=-SEARCH_RATE / (1 - 0.9**k))
        e = e.detach()
        low, high = e.amin(1, keepdim=True), e.amax(1, keepdim=True)
        return (e - low) / (high - low)


METHODS = {"finetune": Finetune, "er-ring": ErRing, "hal": Hal, "hal-first": lambda: Hal(exact=False)}


@torch.no_grad()
def accuracy(theta, directory, permutations):
    """Mean over the tasks; permutes the rows of the first weights instead of 10,000 images."""
    x = idx(directory, "t10k-images-idx3-ubyte").float().div_(255)
    y = idx(directory, "t10k-labels-idx1-ubyte")
    correct = 0
    for permutation in permutations:
        rows = torch.empty_like(theta[0])
        rows[permutation] = theta[0]
        correct += (forward([rows, *theta[1:]], x)[0].argmax(1) == y).sum().item()
    return correct / (len(permutations) * len(y))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=METHODS, default="hal")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evaluate", action="store_true", help="also report the final accuracy")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)

    stream = list(tasks(options.data_dir / "mnist"))
    learner = METHODS[options.method]()
    start = time.perf_counter()
    for task, (_, images, labels) in enumerate(stream):
        for x, y in zip(images.split(BATCH), labels.split(BATCH)):
            learner.observe(x, y, task)
        learner.end_task(task)
    record = {"method": options.method, "seed": options.seed, "train_seconds": time.perf_counter() - start}
    if options.evaluate:
        start = time.perf_counter()
        record["accuracy"] = accuracy(learner.theta, options.data_dir / "mnist", [p for p, _, _ in stream])
        record["eval_seconds"] = time.perf_counter() - start
    print(json.dumps(record | {"torch": torch.__version__}))


if __name__ == "__main__":
    main()
