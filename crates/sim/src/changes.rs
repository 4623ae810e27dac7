//! What is changed besides jobs: partitions, the list of nodes, reboots, the order of the queue, limits of steps, triggers, crontabs.
//!
//! A crontab's entries come every minute. Once faults have stopped the administrator takes crontabs away and reads the
//! configuration again, so that nothing waits for a partition or node that is not there.

use std::sync::Arc;

use sluice_controller::cluster::BlobId;
use sluice_controller::cluster::trigger::{Trigger, TriggerEvent, TriggerTarget};
use sluice_controller::command::cron::{self, NewCrontab};
use sluice_controller::command::submit::Submission;
use sluice_controller::command::{
    Caller, Rejection, config, node_create, partition, reboot, step_limit, top, trigger,
};
use sluice_controller::{Cluster, Transaction};
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::JobDescription;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::options::CommandKind;
use crate::world::World;

/// A change.
#[derive(Debug, Clone)]
pub enum Change {
    /// `scontrol update PartitionName=`.
    Partition(&'static str, Vec<(String, String)>),
    /// `scontrol delete node`.
    NodesGone(String),
    /// `scontrol reconfigure`.
    Reconfigure,
    /// `scontrol reboot`.
    Reboot(reboot::RebootRequest),
    /// `scontrol top`.
    Top(String),
    /// `scontrol update StepId=`.
    StepLimit(JobId, Option<StepId>, TimeLimit),
    /// `strigger --set`.
    Trigger(Box<Trigger>),
    /// `scrontab`: uid and what its entries ask for; none = `scrontab -r`.
    Crontab(u32, Vec<JobDescription>),
}

/// The next full minute.
#[must_use]
pub fn next_minute(now: UnixSeconds) -> UnixSeconds {
    UnixSeconds(now.0 - now.0.rem_euclid(60) + 60)
}

/// What the daemon does every second: entries of crontabs whose run is over wait for their next time.
pub fn crontabs(transaction: &mut Transaction<'_>) {
    let begin = next_minute(transaction.now);
    for (id, _) in cron::over(transaction.cluster) {
        cron::again(transaction, id, Some(begin));
    }
}

impl Change {
    /// Runs the change's command as the service does.
    ///
    /// # Errors
    /// The engine's rejection.
    pub fn execute(&self, t: &mut Transaction<'_>, caller: &Caller) -> Result<(), Rejection> {
        match self {
            Self::Partition(name, settings) => partition::change(t, name, false, settings, caller),
            Self::NodesGone(nodes) => node_create::delete(t, nodes, caller),
            Self::Reconfigure => {
                let same = Arc::clone(&t.cluster.config);
                config::reload(t, same);
                Ok(())
            }
            Self::Reboot(request) => reboot::request(t, request, caller),
            Self::Top(target) => top::top(t, std::slice::from_ref(target), caller)
                .map_err(|failure| failure.rejection),
            Self::StepLimit(job, step, limit) => step_limit::set(t, *job, *step, *limit, caller),
            Self::Trigger(wanted) => trigger::set(t, (**wanted).clone(), caller).map(|_| ()),
            Self::Crontab(uid, entries) if entries.is_empty() => cron::remove(t, *uid, caller),
            Self::Crontab(uid, entries) => {
                let begin = next_minute(t.now);
                let entries = (0..)
                    .zip(entries)
                    .map(|(line, description)| (entry(description, begin, caller), line))
                    .collect();
                let new = NewCrontab {
                    uid: *uid,
                    text: "* * * * * true\n".to_owned(),
                    entries,
                };
                cron::put(t, new, caller).map(|_| ())
            }
        }
    }
}

fn entry(description: &JobDescription, begin: UnixSeconds, caller: &Caller) -> Submission {
    Submission {
        description: JobDescription {
            begin_time: Some(begin),
            ..description.clone()
        },
        script: Some((
            BlobId([9; 32]),
            Arc::new(b"#!/bin/sh\nfrom a crontab\n".to_vec()),
        )),
        environment: None,
        user_name: format!("user{}", caller.uid),
        group_name: "users".to_owned(),
        group_names: vec!["users".to_owned()],
        default_account: None,
        caller: caller.clone(),
    }
}

impl World {
    /// A change of a kind, made up; `recent` is a job that may still be there. With it who asks for it.
    pub fn made_up(&mut self, kind: CommandKind, recent: JobId) -> Option<(Change, Caller)> {
        let root = Caller::root();
        let node = format!("n{}", self.chance.between(1, self.options.nodes));
        Some(match kind {
            CommandKind::Partition => {
                let name = self.chance.pick(&["main", "high"]);
                let (key, value) = match self.chance.between(0, 5) {
                    0 => ("State", "DOWN".to_owned()),
                    1 => ("State", "DRAIN".to_owned()),
                    2 => ("State", "INACTIVE".to_owned()),
                    3 => ("State", "UP".to_owned()),
                    4 => ("MaxTime", self.chance.between(1, 30).to_string()),
                    _ => ("Nodes", node),
                };
                let settings = vec![(key.to_owned(), value)];
                (Change::Partition(name, settings), root)
            }
            CommandKind::NodeList if self.chance.likely(500) => (Change::NodesGone(node), root),
            CommandKind::NodeList => (Change::Reconfigure, root),
            CommandKind::Reboot => {
                let request = reboot::RebootRequest {
                    nodes: node,
                    asap: self.chance.likely(500),
                    force: self.chance.likely(200),
                    next_state: self
                        .chance
                        .likely(500)
                        .then_some(sluice_controller::cluster::AfterReboot::Resume),
                    reason: String::new(),
                };
                (Change::Reboot(request), root)
            }
            CommandKind::Top => (Change::Top(recent.to_string()), root),
            CommandKind::StepLimit => {
                let step = self.chance.likely(500).then_some(StepId::Num(0));
                let limit = TimeLimit::Minutes(self.chance.between(1, 10) as u32);
                (Change::StepLimit(recent, step, limit), root)
            }
            CommandKind::Trigger => (Change::Trigger(Box::new(self.trigger(recent))), root),
            CommandKind::Crontab => {
                let uid = self.chance.pick(&[1001, 1002]);
                let count = self.chance.between(0, 3);
                let entries = (0..count).map(|_| self.crontab_entry(uid)).collect();
                (Change::Crontab(uid, entries), Caller::user(uid))
            }
            _ => return None,
        })
    }

