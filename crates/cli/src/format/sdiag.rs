//! The text of sdiag, and its figures for documents.
//!
//! One pass of this scheduler serves the queue in order and fills gaps, so its figures stand in both blocks; what the
//! controller does not count is 0. Source: sdiag(1) and its output.

use std::fmt::Write as _;

use sluice_dataparser::documents::{BackfillExits, CallCount, ScheduleExits, Statistics};
use sluice_model::time::UnixSeconds;
use sluice_proto::v1::{GetStatisticsReply, JobCounts, PassStatistics};

use super::time_style::TimeStyle;

/// Order of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrder {
    /// Most frequent first.
    Count,
    /// By number (`-i`).
    Id,
    /// Most time in all first (`-t`).
    Total,
    /// Longest on average first (`-T`).
    Average,
}

fn average(total: u64, count: u64) -> u64 {
    total.checked_div(count).unwrap_or(0)
}

/// Sorts calls and users.
pub fn sort(reply: &mut GetStatisticsReply, order: CallOrder) {
    let key = |count: u64, total: u64| match order {
        CallOrder::Count | CallOrder::Id => count,
        CallOrder::Total => total,
        CallOrder::Average => average(total, count),
    };
    match order {
        CallOrder::Id => reply
            .by_type
            .sort_by(|a, b| (a.type_id, &a.name).cmp(&(b.type_id, &b.name))),
        _ => reply.by_type.sort_by(|a, b| {
            key(b.count, b.total_us)
                .cmp(&key(a.count, a.total_us))
                .then_with(|| a.name.cmp(&b.name))
        }),
    }
    match order {
        CallOrder::Id => reply.by_user.sort_by_key(|user| user.uid),
        _ => reply.by_user.sort_by(|a, b| {
            key(b.count, b.total_us)
                .cmp(&key(a.count, a.total_us))
                .then(a.uid.cmp(&b.uid))
        }),
    }
}

/// Minutes since the counters began; Slurm's rate counts begun minutes.
fn per_minute(reply: &GetStatisticsReply, passes: &PassStatistics) -> u64 {
    let seconds = u64::try_from(reply.time - reply.since).unwrap_or(0);
    average(passes.count, (seconds / 60).max(1))
}

fn parts(reply: &GetStatisticsReply) -> (JobCounts, PassStatistics) {
    (
        reply.jobs.unwrap_or_default(),
        reply.passes.unwrap_or_default(),
    )
}

/// `Mon Nov 30 04:41:57 2026 (1796013717)`.
fn stamp(times: &TimeStyle, seconds: i64) -> String {
    let times = TimeStyle {
        now: UnixSeconds(seconds),
        ..times.clone()
    };
    format!("{} ({seconds})", times.banner())
}

