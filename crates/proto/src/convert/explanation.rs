//! Why a waiting job waits.
//!
//! Field names and meaning are those of the model; nothing is decided here.

use sluice_model::explanation::{
    Advice, AdviceKind, Blocker, BlockerKind, Explanation, NodeCause, PartitionExplanation,
    RefusedNodes,
};

use super::{field_from_wire, field_into_wire};
use super::{wire_enum, wire_message, wire_std};

wire_enum!(BlockerKind => BlockerKind { RunningJob, PlannedJob, Dependency, Reservation, License });

wire_enum!(NodeCause => NodeCause {
    OutOfService,
    Excluded,
    Feature,
    TooFewCpus,
    TooLittleMemory,
    TooFewGres,
    Geometry,
    CpusInUse,
    MemoryInUse,
    GresInUse,
    InUse,
    Promised,
});

wire_enum!(AdviceKind => AdviceKind { TimeLimit, Nodes, Partition, Command });

wire_message!(Blocker => Blocker { kind, name, nodes, from, until, text, });

wire_message!(RefusedNodes => RefusedNodes { cause, count, nodes, });

wire_message!(Advice => Advice { kind, value, start, text, });

wire_message!(PartitionExplanation => PartitionExplanation {
    partition,
    rule,
    text,
    total,
    free,
    free_count,
    refused,
    expected_start,
});

wire_message!(Explanation => Explanation {
    job_id,
    reason,
    summary,
    evaluated,
    expected_start,
    planned_nodes,
    jobs_ahead,
    blockers,
    more_blockers,
    partitions,
    advice,
});
