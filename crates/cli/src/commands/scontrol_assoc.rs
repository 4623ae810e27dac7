//! `scontrol show assoc_mgr`: users, associations and QOS as the controller holds them, with what was used and what jobs use now.
//!
//! `N` is "no limit"; what stands in brackets is in use.
//! Source: scontrol(1) show assoc_mgr and its output.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sluice_model::accounting::{AssociationRecord, QosRecord, UserRecord};
use sluice_proto::v1;

use super::caller::uid_of;
use super::sacctmgr_show::records;
use super::scontrol::Context;
use super::scontrol_assoc_filter::{Filter, passes};
use crate::client::{Client, ClientError};
use crate::format::sshare::{ancestors, parents};
use crate::output;

/// Counts by name.
type Counts = BTreeMap<String, u64>;

fn by_name(counts: &[v1::TresCount]) -> Counts {
    counts
        .iter()
        .map(|one| (one.name.clone(), one.count))
        .collect()
}

/// Counts by name, in minutes.
fn minutes(counts: &[v1::TresCount]) -> Counts {
    counts
        .iter()
        .map(|one| (one.name.clone(), one.count / 60))
        .collect()
}

/// What was used by name, in whole minutes.
fn used_minutes(used: &v1::UsedSoFar) -> Counts {
    used.tres
        .iter()
        .map(|one| (one.name.clone(), (one.seconds / 60.0) as u64))
        .collect()
}

/// `limit(used)` of wall time; without a limit `N(used)`.
fn wall(limit: Option<u32>, used: &v1::UsedSoFar) -> String {
    let limit = limit.map_or("N".to_string(), |wall| wall.to_string());
    format!("{limit}({:.2})", used.wall_secs / 60.0)
}

/// `limit(used)`; without a limit `N(used)`.
fn counted(limit: Option<u32>, used: u32) -> String {
    format!(
        "{}({used})",
        limit.map_or("N".to_string(), |limit| limit.to_string())
    )
}

/// `limit(used)`; without a limit nothing.
fn if_limited(limit: Option<u32>, used: u32) -> String {
    limit.map_or_else(String::new, |limit| format!("{limit}({used})"))
}

fn if_set(limit: Option<u32>) -> String {
    limit.map_or_else(String::new, |limit| limit.to_string())
}

/// The number shown of a user that the system does not know.
const NO_UID: u32 = u32::MAX - 1;

/// Uids by name; the system is asked for each name once.
#[derive(Default)]
struct Uids(BTreeMap<String, u32>);

impl Uids {
    /// `name(uid)`.
    fn shown(&mut self, name: &str) -> String {
        let uid = match self.0.get(name) {
            Some(uid) => *uid,
            None => {
                let uid = uid_of(name).unwrap_or(NO_UID);
                self.0.insert(name.to_owned(), uid);
                uid
            }
        };
        format!("{name}({uid})")
    }
}

/// The tree of accounts.
struct Accounts<'r> {
    /// The account above each.
    parents: BTreeMap<String, String>,
    /// Ids of their own rows.
    ids: BTreeMap<&'r str, u32>,
}

impl<'r> Accounts<'r> {
    fn of(associations: &'r [Share]) -> Self {
        let rows = associations.iter().map(|share| &share.row);
        let mut ids = BTreeMap::new();
        for row in rows.clone().filter(|row| row.user.is_empty()) {
            ids.entry(row.account.as_str()).or_insert(row.id);
        }
        Self {
            parents: parents(rows),
            ids,
        }
    }
}

/// An association and what the controller says about it.
struct Share {
    row: AssociationRecord,
    share: v1::AssociationShare,
}

/// A QOS and what the controller says about it.
struct Qos {
    record: QosRecord,
    used: v1::QosUse,
}

/// Everything that is shown.
struct Records {
    cluster: String,
    users: Vec<UserRecord>,
    /// In tree order.
    associations: Vec<Share>,
    qos: Vec<Qos>,
    /// TRES in Slurm's order.
    tres: Vec<String>,
}

impl Records {
    /// `cpu=N(17),mem=N(3700),…`: limit by name, use by name.
    fn tres_line(&self, limits: &str, used: &BTreeMap<String, u64>) -> String {
        let limits: BTreeMap<&str, &str> = limits
            .split(',')
            .filter_map(|item| item.split_once('='))
            .collect();
        let items = self.tres.iter().map(|name| {
            let limit = limits.get(name.as_str()).copied().unwrap_or("N");
            format!("{name}={limit}({})", used.get(name).copied().unwrap_or(0))
        });
        items.collect::<Vec<_>>().join(",")
    }

