"""ReFrame's description of the test cluster: the partition twice, once read with sacct and once with squeue."""


def partition(name, scheduler):
    return {
        "name": name,
        "scheduler": scheduler,
        "launcher": "srun",
        "environs": ["builtin"],
        "access": ["--partition=main"],
        "max_jobs": 4,
    }


site_configuration = {
    "systems": [
        {
            "name": "test",
            "hostnames": [".*"],
            "partitions": [partition("sacct", "slurm"), partition("squeue", "squeue")],
        }
    ],
    "environments": [{"name": "builtin", "cc": "", "cxx": "", "ftn": ""}],
}
