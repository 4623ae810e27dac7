//! The parts of an explanation that need no pass: causes in words with their numbers, holds, dependencies and licences.
//!
//! Reads the state only. Sentences have no full stop: who prints them sets it.

use sluice_model::dependency::{DependencyKind, DependencyStatus};
use sluice_model::explanation::{
    Advice, AdviceKind, Blocker, BlockerKind, Explanation, NodeCause, PartitionExplanation,
};
use sluice_model::reason::Reason;
use sluice_model::time::TimeLimit;

use crate::cluster::{Cluster, Job, Partition};
use crate::license;
use crate::reservation::asked_for;
use crate::reservation::fence::ViewKey;
use crate::schedule::{UNLIMITED_SECS, expected_end};

/// A job that may not be considered at all: held, dependent, too early, or still cleaning up.
pub(super) fn not_eligible(
    cluster: &Cluster,
    job: &Job,
    text: Option<String>,
    explanation: &mut Explanation,
) {
    let id = job.id;
    let release = |explanation: &mut Explanation, who: &str| {
        explanation.advice.push(Advice {
            kind: AdviceKind::Command,
            value: format!("scontrol release {id}"),
            start: None,
            text: format!("{who} can release it with \"scontrol release {id}\""),
        });
    };
    explanation.summary = match explanation.reason {
        Reason::BeginTime => {
            explanation.expected_start = job.begin_time;
            "it was asked not to start before its begin time".to_owned()
        }
        Reason::Reservation => {
            for own in asked_for(cluster, job) {
                explanation.blockers.push(Blocker {
                    kind: BlockerKind::Reservation,
                    name: own.name.clone(),
                    until: Some(own.start_at(explanation.evaluated)),
                    text: "has not begun".to_owned(),
                    ..Blocker::default()
                });
            }
            explanation.expected_start = explanation
                .blockers
                .iter()
                .filter_map(|blocker| blocker.until)
                .min();
            "its reservation has not begun".to_owned()
        }
        Reason::ReservationInvalid => "there is no reservation of the name it asks for".to_owned(),
        Reason::Cleaning => {
            "its former run is not over yet: nodes still clean up after it".to_owned()
        }
        Reason::Dependency | Reason::DependencyNeverSatisfied => {
            explanation.blockers = dependencies(cluster, job);
            if explanation.reason == Reason::Dependency {
                "it depends on other jobs".to_owned()
            } else {
                explanation.advice.push(Advice {
                    kind: AdviceKind::Command,
                    value: format!("scontrol update JobId={id} Dependency="),
                    start: None,
                    text: format!(
                        "\"scontrol update JobId={id} Dependency=\" takes the dependency away, \"scancel {id}\" ends the job"
                    ),
                });
                "it depends on a job that did not end as it should have: this can never come true"
                    .to_owned()
            }
        }
        Reason::JobHeldUser => {
            release(explanation, "its user");
            "it is held by its user".to_owned()
        }
        Reason::JobHeldAdmin => {
            release(explanation, "an administrator");
            "it is held by an administrator (its priority is 0)".to_owned()
        }
        reason => {
            release(explanation, "an administrator");
            match text {
                Some(text) => format!("it is held ({reason}): {text}"),
                None => format!("it is held ({reason})"),
            }
        }
    };
}

/// A job that waits for licences: how many are free, and who holds the others. When they come back is not known: a job that holds
/// some may end early, and others may wait for them as well.
pub(super) fn licenses(
    cluster: &Cluster,
    job: &Job,
    reservation: ViewKey,
    explanation: &mut Explanation,
) {
    let now = explanation.evaluated;
    let need = license::need_of(job);
    let held = license::held(cluster);
    let short: Vec<(&str, String)> = need
        .items
        .iter()
        .filter_map(|(name, count)| {
            let total = license::total(cluster, name).unwrap_or(0);
            let free = license::available(cluster, &held, name, reservation, now.0 + 1, now);
            let text =
                format!("it needs {count} of licence {name}, and {free} of {total} are free");
            (free < *count).then_some((name.as_str(), text))
        })
        .collect();
    explanation.summary = if short.is_empty() {
        "its licences are promised to others before it would end".to_owned()
    } else {
        let texts: Vec<&str> = short.iter().map(|(_, text)| text.as_str()).collect();
        texts.join(if need.any { ", or " } else { "; " })
    };
    explanation.advice.clear();
    let mut found = Vec::new();
    let holders = cluster.holding.iter().filter_map(|id| cluster.job(*id));
    for holder in holders.filter(|holder| license::holds(holder)) {
        for (name, count) in &holder.licenses {
            if short.iter().any(|(short, _)| short == name) {
                let end = expected_end(holder, now);
                found.push(Blocker {
                    kind: BlockerKind::License,
                    name: name.clone(),
                    until: Some(end).filter(|end| end.0 - now.0 < UNLIMITED_SECS / 2),
                    text: format!("{count} held by job {}", holder.id),
                    ..Blocker::default()
                });
            }
        }
    }
    list_blockers(found, explanation);
}

