//! Which column holds which field, for every record.
//!
//! Only lists; the tables themselves are made by the migrations. Invariant: each list names all columns of its table except
//! `cluster_id`, `created` and what other files of this crate say they keep (hashes of scripts), and a round trip through either
//! database gives the record back (`tests/records.rs`).

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationLimits, AssociationRecord, ClusterRecord, JobRecord,
    NodeEventRecord, QosRecord, ResourceRecord, StepRecord, StepUsageRecord, TransactionRecord,
    TresRecord, UserRecord, WckeyRecord,
};
use sluice_model::ids::{JobId, StepId};
use sluice_model::time::UnixSeconds;

use crate::cell::record;

type Time = UnixSeconds;
type Names = Vec<String>;

record! {
    JobRecord, table "jobs", key ["cluster_id", "job_id", "submit", "attempt"], keep ["script_hash", "environment_hash", "association_id"],
    columns {
        job_id => "job_id": JobId,
        submit => "submit": Time,
        attempt => "attempt": u32,
        array_job_id => "array_job_id": Option<JobId>,
        array_task_id => "array_task_id": Option<u32>,
        array_task_string => "array_task_string": String,
        het_job_id => "het_job_id": Option<JobId>,
        het_job_offset => "het_job_offset": Option<u32>,
        association_id => "association_id": Option<u32>,
        account => "account": String,
        user => "user_name": String,
        uid => "uid": u32,
        gid => "gid": u32,
        group => "group_name": String,
        partition => "partition_name": String,
        qos => "qos": String,
        qos_requested => "qos_requested": String,
        wckey => "wckey": String,
        name => "job_name": String,
        eligible => "eligible": Option<Time>,
        start => "time_start": Option<Time>,
        end => "time_end": Option<Time>,
        suspended_secs => "suspended_secs": u64,
        state => "state": u32,
        state_flags => "state_flags": u32,
        exit_status => "exit_status": i32,
        derived_exit_status => "derived_exit_status": i32,
        reason => "reason": String,
        req_tres => "req_tres": String,
        alloc_tres => "alloc_tres": String,
        req_cpus => "req_cpus": u32,
        req_mem_mib => "req_mem_mib": u64,
        req_nodes => "req_nodes": u32,
        alloc_cpus => "alloc_cpus": u32,
        alloc_nodes => "alloc_nodes": u32,
        node_list => "node_list": String,
        constraints => "constraints": String,
        priority => "priority": u32,
        time_limit_minutes => "time_limit_minutes": Option<u32>,
        reservation => "reservation": String,
        reservation_requested => "reservation_requested": String,
        licenses => "licenses": String,
        work_dir => "work_dir": String,
        submit_line => "submit_line": String,
        std_in => "std_in": String,
        std_out => "std_out": String,
        std_err => "std_err": String,
        comment => "comment": String,
        admin_comment => "admin_comment": String,
        system_comment => "system_comment": String,
        extra => "extra": String,
        container => "container": String,
        mcs_label => "mcs_label": String,
        exclusive => "exclusive": String,
        flags => "flags": u32,
        kill_requester => "kill_requester": Option<u32>,
        failed_node => "failed_node": String,
    }
    nested {}
    rest { cluster: String::new(), script: None, environment: None }
}

record! {
    StepRecord, table "steps", key ["cluster_id", "job_id", "job_submit", "attempt", "step_id"], keep [],
    columns {
        job_id => "job_id": JobId,
        job_submit => "job_submit": Time,
        attempt => "attempt": u32,
        step_id => "step_id": StepId,
        name => "step_name": String,
        tasks => "tasks": u32,
        nodes => "nodes": u32,
        node_list => "node_list": String,
        layout => "layout": String,
        start => "time_start": Time,
        end => "time_end": Option<Time>,
        suspended_secs => "suspended_secs": u64,
        state => "state": u32,
        exit_status => "exit_status": i32,
        cpus => "cpus": u32,
        alloc_tres => "alloc_tres": String,
        kill_requester => "kill_requester": Option<u32>,
        submit_line => "submit_line": String,
        container => "container": String,
        std_in => "std_in": String,
        std_out => "std_out": String,
        std_err => "std_err": String,
        time_limit_minutes => "time_limit_minutes": Option<u32>,
        usage => "usage": StepUsageRecord,
    }
    nested {}
    rest {}
}

record! {
    NodeEventRecord, table "node_events", key ["cluster_id", "node", "time_start"], keep [],
    columns {
        node => "node": String,
        time_start => "time_start": Time,
        time_end => "time_end": Option<Time>,
        state => "state": String,
        reason => "reason": String,
        user => "user_name": String,
        tres => "tres": String,
    }
    nested {}
    rest {}
}

record! {
    ClusterRecord, table "clusters", key ["name"], keep [],
    columns {
        id => "id": i64,
        name => "name": String,
        control_host => "control_host": String,
        control_port => "control_port": u32,
        rpc_version => "rpc_version": u32,
        tres => "tres": String,
        node_list => "node_list": String,
        classification => "classification": String,
        deleted => "deleted": bool,
    }
    nested {}
    rest {}
}

record! {
    AccountRecord, table "accounts", key ["name"], keep [],
    columns {
        name => "name": String,
        description => "description": String,
        organization => "organization": String,
        flags => "flags": String,
        deleted => "deleted": bool,
    }
    nested {}
    rest { coordinators: Vec::new() }
}

