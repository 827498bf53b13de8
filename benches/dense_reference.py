#!/usr/bin/env python3
"""A stream of dense features, and the same learning on it in PyTorch and in scikit-learn, on one thread.

    python benches/dense_reference.py make DIR 512           # writes DIR/dense.toml and its arrays
    hindsight run --stream DIR/dense.toml -m finetune --json
    python benches/dense_reference.py torch DIR              # one JSON line each
    python benches/dense_reference.py sklearn DIR

20,000 training and 10,000 test samples of ten classes, each around three centres; batches of 10, hidden layers of 256
and 256, SGD with rate 0.1. Data are standardised before the clock starts.
"""
import json
import sys
import time
from pathlib import Path

import numpy as np

CLASSES, TRAIN, TEST, BATCH, RATE = 10, 20_000, 10_000, 10, 0.1


def make(directory, width):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(3 * CLASSES, width))
    directory.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", TRAIN), ("test", TEST)):
        which = rng.integers(3 * CLASSES, size=count)
        x = 0.2 * centres[which] * np.sqrt(512 / width) + rng.normal(size=(count, width))
        np.savez(directory / f"{name}.npz", x=x.astype(np.float32), y=(which % CLASSES).astype(np.int64))
    (directory / "dense.toml").write_text('format = "npz"\n\n[[files]]\ntrain = "train.npz"\ntest = "test.npz"\n')


def load(directory):
    (x, y), (x_test, y_test) = ((a["x"], a["y"]) for a in (np.load(directory / f"{n}.npz") for n in ("train", "test")))
    mean, deviation = x.mean(0), x.std(0)
    order = np.random.default_rng(0).permutation(len(x))
    return ((x - mean) / deviation)[order], y[order], (x_test - mean) / deviation, y_test


def with_torch(x, y, x_test, y_test):
    import reference
    import torch

    torch.set_num_threads(1)
    reference.SIZES[0] = x.shape[1]
    x, y, x_test, y_test = map(torch.from_numpy, (x, y, x_test, y_test))
    learner = reference.Finetune()
    start = time.perf_counter()
    for rows, labels in zip(x.split(BATCH), y.split(BATCH)):
        learner.observe(rows, labels, 0)
    trained = time.perf_counter()
    with torch.inference_mode():
        parts = zip(x_test.split(reference.EXAM), y_test.split(reference.EXAM))
        correct = sum((reference.forward(learner.theta, x)[0].argmax(1) == y).sum().item() for x, y in parts)
    return trained - start, time.perf_counter() - trained, correct / TEST


def with_sklearn(x, y, x_test, y_test):
    from sklearn.neural_network import MLPClassifier

    learner = MLPClassifier((256, 256), solver="sgd", learning_rate_init=RATE, momentum=0.0, alpha=0.0, batch_size=BATCH)
    start = time.perf_counter()
    for first in range(0, TRAIN, BATCH):
        learner.partial_fit(x[first : first + BATCH], y[first : first + BATCH], classes=np.arange(CLASSES))
    trained = time.perf_counter()
    accuracy = (learner.predict(x_test) == y_test).mean()
    return trained - start, time.perf_counter() - trained, float(accuracy)


def main():
    what, directory = sys.argv[1], Path(sys.argv[2])
    if what == "make":
        return make(directory, int(sys.argv[3]))
    train, evaluation, accuracy = {"torch": with_torch, "sklearn": with_sklearn}[what](*load(directory))
    print(json.dumps({"program": what, "train_seconds": train, "eval_seconds": evaluation, "accuracy": accuracy}))


if __name__ == "__main__":
    main()
