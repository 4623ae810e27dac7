//! Qualities of service: `sacctmgr show qos --json`.
//!
//! Limits are infinite where none is set; wall limits are minutes, grace and exempt times seconds.

use sluice_model::accounting::QosRecord;

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::{Optional, OptionalFloat, TresIds};

/// A listing of QOS.
pub struct Qos<'a> {
    /// The records, in the order in which they are written.
    pub qos: &'a [QosRecord],
    /// Ids of TRES.
    pub tres: &'a TresIds,
}

impl Payload for Qos<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("qos", self.qos, |sink, qos| self.write_qos(sink, qos));
    }
}

/// Words of sacctmgr and of the data parser.
const FLAG_WORDS: [(&str, &str); 11] = [
    ("PartitionMinNodes", "PARTITION_MINIMUM_NODE"),
    ("PartitionMaxNodes", "PARTITION_MAXIMUM_NODE"),
    ("PartitionTimeLimit", "PARTITION_TIME_LIMIT"),
    ("EnforceUsageThreshold", "ENFORCE_USAGE_THRESHOLD"),
    ("NoReserve", "NO_RESERVE"),
    ("RequiresReservation", "REQUIRED_RESERVATION"),
    ("DenyOnLimit", "DENY_LIMIT"),
    ("OverPartQOS", "OVERRIDE_PARTITION_QOS"),
    ("NoDecay", "NO_DECAY"),
    ("UsageFactorSafe", "USAGE_FACTOR_SAFE"),
    ("Relative", "RELATIVE"),
];

fn flags(text: &str) -> impl Iterator<Item = &'static str> + '_ {
    FLAG_WORDS
        .into_iter()
        .filter(move |(name, _)| {
            text.split(',')
                .any(|flag| flag.trim().eq_ignore_ascii_case(name))
        })
        .map(|(_, word)| word)
}

impl Qos<'_> {
    fn write_qos<S: Sink>(&self, sink: &mut S, qos: &QosRecord) {
        sink.begin_map();
        sink.text("description", &qos.description);
        sink.texts("flags", flags(&qos.flags));
        sink.uint("id", qos.id);
        sink.map("limits", |sink| {
            sink.uint("grace_time", qos.grace_time_secs);
            sink.map("max", |sink| self.write_maximums(sink, qos));
            sink.real("factor", OptionalFloat::or_infinite(qos.limit_factor));
            sink.map("min", |sink| {
                let threshold = Optional::or_infinite(qos.min_prio_threshold);
                sink.number("priority_threshold", threshold);
                sink.map("tres", |sink| {
                    sink.map("per", |sink| {
                        self.tres.write_list(sink, "job", &qos.min_tres_per_job);
                    });
                });
            });
        });
        sink.text("name", &qos.name);
        sink.map("preempt", |sink| {
            sink.texts("list", &qos.preempt);
            let mode = match qos.preempt_mode.to_ascii_uppercase().as_str() {
                "" | "CLUSTER" | "OFF" => "DISABLED".to_string(),
                words => words.to_string(),
            };
            sink.texts("mode", mode.split(','));
            sink.number(
                "exempt_time",
                Optional::or_infinite(qos.preempt_exempt_time_secs),
            );
        });
        sink.number("priority", Optional::Set(qos.priority.into()));
        sink.real("usage_factor", OptionalFloat::Set(qos.usage_factor));
        sink.real(
            "usage_threshold",
            OptionalFloat::or_infinite(qos.usage_threshold),
        );
        sink.end_map();
    }

    fn write_maximums<S: Sink>(&self, sink: &mut S, qos: &QosRecord) {
        let pair = |sink: &mut S, account: Option<u32>, user: Option<u32>| {
            sink.map("per", |sink| {
                sink.number("account", Optional::or_infinite(account));
                sink.number("user", Optional::or_infinite(user));
            });
        };
        sink.map("active_jobs", |sink| {
            sink.number("accruing", Optional::or_infinite(qos.grp_jobs_accrue));
            sink.number("count", Optional::or_infinite(qos.grp_jobs));
        });
        sink.map("jobs", |sink| {
            sink.number("count", Optional::or_infinite(qos.grp_submit_jobs));
            sink.map("active_jobs", |sink| {
                pair(sink, qos.max_jobs_per_account, qos.max_jobs_per_user);
            });
            pair(
                sink,
                qos.max_submit_jobs_per_account,
                qos.max_submit_jobs_per_user,
            );
        });
        sink.map("tres", |sink| self.write_tres(sink, qos));
        sink.map("wall_clock", |sink| {
            sink.map("per", |sink| {
                sink.number("qos", Optional::or_infinite(qos.grp_wall));
                sink.number("job", Optional::or_infinite(qos.max_wall_per_job));
            });
        });
        sink.map("accruing", |sink| {
            pair(
                sink,
                qos.max_jobs_accrue_per_account,
                qos.max_jobs_accrue_per_user,
            );
        });
    }

    fn write_tres<S: Sink>(&self, sink: &mut S, qos: &QosRecord) {
        let list =
            |sink: &mut S, key: &'static str, text: &str| self.tres.write_list(sink, key, text);
        list(sink, "total", &qos.grp_tres);
        sink.map("minutes", |sink| {
            list(sink, "total", &qos.grp_tres_mins);
            sink.map("per", |sink| {
                list(sink, "qos", &qos.grp_tres_run_mins);
                list(sink, "job", &qos.max_tres_mins_per_job);
                list(sink, "account", &qos.max_tres_run_mins_per_account);
                list(sink, "user", &qos.max_tres_run_mins_per_user);
            });
        });
        sink.map("per", |sink| {
            list(sink, "account", &qos.max_tres_per_account);
            list(sink, "job", &qos.max_tres_per_job);
            list(sink, "node", &qos.max_tres_per_node);
            list(sink, "user", &qos.max_tres_per_user);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// The QOS with limits of a real `sacctmgr --json show qos`, line by line.
    #[test]
    fn limited() {
        let limited = QosRecord {
            id: 3,
            name: "limited".to_string(),
            description: "limited".to_string(),
            flags: "DenyOnLimit".to_string(),
            max_jobs_per_user: Some(2),
            max_submit_jobs_per_user: Some(4),
            max_tres_per_user: "cpu=16".to_string(),
            ..QosRecord::default()
        };
        let text = to_json(
            &Meta::default(),
            &Qos {
                qos: &[limited],
                tres: &TresIds::default(),
            },
        );
        let record = &text[..text.find("  \"meta\"").expect("end")];
        assert_eq!(record, include_str!("testdata/sacctmgr_qos.json"));
    }
}
