"""ReFrame: the checks beside this file, on both of its Slurm back ends; its report must say that all passed."""

import json
import subprocess
from pathlib import Path

here = Path(__file__).resolve().parent
subprocess.run(
    [
        "reframe",
        "--config-file",
        here / "settings.py",
        "--checkpath",
        here / "checks.py",
        "--prefix",
        "reframe",
        "--report-file",
        "report.json",
        "--keep-stage-files",
        "--run",
    ],
    check=True,
)
report = json.loads(Path("report.json").read_text())
cases = [case for run in report["runs"] for case in run["testcases"]]
results = {(case["name"], case["partition"]): case["result"] for case in cases}
wanted = {
    (name, partition): "pass"
    for name in ("Ranks", "EveryIdleNode")
    for partition in ("sacct", "squeue")
}
wanted["Fails", "sacct"] = "pass"
assert results == wanted, results
