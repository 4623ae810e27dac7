//! What a flat file changes in a cluster's accounts, users and limits: its lines, and the calls that bring them about.
//!
//! A line is `Title - 'name':Key=value:…`; parents stand before what is below them. Nothing is asked of the controller here.
//! Source: sacctmgr(1), FLAT FILE DUMP AND LOAD.

use std::collections::{HashMap, HashSet};

use sluice_model::accounting::{AdminLevel, AssociationRecord, UserRecord};
use sluice_proto::v1::{self, AccountingEntity};

use super::sacctmgr_dump::{Known, row_text};
use super::sacctmgr_settings::{Assignment, Of, Unusable, assignment, lines, read};
use super::sacctmgr_words::{admin_level, split};
use super::scontrol::{is_any_keyword, is_keyword};

/// A line of a file: title, name, and what it sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub title: String,
    pub name: String,
    pairs: Vec<(String, String)>,
}

/// Splits at colons outside quotes.
pub(super) fn parse_line(text: &str) -> Option<Line> {
    let (title, rest) = text.split_once(" - ")?;
    let mut parts: Vec<String> = vec![String::new()];
    let mut quote = None;
    for letter in rest.trim().chars() {
        match (quote, letter) {
            (Some(mark), letter) if letter == mark => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ':') => parts.push(String::new()),
            (_, letter) => {
                if let Some(part) = parts.last_mut() {
                    part.push(letter);
                }
            }
        }
    }
    let mut parts = parts.into_iter();
    let name = parts.next()?.trim().to_lowercase();
    let pairs = parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            part.split_once('=')
                .map(|(key, value)| (key.trim().to_lowercase(), value.to_string()))
        })
        .collect::<Option<Vec<_>>>()?;
    (quote.is_none() && !name.is_empty()).then_some(Line {
        title: title.trim().to_lowercase(),
        name,
        pairs,
    })
}

/// A change that a file asks for.
pub(super) enum Action {
    Qos(v1::AddQosRequest),
    Account(v1::AddAccountsRequest),
    User(v1::AddUsersRequest),
    Change(v1::ModifyRequest),
    Coordinator(v1::SetCoordinatorsRequest),
}

/// What a file is made into.
#[derive(Default)]
pub(super) struct Plan {
    pub actions: Vec<Action>,
    pub told: Vec<String>,
}

/// Assignments of a line; keys of the entity itself are left to the caller.
fn assignments(of: Of, line: &Line, own: &[(&str, usize)]) -> Result<Vec<Assignment>, String> {
    let mut list = Vec::new();
    for (key, value) in &line.pairs {
        if is_any_keyword(key, own) {
            continue;
        }
        match read(of, key, None, value) {
            Ok(assignment) => list.push(assignment),
            Err(Unusable::Value(text)) => return Err(text),
            Err(Unusable::Unknown) => return Err(format!(" Unknown option: {key}={value}")),
        }
    }
    Ok(list)
}

impl Line {
    fn value(&self, name: &str, least: usize) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(key, _)| is_keyword(key, name, least))
            .map(|(_, value)| value.as_str())
    }
}

const ACCOUNT_OWN: &[(&str, usize)] = &[("description", 3), ("organization", 1)];
const USER_OWN: &[(&str, usize)] = &[
    ("defaultaccount", 8),
    ("defaultwckey", 8),
    ("adminlevel", 2),
    ("coordinator", 2),
    ("partition", 3),
    ("wckeys", 1),
];

/// Those of the assignments that a row does not have yet.
fn different(row: &AssociationRecord, wanted: Vec<Assignment>) -> Vec<Assignment> {
    let has = row_text(row);
    let has: HashMap<String, String> = parse_line(&format!("x - y{has}"))
        .map(|line| line.pairs.into_iter().collect())
        .unwrap_or_default();
    let stored: Vec<Assignment> = has
        .iter()
        .filter_map(|(key, value)| read(Of::Association, key, None, value).ok())
        .collect();
    wanted
        .into_iter()
        .filter(|assignment| {
            let old = stored.iter().find(|old| old.field == assignment.field);
            let is_clear = matches!(assignment.value.as_str(), "" | "-1");
            match old {
                Some(old) => {
                    sorted(&old.value) != sorted(&assignment.value)
                        || old.operator != assignment.operator
                }
                None => !is_clear,
            }
        })
        .collect()
}

