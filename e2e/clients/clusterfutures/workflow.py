"""clusterfutures: functions as jobs, a remote error, and a job that dies and is noticed through squeue."""

import os

import cfut


def square(number):
    return number * number


def said():
    return os.environ["SAID"]


def fail():
    raise KeyError("on purpose")


def die():
    os._exit(3)


assert list(cfut.map(cfut.SlurmExecutor(), square, [3, 4, 5])) == [9, 16, 25]

with cfut.SlurmExecutor(additional_setup_lines=["#SBATCH --mem=200M", "export SAID=yes"]) as executor:
    saying = executor.submit(said)
    failing = executor.submit(fail)
    assert saying.result(60) == "yes"
    assert "on purpose" in str(failing.exception(60))

# The default asks for dead jobs every 30 seconds; a test has no such patience.
cfut.SlurmWaitThread.slurm_poll_interval = 2
with cfut.SlurmExecutor() as executor:
    dying = executor.submit(die)
    assert isinstance(dying.exception(60), cfut.JobDied), dying.exception()