    fn user_lines(&self, filter: &Filter, uids: &mut Uids) -> String {
        let mut text = String::new();
        for user in self
            .users
            .iter()
            .filter(|user| passes(&filter.users, &user.name))
        {
            let account = user
                .default_accounts
                .iter()
                .find(|(cluster, _)| *cluster == self.cluster)
                .map_or("", |(_, account)| account.as_str());
            let level = user.admin_level.as_str();
            let _ = writeln!(
                text,
                "UserName={} DefAccount={account} DefWckey= AdminLevel={level}",
                uids.shown(&user.name)
            );
        }
        text
    }

    fn lineage(row: &AssociationRecord, parents: &BTreeMap<String, String>) -> String {
        let mut path = ancestors(&row.account, parents);
        path.retain(|account| account != "root" && !account.is_empty());
        path.reverse();
        let mut text = String::from("/");
        for account in path {
            let _ = write!(text, "{account}/");
        }
        if !row.user.is_empty() {
            let _ = write!(text, "0-{}/", row.user);
        }
        text
    }

    fn association(&self, share: &Share, accounts: &Accounts<'_>, uids: &mut Uids) -> String {
        let (row, share) = (&share.row, &share.share);
        let used = share.used.clone().unwrap_or_default();
        let now = share.now.clone().unwrap_or_default();
        let limits = &row.limits;
        let shares = row
            .shares
            .map_or("parent".to_string(), |shares| shares.to_string());
        let above = row.parent_account.as_str();
        let (user, parent) = if row.user.is_empty() {
            let id = accounts.ids.get(above);
            let parent = id.map_or_else(String::new, |id| format!("{above}({id})"));
            (String::new(), parent)
        } else {
            (uids.shown(&row.user), String::new())
        };
        let comment = if row.comment.is_empty() {
            "(null)"
        } else {
            &row.comment
        };
        format!(
            "ClusterName={} Account={} UserName={user} Partition={} Priority={} ID={}\n\
             \x20   SharesRaw/Norm/Level/Factor={shares}/{:.2}/{}/{:.2}\n\
             \x20   UsageRaw/Norm/Efctv={:.2}/{:.2}/{:.2}\n\
             \x20   ParentAccount={parent} Lineage={} DefAssoc={}\n\
             \x20   GrpJobs={} GrpJobsAccrue={}\n\
             \x20   GrpSubmitJobs={} GrpWall={}\n\
             \x20   GrpTRES={}\n\
             \x20   GrpTRESMins={}\n\
             \x20   GrpTRESRunMins={}\n\
             \x20   MaxJobs={} MaxJobsAccrue={} MaxSubmitJobs={} MaxWallPJ={}\n\
             \x20   MaxTRESPJ={}\n\
             \x20   MaxTRESPN={}\n\
             \x20   MaxTRESMinsPJ={}\n\
             \x20   MinPrioThresh={}\n\
             \x20   Comment={comment}\n",
            row.cluster,
            row.account,
            row.partition,
            row.priority.unwrap_or(0),
            row.id,
            share.norm_shares,
            share.level_shares,
            share.factor,
            used.raw,
            share.norm_usage,
            share.effective_usage,
            Self::lineage(row, &accounts.parents),
            if row.is_default { "Yes" } else { "No" },
            counted(limits.grp_jobs, now.running),
            counted(limits.grp_jobs_accrue, now.accruing),
            counted(limits.grp_submit_jobs, now.submitted),
            wall(limits.grp_wall, &used),
            self.tres_line(&limits.grp_tres, &by_name(&now.tres)),
            self.tres_line(&limits.grp_tres_mins, &used_minutes(&used)),
            self.tres_line(&limits.grp_tres_run_mins, &minutes(&now.run_secs)),
            if_limited(limits.max_jobs, now.running),
            if_limited(limits.max_jobs_accrue, now.accruing),
            if_limited(limits.max_submit_jobs, now.submitted),
            if_set(limits.max_wall_per_job),
            limits.max_tres_per_job,
            limits.max_tres_per_node,
            limits.max_tres_mins_per_job,
            if_set(limits.min_prio_threshold),
        )
    }