/// The text.
#[must_use]
pub fn text(reply: &GetStatisticsReply, times: &TimeStyle) -> String {
    let (jobs, passes) = parts(reply);
    let stars = "*".repeat(55);
    let mut text = format!(
        "{stars}\nsdiag output at {}\nData since      {}\n{stars}\n",
        stamp(times, reply.time),
        stamp(times, reply.since)
    );
    let _ = write!(
        text,
        "Server thread count:  {}\nRPC queue enabled:    0\nAgent queue size:     0\nAgent count:          {}\n\
         Agent thread count:   0\nDBD Agent queue size: {}\n\n",
        reply.server_threads, reply.agents, reply.accounting_backlog
    );
    let _ = write!(
        text,
        "Jobs submitted: {}\nJobs started:   {}\nJobs completed: {}\nJobs canceled:  {}\nJobs failed:    {}\n\n\
         Job states ts:  {}\nJobs pending:   {}\nJobs running:   {}\n\n",
        jobs.submitted,
        jobs.started,
        jobs.completed,
        jobs.canceled,
        jobs.failed,
        stamp(times, reply.time),
        jobs.pending,
        jobs.running
    );
    let mean = average(passes.sum_us, passes.count);
    let mean_depth = average(passes.depth_sum, passes.count);
    let mean_queue = average(passes.queue_sum, passes.count);
    let _ = write!(
        text,
        "Main schedule statistics (microseconds):\n\tLast cycle:   {}\n\tMax cycle:    {}\n\tTotal cycles: {}\n\
         \tMean cycle:   {mean}\n\tMean depth cycle:  {mean_depth}\n\tCycles per minute: {}\n\tLast queue length: {}\n\n",
        passes.last_us,
        passes.max_us,
        passes.count,
        per_minute(reply, &passes),
        passes.last_queue
    );
    let _ = write!(
        text,
        "Main scheduler exit:\n\tEnd of job queue: {}\n\tHit default_queue_depth: 0\n\tHit sched_max_job_start: 0\n\
         \tBlocked on licenses: 0\n\tHit max_rpc_cnt: 0\n\tTimeout (max_sched_time): 0\n\n",
        passes.count
    );
    let _ = write!(
        text,
        "Backfilling stats\n\tTotal backfilled jobs (since last slurm start): {}\n\
         \tTotal backfilled jobs (since last stats cycle start): {}\n\
         \tTotal backfilled heterogeneous job components: 0\n\tTotal cycles: {}\n\tLast cycle when: {}\n\tLast cycle: {}\n\
         \tMax cycle:  {}\n\tMean cycle: {mean}\n\tLast depth cycle: {depth}\n\tLast depth cycle (try sched): {depth}\n\
         \tDepth Mean: {mean_depth}\n\tDepth Mean (try depth): {mean_depth}\n\tLast queue length: {}\n\
         \tQueue length mean: {mean_queue}\n\tLast table size: 0\n\tMean table size: 0\n\n",
        passes.backfilled,
        passes.backfilled_since,
        passes.count,
        if passes.last_time == 0 {
            "N/A".to_string()
        } else {
            stamp(times, passes.last_time)
        },
        passes.last_us,
        passes.max_us,
        passes.last_queue,
        depth = passes.last_depth,
    );
    let _ = write!(
        text,
        "Backfill exit\n\tEnd of job queue: {}\n\tHit bf_max_job_start: 0\n\tHit bf_max_job_test: 0\n\
         \tSystem state changed: 0\n\tHit table size limit (bf_node_space_size): 0\n\tTimeout (bf_max_time): 0\n\n\
         Latency for 1000 calls to gettimeofday(): {} microseconds\n\n",
        passes.count, reply.clock_latency_us
    );
    text.push_str("Remote Procedure Call statistics by message type\n");
    for call in &reply.by_type {
        let _ = writeln!(
            text,
            "\t{:<40}({:>5}) count:{:<6} ave_time:{:<6} total_time:{}",
            call.name,
            call.type_id,
            call.count,
            average(call.total_us, call.count),
            call.total_us
        );
    }
    text.push_str("\nRemote Procedure Call statistics by user\n");
    for user in &reply.by_user {
        let _ = writeln!(
            text,
            "\t{:<16}({:>8}) count:{:<6} ave_time:{:<6} total_time:{}",
            user.user,
            user.uid,
            user.count,
            average(user.total_us, user.count),
            user.total_us
        );
    }
    text.push_str("\nPending RPC statistics\n\tNo pending RPCs\n");
    text
}

