//! A small world around the engine for tests: nodes that register, agents that do what they are told, a clock that is moved by
//! hand, and a journal that is replayed at the end.
//!
//! Nothing here decides; it only plays the shell and the agents. Every world checks when it is dropped by [`World::check`] that a
//! replay of its events gives the same state.

#![allow(dead_code, reason = "each test binary uses its own part of the world")]

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::ClusterConfig;
use sluice_controller::cluster::{BlobId, Cluster};
use sluice_controller::command::agent::{self, Registration};
use sluice_controller::command::plan::carry_out;
use sluice_controller::command::submit::{Submission, submit};
use sluice_controller::command::{Caller, Rejection, tick};
use sluice_controller::effect::Effect;
use sluice_controller::schedule::{self, PlanOptions};
use sluice_controller::transaction::JournalEntry;
use sluice_controller::{Transaction, check, event};
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::JobDescription;
use sluice_model::launch::{AgentOrder, AgentReport, StepExit};
use sluice_model::node::NodeHardware;
use sluice_model::time::UnixSeconds;

/// Four nodes of four CPUs with four GPUs each.
pub const CONF: &str = "\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
StateSaveLocation=/tmp/state
SlurmdSpoolDir=/tmp/spool
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
MinJobAge=300
KillWait=5
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=requeue_delay=0
NodeName=n[1-4] CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:fake:4
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-0 DefaultTime=60 State=UP
PartitionName=short Nodes=n[1-4] MaxTime=30 State=UP PriorityTier=10
";

/// An ordinary user.
pub static ALICE: Caller = Caller::user(1001);
/// Another one.
pub static BOB: Caller = Caller::user(1002);
/// An administrator.
pub static ROOT: Caller = Caller::root();

/// The world.
pub struct World {
    pub cluster: Cluster,
    pub now: UnixSeconds,
    initial: Cluster,
    journal: Vec<JournalEntry>,
    /// Orders sent so far and not taken by a test, by node.
    pub orders: Vec<(String, AgentOrder)>,
    /// Mails sent so far: recipient and subject.
    pub mails: Vec<(String, String)>,
}

impl World {
    pub fn new() -> Self {
        Self::with_conf(CONF)
    }

    pub fn with_conf(conf: &str) -> Self {
        let config = Arc::new(
            ClusterConfig::parse_slurm_conf(conf)
                .expect("valid configuration")
                .config,
        );
        let now = UnixSeconds(1_000_000);
        let cluster = Cluster::new(config, now);
        let mut world = Self {
            initial: cluster.clone(),
            cluster,
            now,
            journal: Vec::new(),
            orders: Vec::new(),
            mails: Vec::new(),
        };
        let names: Vec<String> = world
            .cluster
            .nodes
            .iter()
            .map(|node| node.config.name.clone())
            .collect();
        for name in names {
            world.register(&name);
        }
        world
    }

