"""cylc: a small graph of tasks as jobs, one that fails once and is tried again, job ids and polls through squeue.

Each task's job sends its messages back to the scheduler, which runs in the foreground here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

GLOBAL = """\
[platforms]
    [[cluster]]
        hosts = localhost
        install target = localhost
        job runner = slurm
        submission polling intervals = PT5S
        execution polling intervals = PT5S
        cylc path = {bin}
"""

FLOW = """\
[scheduler]
    allow implicit tasks = False
    [[events]]
        stall timeout = PT0S
        abort on stall timeout = True
        workflow timeout = PT4M
        abort on workflow timeout = True
[scheduling]
    [[graph]]
        R1 = first => second & third => last
[runtime]
    [[root]]
        platform = cluster
        execution time limit = PT2M
        [[[directives]]]
            --partition = main
            --mem = 100
    [[first]]
        script = echo "$SLURM_JOB_NAME" > "$CYLC_WORKFLOW_SHARE_DIR/first"
    [[second]]
        execution retry delays = PT1S
        script = test "$CYLC_TASK_TRY_NUMBER" = 2
    [[third]]
        script = {srun} -n2 true
        [[[directives]]]
            --ntasks = 2
    [[last]]
        script = cp "$CYLC_WORKFLOW_SHARE_DIR/first" "$CYLC_WORKFLOW_SHARE_DIR/last"
"""

home = Path(os.environ["HOME"])
settings = home / ".cylc" / "flow"
settings.mkdir(parents=True)
programs = Path(sys.prefix) / "bin"
(settings / "global.cylc").write_text(GLOBAL.format(bin=programs))
# Where "cylc install" would put it, which needs rsync.
run = home / "cylc-run" / "small"
run.mkdir(parents=True)
# A job is a login shell, which need not find the commands that are tested here.
srun = shutil.which("srun")
(run / "flow.cylc").write_text(FLOW.replace("{srun}", srun))
done = subprocess.run(
    ["cylc", "play", "--no-detach", "--debug", "small"],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
)
assert done.returncode == 0, done.stdout[-6000:]
share = run / "share"
assert (share / "last").read_text().startswith("first."), (share / "last").read_text()
second = run / "log" / "job" / "1" / "second"
assert (second / "02" / "job.status").exists(), list(second.iterdir())
