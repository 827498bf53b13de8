#!/usr/bin/env python3
"""How fast a model answers from the command line: `predict` on a table, `serve` one by one.

    benches/serving.py HINDSIGHT [--rows 100000] [--features 50] [--repeat 5]

Makes a model of two hidden layers of 256 units from random clusters, then measures `predict` on a CSV of that many
rows, and `serve` with a line per prediction: answered in turn (each answer is read before the next line is written)
and as fast as lines can be piped in. Wall and processor seconds, best of several; only the standard library. In turn,
the processor time of the server alone is told too: the rest is the client's and the system's, which switches between
the two for every line.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path


def rows(count, width, rng):
    centres = [[rng.gauss(0, 1) for _ in range(width)] for _ in range(4)]
    for i in range(count):
        centre = centres[i % 4]
        yield [f"{c + rng.gauss(0, 1):.6g}" for c in centre], f"class{i % 4}"


def timed(command, **options):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(repeat, run):
    found = [run() for _ in range(repeat)]
    return {"wall": round(min(wall for wall, _ in found), 3), "processor": round(min(cpu for _, cpu in found), 3)}


def in_turn(binary, model, lines):
    command = [str(binary), "serve", str(model), "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    to, back = server.stdin.fileno(), server.stdout.fileno()

    def ask(line):
        os.write(to, line)
        answer = os.read(back, 4096)
        assert answer.endswith(b"\n"), answer

    ask(lines[0])
    start = time.perf_counter()
    for line in lines[1:]:
        ask(line)
    wall = time.perf_counter() - start
    server.stdin.close()
    server.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5)
    o = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        table, model, requests = (Path(folder) / name for name in ("table.csv", "model.hs", "requests.jsonl"))
        data = list(rows(o.rows, o.features, rng))
        names = ",".join(f"f{i}" for i in range(o.features))
        table.write_text(f"{names},label\n" + "".join(f"{','.join(x)},{y}\n" for x, y in data))
        short = Path(folder) / "short.csv"
        short.write_text(f"{names},label\n" + "".join(f"{','.join(x)},{y}\n" for x, y in data[:2000]))
        subprocess.run([o.binary, "learn", model, short, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        lines = [f'{{"x": [{", ".join(x)}]}}\n'.encode() for x, _ in data]
        requests.write_bytes(b"".join(lines))

        predict = best(o.repeat, lambda: timed([o.binary, "predict", model, table, "--quiet"]))
        print(json.dumps({"predict": f"{o.rows} rows of {o.features} features", "seconds": predict}))
        piped = best(o.repeat, lambda: timed([o.binary, "serve", model, "--quiet"], stdin=requests.open("rb")))
        rate = {clock: round(o.rows / seconds) for clock, seconds in piped.items()}
        print(json.dumps({"serve": f"{o.rows} lines piped in", "seconds": piped, "predictions per second": rate}))
        few = lines[:20_001]
        turns = best(o.repeat, lambda: in_turn(o.binary, model, few))
        rate = {"wall": round(len(few) / turns["wall"]), "server us": round(1e6 * turns["processor"] / len(few), 1)}
        print(json.dumps({"serve": f"{len(few) - 1} lines in turn", "predictions per second": rate}))


main()
