#!/usr/bin/env python3
"""The same work as `hindsight run --benchmark permuted-mnist`, in lean eager PyTorch on one thread; see README.md.

    python benches/reference.py --methods hal --data-dir DIR --evaluate final

DIR/mnist holds the four IDX files, plain or gzipped. Prints one JSON line per method; `train_seconds` contains everything
a learner does (replay, running means, anchor search) and neither data preparation nor evaluation.
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
MER_RATE, MER_BETA, MER_MULTIPLIER = 0.03, 0.1, 10
CANDIDATES = 50
EWC_LAMBDA, EWC_CHUNK, EWC_NEW = 10, 10, 0.9
EXAM = 500  # rows of an evaluation at a time: the fastest of 100, 250, 500, 1000, 2000 and all 10,000
VCL_SAMPLES = 10
ONE_HOT = torch.eye(CLASSES)


def idx(directory, name):
    """An IDX file as a uint8 tensor, [n] or [n, 784]."""
    plain = directory / name
    raw = plain.read_bytes() if plain.exists() else gzip.decompress((directory / f"{name}.gz").read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions)]
    data = torch.frombuffer(bytearray(raw[4 + 4 * dimensions :]), dtype=torch.uint8)
    return data.view(shape[0], -1) if dimensions > 1 else data


def tasks(directory, samples=SAMPLES):
    """Twenty permutations, with 1000 samples each from the last 55,000 images: ready-made tensors, not timed."""
    images, labels = idx(directory, "train-images-idx3-ubyte")[5000:], idx(directory, "train-labels-idx1-ubyte")[5000:]
    for _ in range(TASKS):
        permutation, chosen = torch.randperm(SIZES[0]), torch.randperm(len(images))[:samples]
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


def gradient(theta, x, y):
    return torch.autograd.grad(F.cross_entropy(forward(theta, x)[0], y), theta)


def sgd(theta, x, y, rate=ALPHA):
    descend(theta, gradient(theta, x, y), rate)


def dot(a, b):
    return sum(torch.dot(a.view(-1), b.view(-1)) for a, b in zip(a, b))


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


class AGem(ErRing):
    def observe(self, x, y, task):
        g = gradient(self.theta, x, y)
        if task > 0:
            chosen = torch.randperm(task * CLASSES)[:REPLAY]
            r = gradient(self.theta, self.x.index_select(0, chosen), self.y.index_select(0, chosen))
            along = dot(g, r).item()
            if along < 0:
                torch._foreach_add_(g, r, alpha=-along / dot(r, r).item())
        descend(self.theta, g)
        self.remember(x, y, task)


class Mir(ErRing):
    def observe(self, x, y, task):
        finished = task * CLASSES
        if finished <= REPLAY:
            return super().observe(x, y, task)
        pool = torch.randperm(finished)[:CANDIDATES]
        g = gradient(self.theta, x, y)
        with torch.no_grad():
            ahead = torch._foreach_add(self.theta, g, alpha=-ALPHA)
            pool_x, pool_y = self.x.index_select(0, pool), self.y.index_select(0, pool)
            before, after = (
                F.cross_entropy(forward(theta, pool_x)[0], pool_y, reduction="none") for theta in (self.theta, ahead)
            )
            worst = after.sub_(before).topk(REPLAY).indices
            self.joined_x[:BATCH], self.joined_y[:BATCH] = x, y
            torch.index_select(pool_x, 0, worst, out=self.joined_x[BATCH:])
            torch.index_select(pool_y, 0, worst, out=self.joined_y[BATCH:])
        sgd(self.theta, self.joined_x, self.joined_y)
        self.remember(x, y, task)


class Mer(Finetune):
    """Ten single-sample steps from a reservoir, one on the batch, then a tenth of the way."""

    def __init__(self):
        super().__init__()
        self.x, self.y = torch.zeros(TASKS * CLASSES, SIZES[0]), torch.zeros(TASKS * CLASSES, dtype=torch.long)
        self.held, self.seen = 0, 0
        self.start = [p.detach().clone() for p in self.theta]

    def observe(self, x, y, task):
        with torch.no_grad():
            torch._foreach_copy_(self.start, self.theta)
        for i in torch.randperm(self.held)[:REPLAY].tolist():
            sgd(self.theta, self.x[i : i + 1], self.y[i : i + 1], MER_RATE)
        sgd(self.theta, x, y, MER_MULTIPLIER * MER_RATE)
        with torch.no_grad():
            torch._foreach_lerp_(self.theta, self.start, 1 - MER_BETA)
        # Beyond the first, samples take a random slot each, later ones over earlier ones.
        capacity = len(self.y)
        places = (torch.rand(len(y)) * torch.arange(self.seen + 1, self.seen + len(y) + 1)).long().tolist()
        for i, place in enumerate(places):
            place = self.held if self.held < capacity else place
            if place < capacity:
                self.x[place], self.y[place] = x[i], y[i]
                self.held = min(self.held + 1, capacity)
        self.seen += len(y)


class Ewc(Finetune):
    """One penalty, to the last task's solution; Fisher information from squared batch gradients."""

    def __init__(self):
        super().__init__()
        self.squares, self.running = ([torch.zeros_like(p) for p in self.theta] for _ in range(2))
        self.steps, self.star, self.hold = 0, None, None

    def observe(self, x, y, task):
        g = gradient(self.theta, x, y)
        with torch.no_grad():
            torch._foreach_addcmul_(self.squares, g, g)
            self.steps += 1
            if self.steps % EWC_CHUNK == 0:
                torch._foreach_mul_(self.running, 1 - EWC_NEW)
                torch._foreach_add_(self.running, self.squares, alpha=EWC_NEW / EWC_CHUNK)
                torch._foreach_zero_(self.squares)
            if self.star:
                torch._foreach_addcmul_(g, self.hold, torch._foreach_sub(self.theta, self.star))
        descend(self.theta, g)

    @torch.no_grad()
    def end_task(self, task):
        low, high = min(f.min() for f in self.running), max(f.max() for f in self.running)
        self.hold = [(f - low) * (2 * EWC_LAMBDA / (high - low)) for f in self.running]
        self.star = [p.detach().clone() for p in self.theta]
        torch._foreach_zero_(self.squares)


