//! Tables of sacctmgr: clusters, accounts, users, associations, QOS.
//!
//! A column has a heading, a width (negative = to the left) and a text per record; names are matched in any case and may be
//! shortened. Source: sacctmgr(1) and its output.

use sluice_model::accounting::{
    AccountRecord, AssociationRecord, ClusterRecord, QosRecord, UserRecord,
};
use sluice_model::time::format_duration_full;
use sluice_model::tres::{Tres, TresKind};

/// What a line is made from; what does not apply is absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry<'a> {
    /// Account.
    pub account: Option<&'a AccountRecord>,
    /// User.
    pub user: Option<&'a UserRecord>,
    /// Cluster.
    pub cluster: Option<&'a ClusterRecord>,
    /// Association.
    pub association: Option<&'a AssociationRecord>,
    /// QOS.
    pub qos: Option<&'a QosRecord>,
    /// Depth in the tree, when it is shown as one.
    pub depth: Option<usize>,
    /// Id of the row above, when it was looked for.
    pub parent_id: Option<u32>,
    /// Default workload key of the user.
    pub default_wckey: Option<&'a str>,
}

/// A column.
#[derive(Debug)]
pub struct EntryField {
    /// Heading; also the name in `format=`, without blanks.
    pub header: &'static str,
    /// Other names in `format=`, separated by blanks.
    pub names: &'static str,
    /// Width.
    pub width: i32,
    /// Text.
    pub value: fn(&Entry<'_>) -> String,
}

/// Columns of `show account`.
pub const ACCOUNT_COLUMNS: &str = "Account,Descr,Org";
/// More columns of `show account withassoc`.
pub const ACCOUNT_ASSOC_COLUMNS: &str = "Cluster,ParentName,User,Share,Priority,GrpJobs,GrpNodes,GrpCPUs,GrpMem,GrpSubmit,\
GrpWall,GrpCPUMins,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefQOS";
/// Columns of `show user`.
pub const USER_COLUMNS: &str = "User,DefAcct,Admin";
/// More columns of `show user withassoc`.
pub const USER_ASSOC_COLUMNS: &str = "Cluster,Account,Partition,Share,Priority,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefQOS";
/// Columns of `show association`.
pub const ASSOCIATION_COLUMNS: &str = "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,\
GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefQOS,GrpTRESRunMins";
/// Columns of `show cluster`.
pub const CLUSTER_COLUMNS: &str = "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,DefQOS";
/// Columns of `show qos`.
pub const QOS_COLUMNS: &str = "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags%40,UsageThres,UsageFactor,\
GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,\
MaxSubmitPU,MaxTRESPA,MaxTRESRunMinsPA,MaxTRESRunMinsPU,MaxJobsPA,MaxSubmitPA,MinTRES";

const fn field(
    header: &'static str,
    names: &'static str,
    width: i32,
    value: fn(&Entry<'_>) -> String,
) -> EntryField {
    EntryField {
        header,
        names,
        width,
        value,
    }
}

fn number(value: Option<u32>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn minutes(value: Option<u32>) -> String {
    value
        .map(|minutes| format_duration_full(i64::from(minutes) * 60))
        .unwrap_or_default()
}

/// A value of the association, or else of the QOS.
fn limit(
    entry: &Entry<'_>,
    of_association: fn(&AssociationRecord) -> String,
    of_qos: fn(&QosRecord) -> String,
) -> String {
    match (entry.association, entry.qos) {
        (Some(association), _) => of_association(association),
        (None, Some(qos)) => of_qos(qos),
        _ => String::new(),
    }
}

/// One resource out of a list of limits.
fn one_of(list: &str, kind: TresKind) -> String {
    list.parse::<Tres>()
        .ok()
        .filter(|tres| tres.contains(&kind))
        .map(|tres| tres.get(&kind).to_string())
        .unwrap_or_default()
}

fn group_limit(entry: &Entry<'_>, kind: TresKind) -> String {
    let list = entry.association.map(|row| row.limits.grp_tres.as_str());
    one_of(list.unwrap_or_default(), kind)
}

fn job_limit(entry: &Entry<'_>, kind: TresKind) -> String {
    let list = entry
        .association
        .map(|row| row.limits.max_tres_per_job.as_str());
    one_of(list.unwrap_or_default(), kind)
}

fn tres(text: &str) -> String {
    text.parse::<sluice_model::tres::Tres>()
        .map_or_else(|_| text.to_string(), |tres| tres.to_string())
}

fn account(entry: &Entry<'_>) -> String {
    let name = entry
        .association
        .map(|association| association.account.clone())
        .or_else(|| entry.account.map(|account| account.name.clone()))
        .unwrap_or_default();
    format!("{}{name}", " ".repeat(entry.depth.unwrap_or(0)))
}

fn user(entry: &Entry<'_>) -> String {
    entry
        .user
        .map(|user| user.name.clone())
        .or_else(|| {
            entry
                .association
                .map(|association| association.user.clone())
        })
        .unwrap_or_default()
}

/// The user's account on the cluster of the line, else on the first one.
fn default_account(entry: &Entry<'_>) -> String {
    let Some(user) = entry.user else {
        return String::new();
    };
    let wanted = entry
        .association
        .map(|association| association.cluster.as_str());
    user.default_accounts
        .iter()
        .find(|(cluster, _)| wanted.is_none_or(|wanted| wanted == cluster))
        .map(|(_, account)| account.clone())
        .unwrap_or_default()
}

/// The table of columns.
pub static FIELDS: &[EntryField] = &[
    field("Account", "account acct", 10, account),
    field("Admin", "adminlevel admin", 9, |entry| {
        entry
            .user
            .map(|user| user.admin_level.as_str().to_string())
            .unwrap_or_default()
    }),
    field("Cluster", "cluster", 10, |entry| {
        entry
            .association
            .map(|association| association.cluster.clone())
            .or_else(|| entry.cluster.map(|cluster| cluster.name.clone()))
            .unwrap_or_default()
    }),
    field("ControlHost", "controlhost", 15, |entry| {
        entry
            .cluster
            .map(|c| c.control_host.clone())
            .unwrap_or_default()
    }),
    field("ControlPort", "controlport", 12, |entry| {
        entry
            .cluster
            .map(|cluster| cluster.control_port.to_string())
            .unwrap_or_default()
    }),
    field(
        "Coord Accounts",
        "coordinators coordaccounts",
        20,
        |entry| {
            let of_user = entry.user.map(|user| user.coordinator_of.join(","));
            of_user
                .or_else(|| entry.account.map(|account| account.coordinators.join(",")))
                .unwrap_or_default()
        },
    ),
    field("Def Acct", "defaultaccount defacct", 10, default_account),
    field("Def QOS", "defaultqos defqos", 9, |entry| {
        entry
            .association
            .map(|a| a.default_qos.clone())
            .unwrap_or_default()
    }),
    field("Descr", "description descr", 20, |entry| {
        let of_account = entry.account.map(|account| account.description.clone());
        of_account
            .or_else(|| entry.qos.map(|qos| qos.description.clone()))
            .unwrap_or_default()
    }),
    field("Flags", "flags", 20, |entry| {
        let of_account = entry.account.map(|account| account.flags.clone());
        entry
            .qos
            .map(|qos| qos.flags.clone())
            .or(of_account)
            .unwrap_or_default()
    }),
    field("GraceTime", "gracetime", 10, |entry| {
        entry
            .qos
            .map(|qos| format_duration_full(i64::from(qos.grace_time_secs)))
            .unwrap_or_default()
    }),
    field("Classification", "classification", 14, |e| {
        e.cluster
            .map(|cluster| cluster.classification.clone())
            .unwrap_or_default()
    }),
    field("Comment", "comment", 20, |e| {
        e.association
            .map(|row| row.comment.clone())
            .unwrap_or_default()
    }),
    field("Def WCKey", "defaultwckey defwckey", 10, |e| {
        e.default_wckey.unwrap_or_default().to_string()
    }),
    field("GrpCPURunMins", "grpcpurunmins", 13, |e| {
        let list = e
            .association
            .map(|row| row.limits.grp_tres_run_mins.as_str());
        one_of(list.unwrap_or_default(), TresKind::Cpu)
    }),
    field("LimitFactor", "limitfactor", 11, |e| {
        let factor = e.qos.and_then(|qos| qos.limit_factor);
        factor
            .map(|value| format!("{value:.6}"))
            .unwrap_or_default()
    }),
    field("MaxJobsAccrue", "maxjobsaccrue", 13, |e| {
        e.association
            .map(|row| number(row.limits.max_jobs_accrue))
            .unwrap_or_default()
    }),
    field(
        "MaxJobsAccruePA",
        "maxjobsaccrueperaccount maxjobsaccruepa",
        15,
        |e| {
            e.qos
                .map(|qos| number(qos.max_jobs_accrue_per_account))
                .unwrap_or_default()
        },
    ),
    field(
        "MaxJobsAccruePU",
        "maxjobsaccrueperuser maxjobsaccruepu",
        15,
        |e| {
            e.qos
                .map(|qos| number(qos.max_jobs_accrue_per_user))
                .unwrap_or_default()
        },
    ),
    field("MaxTRESRunMinsPU", "maxtresrunmins", 15, |e| {
        e.association
            .map(|row| tres(&row.limits.max_tres_run_mins))
            .unwrap_or_default()
    }),
    field(
        "MinPrioThres",
        "minprioritythreshold minpriothreshold minpriothres",
        12,
        |e| {
            limit(
                e,
                |row| number(row.limits.min_prio_threshold),
                |qos| number(qos.min_prio_threshold),
            )
        },
    ),
    field("NodeCount", "nodecount", 9, |e| {
        let count = e
            .cluster
            .and_then(|cluster| cluster.tres.parse::<Tres>().ok());
        count
            .map(|tres| tres.get(&TresKind::Node).to_string())
            .unwrap_or_default()
    }),
    field("ParentID", "parentid", 8, |e| {
        e.parent_id.map(|id| id.to_string()).unwrap_or_default()
    }),
    field("QOS_RAW", "qosrawlevel qosraw qos_raw", 10, |e| {
        let list = e.association.map(|row| match &row.qos {
            Some(names) => names.join(","),
            None => row.qos_delta.join(","),
        });
        list.unwrap_or_default()
    }),
    field("GrpCPUs", "grpcpus", 8, |e| group_limit(e, TresKind::Cpu)),
    field("GrpMem", "grpmemory grpmem", 7, |e| {
        group_limit(e, TresKind::Mem)
    }),
    field("GrpNodes", "grpnodes", 8, |e| {
        group_limit(e, TresKind::Node)
    }),
    field("GrpCPUMins", "grpcpumins", 11, |e| {
        let list = e.association.map(|row| row.limits.grp_tres_mins.as_str());
        one_of(list.unwrap_or_default(), TresKind::Cpu)
    }),
    field("MaxCPUs", "maxcpusperjob maxcpus", 8, |e| {
        job_limit(e, TresKind::Cpu)
    }),
    field("MaxNodes", "maxnodesperjob maxnodes", 8, |e| {
        job_limit(e, TresKind::Node)
    }),
    field("MaxCPUMins", "maxcpuminsperjob maxcpumins", 11, |e| {
        let list = e
            .association
            .map(|row| row.limits.max_tres_mins_per_job.as_str());
        one_of(list.unwrap_or_default(), TresKind::Cpu)
    }),
    field("GrpJobs", "grpjobs", 7, |e| {
        limit(e, |a| number(a.limits.grp_jobs), |q| number(q.grp_jobs))
    }),
    field("GrpJobsAccrue", "grpjobsaccrue", 13, |e| {
        limit(
            e,
            |a| number(a.limits.grp_jobs_accrue),
            |q| number(q.grp_jobs_accrue),
        )
    }),
    field("GrpSubmit", "grpsubmitjobs grpsubmit", 9, |e| {
        limit(
            e,
            |a| number(a.limits.grp_submit_jobs),
            |q| number(q.grp_submit_jobs),
        )
    }),
    field("GrpTRES", "grptres", 13, |e| {
        limit(e, |a| tres(&a.limits.grp_tres), |q| tres(&q.grp_tres))
    }),
    field("GrpTRESMins", "grptresmins", 13, |e| {
        limit(
            e,
            |a| tres(&a.limits.grp_tres_mins),
            |q| tres(&q.grp_tres_mins),
        )
    }),
    field("GrpTRESRunMins", "grptresrunmins", 13, |e| {
        limit(
            e,
            |a| tres(&a.limits.grp_tres_run_mins),
            |q| tres(&q.grp_tres_run_mins),
        )
    }),
    field("GrpWall", "grpwall", 11, |e| {
        limit(e, |a| minutes(a.limits.grp_wall), |q| minutes(q.grp_wall))
    }),
    field("ID", "id", 6, |e| {
        let of_association = e.association.map(|association| association.id.to_string());
        of_association
            .or_else(|| e.qos.map(|qos| qos.id.to_string()))
            .or_else(|| e.cluster.map(|cluster| cluster.id.to_string()))
            .unwrap_or_default()
    }),
    field("MaxJobs", "maxjobs", 7, |e| {
        limit(
            e,
            |a| number(a.limits.max_jobs),
            |q| number(q.max_jobs_per_user),
        )
    }),
    field("MaxJobsPA", "maxjobsperaccount maxjobspa", 9, |e| {
        limit(e, |_| String::new(), |q| number(q.max_jobs_per_account))
    }),
    field("MaxJobsPU", "maxjobsperuser maxjobspu", 9, |e| {
        limit(e, |_| String::new(), |q| number(q.max_jobs_per_user))
    }),
    field("MaxSubmit", "maxsubmitjobs maxsubmit", 9, |e| {
        limit(
            e,
            |a| number(a.limits.max_submit_jobs),
            |q| number(q.max_submit_jobs_per_user),
        )
    }),
    field(
        "MaxSubmitPA",
        "maxsubmitjobsperaccount maxsubmitpa",
        11,
        |e| {
            limit(
                e,
                |_| String::new(),
                |q| number(q.max_submit_jobs_per_account),
            )
        },
    ),
    field("MaxSubmitPU", "maxsubmitjobsperuser maxsubmitpu", 11, |e| {
        limit(e, |_| String::new(), |q| number(q.max_submit_jobs_per_user))
    }),
    field("MaxTRES", "maxtresperjob maxtrespj maxtres", 13, |e| {
        limit(
            e,
            |a| tres(&a.limits.max_tres_per_job),
            |q| tres(&q.max_tres_per_job),
        )
    }),
    field("MaxTRESMins", "maxtresminsperjob maxtresmins", 13, |e| {
        limit(
            e,
            |a| tres(&a.limits.max_tres_mins_per_job),
            |q| tres(&q.max_tres_mins_per_job),
        )
    }),
    field("MaxTRESPA", "maxtresperaccount maxtrespa", 13, |e| {
        limit(e, |_| String::new(), |q| tres(&q.max_tres_per_account))
    }),
    field("MaxTRESPU", "maxtresperuser maxtrespu", 13, |e| {
        limit(e, |_| String::new(), |q| tres(&q.max_tres_per_user))
    }),
    field("MaxTRESPerNode", "maxtrespernode maxtrespn", 14, |e| {
        limit(
            e,
            |a| tres(&a.limits.max_tres_per_node),
            |q| tres(&q.max_tres_per_node),
        )
    }),
    field(
        "MaxTRESRunMinsPA",
        "maxtresrunminsperaccount maxtresrunminspa",
        22,
        |e| {
            limit(
                e,
                |_| String::new(),
                |q| tres(&q.max_tres_run_mins_per_account),
            )
        },
    ),
    field(
        "MaxTRESRunMinsPU",
        "maxtresrunminsperuser maxtresrunminspu",
        22,
        |e| {
            limit(
                e,
                |_| String::new(),
                |q| tres(&q.max_tres_run_mins_per_user),
            )
        },
    ),
    field("MaxWall", "maxwalldurationperjob maxwall", 11, |e| {
        limit(
            e,
            |a| minutes(a.limits.max_wall_per_job),
            |q| minutes(q.max_wall_per_job),
        )
    }),
    field("MinTRES", "mintresperjob mintres", 13, |e| {
        limit(e, |_| String::new(), |q| tres(&q.min_tres_per_job))
    }),
    field("Name", "name", 10, |e| {
        let of_qos = e.qos.map(|qos| qos.name.clone());
        of_qos
            .or_else(|| e.user.map(|user| user.name.clone()))
            .or_else(|| e.account.map(|account| account.name.clone()))
            .or_else(|| e.cluster.map(|cluster| cluster.name.clone()))
            .unwrap_or_default()
    }),
    field("NodeNames", "nodenames", -20, |e| {
        e.cluster
            .map(|cluster| cluster.node_list.clone())
            .unwrap_or_default()
    }),
    field("Org", "organization org", 20, |e| {
        e.account
            .map(|account| account.organization.clone())
            .unwrap_or_default()
    }),
    field("ParentName", "parentname parent", 10, |e| {
        e.association
            .map(|association| association.parent_account.clone())
            .unwrap_or_default()
    }),
    field("Partition", "partition", 10, |e| {
        e.association
            .map(|a| a.partition.clone())
            .unwrap_or_default()
    }),
    field("Preempt", "preempt", 10, |e| {
        e.qos.map(|qos| qos.preempt.join(",")).unwrap_or_default()
    }),
    field("PreemptMode", "preemptmode", 11, |e| {
        e.qos
            .map(|qos| {
                if qos.preempt_mode.is_empty() {
                    "cluster".to_string()
                } else {
                    qos.preempt_mode.clone()
                }
            })
            .unwrap_or_default()
    }),
    field("PreemptExemptTime", "preemptexempttime", 19, |e| {
        let seconds = e.qos.and_then(|qos| qos.preempt_exempt_time_secs);
        seconds
            .map(|seconds| format_duration_full(i64::from(seconds)))
            .unwrap_or_default()
    }),
    field("Priority", "priority", 10, |e| {
        limit(e, |a| number(a.priority), |q| q.priority.to_string())
    }),
    field("QOS", "qos qoslevel", 20, |e| {
        e.association
            .and_then(|association| association.qos.as_ref())
            .map(|list| list.join(","))
            .unwrap_or_default()
    }),
    field("RPC", "rpc", 5, |e| {
        e.cluster
            .map(|cluster| cluster.rpc_version.to_string())
            .unwrap_or_default()
    }),
    field("Share", "fairshare share", 9, |e| {
        e.association
            .map(|association| {
                association
                    .shares
                    .map_or_else(|| "parent".to_string(), |shares| shares.to_string())
            })
            .unwrap_or_default()
    }),
    field("TRES", "tres", 20, |e| {
        e.cluster
            .map(|cluster| tres(&cluster.tres))
            .unwrap_or_default()
    }),
    field("UsageFactor", "usagefactor", 11, |e| {
        e.qos
            .map(|qos| format!("{:.6}", qos.usage_factor))
            .unwrap_or_default()
    }),
    field("UsageThres", "usagethreshold usagethres", 10, |e| {
        e.qos
            .and_then(|qos| qos.usage_threshold)
            .map(|value| format!("{value:.6}"))
            .unwrap_or_default()
    }),
    field("User", "user", 10, user),
];

/// A chosen column.
#[derive(Debug, Clone, Copy)]
pub struct EntryColumn {
    /// The field.
    pub field: &'static EntryField,
    /// Width.
    pub width: i32,
}

/// Reads a list of columns, `name%width`; the name that does not exist is the error.
pub fn columns(list: &str) -> Result<Vec<EntryColumn>, String> {
    list.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (name, width) = match item.split_once('%') {
                Some((name, width)) => {
                    (name, width.parse::<i32>().ok().filter(|width| *width != 0))
                }
                None => (item, None),
            };
            let wanted = name.to_ascii_lowercase();
            let names = |field: &'static EntryField| field.names.split(' ');
            let field = FIELDS
                .iter()
                .find(|field| names(field).any(|known| known == wanted))
                .or_else(|| {
                    FIELDS
                        .iter()
                        .find(|field| names(field).any(|known| known.starts_with(&wanted)))
                })
                .ok_or_else(|| name.to_string())?;
            Ok(EntryColumn {
                field,
                width: width.unwrap_or(field.width),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sacct::{TableStyle, table_header, table_line};

    fn table(list: &str, entries: &[Entry<'_>], style: &TableStyle) -> String {
        let columns = columns(list).expect("known columns");
        let names: Vec<(String, i32)> = columns
            .iter()
            .map(|c| (c.field.header.to_string(), c.width))
            .collect();
        let mut text = table_header(&names, style);
        for entry in entries {
            let values: Vec<(String, i32)> = columns
                .iter()
                .map(|c| ((c.field.value)(entry), c.width))
                .collect();
            text.push_str(&table_line(&values, style));
            text.push('\n');
        }
        text
    }

    /// Accounts and users, as a real sacctmgr prints them.
    #[test]
    fn accounts_and_users() {
        let bio = AccountRecord {
            name: "bio".to_string(),
            description: "bio".to_string(),
            organization: "lab".to_string(),
            ..AccountRecord::default()
        };
        assert_eq!(
            table(
                ACCOUNT_COLUMNS,
                &[Entry {
                    account: Some(&bio),
                    ..Entry::default()
                }],
                &TableStyle::Padded
            ),
            "   Account                Descr                  Org \n\
             ---------- -------------------- -------------------- \n       bio                  bio                  lab \n"
        );
        let root = UserRecord {
            name: "root".to_string(),
            admin_level: sluice_model::accounting::AdminLevel::Administrator,
            default_accounts: vec![("oracle".to_string(), "root".to_string())],
            ..UserRecord::default()
        };
        assert_eq!(
            table(
                USER_COLUMNS,
                &[Entry {
                    user: Some(&root),
                    ..Entry::default()
                }],
                &TableStyle::Padded
            ),
            "      User   Def Acct     Admin \n---------- ---------- --------- \n      root       root Administ+ \n"
        );
    }

    /// Associations with a trailing bar, as a real sacctmgr -p prints them.
    #[test]
    fn associations() {
        let mut bio = AssociationRecord::new("oracle", "bio", "");
        bio.shares = Some(10);
        bio.limits.grp_tres = "cpu=256".to_string();
        bio.qos = Some(vec!["normal".to_string()]);
        let style = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: true,
        };
        assert_eq!(
            table(
                ASSOCIATION_COLUMNS,
                &[Entry {
                    association: Some(&bio),
                    ..Entry::default()
                }],
                &style
            ),
            "Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|\
             MaxTRESPerNode|MaxSubmit|MaxWall|MaxTRESMins|QOS|Def QOS|GrpTRESRunMins|\n\
             oracle|bio|||10|||cpu=256||||||||||normal|||\n"
        );
    }

    /// QOS columns, as a real sacctmgr -P prints them.
    #[test]
    fn qos() {
        let limited = QosRecord {
            name: "limited".to_string(),
            flags: "DenyOnLimit".to_string(),
            max_jobs_per_user: Some(2),
            max_submit_jobs_per_user: Some(4),
            max_tres_per_user: "cpu=16".to_string(),
            ..QosRecord::default()
        };
        let style = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        };
        let text = table(
            "name,priority,flags,preempt,preemptmode,maxjobspu,maxsubmitpu,maxtrespu,grptres,usagefactor,gracetime",
            &[Entry {
                qos: Some(&limited),
                ..Entry::default()
            }],
            &style,
        );
        assert!(
            text.ends_with("\nlimited|0|DenyOnLimit||cluster|2|4|cpu=16||1.000000|00:00:00\n"),
            "{text}"
        );
        assert_eq!(columns("lft").err(), Some("lft".to_string()));
    }
}
