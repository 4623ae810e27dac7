"""submitit: single jobs, an array, tasks on two nodes, a failure, a cancellation, and a job that is requeued.

The queue is read with sacct, jobs are ended and signalled with scancel, and a checkpoint asks for scontrol requeue.
"""

import os
import time

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

DEADLINE_SECONDS = 60


def add(left, right):
    return left + right


def rank():
    environment = submitit.JobEnvironment()
    return environment.global_rank, environment.num_tasks, environment.num_nodes


def fail():
    raise ValueError("on purpose")


class Resumable:
    """Sleeps in its first run; a signal makes it start over, and then it is done at once."""

    def __init__(self):
        self.runs = 0

    def __call__(self):
        if self.runs == 0:
            time.sleep(300)
        return f"done in run {self.runs + 1}"

    def checkpoint(self):
        self.runs += 1
        return submitit.helpers.DelayedSubmission(self)


def wait_until(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.2)


def state(job):
    return job.watcher.get_state(job.job_id, mode="force")


executor = submitit.AutoExecutor(folder="logs/%j")
assert executor.cluster == "slurm", executor.cluster
executor.update_parameters(timeout_min=5, slurm_partition="main", mem_gb=0.2, name="sum")

assert executor.submit(add, 2, 3).result() == 5

executor.update_parameters(slurm_array_parallelism=2)
jobs = executor.map_array(add, [1, 2, 3, 4], [10, 20, 30, 40])
assert [job.result() for job in jobs] == [11, 22, 33, 44]

wide = submitit.AutoExecutor(folder="logs/%j")
wide.update_parameters(timeout_min=5, nodes=2, tasks_per_node=2, slurm_setup=["echo setup"])
assert wide.submit(rank).results() == [(rank, 4, 2) for rank in range(4)]

try:
    executor.submit(fail).result()
    raise AssertionError("a failure went unseen")
except FailedJobError as error:
    assert "on purpose" in str(error), error

sleeper = executor.submit(time.sleep, 300)
wait_until("RUNNING", lambda: state(sleeper) == "RUNNING")
sleeper.cancel(check=True)
wait_until("CANCELLED", lambda: state(sleeper).startswith("CANCELLED"))
try:
    sleeper.result()
    raise AssertionError("a cancelled job had a result")
except UncompletedJobError:
    pass

resumable = executor.submit(Resumable())
wait_until("RUNNING", lambda: state(resumable) == "RUNNING")
log = resumable.paths.stdout
wait_until("the function to start", lambda: log.exists() and "Loading pickle" in log.read_text() + resumable.paths.stderr.read_text())
time.sleep(1)
resumable._interrupt(timeout=False)
assert resumable.result() == "done in run 2"

assert os.environ.get("SLURM_JOB_ID") is None
