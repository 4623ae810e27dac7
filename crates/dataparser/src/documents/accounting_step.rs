//! Steps of the accounting database, inside `sacct --json`.
//!
//! `requested` is what tasks took (CPU milliseconds, bytes of memory and reads), `consumed` what they gave out (energy, bytes
//! written); the words are Slurm's.

use sluice_model::accounting::{JobRecord, StepRecord, StepUsageRecord, UsageStat};
use sluice_model::exit_status::WaitStatus;
use sluice_model::filename::expand_pattern;
use sluice_model::hostlist::parse_hostlist;
use sluice_model::ids::StepId;

use super::accounting_job::{
    AccountingNames, elapsed, filename_context, state_words, write_cpu_time,
};
use crate::sink::Sink;
use crate::values::{Optional, exit_code};

/// Bytes of a KiB.
const KIB: u64 = 1024;

/// Writes a step as a value.
pub(super) fn write_step<S: Sink>(
    sink: &mut S,
    job: &JobRecord,
    step: &StepRecord,
    names: &AccountingNames<'_>,
) {
    let usage = &step.usage;
    let launched = matches!(step.step_id, StepId::Num(_));
    sink.begin_map();
    sink.map("time", |sink| {
        let run = elapsed(Some(step.start), step.end, step.suspended_secs, names.now);
        sink.uint("elapsed", run);
        sink.number("end", Optional::time(step.end));
        sink.number("start", Optional::time(Some(step.start)));
        sink.uint("suspended", step.suspended_secs);
        write_cpu_time(sink, "system", usage.system_cpu_us);
        sink.number("limit", Optional::or_infinite(step.time_limit_minutes));
        write_cpu_time(sink, "total", usage.system_cpu_us + usage.user_cpu_us);
        write_cpu_time(sink, "user", usage.user_cpu_us);
    });
    exit_code(sink, "exit_code", WaitStatus(step.exit_status));
    sink.map("nodes", |sink| {
        sink.uint("count", step.nodes);
        sink.text("range", &step.node_list);
        sink.texts("list", parse_hostlist(&step.node_list).unwrap_or_default());
    });
    sink.map("tasks", |sink| sink.uint("count", step.tasks));
    sink.map("CPU", |sink| {
        // Steps that no srun asked for have frequency 0, others none.
        let frequency = if launched {
            Optional::Unset
        } else {
            Optional::Set(0)
        };
        sink.map("requested_frequency", |sink| {
            sink.number("min", frequency);
            sink.number("max", frequency);
        });
        sink.text("governor", if launched { "Unknown" } else { "0" });
    });
    let killer = step.kill_requester.map_or_else(String::new, names.user);
    sink.text("kill_request_user", &killer);
    sink.texts("state", state_words(step.state, 0));
    sink.map("statistics", |sink| {
        sink.map("CPU", |sink| sink.uint("actual_frequency", 0_u64));
        sink.map("energy", |sink| {
            sink.number("consumed", Optional::Set(usage.energy_joules));
        });
    });
    sink.map("step", |sink| {
        let id = step.step_id.to_string();
        let context = filename_context(job, &id);
        let expanded = |pattern: &str| expand_pattern(pattern, &context);
        sink.text("id", &format!("{}.{id}", step.job_id));
        sink.text("name", &step.name);
        sink.text("stderr", &step.std_err);
        sink.text("stdin", &step.std_in);
        sink.text("stdout", &step.std_out);
        sink.text("stderr_expanded", &expanded(&step.std_err));
        sink.text("stdin_expanded", &expanded(&step.std_in));
        sink.text("stdout_expanded", &expanded(&step.std_out));
    });
    sink.text("submit_line", &step.submit_line);
    sink.map("task", |sink| {
        let layout = if step.layout.is_empty() {
            "Unknown"
        } else {
            &step.layout
        };
        sink.text("distribution", layout);
    });
    sink.map("tres", |sink| {
        sink.map("requested", |sink| write_usage(sink, &taken(usage), names));
        sink.map("consumed", |sink| {
            write_usage(sink, &given_out(usage), names)
        });
        names.tres.write_list(sink, "allocated", &step.alloc_tres);
    });
    sink.end_map();
}

