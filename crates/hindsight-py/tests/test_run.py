"""Experiments: methods of the library and of Python, on benchmarks and arrays; records, figures, exports."""

import functools
import json
import sys
import types
import xml.dom.minidom

import numpy as np
import pytest

import hindsight
from hindsight import HindsightError

QUICK = {"tasks": 3, "samples": 100, "hidden": [16], "progress": False}


class NearestMean:
    """The mean of each class; a head decides which may be answered with."""

    name = "nearest-mean"

    def __init__(self, features, classes, heads, weight=1.0):
        self.sums, self.counts, self.heads = np.zeros((classes, features)), np.zeros(classes), heads
        self.ended = 0

    def observe(self, X, y, task):
        assert X.dtype == np.float32 and X.shape == (len(y), self.sums.shape[1])
        np.add.at(self.sums, y, X)
        np.add.at(self.counts, y, 1)

    def end_task(self):
        self.ended += 1

    def predict(self, X, task):
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        distances = ((X[:, None] - means) ** 2).sum(axis=2)
        distances[:, self.counts == 0] = np.inf
        if self.heads is not None:
            distances[:, [c for c in range(len(means)) if c not in self.heads[task]]] = np.inf
        return distances.argmin(axis=1)


@pytest.fixture(scope="module")
def records():
    return hindsight.run(methods=["er-ring", "hal", NearestMean], seeds=2, **QUICK)


def test_there_is_a_record_for_every_method_and_seed(records):
    runs = [(record.method, record.seed) for record in records]
    assert runs == [(m, s) for m in ("er-ring", "hal", "nearest-mean") for s in (0, 1)]
    record = records[0]
    assert record.matrix.shape == (3, 3)
    assert record.accuracy == pytest.approx(100 * record.matrix[-1].mean())
    best = record.matrix[:-1].max(axis=0)[:-1]
    assert record.forgetting == pytest.approx((best - record.matrix[-1][:-1]).mean())
    assert records.matrix.shape == (6, 3, 3) and records.accuracy.shape == (6,)
    assert record.settings["tasks"] == 3 and not record.diverged
    assert "er-ring on permuted-digits, seed 0: accuracy" in repr(record)


def test_a_run_has_the_same_bits_whatever_runs_beside_it(records):
    alone = hindsight.run(methods="hal", seeds=range(1, 2), jobs=1, **QUICK)
    np.testing.assert_array_equal(alone[0].matrix, records[3].matrix)


def test_a_method_in_python_is_in_the_tables(records):
    assert "nearest-mean" in repr(records)
    assert "nearest-mean" in records.report()
    assert "nearest-mean" in records._repr_html_()


@pytest.mark.parametrize("benchmark", [b for b in hindsight.benchmarks().names if "digits" in b])
def test_a_method_in_python_runs_on_benchmarks(benchmark):
    records = hindsight.run(benchmark, NearestMean, tasks=2, samples=200, progress=False)
    assert records[0].accuracy > 25


def test_settings_of_a_method_in_python_are_in_its_record():
    method = functools.partial(NearestMean, weight=0.5)
    record = hindsight.run(methods=[method], **QUICK)[0]
    assert record.settings["nearest-mean.weight"] == 0.5


def test_what_a_method_in_python_raises_ends_the_run():
    class Broken(NearestMean):
        name = "broken"

        def observe(self, X, y, task):
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        hindsight.run(methods=[Broken], **QUICK)

    class Far(NearestMean):
        name = "far"

        def predict(self, X, task):
            return [10] * len(X)

    with pytest.raises(ValueError, match="`predict` returned class 10, expected one below 10"):
        hindsight.run(methods=[Far], **QUICK)

    class Short(NearestMean):
        name = "short"

        def end_task(self):
            raise KeyError("end")

    with pytest.raises(KeyError, match="end"):
        hindsight.run(methods=[Short], **QUICK)
    with pytest.raises(HindsightError, match="`Half` has no method `end_task`"):
        hindsight.run(methods=[type("Half", (), {"observe": print})], **QUICK)
    with pytest.raises(ValueError, match="`hal` is the name of a method that there is already"):
        hindsight.run(methods=[type("X", (NearestMean,), {"name": "hal"})], **QUICK)


