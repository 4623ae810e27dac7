//! `scontrol explain job ID`: why a job waits, what is in its way and what would help. Slurm has no such command.

use sluice_model::error_code::ErrorCode;
use sluice_model::explanation::Explanation;
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::job::JobInfo;
use sluice_proto::v1;

use super::caller::now;
use super::scontrol::Context;
use super::structured;
use crate::client::{Client, ClientError};
use crate::format::explanation::explanation;
use crate::output;

/// Explains each job of the list.
pub(super) async fn explain(context: &Context, words: &[String]) -> i32 {
    let ids = match words {
        [word, rest @ ..] if word.eq_ignore_ascii_case("job") => rest,
        all => all,
    };
    if ids.is_empty() {
        output::error_line("scontrol: error: explain needs a job: scontrol explain job ID");
        return 1;
    }
    let mut code = 0;
    for (place, id) in super::scontrol_jobs::selectors(ids).iter().enumerate() {
        if place > 0 && !structured::wanted(&context.options) {
            output::line("");
        }
        if let Err(error) = explain_one(context, id).await {
            output::error_with_hint(
                format!("scontrol: error: explain job {id}: {error}"),
                &error,
            );
            code = 1;
        }
    }
    code
}

async fn explain_one(context: &Context, id: &str) -> Result<(), ClientError> {
    let unknown = |text: &str| ClientError::refused(ErrorCode::InvalidJobId, text);
    let selector: JobSelector = id
        .parse()
        .map_err(|_| unknown("Invalid job id specified"))?;
    let client = context.connect().await?;
    let jobs = client.job(selector.job.0).await?;
    let job = record_of(&jobs, &selector).ok_or_else(|| unknown("Invalid job id specified"))?;
    let found = ask(&client, job.job_id.0).await?;
    if structured::wanted(&context.options) {
        return structured::print(&client, &context.options, &found).await;
    }
    let times = context.place.times(now());
    output::text_out(&explanation(id, job, &found, &times));
    Ok(())
}

/// The record that an id means: a task that was split off, else the one with the unstarted tasks; a component.
fn record_of<'j>(jobs: &'j [JobInfo], selector: &JobSelector) -> Option<&'j JobInfo> {
    let exact = |job: &&JobInfo| match &selector.part {
        JobPart::Whole | JobPart::Tasks(_) => job.job_id == selector.job,
        JobPart::Task(task) => job.array_task_id == Some(*task),
        JobPart::Component(offset) => job.het_job_offset == Some(*offset),
    };
    let rest = |job: &&JobInfo| {
        let is_task = matches!(
            selector.part,
            JobPart::Whole | JobPart::Task(_) | JobPart::Tasks(_)
        );
        is_task && job.array_task_string.is_some()
    };
    let waits = |job: &&JobInfo| job.state.is_pending();
    jobs.iter()
        .find(exact)
        .or_else(|| jobs.iter().find(rest))
        .or_else(|| jobs.iter().find(waits))
}

async fn ask(client: &Client, job_id: u32) -> Result<Explanation, ClientError> {
    let reply = client
        .scheduler()
        .explain_job(v1::ExplainJobRequest { job_id })
        .await?
        .into_inner();
    let found = reply
        .explanation
        .ok_or_else(|| ClientError::Other("the controller's answer is empty".to_owned()))?;
    Explanation::try_from(found).map_err(|error| ClientError::Other(error.to_string()))
}
