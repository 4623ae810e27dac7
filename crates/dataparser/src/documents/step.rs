//! Steps in the controller's memory: `squeue -s --json`, `scontrol show step --json`.

use std::borrow::Borrow;

use sluice_model::ids::StepId;
use sluice_model::sluid::Sluid;
use sluice_model::step::StepInfo;
use sluice_model::time::UnixSeconds;

use crate::envelope::{Issue, Payload};
use crate::sink::Sink;
use crate::values::Optional;

/// What `array.task_id` says outside an array.
const NO_TASK: u32 = u32::MAX - 1;

/// A listing of steps.
pub struct Steps<'a, T> {
    /// The steps.
    pub steps: &'a [T],
    /// ClusterName.
    pub cluster: &'a str,
    /// When the answer was taken.
    pub time: UnixSeconds,
    warnings: Vec<Issue>,
}

impl<'a, T: Borrow<StepInfo>> Steps<'a, T> {
    /// A listing. Steps outside arrays get the warning that Slurm gives for their placeholder.
    #[must_use]
    pub fn new(steps: &'a [T], cluster: &'a str, time: UnixSeconds) -> Self {
        let outside = steps
            .iter()
            .filter(|step| (*step).borrow().array_task_id.is_none());
        let warnings = outside
            .map(|_| Issue {
                description: format!("Dumping (0x{NO_TASK:x}) as place holder for null"),
                ..Issue::default()
            })
            .collect();
        Self {
            steps,
            cluster,
            time,
            warnings,
        }
    }
}

impl<T: Borrow<StepInfo>> Payload for Steps<'_, T> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("steps", self.steps, |sink, step| {
            write_step(sink, step.borrow(), self.cluster, self.time);
        });
        sink.number("last_update", Optional::time(Some(self.time)));
    }

    fn warnings(&self) -> &[Issue] {
        &self.warnings
    }
}

/// `9.batch`, `15_3.0`.
fn step_name(step: &StepInfo) -> String {
    match (step.array_job_id, step.array_task_id) {
        (Some(array), Some(task)) => format!("{array}_{task}.{}", step.step_id),
        _ => format!("{}.{}", step.job_id, step.step_id),
    }
}

fn write_step<S: Sink>(sink: &mut S, step: &StepInfo, cluster: &str, time: UnixSeconds) {
    let launched = matches!(step.step_id, StepId::Num(_));
    let end = step.end_time.unwrap_or(time);
    let running = u64::try_from(end.since(step.start_time)).unwrap_or(0);
    // Frequencies are 0 for the steps that no srun asked for.
    let frequency = if launched {
        Optional::Unset
    } else {
        Optional::Set(0)
    };
    sink.begin_map();
    sink.map("array", |sink| {
        sink.uint("job_id", step.array_job_id.map_or(0, |id| id.0));
        sink.uint("task_id", step.array_task_id.unwrap_or(NO_TASK));
    });
    sink.text("cluster", cluster);
    sink.text("container", "");
    sink.text("container_id", "");
    sink.map("cpu", |sink| {
        sink.map("frequency", |sink| {
            sink.number("min", frequency);
            sink.number("max", frequency);
            sink.number("governor", frequency);
        });
    });
    sink.map("tres", |sink| {
        sink.map("per", |sink| {
            for key in ["cpu", "memory", "step", "node", "socket", "task"] {
                sink.text(key, "");
            }
        });
        sink.text("allocation", &step.tres.to_string());
        sink.text("binding", "");
        sink.text("frequency", "");
    });
    sink.text("name", &step.name);
    sink.text("network", "");
    sink.text("nodes", &step.nodes);
    sink.uint("number_cpus", step.num_cpus);
    sink.uint("number_tasks", step.num_tasks);
    sink.text("partition", &step.partition);
    sink.text("reserved_ports", "");
    sink.map("time", |sink| {
        sink.number("running", Optional::Set(running));
        sink.number("start", Optional::time(Some(step.start_time)));
        sink.number("limit", Optional::limit(step.time_limit));
    });
    sink.text("runtime", "");
    sink.map("srun", |sink| {
        sink.text("host", &step.srun_host);
        sink.uint("pid", step.srun_pid);
    });
    sink.texts("state", step.state.names());
    let sluid = Sluid::of(cluster, step.submit_time, step.job_id);
    sink.text("sluid", &sluid.to_string());
    sink.text("id", &step_name(step));
    for key in [
        "stderr",
        "stdin",
        "stdout",
        "stdin_expanded",
        "stdout_expanded",
        "stderr_expanded",
        "submit_line",
    ] {
        sink.text(key, "");
    }
    sink.map("task", |sink| {
        let known = launched && !step.distribution.is_empty();
        sink.text(
            "distribution",
            if known { &step.distribution } else { "Unknown" },
        );
    });
    sink.text("user", &step.user_name);
    sink.end_map();
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// A batch step and one of srun, as a real scontrol prints them, and a warning for each.
    #[test]
    fn steps() {
        let steps = samples::steps();
        let text = to_json(
            &Meta::default(),
            &Steps::new(&steps, "oracle", UnixSeconds(1_796_013_715)),
        );
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let (batch, launched) = (&document["steps"][0], &document["steps"][1]);
        assert_eq!(batch["id"], "9.batch");
        let sluid = Sluid::of("oracle", steps[0].submit_time, steps[0].job_id).to_string();
        assert_eq!(
            (&batch["sluid"], &launched["sluid"]),
            (&sluid.as_str().into(), &sluid.as_str().into())
        );
        assert_eq!(batch["array"]["task_id"], 4_294_967_294_u32);
        assert_eq!(batch["cpu"]["frequency"]["min"]["set"], true);
        assert_eq!(batch["task"]["distribution"], "Unknown");
        assert_eq!(launched["id"], "9.0");
        assert_eq!(launched["cpu"]["frequency"]["min"]["set"], false);
        assert_eq!(launched["tres"]["allocation"], "cpu=8,mem=2000M,node=2");
        assert_eq!(launched["time"]["running"]["number"], 36);
        assert_eq!(launched["time"]["limit"]["infinite"], true);
        assert_eq!(
            (&launched["srun"]["host"], &launched["srun"]["pid"]),
            (&"vm".into(), &26_224.into())
        );
        assert_eq!(document["warnings"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            document["warnings"][0]["description"],
            "Dumping (0xfffffffe) as place holder for null"
        );
    }
}
