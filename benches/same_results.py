#!/usr/bin/env python3
"""Whether two builds of hindsight give the same results, to the last bit.

    benches/same_results.py OLD/hindsight NEW/hindsight --data-dir DIR

Runs both programs on a fixed set of experiments and compares their accuracy matrices. The sets that need MNIST or
CIFAR-100 are left out, with a word, where DIR does not have them. Use it after a change that must not change numbers.
Exit code 1 if anything differs.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SMALL = ["--method", "all", "--tasks", "3", "--set", "samples=200", "--set", "hidden=64"]
# name -> (data it needs, arguments of `hindsight run`)
EXPERIMENTS = {
    "permuted-digits": (None, ["--benchmark", "permuted-digits", *SMALL]),
    "rotated-digits": (None, ["--benchmark", "rotated-digits", *SMALL]),
    "split-digits": (None, ["--benchmark", "split-digits", *SMALL]),
    "custom stream": (None, ["--stream", "STREAM", "--method", "finetune,er-ring,hal,icarl", "--seeds", "2"]),
    **{
        f"{benchmark} {preset}": (
            "mnist",
            ["--benchmark", benchmark, "--method", "hal", "--seeds", "2", "--set", f"hal.preset={preset}"],
        )
        for benchmark in ("permuted-mnist", "rotated-mnist")
        for preset in ("authors", "paper")
    },
    "split-cifar100": ("cifar-100-binary", ["--benchmark", "split-cifar100", "--method", "er-ring", "--tasks", "2"]),
}


def sensors(folder):
    """A small stream of two files with two classes each, as a CSV that any build can read."""
    for task in range(2):
        rows = ["a,b,c,label"]
        for i in range(240):
            label = i % 2
            rows.append(f"{(i * 37 % 101) / 50 + label},{(i * 53 % 97) / 40 - task},{(i * 29 % 89) / 30 * (1 - 2 * label)},{label}")
        (folder / f"{task}.csv").write_text("\n".join(rows) + "\n")
    files = "".join(f'[[files]]\ntrain = "{task}.csv"\n' for task in range(2))
    text = f'format = "csv"\nlabel = "label"\nhold_out = 0.2\n\n{files}'
    (folder / "sensors.toml").write_text(text)
    return folder / "sensors.toml"


def matrices(binary, arguments, data_dir, out):
    command = [binary, "run", *arguments, "--json", "--out", out, "--jobs", "2"]
    done = subprocess.run([*command, *(["--data-dir", data_dir] if data_dir else [])], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{binary} failed: {done.stderr.strip()}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {(r["method"], r["seed"]): json.dumps(r["matrix"]) for r in records}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    o = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        stream = str(sensors(Path(folder)))
        for name, (data, arguments) in EXPERIMENTS.items():
            if o.only not in name:
                continue
            if data and not (o.data_dir and (o.data_dir / data).exists()):
                print(f"{name}: skipped, no {data} in the data directory")
                continue
            arguments = [stream if argument == "STREAM" else argument for argument in arguments]
            found = [
                matrices(binary.resolve(), arguments, o.data_dir, Path(folder) / f"{name}-{which}")
                for which, binary in (("old", o.old), ("new", o.new))
            ]
            wrong = [key for key in found[0].keys() | found[1].keys() if found[0].get(key) != found[1].get(key)]
            different += len(wrong)
            print(f"{name}: {len(found[0])} runs, {len(wrong)} different", *sorted(wrong), flush=True)
    sys.exit(1 if different else 0)


main()
