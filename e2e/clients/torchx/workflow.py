"""torchx: an application as a batch job, its state out of sacct, its log; a failure; a cancellation.

Memory of a node is read out of sinfo. Applications of several replicas are heterogeneous jobs.
"""

import os
import subprocess
import time

from torchx.runner import get_runner
from torchx.schedulers.api import Stream
from torchx.specs import AppState

DEADLINE_SECONDS = 60
SETTINGS = {"partition": "main", "time": "5", "job_dir": os.path.join(os.getcwd(), "jobs")}


def shell(runner, text):
    arguments = ["--image", "none", "--num_replicas", "1", *text.split()]
    return runner.run_component("utils.sh", arguments, "slurm", cfg=dict(SETTINGS))


def wait_for(runner, app, states):
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        status = runner.status(app)
        if status is not None and status.state in states:
            return status.state
        assert time.monotonic() < end, f"{app} is {status}"
        time.sleep(0.3)


os.makedirs(SETTINGS["job_dir"])
with get_runner() as runner:
    done = shell(runner, "echo told it")
    assert wait_for(runner, done, {AppState.SUCCEEDED, AppState.FAILED}) == AppState.SUCCEEDED
    lines = [line.strip() for line in runner.log_lines(done, "sh", 0, streams=Stream.STDOUT)]
    assert "told it" in lines, lines

    wrong = shell(runner, "exit 3")
    assert wait_for(runner, wrong, {AppState.SUCCEEDED, AppState.FAILED}) == AppState.FAILED

    sleeper = shell(runner, "sleep 300")
    wait_for(runner, sleeper, {AppState.RUNNING})
    runner.cancel(sleeper)
    # torchx itself does not know the state "CANCELLED by UID" that sacct tells.
    number = sleeper.rsplit("/", 1)[1]
    state = ["squeue", "-h", "-t", "all", "-o", "%T", "-j", number]
    end = time.monotonic() + DEADLINE_SECONDS
    while subprocess.check_output(state, text=True) != "CANCELLED\n":
        assert time.monotonic() < end, "the job was not cancelled"
        time.sleep(0.1)
