#!/usr/bin/env python3
"""What 10, 1,000 and 100,000 runs of a shared folder cost: files, bytes, seconds and memory to merge.

    benches/merge_records.py HINDSIGHT [RUNS ...]

Submits a sweep (`--on commands`), executes one of its runs, and writes the records of all runs, made from that
one, into the files of 1,000 workers (or one per run) with their claims, as if they had been executed. Then times
the submission of the same sweep, `hindsight status`, and the command that ranks the results. `tasks` is the side
of the accuracy matrix: 3 for a sweep on tuning tasks, 20 for the paper's runs. User and system time and the most
memory are those of the process.
"""

import json, os, resource, subprocess, sys, tempfile, time
from pathlib import Path

WORKERS = 1000


def measure(*args):
    """Seconds of wall clock, seconds of processor, and peak memory in MB of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.time()
    pid = os.posix_spawnp(args[0], args, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(args)[:300]}: exit status {status}")
    return time.time() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    program = os.path.abspath(sys.argv[1])
    sizes = [int(size) for size in sys.argv[2:]] or [10, 1_000, 100_000]
    print("| runs | tasks | files | entries | MB | submit s | status s | status MB | results s | results MB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in sizes:
        for tasks in (3, 20):
            with tempfile.TemporaryDirectory() as top:
                row(program, size, tasks, Path(top))


def row(program, size, tasks, top):
    seeds = min(size, 100)
    values = [round(0.001 * (i + 1), 6) for i in range(size // seeds)]
    sweep = [program, "sweep", "-b", "permuted-digits", "-m", "hal", "--seeds", str(seeds), "-s", "hidden=16"]
    sweep += ["-s", "samples=20", "-s", "memory=ring"]
    sweep += ["--evaluated", "-s", "tasks=20"] if tasks == 20 else ["-s", "tuning_tasks=3"]
    grid = ",".join(map(str, values))

    one = [*sweep, "--grid", f"hal.lambda={values[0]}", "--out", str(top / "one")]
    one[one.index("--seeds") + 1] = "1"
    measure(*one)
    template = json.loads((top / "one" / "records.jsonl").read_text())
    shared = top / "shared"
    submit = [*sweep, "--grid", f"hal.lambda={grid}", "--out", str(shared), "--on", "commands"]
    measure(*submit)
    ids = [json.loads(line)["id"] for line in (shared / "plan.jsonl").open()]
    assert len(ids) == size, (len(ids), size)
    workers = min(size, WORKERS)
    lines = [[] for _ in range(workers)]
    for i, (value, seed) in enumerate((value, seed) for value in values for seed in range(seeds)):
        record = dict(template, seed=seed, config={**template["config"], "hal.lambda": value})
        lines[i % workers].append(json.dumps(record, separators=(",", ":")))
    for worker in range(workers):
        folder = shared / f"job-7_{worker + 1}"
        folder.mkdir()
        (folder / ".lock").touch()
        (folder / "records.jsonl").write_text("\n".join(lines[worker]) + "\n")
        (shared / "claims" / f"owner-7_{worker + 1}").write_text("{}\n")
    for i, id in enumerate(ids):
        owner = shared / "claims" / f"owner-7_{i % workers + 1}"
        os.link(owner, shared / "claims" / f"{id}-0")
        os.link(owner, shared / "claims" / f"{id}-0-done")
    inodes, entries, size_bytes = set(), 0, 0
    for folder, folders, files in os.walk(shared):
        for name in folders + files:
            stat = os.lstat(os.path.join(folder, name))
            entries += 1
            if stat.st_ino not in inodes:
                inodes.add(stat.st_ino)
                size_bytes += stat.st_size
    # Once more with everything in the page cache.
    seconds, _, _ = measure(*submit)
    status, status_cpu, status_mb = measure(program, "status", str(shared))
    results, results_cpu, results_mb = measure(*submit[:-2])
    print(f"| {size:,} | {tasks} | {len(inodes):,} | {entries:,} | {size_bytes / 1e6:.1f} | {seconds:.1f} "
          f"| {status:.1f} ({status_cpu:.1f}) | {status_mb:.0f} | {results:.1f} ({results_cpu:.1f}) | {results_mb:.0f} |",
          flush=True)


main()
