"""What a Python user would take instead, on the same Permuted MNIST stream.

    python benches/python_compare.py --data-dir DIR [--tasks 10] [--samples 1000] [--rounds 3] [--core 0]

Tasks of `samples` images under a permutation each, in batches of 10, once; then the accuracy on `test` images of
every task. All learners get the same arrays in the same order, one thread, and take turns; times are seconds of
the processor, which a busy machine disturbs least, the best of `rounds` (CapyMOA's are those of all threads of the
Java machine). Learners whose package is not installed are left out. A perceptron with two hidden layers of 256 and
plain SGD at a rate of 0.1 where there is a network; memories hold 10 samples per task, one per class.
"""

import argparse
import gzip
import os
import pathlib
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

BATCH, RATE, HIDDEN = 10, 0.1, 256


def idx(folder, name):
    for path in (folder / name, folder / (name + ".gz")):
        if path.exists():
            data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
            dimensions = data[3]
            shape = np.frombuffer(data, ">u4", dimensions, 4)
            return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    sys.exit(f"{folder / name}: not found")


def stream(folder, tasks, samples, test):
    """For each task: training rows and classes, test rows and classes."""
    read = {
        part: (idx(folder, f"{part}-images-idx3-ubyte"), idx(folder, f"{part}-labels-idx1-ubyte"))
        for part in ("train", "t10k")
    }
    (X, y), (X_test, y_test) = (
        (images.reshape(len(images), -1) / np.float32(255), labels.astype(np.int64))
        for images, labels in read.values()
    )
    rng = np.random.default_rng(0)
    held = rng.choice(len(X_test), test, replace=False)
    made = []
    for _ in range(tasks):
        order, pixels = rng.choice(len(X), samples, replace=False), rng.permutation(784)
        made.append(
            (
                np.ascontiguousarray(X[order][:, pixels]),
                y[order],
                np.ascontiguousarray(X_test[held][:, pixels]),
                y_test[held],
            )
        )
    return made


class Hindsight:
    def __init__(self, method, tasks):
        import hindsight

        self.agent = hindsight.Agent(
            784, classes=10, method=method, standardise=False, rate=RATE, tasks=tasks
        )

    def learn(self, X, y, task):
        self.agent.observe(X, y, task=task)
        self.agent.end_task()

    def predict(self, X):
        return self.agent.predict(X)


class ScikitLearn:
    def __init__(self):
        from sklearn.neural_network import MLPClassifier

        self.model = MLPClassifier(
            (HIDDEN, HIDDEN),
            solver="sgd",
            learning_rate_init=RATE,
            momentum=0,
            alpha=0,
            batch_size=BATCH,
            random_state=0,
        )

    def learn(self, X, y, task):
        for i in range(0, len(X), BATCH):
            self.model.partial_fit(X[i : i + BATCH], y[i : i + BATCH], classes=range(10))

    def predict(self, X):
        return self.model.predict(X)


class River:
    def __init__(self, model):
        self.model = model

    def learn(self, X, y, task):
        for row, label in zip(X.tolist(), y.tolist()):
            self.model.learn_one(dict(enumerate(row)), label)

    def predict(self, X):
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in X.tolist()])


def river_logistic():
    from river import linear_model, multiclass, optim

    return River(multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(RATE))))


class CapyMoa:
    def __init__(self, learner):
        import capymoa.classifier
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        names, classes = [f"x{i}" for i in range(784)], [str(c) for c in range(10)]
        self.schema = Schema.from_custom([*names, "y"], "y", {"y": classes}, "mnist")
        self.instance, self.labelled = Instance.from_array, LabeledInstance.from_array
        self.model = getattr(capymoa.classifier, learner)(self.schema)

    def learn(self, X, y, task):
        for row, label in zip(X.astype(np.float64), y.tolist()):
            self.model.train(self.labelled(self.schema, row, label))

    def predict(self, X):
        answers = [self.model.predict(self.instance(self.schema, row)) for row in X.astype(np.float64)]
        return np.array([-1 if answer is None else answer for answer in answers])


