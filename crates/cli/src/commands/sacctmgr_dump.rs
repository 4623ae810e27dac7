//! `sacctmgr dump`: a cluster's accounts, users and limits as a flat file.
//!
//! A line is `Title - 'name':Key=value:…`; parents stand before what is below them. What is not set is left out, so that a loaded
//! file inherits as the cluster did. Source: sacctmgr(1), FLAT FILE DUMP AND LOAD, and its output.

use std::collections::HashSet;

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationRecord, QosRecord, UserRecord,
};
use sluice_model::tres::Tres;
use sluice_proto::v1;

use super::sacctmgr::{PATIENCE, Session};
use super::sacctmgr_show::{associations, records};
use super::sacctmgr_words::Words;
use crate::client::{Client, ClientError};
use crate::output;

/// Begins every file.
const HEADING: &str = "\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
# Followed by Accounts you want in this fashion (root is created by default)...
# Parent - 'root'
# Account - 'cs':MaxTRESPerJob=node=5:MaxJobs=4:MaxTRESMinsPerJob=cpu=20:FairShare=399:MaxWallDurationPerJob=40:Description='Computer Science':Organization='LC'
# Any of the options after a ':' can be left out and they can be in any order.
# If you want to add any sub accounts just list the Parent THAT HAS ALREADY
# BEEN CREATED before the account line in this fashion...
# Parent - 'cs'
# Account - 'test':MaxTRESPerJob=node=1:MaxJobs=1:MaxTRESMinsPerJob=cpu=1:FairShare=1:MaxWallDurationPerJob=1:Description='Test Account':Organization='Test'
# To add users to a account add a line like this after a Parent - 'line'
# User - 'lipari':MaxTRESPerJob=node=2:MaxJobs=3:MaxTRESMinsPerJob=cpu=4:FairShare=1:MaxWallDurationPerJob=1
";

/// A line under construction: what is empty or not set is left out.
#[derive(Default)]
struct DumpLine(String);

impl DumpLine {
    fn new(title: &str, name: &str) -> Self {
        Self(format!("{title} - '{name}'"))
    }

    fn plain(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.0.push_str(&format!(":{key}={value}"));
        }
    }

    fn quoted(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.0.push_str(&format!(":{key}='{value}'"));
        }
    }

    fn number(&mut self, key: &str, value: Option<u32>) {
        if let Some(value) = value {
            self.plain(key, &value.to_string());
        }
    }

    fn real(&mut self, key: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.plain(key, &format!("{value:.6}"));
        }
    }

    /// A list of TRES with its sizes in their usual units.
    fn tres(&mut self, key: &str, list: &str) {
        match list.parse::<Tres>() {
            Ok(tres) => self.plain(key, &tres.to_string()),
            Err(_) => self.plain(key, list),
        }
    }
}

/// What a row sets, after a colon each.
pub(super) fn row_text(row: &AssociationRecord) -> String {
    let limits = &row.limits;
    let mut line = DumpLine::default();
    line.quoted("DefaultQOS", &row.default_qos);
    let shares = row.shares.map(|shares| shares.to_string());
    line.plain("Fairshare", shares.as_deref().unwrap_or("parent"));
    line.tres("GrpTRESMins", &limits.grp_tres_mins);
    line.tres("GrpTRESRunMins", &limits.grp_tres_run_mins);
    line.tres("GrpTRES", &limits.grp_tres);
    line.number("GrpJobs", limits.grp_jobs);
    line.number("GrpJobsAccrue", limits.grp_jobs_accrue);
    line.number("GrpSubmitJobs", limits.grp_submit_jobs);
    line.number("GrpWall", limits.grp_wall);
    line.tres("MaxTRESMinsPerJob", &limits.max_tres_mins_per_job);
    line.tres("MaxTRESRunMins", &limits.max_tres_run_mins);
    line.tres("MaxTRESPerJob", &limits.max_tres_per_job);
    line.tres("MaxTRESPerNode", &limits.max_tres_per_node);
    line.number("MaxJobs", limits.max_jobs);
    line.number("MaxJobsAccrue", limits.max_jobs_accrue);
    line.number("MinPrioThresh", limits.min_prio_threshold);
    line.number("MaxSubmitJobs", limits.max_submit_jobs);
    line.number("MaxWallDurationPerJob", limits.max_wall_per_job);
    line.number("Priority", row.priority);
    let qos = row.qos.as_ref().unwrap_or(&row.qos_delta);
    line.quoted("QOS", &qos.join(","));
    line.0
}

