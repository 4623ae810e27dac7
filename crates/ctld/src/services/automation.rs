//! The Automation service: attaching to steps, triggers, crontabs.

use std::sync::Arc;

use sluice_controller::cluster::trigger::{Trigger, TriggerEvent, TriggerTarget};
use sluice_controller::command::cron::{self, NewCrontab};
use sluice_controller::command::trigger::{self, TriggerFilter};
use sluice_controller::command::{Rejection, step};
use sluice_model::cron::entry_lines;
use sluice_model::error_code::ErrorCode;
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::JobDescription;
use sluice_proto::status_from;
use sluice_proto::v1;
use sluice_proto::v1::automation_server::Automation;
use tonic::{Request, Response, Status};

use super::Shared;
use super::scheduler::submission;
use crate::auth::identity_of;
use crate::core::cron::next_time;
use crate::core::handle::rejection_status;
use crate::core::now;

/// The service.
pub struct AutomationService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

#[tonic::async_trait]
impl Automation for AutomationService {
    async fn attach_step(
        &self,
        request: Request<v1::AttachStepRequest>,
    ) -> Result<Response<v1::AttachStepReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let step_id = StepId::from_number(request.step_id)
            .ok_or_else(|| status_from(ErrorCode::InvalidJobId, ""))?;
        self.shared
            .core
            .run(move |t| {
                step::attach(
                    t,
                    JobId(request.job_id),
                    step_id,
                    &request.address,
                    &request.secret,
                    &caller,
                )
            })
            .await?;
        Ok(Response::new(v1::AttachStepReply {}))
    }

    async fn set_trigger(
        &self,
        request: Request<v1::SetTriggerRequest>,
    ) -> Result<Response<v1::SetTriggerReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let wanted = request
            .into_inner()
            .trigger
            .ok_or_else(|| Status::invalid_argument("the request has no trigger"))?;
        let trigger = read_trigger(&wanted).map_err(|rejection| rejection_status(&rejection))?;
        let id = self
            .shared
            .core
            .run(move |t| trigger::set(t, trigger, &caller))
            .await?;
        Ok(Response::new(v1::SetTriggerReply { id }))
    }

    async fn list_triggers(
        &self,
        request: Request<v1::ListTriggersRequest>,
    ) -> Result<Response<v1::ListTriggersReply>, Status> {
        identity_of(&request)?;
        let cluster = self.shared.core.snapshot();
        let triggers = cluster
            .triggers
            .values()
            .map(|trigger| self.show_trigger(trigger))
            .collect();
        Ok(Response::new(v1::ListTriggersReply { triggers }))
    }

    async fn clear_triggers(
        &self,
        request: Request<v1::ClearTriggersRequest>,
    ) -> Result<Response<v1::ClearTriggersReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let filter = TriggerFilter {
            id: request.id,
            job: request.job_id.map(JobId),
            uid: request.uid,
        };
        let removed = self
            .shared
            .core
            .run(move |t| trigger::clear(t, filter, &caller))
            .await?;
        Ok(Response::new(v1::ClearTriggersReply { removed }))
    }

    async fn get_crontab(
        &self,
        request: Request<v1::GetCrontabRequest>,
    ) -> Result<Response<v1::GetCrontabReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let crontab = cron::get(&self.shared.core.snapshot(), request.get_ref().uid, &caller)
            .map_err(|rejection| rejection_status(&rejection))?;
        Ok(Response::new(v1::GetCrontabReply {
            text: crontab
                .map(|crontab| crontab.text.clone())
                .unwrap_or_default(),
            disabled: Vec::new(),
        }))
    }

    async fn put_crontab(
        &self,
        request: Request<v1::PutCrontabRequest>,
    ) -> Result<Response<v1::PutCrontabReply>, Status> {
        let identity = identity_of(&request)?.clone();
        let caller = self.shared.caller(&identity);
        let request = request.into_inner();
        cron::get(&self.shared.core.snapshot(), request.uid, &caller)
            .map_err(|rejection| rejection_status(&rejection))?;
        let lines = entry_lines(&request.text);
        if lines.len() != request.jobs.len() {
            return Err(Status::invalid_argument(
                "the crontab's text and its jobs do not belong together",
            ));
        }
        let mut entries = Vec::with_capacity(lines.len());
        for (line, job) in lines.into_iter().zip(request.jobs) {
            let mut description = JobDescription::try_from(job)?;
            description.uid = request.uid;
            let begin = description
                .cron_spec
                .as_deref()
                .and_then(|spec| next_time(spec, now()))
                .ok_or_else(|| {
                    status_from(
                        ErrorCode::InvalidTimeValue,
                        format!("line {}: its time never comes", line + 1),
                    )
                })?;
            description.begin_time = Some(begin);
            description.batch = true;
            let made = submission::make(&self.shared, &identity, description).await?;
            entries.push((made, line));
        }
        let new = NewCrontab {
            uid: request.uid,
            text: request.text,
            entries,
        };
        let jobs = self
            .shared
            .core
            .run(move |t| cron::put(t, new, &caller))
            .await?;
        Ok(Response::new(v1::PutCrontabReply {
            job_ids: jobs.into_iter().map(|id| id.0).collect(),
            warnings: Vec::new(),
        }))
    }

    async fn remove_crontab(
        &self,
        request: Request<v1::RemoveCrontabRequest>,
    ) -> Result<Response<v1::RemoveCrontabReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let uid = request.get_ref().uid;
        self.shared
            .core
            .run(move |t| cron::remove(t, uid, &caller))
            .await?;
        Ok(Response::new(v1::RemoveCrontabReply {}))
    }
}

fn read_trigger(wanted: &v1::Trigger) -> Result<Trigger, Rejection> {
    let target = match wanted.resource.as_str() {
        "job" => TriggerTarget::Job(JobId(
            wanted
                .resource_id
                .parse()
                .map_err(|_| ErrorCode::InvalidJobId)?,
        )),
        "node" => TriggerTarget::Nodes(match wanted.resource_id.as_str() {
            "" | "*" => Vec::new(),
            list => parse_hostlist(list).map_err(|_| ErrorCode::InvalidNodeName)?,
        }),
        "slurmctld" => TriggerTarget::Controller,
        "slurmdbd" => TriggerTarget::AccountingDaemon,
        "database" => TriggerTarget::Database,
        _ => TriggerTarget::Other,
    };
    Ok(Trigger {
        id: 0,
        target,
        event: TriggerEvent::from_word(&wanted.event).ok_or_else(|| {
            Rejection::with_text(
                ErrorCode::NotSupported,
                format!("there is no event \"{}\"", wanted.event),
            )
        })?,
        offset: wanted.offset,
        uid: 0,
        program: wanted.program.clone(),
        permanent: wanted.permanent,
        due: None,
        nodes: Vec::new(),
    })
}

impl AutomationService {
    fn show_trigger(&self, trigger: &Trigger) -> v1::Trigger {
        v1::Trigger {
            id: trigger.id,
            resource: trigger.target.resource().to_owned(),
            resource_id: match &trigger.target {
                TriggerTarget::Job(id) => id.to_string(),
                TriggerTarget::Nodes(names) if !names.is_empty() => collapse_hostlist(names),
                TriggerTarget::Nodes(_) => "*".to_owned(),
                _ => String::new(),
            },
            event: trigger.event.word().to_owned(),
            offset: trigger.offset,
            uid: trigger.uid,
            user_name: self
                .shared
                .user_name(trigger.uid)
                .unwrap_or_else(|| trigger.uid.to_string()),
            program: trigger.program.clone(),
            permanent: trigger.permanent,
        }
    }
}
