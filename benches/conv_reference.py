"""The convolutions of the reduced ResNet-18 in PyTorch, on one thread: the same lines as the engine's example.

    cargo run --release --example conv -p hindsight-nn -- --json > ours.jsonl
    python benches/conv_reference.py > torch.jsonl
    python benches/conv_reference.py --table ours.jsonl torch.jsonl
"""

import json
import sys
import time


def layers(input):
    stride = 1 if input == 32 else 2
    yield 3, stride, 3, 20, input
    side = -(-input // stride)
    yield 3, 1, 20, 20, side
    for maps in (40, 80, 160):
        yield 3, 2, maps // 2, maps, side
        yield 1, 2, maps // 2, maps, side
        side = -(-side // 2)
        yield 3, 1, maps, maps, side


def best(f):
    """Milliseconds in the best of many rounds."""

    def once():
        start = time.perf_counter()
        f()
        return time.perf_counter() - start

    once()
    rounds = int(0.15 / once()) + 5
    return 1e3 * min(once() for _ in range(rounds))


def measure():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    backward = torch.ops.aten.convolution_backward
    for input, batch in ((32, 10), (32, 20), (32, 100), (84, 20)):
        for kernel, stride, inputs, outputs, side in layers(input):
            last = torch.channels_last
            x = torch.randn(batch, inputs, side, side).to(memory_format=last)
            w = torch.randn(outputs, inputs, kernel, kernel).to(memory_format=last)
            pad = kernel // 2

            def run():
                return torch.nn.functional.conv2d(x, w, None, stride, pad)

            with torch.no_grad():
                y = run()
                dy = torch.randn_like(y)

                def gradient(mask):
                    return lambda: backward(
                        dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask
                    )

                works = {
                    "forward": run,
                    "backward": gradient([True, False, False]),
                    "accumulate": gradient([False, True, False]),
                }
                flop = 2.0 * batch * y.shape[2] * y.shape[3] * inputs * outputs * kernel**2
                for what, f in works.items():
                    ms = best(f)
                    line = dict(input=input, batch=batch, kernel=kernel, stride=stride, inputs=inputs)
                    line |= dict(outputs=outputs, side=side, what=what)
                    line |= dict(ms=round(ms, 4), gflops=round(1e-6 * flop / ms, 1))
                    print(json.dumps(line), flush=True)


def table(ours, theirs):
    def read(path):
        lines = (json.loads(line) for line in open(path))
        return {tuple(v for k, v in line.items() if k not in ("ms", "gflops")): line["ms"] for line in lines}

    ours, theirs = read(ours), read(theirs)
    names = ("forward", "backward", "accumulate")
    print("| shape | batch | " + " | ".join(f"{name} ms (PyTorch, ratio)" for name in names) + " |")
    print("|---|---|---|---|---|")
    shapes = dict.fromkeys(key[:-1] for key in ours)
    for shape in shapes:
        input, batch, kernel, stride, inputs, outputs, side = shape
        cells = []
        for what in names:
            a, b = ours[shape + (what,)], theirs[shape + (what,)]
            cells.append(f"{a:.3f} ({b:.3f}, {b / a:.1f}x)")
        name = f"{kernel}x{kernel}/{stride} {inputs}->{outputs} {side}x{side}"
        print(f"| {name} | {batch} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        table(*sys.argv[2:])
    else:
        measure()
