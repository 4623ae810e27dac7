//! The calls of the commands, from records to records.
//!
//! Wire messages stop here. A call does one thing and returns what the controller said.

use sluice_model::accounting as records;
use sluice_model::job::{JobDescription, JobInfo, JobUpdate};
use sluice_model::node::{NodeInfo, NodeUpdate};
use sluice_model::partition::PartitionInfo;
use sluice_model::reservation::{LicenseInfo, ReservationInfo, ReservationRequest};
use sluice_model::step::{StepDescription, StepInfo, StepLayout};
use sluice_model::time::UnixSeconds;
use sluice_proto::v1;

use super::{Client, ClientError};

/// Answer to a submission.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Id of the job.
    pub job_id: u32,
    /// Lines for the user.
    pub messages: Vec<String>,
    /// Answer to a test.
    pub test: Option<v1::SubmitTest>,
}

/// A new step.
#[derive(Debug, Clone)]
pub struct CreatedStep {
    /// Its number.
    pub step_id: u32,
    /// Where its tasks run.
    pub layout: StepLayout,
    /// Tasks in all.
    pub tasks: u32,
}

/// The value of a key of the configuration that the controller shows.
#[must_use]
pub fn config_value<'a>(config: &'a v1::ShowConfigReply, key: &str) -> Option<&'a str> {
    let mut entries = config.entries.iter();
    let entry = entries.find(|entry| entry.key == key)?;
    Some(&entry.value)
}

impl Client {
    /// The configuration that is in force.
    pub async fn config(&self) -> Result<v1::ShowConfigReply, ClientError> {
        let request = v1::ShowConfigRequest {};
        Ok(self.admin().show_config(request).await?.into_inner())
    }

    /// AccountingStorageTRES, in its order.
    pub async fn accounting_tres(&self) -> Result<Vec<String>, ClientError> {
        let config = self.config().await?;
        let list = config_value(&config, "AccountingStorageTRES");
        Ok(list
            .map(|list| list.split(',').map(String::from).collect())
            .unwrap_or_default())
    }

    /// Shares, usage and current use of associations and QOS.
    pub async fn shares(&self) -> Result<v1::ListSharesReply, ClientError> {
        let request = v1::ListSharesRequest {};
        Ok(self.priority().list_shares(request).await?.into_inner())
    }

    /// Is the controller there.
    pub async fn ping(&self) -> Result<v1::PingReply, ClientError> {
        Ok(self
            .scheduler()
            .ping(v1::PingRequest {})
            .await?
            .into_inner())
    }

