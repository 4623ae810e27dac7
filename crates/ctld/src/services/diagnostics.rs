//! The Diagnostics service: counters of the controller, usage of running steps, and time lost to broken nodes.
//!
//! Counters are read as differences to a former reading, the last reset; nothing of the engine is set back. They begin anew at
//! midnight UTC. Source: `sdiag(1)`, `sstat(1)`.

mod calls;
mod usage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use sluice_accounting::{EventQuery, TimeWindow};
use sluice_controller::cluster::JobCounters;
use sluice_controller::cluster::counters::tasks_of;
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, StepId};
use sluice_model::state::JobState;
use sluice_model::time::UnixSeconds;
use sluice_proto::status_from;
use sluice_proto::v1::diagnostics_server::Diagnostics as DiagnosticsApi;
use sluice_proto::v1::{
    CallStatistics, Downtime, GetDowntimeReply, GetDowntimeRequest, GetStatisticsReply,
    GetStatisticsRequest, GetStepUsageReply, GetStepUsageRequest, JobCounts, PassStatistics,
    ResetStatisticsReply, ResetStatisticsRequest, UserCallStatistics,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use self::calls::CallTable;
pub use self::calls::CountCalls;
use self::usage::UsageQuestions;
use super::Shared;
use super::admin::RuntimeSettings;
use crate::auth::identity_of;
use crate::core::now;
use crate::core::planner::PlannerStatistics;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Pause between two looks for midnight.
const MIDNIGHT_PAUSE: Duration = Duration::from_secs(20);

/// Looks at the clock whose time is told.
const CLOCK_LOOKS: u32 = 1_000;

/// What the service keeps.
#[derive(Debug, Default)]
pub struct Diagnostics {
    /// Calls.
    pub calls: CallTable,
    /// Questions to agents.
    pub usage: UsageQuestions,
    /// Settings changed until the next configuration.
    pub runtime: Mutex<RuntimeSettings>,
    base: Mutex<Base>,
}

/// The reading of all counters at the last reset.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    since: UnixSeconds,
    jobs: JobCounters,
    passes: Passes,
}

/// A reading of the planner's sums.
#[derive(Debug, Clone, Copy, Default)]
struct Passes {
    count: u64,
    sum_us: u64,
    depth_sum: u64,
    queue_sum: u64,
    backfilled: u64,
}

impl Passes {
    fn read(statistics: &PlannerStatistics) -> Self {
        Self {
            count: statistics.passes.load(Ordering::Relaxed),
            sum_us: statistics.sum_us.load(Ordering::Relaxed),
            depth_sum: statistics.depth_sum.load(Ordering::Relaxed),
            queue_sum: statistics.queue_sum.load(Ordering::Relaxed),
            backfilled: statistics.backfilled.load(Ordering::Relaxed),
        }
    }
}

/// Counts from now on.
pub fn reset(shared: &Shared) {
    *shared.diagnostics.base.lock() = Base {
        since: now(),
        jobs: shared.core.snapshot().job_counters,
        passes: Passes::read(&shared.statistics),
    };
    shared.statistics.max_us.store(0, Ordering::Relaxed);
    shared.diagnostics.calls.clear();
}

/// Resets at every midnight UTC until the daemon ends.
pub async fn reset_daily(shared: Arc<Shared>, mut shutdown: watch::Receiver<bool>) {
    let mut day = now().0.div_euclid(DAY);
    loop {
        tokio::select! {
            () = tokio::time::sleep(MIDNIGHT_PAUSE) => {}
            _ = shutdown.wait_for(|stop| *stop) => return,
        }
        let today = now().0.div_euclid(DAY);
        if today > day {
            day = today;
            reset(&shared);
        }
    }
}

/// The service.
pub struct DiagnosticsService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

impl DiagnosticsService {
    fn job_counts(&self, base: &Base) -> JobCounts {
        let cluster = self.shared.core.snapshot();
        let counted = cluster.job_counters.since(&base.jobs);
        let pending = cluster
            .pending
            .iter()
            .filter_map(|id| cluster.job(*id))
            .map(|job| tasks_of(job))
            .sum();
        let running = cluster
            .holding
            .iter()
            .filter_map(|id| cluster.job(*id))
            .filter(|job| job.state.base == JobState::Running)
            .count() as u64;
        JobCounts {
            submitted: counted.submitted,
            started: counted.started,
            completed: counted.completed,
            canceled: counted.canceled,
            failed: counted.failed,
            pending,
            running,
        }
    }