X = np.random.default_rng(1).normal(size=(600, 5))
Y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
TASK = np.repeat([10, 2, 3], 200)


def test_arrays_are_a_stream(tmp_path):
    stream = hindsight.stream(X, Y, TASK, name="mine")
    assert (stream.name, stream.tasks, stream.classes) == ("mine", ["2", "3", "10"], ["down", "up"])
    records = hindsight.run(stream, ["er-ring", NearestMean], seeds=2, hidden=[16], progress=False)
    assert records[0].benchmark == "mine" and records[0].matrix.shape == (3, 3)
    assert records.accuracy.min() > 75
    path = stream.save(tmp_path / "mine")
    again = hindsight.run(path, "er-ring", hidden=[16], progress=False)
    np.testing.assert_array_equal(again[0].matrix, records[0].matrix)


def test_a_stream_may_have_no_tasks_or_heads_per_task():
    endless = hindsight.run(hindsight.stream(X, Y), "er-ring", hidden=[16], progress=False)
    assert endless[0].matrix.shape == (1, 1) and endless[0].settings["replay_from"] == "all"
    heads = hindsight.stream(X, Y, TASK, heads="per-task")
    assert heads.classes == [f"{task}/{side}" for task in (2, 3, 10) for side in ("down", "up")]
    last = hindsight.run(
        hindsight.stream(X, Y, TASK, test_rows="last", shuffle=False), "er-ring", seeds=2, progress=False
    )
    assert last[0].matrix.shape == (3, 3)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: hindsight.run("permuted-digit"), "unknown benchmark `permuted-digit`"),
        (lambda: hindsight.run(methods="hall"), "unknown method `hall`"),
        (lambda: hindsight.run(methods=[]), "no methods"),
        (lambda: hindsight.run(methods=[3]), "method 3, expected a name or a class"),
        (lambda: hindsight.run(seeds=0), "`seeds` is `0`"),
        (lambda: hindsight.run(seeds=[1, 3]), "seeds are [1, 3]"),
        (lambda: hindsight.run(tasks=-1), "`tasks` is `-1`"),
        (lambda: hindsight.run("permuted-mnist", data_dir="/nowhere"), "/nowhere"),
        (lambda: hindsight.run("nowhere.toml"), "nowhere.toml"),
        (lambda: hindsight.stream(X, Y[:9]), "labels"),
        (lambda: hindsight.stream(X, ["one"] * 600), "found 1 classes, expected 2"),
        (lambda: hindsight.stream(X, Y, test_rows="first"), "`test_rows` is `first`"),
        (lambda: hindsight.settings("hall"), "unknown method `hall`"),
        (lambda: hindsight.read("/nowhere"), "cannot read `/nowhere`"),
    ],
)
def test_what_is_wrong_is_said(call, text):
    with pytest.raises(HindsightError) as error:
        call()
    assert text in str(error.value)


def test_records_are_kept_in_a_folder_and_runs_not_repeated(tmp_path, records):
    out = tmp_path / "out"
    first = hindsight.run(methods="er-ring", seeds=1, out=out, **QUICK)
    both = hindsight.run(methods="er-ring", seeds=2, out=out, **QUICK)
    assert both._lines[0] == first._lines[0], "to the last digit of its times"
    assert len(hindsight.read(out)) == 2
    records.save(tmp_path / "saved")
    assert hindsight.read(tmp_path / "saved")._lines == records._lines


def test_records_are_a_frame(records):
    pytest.importorskip("pandas")
    frame = records.to_frame()
    assert len(frame) == 6 and {"method", "seed", "accuracy", "forgetting"} <= set(frame.columns)
    assert frame.groupby("method").accuracy.mean()["hal"] == pytest.approx(records.of("hal").accuracy.mean())
    assert records.to_frame(settings=True)["tasks"].eq(3).all()