    /// Submits a job, or asks when it would start. More than one description are the components of a heterogeneous job.
    pub async fn submit(
        &self,
        jobs: Vec<JobDescription>,
        test_only: bool,
    ) -> Result<Submitted, ClientError> {
        let mut jobs = jobs.into_iter();
        let reply = self
            .scheduler()
            .submit(v1::SubmitRequest {
                job: jobs.next().map(Into::into),
                components: jobs.map(Into::into).collect(),
                test_only,
            })
            .await?
            .into_inner();
        let mut messages = reply.warnings;
        messages.extend(
            reply
                .user_message
                .into_iter()
                .flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>()),
        );
        Ok(Submitted {
            job_id: reply.job_id,
            messages,
            test: reply.test,
        })
    }

    /// Gives each job in memory to `take` as it arrives, with the time of the answer. A long listing need not be held whole.
    pub async fn each_job(
        &self,
        request: v1::ListJobsRequest,
        mut take: impl FnMut(UnixSeconds, JobInfo),
    ) -> Result<(), ClientError> {
        let mut stream = self.scheduler().list_jobs(request).await?.into_inner();
        while let Some(chunk) = stream.message().await? {
            for job in chunk.jobs {
                let job = sluice_proto::job_from_bytes(job)
                    .map_err(|error| ClientError::Other(error.to_string()))?;
                take(UnixSeconds(chunk.time), job);
            }
        }
        Ok(())
    }

    /// Jobs in memory.
    pub async fn jobs(&self, request: v1::ListJobsRequest) -> Result<Vec<JobInfo>, ClientError> {
        let mut jobs = Vec::new();
        self.each_job(request, |_, job| jobs.push(job)).await?;
        Ok(jobs)
    }

    /// A job by its id, with every task of an array.
    pub async fn job(&self, id: u32) -> Result<Vec<JobInfo>, ClientError> {
        self.jobs(v1::ListJobsRequest {
            job_ids: vec![id],
            ..Default::default()
        })
        .await
    }

    /// Steps, of one job or all.
    pub async fn steps(&self, job_id: Option<u32>) -> Result<Vec<StepInfo>, ClientError> {
        let reply = self
            .scheduler()
            .list_steps(v1::ListStepsRequest { job_id })
            .await?
            .into_inner();
        reply
            .steps
            .into_iter()
            .map(|step| StepInfo::try_from(step).map_err(ClientError::from))
            .collect()
    }

    /// Nodes in the order of the configuration.
    pub async fn nodes(&self, names: Vec<String>) -> Result<Vec<NodeInfo>, ClientError> {
        let reply = self
            .scheduler()
            .list_nodes(v1::ListNodesRequest { names })
            .await?
            .into_inner();
        reply
            .nodes
            .into_iter()
            .map(|node| NodeInfo::try_from(node).map_err(ClientError::from))
            .collect()
    }

    /// Partitions in the order of the configuration.
    pub async fn partitions(&self, names: Vec<String>) -> Result<Vec<PartitionInfo>, ClientError> {
        let reply = self
            .scheduler()
            .list_partitions(v1::ListPartitionsRequest { names })
            .await?
            .into_inner();
        reply
            .partitions
            .into_iter()
            .map(|item| PartitionInfo::try_from(item).map_err(ClientError::from))
            .collect()
    }

    /// Reservations, in the order in which they were made.
    pub async fn reservations(&self) -> Result<Vec<ReservationInfo>, ClientError> {
        let reply = self
            .scheduler()
            .list_reservations(v1::ListReservationsRequest {})
            .await?
            .into_inner();
        reply
            .reservations
            .into_iter()
            .map(|item| ReservationInfo::try_from(item).map_err(ClientError::from))
            .collect()
    }

    /// Licences in the order of the configuration.
    pub async fn licenses(&self) -> Result<Vec<LicenseInfo>, ClientError> {
        let reply = self
            .scheduler()
            .list_licenses(v1::ListLicensesRequest {})
            .await?
            .into_inner();
        reply
            .licenses
            .into_iter()
            .map(|item| LicenseInfo::try_from(item).map_err(ClientError::from))
            .collect()
    }

    /// Makes a reservation; gives its name.
    pub async fn create_reservation(
        &self,
        request: ReservationRequest,
    ) -> Result<String, ClientError> {
        let request = v1::ReservationRequest::from(request);
        let reply = self.scheduler().create_reservation(request).await?;
        Ok(reply.into_inner().name)
    }

    /// Changes a reservation.
    pub async fn update_reservation(&self, request: ReservationRequest) -> Result<(), ClientError> {
        self.scheduler()
            .update_reservation(v1::ReservationRequest::from(request))
            .await?;
        Ok(())
    }

    /// Deletes a reservation.
    pub async fn delete_reservation(&self, name: String) -> Result<(), ClientError> {
        self.scheduler()
            .delete_reservation(v1::DeleteReservationRequest { name })
            .await?;
        Ok(())
    }

    /// Text of a batch script.
    pub async fn batch_script(&self, job_id: u32) -> Result<Vec<u8>, ClientError> {
        Ok(self
            .scheduler()
            .get_batch_script(v1::GetBatchScriptRequest { job_id })
            .await?
            .into_inner()
            .script)
    }

    /// Signals or ends jobs and steps.
    pub async fn signal(
        &self,
        request: v1::SignalJobsRequest,
    ) -> Result<Vec<v1::JobResult>, ClientError> {
        Ok(self
            .scheduler()
            .signal_jobs(request)
            .await?
            .into_inner()
            .results)
    }

    /// Changes jobs.
    pub async fn update_jobs(
        &self,
        selectors: Vec<String>,
        update: JobUpdate,
        as_uid: Option<u32>,
    ) -> Result<Vec<v1::JobResult>, ClientError> {
        let request = v1::UpdateJobsRequest {
            selectors,
            update: Some(update.into()),
            as_uid,
        };
        Ok(self
            .scheduler()
            .update_jobs(request)
            .await?
            .into_inner()
            .results)
    }

    /// Holds or releases jobs.
    pub async fn hold(
        &self,
        selectors: Vec<String>,
        kind: v1::HoldKind,
    ) -> Result<Vec<v1::JobResult>, ClientError> {
        let request = v1::HoldJobsRequest {
            selectors,
            kind: kind as i32,
        };
        Ok(self
            .scheduler()
            .hold_jobs(request)
            .await?
            .into_inner()
            .results)
    }

    /// Requeues jobs.
    pub async fn requeue(
        &self,
        request: v1::RequeueJobsRequest,
    ) -> Result<Vec<v1::JobResult>, ClientError> {
        Ok(self
            .scheduler()
            .requeue_jobs(request)
            .await?
            .into_inner()
            .results)
    }

    /// Stops or continues jobs.
    pub async fn suspend(
        &self,
        selectors: Vec<String>,
        resume: bool,
    ) -> Result<Vec<v1::JobResult>, ClientError> {
        let request = v1::SuspendJobsRequest { selectors, resume };
        Ok(self
            .scheduler()
            .suspend_jobs(request)
            .await?
            .into_inner()
            .results)
    }

    /// Changes nodes.
    pub async fn update_nodes(&self, update: NodeUpdate) -> Result<(), ClientError> {
        self.scheduler()
            .update_nodes(v1::UpdateNodesRequest {
                update: Some(update.into()),
            })
            .await?;
        Ok(())
    }

    /// Creates and launches a step.
    pub async fn create_step(&self, step: StepDescription) -> Result<CreatedStep, ClientError> {
        let reply = self
            .scheduler()
            .create_step(v1::CreateStepRequest {
                step: Some(step.into()),
            })
            .await?
            .into_inner();
        let layout = reply
            .layout
            .map(StepLayout::try_from)
            .transpose()?
            .unwrap_or_default();
        Ok(CreatedStep {
            step_id: reply.step_id,
            layout,
            tasks: reply.tasks,
        })
    }

    /// The command that held an allocation has ended.
    pub async fn complete_allocation(
        &self,
        job_id: u32,
        wait_status: i32,
    ) -> Result<(), ClientError> {
        let request = v1::CompleteAllocationRequest {
            job_id,
            wait_status,
        };
        self.scheduler().complete_allocation(request).await?;
        Ok(())
    }

    /// Writes a line to a job's output.
    pub async fn notify(&self, job_id: u32, text: String) -> Result<(), ClientError> {
        self.scheduler()
            .notify_job(v1::NotifyJobRequest { job_id, text })
            .await?;
        Ok(())
    }

    /// The states of a job from now on.
    pub async fn watch(&self, job_id: u32) -> Result<tonic::Streaming<v1::JobEvent>, ClientError> {
        Ok(self
            .scheduler()
            .watch_job(v1::WatchJobRequest { job_id })
            .await?
            .into_inner())
    }

    /// Accounting records of jobs with their steps.
    pub async fn job_records(
        &self,
        query: v1::JobQuery,
    ) -> Result<Vec<(records::JobRecord, Vec<records::StepRecord>)>, ClientError> {
        let request = v1::QueryJobsRequest { query: Some(query) };
        let mut stream = self.accounting().query_jobs(request).await?.into_inner();
        let mut jobs = Vec::new();
        while let Some(chunk) = stream.message().await? {
            for item in chunk.jobs {
                let Some(job) = item.job else { continue };
                let steps = item
                    .steps
                    .into_iter()
                    .map(records::StepRecord::try_from)
                    .collect::<Result<Vec<_>, _>>()?;
                jobs.push((records::JobRecord::try_from(job)?, steps));
            }
        }
        Ok(jobs)
    }
}
