//! The Scheduler service: submissions, reads, and everything users do to jobs, steps and nodes.

mod explain;
mod reads;
mod reservations;
pub(in crate::services) use reads::may_see;
pub(in crate::services) mod submission;
mod targets;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use sluice_controller::cluster::blob::pack_environment;
use sluice_controller::command::hold::{HoldKind, hold_targets};
use sluice_controller::command::requeue::{RequeueRequest, requeue_targets};
use sluice_controller::command::suspend::suspend_targets;
use sluice_controller::command::update::update_targets;
use sluice_controller::command::{Rejection, allocation, node, step};
use sluice_model::error_code::ErrorCode;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::job::JobUpdate;
use sluice_model::launch::AgentOrder;
use sluice_model::node::NodeUpdate;
use sluice_model::step::StepDescription;
use sluice_proto::status_from;
use sluice_proto::v1::scheduler_server::Scheduler;
use sluice_proto::v1::{
    CompleteAllocationReply, CompleteAllocationRequest, CreateStepReply, CreateStepRequest,
    DeleteReservationRequest, ExplainJobReply, ExplainJobRequest, GetBatchScriptReply,
    GetBatchScriptRequest, HoldJobsRequest, JobEvent, JobsChunk, ListJobsRequest,
    ListLicensesReply, ListLicensesRequest, ListNodesReply, ListNodesRequest, ListPartitionsReply,
    ListPartitionsRequest, ListReservationsReply, ListReservationsRequest, ListStepsReply,
    ListStepsRequest, NotifyJobReply, NotifyJobRequest, PingReply, PingRequest, RequeueJobsRequest,
    ReservationReply, ReservationRequest, SignalJobsReply, SignalJobsRequest, SubmitReply,
    SubmitRequest, SuspendJobsRequest, UpdateJobsReply, UpdateJobsRequest, UpdateNodesReply,
    UpdateNodesRequest, WatchJobRequest,
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::Shared;
use crate::auth::identity_of;
use crate::core::CoreError;

/// The service.
pub struct SchedulerService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn required<T>(value: Option<T>, name: &str) -> Result<T, Status> {
    value.ok_or_else(|| Status::invalid_argument(format!("the request has no {name}")))
}

#[tonic::async_trait]
impl Scheduler for SchedulerService {
    type WatchJobStream = Boxed<JobEvent>;
    type ListJobsStream = Boxed<JobsChunk>;

    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<PingReply>, Status> {
        identity_of(&request)?;
        Ok(Response::new(reads::ping(&self.shared)))
    }

    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        let identity = identity_of(&request)?.clone();
        submission::submit(&self.shared, identity, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn watch_job(
        &self,
        request: Request<WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let id = JobId(request.get_ref().job_id);
        watch::watch(&self.shared, id, &caller).map(Response::new)
    }

    async fn list_jobs(
        &self,
        request: Request<ListJobsRequest>,
    ) -> Result<Response<Self::ListJobsStream>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        reads::check_ids(&self.shared, request.get_ref())?;
        reads::list_jobs(&self.shared, request.into_inner(), &caller).map(Response::new)
    }

    async fn list_steps(
        &self,
        request: Request<ListStepsRequest>,
    ) -> Result<Response<ListStepsReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        Ok(Response::new(reads::list_steps(
            &self.shared,
            request.get_ref().job_id,
            &caller,
        )))
    }

    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesReply>, Status> {
        identity_of(&request)?;
        Ok(Response::new(reads::list_nodes(
            &self.shared,
            &request.get_ref().names,
        )))
    }

    async fn list_partitions(
        &self,
        request: Request<ListPartitionsRequest>,
    ) -> Result<Response<ListPartitionsReply>, Status> {
        identity_of(&request)?;
        Ok(Response::new(reads::list_partitions(
            &self.shared,
            &request.get_ref().names,
        )))
    }

    async fn get_batch_script(
        &self,
        request: Request<GetBatchScriptRequest>,
    ) -> Result<Response<GetBatchScriptReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        reads::batch_script(&self.shared, JobId(request.get_ref().job_id), &caller)
            .map(Response::new)
    }

    async fn explain_job(
        &self,
        request: Request<ExplainJobRequest>,
    ) -> Result<Response<ExplainJobReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let id = JobId(request.get_ref().job_id);
        explain::explain_job(&self.shared, id, &caller)
            .await
            .map(Response::new)
    }

    async fn signal_jobs(
        &self,
        request: Request<SignalJobsRequest>,
    ) -> Result<Response<SignalJobsReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let results = targets::signal(&self.shared, request.into_inner(), caller).await?;
        Ok(Response::new(SignalJobsReply { results }))
    }

    async fn update_jobs(
        &self,
        request: Request<UpdateJobsRequest>,
    ) -> Result<Response<UpdateJobsReply>, Status> {
        let mut caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        // `scontrol --uid`: root as somebody else.
        if let Some(uid) = request.as_uid.filter(|uid| *uid != caller.uid) {
            if caller.uid != 0 {
                return Err(status_from(ErrorCode::AccessDenied, ""));
            }
            caller = sluice_controller::command::Caller {
                uid,
                privileged: self.shared.roles.is_privileged_uid(uid),
                coordinates: self.shared.roles.accounts_coordinated_by_uid(uid),
            };
        }
        let update = JobUpdate::try_from(required(request.update, "update")?)?;
        let outcomes = self
            .shared
            .core
            .run(move |t| Ok(update_targets(t, &request.selectors, &update, &caller)))
            .await?;
        Ok(Response::new(UpdateJobsReply {
            results: targets::results(outcomes),
        }))
    }

    async fn hold_jobs(
        &self,
        request: Request<HoldJobsRequest>,
    ) -> Result<Response<UpdateJobsReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let kind = match request.kind() {
            sluice_proto::v1::HoldKind::Hold => HoldKind::Hold,
            sluice_proto::v1::HoldKind::Uhold => HoldKind::UserHold,
            sluice_proto::v1::HoldKind::Release => HoldKind::Release,
            sluice_proto::v1::HoldKind::Unspecified => {
                return Err(Status::invalid_argument(
                    "kind must be HOLD, UHOLD or RELEASE",
                ));
            }
        };
        let outcomes = self
            .shared
            .core
            .run(move |t| Ok(hold_targets(t, &request.selectors, kind, &caller)))
            .await?;
        Ok(Response::new(UpdateJobsReply {
            results: targets::results(outcomes),
        }))
    }

    async fn requeue_jobs(
        &self,
        request: Request<RequeueJobsRequest>,
    ) -> Result<Response<UpdateJobsReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let how = RequeueRequest {
            hold: request.hold,
            special_exit: request.special_exit,
            incomplete: request.incomplete,
        };
        let outcomes = self
            .shared
            .core
            .run(move |t| Ok(requeue_targets(t, &request.selectors, how, &caller)))
            .await?;
        Ok(Response::new(UpdateJobsReply {
            results: targets::results(outcomes),
        }))
    }

    async fn suspend_jobs(
        &self,
        request: Request<SuspendJobsRequest>,
    ) -> Result<Response<UpdateJobsReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let outcomes = self
            .shared
            .core
            .run(move |t| {
                Ok(suspend_targets(
                    t,
                    &request.selectors,
                    request.resume,
                    &caller,
                ))
            })
            .await?;
        Ok(Response::new(UpdateJobsReply {
            results: targets::results(outcomes),
        }))
    }

    async fn update_nodes(
        &self,
        request: Request<UpdateNodesRequest>,
    ) -> Result<Response<UpdateNodesReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let update = NodeUpdate::try_from(required(request.into_inner().update, "update")?)?;
        self.shared
            .core
            .run(move |t| node::update(t, &update, &caller))
            .await?;
        Ok(Response::new(UpdateNodesReply {}))
    }

    async fn list_reservations(
        &self,
        request: Request<ListReservationsRequest>,
    ) -> Result<Response<ListReservationsReply>, Status> {
        let identity = identity_of(&request)?;
        let reply = reservations::list(&self.shared, identity);
        Ok(Response::new(reply))
    }

    async fn list_licenses(
        &self,
        request: Request<ListLicensesRequest>,
    ) -> Result<Response<ListLicensesReply>, Status> {
        identity_of(&request)?;
        Ok(Response::new(reservations::list_licenses(&self.shared)))
    }

    async fn create_reservation(
        &self,
        request: Request<ReservationRequest>,
    ) -> Result<Response<ReservationReply>, Status> {
        let identity = identity_of(&request)?.clone();
        reservations::create(&self.shared, &identity, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn update_reservation(
        &self,
        request: Request<ReservationRequest>,
    ) -> Result<Response<ReservationReply>, Status> {
        let identity = identity_of(&request)?.clone();
        reservations::update(&self.shared, &identity, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn delete_reservation(
        &self,
        request: Request<DeleteReservationRequest>,
    ) -> Result<Response<ReservationReply>, Status> {
        let identity = identity_of(&request)?.clone();
        reservations::delete(&self.shared, &identity, request.into_inner().name)
            .await
            .map(Response::new)
    }

    async fn create_step(
        &self,
        request: Request<CreateStepRequest>,
    ) -> Result<Response<CreateStepReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let mut description =
            StepDescription::try_from(required(request.into_inner().step, "step")?)?;
        let environment = Arc::new(pack_environment(&std::mem::take(
            &mut description.environment,
        )));
        let created = self
            .shared
            .core
            .run(move |t| step::create(t, description, Some(environment), &caller))
            .await
            // A running job's step waits until the controller can save it.
            .map_err(CoreError::into_status_to_retry)?;
        Ok(Response::new(CreateStepReply {
            job_id: created.job_id.0,
            step_id: created.step_id.number(),
            layout: Some(created.layout.into()),
            tasks: created.num_tasks,
            environment: Vec::new(),
            cpus_per_task: created.cpus_per_task,
        }))
    }

    async fn complete_allocation(
        &self,
        request: Request<CompleteAllocationRequest>,
    ) -> Result<Response<CompleteAllocationReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let status = WaitStatus(request.wait_status);
        self.shared
            .core
            .run(move |t| allocation::complete(t, JobId(request.job_id), status, &caller))
            .await
            .map_err(CoreError::into_status_to_retry)?;
        Ok(Response::new(CompleteAllocationReply {}))
    }

    async fn notify_job(
        &self,
        request: Request<NotifyJobRequest>,
    ) -> Result<Response<NotifyJobReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        self.shared
            .core
            .run(move |t| {
                let id = JobId(request.job_id);
                let job = t.cluster.job(id).cloned().ok_or(ErrorCode::InvalidJobId)?;
                if !caller.may_change_job(&job) {
                    return Err(Rejection::new(ErrorCode::AccessDenied));
                }
                let host = job
                    .allocation
                    .as_ref()
                    .and_then(|a| a.nodes.first())
                    .map(|part| part.name.clone());
                let host = host
                    .filter(|_| job.state.is_running())
                    .ok_or(ErrorCode::JobNotRunning)?;
                t.order(
                    &host,
                    AgentOrder::Notify {
                        job_id: id,
                        text: request.text,
                    },
                );
                Ok(())
            })
            .await?;
        Ok(Response::new(NotifyJobReply {}))
    }
}

/// A refusal for a job that does not exist.
pub(super) fn no_such_job() -> Status {
    status_from(ErrorCode::InvalidJobId, "")
}
