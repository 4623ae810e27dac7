//! The planner's thread: takes a snapshot, plans, hands the plan in as one command, and sleeps until something may have changed.
//!
//! A submission or the end of a job wakes it at once; there is no fixed delay. While it plans, further wake-ups are remembered,
//! so nothing is missed and nothing is planned twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use sluice_controller::command::plan::{PlanOutcome, carry_out};
use sluice_controller::plan::{Plan, SchedulerKind};
use sluice_controller::schedule::{self, PlanOptions};

use super::{CoreError, CoreHandle, now};

/// Passes shorter than this follow each other without a pause.
const SHORT: Duration = Duration::from_millis(5);

/// Longest pause after a long pass.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Longest sleep between two passes while jobs wait.
const IDLE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct WakeState {
    wanted: bool,
    stopping: bool,
}

/// Wakes the planner.
#[derive(Debug, Clone, Default)]
pub struct PlannerWake {
    state: Arc<(Mutex<WakeState>, Condvar)>,
}

impl PlannerWake {
    /// Something changed.
    pub fn wake(&self) {
        self.state.0.lock().wanted = true;
        self.state.1.notify_one();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state.0.lock().stopping = true;
        self.state.1.notify_one();
    }

    /// Waits for a wake-up or the time-out; false = stop.
    fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.0.lock();
        while !state.wanted && !state.stopping {
            if self.state.1.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.wanted = false;
        !state.stopping
    }
}

/// Counters of the scheduler, for `sdiag` and the watchdog.
#[derive(Debug, Default)]
pub struct PlannerStatistics {
    /// Passes.
    pub passes: AtomicU64,
    /// Microseconds of the last pass.
    pub last_us: AtomicU64,
    /// Microseconds of the longest pass.
    pub max_us: AtomicU64,
    /// Microseconds of all passes.
    pub sum_us: AtomicU64,
    /// Jobs the last pass looked at.
    pub last_depth: AtomicU64,
    /// Jobs all passes looked at.
    pub depth_sum: AtomicU64,
    /// Waiting records at the last pass.
    pub last_queue: AtomicU64,
    /// Waiting records at all passes.
    pub queue_sum: AtomicU64,
    /// Jobs planned to start ahead of their turn.
    pub backfilled: AtomicU64,
    /// Jobs started.
    pub started: AtomicU64,
    /// Placements that no longer fitted.
    pub rejected: AtomicU64,
    /// When the last pass ended, seconds.
    pub last_time: std::sync::atomic::AtomicI64,
}

impl PlannerStatistics {
    fn note_pass(&self, spent_us: u64, queue: u64, plan: &Plan) {
        let depth = (plan.starts.len() + plan.notes.len()) as u64;
        let backfilled = plan
            .starts
            .iter()
            .filter(|start| start.scheduler == SchedulerKind::Backfill)
            .count() as u64;
        self.sum_us.fetch_add(spent_us, Ordering::Relaxed);
        self.last_depth.store(depth, Ordering::Relaxed);
        self.depth_sum.fetch_add(depth, Ordering::Relaxed);
        self.last_queue.store(queue, Ordering::Relaxed);
        self.queue_sum.fetch_add(queue, Ordering::Relaxed);
        self.backfilled.fetch_add(backfilled, Ordering::Relaxed);
    }
}

/// Runs until told to stop. Call it on a thread of its own.
pub fn run(core: &CoreHandle, wake: &PlannerWake, statistics: &PlannerStatistics) {
    let mut sleep = Duration::ZERO;
    loop {
        if !wake.wait(sleep) {
            return;
        }
        let snapshot = core.snapshot();
        let began = Instant::now();
        let plan = schedule::plan(&snapshot, now(), PlanOptions::default());
        let spent = began.elapsed();
        let spent_us = spent.as_micros() as u64;
        statistics.passes.fetch_add(1, Ordering::Relaxed);
        statistics.last_us.store(spent_us, Ordering::Relaxed);
        statistics.max_us.fetch_max(spent_us, Ordering::Relaxed);
        statistics.last_time.store(now().0, Ordering::Relaxed);
        statistics.note_pass(spent_us, snapshot.pending.len() as u64, &plan);
        let next = plan.next_wakeup;
        // Nodes still marked as planned for jobs that have started by now are unmarked by an empty plan too.
        let nothing = snapshot.planned_nodes.is_empty()
            && plan.starts.is_empty()
            && plan.notes.is_empty()
            && plan.impossible.is_empty()
            && plan.missed_deadline.is_empty();
        drop(snapshot);
        if !nothing {
            match core.run_blocking(move |transaction| Ok(carry_out(transaction, plan))) {
                Ok(PlanOutcome { started, rejected }) => {
                    statistics
                        .started
                        .fetch_add(started as u64, Ordering::Relaxed);
                    statistics
                        .rejected
                        .fetch_add(rejected as u64, Ordering::Relaxed);
                }
                Err(CoreError::Stopped) => return,
                // The writer has said so, and wakes us when there is room.
                Err(CoreError::NotSaved { .. }) => std::thread::sleep(PAUSE_MAX),
                Err(error) => tracing::error!("a plan was refused as a whole: {error}"),
            }
        }
        // With a long queue a pass takes long: planning then takes half of a processor at most, and what happens meanwhile is
        // planned for together.
        if spent > SHORT {
            std::thread::sleep(spent.min(PAUSE_MAX));
        }
        sleep = next.map_or(IDLE, |time| {
            Duration::from_secs(time.since(now()).clamp(0, 30) as u64).min(IDLE)
        });
        // A wake-up time that is already past would spin.
        sleep = sleep.max(Duration::from_millis(200));
    }
}
