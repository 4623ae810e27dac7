"""simple-slurm: scripts on standard input, a dependency, an array, srun, the queue as CSV, and a cancellation."""

import datetime
import subprocess
import time
from pathlib import Path

from simple_slurm import Slurm

DEADLINE_SECONDS = 60


def wait_for_text(path, expected):
    end = time.monotonic() + DEADLINE_SECONDS
    while not Path(path).exists() or Path(path).read_text() != expected:
        found = Path(path).read_text() if Path(path).exists() else "no file"
        assert time.monotonic() < end, f"{path}: {found!r}, not {expected!r}"
        time.sleep(0.1)


slurm = Slurm(
    job_name="first",
    partition="main",
    cpus_per_task=2,
    mem="200M",
    time=datetime.timedelta(minutes=5),
    output=f"first-{Slurm.JOB_ID}.out",
)
slurm.add_cmd('echo "cpus=$SLURM_CPUS_PER_TASK"')
first = slurm.sbatch("echo", "job", Slurm.SLURM_JOB_ID)
wait_for_text(f"first-{first}.out", f"cpus=2\njob {first}\n")

after = Slurm(dependency=dict(afterok=first), output="after.out", parsable=True)
after.sbatch("echo after", job_file="after.sh")
wait_for_text("after.out", "after\n")

array = Slurm(
    array=range(2, 5), output=f"array-{Slurm.JOB_ARRAY_MASTER_ID}_{Slurm.JOB_ARRAY_ID}.out"
)
number = array.sbatch("echo task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID")
for task in range(2, 5):
    wait_for_text(f"array-{number}_{task}.out", f"task {task} of {number}\n")

assert Slurm(ntasks=2, ntasks_per_node=1, nodes=2).srun("true") == 0

sleeper = Slurm(job_name="sleeper", time="0:05:00")
# A signal is for the processes that are there: the file says that they are.
number = sleeper.sbatch("srun sh -c 'echo > started; exec sleep 300'")
end = time.monotonic() + DEADLINE_SECONDS
while True:
    sleeper.squeue.update_squeue()
    row = sleeper.squeue.jobs[number]
    if row["ST"] == "R":
        break
    assert time.monotonic() < end, row
    time.sleep(0.1)
assert row["NAME"] == "sleeper" and row["NODES"] == "1" and row["CPUS"] == "1", row
assert row["TIME_LEFT"].startswith(("4:", "5:")), row
assert row["NODELIST(REASON)"].startswith("n"), row
while not Path("started").exists():
    assert time.monotonic() < end, "the program did not start"
    time.sleep(0.1)
sleeper.scancel.signal_job(number)
end = time.monotonic() + DEADLINE_SECONDS
while number in sleeper.squeue.jobs:
    assert time.monotonic() < end, sleeper.squeue.jobs[number]
    time.sleep(0.1)
    sleeper.squeue.update_squeue()

held = Slurm(hold=True).sbatch("true")
sleeper.scancel.cancel_job(held)
state = subprocess.check_output(
    ["squeue", "-h", "-t", "all", "-j", str(held), "-o", "%T"], text=True
)
assert state == "CANCELLED\n", state
