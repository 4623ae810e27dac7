"""parsl: a block of two nodes through srun, Python and shell apps on it, and its end."""

import os
import subprocess
import time

import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

DEADLINE_SECONDS = 120


@python_app
def place():
    import os
    import time

    time.sleep(1)
    return os.environ["SLURM_PROCID"], os.environ["SLURM_JOB_NUM_NODES"]


@bash_app
def greet(stdout):
    return "echo hello from job $SLURM_JOB_ID"


def queue():
    return subprocess.check_output(["squeue", "-h", "-o", "%i %j %D"], text=True)


config = Config(
    executors=[
        HighThroughputExecutor(
            label="nodes",
            address="127.0.0.1",
            loopback_address="127.0.0.1",
            max_workers_per_node=1,
            cores_per_worker=1,
            provider=SlurmProvider(
                partition="main",
                nodes_per_block=2,
                init_blocks=1,
                max_blocks=1,
                mem_per_node=1,
                walltime="00:10:00",
                exclusive=False,
                scheduler_options="#SBATCH --comment=parsl",
                launcher=SrunLauncher(),
            ),
        )
    ],
    run_dir="runinfo",
    usage_tracking=0,
)
with parsl.load(config):
    places = [place() for _ in range(6)]
    found = {future.result(DEADLINE_SECONDS) for future in places}
    assert found == {("0", "2"), ("1", "2")}, found
    out = os.path.abspath("greet.out")
    assert greet(stdout=out).result(DEADLINE_SECONDS) == 0
    said = open(out, encoding="utf-8").read()
    assert said in {f"hello from job {line.split()[0]}\n" for line in queue().splitlines()}, said
end = time.monotonic() + DEADLINE_SECONDS
while queue():
    assert time.monotonic() < end, f"the block stays: {queue()}"
    time.sleep(0.2)
