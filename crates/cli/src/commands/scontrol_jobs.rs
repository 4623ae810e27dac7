//! scontrol's commands about jobs: hold, release, requeue, suspend, top, notify, wait_job.
//!
//! One line per job that refuses. Source: scontrol(1).

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1;

use super::caller::Place;
use super::job_results::{error_code, print_failures};
use super::scontrol::{Context, is_keyword};
use super::watch;
use crate::client::{Client, ClientError};
use crate::output;

/// `hold`.
pub(super) const HOLD: v1::HoldKind = v1::HoldKind::Hold;
/// `uhold`.
pub(super) const USER_HOLD: v1::HoldKind = v1::HoldKind::Uhold;
/// `release`.
pub(super) const RELEASE: v1::HoldKind = v1::HoldKind::Release;

/// Job lists: words, each a list with commas outside brackets.
pub(super) fn selectors(words: &[String]) -> Vec<String> {
    let mut depth = 0_u32;
    words
        .iter()
        .flat_map(|word| {
            word.split(|letter| {
                match letter {
                    '[' => depth += 1,
                    ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                letter == ',' && depth == 0
            })
            .map(String::from)
            .collect::<Vec<_>>()
        })
        .filter(|item| !item.is_empty())
        .collect()
}

/// Ids of the jobs with one of these names, all users' or one user's.
pub(super) async fn ids_by_name(
    client: &Client,
    names: &[String],
    user: Option<u32>,
) -> Result<Vec<String>, ClientError> {
    let request = v1::ListJobsRequest {
        users: user.into_iter().collect(),
        include_finished: Some(false),
        brief: true,
        ..Default::default()
    };
    let jobs = client.jobs(request).await?;
    let named = jobs.iter().filter(|job| {
        job.description
            .name
            .as_ref()
            .is_some_and(|name| names.contains(name))
    });
    Ok(named.map(|job| job.job_id.to_string()).collect())
}

/// Jobs named by id, or by `jobname=`.
async fn named_jobs(
    client: &Client,
    words: &[String],
    place: &Place,
) -> Result<Vec<String>, ClientError> {
    let mut names = Vec::new();
    let mut ids = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if is_keyword(key, "jobname", 4) || is_keyword(key, "name", 2) => {
                names.extend(value.split(',').map(String::from));
            }
            Some((key, value)) if is_keyword(key, "jobid", 1) => {
                ids.extend(selectors(&[value.to_string()]));
            }
            _ => ids.extend(selectors(std::slice::from_ref(word))),
        }
    }
    if !names.is_empty() {
        let user = (place.uid != 0).then_some(place.uid);
        ids.extend(ids_by_name(client, &names, user).await?);
    }
    Ok(ids)
}

/// A call that fails as a whole is reported once.
pub(super) fn call_failed(prefix: &str, error: &ClientError) -> i32 {
    output::error_with_hint(format!("{prefix}{error}"), error);
    1
}

/// The exit status of a call that has nothing to tell when it succeeds.
pub(super) fn done(prefix: &str, result: Result<(), ClientError>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => call_failed(prefix, &error),
    }
}

pub(super) async fn hold(context: &Context, words: &[String], kind: v1::HoldKind) -> i32 {
    let result = async {
        let client = context.connect().await?;
        let jobs = named_jobs(&client, words, &context.place).await?;
        if jobs.is_empty() {
            // No job of this name.
            return Ok(Vec::new());
        }
        client.hold(jobs, kind).await
    };
    match result.await {
        Ok(results) => match print_failures(&results) {
            Some(code) => {
                output::error_line(format!("slurm_suspend error:{}", code.message()));
                1
            }
            None => 0,
        },
        Err(error) => call_failed("slurm_suspend error:", &error),
    }
}

pub(super) async fn requeue(context: &Context, words: &[String], hold: bool) -> i32 {
    let mut request = v1::RequeueJobsRequest {
        hold,
        ..Default::default()
    };
    let mut jobs = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value))
                if is_keyword(key, "state", 1) && is_keyword(value, "specialexit", 2) =>
            {
                request.special_exit = true;
            }
            Some((key, value)) if is_keyword(key, "jobid", 1) => jobs.push(value.to_string()),
            None if is_keyword(word, "incomplete", 1) => request.incomplete = true,
            _ => jobs.push(word.clone()),
        }
    }
    request.selectors = selectors(&jobs);
    if request.selectors.is_empty() {
        return 0;
    }
    let result = async { context.connect().await?.requeue(request).await };
    match result.await {
        Ok(results) => i32::from(print_failures(&results).is_some()),
        Err(error) => call_failed("slurm_requeue error: ", &error),
    }
}

pub(super) async fn suspend(context: &Context, words: &[String], resume: bool) -> i32 {
    let prefix = if resume {
        "slurm_resume error:"
    } else {
        "slurm_suspend error:"
    };
    let result = async {
        context
            .connect()
            .await?
            .suspend(selectors(words), resume)
            .await
    };
    match result.await {
        Ok(results) => i32::from(print_failures(&results).is_some()),
        Err(error) => call_failed(prefix, &error),
    }
}

/// Moves jobs before the user's others.
pub(super) async fn top(context: &Context, words: &[String]) -> i32 {
    let request = v1::TopJobsRequest {
        jobs: selectors(words),
    };
    let result = async {
        let client = context.connect().await?;
        Ok::<_, ClientError>(client.admin().top_jobs(request).await?.into_inner())
    };
    match result.await {
        Ok(reply) if reply.error_code == 0 => 0,
        Ok(reply) => {
            let code = error_code(reply.error_code).unwrap_or(ErrorCode::Unspecified);
            output::error_line(format!("{} for job {}", code.message(), reply.failed_job));
            1
        }
        Err(error) => call_failed("slurm_top_job error: ", &error),
    }
}

pub(super) async fn notify(context: &Context, words: &[String]) -> i32 {
    let (job, text) = (&words[0], words[1..].join(" "));
    let Ok(job_id) = job.parse() else {
        output::error_line(format!("Invalid job_id {job}"));
        return 1;
    };
    let result = async { context.connect().await?.notify(job_id, text).await };
    done("job notify failure: ", result.await)
}

pub(super) async fn wait_job(context: &Context, word: &str) -> i32 {
    let Ok(job_id) = word.parse() else {
        output::error_line(format!("Invalid job_id {word}"));
        return 1;
    };
    let result = async {
        let mut client = context.connect().await?;
        watch::until(&mut client, job_id, watch::is_ready, |_| {}).await
    };
    match result.await {
        Ok(job) if watch::is_ready(&job) => {
            output::error_line(format!("scontrol: Nodes are ready for job {job_id}"));
            0
        }
        Err(error) if error.is_contact() => call_failed("scontrol: error: ", &error),
        Ok(_) | Err(_) => {
            output::error_line(format!("scontrol: Problem running job {job_id}"));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commas within brackets belong to an array's tasks.
    #[test]
    fn lists() {
        assert_eq!(
            selectors(&["1,2_[3,4]".to_string(), "5".to_string()]),
            ["1", "2_[3,4]", "5"]
        );
        assert_eq!(
            selectors(&["5,6_[1,3],7.0".to_string()]),
            ["5", "6_[1,3]", "7.0"]
        );
    }
}
