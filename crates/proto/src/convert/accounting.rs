//! Accounting records.
//!
//! Field names, units and meaning are those of the model; nothing is decided here.

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationLimits, AssociationRecord, ClusterRecord, JobRecord,
    QosRecord, ResourceRecord, StepRecord, StepUsageRecord, TransactionRecord, TresRecord,
    UsageStat, UserRecord, WckeyRecord,
};

use super::{ConvertError, Wire, wire_enum, wire_message, wire_std};
use super::{field_from_wire, field_into_wire};
use crate::v1;

wire_message!(JobRecord => JobRecord {
    cluster,
    job_id,
    attempt,
    submit,
    array_job_id,
    array_task_id,
    array_task_string,
    het_job_id,
    het_job_offset,
    association_id,
    account,
    user,
    uid,
    gid,
    group,
    partition,
    qos,
    qos_requested,
    wckey,
    name,
    eligible,
    start,
    end,
    suspended_secs,
    state,
    state_flags,
    exit_status,
    derived_exit_status,
    reason,
    req_tres,
    alloc_tres,
    req_cpus,
    req_mem_mib,
    req_nodes,
    alloc_cpus,
    alloc_nodes,
    node_list,
    constraints,
    priority,
    time_limit_minutes,
    reservation,
    reservation_requested,
    licenses,
    work_dir,
    submit_line,
    std_in,
    std_out,
    std_err,
    comment,
    admin_comment,
    system_comment,
    extra,
    container,
    mcs_label,
    exclusive,
    flags,
    kill_requester,
    failed_node,
    script,
    environment,
});

wire_message!(UsageStat => UsageStat {
    max,
    max_node,
    max_task,
    min,
    min_node,
    min_task,
    total,
    average,
});

wire_message!(StepUsageRecord => StepUsageRecord {
    user_cpu_us,
    system_cpu_us,
    [or_default] cpu_ms,
    [or_default] rss_kib,
    [or_default] vsize_kib,
    [or_default] pages,
    [or_default] disk_read_bytes,
    [or_default] disk_write_bytes,
    energy_joules,
});

wire_message!(StepRecord => StepRecord {
    job_id,
    job_submit,
    attempt,
    step_id,
    name,
    tasks,
    nodes,
    node_list,
    layout,
    start,
    end,
    suspended_secs,
    state,
    exit_status,
    cpus,
    alloc_tres,
    kill_requester,
    submit_line,
    container,
    std_in,
    std_out,
    std_err,
    time_limit_minutes,
    [or_default] usage,
});

wire_message!(ClusterRecord => ClusterRecord {
    id,
    name,
    control_host,
    control_port,
    rpc_version,
    tres,
    node_list,
    classification,
    deleted,
});

wire_message!(AccountRecord => AccountRecord {
    name,
    description,
    organization,
    flags,
    coordinators,
    deleted,
});

wire_enum!(AdminLevel => AdminLevel { None, Operator, Administrator });

wire_message!(UserRecord => UserRecord {
    name,
    admin_level,
    default_accounts,
    coordinator_of,
    deleted,
});

wire_message!(AssociationLimits => AssociationLimits {
    grp_jobs,
    grp_jobs_accrue,
    grp_submit_jobs,
    grp_tres,
    grp_tres_mins,
    grp_tres_run_mins,
    grp_wall,
    max_jobs,
    max_jobs_accrue,
    max_submit_jobs,
    max_tres_per_job,
    max_tres_per_node,
    max_tres_mins_per_job,
    max_tres_run_mins,
    max_wall_per_job,
    min_prio_threshold,
});

wire_message!(AssociationRecord => AssociationRecord {
    id,
    cluster,
    account,
    user,
    partition,
    parent_account,
    shares,
    priority,
    [list] qos,
    qos_delta,
    default_qos,
    is_default,
    [or_default] limits,
    comment,
    deleted,
});

wire_message!(QosRecord => QosRecord {
    id,
    name,
    description,
    flags,
    priority,
    grace_time_secs,
    preempt,
    preempt_mode,
    preempt_exempt_time_secs,
    usage_factor,
    usage_threshold,
    limit_factor,
    grp_jobs,
    grp_jobs_accrue,
    grp_submit_jobs,
    grp_tres,
    grp_tres_mins,
    grp_tres_run_mins,
    grp_wall,
    max_jobs_per_account,
    max_jobs_per_user,
    max_jobs_accrue_per_account,
    max_jobs_accrue_per_user,
    max_submit_jobs_per_account,
    max_submit_jobs_per_user,
    max_tres_per_job,
    max_tres_per_node,
    max_tres_per_account,
    max_tres_per_user,
    max_tres_mins_per_job,
    max_tres_run_mins_per_account,
    max_tres_run_mins_per_user,
    max_wall_per_job,
    min_tres_per_job,
    min_prio_threshold,
    deleted,
});

wire_message!(TresRecord => TresRecord {
    id,
    kind,
    name,
});

wire_message!(TransactionRecord => TransactionRecord {
    id,
    time,
    action,
    actor,
    cluster,
    condition,
    info,
});

wire_message!(WckeyRecord => WckeyRecord {
    id,
    cluster,
    name,
    user,
    is_default,
    deleted,
});

wire_message!(ResourceRecord => ResourceRecord {
    id,
    name,
    server,
    description,
    server_type,
    kind,
    count,
    last_consumed,
    flags,
    clusters,
    deleted,
});

/// Cluster and what it may use.
impl Wire for (String, u32) {
    type Message = v1::ResourceShare;

    fn into_wire(self) -> v1::ResourceShare {
        v1::ResourceShare {
            cluster: self.0,
            allowed: self.1,
        }
    }

    fn from_wire(message: v1::ResourceShare) -> Result<Self, ConvertError> {
        Ok((message.cluster, message.allowed))
    }
}

/// Cluster and account.
impl Wire for (String, String) {
    type Message = v1::DefaultAccount;

    fn into_wire(self) -> v1::DefaultAccount {
        v1::DefaultAccount {
            cluster: self.0,
            account: self.1,
        }
    }

    fn from_wire(message: v1::DefaultAccount) -> Result<Self, ConvertError> {
        Ok((message.cluster, message.account))
    }
}