/// The one that goes last binds and comes first; unknown ends go last of all.
pub(super) fn list_blockers(mut found: Vec<Blocker>, explanation: &mut Explanation) {
    found.sort_by_key(|blocker| {
        let until = blocker.until.map_or(i64::MAX, |until| until.0);
        (
            std::cmp::Reverse(until),
            blocker.name.len(),
            blocker.name.clone(),
        )
    });
    explanation.more_blockers = found.len().saturating_sub(Explanation::MOST_BLOCKERS) as u32;
    found.truncate(Explanation::MOST_BLOCKERS);
    explanation.blockers = found;
}

/// Terms that are not fulfilled, with the state of the job that each is about.
fn dependencies(cluster: &Cluster, job: &Job) -> Vec<Blocker> {
    let open = job
        .dependency
        .terms
        .iter()
        .filter(|(_, status)| *status != DependencyStatus::Fulfilled);
    open.map(|(term, status)| {
        if term.kind == DependencyKind::Singleton {
            return Blocker {
                kind: BlockerKind::Dependency,
                text: "singleton: another job of this name and user has to end first".to_owned(),
                ..Blocker::default()
            };
        }
        let state = cluster.job(term.job).map_or_else(
            || "no longer known".to_owned(),
            |target| format!("is {}", target.state),
        );
        let failed = if *status == DependencyStatus::Failed {
            ", which does not satisfy it"
        } else {
            ""
        };
        Blocker {
            kind: BlockerKind::Dependency,
            name: term.job.to_string(),
            text: format!("{term}: the job {state}{failed}"),
            ..Blocker::default()
        }
    })
    .collect()
}

/// A rule of a partition in words, with its numbers.
pub(super) fn rule_text(
    cluster: &Cluster,
    job: &Job,
    partition: &Partition,
    rule: Reason,
) -> String {
    let config = &partition.config;
    let name = &config.name;
    match rule {
        Reason::PartitionDown => format!("partition {name} is DOWN: it starts no jobs"),
        Reason::PartitionInactive => format!("partition {name} is INACTIVE"),
        Reason::PartitionTimeLimit => format!(
            "the time limit {} is above MaxTime={} of partition {name}",
            job.time_limit.unwrap_or(TimeLimit::Unlimited),
            config.max_time
        ),
        Reason::PartitionNodeLimit => {
            let asked = job.request.min_nodes.unwrap_or(1);
            let limits = match config.max_nodes {
                Some(most) if asked > most => format!("MaxNodes={most}"),
                _ if asked as usize > partition.nodes.len() => {
                    format!("its {} nodes", partition.nodes.len())
                }
                _ => format!("MinNodes={}", config.min_nodes),
            };
            format!("{asked} nodes do not go with {limits} of partition {name}")
        }
        Reason::AccountNotAllowed => {
            format!("account {} may not use partition {name}", job.account)
        }
        Reason::QOSNotAllowed => format!("QOS {} may not be used in partition {name}", job.qos),
        Reason::MaxMemPerLimit => {
            format!("the memory asked for is above the largest that partition {name} gives")
        }
        Reason::PartitionConfig if config.root_only => {
            format!("only root may use partition {name}")
        }
        Reason::PartitionConfig if config.req_resv => {
            format!("partition {name} takes jobs of reservations only")
        }
        _ => {
            let nodes = cluster.nodes.len();
            format!("{rule} in partition {name} (the cluster has {nodes} nodes)")
        }
    }
}

/// The cause in one sentence.
pub(super) fn summary(job: &Job, explanation: &Explanation) -> String {
    let ruled: Vec<&str> = explanation
        .partitions
        .iter()
        .filter(|place| place.rule.is_some())
        .map(|place| place.text.as_str())
        .collect();
    if explanation.partitions.is_empty() {
        return "the partition it asked for does not exist any more".to_owned();
    }
    if ruled.len() == explanation.partitions.len() {
        return ruled.join("; ");
    }
    let places: Vec<&PartitionExplanation> = explanation
        .partitions
        .iter()
        .filter(|place| place.rule.is_none())
        .collect();
    let wanted = job.request.min_nodes.unwrap_or(1).max(1);
    let free = places
        .iter()
        .map(|place| place.free_count)
        .max()
        .unwrap_or(0);
    let has_promised = places
        .iter()
        .flat_map(|place| &place.refused)
        .any(|refused| refused.cause == NodeCause::Promised);
    let nodes = |count: u32| if count == 1 { "node" } else { "nodes" };
    let shortage = if free == 0 && wanted == 1 {
        "no node has room for it now".to_owned()
    } else if free < wanted {
        format!(
            "it needs {wanted} {} at once, and {free} have room now",
            nodes(wanted)
        )
    } else {
        format!(
            "{free} {} have room for a part of it, but not together for all of it",
            nodes(free)
        )
    };
    let ahead = match explanation.jobs_ahead {
        0 => String::new(),
        1 => "; 1 job is served before it".to_owned(),
        jobs => format!("; {jobs} jobs are served before it"),
    };
    let stands = |kind: BlockerKind| explanation.blockers.iter().any(|b| b.kind == kind);
    let promised = match (has_promised, stands(BlockerKind::Reservation)) {
        (false, _) => "",
        (true, true) if !stands(BlockerKind::PlannedJob) => {
            "; a reservation needs free nodes before this job would end"
        }
        (true, true) => "; nodes that are free are promised to reservations and to jobs before it",
        (true, false) => "; nodes that are free are promised to jobs before it",
    };
    format!("{shortage}{promised}{ahead}")
}