class Hal(ErRing):
    def __init__(self, exact=True):
        super().__init__()
        self.exact, self.search_seconds = exact, 0.0
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
        here, start = slice(task * CLASSES, (task + 1) * CLASSES), time.perf_counter()
        self.anchors[here] = self.x[here] if task == 0 else self.search(task)
        self.image.zero_()
        self.search_seconds += time.perf_counter() - start

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


class Reservoir:
    """200 slots, each a uniform sample of the stream, with whatever is kept beside a sample."""

    def __init__(self, beside=0):
        size = TASKS * CLASSES
        self.x, self.y = torch.zeros(size, SIZES[0]), torch.zeros(size, dtype=torch.long)
        self.z, self.held, self.seen = torch.zeros(size, beside), 0, 0

    def draw(self):
        return torch.randperm(self.held)[:REPLAY]

    def write(self, x, y, z=None):
        fresh = min(len(self.y) - self.held, len(y))
        slots, rows = list(range(self.held, self.held + fresh)), list(range(fresh))
        self.held, self.seen = self.held + fresh, self.seen + fresh
        for row in range(fresh, len(y)):
            self.seen += 1
            slot = int(torch.rand(()).item() * self.seen)
            if slot < len(self.y):
                slots.append(slot)
                rows.append(row)
        if slots:
            slots, rows = torch.tensor(slots), torch.tensor(rows)
            self.x[slots], self.y[slots] = x[rows], y[rows]
            if z is not None:
                self.z[slots] = z[rows]


