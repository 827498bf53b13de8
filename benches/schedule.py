#!/usr/bin/env python3
"""How busy a machine of many cores would be: a simulation of `hindsight run` and `reproduce` from measured times.

    python benches/schedule.py RECORDS.jsonl --cores 2 8 64

The scheduler as it is (`run_all`, `thread_budget`): the longest run first, one thread each; a thread without a run left
helps with the evaluations of others, each of which takes at most one thread per task when it begins. Memory bandwidth,
which all cores share, is not in it. Prints seconds, the mean share of busy cores, and the time of the longest run.
"""
import argparse
import heapq
import json


def simulate(runs, cores):
    """`runs`: seconds of training, seconds of evaluation, and tasks, each. Seconds until all are done."""
    queue = sorted(runs, key=lambda run: -(run[0] + run[1]))
    events, idle, clock = [], cores, 0.0
    counter = 0  # breaks ties

    def push(at, what, run, step, helpers):
        nonlocal counter
        counter += 1
        heapq.heappush(events, (at, counter, what, run, step, helpers))

    def start():
        nonlocal idle
        while queue and idle:
            idle -= 1
            run = queue.pop(0)
            push(clock + run[0] / run[2], "evaluate", run, 0, 0)

    start()
    while events:
        clock, _, what, run, step, helpers = heapq.heappop(events)
        train, evaluation, tasks = run
        if what == "evaluate":
            helpers = 0 if queue else min(idle, tasks - 1)
            idle -= helpers
            push(clock + evaluation / tasks / (1 + helpers), "train", run, step, helpers)
            continue
        idle += helpers
        if step + 1 < tasks:
            push(clock + train / tasks, "evaluate", run, step + 1, 0)
        else:
            idle += 1
            start()
    return clock


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 8, 64])
    options = parser.parse_args()
    records = [json.loads(line) for path in options.records for line in open(path)]
    runs = [(r["train_seconds"], r["eval_seconds"], len(r["matrix"])) for r in records]
    total, longest = sum(t + e for t, e, _ in runs), max(t + e for t, e, _ in runs)
    print(f"{len(runs)} runs, {total:.0f} s on one core, the longest {longest:.1f} s")
    for cores in options.cores:
        seconds = simulate(runs, cores)
        print(f"{cores:4} cores: {seconds:7.1f} s, {100 * total / seconds / cores:.0f} % busy")


if __name__ == "__main__":
    main()