    fn trigger(&mut self, job: JobId) -> Trigger {
        let (target, event) = self.chance.pick(&[
            (TriggerTarget::Nodes(Vec::new()), TriggerEvent::Down),
            (TriggerTarget::Nodes(Vec::new()), TriggerEvent::Up),
            (TriggerTarget::Nodes(Vec::new()), TriggerEvent::Idle),
            (TriggerTarget::Job(job), TriggerEvent::Fini),
            (TriggerTarget::Job(job), TriggerEvent::Time),
        ]);
        Trigger {
            id: 0,
            target,
            event,
            offset: self.chance.between(0, 20) as i32 - 10,
            uid: 0,
            program: "/bin/true".to_owned(),
            permanent: self.chance.likely(300),
            due: None,
            nodes: Vec::new(),
        }
    }

    fn crontab_entry(&mut self, uid: u32) -> JobDescription {
        JobDescription {
            uid,
            gid: uid,
            name: Some(self.chance.pick(&["hourly", "daily"]).to_owned()),
            batch: true,
            work_dir: "/tmp".to_owned(),
            ntasks: Some(1),
            time_limit: Some(TimeLimit::Minutes(self.chance.between(1, 8) as u32)),
            cron_spec: Some("* * * * *".to_owned()),
            ..JobDescription::default()
        }
    }

    /// The administrator's work once faults have stopped.
    pub fn clear_up(&mut self, state: &Cluster) {
        for uid in state.crontabs.keys() {
            self.ask_change(Change::Crontab(*uid, Vec::new()), Caller::root());
        }
        let changed = state.nodes.iter().any(|node| !node.configured)
            || state.partitions.len() != state.config.partitions.len()
            || state
                .partitions
                .iter()
                .zip(&state.config.partitions)
                .any(|(now, before)| *now.config != *before);
        if changed {
            self.ask_change(Change::Reconfigure, Caller::root());
        }
    }
}