class ErReservoir(Finetune):
    """The loss of the stream plus that of a replay batch, and what DER and ER-ACE make of it."""

    alpha, beta, ace = 0.0, 1.0, False

    def __init__(self):
        super().__init__()
        self.memory = Reservoir(CLASSES if self.alpha else 0)

    def observe(self, x, y, task):
        memory = self.memory
        replay = memory.draw() if self.beta else torch.arange(0)
        stored = memory.draw() if self.alpha else torch.arange(0)
        joined = torch.cat([x, memory.x.index_select(0, replay), memory.x.index_select(0, stored)])
        logits = forward(self.theta, joined)[0]
        b, r = len(y), len(y) + len(replay)
        stream = logits[:b]
        if self.ace:
            among = torch.full((CLASSES,), -math.inf).index_fill_(0, y, 0)
            stream = stream + among
        loss = F.cross_entropy(stream, y)
        if len(replay):
            loss = loss + self.beta * F.cross_entropy(logits[b:r], memory.y.index_select(0, replay))
        if len(stored):
            loss = loss + self.alpha * F.mse_loss(logits[r:], memory.z.index_select(0, stored))
        descend(self.theta, torch.autograd.grad(loss, self.theta))
        memory.write(x, y, logits[:b].detach() if self.alpha else None)


class ErAce(ErReservoir):
    ace = True


class Der(ErReservoir):
    alpha, beta = 1.0, 0.0


class DerPp(ErReservoir):
    alpha, beta = 1.0, 1.0


class ClsEr(Finetune):
    """Two averages of theta; replay is held to the logits of the better one."""

    def __init__(self):
        super().__init__()
        self.memory, self.step = Reservoir(), 0
        self.averages = [[p.detach().clone() for p in self.theta] for _ in range(2)]

    def observe(self, x, y, task):
        memory = self.memory
        chosen = memory.draw()
        replay_x, replay_y = memory.x.index_select(0, chosen), memory.y.index_select(0, chosen)
        logits = forward(self.theta, torch.cat([x, replay_x]))[0]
        loss = F.cross_entropy(logits, torch.cat([y, replay_y]))
        if len(chosen):
            with torch.no_grad():
                slow, fast = (forward(average, replay_x)[0] for average in self.averages)
                own = [z.softmax(1).gather(1, replay_y[:, None]) for z in (slow, fast)]
                target = torch.where(own[0] > own[1], slow, fast)
            loss = loss + 0.1 * F.mse_loss(logits[len(y) :], target)
        descend(self.theta, torch.autograd.grad(loss, self.theta))
        memory.write(x, y)
        self.step += 1
        share = min(1 - 1 / (self.step + 1), 0.999)
        with torch.no_grad():
            for average, probability in zip(self.averages, (0.7, 0.9)):
                if torch.rand(()).item() < probability:
                    torch._foreach_lerp_(average, self.theta, 1 - share)


class Gdumb(Finetune):
    """A class-balanced memory; a fresh network trained on it at each task's end."""

    def __init__(self):
        super().__init__()
        self.fresh = [p.detach().clone() for p in self.theta]
        self.kept = {}

    def observe(self, x, y, task):
        with torch.no_grad():
            F.cross_entropy(forward(self.theta, x)[0], y)
        for x, y in zip(x, y.tolist()):
            held = self.kept.setdefault((task, y), [])
            share, full = TASKS * CLASSES / len(self.kept), sum(map(len, self.kept.values())) >= TASKS * CLASSES
            if held and len(held) >= share:
                continue
            if full:
                most = max(self.kept.values(), key=len)
                most.pop(int(torch.rand(()).item() * len(most)))
            held.append(x)

    def end_task(self, task):
        x = torch.stack([x for held in self.kept.values() for x in held])
        y = torch.tensor([y for (_, y), held in self.kept.items() for _ in held])
        with torch.no_grad():
            torch._foreach_copy_(self.theta, self.fresh)
        for epoch in range(30):
            rate = 0.01 * ALPHA + 0.99 * ALPHA * (1 + math.cos(math.pi * epoch / 30)) / 2
            for chosen in torch.randperm(len(y)).split(REPLAY):
                sgd(self.theta, x.index_select(0, chosen), y.index_select(0, chosen), rate)


