//! `scontrol show step`.
//!
//! Order and spelling are Slurm's. Source: scontrol(1) and its output.

use sluice_model::ids::StepId;
use sluice_model::step::StepInfo;

use super::or_null;
use super::show_job::{Record, ShowOptions};
use super::step_fields::step_name;

/// The record of `step`.
#[must_use]
pub fn show_step(step: &StepInfo, options: &ShowOptions) -> String {
    let mut record = Record::new(options.one_line);
    record.line(format_args!(
        "StepId={} UserId={} StartTime={} TimeLimit={}",
        step_name(step),
        step.uid,
        options.times.point(step.start_time),
        step.time_limit
    ));
    record.line(format_args!(
        "State={} Partition={} NodeList={}",
        step.state.name(),
        step.partition,
        step.nodes
    ));
    record.line(format_args!(
        "Nodes={} CPUs={} Tasks={} Name={} Network=(null)",
        step.num_nodes, step.num_cpus, step.num_tasks, step.name
    ));
    record.line(format_args!(
        "TRES={}",
        or_null(Some(&step.tres.to_string()))
    ));
    record.line("ResvPorts=(null)");
    record.line("CPUFreqReq=Default");
    if !step.distribution.is_empty() && matches!(step.step_id, StepId::Num(_)) {
        record.add(format_args!(" Dist={}", step.distribution));
    }
    record.line(format_args!(
        "SrunHost:Pid={}:{}",
        or_null(Some(&step.srun_host)),
        step.srun_pid
    ));
    record.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;
    use crate::format::time_style::TimeStyle;
    use jiff::tz::TimeZone;

    /// Two steps, as a real scontrol prints them.
    #[test]
    fn steps() {
        let options = ShowOptions {
            one_line: false,
            details: false,
            times: TimeStyle::standard(TimeZone::UTC, samples::SUBMIT),
            index_text_max: 64,
            without_submit_line: false,
            cluster: "oracle".to_string(),
        };
        let text: String = samples::steps()
            .iter()
            .map(|step| show_step(step, &options))
            .collect();
        let expected = "\
StepId=9.batch UserId=1002 StartTime=2026-11-30T04:41:19 TimeLimit=UNLIMITED
   State=RUNNING Partition=main NodeList=n1
   Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null)
   TRES=(null)
   ResvPorts=(null)
   CPUFreqReq=Default
   SrunHost:Pid=(null):0

StepId=9.0 UserId=1002 StartTime=2026-11-30T04:41:19 TimeLimit=UNLIMITED
   State=RUNNING Partition=main NodeList=n[1-2]
   Nodes=2 CPUs=8 Tasks=8 Name=sleep Network=(null)
   TRES=cpu=8,mem=2000M,node=2
   ResvPorts=(null)
   CPUFreqReq=Default Dist=Block
   SrunHost:Pid=vm:26224

";
        assert_eq!(text, expected);
    }
}
