"""What a call from Python costs beside the same call in Rust.

    cargo build --release -p hindsight-cl --example agent_speed
    python benches/python_overhead.py [--rounds 15] [--core 0]

Alternates between the Rust example and a Python program that does the same, each pinned to one core, and compares
the fastest calls of both: microseconds per `observe` of 10 x 784, milliseconds per `predict` of 10,000 rows.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def measure(method):
    """The same as crates/hindsight-cl/examples/agent_speed.rs."""
    import numpy as np

    import hindsight

    agent = hindsight.Agent(784, classes=10, method=method, standardise=False, replay_from="all")
    rng = np.random.default_rng(0)
    X = (rng.integers(0, 256, size=(10_000, 784)) * (rng.random((10_000, 784)) < 0.2) / 255).astype(
        np.float32
    )
    y = np.arange(10_000) % 10
    batches = [(X[i : i + 10], y[i : i + 10]) for i in range(0, 2000, 10)]
    observe = predict = float("inf")
    for _ in range(10):
        for rows, labels in batches:
            start = time.perf_counter()
            agent.observe(rows, labels)
            observe = min(observe, time.perf_counter() - start)
        start = time.perf_counter()
        agent.predict(X)
        predict = min(predict, time.perf_counter() - start)
    print(observe * 1e6, predict * 1e3)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--core", type=int)
    parser.add_argument("--rust", default=ROOT / "target/release/examples/agent_speed")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.measure)
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    print(
        f"{'method':10} {'observe Rust us':>16} {'Python us':>10} {'ratio':>6} {'predict Rust ms':>16} {'Python ms':>10} {'ratio':>6}"
    )
    for method in ("finetune", "er-ring", "hal"):
        best = {"rust": [float("inf")] * 2, "python": [float("inf")] * 2}
        commands = {
            "rust": [str(args.rust), method],
            "python": [sys.executable, __file__, "--measure", method],
        }
        for _ in range(args.rounds):
            for name, command in commands.items():
                found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
                best[name] = [min(a, float(b)) for a, b in zip(best[name], found)]
        (ro, rp), (po, pp) = best["rust"], best["python"]
        print(
            f"{method:10} {ro:16.1f} {po:10.1f} {po / ro:6.3f} {rp:16.1f} {pp:10.1f} {pp / rp:6.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
