"""``hindsight.Agent``: numpy in and out, labels of any type, files, copies, threads, errors."""

import copy
import gc
import inspect
import os
import pickle
import resource
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import hindsight
from hindsight import Agent, Diverged, HindsightError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
SIDE = (X[:, 0] > 0).astype(int)


def small(method="er-ring", **settings):
    return Agent(4, method=method, **{"hidden": [16], "slots": 2, "seed": 1, **settings})


def methods():
    return [about["name"] for about in hindsight.methods() if not about["joint"]]


def test_an_agent_learns():
    agent = small()
    for _ in range(5):
        agent.observe(X, SIDE)
    assert (agent.predict(X) == SIDE).mean() > 0.9
    proba = agent.predict_proba(X)
    assert proba.shape == (300, 2) and proba.dtype == np.float32
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert (np.array(agent.classes)[proba.argmax(axis=1)] == agent.predict(X)).all()


@pytest.mark.parametrize(
    "labels",
    [
        ["left", "right"],
        [0, 1],
        [7, -3],
        [False, True],
        [0.5, 2.5],
        [("a", 1), ("b", 2)],
        [None, 1],
        [b"x", b"y"],
    ],
    ids=repr,
)
def test_labels_of_any_hashable_type_come_back_from_predict_and_files(labels, tmp_path):
    agent = small()
    y = [labels[side] for side in SIDE]
    for _ in range(5):
        agent.observe(X, y)
    answers = agent.predict(X).tolist()
    assert set(answers) == set(labels)
    assert np.mean([answer == label for answer, label in zip(answers, y)]) > 0.9
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.classes == agent.classes
    assert [type(label) for label in again.classes] == [type(label) for label in agent.classes]


def test_labels_that_look_like_numbers_stay_text(tmp_path):
    agent = small()
    agent.observe(X, [str(side) for side in SIDE])
    agent.save(tmp_path / "agent")
    assert set(Agent.load(tmp_path / "agent").predict(X).tolist()) <= {"0", "1"}


def test_labels_that_no_file_can_hold_are_pickled(tmp_path):
    agent = small()
    agent.observe(X, [frozenset([side]) for side in SIDE])
    with pytest.raises(HindsightError, match="frozenset cannot be written") as error:
        agent.save(tmp_path / "agent")
    assert "pickle" in error.value.hint
    assert pickle.loads(pickle.dumps(agent)).classes == agent.classes


def test_labels_with_one_name_are_refused_before_anything_is_learned():
    agent = small()
    agent.observe(X, SIDE)
    before = agent.theta
    with pytest.raises(HindsightError, match="labels 1 and '1' have the same name"):
        agent.observe(X, ["1"] * 300)
    np.testing.assert_array_equal(agent.theta, before)
    with pytest.raises(HindsightError, match="equal to itself"):
        agent.observe(X, [float("nan")] * 300)


@pytest.mark.parametrize("method", methods())
def test_pickles_copies_and_files_of_every_method_go_on_bit_for_bit(method, tmp_path):
    agent = small(method, **({"vcl.samples": 2, "vcl-random.samples": 2} if "vcl" in method else {}))
    agent.observe(X[:150], SIDE[:150])
    agent.end_task()
    agent.save(tmp_path / "agent")
    others = [
        pickle.loads(pickle.dumps(agent)),
        copy.copy(agent),
        copy.deepcopy(agent),
        Agent.load(tmp_path / "agent"),
    ]
    for one in [agent, *others]:
        one.observe(X[150:], ["a", "b", "c"] * 50)
        one.end_task()
    for other in others:
        np.testing.assert_array_equal(other.theta, agent.theta)
        np.testing.assert_array_equal(other.predict_proba(X), agent.predict_proba(X))
        assert (other.classes, other.tasks) == (agent.classes, agent.tasks)
    assert agent.tasks == ["0", "1", "2"] and agent.samples_seen == 300


def test_contiguous_float32_is_not_copied():
    from hindsight._arrays import as_rows

    assert np.shares_memory(as_rows(X), X)
    assert as_rows(X[:, ::2]).flags.c_contiguous
    assert as_rows(X.tolist()).dtype == np.float32
    assert as_rows(np.zeros((3, 2, 2))).shape == (3, 4)