def test_figures_are_those_of_the_report(records, tmp_path):
    (figure,) = records.plot()
    xml.dom.minidom.parseString(figure.svg)
    assert figure._repr_svg_() in records._repr_html_()
    figure.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    figure.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == figure.svg
    assert len(records.plot("matrix")) >= 1
    with pytest.raises(ValueError, match="figure `pie`, expected one of `accuracy`"):
        records.plot("pie")
    page = records.report(tmp_path / "r.html", title="Mine")
    assert "<title>Mine" in page and (tmp_path / "r.html").read_text(encoding="utf-8") == page


def test_slices_and_sums_of_records_are_records(records):
    assert len(records[:2]) == 2 and records[:2].plot()
    assert len(records[:2] + records[2:]) == 6
    assert repr(records[:0]) == "<hindsight.Records: none>"


def test_the_progress_bar_ends_at_all_runs(capsys):
    hindsight.run(methods=["finetune", NearestMean], **{**QUICK, "progress": True})
    last = capsys.readouterr().err.strip().split("\r")[-1]
    assert last.startswith("100%|████████████████████| 2/2 runs [")


def test_tensorboard_reads_what_is_written(records, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    records.to_tensorboard(tmp_path)
    read = EventAccumulator(str(tmp_path / "permuted-digits" / "hal" / "seed1"))
    read.Reload()
    hal = records[3]
    written = [(event.step, event.value) for event in read.Scalars("task/0")]
    assert written == [(i + 1, pytest.approx(a)) for i, a in enumerate(hal.matrix[:, 0])]
    assert read.Scalars("accuracy")[-1].value == pytest.approx(hal.accuracy / 100)
    assert read.Scalars("final/forgetting")[0].value == pytest.approx(hal.forgetting)


def test_weights_and_biases_gets_every_task(records, monkeypatch):
    """With a stand-in for the package."""
    log = []

    class Run:
        def __init__(self, **options):
            self.options, self.summary = options, {}
            log.append(self)
            self.steps = []

        def log(self, values, step):
            self.steps.append((step, values))

        def finish(self):
            self.options["finished"] = True

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=Run))
    records.to_wandb("mine", mode="offline")
    assert [run.options["name"] for run in log][:2] == [
        "permuted-digits/er-ring/seed0",
        "permuted-digits/er-ring/seed1",
    ]
    assert (
        log[0].options["project"] == "mine"
        and log[0].options["mode"] == "offline"
        and log[0].options["finished"]
    )
    assert [step for step, _ in log[0].steps] == [1, 2, 3]
    assert log[0].steps[-1][1]["task/2"] == records[0].matrix[2, 2]
    assert log[0].summary["accuracy"] == records[0].accuracy


def wandb_records(path):
    """What Weights & Biases has written to a file: blocks of 32 KB after a header of 7 bytes, in which parts of records
    follow a checksum, their length and whether they are whole, first, middle or last."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def test_weights_and_biases_writes_every_task_offline(records, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    records[:2].to_wandb("mine", mode="offline", dir=str(tmp_path))
    # Its process writes on for a moment.
    wandb.teardown()
    files = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    found = {}
    for file in files:
        read = list(wandb_records(file))
        run = next(record.run for record in read if record.WhichOneof("record_type") == "run")
        assert (run.project, run.run_group) == ("mine", "er-ring")
        config = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in run.config.update}
        history = [
            {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            for record in read
            if record.WhichOneof("record_type") == "history"
        ]
        found[run.display_name] = config, history
    config, history = found["permuted-digits/er-ring/seed1"]
    assert (config["seed"], config["benchmark"]) == (1, "permuted-digits")
    assert [row["_step"] for row in history] == [1, 2, 3]
    assert history[-1]["task/0"] == pytest.approx(records[1].matrix[2, 0])


def test_tables_print_what_there_is():
    assert "hal" in repr(hindsight.methods()) and "<table>" in hindsight.methods()._repr_html_()
    assert "permuted-digits" in hindsight.benchmarks().names
    about = {row["name"]: row for row in hindsight.settings("hal")}
    assert about["replay_from"]["choices"] == ["finished", "all"]
    assert json.dumps(hindsight.methods())