fn sorted(list: &str) -> Vec<&str> {
    let mut items: Vec<&str> = list.split(',').collect();
    items.sort_unstable();
    items
}

/// Works out what a file changes, line by line.
struct Planner<'a> {
    cluster: &'a str,
    known: &'a Known,
    /// The account that the lines stand below.
    parent: String,
    new_accounts: HashSet<String>,
    plan: Plan,
}

/// The rows of a cluster's accounts by name.
fn account_row<'a>(known: &'a Known, account: &str) -> Option<&'a AssociationRecord> {
    known
        .rows
        .iter()
        .find(|row| row.user.is_empty() && row.account == account)
}

impl Planner<'_> {
    fn clusters(&self) -> Vec<String> {
        vec![self.cluster.to_string()]
    }

    /// A change of what the line names, if there is anything to change.
    fn change(
        &mut self,
        entity: AccountingEntity,
        selection: v1::EntitySelection,
        assignments: Vec<Assignment>,
    ) {
        if !assignments.is_empty() {
            self.plan.actions.push(Action::Change(v1::ModifyRequest {
                entity: entity as i32,
                selection: Some(selection),
                assignments,
                dry_run: false,
            }));
        }
    }

    fn line(&mut self, number: usize, line: &Line) -> Result<(), String> {
        let failed = |text: String| format!("{text}\n Problem with line({number})");
        match line.title.as_str() {
            "qos" => self.qos(line).map_err(failed),
            "cluster" => self.cluster(line).map_err(failed),
            "account" => self.account(line).map_err(failed),
            "user" => self.user(line).map_err(failed),
            "parent" => {
                let exists = self.new_accounts.contains(&line.name)
                    || account_row(self.known, &line.name).is_some();
                if !exists {
                    return Err(format!(
                        " line({number}) You need to add parent '{}' before it is used",
                        line.name
                    ));
                }
                self.parent.clone_from(&line.name);
                Ok(())
            }
            _ => Err(format!(
                " Misformatted line({number}): {} - {}",
                line.title, line.name
            )),
        }
    }

    fn qos(&mut self, line: &Line) -> Result<(), String> {
        let assignments = assignments(Of::Qos, line, &[])?;
        if self.known.qos.iter().all(|qos| qos.name != line.name) {
            self.plan.told.push(format!(
                " Added QOS                     for Cluster {}       {}",
                self.cluster, line.name
            ));
            self.plan.actions.push(Action::Qos(v1::AddQosRequest {
                names: vec![line.name.clone()],
                assignments,
                dry_run: false,
            }));
        }
        Ok(())
    }

    fn cluster(&mut self, line: &Line) -> Result<(), String> {
        let wanted = assignments(Of::Association, line, &[("classification", 3)])?;
        if let Some(root) = account_row(self.known, "root") {
            let wanted = different(root, wanted);
            self.plan.told.extend(
                lines(Of::Association, &wanted)
                    .iter()
                    .map(|text| format!(" Changed {} for Cluster {}", text.trim(), self.cluster)),
            );
            let selection = v1::EntitySelection {
                names: self.clusters(),
                ..Default::default()
            };
            self.change(AccountingEntity::Cluster, selection, wanted);
        }
        Ok(())
    }

    fn account(&mut self, line: &Line) -> Result<(), String> {
        let wanted = assignments(Of::Association, line, ACCOUNT_OWN)?;
        match account_row(self.known, &line.name) {
            None => self.new_account(line, wanted),
            Some(row) => self.changed_account(line, row, wanted),
        }
        Ok(())
    }

    fn new_account(&mut self, line: &Line, assignments: Vec<Assignment>) {
        let text = |key: &str, least: usize| line.value(key, least).unwrap_or_default().to_string();
        self.new_accounts.insert(line.name.clone());
        self.plan.told.push(format!(
            " Added account {} below {}",
            line.name, self.parent
        ));
        let request = v1::AddAccountsRequest {
            names: vec![line.name.clone()],
            description: text("description", 3),
            organization: text("organization", 1),
            parent: self.parent.clone(),
            clusters: self.clusters(),
            assignments,
            ..Default::default()
        };
        self.plan.actions.push(Action::Account(request));
    }

    fn changed_account(&mut self, line: &Line, row: &AssociationRecord, wanted: Vec<Assignment>) {
        let mut wanted = different(row, wanted);
        self.plan
            .told
            .extend(changes("Account", &line.name, &wanted));
        let mut accounts = self.known.accounts.iter();
        if let Some(account) = accounts.find(|account| account.name == line.name) {
            for (field, least, old) in [
                ("description", 3, account.description.as_str()),
                ("organization", 1, account.organization.as_str()),
            ] {
                if let Some(value) = line.value(field, least)
                    && !old.eq_ignore_ascii_case(value)
                {
                    self.plan.told.push(format!(
                        " Changed {field:<21} for Account {:<16} {old} -> {value}",
                        line.name
                    ));
                    wanted.push(assignment(field, value));
                }
            }
        }
        if row.parent_account != self.parent {
            self.plan.told.push(format!(
                " Changed parent                for Account {:<16} {} -> {}",
                line.name, row.parent_account, self.parent
            ));
            wanted.push(assignment("parent_account", self.parent.as_str()));
        }
        let selection = v1::EntitySelection {
            names: vec![line.name.clone()],
            clusters: self.clusters(),
            ..Default::default()
        };
        self.change(AccountingEntity::Account, selection, wanted);
    }

    fn user(&mut self, line: &Line) -> Result<(), String> {
        let wanted = assignments(Of::Association, line, USER_OWN)?;
        let partition = line.value("partition", 3).unwrap_or_default();
        let known = self.known;
        let stored = known.rows.iter().find(|row| {
            row.user == line.name && row.account == self.parent && row.partition == partition
        });
        let user = known.users.iter().find(|user| user.name == line.name);
        // A level that cannot be read, or that the user has, is no change.
        let level = line
            .value("adminlevel", 2)
            .and_then(|text| admin_level(text).ok())
            .filter(|level| user.is_none_or(|user| user.admin_level != *level));
        match stored {
            None => self.new_user(line, level, wanted),
            // A level without a user to have it is left out.
            Some(row) => self.changed_user(line, row, level.filter(|_| user.is_some()), wanted),
        }
        self.marks(line, user);
        Ok(())
    }

    fn new_user(&mut self, line: &Line, level: Option<AdminLevel>, assignments: Vec<Assignment>) {
        self.plan.told.push(format!(
            " Added user {} to account {}",
            line.name, self.parent
        ));
        let request = v1::AddUsersRequest {
            names: vec![line.name.clone()],
            accounts: vec![self.parent.clone()],
            clusters: self.clusters(),
            partitions: line
                .value("partition", 3)
                .filter(|name| !name.is_empty())
                .map(String::from)
                .into_iter()
                .collect(),
            admin_level: level.map(|level| v1::AdminLevel::from(level) as i32),
            wckeys: line.value("wckeys", 1).map(split).unwrap_or_default(),
            assignments,
            ..Default::default()
        };
        self.plan.actions.push(Action::User(request));
    }

    fn changed_user(
        &mut self,
        line: &Line,
        row: &AssociationRecord,
        level: Option<AdminLevel>,
        wanted: Vec<Assignment>,
    ) {
        let mut wanted = different(row, wanted);
        self.plan.told.extend(changes("User", &line.name, &wanted));
        if let Some(level) = level {
            self.plan.told.push(format!(
                " Changed Admin Level           for User    {:<16} -> {}",
                line.name,
                level.as_str()
            ));
            wanted.push(assignment("admin_level", level.as_str().to_lowercase()));
        }
        let selection = v1::EntitySelection {
            names: vec![line.name.clone()],
            clusters: self.clusters(),
            accounts: vec![self.parent.clone()],
            ..Default::default()
        };
        self.change(AccountingEntity::User, selection, wanted);
    }

    /// Marks of a user that need the accounts to be there come last.
    fn marks(&mut self, line: &Line, user: Option<&UserRecord>) {
        if let Some(account) = line.value("defaultaccount", 8) {
            let is_default = user.is_some_and(|user| {
                user.default_accounts
                    .iter()
                    .any(|(on, name)| on == self.cluster && name == account)
            });
            if !is_default {
                let selection = v1::EntitySelection {
                    names: vec![line.name.clone()],
                    clusters: self.clusters(),
                    ..Default::default()
                };
                let set = assignment("default_account", account.to_lowercase());
                self.change(AccountingEntity::User, selection, vec![set]);
            }
        }
        let mut accounts = line.value("coordinator", 2).map(split).unwrap_or_default();
        accounts.retain(|account| user.is_none_or(|user| !user.coordinator_of.contains(account)));
        if !accounts.is_empty() {
            let request = v1::SetCoordinatorsRequest {
                accounts,
                users: vec![line.name.clone()],
                ..Default::default()
            };
            self.plan.actions.push(Action::Coordinator(request));
        }
    }
}

