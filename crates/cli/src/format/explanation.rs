//! `scontrol explain`: why a job waits, in words.
//!
//! Pure. One fact a line; what is nested is indented by two blanks. The facts are the engine's, see `sluice_model::explanation`.

use sluice_model::explanation::{Blocker, BlockerKind, Explanation, PartitionExplanation};
use sluice_model::job::JobInfo;
use sluice_model::time::{UnixSeconds, format_duration_full};

use super::time_style::TimeStyle;

/// The lines about a job. `id` is the id as the user writes it.
#[must_use]
pub fn explanation(id: &str, job: &JobInfo, found: &Explanation, times: &TimeStyle) -> String {
    let name = job.description.name.as_deref().unwrap_or_default();
    let mut text = format!(
        "JobId={id} JobName={name} UserId={}({}) Partition={} Priority={} Reason={}\n",
        job.user_name,
        job.description.uid,
        job.partition,
        job.priority,
        found.reason.name()
    );
    text.push_str(&format!("It waits because {}.\n", found.summary));
    match found.expected_start {
        Some(start) => {
            let nodes = if found.planned_nodes.is_empty() {
                String::new()
            } else {
                format!(" on {}", found.planned_nodes)
            };
            text.push_str(&format!(
                "Expected start: {}{nodes}\n",
                when(start, found.evaluated, times)
            ));
        }
        None => text.push_str("Expected start: not known\n"),
    }
    if !found.blockers.is_empty() {
        text.push_str("In its way:\n");
        for blocker in &found.blockers {
            text.push_str(&format!("  {}\n", blocker_line(blocker, times)));
        }
        if found.more_blockers > 0 {
            text.push_str(&format!("  and {} more\n", found.more_blockers));
        }
    }
    for place in &found.partitions {
        partition(place, found.evaluated, times, &mut text);
    }
    if !found.advice.is_empty() {
        text.push_str("What would help:\n");
        for advice in &found.advice {
            let start = advice.start.map_or_else(String::new, |start| {
                format!(": {}", when(start, found.evaluated, times))
            });
            text.push_str(&format!("  {}{start}\n", advice.text));
        }
    }
    text
}

/// A point in time, and how far it is.
fn when(time: UnixSeconds, now: UnixSeconds, times: &TimeStyle) -> String {
    let left = time.since(now);
    if left <= 0 {
        return format!("{} (now)", times.point(time));
    }
    format!("{} (in {})", times.point(time), format_duration_full(left))
}

fn blocker_line(blocker: &Blocker, times: &TimeStyle) -> String {
    let nodes = if blocker.nodes.is_empty() {
        String::new()
    } else {
        format!(" on {}", blocker.nodes)
    };
    let until = match (blocker.from, blocker.until) {
        (Some(from), Some(until)) => {
            format!(" from {} to {}", times.point(from), times.point(until))
        }
        (Some(from), None) => format!(" from {}, without a known end", times.point(from)),
        (None, Some(until)) => format!(" until {}", times.point(until)),
        (None, None) if blocker.nodes.is_empty() => String::new(),
        (None, None) => ", without a known end".to_owned(),
    };
    let what = match blocker.kind {
        BlockerKind::RunningJob | BlockerKind::PlannedJob => {
            format!("job {} {}", blocker.name, blocker.text)
        }
        BlockerKind::Dependency => blocker.text.clone(),
        BlockerKind::Reservation => named("reservation", blocker),
        BlockerKind::License => named("licence", blocker),
    };
    format!("{what}{nodes}{until}")
}

fn named(kind: &str, blocker: &Blocker) -> String {
    if blocker.text.is_empty() {
        format!("{kind} {}", blocker.name)
    } else {
        format!("{kind} {}: {}", blocker.name, blocker.text)
    }
}

fn partition(place: &PartitionExplanation, now: UnixSeconds, times: &TimeStyle, text: &mut String) {
    let nodes = |count: u32| if count == 1 { "node" } else { "nodes" };
    if place.rule.is_some() {
        text.push_str(&format!("Partition {}: {}\n", place.partition, place.text));
        return;
    }
    let start = place.expected_start.map_or_else(String::new, |start| {
        format!(", start there {}", when(start, now, times))
    });
    text.push_str(&format!(
        "Partition {} has {} {}{start}:\n",
        place.partition,
        place.total,
        nodes(place.total)
    ));
    if place.free_count > 0 {
        text.push_str(&format!(
            "  {} {} with room for a part of it: {}\n",
            place.free_count,
            nodes(place.free_count),
            place.free
        ));
    }
    for refused in &place.refused {
        text.push_str(&format!(
            "  {} {} {}: {}\n",
            refused.count,
            nodes(refused.count),
            refused.cause.text(),
            refused.nodes
        ));
    }
}
