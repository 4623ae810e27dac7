"""PSI/J: jobs with output, arguments and environment, several processes through srun, a failure and a cancellation."""

from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.slurm import SlurmExecutorConfig

DEADLINE = timedelta(seconds=90)

# The default asks every 30 seconds; a test has no such patience.
executor = JobExecutor.get_instance("slurm", config=SlurmExecutorConfig(queue_polling_interval=2))
here = Path.cwd()


def run(name, arguments, processes=None, **spec):
    job = Job(
        JobSpec(
            name=name,
            executable="/bin/sh",
            arguments=["-c", arguments],
            directory=here,
            stdout_path=here / f"{name}.out",
            stderr_path=here / f"{name}.err",
            attributes=JobAttributes(duration=timedelta(minutes=3), queue_name="main"),
            resources=processes,
            **spec,
        )
    )
    executor.submit(job)
    return job


one = run("one", "echo $GREETING from $(pwd)", environment={"GREETING": "hello"})
four = run(
    "four",
    "echo rank $SLURM_PROCID",
    processes=ResourceSpecV1(node_count=2, processes_per_node=2, cpu_cores_per_process=1),
    launcher="srun",
)
failing = run("failing", "exit 7")
sleeper = run("sleeper", "exec sleep 300")

status = one.wait(DEADLINE)
assert status is not None and status.state == JobState.COMPLETED, status
assert (here / "one.out").read_text() == f"hello from {here}\n"
status = four.wait(DEADLINE)
assert status is not None and status.state == JobState.COMPLETED, status
assert sorted((here / "four.out").read_text().splitlines()) == [f"rank {n}" for n in range(4)]
status = failing.wait(DEADLINE)
assert status is not None and (status.state, status.exit_code) == (JobState.FAILED, 7), status
status = sleeper.wait(DEADLINE, target_states=[JobState.ACTIVE])
assert status is not None and status.state == JobState.ACTIVE, status
assert sleeper.native_id in executor.list()
sleeper.cancel()
status = sleeper.wait(DEADLINE)
assert status is not None and status.state == JobState.CANCELED, status
