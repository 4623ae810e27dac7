//! `scontrol explain job ID`: why a job waits, what is in its way and what would help. Slurm has no such command.

use sluice_model::error_code::ErrorCode;
use sluice_model::explanation::Explanation;
use sluice_model::ids::{JobPart, JobSelector};
use sluice_model::job::JobInfo;
use sluice_proto::v1;

use super::caller::now;
use super::scontrol::Context;
use super::squeue::selects;
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

/// Of the records that an id means the one to explain: one that waits before others, and among those the id's own before the one
/// with the unstarted tasks.
fn record_of<'j>(jobs: &'j [JobInfo], selector: &JobSelector) -> Option<&'j JobInfo> {
    let is_own = |job: &JobInfo| match &selector.part {
        JobPart::Whole | JobPart::Tasks(_) => job.job_id == selector.job,
        JobPart::Task(task) => job.array_task_id == Some(*task),
        JobPart::Component(offset) => job.het_job_offset == Some(*offset),
    };
    jobs.iter()
        .filter(|job| selects(selector, job))
        .min_by_key(|job| (!job.state.is_pending(), !is_own(job)))
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

#[cfg(test)]
mod tests {
    use sluice_model::ids::JobId;

    use super::*;
    use crate::format::samples;

    /// Task 3 of array 15, split off as job 17.
    fn task() -> JobInfo {
        JobInfo {
            job_id: JobId(17),
            array_job_id: Some(JobId(15)),
            array_task_id: Some(3),
            ..samples::running()
        }
    }

    /// The unstarted tasks of array 15.
    fn rest() -> JobInfo {
        JobInfo {
            array_task_string: Some("1,5,7,9,20".to_owned()),
            ..samples::pending_array()
        }
    }

    fn component(id: u32, offset: u32) -> JobInfo {
        JobInfo {
            het_job_id: Some(JobId(20)),
            het_job_offset: Some(offset),
            ..samples::pending(id, "het")
        }
    }

    /// The job id of the record that `text` means among `jobs`.
    fn meant(jobs: &[JobInfo], text: &str) -> Option<u32> {
        let selector = text.parse().expect("an id");
        record_of(jobs, &selector).map(|job| job.job_id.0)
    }

    /// What is not there is not answered with what is.
    #[test]
    fn ids_of_nothing() {
        assert_eq!(meant(&[task(), rest()], "15_99"), None);
        assert_eq!(meant(&[task(), rest()], "15+0"), None);
        assert_eq!(meant(&[samples::pending(5, "plain")], "5_3"), None);
        assert_eq!(meant(&[component(20, 0), component(21, 1)], "20+9"), None);
        assert_eq!(meant(&[component(20, 0), component(21, 1)], "20_1"), None);
    }

    /// Tasks are looked for in their own records and in the rest.
    #[test]
    fn arrays() {
        let jobs = [task(), rest()];
        assert_eq!(meant(&jobs, "15"), Some(15));
        assert_eq!(meant(&jobs, "17"), Some(17));
        assert_eq!(meant(&jobs, "15_3"), Some(17));
        assert_eq!(meant(&jobs, "15_5"), Some(15));
        assert_eq!(meant(&jobs, "15_[3-5]"), Some(15), "task 3 runs");
    }

    /// What waits is explained, whichever task or component it is.
    #[test]
    fn waiting_records_come_first() {
        let requeued = JobInfo {
            state: samples::pending(0, "").state,
            ..task()
        };
        let last = JobInfo {
            job_id: JobId(15),
            array_task_id: Some(20),
            ..task()
        };
        assert_eq!(meant(&[last, requeued], "15"), Some(17));
        let first = JobInfo {
            state: samples::running().state,
            ..component(20, 0)
        };
        assert_eq!(meant(&[first.clone(), component(21, 1)], "20"), Some(21));
        assert_eq!(meant(&[first, component(21, 1)], "20+0"), Some(20));
        assert_eq!(
            meant(&[component(20, 0), component(21, 1)], "20+1"),
            Some(21)
        );
    }
}
