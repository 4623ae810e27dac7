//! Figures of the scheduler: `sdiag --json`.
//!
//! Cycle times are microseconds; means are worked out here from sums and counts.

use sluice_model::time::UnixSeconds;

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::Optional;

/// Why main passes ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleExits {
    /// All jobs had been looked at.
    pub end_job_queue: u64,
    /// `default_queue_depth` jobs had been looked at.
    pub default_queue_depth: u64,
    /// `max_job_start` jobs had been started.
    pub max_job_start: u64,
    /// Too many calls waited.
    pub max_rpc_cnt: u64,
    /// It had taken `max_sched_time`.
    pub max_sched_time: u64,
    /// Licences ran out.
    pub licenses: u64,
}

/// Why backfill passes ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackfillExits {
    /// All jobs had been looked at.
    pub end_job_queue: u64,
    /// `bf_max_job_start`.
    pub bf_max_job_start: u64,
    /// `bf_max_job_test`.
    pub bf_max_job_test: u64,
    /// `bf_max_time`.
    pub bf_max_time: u64,
    /// The plan had too many entries.
    pub bf_node_space_size: u64,
    /// Something changed meanwhile.
    pub state_changed: u64,
}

/// Calls of one kind, or of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Number of the message type, or of the user.
    pub id: u32,
    /// Name of the message type, or of the user.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// Microseconds in all.
    pub total_us: u64,
}

/// All figures. Field names are those of the document.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(
    missing_docs,
    reason = "each is the figure of the same name that sdiag(1) explains"
)]
pub struct Statistics {
    pub req_time: UnixSeconds,
    pub req_time_start: UnixSeconds,
    pub server_thread_count: u64,
    pub agent_queue_size: u64,
    pub agent_count: u64,
    pub agent_thread_count: u64,
    pub dbd_agent_queue_size: u64,
    pub gettimeofday_latency: u64,
    pub schedule_cycle_max: u64,
    pub schedule_cycle_last: u64,
    pub schedule_cycle_sum: u64,
    pub schedule_cycle_total: u64,
    pub schedule_cycle_per_minute: u64,
    pub schedule_cycle_depth: u64,
    pub schedule_exit: ScheduleExits,
    pub schedule_queue_length: u64,
    pub jobs_submitted: u64,
    pub jobs_started: u64,
    pub jobs_completed: u64,
    pub jobs_canceled: u64,
    pub jobs_failed: u64,
    pub jobs_pending: u64,
    pub jobs_running: u64,
    pub job_states_ts: Option<UnixSeconds>,
    pub bf_backfilled_jobs: u64,
    pub bf_last_backfilled_jobs: u64,
    pub bf_backfilled_het_jobs: u64,
    pub bf_cycle_counter: u64,
    pub bf_cycle_sum: u64,
    pub bf_cycle_last: u64,
    pub bf_cycle_max: u64,
    pub bf_exit: BackfillExits,
    pub bf_last_depth: u64,
    pub bf_last_depth_try: u64,
    pub bf_depth_sum: u64,
    pub bf_depth_try_sum: u64,
    pub bf_queue_len: u64,
    pub bf_queue_len_sum: u64,
    pub bf_table_size: u64,
    pub bf_table_size_sum: u64,
    pub bf_when_last_cycle: Option<UnixSeconds>,
    pub bf_active: bool,
    pub rpcs_by_message_type: Vec<CallCount>,
    pub rpcs_by_user: Vec<CallCount>,
}

fn mean(sum: u64, count: u64) -> u64 {
    sum.checked_div(count).unwrap_or(0)
}

impl Payload for Statistics {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.map("statistics", |sink| {
            self.write_server(sink);
            self.write_main(sink);
            self.write_jobs(sink);
            self.write_backfill(sink);
            self.write_calls(sink);
        });
    }
}

impl Statistics {
    fn write_server<S: Sink>(&self, sink: &mut S) {
        sink.number("req_time", Optional::time(Some(self.req_time)));
        sink.number("req_time_start", Optional::time(Some(self.req_time_start)));
        sink.uint("server_thread_count", self.server_thread_count);
        sink.uint("agent_queue_size", self.agent_queue_size);
        sink.uint("agent_count", self.agent_count);
        sink.uint("agent_thread_count", self.agent_thread_count);
        sink.uint("dbd_agent_queue_size", self.dbd_agent_queue_size);
        sink.uint("gettimeofday_latency", self.gettimeofday_latency);
    }

    fn write_main<S: Sink>(&self, sink: &mut S) {
        let cycles = self.schedule_cycle_total;
        sink.uint("schedule_cycle_max", self.schedule_cycle_max);
        sink.uint("schedule_cycle_last", self.schedule_cycle_last);
        sink.uint("schedule_cycle_sum", self.schedule_cycle_sum);
        sink.uint("schedule_cycle_total", cycles);
        sink.uint("schedule_cycle_mean", mean(self.schedule_cycle_sum, cycles));
        sink.uint(
            "schedule_cycle_mean_depth",
            mean(self.schedule_cycle_depth, cycles),
        );
        sink.uint("schedule_cycle_per_minute", self.schedule_cycle_per_minute);
        sink.uint("schedule_cycle_depth", self.schedule_cycle_depth);
        let exits = &self.schedule_exit;
        sink.map("schedule_exit", |sink| {
            sink.uint("end_job_queue", exits.end_job_queue);
            sink.uint("default_queue_depth", exits.default_queue_depth);
            sink.uint("max_job_start", exits.max_job_start);
            sink.uint("max_rpc_cnt", exits.max_rpc_cnt);
            sink.uint("max_sched_time", exits.max_sched_time);
            sink.uint("licenses", exits.licenses);
        });
        sink.uint("schedule_queue_length", self.schedule_queue_length);
    }