/// Quantities by TRES name; without a measurement only energy is listed, without its task.
type Quantities = (Vec<(&'static str, UsageStat)>, bool);

fn is_measured(usage: &StepUsageRecord) -> bool {
    [
        &usage.cpu_ms,
        &usage.rss_kib,
        &usage.vsize_kib,
        &usage.pages,
        &usage.disk_read_bytes,
        &usage.disk_write_bytes,
    ]
    .into_iter()
    .any(|stat| !stat.is_zero())
}

fn scaled(stat: &UsageStat, factor: u64) -> UsageStat {
    let times = |count: u64| count.saturating_mul(factor);
    UsageStat {
        max: times(stat.max),
        min: times(stat.min),
        total: times(stat.total),
        average: times(stat.average),
        ..stat.clone()
    }
}

/// Energy is known of the whole step only; its place is that of the CPU time.
fn energy(usage: &StepUsageRecord) -> UsageStat {
    UsageStat {
        max_node: usage.cpu_ms.max_node.clone(),
        min_node: usage.cpu_ms.min_node.clone(),
        max: usage.energy_joules,
        min: usage.energy_joules,
        total: usage.energy_joules,
        average: usage.energy_joules,
        ..UsageStat::default()
    }
}

fn taken(usage: &StepUsageRecord) -> Quantities {
    if !is_measured(usage) {
        return (vec![("energy", energy(usage))], false);
    }
    let list = vec![
        ("cpu", usage.cpu_ms.clone()),
        ("mem", scaled(&usage.rss_kib, KIB)),
        ("energy", energy(usage)),
        ("fs/disk", usage.disk_read_bytes.clone()),
        ("vmem", scaled(&usage.vsize_kib, KIB)),
        ("pages", usage.pages.clone()),
    ];
    (list, true)
}

fn given_out(usage: &StepUsageRecord) -> Quantities {
    if !is_measured(usage) {
        return (vec![("energy", energy(usage))], false);
    }
    let list = vec![
        ("energy", energy(usage)),
        ("fs/disk", usage.disk_write_bytes.clone()),
    ];
    (list, true)
}

fn write_usage<S: Sink>(
    sink: &mut S,
    (quantities, with_tasks): &Quantities,
    names: &AccountingNames<'_>,
) {
    let extremes: &[(&str, UsageStat)] = if *with_tasks { quantities } else { &[] };
    for (key, highest) in [("max", true), ("min", false)] {
        sink.list(key, extremes, |sink, (name, stat)| {
            let (count, task, node) = if highest {
                (stat.max, stat.max_task, &stat.max_node)
            } else {
                (stat.min, stat.min_task, &stat.min_node)
            };
            sink.begin_map();
            names.tres.write_name(sink, name);
            sink.uint("count", count);
            sink.uint("task", task);
            sink.text("node", node);
            sink.end_map();
        });
    }
    for (key, average) in [("average", true), ("total", false)] {
        sink.list(key, quantities, |sink, (name, stat)| {
            sink.begin_map();
            names.tres.write_name(sink, name);
            sink.uint("count", if average { stat.average } else { stat.total });
            sink.end_map();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::sink::{Json, Style};
    use crate::values::TresIds;
    use sluice_model::time::UnixSeconds;

    /// What a measured step used: sizes in bytes, with the task and node of each extreme.
    #[test]
    fn usage() {
        let (job, mut steps) = samples::record();
        let step = &mut steps[0];
        step.step_id = StepId::Num(0);
        step.usage.vsize_kib = UsageStat {
            max: 400,
            max_node: "n1".to_string(),
            max_task: 1,
            total: 400,
            average: 200,
            ..UsageStat::default()
        };
        let ids = TresIds::default();
        let names = AccountingNames {
            tres: &ids,
            user: &|uid| uid.to_string(),
            now: UnixSeconds(0),
        };
        let mut bytes = Vec::new();
        let mut sink = Json::new(&mut bytes, Style::Compact);
        write_step(&mut sink, &job, step, &names);
        sink.finish().expect("memory");
        let record: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        let used = &record["tres"]["requested"];
        assert_eq!(used["max"].as_array().map(Vec::len), Some(6));
        assert_eq!(
            used["max"][4],
            serde_json::json!({"type": "vmem", "name": "", "id": 7, "count": 409_600, "task": 1, "node": "n1"})
        );
        assert_eq!(used["average"][4]["count"], 204_800);
        assert_eq!(
            record["tres"]["consumed"]["total"].as_array().map(Vec::len),
            Some(2)
        );
        assert_eq!(record["CPU"]["governor"], "Unknown");
    }
}
