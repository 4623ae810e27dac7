//! What a submitted job asks for: made from the kinds of jobs that the options name. The same submission for the same number, however
//! often it is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_controller::cluster::BlobId;
use sluice_model::gres::GresRequest;
use sluice_model::ids::JobId;
use sluice_model::job::{Exclusive, JobDescription};
use sluice_model::memory::MemoryMib;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::chance::Chance;
use crate::options::{JobKind, Options};

/// A submission.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Request.
    pub description: JobDescription,
    /// Script.
    pub script: (BlobId, Arc<Vec<u8>>),
    /// Tasks of the array; empty = no array.
    pub tasks: BTreeSet<u32>,
    /// The other components of a heterogeneous job.
    pub others: Vec<JobDescription>,
    /// For the trace.
    pub words: String,
}

/// Makes submission `number`.
#[must_use]
pub fn wish(seed: u64, number: u64, options: &Options, known: &[JobId], now: UnixSeconds) -> Wish {
    let mut c = Chance::of(seed, &[4, number]);
    let uid = c.pick(&[1001, 1002]);
    let script = c.between(0, 3) as u8;
    let mut description = JobDescription {
        uid,
        gid: uid,
        name: Some(c.pick(&["one", "two", "three"]).to_owned()),
        batch: true,
        work_dir: "/tmp".to_owned(),
        ntasks: Some(c.between(1, options.cores) as u32),
        submission_key: format!("{seed}-{number}"),
        // Longer than any payload, so that the limit rules only where it is meant to.
        time_limit: Some(TimeLimit::Minutes(c.between(2, 8) as u32)),
        ..JobDescription::default()
    };
    let mut tasks = BTreeSet::new();
    let mut components = 0;
    let kinds: Vec<JobKind> = options
        .jobs
        .iter()
        .copied()
        .filter(|_| c.likely(300))
        .collect();
    for kind in &kinds {
        match kind {
            JobKind::Array => {
                let count = c.between(1, 8) as u32;
                tasks = (0..count).map(|task| task * 2).collect();
                let list: Vec<String> = tasks.iter().map(u32::to_string).collect();
                let throttle = c.between(0, 3);
                let limit = if throttle > 0 {
                    format!("%{throttle}")
                } else {
                    String::new()
                };
                description.array = Some(list.join(",") + &limit);
            }
            JobKind::Dependent => description.dependency = dependency(&mut c, known),
            JobKind::Nodes => {
                let count = c.between(1, options.nodes) as u32;
                description.min_nodes = Some(count);
                description.max_nodes = Some(count);
                description.ntasks = Some(count * c.between(1, options.cores) as u32);
            }
            JobKind::Exclusive => description.exclusive = Some(Exclusive::Node),
            JobKind::Gpu if options.gpus > 0 => {
                let count = c.between(1, options.gpus);
                description.gres_per_node = vec![GresRequest {
                    name: "gpu".to_owned(),
                    type_name: None,
                    count,
                }];
            }
            JobKind::Gpu => {}
            JobKind::Memory => {
                description.mem_per_node = Some(MemoryMib(c.between(100, options.memory)))
            }
            JobKind::ShortLimit => description.time_limit = Some(TimeLimit::Minutes(1)),
            JobKind::Begin => {
                description.begin_time = Some(UnixSeconds(now.0 + c.between(1, 60) as i64))
            }
            JobKind::Partitions => {
                let lists: [&[&str]; 3] = [&["high"], &["main", "high"], &["main"]];
                description.partitions = c
                    .pick(&lists)
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect();
            }
            JobKind::NoRequeue => description.requeue = Some(c.likely(300)),
            JobKind::Held => description.hold = true,
            JobKind::Heterogeneous if options.nodes >= 4 => {
                components = c.between(1, (options.nodes / 2) - 1);
            }
            JobKind::Heterogeneous => {}
        }
    }
    // Each component needs nodes of its own, two at most for its memory. Slurm takes no arrays of heterogeneous jobs.
    if components > 0 {
        description.min_nodes = None;
        description.max_nodes = None;
        description.ntasks = Some(c.between(1, options.cores) as u32);
    }
    let others: Vec<JobDescription> = (0..components)
        .filter(|_| tasks.is_empty())
        .map(|_| JobDescription {
            ntasks: Some(c.between(1, options.cores) as u32),
            submission_key: String::new(),
            ..description.clone()
        })
        .collect();
    let words = format!(
        "{kinds:?}, {} more components, {:?} tasks, array {:?}, dependency {:?}",
        others.len(),
        description.ntasks,
        description.array,
        description.dependency
    );
    let bytes = Arc::new(format!("#!/bin/sh\nscript {script}\n").into_bytes());
    Wish {
        description,
        script: (BlobId([script; 32]), bytes),
        tasks,
        others,
        words,
    }
}

fn dependency(c: &mut Chance, known: &[JobId]) -> Option<String> {
    if known.is_empty() || c.likely(150) {
        return Some("singleton".to_owned());
    }
    let from = known.len().saturating_sub(6);
    let kind = c.pick(&["after", "afterany", "afterok", "afternotok", "aftercorr"]);
    let first = format!("{kind}:{}", c.pick(&known[from..]));
    if c.likely(300) {
        let joint = c.pick(&[",", "?"]);
        return Some(format!("{first}{joint}afterany:{}", c.pick(&known[from..])));
    }
    Some(first)
}