    fn qos_record(&self, qos: &Qos, uids: &mut Uids) -> String {
        let (qos, all) = (&qos.record, &qos.used);
        let used = all.used.clone().unwrap_or_default();
        let now = all.now.clone().unwrap_or_default();
        let mode = match qos.preempt_mode.as_str() {
            "" | "cluster" => "OFF".to_string(),
            mode => mode.to_ascii_uppercase(),
        };
        let mut text = format!(
            "QOS={}({})\n    UsageRaw={:.6}\n    GrpJobs={} GrpJobsAccrue={} GrpSubmitJobs={} GrpWall={}\n\
             \x20   GrpTRES={}\n    GrpTRESMins={}\n    GrpTRESRunMins={}\n    MaxWallPJ={}\n    MaxTRESPJ={}\n    MaxTRESPN={}\n\
             \x20   MaxTRESMinsPJ={}\n    MinPrioThresh={} \n    MinTRESPJ={}\n    PreemptMode={mode}\n    Priority={}\n",
            qos.name,
            qos.id,
            used.raw,
            counted(qos.grp_jobs, now.running),
            counted(qos.grp_jobs_accrue, now.accruing),
            counted(qos.grp_submit_jobs, now.submitted),
            wall(qos.grp_wall, &used),
            self.tres_line(&qos.grp_tres, &by_name(&now.tres)),
            self.tres_line(&qos.grp_tres_mins, &used_minutes(&used)),
            self.tres_line(&qos.grp_tres_run_mins, &minutes(&now.run_secs)),
            if_set(qos.max_wall_per_job),
            qos.max_tres_per_job,
            qos.max_tres_per_node,
            qos.max_tres_mins_per_job,
            if_set(qos.min_prio_threshold),
            qos.min_tres_per_job,
            qos.priority,
        );
        text.push_str("    Account Limits\n");
        if all.accounts.is_empty() {
            text.push_str("        No Accounts\n");
        }
        for one in &all.accounts {
            let now = one.now.clone().unwrap_or_default();
            let _ = write!(
                text,
                "      {}\n        MaxJobsPA={} MaxJobsAccruePA={} MaxSubmitJobsPA={}\n        MaxTRESPA={}\n        MaxTRESRunMinsPA={}\n",
                one.name,
                counted(qos.max_jobs_per_account, now.running),
                counted(qos.max_jobs_accrue_per_account, now.accruing),
                counted(qos.max_submit_jobs_per_account, now.submitted),
                self.tres_line(&qos.max_tres_per_account, &by_name(&now.tres)),
                self.tres_line(&qos.max_tres_run_mins_per_account, &minutes(&now.run_secs)),
            );
        }
        text.push_str("    User Limits\n");
        if all.users.is_empty() {
            text.push_str("        No Users\n");
        }
        for one in &all.users {
            let now = one.now.clone().unwrap_or_default();
            let _ = write!(
                text,
                "      {}\n        MaxJobsPU={} MaxJobsAccruePU={} MaxSubmitJobsPU={}\n        MaxTRESPU={}\n        MaxTRESRunMinsPU={}\n",
                uids.shown(&one.name),
                counted(qos.max_jobs_per_user, now.running),
                counted(qos.max_jobs_accrue_per_user, now.accruing),
                counted(qos.max_submit_jobs_per_user, now.submitted),
                self.tres_line(&qos.max_tres_per_user, &by_name(&now.tres)),
                self.tres_line(&qos.max_tres_run_mins_per_user, &minutes(&now.run_secs)),
            );
        }
        text
    }
}

async fn load(client: &Client) -> Result<Records, ClientError> {
    let shares = client.shares().await?;
    let mut associations = Vec::new();
    for mut share in shares.associations {
        let row = share.association.take().unwrap_or_default();
        associations.push(Share {
            row: row.try_into()?,
            share,
        });
    }
    let mut qos = Vec::new();
    for mut used in shares.qos {
        let record = used.qos.take().unwrap_or_default();
        qos.push(Qos {
            record: record.try_into()?,
            used,
        });
    }
    Ok(Records {
        cluster: client.settings.cluster.clone(),
        users: records(shares.users)?,
        associations,
        qos,
        tres: shares.tres,
    })
}

/// Runs `show assoc_mgr` with its words.
pub(super) async fn show(
    context: &Context,
    words: &[String],
) -> Result<i32, (&'static str, ClientError)> {
    let filter = match Filter::read(words) {
        Ok(filter) => filter,
        Err((text, code)) => {
            output::error_line(text);
            return Ok(code);
        }
    };
    let fail = |error| ("slurm_load_assoc_mgr_info", error);
    let client = context.connect().await.map_err(fail)?;
    let records = match load(&client).await {
        Ok(records) => records,
        // Without accounting nothing is cached.
        Err(ClientError::Refused { .. }) => Records {
            cluster: client.settings.cluster.clone(),
            users: Vec::new(),
            associations: Vec::new(),
            qos: Vec::new(),
            tres: Vec::new(),
        },
        Err(error) => return Err(fail(error)),
    };
    output::text_out(&text(&records, &filter));
    Ok(0)
}