    /// Runs one command as the writer does.
    pub fn run<T>(
        &mut self,
        command: impl FnOnce(&mut Transaction<'_>) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let (value, entry, effects) = Transaction::run(&mut self.cluster, self.now, command)?;
        self.journal.push(entry);
        for effect in effects {
            match effect {
                Effect::Order { node, order } => self.orders.push((node, *order)),
                Effect::Mail { to, subject } => self.mails.push((to, subject)),
                _ => {}
            }
        }
        Ok(value)
    }

    pub fn register(&mut self, node: &str) -> Vec<AgentOrder> {
        let registration = Registration {
            node: node.to_owned(),
            hardware: NodeHardware {
                boot_time: UnixSeconds(1),
                ..NodeHardware::default()
            },
            steps: Vec::new(),
            jobs: Vec::new(),
            health_error: None,
            heartbeat_secs: 5,
        };
        self.run(|t| agent::register(t, registration))
            .expect("node is configured")
    }

    pub fn try_submit(
        &mut self,
        description: JobDescription,
        caller: &Caller,
    ) -> Result<JobId, Rejection> {
        let script: Arc<Vec<u8>> = Arc::new(b"#!/bin/sh\ntrue\n".to_vec());
        let submission = Submission {
            description: JobDescription {
                uid: caller.uid,
                gid: caller.uid,
                work_dir: "/tmp".to_owned(),
                ..description
            },
            script: Some((BlobId([1; 32]), script)),
            environment: None,
            user_name: format!("user{}", caller.uid),
            group_name: "users".to_owned(),
            group_names: vec!["users".to_owned()],
            default_account: None,
            caller: caller.clone(),
        };
        self.run(|t| submit(t, submission))
            .map(|submitted| submitted.job_id)
    }

    pub fn submit(&mut self, description: JobDescription) -> JobId {
        self.try_submit(description, &ALICE).expect("accepted")
    }

    /// One scheduling pass.
    pub fn pass(&mut self) {
        let plan = schedule::plan(&self.cluster, self.now, PlanOptions::default());
        let violations = check::check_plan(&self.cluster, &plan, self.now);
        assert!(
            violations.is_empty(),
            "the plan breaks its rules: {violations:?}"
        );
        self.run(|t| Ok(carry_out(t, plan)))
            .expect("a plan is never refused");
    }

    pub fn report(&mut self, node: &str, report: AgentReport) {
        self.run(|t| {
            agent::report(t, node, report);
            Ok(())
        })
        .expect("reports are never refused");
    }

    /// The batch script of a running job ends with `status`.
    pub fn batch_ends(&mut self, id: JobId, status: WaitStatus) {
        let job = self.cluster.job(id).expect("job exists").clone();
        let host = job.allocation.as_ref().expect("job runs").nodes[0]
            .name
            .clone();
        self.report(
            &host,
            AgentReport::StepEnded(StepExit {
                job_id: id,
                attempt: job.run_attempt,
                step_id: StepId::Batch,
                tasks: vec![(0, status)],
                launch_error: None,
                usage: Default::default(),
                end_time: self.now,
            }),
        );
    }

    /// Every node that was told to end a job does so: its epilog is done.
    pub fn epilogs(&mut self) {
        let told: Vec<(String, JobId, u32)> = self
            .orders
            .iter()
            .filter_map(|(node, order)| match order {
                AgentOrder::TerminateJob {
                    job_id, attempt, ..
                } => Some((node.clone(), *job_id, *attempt)),
                _ => None,
            })
            .collect();
        self.orders
            .retain(|(_, order)| !matches!(order, AgentOrder::TerminateJob { .. }));
        for (node, job_id, attempt) in told {
            self.report(
                &node,
                AgentReport::EpilogDone {
                    job_id,
                    attempt,
                    error: None,
                },
            );
        }
    }

    /// The script ends, and all is cleaned up.
    pub fn finish(&mut self, id: JobId, status: WaitStatus) {
        self.batch_ends(id, status);
        self.epilogs();
    }

    pub fn tick(&mut self) {
        self.run(|t| {
            tick::tick(t);
            Ok(())
        })
        .expect("ticks are never refused");
    }

    /// State as `squeue` shows it.
    pub fn state(&self, id: JobId) -> String {
        let job = self.cluster.job(id).expect("job exists");
        job.state.code().to_owned()
    }

    /// Reason as `squeue` shows it.
    pub fn reason(&self, id: JobId) -> String {
        let job = self.cluster.job(id).expect("job exists");
        sluice_controller::view::job_info(&self.cluster, job, self.now)
            .reason
            .to_string()
    }

    /// Nodes a job has.
    pub fn nodes(&self, id: JobId) -> String {
        let job = self.cluster.job(id).expect("job exists");
        sluice_controller::view::job_info(&self.cluster, job, self.now).nodes
    }

    /// Ids of the records of an array by task; the record of the unstarted tasks is not among them.
    pub fn tasks(&self, array: JobId) -> BTreeMap<u32, JobId> {
        self.cluster
            .array_members(array)
            .into_iter()
            .filter_map(|id| Some((self.cluster.job(id)?.array_task()?, id)))
            .collect()
    }

    /// Node use is what the jobs hold, and a replay of the journal gives this state.
    pub fn check(&self) {
        let violations = check::recount(&self.cluster);
        assert!(violations.is_empty(), "node use is off: {violations:?}");
        let mut replayed = self.initial.clone();
        for entry in &self.journal {
            let bytes = rmp_serde::to_vec_named(entry).expect("entries can be encoded");
            let entry: JournalEntry = rmp_serde::from_slice(&bytes).expect("and decoded");
            for event in &entry.events {
                event::apply(&mut replayed, event);
            }
        }
        let live = rmp_serde::to_vec_named(&self.cluster).expect("state can be encoded");
        let again = rmp_serde::to_vec_named(&replayed).expect("state can be encoded");
        assert!(live == again, "a replay of the journal gives another state");
    }
}

/// A batch job of `cpus` CPUs.
pub fn cpus(count: u32) -> JobDescription {
    JobDescription {
        ntasks: Some(count),
        batch: true,
        ..JobDescription::default()
    }
}