/// Works out what a file changes.
pub(super) fn plan(lines: &[(usize, Line)], cluster: &str, known: &Known) -> Result<Plan, String> {
    let mut planner = Planner {
        cluster,
        known,
        parent: "root".to_string(),
        new_accounts: HashSet::new(),
        plan: Plan::default(),
    };
    for (number, line) in lines {
        planner.line(*number, line)?;
    }
    Ok(planner.plan)
}

fn changes(kind: &str, name: &str, wanted: &[Assignment]) -> Vec<String> {
    lines(Of::Association, wanted)
        .iter()
        .map(|text| format!(" Changed {:<21} for {kind:<7} {name}", text.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sacctmgr_dump::file_lines;
    use super::super::sacctmgr_dump::tests::sample;
    use super::*;

    /// What was dumped and is loaded again changes nothing; with a change in the file, only that.
    #[test]
    fn a_dump_loads_without_a_change() {
        let (rows, accounts, users) = sample();
        let (head, body) = file_lines("oracle", "", &[], &rows, &accounts, &users);
        let text = format!("{head}\n{}", body.join("\n"));
        let known = Known {
            qos: Vec::new(),
            rows,
            accounts,
            users,
        };
        let parse = |text: &str| -> Vec<(usize, Line)> {
            text.lines()
                .enumerate()
                .map(|(at, line)| (at + 1, parse_line(line).expect("a line")))
                .collect()
        };
        let same = plan(&parse(&text), "oracle", &known).unwrap_or_else(|text| panic!("{text}"));
        assert!(same.actions.is_empty(), "{:?}", same.told);
        let other = text.replace("Fairshare=60", "Fairshare=61");
        let changed =
            plan(&parse(&other), "oracle", &known).unwrap_or_else(|text| panic!("{text}"));
        assert_eq!(changed.actions.len(), 1);
        let more = format!("{text}\nUser - 'adam':DefaultAccount='science'\nParent - 'nosuch'");
        assert!(
            plan(&parse(&more), "oracle", &known)
                .err()
                .is_some_and(|text| text.contains("'nosuch'"))
        );
        assert_eq!(parse_line("nonsense"), None);
        assert_eq!(parse_line("User - 'open:MaxJobs=3"), None);
    }
}
