#!/usr/bin/env python3
"""How often HAL diverges outside the paper's benchmarks, and what it reaches there beside ER-Ring.

    benches/divergence.py HINDSIGHT [--seeds 5] [--out results.jsonl] [--set hal.trust=0.5 ...] [--real DIR]
    benches/divergence.py HINDSIGHT --mnist DIR [--seeds 20]

Without --mnist it writes streams of scikit-learn's small data sets (class- and domain-incremental) and random tables
with wild scales to a temporary folder and runs HAL and ER-Ring over each of them at rates from 0.01 to 0.3; --real
adds streams of Electricity and Covertype, whose files (elec.csv, covtype.csv) REPRODUCIBILITY.md says how to get. With
--mnist, the presets `authors` and `robust` on Permuted and Rotated MNIST. Needs numpy and scikit-learn; nothing is
fetched.
Exit code 1 if a run of HAL diverged.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from sklearn import datasets

RATES = [0.01, 0.03, 0.1, 0.3]


def class_incremental(x, y, per_task, rng):
    groups = [numpy.flatnonzero((y >= c) & (y < c + per_task)) for c in range(0, int(y.max()) + 1, per_task)]
    return [(x[rows], y[rows]) for rows in map(rng.permutation, groups)]


def domain_incremental(x, y, tasks, rng):
    """The same classes in every task; the features change places, scale and offset from task to task."""
    parts = numpy.array_split(rng.permutation(len(y)), tasks)
    result = []
    for rows in parts:
        order = rng.permutation(x.shape[1])
        shift = rng.normal(size=x.shape[1]) * x.std(axis=0)
        result.append(((x[rows] * rng.uniform(0.5, 2, x.shape[1]) + shift)[:, order], y[rows]))
    return result


def wild(rng):
    """Clusters under features of any scale: offsets, heavy tails, constants, tiny and huge units."""
    n, width, classes = 600, int(rng.integers(3, 40)), int(rng.integers(2, 7))
    y = rng.integers(0, classes, n)
    x = rng.normal(size=(classes, width))[y] * rng.uniform(0.2, 3) + rng.normal(size=(n, width))
    tails = rng.integers(0, 4, width)
    x[:, tails == 1] = numpy.exp(2 * x[:, tails == 1])
    x[:, tails == 2] += rng.standard_cauchy((n, (tails == 2).sum()))
    x[:, tails == 3] = numpy.round(x[:, tails == 3])
    x = x * 10.0 ** rng.integers(-9, 10, width) + rng.normal(size=width) * 10.0 ** rng.integers(-3, 7, width)
    x[:, 0] = 7.0
    return x, y


def streams():
    """name -> tasks, each a table and its labels; always the same ones."""
    rng = numpy.random.default_rng(0)
    digits, wine, cancer, iris = (
        load(return_X_y=True) for load in (datasets.load_digits, datasets.load_wine, datasets.load_breast_cancer, datasets.load_iris)
    )
    found = {
        "digits 2 classes": class_incremental(*digits, 2, rng),
        "digits 3 classes": class_incremental(*digits, 3, rng),
        "digits domains": domain_incremental(*digits, 5, rng),
        "wine classes": class_incremental(*wine, 1, rng),
        "wine domains": domain_incremental(*wine, 3, rng),
        "cancer classes": class_incremental(*cancer, 1, rng),
        "cancer domains": domain_incremental(*cancer, 4, rng),
        "iris classes": class_incremental(*iris, 1, rng),
        "iris domains": domain_incremental(*iris, 3, rng),
    }
    for number in range(4):
        x, y = wild(rng)
        found[f"wild {number} classes"] = class_incremental(x, y, 1 if y.max() < 3 else 2, rng)
        x, y = wild(rng)
        found[f"wild {number} domains"] = domain_incremental(x, y, 4, rng)
    return found


def real(folder):
    """Electricity in ten consecutive periods and by class, Covertype by wilderness area and by class; some thousand
    rows of each task."""
    rng = numpy.random.default_rng(1)
    electricity = numpy.loadtxt(folder / "elec.csv", delimiter=",", skiprows=1)
    forest = numpy.loadtxt(folder / "covtype.csv", delimiter=",", skiprows=1, dtype=numpy.float32)
    few = lambda rows, most: rng.permutation(rows)[:most]
    x, y = electricity[:, :-1], electricity[:, -1].astype(int)
    periods = numpy.array_split(numpy.arange(len(y)), 10)
    by_class = few(numpy.arange(len(y)), 12_000)
    found = {
        "electricity periods": [(x[rows], y[rows]) for rows in periods],
        "electricity classes": class_incremental(x[by_class], y[by_class], 1, rng),
    }
    x, y = forest[:, :-1].astype(float), forest[:, -1].astype(int) - 1
    # Columns 10 to 13 say which of the four areas a patch is in.
    areas = [few(numpy.flatnonzero(x[:, 10 + area]), 4000) for area in range(4)]
    kinds = numpy.concatenate([few(numpy.flatnonzero(y == kind), 2000) for kind in range(7)])
    features = numpy.delete(x, range(10, 14), axis=1)
    found["covertype areas"] = [(features[rows], y[rows]) for rows in areas]
    found["covertype classes"] = class_incremental(features[kinds], y[kinds], 2, rng)
    return found


def write(tasks, folder):
    folder.mkdir()
    for number, (x, y) in enumerate(tasks):
        names = ",".join(f"f{i}" for i in range(x.shape[1]))
        rows = "".join(",".join(f"{v:.9g}" for v in row) + f",class{label}\n" for row, label in zip(x, y))
        (folder / f"{number}.csv").write_text(f"{names},label\n{rows}")
    files = "".join(f'[[files]]\ntrain = "{number}.csv"\n' for number in range(len(tasks)))
    (folder / "stream.toml").write_text(f'format = "csv"\nlabel = "label"\nhold_out = 0.25\n\n{files}')
    return folder / "stream.toml"


def run(o, arguments, out):
    command = [o.binary, "run", *arguments, "--set", "evaluate=final", "--jobs", o.jobs, "--json", "--out", out]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary(records):
    done = [r["accuracy"] for r in records if r["status"] == "done"]
    mean = statistics.fmean(done) if done else float("nan")
    return {"runs": len(records), "diverged": len(records) - len(done), "accuracy": round(mean, 2)}


def own_streams(o, folder):
    total = {"hal": [], "er-ring": []}
    found = {**streams(), **(real(o.real) if o.real else {})}
    for name, tasks in found.items():
        if o.only and o.only not in name:
            continue
        stream = write(tasks, folder / name.replace(" ", "-"))
        row = {}
        for rate in RATES:
            settings = [f"{method}.rate={rate}" for method in total] + o.set
            arguments = ["--stream", stream, "--method", ",".join(total), "--seeds", o.seeds]
            arguments += [part for text in settings for part in ("--set", text)]
            records = run(o, arguments, folder / f"{name}-{rate}")
            for method in total:
                of = [r for r in records if r["method"] == method]
                row.setdefault(method, []).extend(of)
        for method, records in row.items():
            total[method].extend(records)
        report({"stream": name, **{method: summary(records) for method, records in row.items()}}, o.out)
    report({"stream": "all", **{method: summary(records) for method, records in total.items()}}, o.out)
    return sum(r["status"] != "done" for r in total["hal"])


def mnist(o, folder):
    diverged = 0
    for benchmark in ("permuted-mnist", "rotated-mnist"):
        for preset in ("authors", "robust"):
            for slots in (1, 3):
                arguments = ["--benchmark", benchmark, "--method", "hal", "--seeds", o.seeds, "--data-dir", o.mnist]
                settings = [f"hal.preset={preset}", f"slots={slots}"] + (o.set if preset == "robust" else [])
                arguments += [part for text in settings for part in ("--set", text)]
                found = summary(run(o, arguments, folder / f"{benchmark}-{preset}-{slots}"))
                diverged += found["diverged"] if preset == "robust" else 0
                report({"benchmark": benchmark, "slots": slots, "preset": preset, **found}, o.out)
    return diverged


def report(row, out):
    print(json.dumps(row), flush=True)
    if out:
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--mnist", type=Path, help="folder with MNIST: the paper's benchmarks instead")
    parser.add_argument("--seeds", default="5")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--real", type=Path, help="folder with elec.csv and covtype.csv")
    parser.add_argument("--only", help="streams whose name contains this")
    parser.add_argument("--out", type=Path)
    o = parser.parse_args()
    o.binary = o.binary.resolve()
    with tempfile.TemporaryDirectory() as folder:
        diverged = (mnist if o.mnist else own_streams)(o, Path(folder))
    sys.exit(1 if diverged else 0)


main()