/// The figures as the document of `--json` and `--yaml` has them.
#[must_use]
pub fn statistics(reply: &GetStatisticsReply) -> Statistics {
    let (jobs, passes) = parts(reply);
    Statistics {
        req_time: UnixSeconds(reply.time),
        req_time_start: UnixSeconds(reply.since),
        server_thread_count: u64::from(reply.server_threads),
        agent_count: u64::from(reply.agents),
        dbd_agent_queue_size: reply.accounting_backlog,
        gettimeofday_latency: reply.clock_latency_us,
        schedule_cycle_max: passes.max_us,
        schedule_cycle_last: passes.last_us,
        schedule_cycle_sum: passes.sum_us,
        schedule_cycle_total: passes.count,
        schedule_cycle_per_minute: per_minute(reply, &passes),
        schedule_cycle_depth: passes.depth_sum,
        schedule_exit: ScheduleExits {
            end_job_queue: passes.count,
            ..ScheduleExits::default()
        },
        schedule_queue_length: passes.last_queue,
        jobs_submitted: jobs.submitted,
        jobs_started: jobs.started,
        jobs_completed: jobs.completed,
        jobs_canceled: jobs.canceled,
        jobs_failed: jobs.failed,
        jobs_pending: jobs.pending,
        jobs_running: jobs.running,
        job_states_ts: Some(UnixSeconds(reply.time)),
        bf_backfilled_jobs: passes.backfilled,
        bf_last_backfilled_jobs: passes.backfilled_since,
        bf_cycle_counter: passes.count,
        bf_cycle_sum: passes.sum_us,
        bf_cycle_last: passes.last_us,
        bf_cycle_max: passes.max_us,
        bf_exit: BackfillExits {
            end_job_queue: passes.count,
            ..BackfillExits::default()
        },
        bf_last_depth: passes.last_depth,
        bf_last_depth_try: passes.last_depth,
        bf_depth_sum: passes.depth_sum,
        bf_depth_try_sum: passes.depth_sum,
        bf_queue_len: passes.last_queue,
        bf_queue_len_sum: passes.queue_sum,
        bf_when_last_cycle: Some(UnixSeconds(passes.last_time)),
        rpcs_by_message_type: reply
            .by_type
            .iter()
            .map(|call| CallCount {
                id: call.type_id,
                name: call.name.clone(),
                count: call.count,
                total_us: call.total_us,
            })
            .collect(),
        rpcs_by_user: reply
            .by_user
            .iter()
            .map(|user| CallCount {
                id: user.uid,
                name: user.user.clone(),
                count: user.count,
                total_us: user.total_us,
            })
            .collect(),
        ..Statistics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use sluice_proto::v1::{CallStatistics, UserCallStatistics};

    /// Figures of the sample cluster, as far as this scheduler has them.
    fn sample() -> GetStatisticsReply {
        let call = |name: &str, type_id, count, total_us| CallStatistics {
            name: name.to_string(),
            type_id,
            count,
            total_us,
        };
        let user = |user: &str, uid, count, total_us| UserCallStatistics {
            uid,
            user: user.to_string(),
            count,
            total_us,
        };
        GetStatisticsReply {
            time: 1_796_013_717,
            since: 1_796_013_650,
            server_threads: 1,
            accounting_backlog: 0,
            jobs: Some(JobCounts {
                submitted: 29,
                started: 15,
                completed: 7,
                canceled: 1,
                failed: 0,
                pending: 13,
                running: 8,
            }),
            passes: Some(PassStatistics {
                count: 9,
                last_us: 186,
                max_us: 4_559,
                sum_us: 7_607,
                last_time: 1_796_013_710,
                last_depth: 3,
                depth_sum: 25,
                last_queue: 4,
                queue_sum: 63,
                backfilled: 6,
                backfilled_since: 6,
            }),
            by_type: vec![
                call("REQUEST_NODE_INFO", 2007, 25, 1_761),
                call("REQUEST_PARTITION_INFO", 2009, 45, 1_687),
            ],
            by_user: vec![user("root", 0, 36, 7_027), user("alice", 1002, 173, 23_759)],
            clock_latency_us: 23,
            agents: 0,
        }
    }

    /// The blocks of a real sdiag, letter by letter.
    #[test]
    fn blocks() {
        let mut reply = sample();
        sort(&mut reply, CallOrder::Count);
        let times = TimeStyle::standard(TimeZone::UTC, UnixSeconds(reply.time));
        let text = text(&reply, &times);
        let expected = "*******************************************************\n\
sdiag output at Mon Nov 30 04:41:57 2026 (1796013717)\n\
Data since      Mon Nov 30 04:40:50 2026 (1796013650)\n\
*******************************************************\n\
Server thread count:  1\nRPC queue enabled:    0\nAgent queue size:     0\nAgent count:          0\n\
Agent thread count:   0\nDBD Agent queue size: 0\n\n\
Jobs submitted: 29\nJobs started:   15\nJobs completed: 7\nJobs canceled:  1\nJobs failed:    0\n\n\
Job states ts:  Mon Nov 30 04:41:57 2026 (1796013717)\nJobs pending:   13\nJobs running:   8\n\n\
Main schedule statistics (microseconds):\n\tLast cycle:   186\n\tMax cycle:    4559\n\tTotal cycles: 9\n\
\tMean cycle:   845\n\tMean depth cycle:  2\n\tCycles per minute: 9\n\tLast queue length: 4\n\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\tLast cycle when: Mon Nov 30 04:41:50 2026 (1796013710)\n"));
        assert!(text.ends_with(
            "Remote Procedure Call statistics by message type\n\
\tREQUEST_PARTITION_INFO                  ( 2009) count:45     ave_time:37     total_time:1687\n\
\tREQUEST_NODE_INFO                       ( 2007) count:25     ave_time:70     total_time:1761\n\
\nRemote Procedure Call statistics by user\n\
\talice           (    1002) count:173    ave_time:137    total_time:23759\n\
\troot            (       0) count:36     ave_time:195    total_time:7027\n\
\nPending RPC statistics\n\tNo pending RPCs\n"
        ));
    }

    /// `-i`, `-t`, `-T`.
    #[test]
    fn orders() {
        let mut reply = sample();
        sort(&mut reply, CallOrder::Id);
        assert_eq!(reply.by_type[0].type_id, 2007);
        sort(&mut reply, CallOrder::Count);
        assert_eq!(reply.by_type[0].type_id, 2009);
        sort(&mut reply, CallOrder::Total);
        assert_eq!(reply.by_type[0].type_id, 2007);
        sort(&mut reply, CallOrder::Average);
        assert_eq!((reply.by_type[0].type_id, reply.by_user[0].uid), (2007, 0));
    }

    /// The figures are those of the text.
    #[test]
    fn the_document_has_the_same_figures() {
        let found = statistics(&sample());
        assert_eq!(found.req_time, UnixSeconds(1_796_013_717));
        assert_eq!(found.schedule_cycle_sum / found.schedule_cycle_total, 845);
        assert_eq!(found.schedule_cycle_depth / found.schedule_cycle_total, 2);
        assert_eq!(found.rpcs_by_message_type.len(), sample().by_type.len());
    }
}