class Gem(ErRing):
    """The gradient that opposes no past task's; the dual by coordinate descent, as few lines as it takes."""

    def observe(self, x, y, task):
        g = torch.cat([p.view(-1) for p in gradient(self.theta, x, y)])
        if task > 0:
            rows = torch.stack([
                torch.cat([p.view(-1) for p in gradient(self.theta, x, y)])
                for x, y in zip(self.x[: task * CLASSES].split(CLASSES), self.y[: task * CLASSES].split(CLASSES))
            ])
            along = rows @ g
            if along.min() < 0:
                g = g + self.dual((rows @ rows.T).tolist(), along.tolist()) @ rows
        descend(self.theta, [p.view_as(t) for p, t in zip(g.split([t.numel() for t in self.theta]), self.theta)])
        self.remember(x, y, task)

    @staticmethod
    def dual(p, q, margin=0.5):
        v = [margin] * len(q)
        for _ in range(10_000):
            moved = 0.0
            for i, row in enumerate(p):
                to = max(v[i] - (q[i] + sum(a * b for a, b in zip(row, v))) / row[i], margin)
                moved, v[i] = max(moved, abs(to - v[i]) / (1 + to)), to
            if moved < 1e-9:
                break
        return torch.tensor(v)


class Lwf(Finetune):
    """The answers on the stream held to those of the network of the last task's end."""

    frozen = None

    def observe(self, x, y, task):
        logits = forward(self.theta, x)[0]
        loss = F.cross_entropy(logits, y)
        if self.frozen:
            with torch.no_grad():
                then = (forward(self.frozen, x)[0] / 2).softmax(1)
            loss = loss + F.kl_div((logits / 2).log_softmax(1), then, reduction="batchmean")
        descend(self.theta, torch.autograd.grad(loss, self.theta))

    def end_task(self, task):
        self.frozen = [p.detach().clone() for p in self.theta]


class Si(Finetune):
    """A quadratic penalty, weighted by what the moves of each parameter gained."""

    strength, xi = 0.5, 1.0

    def __init__(self):
        super().__init__()
        self.star = [p.detach().clone() for p in self.theta]
        self.omega, self.gain = ([torch.zeros_like(p) for p in self.theta] for _ in range(2))

    def penalised(self, g, task):
        """theta moves along g and the penalty's gradient."""
        if task == 0:
            return descend(self.theta, g)
        with torch.no_grad():
            pull = torch._foreach_sub(self.theta, self.star)
            torch._foreach_mul_(pull, self.omega)
            torch._foreach_add_(self.theta, torch._foreach_add(g, pull, alpha=2 * self.strength), alpha=-ALPHA)

    def observe(self, x, y, task):
        g = gradient(self.theta, x, y)
        before = [p.detach().clone() for p in self.theta]
        self.penalised(g, task)
        with torch.no_grad():
            torch._foreach_addcmul_(self.gain, g, torch._foreach_sub(before, self.theta))

    def end_task(self, task):
        with torch.no_grad():
            for omega, w, p, star in zip(self.omega, self.gain, self.theta, self.star):
                omega.add_(w / ((p - star) ** 2 + self.xi)).clamp_(min=0)
                w.zero_()
                star.copy_(p)


class Mas(Si):
    """The same, weighted by how much the answers depend on each parameter."""

    strength = 1.0

    def observe(self, x, y, task):
        answers = forward(self.theta, x)[0].square().sum(1).mean()
        torch._foreach_add_(self.gain, torch._foreach_abs(torch.autograd.grad(answers, self.theta)))
        self.penalised(gradient(self.theta, x, y), task)

    def end_task(self, task):
        with torch.no_grad():
            torch._foreach_add_(self.omega, self.gain, alpha=BATCH / SAMPLES)
            torch._foreach_zero_(self.gain)
            torch._foreach_copy_(self.star, self.theta)


