"""ReFrame checks: tasks over two nodes, nodes chosen by state, and a check that must be found failing."""

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Ranks(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["builtin"]
    executable = "sh"
    executable_opts = ["-c", "'echo rank $SLURM_PROCID of $SLURM_NTASKS'"]
    num_tasks = 4
    num_tasks_per_node = 2
    time_limit = "5m"

    @sanity_function
    def all_ranks(self):
        return sn.assert_eq(sn.count(sn.findall(r"rank \d of 4", self.stdout)), 4)


@rfm.simple_test
class EveryIdleNode(rfm.RunOnlyRegressionTest):
    """As many tasks as there are idle nodes: asks for the nodes and partitions."""

    valid_systems = ["*"]
    valid_prog_environs = ["builtin"]
    executable = "echo here"
    num_tasks = 0
    num_tasks_per_node = 1
    time_limit = "5m"

    @sanity_function
    def at_least_one(self):
        return sn.assert_ge(sn.count(sn.findall(r"here", self.stdout)), 1)


@rfm.simple_test
class Fails(rfm.RunOnlyRegressionTest):
    # Only sacct tells the exit code.
    valid_systems = ["*:sacct"]
    valid_prog_environs = ["builtin"]
    executable = "false"
    time_limit = "5m"
    tags = {"failing"}

    @sanity_function
    def exit_code(self):
        return sn.assert_eq(self.job.exitcode, 1)
