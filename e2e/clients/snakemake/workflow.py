"""snakemake with its slurm executor: five jobs with dependencies, then a failing one that it must notice."""

import subprocess
from pathlib import Path

here = Path(__file__).resolve().parent


def snakemake(snakefile):
    return subprocess.run(
        [
            "snakemake",
            "--snakefile",
            here / snakefile,
            "--directory",
            ".",
            "--executor",
            "slurm",
            "--jobs",
            "4",
            "--default-resources",
            "slurm_partition=main",
            "mem_mb=300",
            "runtime=5",
            "--latency-wait",
            "10",
            "--slurm-init-seconds-before-status-checks",
            "2",
            "--seconds-between-status-checks",
            "2",
        ],
        check=False,
    ).returncode


assert snakemake("Snakefile") == 0
assert Path("total.txt").read_text() == "6\n"
assert Path("wide.txt").read_text() == "2 threads 2\n"
assert snakemake("Snakefile.failing") != 0
assert not Path("never.txt").exists()
