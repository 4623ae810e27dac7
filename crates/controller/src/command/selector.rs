//! From what users type (`5`, `5_3`, `5_[1-3]`, `5.0`) to job records and unstarted array tasks.

use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, JobPart, JobSelector, StepId};

use super::{Rejection, TargetOutcome};
use crate::cluster::Cluster;
use crate::transaction::Transaction;

/// One thing a selector names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Record.
    pub job: JobId,
    /// Unstarted tasks within the record; `None` = the whole record.
    pub tasks: Option<Vec<u32>>,
    /// Step.
    pub step: Option<StepId>,
}

/// Finds what `text` names.
///
/// # Errors
/// Invalid job id (2017) when the text is no id or names nothing.
pub fn resolve(cluster: &Cluster, text: &str) -> Result<Vec<Selected>, Rejection> {
    let selector: JobSelector = text
        .parse()
        .map_err(|_| Rejection::new(ErrorCode::InvalidJobId))?;
    let mut found = Vec::new();
    let step = selector.step;
    match &selector.part {
        JobPart::Task(_) | JobPart::Tasks(_) => {
            for id in cluster.array_members(selector.job) {
                let Some(array) = cluster.job(id).and_then(|job| job.array.as_ref()) else {
                    continue;
                };
                match array.task_id {
                    Some(task) => {
                        if selector.selects_task(task) {
                            found.push(Selected {
                                job: id,
                                tasks: None,
                                step,
                            });
                        }
                    }
                    None => {
                        let tasks: Vec<u32> = array
                            .pending
                            .tasks
                            .iter()
                            .filter(|task| selector.selects_task(*task))
                            .collect();
                        if tasks.len() == array.pending.tasks.len() && !tasks.is_empty() {
                            found.push(Selected {
                                job: id,
                                tasks: None,
                                step,
                            });
                        } else if !tasks.is_empty() {
                            found.push(Selected {
                                job: id,
                                tasks: Some(tasks),
                                step,
                            });
                        }
                    }
                }
            }
        }
        JobPart::Component(offset) => {
            let leader = cluster.job(selector.job).and_then(|job| job.het);
            let wanted = selector.job.0.checked_add(*offset).map(JobId);
            let component = leader
                .filter(|het| het.leader == selector.job && *offset < het.size)
                .and(wanted)
                .filter(|id| cluster.jobs.contains_key(id));
            found.extend(component.map(|job| Selected {
                job,
                tasks: None,
                step,
            }));
        }
        JobPart::Whole => {
            // An array's id names all of it; a task's own record id names that task.
            let members = if cluster.arrays.contains_key(&selector.job) && step.is_none() {
                cluster.array_members(selector.job)
            } else if let Some(job) = cluster.job(selector.job) {
                match job.het {
                    // The leader's id names all components, another's only itself.
                    Some(het) if het.offset == 0 && step.is_none() => {
                        super::het::members(cluster, job)
                            .iter()
                            .map(|job| job.id)
                            .collect()
                    }
                    _ => vec![selector.job],
                }
            } else {
                Vec::new()
            };
            found.extend(members.into_iter().map(|job| Selected {
                job,
                tasks: None,
                step,
            }));
        }
    }
    if found.is_empty() {
        return Err(Rejection::new(ErrorCode::InvalidJobId));
    }
    Ok(found)
}

/// Does something to every record that the texts name; one outcome for each, and one for each text that names nothing.
pub fn for_each(
    transaction: &mut Transaction<'_>,
    targets: &[String],
    mut act: impl FnMut(&mut Transaction<'_>, JobId) -> Result<(), Rejection>,
) -> Vec<TargetOutcome> {
    let mut outcomes = Vec::new();
    for target in targets {
        let mut tell = |job, rejection| {
            outcomes.push(TargetOutcome {
                target: target.clone(),
                job,
                rejection,
            });
        };
        match resolve(transaction.cluster, target) {
            Err(rejection) => tell(None, Some(rejection)),
            Ok(selected) => {
                for one in selected {
                    let rejection = act(transaction, one.job).err();
                    tell(Some(one.job), rejection);
                }
            }
        }
    }
    outcomes
}
