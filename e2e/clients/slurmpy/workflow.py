"""slurmpy: two jobs in a row through --dependency=afterok, and a retry that runs only after a failure."""

import subprocess
import time
from pathlib import Path

from slurmpy import Slurm

DEADLINE_SECONDS = 60

job = Slurm("step", {"partition": "main", "time": "00:05:00", "mem": "200M", "c": 1})
first = job.run("sleep 1; echo 213 > made")
second = job.run("cat made; rm made; echo ok > done", depends_on=[first])
assert isinstance(second, int) and second > first, (first, second)
end = time.monotonic() + DEADLINE_SECONDS
while not Path("done").exists():
    assert time.monotonic() < end, "the second job did not run"
    time.sleep(0.1)
logs = [path.read_text() for path in Path("logs").glob(f"*.{second}.out")]
assert logs == ["213\n"], logs

retried = job.run("echo run >> runs; test $(wc -l < runs) = 2", tries=2)
end = time.monotonic() + DEADLINE_SECONDS
while not Path("runs").exists() or Path("runs").read_text() != "run\nrun\n":
    assert time.monotonic() < end, "the retry did not run"
    time.sleep(0.1)
state = subprocess.check_output(["sacct", "-nXPo", "State", "-j", str(retried)], text=True)
assert state == "FAILED\n", state
