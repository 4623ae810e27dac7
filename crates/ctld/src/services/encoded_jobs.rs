//! Jobs encoded once for all readers: a list of ten thousand jobs that did not change is a copy of bytes.
//!
//! An entry is good as long as the job's record, its priorities, the planner's note on it and the configuration are the same objects
//! or equal.
//! What depends on the clock or on other jobs (a begin time, a singleton) is never kept. Invariant: readers see what
//! [`sluice_controller::view`] would give them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sluice_controller::Cluster;
use sluice_controller::cluster::Job;
use sluice_controller::plan::PlanNote;
use sluice_controller::view;
use sluice_model::dependency::DependencyKind;
use sluice_model::ids::JobId;
use sluice_model::job::{JobDescription, JobInfo};
use sluice_model::time::UnixSeconds;
use sluice_model::tres::Tres;

/// Entries of jobs that left memory are dropped when the table has this many more than there are jobs.
const SLACK: usize = 4_096;

struct Entry {
    job: Arc<Job>,
    note: Option<PlanNote>,
    places: Vec<i64>,
    config_version: u64,
    bytes: Bytes,
}

/// The encoded jobs, in full and in brief.
#[derive(Default)]
pub struct EncodedJobs {
    full: Mutex<HashMap<JobId, Entry>>,
    brief: Mutex<HashMap<JobId, Entry>>,
}

impl EncodedJobs {
    /// Encodes jobs of a snapshot, or takes what an earlier reader left.
    pub fn encode(
        &self,
        cluster: &Cluster,
        jobs: &[&Arc<Job>],
        brief: bool,
        time: UnixSeconds,
    ) -> Vec<Bytes> {
        let table = if brief { &self.brief } else { &self.full };
        let mut encoded = Vec::with_capacity(jobs.len());
        let mut missing = Vec::new();
        {
            let table = table.lock();
            for (at, job) in jobs.iter().enumerate() {
                let note = cluster.plan_notes.get(&job.id);
                let known = table.get(&job.id).filter(|entry| {
                    Arc::ptr_eq(&entry.job, job)
                        && entry.note.as_ref() == note
                        && has_places(cluster, job.id, &entry.places)
                        && entry.config_version == cluster.config_version
                });
                match known {
                    Some(entry) => encoded.push(entry.bytes.clone()),
                    None => {
                        encoded.push(Bytes::new());
                        missing.push(at);
                    }
                }
            }
        }
        // Encoded without the lock: other readers go on with what is there.
        let mut fresh = Vec::new();
        for at in missing {
            let job = jobs[at];
            let mut info = view::job_info(cluster, job, time);
            if brief {
                shorten(&mut info);
            }
            let bytes = sluice_proto::job_to_bytes(info);
            encoded[at] = bytes.clone();
            if !depends_on_more(job) {
                let note = cluster.plan_notes.get(&job.id).cloned();
                let config_version = cluster.config_version;
                fresh.push((
                    job.id,
                    Entry {
                        job: Arc::clone(job),
                        note,
                        places: places(cluster, job.id).collect(),
                        config_version,
                        bytes,
                    },
                ));
            }
        }
        if !fresh.is_empty() {
            let mut table = table.lock();
            table.extend(fresh);
            if table.len() > cluster.jobs.len() + SLACK {
                table.retain(|id, _| cluster.jobs.contains_key(id));
            }
        }
        encoded
    }
}

/// What a job's priorities follow from: they are not in its record, because a cycle changes those of all jobs.
fn places(cluster: &Cluster, id: JobId) -> impl Iterator<Item = i64> + '_ {
    let priority = cluster.priorities.jobs.get(&id);
    priority.into_iter().flat_map(|priority| {
        let others = priority.others.iter().map(|rank| rank.standing);
        std::iter::once(priority.first.standing).chain(others)
    })
}

fn has_places(cluster: &Cluster, id: JobId, known: &[i64]) -> bool {
    places(cluster, id).eq(known.iter().copied())
}

/// The shown record depends on the clock or on other jobs.
fn depends_on_more(job: &Job) -> bool {
    job.state.is_pending()
        && (job.begin_time.is_some()
            || job
                .dependency
                .terms
                .iter()
                .any(|(term, _)| term.kind == DependencyKind::Singleton))
}

/// Leaves out what `ListJobsRequest.brief` says.
fn shorten(info: &mut JobInfo) {
    let full = std::mem::take(&mut info.description);
    info.description = JobDescription {
        work_dir: String::new(),
        std_in: None,
        std_out: None,
        std_err: None,
        script_args: Vec::new(),
        command: None,
        rlimits: Default::default(),
        distribution: None,
        cpu_bind: None,
        mem_bind: None,
        gpu_bind: None,
        submit_host: String::new(),
        submit_line: String::new(),
        submission_key: String::new(),
        extra: Default::default(),
        ..full
    };
    info.req_tres = Tres::new();
    info.alloc_tres = Tres::new();
    info.allocation = Vec::new();
    info.std_out_path = String::new();
    info.std_err_path = String::new();
    info.std_in_path = String::new();
}
