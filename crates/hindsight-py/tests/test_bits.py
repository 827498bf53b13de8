"""Python, the command line and Rust give the same bits.

Needs `HINDSIGHT_BINARY`, the program, with the examples of hindsight-cl beside it in `examples`: `.ci/python` builds
both.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import hindsight

BINARY = pathlib.Path(os.environ.get("HINDSIGHT_BINARY", "hindsight"))
needs_binary = pytest.mark.skipif(not BINARY.is_file(), reason="HINDSIGHT_BINARY names no program")
EXAMPLE = BINARY.parent / "examples" / "agent_file"
RNG = np.random.default_rng(3)


def command(*args, **options):
    done = subprocess.run([str(BINARY), *map(str, args)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has(name):
    return (
        BINARY.is_file()
        and name in subprocess.run([str(BINARY), "--help"], capture_output=True, text=True).stdout
    )


needs_learn = pytest.mark.skipif(not (has("learn") and has("predict")), reason="the program has no `learn`")


@needs_binary
@pytest.mark.parametrize("method", ["er-ring", "hal", "ewc"])
def test_a_program_in_rust_writes_the_same_file(method, tmp_path):
    if not EXAMPLE.is_file():
        pytest.skip("the example `agent_file` is not built")
    X = RNG.normal(size=(200, 6)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    np.column_stack([X, y]).astype("<f4").tofile(tmp_path / "data")
    subprocess.run([EXAMPLE, method, "6", "3", tmp_path / "data", tmp_path / "rust"], check=True)
    agent = hindsight.Agent(6, classes=3, method=method, standardise=False, hidden=[16], seed=5)
    for task in range(2):
        rows = slice(100 * task, 100 * task + 100)
        for i in range(0, 100, 10):
            agent.observe(X[rows][i : i + 10], y[rows][i : i + 10])
        agent.end_task()
    rust = hindsight.Agent.load(tmp_path / "rust")
    np.testing.assert_array_equal(rust.theta.view(np.uint32), agent.theta.view(np.uint32))
    # One head for all: the file of the program has tasks without names.
    np.testing.assert_array_equal(rust.predict_proba(X), agent.predict_proba(X))


@needs_binary
def test_a_run_of_the_command_line_has_the_same_matrix(tmp_path):
    settings = ["--set", "tasks=3", "--set", "samples=100", "--set", "hidden=[16]"]
    line = command(
        "run", "-b", "split-digits", "-m", "er-ring,hal", *settings, "--json", "--out", tmp_path / "runs"
    )
    theirs = [json.loads(text)["matrix"] for text in line.splitlines()]
    ours = hindsight.run(
        "split-digits", ["er-ring", "hal"], tasks=3, samples=100, hidden=[16], progress=False
    )
    assert [record["matrix"] for record in ours] == theirs
    assert hindsight.read(tmp_path / "runs").accuracy.tolist() == ours.accuracy.tolist()


@needs_binary
def test_a_stream_of_arrays_is_the_same_on_the_command_line(tmp_path):
    X = RNG.normal(size=(200, 4))
    stream = hindsight.stream(X, np.where(X[:, 0] > 0, "a", "b"), np.repeat([0, 1], 100), name="mine")
    ours = hindsight.run(stream, "er-ring", seeds=2, hidden=[16], progress=False)
    path = stream.save(tmp_path / "stream")
    line = command(
        "run",
        "--stream",
        path,
        "-m",
        "er-ring",
        "--seeds",
        "2",
        "--set",
        "hidden=[16]",
        "--json",
        "--out",
        tmp_path / "runs",
    )
    assert [json.loads(text)["matrix"] for text in line.splitlines()] == [record["matrix"] for record in ours]


def table(path, X, labels):
    rows = [",".join([*(repr(float(x)) for x in row), str(label)]) for row, label in zip(X, labels)]
    path.write_text("\n".join(["a,b,c,label", *rows]) + "\n")
    return path


def days():
    """Two days of data; the second has a class that nobody has seen."""
    made = []
    for day, names in enumerate([["cold", "warm"], ["warm", "hot", "cold"]]):
        X = (RNG.normal(size=(1200, 3)) * [1, 10, 100] + day).astype(np.float32)
        made.append((X, [names[i % len(names)] for i in range(len(X))]))
    return made


@needs_binary
@needs_learn
@pytest.mark.parametrize("method", ["er-ring", "hal"])
def test_learn_and_observe_give_the_same_bits_in_any_order(method, tmp_path):
    days_ = days()
    tables = [table(tmp_path / f"day{i}.csv", *data) for i, data in enumerate(days_)]
    model = tmp_path / "model"
    settings = ["--method", method, "--set", "hidden=[16]", "--seed", "2"]
    command("learn", model, tables[0], *settings)

    agent = hindsight.Agent(["a", "b", "c"], method=method, hidden=[16], seed=2)
    agent.observe(*days_[0], task="day0")
    same(hindsight.Agent.load(model), agent, days_[0][0])

    # Each goes on with the other's file: a task ends when another begins.
    agent.save(tmp_path / "python")
    assert tensors(tmp_path / "python") == tensors(model)
    command("learn", tmp_path / "python", tables[1])
    other = hindsight.Agent.load(model)
    for learner in (agent, other):
        learner.observe(*days_[1], task="day1")
    same(other, agent, days_[1][0])
    same(hindsight.Agent.load(tmp_path / "python"), agent, days_[1][0])
    agent.save(model)
    assert tensors(tmp_path / "python") == tensors(model)
    assert agent.classes == ["cold", "warm", "hot"] and agent.tasks == ["day0", "day1"]

    answers = command("predict", model, tables[1], "--json").splitlines()
    assert [json.loads(line)["label"] for line in answers] == agent.predict(days_[1][0]).tolist()


@needs_binary
@needs_learn
@pytest.mark.parametrize("rows, epochs", [(300, 1), (300, 3), (1000, 2)])
def test_few_rows_and_several_passes_give_the_same_bits(rows, epochs, tmp_path):
    days_ = [(X[:rows], labels[:rows]) for X, labels in days()]
    tables = [table(tmp_path / f"day{i}.csv", *data) for i, data in enumerate(days_)]
    model = tmp_path / "model"
    settings = ["--method", "hal", "--set", "hidden=[16]", "--set", f"epochs={epochs}"]
    command("learn", model, *tables, *settings, "--end-task")
    agent = hindsight.Agent(["a", "b", "c"], method="hal", hidden=[16])
    for i, data in enumerate(days_):
        agent.observe(*data, task=f"day{i}", epochs=epochs)
    agent.end_task()
    agent.save(tmp_path / "python")
    assert tensors(tmp_path / "python") == tensors(model)
    same(hindsight.Agent.load(model), agent, days_[1][0])


@needs_binary
@needs_learn
def test_labels_keep_their_type_where_the_command_line_goes_on(tmp_path):
    X = RNG.normal(size=(100, 3)).astype(np.float32)
    agent = hindsight.Agent(["a", "b", "c"], method="er-ring", hidden=[16])
    agent.observe(X, [0, 1] * 50)
    agent.save(tmp_path / "model")
    command("learn", tmp_path / "model", table(tmp_path / "more.csv", X, [2, 1] * 50))
    assert hindsight.Agent.load(tmp_path / "model").classes == [0, 1, 2]
    fresh = tmp_path / "fresh"
    command("learn", fresh, table(tmp_path / "more.csv", X, [2, 1] * 50), "--method", "er-ring")
    assert hindsight.Agent.load(fresh).classes == [2, 1], "names that look like numbers are numbers"


def tensors(path):
    """All that a learner holds, parameters and memory, as a file has it after its header."""
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def same(one, other, X):
    np.testing.assert_array_equal(one.theta.view(np.uint32), other.theta.view(np.uint32))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert (one.classes, one.tasks, one.samples_seen) == (other.classes, other.tasks, other.samples_seen)
