#!/usr/bin/env python3
"""Avalanche and hindsight on the same Permuted MNIST stream, as users run them, evaluation included.

    pip install avalanche-lib
    cargo build --release
    python benches/peers.py --data-dir DIR [--tasks 20] [--methods finetune er-reservoir mir a-gem]

Both learn the tasks one after the other in one pass: 1000 samples each in batches of 10, a memory of ten samples per
task, ten of them replayed, MLP 784-256-256-10, SGD at the same rate; and both evaluate all tasks after each. One thread
each. Avalanche gets tensors that are permuted before its clock starts, its evaluation batches of 500, and no loggers; of
it processor time counts, of hindsight the time that passed, so that other work on the machine is no advantage.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
warnings.filterwarnings("ignore")

import numpy as np
import torch
from avalanche import __version__ as avalanche_version
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.training import AGEM, MIR, Naive, Replay
from avalanche.training.plugins import EvaluationPlugin

from reference import idx

RATE = {"finetune": 0.03, "er-reservoir": 0.1, "mir": 0.1, "a-gem": 0.1}


class Tensors(torch.utils.data.TensorDataset):
    """Images with the attribute that Avalanche wants."""

    def __init__(self, x, y):
        super().__init__(x, y)
        self.targets = y.tolist()


def benchmark(data_dir, tasks, seed):
    rng = np.random.default_rng(seed)
    read = lambda name: idx(data_dir / "mnist", name)
    train_x, train_y = read("train-images-idx3-ubyte")[5000:], read("train-labels-idx1-ubyte")[5000:].long()
    test_x, test_y = read("t10k-images-idx3-ubyte"), read("t10k-labels-idx1-ubyte").long()
    streams = {"train": [], "test": []}
    for _ in range(tasks):
        order, chosen = torch.from_numpy(rng.permutation(784)), torch.from_numpy(rng.permutation(len(train_x))[:1000])
        streams["train"].append(as_classification_dataset(Tensors(train_x[chosen][:, order] / 255, train_y[chosen])))
        streams["test"].append(as_classification_dataset(Tensors(test_x[:, order] / 255, test_y)))
    return benchmark_from_datasets(**streams)


def avalanche(method, data_dir, tasks, seed=0):
    stream = benchmark(data_dir, tasks, seed)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    common = dict(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE[method]),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=10,
        train_epochs=1,
        eval_mb_size=500,
        evaluator=EvaluationPlugin(accuracy_metrics(experience=True), loggers=[]),
    )
    memory = 10 * tasks
    strategy = {
        "finetune": lambda: Naive(**common),
        "er-reservoir": lambda: Replay(**common, mem_size=memory),
        "mir": lambda: MIR(**common, mem_size=memory, subsample=50, batch_size_mem=10),
        "a-gem": lambda: AGEM(**common, patterns_per_exp=10, sample_size=10),
    }[method]()
    seconds = {"train": 0.0, "evaluate": 0.0}
    for experience in stream.train_stream:
        for part, work in [("train", lambda: strategy.train(experience)), ("evaluate", lambda: strategy.eval(stream.test_stream))]:
            start = time.process_time()
            found = work()
            seconds[part] += time.process_time() - start
    accuracies = [value for name, value in found.items() if name.startswith("Top1_Acc_Exp")]
    return seconds, 100 * float(np.mean(accuracies))


def hindsight(method, binary, data_dir, tasks):
    command = [str(binary), "run", "-b", "permuted-mnist", "-m", method, "--tasks", str(tasks), "-j", "1", "--json"]
    if method == "a-gem":
        command += ["-s", "a-gem.reference_batch=10"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*command, "--data-dir", str(data_dir)], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    record = json.loads(done.stdout.splitlines()[0])
    return {"train": record["train_seconds"], "evaluate": record["eval_seconds"]}, record["accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="holds mnist/")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--methods", nargs="+", choices=RATE, default=list(RATE))
    parser.add_argument("--binary", type=Path, default=Path(__file__).parent.parent / "target/release/hindsight")
    o = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Avalanche {avalanche_version}, PyTorch {torch.__version__}, {o.tasks} tasks")
    print("| method | train s, hindsight | Avalanche | ratio | evaluate s | Avalanche | ratio | accuracy % | Avalanche's |")
    print("|---|---|---|---|---|---|---|---|---|")
    for method in o.methods:
        ours, accuracy = hindsight(method, o.binary.resolve(), o.data_dir.resolve(), o.tasks)
        theirs, other = avalanche(method, o.data_dir, o.tasks)
        cells = [f"{ours[part]:.2f} | {theirs[part]:.2f} | {theirs[part] / ours[part]:.1f}" for part in ours]
        print(f"| {method} | {' | '.join(cells)} | {accuracy:.1f} | {other:.1f} |", flush=True)


if __name__ == "__main__":
    main()
