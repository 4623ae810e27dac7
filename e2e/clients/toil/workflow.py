"""toil: jobs that fan out and come together, and one that fails once and is tried again.

Partitions are read out of sinfo, states out of sacct and scontrol, and running jobs out of squeue.
"""

import os

from toil.common import Toil
from toil.job import Job

SMALL = {"memory": "150M", "cores": 1, "disk": "10M"}


def square(job, number):
    return number * number


def flaky(job, marker):
    if not os.path.exists(marker):
        with open(marker, "w") as file:
            file.write("tried")
        raise RuntimeError("on purpose, once")
    return os.environ["SLURM_JOB_ID"]


def collect(job, numbers, retried):
    return sum(numbers), retried


def root(job, folder):
    numbers = [job.addChildJobFn(square, number, **SMALL).rv() for number in (1, 2, 3)]
    retried = job.addChildJobFn(flaky, os.path.join(folder, "marker"), **SMALL).rv()
    return job.addFollowOnJobFn(collect, numbers, retried, **SMALL).rv()


if __name__ == "__main__":
    options = Job.Runner.getDefaultOptions(os.path.join(os.getcwd(), "store"))
    options.batchSystem = "slurm"
    options.slurmPartition = "main"
    options.slurmTime = 300
    options.retryCount = 1
    options.disableCaching = True
    options.clean = "always"
    options.logLevel = "INFO"
    # Seconds between two looks at the queue.
    options.statePollingWait = 1
    with Toil(options) as toil:
        total, retried = toil.start(Job.wrapJobFn(root, os.getcwd(), **SMALL))
    assert total == 14, total
    assert int(retried) > 0, retried
