//! `explanation`: why a job waits. Slurm has no such document; the forms of its fields are those of the others.

use sluice_model::explanation::{
    Advice, AdviceKind, Blocker, BlockerKind, Explanation, NodeCause, PartitionExplanation,
};

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::Optional;

impl Payload for Explanation {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.map("explanation", |sink| {
            sink.uint("job_id", self.job_id.0);
            sink.text("reason", self.reason.name());
            sink.text("summary", &self.summary);
            sink.number("evaluated", Optional::time(Some(self.evaluated)));
            sink.number("expected_start", Optional::time(self.expected_start));
            sink.text("planned_nodes", &self.planned_nodes);
            sink.uint("jobs_ahead", self.jobs_ahead);
            sink.list("blockers", &self.blockers, blocker);
            sink.uint("more_blockers", self.more_blockers);
            sink.list("partitions", &self.partitions, partition);
            sink.list("advice", &self.advice, advice);
        });
    }
}

fn blocker<S: Sink>(sink: &mut S, blocker: &Blocker) {
    let kind = match blocker.kind {
        BlockerKind::RunningJob => "running_job",
        BlockerKind::PlannedJob => "planned_job",
        BlockerKind::Dependency => "dependency",
        BlockerKind::Reservation => "reservation",
        BlockerKind::License => "license",
    };
    sink.begin_map();
    sink.text("kind", kind);
    sink.text("name", &blocker.name);
    sink.text("nodes", &blocker.nodes);
    sink.number("from", Optional::time(blocker.from));
    sink.number("until", Optional::time(blocker.until));
    sink.text("text", &blocker.text);
    sink.end_map();
}

/// The word for a cause.
fn cause(cause: NodeCause) -> &'static str {
    match cause {
        NodeCause::OutOfService => "out_of_service",
        NodeCause::Excluded => "excluded",
        NodeCause::Feature => "feature",
        NodeCause::TooFewCpus => "too_few_cpus",
        NodeCause::TooLittleMemory => "too_little_memory",
        NodeCause::TooFewGres => "too_few_gres",
        NodeCause::Geometry => "geometry",
        NodeCause::CpusInUse => "cpus_in_use",
        NodeCause::MemoryInUse => "memory_in_use",
        NodeCause::GresInUse => "gres_in_use",
        NodeCause::InUse => "in_use",
        NodeCause::Promised => "promised",
    }
}

fn partition<S: Sink>(sink: &mut S, place: &PartitionExplanation) {
    sink.begin_map();
    sink.text("partition", &place.partition);
    sink.text("rule", place.rule.map_or("", |rule| rule.name()));
    sink.text("text", &place.text);
    sink.uint("total", place.total);
    sink.text("free", &place.free);
    sink.uint("free_count", place.free_count);
    sink.list("refused", &place.refused, |sink, refused| {
        sink.begin_map();
        sink.text("cause", cause(refused.cause));
        sink.uint("count", refused.count);
        sink.text("nodes", &refused.nodes);
        sink.end_map();
    });
    sink.number("expected_start", Optional::time(place.expected_start));
    sink.end_map();
}

fn advice<S: Sink>(sink: &mut S, advice: &Advice) {
    let kind = match advice.kind {
        AdviceKind::TimeLimit => "time_limit",
        AdviceKind::Nodes => "nodes",
        AdviceKind::Partition => "partition",
        AdviceKind::Command => "command",
    };
    sink.begin_map();
    sink.text("kind", kind);
    sink.text("value", &advice.value);
    sink.number("start", Optional::time(advice.start));
    sink.text("text", &advice.text);
    sink.end_map();
}