class Avalanche:
    """Its own `Replay` strategy, or `Naive`, with logging off."""

    def __init__(self, replay, tasks):
        import torch
        from avalanche.training.plugins import EvaluationPlugin
        from avalanche.training.supervised import Naive, Replay

        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = [
            torch.nn.Linear(784, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, 10),
        ]
        self.torch, self.net = torch, torch.nn.Sequential(*layers)
        options = dict(
            model=self.net,
            optimizer=torch.optim.SGD(self.net.parameters(), RATE),
            criterion=torch.nn.CrossEntropyLoss(),
            train_mb_size=BATCH,
            train_epochs=1,
            evaluator=EvaluationPlugin(),
        )
        self.strategy = Replay(mem_size=10 * tasks, **options) if replay else Naive(**options)

    def prepare(self, made):
        """Tensors are made into Avalanche's own data sets outside of the clock."""
        from avalanche.benchmarks import tensors_benchmark

        tensor = self.torch.from_numpy
        train = [(tensor(X), tensor(y)) for X, y, _, _ in made]
        self.benchmark = tensors_benchmark(
            train_tensors=train, test_tensors=train[:1], task_labels=[0] * len(made)
        )

    def learn(self, X, y, task):
        self.strategy.train(self.benchmark.train_stream[task], num_workers=0)

    def predict(self, X):
        with self.torch.no_grad():
            self.net.eval()
            return self.net(self.torch.from_numpy(X)).argmax(1).numpy()


def learners(tasks):
    return {
        "hindsight finetune": lambda: Hindsight("finetune", tasks),
        "hindsight er-ring": lambda: Hindsight("er-ring", tasks),
        "hindsight hal": lambda: Hindsight("hal", tasks),
        "scikit-learn MLPClassifier": ScikitLearn,
        "river logistic, one vs rest": river_logistic,
        "CapyMOA HoeffdingTree": lambda: CapyMoa("HoeffdingTree"),
        "CapyMOA NaiveBayes": lambda: CapyMoa("NaiveBayes"),
        "Avalanche Naive": lambda: Avalanche(False, tasks),
        "Avalanche Replay (ER)": lambda: Avalanche(True, tasks),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int)
    parser.add_argument("--only", default="", help="a part of the names of the learners to run")
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    made = stream(args.data_dir / "mnist", args.tasks, args.samples, args.test)
    results, absent = {}, []
    chosen = {name: make for name, make in learners(args.tasks).items() if args.only in name}
    for _ in range(args.rounds):
        for name, make in chosen.items():
            if name in absent:
                continue
            try:
                learner = make()
                if hasattr(learner, "prepare"):
                    learner.prepare(made)
            except ImportError as error:
                print(f"{name}: left out: {error}", file=sys.stderr)
                absent.append(name)
                continue
            start = time.process_time()
            for task, (X, y, _, _) in enumerate(made):
                learner.learn(X, y, task)
            trained = time.process_time()
            accuracy = np.mean([(learner.predict(X) == y).mean() for _, _, X, y in made])
            asked = time.process_time()
            best = results.get(name, (float("inf"), float("inf"), 0))
            results[name] = (min(best[0], trained - start), min(best[1], asked - trained), accuracy)
            print(
                f"{name:30} {trained - start:8.2f} s {asked - trained:8.2f} s {100 * accuracy:6.2f} %",
                file=sys.stderr,
                flush=True,
            )
    print(
        f"| {args.tasks} tasks of {args.samples}, batches of {BATCH} | learn s | predict s | accuracy % |\n|---|---|---|---|"
    )
    for name, (learn, predict, accuracy) in results.items():
        print(f"| {name} | {learn:.2f} | {predict:.2f} | {100 * accuracy:.1f} |")


if __name__ == "__main__":
    main()