    fn pass_statistics(&self, base: &Base) -> PassStatistics {
        let statistics = &self.shared.statistics;
        let passes = Passes::read(statistics);
        let since = &base.passes;
        PassStatistics {
            count: passes.count.saturating_sub(since.count),
            last_us: statistics.last_us.load(Ordering::Relaxed),
            max_us: statistics.max_us.load(Ordering::Relaxed),
            sum_us: passes.sum_us.saturating_sub(since.sum_us),
            last_time: statistics.last_time.load(Ordering::Relaxed),
            last_depth: statistics.last_depth.load(Ordering::Relaxed),
            depth_sum: passes.depth_sum.saturating_sub(since.depth_sum),
            last_queue: statistics.last_queue.load(Ordering::Relaxed),
            queue_sum: passes.queue_sum.saturating_sub(since.queue_sum),
            backfilled: passes.backfilled,
            backfilled_since: passes.backfilled.saturating_sub(since.backfilled),
        }
    }
}

/// Microseconds for [`CLOCK_LOOKS`] looks at the system's clock.
fn clock_latency_us() -> u64 {
    let began = Instant::now();
    for _ in 0..CLOCK_LOOKS {
        std::hint::black_box(SystemTime::now());
    }
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[tonic::async_trait]
impl DiagnosticsApi for DiagnosticsService {
    async fn get_statistics(
        &self,
        request: Request<GetStatisticsRequest>,
    ) -> Result<Response<GetStatisticsReply>, Status> {
        identity_of(&request)?;
        let shared = &self.shared;
        let base = *shared.diagnostics.base.lock();
        let (by_type, by_user) = shared.diagnostics.calls.rows();
        let mut users = Vec::with_capacity(by_user.len());
        for (uid, tally) in by_user {
            let found = shared.users.find_uid(uid).await.ok().flatten();
            users.push(UserCallStatistics {
                uid,
                user: found.map_or_else(|| uid.to_string(), |user| user.name),
                count: tally.count,
                total_us: tally.total_us,
            });
        }
        let backlog = shared
            .feed
            .as_ref()
            .map_or(0, |status| status.borrow().lag());
        Ok(Response::new(GetStatisticsReply {
            time: now().0,
            since: base.since.0,
            server_threads: shared.diagnostics.calls.running(),
            accounting_backlog: backlog,
            jobs: Some(self.job_counts(&base)),
            passes: Some(self.pass_statistics(&base)),
            by_type: by_type
                .into_iter()
                .map(|(name, type_id, tally)| CallStatistics {
                    name,
                    type_id,
                    count: tally.count,
                    total_us: tally.total_us,
                })
                .collect(),
            by_user: users,
            clock_latency_us: clock_latency_us(),
            agents: u32::try_from(shared.sessions.count()).unwrap_or(u32::MAX),
        }))
    }

    async fn reset_statistics(
        &self,
        request: Request<ResetStatisticsRequest>,
    ) -> Result<Response<ResetStatisticsReply>, Status> {
        if !self.shared.roles.is_privileged(identity_of(&request)?) {
            return Err(status_from(ErrorCode::AccessDenied, ""));
        }
        reset(&self.shared);
        Ok(Response::new(ResetStatisticsReply {}))
    }

    async fn get_step_usage(
        &self,
        request: Request<GetStepUsageRequest>,
    ) -> Result<Response<GetStepUsageReply>, Status> {
        let caller = self.shared.caller(identity_of(&request)?);
        let request = request.into_inner();
        let cluster = self.shared.core.snapshot();
        let job = cluster
            .job(JobId(request.job_id))
            .cloned()
            .ok_or_else(|| status_from(ErrorCode::InvalidJobId, ""))?;
        drop(cluster);
        if !caller.may_change_job(&job) {
            return Err(status_from(ErrorCode::AccessDenied, ""));
        }
        let wanted = match request.step_id {
            Some(number) => Some(
                StepId::from_number(number)
                    .ok_or_else(|| status_from(ErrorCode::InvalidJobId, ""))?,
            ),
            None => None,
        };
        let reply = self
            .shared
            .diagnostics
            .usage
            .ask(&self.shared.sessions, &job, wanted)
            .await;
        Ok(Response::new(reply))
    }

    async fn get_downtime(
        &self,
        request: Request<GetDowntimeRequest>,
    ) -> Result<Response<GetDowntimeReply>, Status> {
        identity_of(&request)?;
        let request = request.into_inner();
        let query = EventQuery {
            clusters: vec![self.shared.core.snapshot().config.cluster_name.clone()],
            window: Some(TimeWindow {
                start: UnixSeconds(request.start),
                end: UnixSeconds(request.end),
            }),
            ..EventQuery::default()
        };
        let events = self
            .shared
            .store
            .node_events(&query)
            .await
            .map_err(|error| status_from(ErrorCode::DbConnection, error.to_string()))?;
        let periods = events
            .into_iter()
            .map(|(cluster, event)| Downtime {
                cluster,
                node: event.node,
                start: event.time_start.0,
                end: event.time_end.map(|end| end.0),
                state: event.state,
                tres: event.tres,
            })
            .collect();
        Ok(Response::new(GetDowntimeReply { periods }))
    }
}