class Slda(Finetune):
    """Class means and a scatter matrix; solved at each task's end."""

    def __init__(self):
        super().__init__()
        self.means, self.counts = torch.zeros(CLASSES, SIZES[0]), torch.zeros(CLASSES)
        self.scatter, self.seen = torch.zeros(SIZES[0], SIZES[0]), 0

    def observe(self, x, y, task):
        rows = torch.empty_like(x)
        for i, (x, y) in enumerate(zip(x, y.tolist())):
            torch.sub(x, self.means[y], out=rows[i]).mul_(math.sqrt(self.seen / (self.seen + 1)))
            self.counts[y] += 1
            self.means[y].lerp_(x, 1 / self.counts[y].item())
            self.seen += 1
        self.scatter.addmm_(rows.T, rows)

    def end_task(self, task):
        covariance = self.scatter.double() * ((1 - 1e-4) / self.seen) + 1e-4 * torch.eye(SIZES[0])
        self.weights = torch.cholesky_solve(self.means.T.double(), torch.linalg.cholesky(covariance))


class Ranpac(Finetune):
    """Ridge regression on 1000 random ReLU units; solved at each task's end."""

    def __init__(self):
        super().__init__()
        self.projection = torch.randn(SIZES[0], 1000) / math.sqrt(SIZES[0])
        self.gram, self.sums = torch.zeros(1000, 1000), torch.zeros(1000, CLASSES)

    def observe(self, x, y, task):
        h = (x @ self.projection).relu_()
        self.gram.addmm_(h.T, h)
        self.sums.addmm_(h.T, ONE_HOT.index_select(0, y))

    def end_task(self, task):
        gram = self.gram.double() + torch.eye(1000)
        self.weights = torch.cholesky_solve(self.sums.double(), torch.linalg.cholesky(gram))


class Vcl(Finetune):
    """A Gaussian over the weights; all weight samples of a step as one batch of products."""

    def __init__(self):
        super().__init__()
        self.mu = [w.detach().clone().requires_grad_() for w in self.theta]
        self.log_variance = [torch.full_like(w, -6.0).requires_grad_() for w in self.mu]
        self.prior = [torch.zeros_like(w) for w in self.mu], [torch.zeros_like(w) for w in self.mu]
        self.begin()
        with torch.no_grad():
            self.answering = list(self.sample(VCL_SAMPLES))

    def begin(self):
        self.adam = torch.optim.Adam(self.mu + self.log_variance, lr=0.001, foreach=True)

    def sample(self, count):
        """Weights [count, inputs, outputs] and biases [count, 1, outputs], in turn."""
        for i, (mu, log_variance) in enumerate(zip(self.mu, self.log_variance)):
            noise = torch.randn(count, *mu.shape)
            w = torch.addcmul(mu, log_variance.mul(0.5).exp_(), noise)
            yield w.unsqueeze(1) if i % 2 else w

    def logits(self, weights, x):
        w1, b1, w2, b2, w3, b3 = weights
        h = torch.baddbmm(b1, x.expand(VCL_SAMPLES, *x.shape), w1).relu_()
        return torch.baddbmm(b3, torch.baddbmm(b2, h, w2).relu_(), w3)

    def observe(self, x, y, task):
        logits = self.logits(list(self.sample(VCL_SAMPLES)), x)
        loss = F.cross_entropy(logits.view(-1, CLASSES), y.repeat(VCL_SAMPLES))
        gradients = torch.autograd.grad(loss, self.mu + self.log_variance)
        count = len(self.mu)
        with torch.no_grad():
            # The gradient of KL(q || prior) / N in closed form.
            precision = torch._foreach_exp(torch._foreach_neg(self.prior[1]))
            pull = torch._foreach_mul(torch._foreach_sub(self.mu, self.prior[0]), precision)
            torch._foreach_add_(gradients[:count], pull, alpha=1 / SAMPLES)
            ratio = torch._foreach_mul(torch._foreach_exp(self.log_variance), precision)
            torch._foreach_add_(gradients[count:], torch._foreach_sub(ratio, 1.0), alpha=0.5 / SAMPLES)
        for parameter, gradient in zip(self.mu + self.log_variance, gradients):
            parameter.grad = gradient
        self.adam.step()

    def end_task(self, task):
        self.prior = [w.detach().clone() for w in self.mu], [w.detach().clone() for w in self.log_variance]
        self.begin()
        with torch.no_grad():
            self.answering = list(self.sample(VCL_SAMPLES))

    def answer(self, x, permutation):
        rows = torch.empty_like(self.answering[0])
        rows[:, permutation] = self.answering[0]
        return [self.logits([rows, *self.answering[1:]], x).softmax(2).mean(0).argmax(1) for x in x]


