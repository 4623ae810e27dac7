//! Short texts of users and configurations: hostlists, times, TRES, constraints, dependencies, names and selectors.
//!
//! What can be written again is read back as it was.

use jiff::tz::TimeZone;
use sluice_controller::select::constraint::Constraint;
use sluice_model::array::{ArraySpec, IndexSet};
use sluice_model::dependency::DependencyExpr;
use sluice_model::filename::{FilenameContext, expand_pattern};
use sluice_model::gres::{parse_count, parse_gpus, parse_gres_list, parse_node_gres};
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};
use sluice_model::ids::{JobId, JobSelector, StepId};
use sluice_model::memory::parse_memory;
use sluice_model::node_state::NodeStateSelector;
use sluice_model::reason::Reason;
use sluice_model::signal::{Signal, SignalSpec};
use sluice_model::state::JobStateSelector;
use sluice_model::time::point::{parse_past_point_in_time, parse_point_in_time};
use sluice_model::time::{TimeLimit, UnixSeconds, parse_duration_minutes, parse_duration_seconds};
use sluice_model::tres::Tres;

use crate::mutate::Kind;
use crate::{Target, texts_of};

fn as_text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// `n[1-3,007]`.
pub const HOSTLIST: Target = Target {
    name: "hostlist",
    seeds: || {
        texts_of(&[
            "n1",
            "n[1-4]",
            "n[001-128,200],gpu[1,3-5]",
            "rack[1-3]node[01-16]",
            "a,b,c[1-2]x[3-4]y",
            "n[0-4294967295]",
            "x[1-3][4-6]",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        if let Ok(hosts) = parse_hostlist(&as_text(input)) {
            let written = collapse_hostlist(&hosts);
            let again = parse_hostlist(&written)
                .unwrap_or_else(|error| panic!("{written:?} is not read again: {error}"));
            let sorted = |mut list: Vec<String>| {
                list.sort();
                list.dedup();
                list
            };
            assert_eq!(sorted(again), sorted(hosts), "{written:?}");
        }
    },
    reset: None,
};

/// Durations and points in time.
pub const TIME: Target = Target {
    name: "time",
    seeds: || {
        texts_of(&[
            "1-12:30:15",
            "90",
            "1:30",
            "UNLIMITED",
            "now+1hour",
            "16:00",
            "noon tomorrow",
            "2026-12-01T08:00:00",
            "uts1796013660",
            "12/24/26-4pm",
            "teatime",
            "now-3weeks",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        let text = as_text(input);
        let _ = parse_duration_minutes(&text);
        let _ = parse_duration_seconds(&text);
        if let Ok(limit) = text.parse::<TimeLimit>() {
            let written = limit.to_string();
            assert_eq!(written.parse::<TimeLimit>().ok(), Some(limit), "{written}");
        }
        for now in [0, 1_796_013_660, -1, 253_402_300_799, i64::MAX] {
            let now = UnixSeconds(now);
            let _ = parse_point_in_time(&text, now, &TimeZone::UTC);
            let _ = parse_past_point_in_time(&text, now, &TimeZone::UTC);
        }
    },
    reset: None,
};

/// TRES, GRES and memory.
pub const TRES: Target = Target {
    name: "tres",
    seeds: || {
        texts_of(&[
            "cpu=4,mem=16G,node=1,billing=4,gres/gpu:a100=2",
            "gpu:a100:2(S:0-1),shard:8,craynetwork",
            "gpu:4",
            "a100:2",
            "gres/gpu:tesla:2,license:matlab:1",
            "16G",
            "1K",
            "512MB",
            "1.5T",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        let text = as_text(input);
        if let Ok(tres) = text.parse::<Tres>() {
            let written = tres.to_string();
            let _ = written.parse::<Tres>();
        }
        let _ = parse_gres_list(&text);
        let _ = parse_gpus(&text);
        let _ = parse_node_gres(&text);
        let _ = parse_count(&text);
        let _ = parse_memory(&text);
    },
    reset: None,
};

/// `--constraint`.
pub const CONSTRAINT: Target = Target {
    name: "constraint",
    seeds: || {
        texts_of(&[
            "a&b",
            "a|b",
            "[rack1|rack2]",
            "[rack1*2&rack2*4]",
            "a*2&(b|c)*3",
            "!a&b",
            "(a&(b|(c&d)))",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        if let Ok(constraint) = Constraint::parse(&as_text(input)) {
            let _ = constraint.feature_names();
            let _ = constraint.counted_nodes();
        }
    },
    reset: None,
};

/// `--dependency`.
pub const DEPENDENCY: Target = Target {
    name: "dependency",
    seeds: || {
        texts_of(&[
            "afterok:1",
            "afterok:1:2,afterany:3?after:4+10",
            "singleton",
            "aftercorr:5_7",
            "afternotok:12_*?afterburstbuffer:4",
            "expand:9",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        if let Ok(expression) = as_text(input).parse::<DependencyExpr>() {
            let written = expression.to_string();
            let again = written
                .parse::<DependencyExpr>()
                .unwrap_or_else(|error| panic!("{written:?} is not read again: {error}"));
            assert_eq!(again.to_string(), written);
        }
    },
    reset: None,
};

/// Ids, states, signals, arrays and patterns of file names.
pub const NAMES: Target = Target {
    name: "names",
    seeds: || {
        texts_of(&[
            "0-15:4%2",
            "1,3,5-7%3",
            "12_[3-9%2]",
            "12_3",
            "12.batch",
            "19+1",
            "12_4.0",
            "PENDING",
            "drain+",
            "B:USR1@120",
            "SIGKILL",
            "slurm-%A_%4a-%x-%N.out",
            "\\%j",
            "JobHeldUser",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        let text = as_text(input);
        if let Ok(spec) = text.parse::<ArraySpec>() {
            let written = spec.to_string();
            assert_eq!(written.parse::<ArraySpec>().ok(), Some(spec), "{written}");
        }
        let _ = text.parse::<IndexSet>();
        let _ = text.parse::<JobId>();
        let _ = text.parse::<StepId>();
        if let Ok(selector) = text.parse::<JobSelector>() {
            let _ = selector.to_string();
        }
        let _ = text.parse::<JobStateSelector>();
        let _ = text.parse::<NodeStateSelector>();
        let _ = text.parse::<Signal>();
        let _ = text.parse::<SignalSpec>();
        let _ = text.parse::<Reason>();
        let _ = expand_pattern(&text, &FilenameContext::default());
    },
    reset: None,
};