/// A QOS as a line.
fn qos_line(qos: &QosRecord) -> String {
    let mut line = DumpLine::new("QOS", &qos.name);
    let above_zero = |value: u32| Some(value).filter(|value| *value > 0);
    line.quoted("Description", &qos.description);
    line.quoted("Flags", &qos.flags);
    line.number("GraceTime", above_zero(qos.grace_time_secs));
    line.number("GrpJobs", qos.grp_jobs);
    line.number("GrpJobsAccrue", qos.grp_jobs_accrue);
    line.number("GrpSubmitJobs", qos.grp_submit_jobs);
    line.tres("GrpTRES", &qos.grp_tres);
    line.tres("GrpTRESMins", &qos.grp_tres_mins);
    line.tres("GrpTRESRunMins", &qos.grp_tres_run_mins);
    line.number("GrpWall", qos.grp_wall);
    line.number("MaxJobsAccruePA", qos.max_jobs_accrue_per_account);
    line.number("MaxJobsAccruePU", qos.max_jobs_accrue_per_user);
    line.number("MaxJobsPA", qos.max_jobs_per_account);
    line.number("MaxJobsPU", qos.max_jobs_per_user);
    line.number("MaxSubmitJobsPA", qos.max_submit_jobs_per_account);
    line.number("MaxSubmitJobsPU", qos.max_submit_jobs_per_user);
    line.tres("MaxTRESPerAccount", &qos.max_tres_per_account);
    line.tres("MaxTRESPerJob", &qos.max_tres_per_job);
    line.tres("MaxTRESPerNode", &qos.max_tres_per_node);
    line.tres("MaxTRESPerUser", &qos.max_tres_per_user);
    line.tres("MaxTRESMinsPerJob", &qos.max_tres_mins_per_job);
    line.tres(
        "MaxTRESRunMinsPerAccount",
        &qos.max_tres_run_mins_per_account,
    );
    line.tres("MaxTRESRunMinsPerUser", &qos.max_tres_run_mins_per_user);
    line.number("MaxWallDurationPerJob", qos.max_wall_per_job);
    line.number("MinPrioThresh", qos.min_prio_threshold);
    line.tres("MinTRESPerJob", &qos.min_tres_per_job);
    line.quoted("Preempt", &qos.preempt.join(","));
    line.quoted("PreemptMode", &qos.preempt_mode);
    let exempt = qos.preempt_exempt_time_secs.map(|seconds| seconds / 60);
    line.number("PreemptExemptTime", exempt);
    line.number("Priority", above_zero(qos.priority));
    let factor = Some(qos.usage_factor).filter(|factor| (factor - 1.0).abs() > f64::EPSILON);
    line.real("UsageFactor", factor);
    line.real("UsageThreshold", qos.usage_threshold);
    line.real("LimitFactor", qos.limit_factor);
    line.0
}

/// The lines of a cluster: QOS and the cluster in one block, then one line each.
pub(super) fn file_lines(
    cluster: &str,
    classification: &str,
    qos: &[QosRecord],
    rows: &[AssociationRecord],
    accounts: &[AccountRecord],
    users: &[UserRecord],
) -> (String, Vec<String>) {
    let mut head: Vec<String> = qos.iter().map(qos_line).collect();
    let root = rows
        .iter()
        .find(|row| row.user.is_empty() && row.account == "root");
    let mut line = DumpLine::new("Cluster", cluster);
    line.quoted("Classification", classification);
    line.0.push_str(&root.map(row_text).unwrap_or_default());
    head.push(line.0);
    let mut body = Vec::new();
    below(
        "root",
        rows,
        accounts,
        users,
        cluster,
        &mut body,
        &mut HashSet::new(),
    );
    (head.join("\n"), body)
}

fn below(
    parent: &str,
    rows: &[AssociationRecord],
    accounts: &[AccountRecord],
    users: &[UserRecord],
    cluster: &str,
    out: &mut Vec<String>,
    seen: &mut HashSet<String>,
) {
    if !seen.insert(parent.to_string()) {
        return;
    }
    let own: Vec<&AssociationRecord> = rows
        .iter()
        .filter(|row| row.account == parent && !row.user.is_empty())
        .collect();
    let children: Vec<&AssociationRecord> = rows
        .iter()
        .filter(|row| row.user.is_empty() && row.account != "root" && row.parent_account == parent)
        .collect();
    if own.is_empty() && children.is_empty() {
        return;
    }
    out.push(format!("Parent - '{parent}'"));
    for row in own {
        let mut line = DumpLine::new("User", &row.user);
        line.quoted("Partition", &row.partition);
        if let Some(user) = users.iter().find(|user| user.name == row.user) {
            if let Some((_, account)) = user.default_accounts.iter().find(|(on, _)| on == cluster) {
                line.quoted("DefaultAccount", account);
            }
            if user.admin_level != AdminLevel::None {
                line.quoted("AdminLevel", user.admin_level.as_str());
            }
            line.quoted("Coordinator", &user.coordinator_of.join(","));
        }
        line.0.push_str(&row_text(row));
        out.push(line.0);
    }
    for row in &children {
        let account = accounts.iter().find(|account| account.name == row.account);
        let (description, organization) = account.map_or(("", ""), |account| {
            (account.description.as_str(), account.organization.as_str())
        });
        out.push(format!(
            "Account - '{}':Description='{description}':Organization='{organization}'{}",
            row.account,
            row_text(row)
        ));
    }
    for row in children {
        below(&row.account, rows, accounts, users, cluster, out, seen);
    }
}