METHODS = {
    "finetune": Finetune, "er-ring": ErRing, "a-gem": AGem, "mer": Mer, "mir": Mir, "ewc": Ewc,
    "hal": Hal, "hal-first": lambda: Hal(exact=False), "er-reservoir": ErReservoir, "er-ace": ErAce, "der": Der,
    "der++": DerPp, "cls-er": ClsEr, "gdumb": Gdumb, "gem": Gem, "lwf": Lwf, "si": Si, "mas": Mas, "slda": Slda,
    "ranpac": Ranpac, "vcl": Vcl,
}


class Exam:
    """Accuracy on all tasks; permutes the rows of the first weights instead of 10,000 images."""

    def __init__(self, directory, permutations):
        self.x = idx(directory, "t10k-images-idx3-ubyte").float().div_(255).split(EXAM)
        self.y = idx(directory, "t10k-labels-idx1-ubyte").long().split(EXAM)
        self.permutations, self.seconds = permutations, 0.0
        self.rows = torch.empty(SIZES[0], SIZES[1])

    @torch.inference_mode()
    def __call__(self, learner):
        start, correct, theta = time.perf_counter(), 0, learner.theta
        for permutation in self.permutations:
            if isinstance(learner, Vcl):
                answers = learner.answer(self.x, permutation)
            else:
                self.rows[permutation] = theta[0]
                here = [self.rows, *theta[1:]]
                answers = (forward(here, x)[0].argmax(1) for x in self.x)
            correct += sum(((answer == y).sum() for answer, y in zip(answers, self.y)), torch.tensor(0)).item()
        self.seconds += time.perf_counter() - start
        return correct / (len(self.permutations) * sum(map(len, self.y)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["hal"])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each task")
    parser.add_argument("--evaluate", choices=["final", "full"], default="final",
                        help="in the end, or before the first task and after each; on all tasks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for method in options.methods:
        print(json.dumps(run(method, options) | {"torch": torch.__version__}), flush=True)


def run(method, options):
    torch.manual_seed(options.seed)
    directory = options.data_dir / "mnist"
    stream = list(tasks(directory, options.samples))
    exam = Exam(directory, [permutation for permutation, _, _ in stream])
    learner, train_seconds, full = METHODS[method](), 0.0, options.evaluate == "full"
    accuracy = exam(learner) if full else None
    for task, (_, images, labels) in enumerate(stream):
        start = time.perf_counter()
        for x, y in zip(images.split(BATCH), labels.split(BATCH)):
            learner.observe(x, y, task)
        learner.end_task(task)
        train_seconds += time.perf_counter() - start
        if full or task == TASKS - 1:
            accuracy = exam(learner)
    record = {"method": method, "seed": options.seed, "train_seconds": train_seconds}
    record |= {"eval_seconds": exam.seconds, "accuracy": accuracy}
    return record | ({"search_seconds": learner.search_seconds} if isinstance(learner, Hal) else {})


if __name__ == "__main__":
    main()
