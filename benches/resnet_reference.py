#!/usr/bin/env python3
"""The work of `cargo run --release -p hindsight-nn --example resnet` in PyTorch's fastest setting on one thread.

    python benches/resnet_reference.py > torch.jsonl
    python benches/resnet_reference.py --table ours.jsonl torch.jsonl      # any number of rounds of each in a file

oneDNN, channels_last, in-place ReLU and SGD without momentum; prints one JSON line per measurement, best of several.
The table takes the best of all rounds.
"""
import json
import sys
import time


def table(ours, theirs):
    def read(path):
        best = {}
        for line in map(json.loads, open(path)):
            key = (line["work"], line["side"], line["batch"])
            best[key] = min(line["ms"], best.get(key, line["ms"]))
        return best

    ours, theirs = read(ours), read(theirs)
    for side, batch in sorted({key[1:] for key in ours if key[0] == "hvp"}):
        # PyTorch cannot have the product without the gradient.
        ours["gradient and hvp", side, batch] = sum(ours[work, side, batch] for work in ("step", "hvp"))
    print("| work | image | batch | hindsight ms | PyTorch ms | ratio |\n|---|---|---|---|---|---|")
    for work, side, batch in theirs:
        a, b = ours[work, side, batch], theirs[work, side, batch]
        print(f"| {work} | {side}x{side} | {batch} | {a:.1f} | {b:.1f} | {b / a:.1f} |")


if sys.argv[1:2] == ["--table"]:
    table(*sys.argv[2:])
    sys.exit()

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = (nn.BatchNorm2d(outputs, eps=1e-3) for _ in range(2))
        self.beside = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.beside = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs, eps=1e-3)
            )

    def forward(self, x):
        h = F.relu(self.norm_one(self.one(x)), inplace=True)
        return F.relu(self.norm_two(self.two(h)) + self.beside(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, side):
        super().__init__()
        stem = nn.Conv2d(3, 20, 3, 2 if side > 64 else 1, 1, bias=False)
        layers, inputs = [stem, nn.BatchNorm2d(20, eps=1e-3), nn.ReLU(inplace=True)], 20
        for outputs, stride in ((20, 1), (40, 2), (80, 2), (160, 2)):
            layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
            inputs = outputs
        self.body, self.head = nn.Sequential(*layers), nn.Linear(160, 100)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def best(work, times=8):
    fastest = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - start)
    return 1e3 * fastest


def main():
    torch.manual_seed(1)
    for side in (32, 84):
        net = ResNet(side).to(memory_format=torch.channels_last)
        optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)

        def images(count):
            return (torch.rand(count, 3, side, side) - 0.5).contiguous(memory_format=torch.channels_last)

        def report(work, batch, ms):
            print(json.dumps({"work": work, "side": side, "batch": batch, "ms": round(ms, 3)}), flush=True)

        for batch in (10, 20):
            x, labels = images(batch), torch.arange(batch)

            def step():
                optimiser.zero_grad(set_to_none=True)
                F.cross_entropy(net(x), labels).backward()
                optimiser.step()

            report("step", batch, best(step))

            def hvp():
                parameters = list(net.parameters())
                g = torch.autograd.grad(F.cross_entropy(net(x), labels), parameters, create_graph=True)
                torch.autograd.grad(sum((a * b.detach()).sum() for a, b in zip(g, parameters)), parameters)

            # Contains the gradient itself, which a graph of it cannot be had without.
            report("gradient and hvp", batch, best(hvp, 3))
        net.eval()
        x = images(100)
        with torch.inference_mode():
            report("inference", 100, best(lambda: net(x)))
        net.train()


if __name__ == "__main__":
    main()
