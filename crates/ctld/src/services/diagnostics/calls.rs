//! Counting of calls by kind and by user, for `sdiag`: a layer between the caller's identification and the services.
//!
//! Time is taken until the answer begins, so that a stream that stays open for hours counts as what it cost. The table cannot
//! grow without end: kinds and users beyond a limit are not counted. Unit: microseconds. Names and numbers of messages are
//! those of Slurm's protocol as `sdiag` prints them.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tonic::codegen::http::Request;
use tower::{Layer, Service};

use super::Diagnostics;
use crate::auth::Identity;

/// Kinds, and users, that are told apart.
const ROWS_MAX: usize = 4_096;

/// Slurm's names and numbers of the calls: service, method, name, number.
const MESSAGES: &[(&str, &str, &str, u32)] = &[
    ("Scheduler", "Ping", "REQUEST_PING", 1008),
    ("Scheduler", "Submit", "REQUEST_SUBMIT_BATCH_JOB", 4003),
    ("Scheduler", "WatchJob", "REQUEST_JOB_READY", 4019),
    ("Scheduler", "ListJobs", "REQUEST_JOB_INFO", 2003),
    ("Scheduler", "ListSteps", "REQUEST_JOB_STEP_INFO", 2005),
    ("Scheduler", "ListNodes", "REQUEST_NODE_INFO", 2007),
    (
        "Scheduler",
        "ListPartitions",
        "REQUEST_PARTITION_INFO",
        2009,
    ),
    ("Scheduler", "GetBatchScript", "REQUEST_BATCH_SCRIPT", 2051),
    ("Scheduler", "SignalJobs", "REQUEST_KILL_JOB", 5032),
    ("Scheduler", "UpdateJobs", "REQUEST_UPDATE_JOB", 3001),
    ("Scheduler", "HoldJobs", "REQUEST_UPDATE_JOB", 3001),
    ("Scheduler", "RequeueJobs", "REQUEST_JOB_REQUEUE", 5023),
    ("Scheduler", "SuspendJobs", "REQUEST_SUSPEND", 5014),
    ("Scheduler", "UpdateNodes", "REQUEST_UPDATE_NODE", 3002),
    ("Scheduler", "CreateStep", "REQUEST_JOB_STEP_CREATE", 5001),
    (
        "Scheduler",
        "CompleteAllocation",
        "REQUEST_COMPLETE_JOB_ALLOCATION",
        5017,
    ),
    (
        "Agents",
        "Connect",
        "MESSAGE_NODE_REGISTRATION_STATUS",
        1002,
    ),
    ("Admin", "ShowConfig", "REQUEST_BUILD_INFO", 2001),
    ("Admin", "IssueToken", "REQUEST_AUTH_TOKEN", 5039),
    ("Admin", "Reconfigure", "REQUEST_RECONFIGURE", 1003),
    ("Admin", "Shutdown", "REQUEST_SHUTDOWN", 1005),
    ("Diagnostics", "GetStatistics", "REQUEST_STATS_INFO", 2035),
    ("Priority", "ListFactors", "REQUEST_PRIORITY_FACTORS", 2022),
    ("Priority", "ListShares", "REQUEST_SHARE_INFO", 2027),
];

/// Count and time of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) total_us: u64,
}

/// Name, number, and calls of a message.
pub(super) type TypeRow = (String, u32, Tally);
/// Uid and calls of a user.
pub(super) type UserRow = (u32, Tally);

#[derive(Debug, Default)]
struct Table {
    by_path: HashMap<String, Tally>,
    by_user: HashMap<u32, Tally>,
}

/// All calls since the last reset.
#[derive(Debug, Default)]
pub struct CallTable {
    table: Mutex<Table>,
    running: AtomicU32,
}

