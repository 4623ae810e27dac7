//! Steps: descriptions, layouts, what can be read about them.
//!
//! Field names, units and meaning are those of the model; nothing is decided here.

use sluice_model::step::{StepDescription, StepInfo, StepLayout, StepNode, StepOptions};

use super::{field_from_wire, field_into_wire};
use super::{wire_message, wire_std};

wire_message!(StepDescription => StepDescription {
    job_id,
    name,
    min_nodes,
    max_nodes,
    ntasks,
    ntasks_per_node,
    cpus_per_task,
    mem_per_node,
    mem_per_cpu,
    gres_per_node,
    gres_per_step,
    gres_per_task,
    required_nodes,
    excluded_nodes,
    relative_node,
    exact,
    overlap,
    overcommit,
    distribution,
    cpu_bind,
    gpu_bind,
    time_limit,
    kill_on_bad_exit,
    interactive,
    argv,
    environment,
    work_dir,
    umask,
    rlimits,
    std_in,
    std_out,
    std_err,
    open_mode,
    pty,
    task_prolog,
    task_epilog,
    io_address,
    io_secret,
    srun_host,
    srun_pid,
    submission_key,
    extra,
    [or_default] options,
});

wire_message!(StepOptions => StepOptions {
    multi_prog,
    mem_bind,
    host_list,
    wait_for_children,
    oom_kill_step,
    preserve_env,
    external_launcher,
});

wire_message!(StepLayout => StepLayout {
    nodes,
});

wire_message!(StepNode => StepNode {
    node,
    task_ids,
    cpu_ids,
    memory,
    gres,
});

wire_message!(StepInfo => StepInfo {
    job_id,
    submit_time,
    array_job_id,
    array_task_id,
    step_id,
    name,
    uid,
    user_name,
    partition,
    [need] state,
    start_time,
    end_time,
    [need] time_limit,
    nodes,
    num_nodes,
    num_cpus,
    num_tasks,
    [or_default] tres,
    srun_host,
    srun_pid,
    exit_status,
    distribution,
    [or_default] layout,
});