def test_the_same_values_in_any_container_teach_the_same():
    pandas = pytest.importorskip("pandas")
    agents = []
    for rows, labels in [
        (X, SIDE),
        (X.astype(np.float64), SIDE.tolist()),
        (np.asfortranarray(X), SIDE.astype(np.uint8)),
        (X.tolist(), list(SIDE)),
        (pandas.DataFrame(X), pandas.Series(SIDE)),
    ]:
        agents.append(small())
        agents[-1].observe(rows, labels)
    for agent in agents[1:]:
        np.testing.assert_array_equal(agent.theta, agents[0].theta)
        assert agent.classes == agents[0].classes


class OnlyDlpack:
    """What has no `__array__`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_come_through_dlpack():
    agent = small()
    agent.observe(X, SIDE)
    np.testing.assert_array_equal(agent.predict(OnlyDlpack(X)), agent.predict(X))


def test_tensors_of_torch_are_taken():
    torch = pytest.importorskip("torch")
    agent = small()
    agent.observe(torch.tensor(X, requires_grad=True), torch.tensor(SIDE))
    other = small()
    other.observe(X, SIDE)
    np.testing.assert_array_equal(agent.theta, other.theta)


def test_columns_of_a_frame_are_found_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    agent = Agent(frame.columns, method="er-ring", hidden=[16])
    agent.observe(frame, SIDE)
    assert agent.feature_names == list("abcd")
    shuffled = frame[["d", "b", "a", "c"]].assign(more="text")
    np.testing.assert_array_equal(agent.predict_proba(shuffled), agent.predict_proba(frame))
    with pytest.raises(HindsightError, match="X has no column `d`"):
        agent.predict(frame[["a", "b", "c"]])


def test_tasks_with_heads_of_their_own_answer_with_their_classes():
    agent = small(heads={"day": ["a", "b"], "night": ["c", "d"]})
    agent.observe(X, np.array(["a", "b"])[SIDE], task="day")
    agent.observe(X, np.array(["c", "d"])[SIDE], task="night")
    assert set(agent.predict(X, task="day")) <= {"a", "b"}
    assert set(agent.predict(X)) <= {"c", "d"}, "the current task"
    with pytest.raises(HindsightError, match="class 2 in task 0"):
        agent.observe(X, ["c"] * 300, task="day")
    with pytest.raises(HindsightError, match="task `noon`, expected one of those seen: `day`, `night`"):
        agent.predict(X, task="noon")

    open_ = small(heads="per-task")
    open_.observe(X, SIDE, task=1)
    open_.observe(X, SIDE + 2, task=2)
    assert set(open_.predict(X, task=1)) <= {0, 1} and set(open_.predict(X, task=2)) <= {2, 3}
    assert not open_.predict_proba(X, task=1)[:, 2:].any()


def test_a_task_ends_when_another_begins():
    told, by_name, merged = small(), small(), small()
    for part, (name, rows) in enumerate({"a": X[:100], "b": X[100:200], "c": X[200:]}.items()):
        side = SIDE[100 * part : 100 * part + 100]
        by_name.observe(rows[:50], side[:50], task=name)
        by_name.observe(rows[50:], side[50:], task=name)
        told.observe(rows[:50], side[:50], task=name)
        told.observe(rows[50:], side[50:])
        told.end_task()
        merged.observe(rows, side, task="all")
    by_name.end_task()
    np.testing.assert_array_equal(by_name.theta, told.theta)
    np.testing.assert_array_equal(by_name.predict_proba(X), told.predict_proba(X))
    merged.end_task()
    assert (merged.theta != told.theta).any(), "ends of tasks mean something to this method"
    assert by_name.tasks == ["a", "b", "c"]


def test_a_task_that_runs_goes_on_in_a_copy_and_does_not_end_for_flawed_data():
    agent = small()
    agent.observe(X, SIDE, task="a")
    for other in (copy.copy(agent), pickle.loads(pickle.dumps(agent))):
        other.observe(X[:10], SIDE[:10])
        assert other.tasks == ["a"]
    before = agent.theta
    for wrong in (X * np.float32("nan"), X[:, :1]):
        with pytest.raises(HindsightError):
            agent.observe(wrong, SIDE, task="b")
    np.testing.assert_array_equal(agent.theta, before)
    assert agent.tasks == ["a"]
    agent.observe(X[:0], [], task="b")
    assert agent.tasks == ["a"], "no samples, no task"


def test_named_tasks_may_follow_unnamed_ones():
    agent = small()
    agent.observe(X, SIDE)
    assert agent.tasks == ["0"]
    agent.observe(X, SIDE, task="second")
    assert agent.tasks == ["0", "second"]
    agent.end_task()
    assert agent.tasks == ["0", "second"]


def test_classes_that_were_announced_are_all_there_are():
    for agent in [small(classes=["b", "a"]), small(classes=np.array(["b", "a"]))]:
        assert agent.classes == ["b", "a"]
        assert agent.predict_proba(X).shape == (300, 2)
        with pytest.raises(HindsightError, match="label 'c', expected one of 'b', 'a'"):
            agent.observe(X, ["c"] * 300)
    numbered = small(classes=3)
    numbered.observe(X, SIDE)
    assert numbered.classes == [0, 1, 2]
    with pytest.raises(HindsightError, match="label 4, expected one of 0, 1, 2"):
        numbered.observe(X, SIDE + 3)


@pytest.mark.parametrize(
    "call, text, hint",
    [
        (lambda: Agent(4, method="hall"), "unknown method `hall`", "did you mean `hal`?"),
        (lambda: small(ratee=1), "unknown key `ratee`", "hindsight.settings"),
        (
            lambda: small(rate=-1),
            "`er-ring.rate` is `-1`, expected a number from 0 to 100",
            "hindsight.settings",
        ),
        (
            lambda: small(evaluate="full"),
            "`evaluate` is `full`, but an agent is evaluated by its caller",
            "leave it out",
        ),
        (lambda: Agent(0), "the number of inputs is 0", "features"),
        (lambda: Agent(4, classes=1), "`classes` is 1", "leave it out"),
        (lambda: small(heads="own"), "`heads` is `own`, expected `shared`, `per-task`", ""),
        (lambda: small().predict(X), "the learner has no classes yet", "observe something first"),
        (lambda: small().observe(X[:, :3], SIDE), "X has 3 features, expected 4", ""),
        (lambda: small().observe(X[0], SIDE), "X has 1 dimensions, expected 2", "X[None]"),
        (lambda: small().observe(X, SIDE[:9]), "300 rows and 9 labels, expected as many", ""),
        (lambda: small().observe(X, "text"), "y is the text 'text'", ""),
        (lambda: small().observe([["a"] * 4], [1]), "X cannot be read as numbers", "encode text"),
        (lambda: small().observe(X, [[1]] * 300), "a label cannot be told from others", ""),
        (
            lambda: small().observe([[0, 0, 1e39, 0]], [1]),
            "value 2 is inf, expected a finite number",
            "leave the sample out",
        ),
        (lambda: small().observe([[0, np.nan, 0, 0]], [1]), "value 1 is NaN", "leave the sample out"),
        (lambda: small().observe(X, SIDE, batch=0), "`batch` is 0", ""),
        (lambda: Agent.load("/nowhere/agent"), "cannot read `/nowhere/agent`", "Agent::save"),
    ],
)
def test_errors_have_the_text_and_hint_of_the_library(call, text, hint):
    with pytest.raises(HindsightError) as error:
        call()
    assert text in error.value.message
    assert hint in (error.value.hint or "")
    assert str(error.value).startswith(error.value.message)
    assert isinstance(error.value, ValueError)


def test_settings_of_a_wrong_type_are_refused():
    with pytest.raises(TypeError, match="`rate` is of type dict"):
        small(rate={})


def test_a_damaged_file_is_refused(tmp_path):
    agent = small()
    agent.observe(X, SIDE)
    agent.save(tmp_path / "agent")
    data = bytearray((tmp_path / "agent").read_bytes())
    data[-3] ^= 1
    (tmp_path / "agent").write_bytes(data)
    with pytest.raises(HindsightError, match="is damaged"):
        Agent.load(tmp_path / "agent")


def test_a_learner_that_diverged_says_so():
    agent = small("finetune", rate=100, standardise=False)
    with pytest.raises(Diverged, match="diverged"):
        for _ in range(200):
            agent.observe(1e6 * X, SIDE)
    with pytest.raises(Diverged) as error:
        agent.predict(X)
    assert "smaller `rate`" in error.value.hint


def test_keywords_stand_for_all_settings():
    agent = small("hal", lambda_=0.25, rate=0.05)
    assert agent.settings["hal.lambda"] == 0.25 and agent.settings["hal.rate"] == 0.05
    assert agent.settings["hidden"] == [16]
    parameters = inspect.signature(Agent).parameters
    assert {"features", "rate", "lambda_", "slots", "hidden"} <= set(parameters)
    assert not {"settings", "evaluate", "tuning"} & set(parameters)
    names = hindsight.settings("hal").names
    assert {"lambda", "rate", "slots"} <= set(names)


def test_it_shows_what_it_is():
    agent = small()
    assert repr(agent) == "<hindsight.Agent er-ring, seed 1: 4 features, no classes yet, 0 samples seen>"
    agent.observe(X, SIDE)
    assert repr(agent) == "<hindsight.Agent er-ring, seed 1: 4 features, 2 classes, 300 samples seen>"
    assert (agent.method, agent.seed, agent.features) == ("er-ring", 1, 4)


def test_batches_and_epochs_are_the_steps_that_they_say():
    # Of pieces that come again the agent does not know that they do: they would change the scale.
    whole, pieces = small(classes=2, batch=20, standardise=False), small(classes=2, standardise=False)
    whole.observe(X, SIDE, epochs=2)
    for start in [*range(0, 300, 20)] * 2:
        pieces.observe(X[start : start + 20], SIDE[start : start + 20], batch=20)
    np.testing.assert_array_equal(whole.theta, pieces.theta)
    assert whole.observe(np.zeros((0, 4)), []) == 0.0


def test_ten_thousand_observations_do_not_grow_memory():
    agent = small("er-ring", replay_from="all", memory="reservoir")
    rows, labels = X[:10], SIDE[:10]

    def observe(times):
        for _ in range(times):
            agent.observe(rows, labels)
            agent.predict(rows)

    observe(1000)
    gc.collect()
    before = resident()
    observe(10_000)
    gc.collect()
    assert resident() - before < 2_000_000


def resident():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_threads_may_ask_while_another_learns():
    agent = small()
    agent.observe(X, SIDE)
    wrong = []

    def ask():
        for _ in range(200):
            answers = agent.predict_proba(X)
            if not np.allclose(answers.sum(axis=1), 1, atol=1e-4):
                wrong.append(answers)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        agent.observe(X, SIDE)
    for thread in threads:
        thread.join()
    assert not wrong and agent.samples_seen == 21 * 300


def test_the_interpreter_is_free_while_it_learns():
    agent = small("hal", hidden=[256, 256])
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    big = RNG.normal(size=(20_000, 4)).astype(np.float32)
    before = counted[0]
    agent.observe(big, ["a"] * len(big))
    during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 1000


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on Unix")
@pytest.mark.parametrize(
    "call", ["agent.observe(X, y, epochs=10**6)", "hindsight.run(samples=9000, tasks=20)"]
)
def test_ctrl_c_ends_a_long_call(call):
    program = textwrap.dedent(f"""
        import signal, numpy as np, hindsight
        # Jobs in the background of a shell inherit that it is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        agent = hindsight.Agent(4, method="er-ring")
        X, y = np.random.default_rng(0).normal(size=(1000, 4)), [0, 1] * 500
        print("begin", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            agent.observe(X, y)
            print("interrupted", agent.samples_seen % 10, flush=True)
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begin\n"
    threading.Event().wait(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted 0\n"