/// What there is.
pub(super) struct Known {
    pub qos: Vec<QosRecord>,
    pub rows: Vec<AssociationRecord>,
    pub accounts: Vec<AccountRecord>,
    pub users: Vec<UserRecord>,
}

pub(super) async fn known(client: &Client, cluster: &str) -> Result<Known, ClientError> {
    let request = v1::ListAssociationsRequest {
        clusters: vec![cluster.to_string()],
        without_parent_limits: true,
        ..Default::default()
    };
    let accounting = || client.accounting();
    Ok(Known {
        qos: records(
            accounting()
                .list_qos(v1::ListQosRequest::default())
                .await?
                .into_inner()
                .qos,
        )?,
        rows: associations(client, request).await?,
        accounts: records(
            accounting()
                .list_accounts(v1::ListAccountsRequest::default())
                .await?
                .into_inner()
                .accounts,
        )?,
        users: records(
            accounting()
                .list_users(v1::ListUsersRequest::default())
                .await?
                .into_inner()
                .users,
        )?,
    })
}

pub(super) async fn dump(_session: &Session, words: &[String]) -> Result<i32, ClientError> {
    let words = Words::new(words);
    let Some(cluster) = words
        .all_names(&[("clusters", 1)])
        .into_iter()
        .next()
        .map(|name| name.to_lowercase())
    else {
        output::error_line(" We need a cluster to dump.");
        return Ok(1);
    };
    let client = Client::connect(PATIENCE).await?;
    let clusters = client
        .accounting()
        .list_clusters(v1::ListClustersRequest::default())
        .await?
        .into_inner()
        .clusters;
    let Some(record) = clusters.into_iter().find(|record| record.name == cluster) else {
        output::error_line(format!(" Cluster {cluster} doesn't exist."));
        return Ok(1);
    };
    let file = match words.value("file", 1) {
        Some(file) => file.to_string(),
        None => {
            output::line(format!(" No filename given, using ./{cluster}.cfg."));
            format!("./{cluster}.cfg")
        }
    };
    let known = known(&client, &cluster).await?;
    let (head, body) = file_lines(
        &cluster,
        &record.classification,
        &known.qos,
        &known.rows,
        &known.accounts,
        &known.users,
    );
    let mut text = format!("{HEADING}{head}\n");
    for line in &body {
        text.push_str(line);
        text.push('\n');
    }
    if let Err(error) = std::fs::write(&file, text) {
        output::error_line(format!("Can't open {file}: {error}"));
        return Ok(1);
    }
    output::error_line(format!("sacctmgr: {head}"));
    for line in &body {
        output::error_line(format!("sacctmgr: {line}"));
    }
    Ok(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn sample() -> (Vec<AssociationRecord>, Vec<AccountRecord>, Vec<UserRecord>) {
        let mut root = AssociationRecord::new("oracle", "root", "");
        root.qos = Some(vec!["normal".to_string()]);
        let mut science = AssociationRecord::new("oracle", "science", "");
        science.parent_account = "root".to_string();
        science.shares = Some(60);
        let mut bob = AssociationRecord::new("oracle", "science", "bob");
        bob.limits.max_jobs = Some(1_000_000);
        bob.qos = Some(vec!["limited".to_string(), "normal".to_string()]);
        let account = AccountRecord {
            name: "science".to_string(),
            description: "Natural Science".to_string(),
            organization: "lab".to_string(),
            ..AccountRecord::default()
        };
        let user = UserRecord {
            name: "bob".to_string(),
            default_accounts: vec![("oracle".to_string(), "science".to_string())],
            ..UserRecord::default()
        };
        (vec![root, science, bob], vec![account], vec![user])
    }

    /// The form of a real dump.
    #[test]
    fn lines_of_a_dump() {
        let (rows, accounts, users) = sample();
        let qos = QosRecord {
            name: "limited".to_string(),
            description: "limited".to_string(),
            flags: "DenyOnLimit".to_string(),
            max_jobs_per_user: Some(2),
            max_submit_jobs_per_user: Some(4),
            max_tres_per_user: "cpu=16".to_string(),
            ..QosRecord::default()
        };
        let (head, body) = file_lines("oracle", "", &[qos], &rows, &accounts, &users);
        assert_eq!(
            head,
            "QOS - 'limited':Description='limited':Flags='DenyOnLimit':MaxJobsPU=2:MaxSubmitJobsPU=4:MaxTRESPerUser=cpu=16\n\
             Cluster - 'oracle':Fairshare=1:QOS='normal'"
        );
        assert_eq!(
            body,
            [
                "Parent - 'root'",
                "Account - 'science':Description='Natural Science':Organization='lab':Fairshare=60",
                "Parent - 'science'",
                "User - 'bob':DefaultAccount='science':Fairshare=1:MaxJobs=1000000:QOS='limited,normal'"
            ]
        );
    }
}
