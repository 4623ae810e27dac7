//! Are reservations and licences kept? By trial of each start against each reservation, apart from the planner.
//!
//! Times in seconds. Never changes anything.

use std::collections::BTreeMap;

use sluice_model::reservation::ReservationFlags;
use sluice_model::time::UnixSeconds;

use super::Violation;
use crate::cluster::{Cluster, Reservation};
use crate::license;
use crate::plan::{Plan, PlannedStart};
use crate::reservation::{access, keeps_out, names_of, occurrence, run_end};
use crate::schedule::limit_secs;

/// Every start is outside of what is reserved for others, and inside of its own reservation.
pub(super) fn check(
    cluster: &Cluster,
    plan: &Plan,
    now: UnixSeconds,
    violations: &mut Vec<Violation>,
) {
    for start in &plan.starts {
        check_start(cluster, start, now, violations);
    }
    check_licenses(cluster, plan, now, violations);
}

fn end_of(cluster: &Cluster, start: &PlannedStart, now: UnixSeconds) -> i64 {
    let own = start
        .reservation
        .and_then(|id| cluster.reservations.get(&id));
    let end = now.0.saturating_add(limit_secs(start.time_limit));
    run_end(own.map(std::convert::AsRef::as_ref), end, now)
}

fn check_start(
    cluster: &Cluster,
    start: &PlannedStart,
    now: UnixSeconds,
    violations: &mut Vec<Violation>,
) {
    let who = format!("job {}", start.job);
    let own = start
        .reservation
        .and_then(|id| cluster.reservations.get(&id));
    if let Some(id) = start.reservation {
        let job = cluster.job(start.job);
        let allowed = own.zip(job).is_some_and(|(own, job)| {
            let asked = names_of(job.request.reservation.as_deref()).any(|name| name == own.name);
            (asked || own.is(ReservationFlags::MAGNETIC)) && access::job_may_use(cluster, own, job)
        });
        if !allowed {
            violations.push(Violation::Reservation {
                who: who.clone(),
                reservation: id,
            });
        }
    } else if cluster
        .job(start.job)
        .is_some_and(|job| job.request.reservation.is_some())
    {
        violations.push(Violation::Reservation {
            who: who.clone(),
            reservation: 0,
        });
    }
    let end = end_of(cluster, start, now);
    let mut kept = |node: &str, what: &str| {
        violations.push(Violation::Reserved {
            who: who.clone(),
            what: what.to_owned(),
            node: node.to_owned(),
        });
    };
    for part in &start.allocation.nodes {
        for other in cluster.reservations.values() {
            if !keeps_out(other, own.map(std::convert::AsRef::as_ref))
                || !occurrence::touches(other, now.0, end, now)
            {
                continue;
            }
            if let Some(reserved) = other.on(&part.name) {
                let meets = part.cpu_ids.iter().any(|cpu| reserved.cpus.contains(cpu));
                if reserved.is_whole() || meets || start.allocation.whole_nodes {
                    kept(&part.name, &other.name);
                }
            }
        }
        if let Some(own) = own.filter(|own| !own.is(ReservationFlags::FLEX)) {
            inside(own, part, (now.0, end), now, &mut kept);
        }
    }
}

fn inside(
    own: &Reservation,
    part: &crate::cluster::NodeAllocation,
    (from, to): (i64, i64),
    now: UnixSeconds,
    kept: &mut impl FnMut(&str, &str),
) {
    if !occurrence::holds(own, from, to, now) {
        kept(&part.name, "the time");
    }
    if own.is(ReservationFlags::ANY_NODES) {
        return;
    }
    match own.on(&part.name) {
        None => kept(&part.name, "a node outside"),
        Some(reserved) => {
            let outside = |cpu: &u32| !reserved.is_whole() && !reserved.cpus.contains(cpu);
            if part.cpu_ids.iter().any(outside) {
                kept(&part.name, "a CPU outside");
            }
        }
    }
}

fn check_licenses(
    cluster: &Cluster,
    plan: &Plan,
    now: UnixSeconds,
    violations: &mut Vec<Violation>,
) {
    let before = license::held(cluster);
    let mut held = before.clone();
    for start in &plan.starts {
        let who = || format!("job {}", start.job);
        let need = cluster
            .job(start.job)
            .map(|job| license::need_of(job))
            .unwrap_or_default();
        let given_as_asked = if need.any {
            start.licenses.len() == 1 && need.items.contains(&start.licenses[0])
        } else {
            need.items == start.licenses
        };
        if !given_as_asked {
            violations.push(Violation::License {
                who: who(),
                license: "asked for".to_owned(),
                given: start.licenses.len() as u64,
                there: need.items.len() as u64,
            });
        }
        for (name, count) in &start.licenses {
            let end = end_of(cluster, start, now);
            let there = license::available(cluster, &held, name, start.reservation, end, now);
            if *count > there {
                violations.push(Violation::License {
                    who: who(),
                    license: name.clone(),
                    given: *count,
                    there,
                });
            }
            *held.entry((start.reservation, name.clone())).or_default() += count;
        }
    }
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, name), count) in &held {
        *sums.entry(name).or_default() += count;
    }
    if held == before {
        // A smaller configuration may have come in since: what is held stays held.
        return;
    }
    for (name, given) in sums {
        let there = license::total(cluster, name).unwrap_or(0);
        if given > there {
            violations.push(Violation::License {
                who: "all jobs".to_owned(),
                license: name.to_owned(),
                given,
                there,
            });
        }
    }
}