record! {
    UserRecord, table "users", key ["name"], keep [],
    columns {
        name => "name": String,
        admin_level => "admin_level": AdminLevel,
        deleted => "deleted": bool,
    }
    nested {}
    rest { default_accounts: Vec::new(), coordinator_of: Vec::new() }
}

record! {
    AssociationRecord, table "associations", key ["cluster_id", "account", "user_name", "partition_name"], keep [],
    columns {
        account => "account": String,
        user => "user_name": String,
        partition => "partition_name": String,
        parent_account => "parent_account": String,
        shares => "shares": Option<u32>,
        priority => "priority": Option<u32>,
        qos => "qos": Option<Names>,
        qos_delta => "qos_delta": Names,
        default_qos => "default_qos": String,
        is_default => "is_default": bool,
        comment => "comment": String,
        deleted => "deleted": bool,
    }
    nested {
        limits: AssociationLimits {
            grp_jobs => "grp_jobs": Option<u32>,
            grp_jobs_accrue => "grp_jobs_accrue": Option<u32>,
            grp_submit_jobs => "grp_submit_jobs": Option<u32>,
            grp_tres => "grp_tres": String,
            grp_tres_mins => "grp_tres_mins": String,
            grp_tres_run_mins => "grp_tres_run_mins": String,
            grp_wall => "grp_wall": Option<u32>,
            max_jobs => "max_jobs": Option<u32>,
            max_jobs_accrue => "max_jobs_accrue": Option<u32>,
            max_submit_jobs => "max_submit_jobs": Option<u32>,
            max_tres_per_job => "max_tres_per_job": String,
            max_tres_per_node => "max_tres_per_node": String,
            max_tres_mins_per_job => "max_tres_mins_per_job": String,
            max_tres_run_mins => "max_tres_run_mins": String,
            max_wall_per_job => "max_wall_per_job": Option<u32>,
            min_prio_threshold => "min_prio_threshold": Option<u32>,
        }
    }
    rest { id: 0, cluster: String::new() }
}

record! {
    QosRecord, table "qos", key ["name"], keep [],
    columns {
        name => "name": String,
        description => "description": String,
        flags => "flags": String,
        priority => "priority": u32,
        grace_time_secs => "grace_time_secs": u32,
        preempt => "preempt": Names,
        preempt_mode => "preempt_mode": String,
        preempt_exempt_time_secs => "preempt_exempt_time_secs": Option<u32>,
        usage_factor => "usage_factor": f64,
        usage_threshold => "usage_threshold": Option<f64>,
        limit_factor => "limit_factor": Option<f64>,
        grp_jobs => "grp_jobs": Option<u32>,
        grp_jobs_accrue => "grp_jobs_accrue": Option<u32>,
        grp_submit_jobs => "grp_submit_jobs": Option<u32>,
        grp_tres => "grp_tres": String,
        grp_tres_mins => "grp_tres_mins": String,
        grp_tres_run_mins => "grp_tres_run_mins": String,
        grp_wall => "grp_wall": Option<u32>,
        max_jobs_per_account => "max_jobs_per_account": Option<u32>,
        max_jobs_per_user => "max_jobs_per_user": Option<u32>,
        max_jobs_accrue_per_account => "max_jobs_accrue_per_account": Option<u32>,
        max_jobs_accrue_per_user => "max_jobs_accrue_per_user": Option<u32>,
        max_submit_jobs_per_account => "max_submit_jobs_per_account": Option<u32>,
        max_submit_jobs_per_user => "max_submit_jobs_per_user": Option<u32>,
        max_tres_per_job => "max_tres_per_job": String,
        max_tres_per_node => "max_tres_per_node": String,
        max_tres_per_account => "max_tres_per_account": String,
        max_tres_per_user => "max_tres_per_user": String,
        max_tres_mins_per_job => "max_tres_mins_per_job": String,
        max_tres_run_mins_per_account => "max_tres_run_mins_per_account": String,
        max_tres_run_mins_per_user => "max_tres_run_mins_per_user": String,
        max_wall_per_job => "max_wall_per_job": Option<u32>,
        min_tres_per_job => "min_tres_per_job": String,
        min_prio_threshold => "min_prio_threshold": Option<u32>,
        deleted => "deleted": bool,
    }
    nested {}
    rest { id: 0 }
}

record! {
    WckeyRecord, table "wckeys", key ["id"], keep [],
    columns {
        id => "id": u32,
        name => "name": String,
        user => "user_name": String,
        is_default => "is_default": bool,
        deleted => "deleted": bool,
    }
    nested {}
    rest { cluster: String::new() }
}

record! {
    ResourceRecord, table "resources", key ["id"], keep [],
    columns {
        id => "id": u32,
        name => "name": String,
        server => "server": String,
        description => "description": String,
        server_type => "server_type": String,
        kind => "kind": String,
        count => "count": u32,
        last_consumed => "last_consumed": u32,
        flags => "flags": String,
        deleted => "deleted": bool,
    }
    nested {}
    rest { clusters: Vec::new() }
}

record! {
    TresRecord, table "tres", key ["id"], keep [],
    columns {
        id => "id": u32,
        kind => "kind": String,
        name => "name": String,
    }
    nested {}
    rest {}
}

record! {
    TransactionRecord, table "transactions", key ["id"], keep [],
    columns {
        id => "id": i64,
        time => "time_at": Time,
        action => "action": String,
        actor => "actor": String,
        cluster => "cluster": String,
        condition => "condition": String,
        info => "info": String,
    }
    nested {}
    rest {}
}
