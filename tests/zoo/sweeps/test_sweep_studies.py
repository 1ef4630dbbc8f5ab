"""Studies whose processes are killed."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo.sweeps.study import (
    ATTEMPTS,
    EXCLUSIVE,
    MAX_ATTEMPTS,
    SEED,
    Locks,
    find_study,
    find_trial,
    open_storage,
    overview,
    summary,
)
from tests.waiting import wait_until
from tests.zoo.sweeps.postgres_server import empty_database, postgres_server, require_postgres
from tests.zoo.sweeps.study_workers import OWN_VALUES, SETTINGS, do_trials, open_queue, start_worker, trials_of

COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    require_postgres()
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["journal", "sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "journal":
        yield str(tmp_path / "sweep.log")
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/sweep.db"
    else:
        url = request.getfixturevalue("postgres")
        yield url
        empty_database(url)


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "sweep.log")


def test_what_is_drawn_does_not_depend_on_stops(journal: str) -> None:
    study, queue = open_queue(None, 12)
    assert do_trials(queue) == 12
    for _ in range(3):
        assert do_trials(open_queue(journal, 12)[1], at_most=4) == 4
    assert do_trials(open_queue(journal, 12)[1]) == 0
    resumed = trials_of(journal)
    assert [trial.params for trial in resumed] == [trial.params for trial in study.trials]
    assert [trial.user_attrs[SEED] for trial in resumed] == [trial.user_attrs[SEED] for trial in study.trials]
    assert len({trial.user_attrs[SEED] for trial in resumed}) == 12
    other = open_queue(None, 2, SETTINGS.model_copy(update={"seed": 8}))
    do_trials(other[1])
    assert other[0].trials[0].params == study.trials[0].params == OWN_VALUES
    assert other[0].trials[1].params != study.trials[1].params


def test_a_trial_whose_process_is_gone_is_done_again(storage: str) -> None:
    _, queue = open_queue(storage, 3)
    with queue.process_lock():
        lost = queue.next_trial()
        assert lost is not None
        assert open_queue(storage, 1)[1].next_trial() is None, "another process is running it"
    assert do_trials(open_queue(storage, 3)[1]) == 3
    first, *others = trials_of(storage)
    assert [first.state, *(each.state for each in others)] == [TrialState.FAIL, *[TrialState.COMPLETE] * 3]
    assert others[0].params == lost.params
    assert (others[0].user_attrs[SEED], others[0].user_attrs[ATTEMPTS]) == (lost.user_attrs[SEED], 1)
    with pytest.raises((optuna.exceptions.UpdateFinishedTrialError, RuntimeError)):
        lost.report(0.5, 2)
    with pytest.raises((optuna.exceptions.UpdateFinishedTrialError, ValueError)):  # another process has finished it
        queue.study.tell(lost, 0.5, TrialState.COMPLETE)
    assert queue.was_abandoned(lost)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("writes", range(6))
def test_a_process_may_be_killed_while_it_draws(
    journal: str, writes: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, queue = open_queue(journal, 3)
    assert do_trials(queue, at_most=number) == number
    backend = type(queue.study._storage)
    left = [writes]

    def until_killed(write: Callable[..., Any]) -> Callable[..., Any]:
        def write_or_die(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise SystemExit
            return write(*arguments, **keywords)

        return write_or_die

    with monkeypatch.context() as patch, queue.process_lock():
        for name in ("create_new_trial", "set_trial_param", "set_trial_user_attr"):
            patch.setattr(backend, name, until_killed(getattr(backend, name)))
        if writes < 4 + number:  # a trial, unless it was queued; two parameters, a process and a seed
            with pytest.raises(SystemExit):
                queue.next_trial()
        else:
            queue.next_trial()
    assert do_trials(open_queue(journal, 3)[1]) == 3 - number
    done = [trial.params for trial in trials_of(journal) if trial.state is TrialState.COMPLETE]
    undisturbed, other = open_queue(None, 3)
    do_trials(other)
    killed = trials_of(journal)[number].params
    assert len(done) == 3 and undisturbed.trials[number].params.items() >= killed.items()
    assert any(killed.items() <= params.items() for params in done)
    assert OWN_VALUES in done


def test_what_ends_every_process_is_given_up() -> None:
    study, queue = open_queue(None, 1)
    for _ in range(MAX_ATTEMPTS):
        trial = queue.next_trial()
        assert trial is not None
        queue.retry_abandoned()
    last = queue.next_trial()
    assert last is not None and last.params != trial.params
    assert [each.params for each in study.trials[:-1]] == [trial.params] * MAX_ATTEMPTS


def test_failed_trials_do_not_count(journal: str) -> None:
    _, queue = open_queue(journal, 2)
    with queue.process_lock():
        for state in (TrialState.FAIL, TrialState.PRUNED):
            trial = queue.next_trial()
            assert trial is not None
            queue.study.tell(trial, state=state)
    assert do_trials(open_queue(journal, 2)[1]) == 1


@pytest.mark.parametrize(
    "storage",
    ["journal", *(pytest.param(each, marks=pytest.mark.slow) for each in ("sqlite", "postgresql"))],
    indirect=True,
)
def test_processes_that_are_killed_lose_and_double_nothing(storage: str) -> None:
    n_trials = 24
    open_queue(storage, n_trials)
    workers = [start_worker(storage, n_trials, 0.03) for _ in range(3)]
    for killed in range(4):
        wait_until(lambda done=killed: sum(t.state is TrialState.COMPLETE for t in trials_of(storage)) >= 3 * done)
        victim = workers.pop(0)
        victim.kill()
        victim.join()
        workers.append(start_worker(storage, n_trials, 0.03))
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    do_trials(open_queue(storage, n_trials)[1])  # what the last one to be killed may have left behind
    trials = trials_of(storage)
    counted = [trial for trial in trials if trial.state in COUNTED]
    assert len(counted) == n_trials
    assert len({tuple(trial.params.items()) for trial in counted}) == n_trials
    assert {trial.state for trial in trials} <= {*COUNTED, TrialState.FAIL}
    for trial in trials:  # every trial was completed once
        same = [other for other in counted if trial.params.items() <= other.params.items()]
        assert len(same) == 1 or not trial.params


def test_a_process_may_finish_and_end_while_another_one_looks(journal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, queue = open_queue(journal, 2)
    _, looking = open_queue(journal, 2)

    def ends_now(locks: Locks, name: str) -> bool:
        queue.study.tell(trial, 0.5, TrialState.COMPLETE)
        return False

    with queue.process_lock(), looking.process_lock():
        trial = queue.next_trial()
        assert trial is not None
        with monkeypatch.context() as patch:
            patch.setattr(Locks, "is_alive", ends_now)
            other = looking.next_trial()
        assert other is not None and other.params != trial.params
    assert [each.state for each in trials_of(journal)] == [TrialState.COMPLETE, TrialState.RUNNING]


@pytest.mark.parametrize("write", ["enqueue_trial", "tell"])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_process_may_be_killed_while_it_looks_after_the_trial_of_another(
    journal: str, write: str, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, queue = open_queue(journal, 2)
    with queue.process_lock():
        lost = queue.next_trial()
        assert lost is not None
    original = getattr(optuna.Study, write)

    def killed(study: optuna.Study, *arguments: Any, **keywords: Any) -> None:
        if is_written:
            original(study, *arguments, **keywords)
        raise SystemExit

    _, unlucky = open_queue(journal, 2)
    with monkeypatch.context() as patch, unlucky.process_lock(), pytest.raises(SystemExit):
        patch.setattr(optuna.Study, write, killed)
        unlucky.next_trial()
    assert do_trials(open_queue(journal, 2)[1]) == 2
    states = [(trial.state, trial.params == lost.params) for trial in trials_of(journal)]
    assert states == [(TrialState.FAIL, True), (TrialState.COMPLETE, True), (TrialState.COMPLETE, False)]


def test_trials_of_dead_processes_are_reported_as_abandoned(storage: str) -> None:
    _, queue = open_queue(storage, 3)
    study, locks = find_study(storage, None)
    with queue.process_lock():
        assert queue.next_trial() is not None
        assert [summary(trial, locks)["state"] for trial in study.trials] == ["running"]
    assert [summary(trial, locks)["state"] for trial in study.trials] == ["abandoned"]


def test_locks_end_with_those_who_hold_them(tmp_path: Path) -> None:
    locks, others = Locks(tmp_path), Locks(tmp_path)
    with locks.acquire(EXCLUSIVE), locks.acquire("me"):
        assert locks.is_alive("me") and others.is_alive("me")
    assert not others.is_alive("me")
    assert not others.is_alive("somebody")
    assert [path.name for path in tmp_path.iterdir()] == [EXCLUSIVE]


def test_a_torn_record_of_a_journal_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "sweep.log"
    do_trials(open_queue(str(path), 2)[1])
    with path.open("a") as file:
        file.write('{"op_code": 4, "wor')
    do_trials(open_queue(str(path), 3)[1])
    assert [trial.state for trial in trials_of(str(path))] == [TrialState.COMPLETE] * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_timesteps": 200}, "n_timesteps = 100, not 200: choose another --study-name"),
        ({"block": {"n_envs": 3}}, "block.n_envs = 2, not 3"),
        ({"measure": {"fights": 2}}, "measure.fights = 1, not 2"),
    ],
)
def test_all_trials_of_a_study_have_the_same_settings(journal: str, changes: dict[str, Any], message: str) -> None:
    open_queue(journal, 1)
    open_queue(journal, 1, SETTINGS.model_copy(update={"seed": 99}))
    with pytest.raises(Refusal, match=message):
        open_queue(journal, 1, SETTINGS.model_copy(update=changes))


def test_processes_that_open_a_new_storage_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    (tmp_path / "new.db").touch()
    fork = multiprocessing.get_context("fork")
    given = [(f"sqlite:///{tmp_path}/new.db", must_exist) for must_exist in (False, True) * 3]
    processes = [fork.Process(target=open_storage, args=each) for each in given]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 6


def test_studies_of_others_are_refused(journal: str) -> None:
    opened, _ = open_storage(journal)
    optuna.create_study(study_name="study", storage=opened).add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(Refusal, match="was not created by this version"):
        open_queue(journal, 1)


@pytest.mark.parametrize("name", ["{}/sweep.log", "sqlite:///{}/sweep.db"])
def test_a_file_that_is_not_there_is_one_message(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="there is no file"):
        open_storage(name.format(tmp_path), must_exist=True)


def test_what_is_not_there_is_one_message(storage: str) -> None:
    opened, _ = open_storage(storage)
    with pytest.raises(Refusal, match="no study in that storage"):
        find_study(storage, None)
    study = optuna.create_study(study_name="one", storage=opened)
    assert find_study(storage, None)[0].study_name == "one"
    optuna.create_study(study_name="two", storage=opened)
    with pytest.raises(Refusal, match="which study.*one, two"):
        find_study(storage, None)
    with pytest.raises(Refusal, match="did you mean 'two'"):
        find_study(storage, "twoo")
    with pytest.raises(Refusal, match="no trial 0, it has no trials"):
        find_trial(study, 0)
    with pytest.raises(Refusal, match="no trial of study 'one' has been completed yet"):
        find_trial(study, None)


@pytest.mark.parametrize("name", ["mysql://x/y", "sweep.txt", "sqlite://", "sqlite:///:memory:"])
def test_other_storages_are_refused(name: str) -> None:
    with pytest.raises(Refusal, match="--storage must be a journal"):
        open_storage(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("postgresl://ann:s3cret@host/x", "postgresl://ann:***@host/x"),
        ("postgresql:/ann:s3cret@host/x", "host/x"),
        ("mysql://ann:s3c/r:e@t@host/x?a=1", "mysql://ann:***@host/x?a=1"),
        ("mysql://host/x?user=ann&password=s3cret&a=1", "mysql://host/x?user=ann&password=***&a=1"),
    ],
)
def test_a_password_is_in_no_message(name: str, shown: str) -> None:
    with pytest.raises(Refusal) as raised:
        open_storage(name)
    assert str(raised.value).endswith(f", got {shown!r}")


@pytest.mark.parametrize("line", ['{"op_code": 0}', '{"op_code": 4, "trial_id": []}', '{"op_code": 99}'])
def test_a_damaged_journal_is_one_message(line: str, journal: str) -> None:
    optuna.create_study(study_name="one", storage=open_storage(journal)[0])
    with open(journal, "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(Refusal, match=r"cannot open the storage .*sweep\.log: "):
        overview(journal)


def test_files_that_are_no_storage_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database")
    with pytest.raises(Refusal, match="cannot open the storage sqlite"):
        open_storage(f"sqlite:///{tmp_path}/text.db")
    (tmp_path / "text.log").write_text("this is not a journal\nnor this\n")
    with pytest.raises(Refusal, match=r"cannot open the storage .*text\.log"):
        open_storage(str(tmp_path / "text.log"))


@pytest.mark.parametrize(
    "content",
    [
        b"a\nb\nlast line without newline",
        b"only one line",
        b"one line\n",
        b'{"loss": 1}\n{"loss',
        b"3\n",
        b"[" * 9999 + b"\n",
        b"\0\xff",
    ],
)
def test_files_of_others_stay_as_they_are(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "keepme.log"
    path.write_bytes(content)
    for must_exist in (False, True):
        with pytest.raises(Refusal, match=r"cannot open the storage .*keepme\.log: .*not a journal"):
            open_storage(str(path), must_exist)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{", b'{"op_code"', b'{"op_code":0,"worker'])
def test_a_journal_may_begin_with_a_torn_record(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sweep.log"
    path.write_bytes(content)
    do_trials(open_queue(str(path), 1)[1])
    assert [trial.state for trial in trials_of(str(path))] == [TrialState.COMPLETE]


def test_without_a_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Refusal, match=r'pip install "sb3-pvp\[postgres\]"'):
        open_storage("postgresql://somebody@localhost/sweeps")