fn text(records: &Records, filter: &Filter) -> String {
    let mut uids = Uids::default();
    let mut text = String::from("Current Association Manager state\n");
    let mut part = |heading: &str, none: &str, body: String| {
        if body.is_empty() {
            let _ = write!(text, "\n{none}\n\n");
        } else {
            let _ = write!(text, "\n{heading}\n\n{body}");
        }
    };
    if filter.kinds[0] {
        let body = records.user_lines(filter, &mut uids);
        part("User Records", "No users currently cached in Slurm.", body);
    }
    if filter.kinds[1] {
        let wanted = |share: &&Share| {
            let row = &share.row;
            passes(&filter.accounts, &row.account)
                && (filter.users.is_empty() || passes(&filter.users, &row.user))
        };
        let accounts = Accounts::of(&records.associations);
        let body = records
            .associations
            .iter()
            .filter(wanted)
            .map(|share| records.association(share, &accounts, &mut uids))
            .collect();
        part(
            "Association Records",
            "No associations currently cached in Slurm.",
            body,
        );
    }
    if filter.kinds[2] {
        let body = records
            .qos
            .iter()
            .filter(|qos| passes(&filter.qos, &qos.record.name))
            .map(|qos| records.qos_record(qos, &mut uids))
            .collect();
        part("QOS Records", "No QOS currently cached in Slurm.", body);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let mut science = AssociationRecord::new("oracle", "science", "");
        science.id = 3;
        science.parent_account = "root".to_string();
        science.shares = Some(60);
        let mut root = AssociationRecord::new("oracle", "root", "");
        root.id = 1;
        let mut admin = AssociationRecord::new("oracle", "root", "root");
        admin.id = 2;
        admin.is_default = true;
        let with =
            |row: AssociationRecord, norm_shares: f64, level_shares: u64, factor: f64| Share {
                row,
                share: v1::AssociationShare {
                    norm_shares,
                    level_shares,
                    factor,
                    ..v1::AssociationShare::default()
                },
            };
        Records {
            cluster: "oracle".to_string(),
            users: Vec::new(),
            associations: vec![
                with(root, 0.0, 1, 0.0),
                with(admin, 1.0 / 61.0, 61, 1.0),
                with(science, 60.0 / 61.0, 61, 0.0),
            ],
            qos: Vec::new(),
            tres: vec!["cpu".to_string(), "mem".to_string()],
        }
    }

    /// Layout and tree order as a real scontrol prints them.
    #[test]
    fn associations() {
        let filter = Filter::read(&["flags=assoc".to_string()]).expect("ok");
        let shown = text(&records(), &filter);
        let expected = "\
Current Association Manager state

Association Records

ClusterName=oracle Account=root UserName= Partition= Priority=0 ID=1
    SharesRaw/Norm/Level/Factor=1/0.00/1/0.00
    UsageRaw/Norm/Efctv=0.00/0.00/0.00
    ParentAccount= Lineage=/ DefAssoc=No
    GrpJobs=N(0) GrpJobsAccrue=N(0)
    GrpSubmitJobs=N(0) GrpWall=N(0.00)
    GrpTRES=cpu=N(0),mem=N(0)
    GrpTRESMins=cpu=N(0),mem=N(0)
    GrpTRESRunMins=cpu=N(0),mem=N(0)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
    MaxTRESPJ=
    MaxTRESPN=
    MaxTRESMinsPJ=
    MinPrioThresh=
    Comment=(null)
ClusterName=oracle Account=root UserName=root(0) Partition= Priority=0 ID=2
    SharesRaw/Norm/Level/Factor=1/0.02/61/1.00
    UsageRaw/Norm/Efctv=0.00/0.00/0.00
    ParentAccount= Lineage=/0-root/ DefAssoc=Yes
";
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.contains(
            "ClusterName=oracle Account=science UserName= Partition= Priority=0 ID=3\n    SharesRaw/Norm/Level/Factor=60/0.98/61/0.00\n"
        ));
        assert!(shown.contains("    ParentAccount=root(1) Lineage=/science/ DefAssoc=No\n"));
    }

    /// Refusals as a real scontrol prints them.
    #[test]
    fn filters() {
        assert_eq!(
            Filter::read(&["foo=1".to_string()]),
            Err((
                "invalid entity: foo=1 for keyword:show assoc_mgr".to_string(),
                1
            ))
        );
        assert_eq!(
            Filter::read(&["flags=foo".to_string()]),
            Err((
                "invalid flag 'foo', valid options are 'Assoc, QOS, and/or Users'".to_string(),
                0
            ))
        );
    }
}