    fn write_jobs<S: Sink>(&self, sink: &mut S) {
        sink.uint("jobs_submitted", self.jobs_submitted);
        sink.uint("jobs_started", self.jobs_started);
        sink.uint("jobs_completed", self.jobs_completed);
        sink.uint("jobs_canceled", self.jobs_canceled);
        sink.uint("jobs_failed", self.jobs_failed);
        sink.uint("jobs_pending", self.jobs_pending);
        sink.uint("jobs_running", self.jobs_running);
        sink.number("job_states_ts", Optional::time(self.job_states_ts));
    }

    fn write_backfill<S: Sink>(&self, sink: &mut S) {
        let cycles = self.bf_cycle_counter;
        sink.uint("bf_backfilled_jobs", self.bf_backfilled_jobs);
        sink.uint("bf_last_backfilled_jobs", self.bf_last_backfilled_jobs);
        sink.uint("bf_backfilled_het_jobs", self.bf_backfilled_het_jobs);
        sink.uint("bf_cycle_counter", cycles);
        sink.uint("bf_cycle_mean", mean(self.bf_cycle_sum, cycles));
        sink.uint("bf_depth_mean", mean(self.bf_depth_sum, cycles));
        sink.uint("bf_depth_mean_try", mean(self.bf_depth_try_sum, cycles));
        sink.uint("bf_cycle_sum", self.bf_cycle_sum);
        sink.uint("bf_cycle_last", self.bf_cycle_last);
        sink.uint("bf_cycle_max", self.bf_cycle_max);
        let exits = &self.bf_exit;
        sink.map("bf_exit", |sink| {
            sink.uint("end_job_queue", exits.end_job_queue);
            sink.uint("bf_max_job_start", exits.bf_max_job_start);
            sink.uint("bf_max_job_test", exits.bf_max_job_test);
            sink.uint("bf_max_time", exits.bf_max_time);
            sink.uint("bf_node_space_size", exits.bf_node_space_size);
            sink.uint("state_changed", exits.state_changed);
        });
        sink.uint("bf_last_depth", self.bf_last_depth);
        sink.uint("bf_last_depth_try", self.bf_last_depth_try);
        sink.uint("bf_depth_sum", self.bf_depth_sum);
        sink.uint("bf_depth_try_sum", self.bf_depth_try_sum);
        sink.uint("bf_queue_len", self.bf_queue_len);
        sink.uint("bf_queue_len_mean", mean(self.bf_queue_len_sum, cycles));
        sink.uint("bf_queue_len_sum", self.bf_queue_len_sum);
        sink.uint("bf_table_size", self.bf_table_size);
        sink.uint("bf_table_size_sum", self.bf_table_size_sum);
        sink.uint("bf_table_size_mean", mean(self.bf_table_size_sum, cycles));
        sink.number(
            "bf_when_last_cycle",
            Optional::time(self.bf_when_last_cycle),
        );
        sink.flag("bf_active", self.bf_active);
    }

    fn write_calls<S: Sink>(&self, sink: &mut S) {
        sink.list(
            "rpcs_by_message_type",
            &self.rpcs_by_message_type,
            |sink, calls| {
                sink.begin_map();
                sink.uint("type_id", calls.id);
                sink.text("message_type", &calls.name);
                sink.uint("count", calls.count);
                for key in ["queued", "dropped", "cycle_last", "cycle_max"] {
                    sink.uint(key, 0_u64);
                }
                write_time(sink, calls);
                sink.end_map();
            },
        );
        sink.list("rpcs_by_user", &self.rpcs_by_user, |sink, calls| {
            sink.begin_map();
            sink.uint("user_id", calls.id);
            sink.text("user", &calls.name);
            sink.uint("count", calls.count);
            write_time(sink, calls);
            sink.end_map();
        });
        sink.empty_list("pending_rpcs");
        sink.empty_list("pending_rpcs_by_hostlist");
    }
}

fn write_time<S: Sink>(sink: &mut S, calls: &CallCount) {
    sink.uint("total_time", calls.total_us);
    sink.number(
        "average_time",
        Optional::Set(mean(calls.total_us, calls.count)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// Means of a real sdiag: 7607 µs in 9 cycles, 16629 µs in 2 backfill cycles, 125 µs in 4 calls.
    #[test]
    fn means() {
        let statistics = Statistics {
            schedule_cycle_sum: 7607,
            schedule_cycle_total: 9,
            schedule_cycle_depth: 25,
            bf_cycle_counter: 2,
            bf_cycle_sum: 16_629,
            rpcs_by_message_type: vec![CallCount {
                id: 1008,
                name: "REQUEST_PING".to_string(),
                count: 4,
                total_us: 125,
            }],
            ..Statistics::default()
        };
        let text = to_json(&Meta::default(), &statistics);
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let figures = &document["statistics"];
        assert_eq!(figures["schedule_cycle_mean"], 845);
        assert_eq!(figures["schedule_cycle_mean_depth"], 2);
        assert_eq!(figures["bf_cycle_mean"], 8314);
        assert_eq!(
            figures["rpcs_by_message_type"][0]["average_time"]["number"],
            31
        );
        assert_eq!(figures["bf_queue_len_mean"], 0);
    }
}