impl CallTable {
    fn record(&self, path: &str, uid: Option<u32>, spent: Duration) {
        let us = u64::try_from(spent.as_micros()).unwrap_or(u64::MAX);
        let mut table = self.table.lock();
        let Table { by_path, by_user } = &mut *table;
        if let Some(tally) = by_path.get_mut(path) {
            tally.add(us);
        } else if by_path.len() < ROWS_MAX {
            by_path.entry(path.to_owned()).or_default().add(us);
        }
        let Some(uid) = uid else { return };
        if by_user.len() < ROWS_MAX || by_user.contains_key(&uid) {
            by_user.entry(uid).or_default().add(us);
        }
    }

    /// Calls being answered.
    pub(super) fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        *self.table.lock() = Table::default();
    }

    /// (name, number) with the calls, most frequent first; and the same by user.
    pub(super) fn rows(&self) -> (Vec<TypeRow>, Vec<UserRow>) {
        let table = self.table.lock();
        let mut by_type: HashMap<(String, u32), Tally> = HashMap::new();
        for (path, tally) in &table.by_path {
            let sum = by_type.entry(message_of(path)).or_default();
            sum.count += tally.count;
            sum.total_us += tally.total_us;
        }
        let mut by_user: Vec<UserRow> = table
            .by_user
            .iter()
            .map(|(uid, tally)| (*uid, *tally))
            .collect();
        drop(table);
        let mut by_type: Vec<TypeRow> = by_type
            .into_iter()
            .map(|((name, number), tally)| (name, number, tally))
            .collect();
        by_type.sort_by(|a, b| (b.2.count, &a.0).cmp(&(a.2.count, &b.0)));
        by_user.sort_by(|a, b| (b.1.count, a.0).cmp(&(a.1.count, b.0)));
        (by_type, by_user)
    }
}

impl Tally {
    fn add(&mut self, us: u64) {
        self.count += 1;
        self.total_us = self.total_us.saturating_add(us);
    }
}

/// Slurm's name and number; the method's own name and 0 for calls that Slurm does not have.
fn message_of(path: &str) -> (String, u32) {
    let plain = path.strip_prefix("/sluice.v1.").unwrap_or(path);
    let known = plain.split_once('/').and_then(|(service, method)| {
        MESSAGES
            .iter()
            .find(|message| message.0 == service && message.1 == method)
    });
    known.map_or_else(
        || (plain.to_owned(), 0),
        |message| (message.2.to_owned(), message.3),
    )
}

/// The layer.
#[derive(Debug, Clone)]
pub struct CountCalls(pub Arc<Diagnostics>);

impl<S> Layer<S> for CountCalls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            diagnostics: Arc::clone(&self.0),
        }
    }
}

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub struct Counted<S> {
    inner: S,
    diagnostics: Arc<Diagnostics>,
}

/// One call being answered.
struct Running(Arc<Diagnostics>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.calls.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S, B> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let uid = request
            .extensions()
            .get::<Identity>()
            .map(|identity| identity.uid);
        let path = request.uri().path().to_owned();
        let began = Instant::now();
        let diagnostics = Arc::clone(&self.diagnostics);
        diagnostics.calls.running.fetch_add(1, Ordering::Relaxed);
        let running = Running(Arc::clone(&diagnostics));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            diagnostics.calls.record(&path, uid, began.elapsed());
            drop(running);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two methods that are one message of Slurm's share a row; unknown methods keep their own name.
    #[test]
    fn rows_are_slurms_messages_by_frequency() {
        let calls = CallTable::default();
        let us = Duration::from_micros;
        calls.record("/sluice.v1.Scheduler/UpdateJobs", Some(1002), us(100));
        calls.record("/sluice.v1.Scheduler/HoldJobs", Some(1002), us(50));
        calls.record("/sluice.v1.Accounting/QueryJobs", Some(0), us(7));
        let (by_type, by_user) = calls.rows();
        let tally = |count, total_us| Tally { count, total_us };
        assert_eq!(
            by_type,
            [
                ("REQUEST_UPDATE_JOB".to_owned(), 3001, tally(2, 150)),
                ("Accounting/QueryJobs".to_owned(), 0, tally(1, 7)),
            ]
        );
        assert_eq!(by_user, [(1002, tally(2, 150)), (0, tally(1, 7))]);
        calls.clear();
        assert!(calls.rows().0.is_empty());
    }
}
