"""dask-jobqueue: two workers as jobs, a computation on them, growth, and their end through scancel."""

import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

DEADLINE_SECONDS = 120


def square(number):
    return number * number


def job_of_worker():
    import os

    return os.environ["SLURM_JOB_ID"]


def names():
    return subprocess.check_output(["squeue", "-h", "-o", "%j"], text=True).split()


if __name__ == "__main__":
    with SLURMCluster(
        queue="main",
        cores=1,
        processes=1,
        memory="400MB",
        walltime="00:10:00",
        local_directory="scratch",
        log_directory="logs",
        scheduler_options={"host": "127.0.0.1", "dashboard": False},
    ) as cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=DEADLINE_SECONDS)
        assert client.gather(client.map(square, range(20))) == [n * n for n in range(20)]
        jobs = set(client.run(job_of_worker).values())
        assert len(jobs) == 2, jobs
        assert names() == ["dask-worker"] * 2, names()
        cluster.scale(jobs=3)
        client.wait_for_workers(3, timeout=DEADLINE_SECONDS)
    end = time.monotonic() + DEADLINE_SECONDS
    while names():
        assert time.monotonic() < end, f"workers stay: {names()}"
        time.sleep(0.2)
