//! Tables of sacct: chosen columns with or without padding.
//!
//! A value that is too long ends with `+`. CPU time of a job is the sum over its steps. Source: sacct(1) and its output.

use sluice_model::accounting::{JobRecord, StepRecord};

use super::sacct_fields::{FIELDS, Line, SacctField, SacctView, cpu_time};

/// Columns without options.
pub const FORMAT_DEFAULT: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
/// Columns of `-b`.
pub const FORMAT_BRIEF: &str = "JobID,State,ExitCode";
/// Columns of `-c`.
pub const FORMAT_COMPLETION: &str = "JobID,UID,JobName,Partition,NNodes,NodeList,State,End";
/// Columns of `-l`.
pub const FORMAT_LONG: &str = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,\
MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,\
AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,\
MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,ReqTRES,AllocTRES,\
TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,\
TRESUsageInTot,TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutAve,TRESUsageOutTot";

/// Columns in a line of `--helpformat`, and their width.
const HELP_COLUMNS: usize = 4;
/// See [`HELP_COLUMNS`].
const HELP_WIDTH: usize = 19;

/// How a table is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableStyle {
    /// Padded columns with a blank after each.
    Padded,
    /// Values with a delimiter between them, and after the last one when `trailing`.
    Delimited {
        /// The delimiter.
        delimiter: String,
        /// `-p`.
        trailing: bool,
    },
}

/// Cuts or pads as sacct and sacctmgr do. Negative width = to the left.
#[must_use]
pub fn pad(value: &str, width: i32) -> String {
    let size = width.unsigned_abs() as usize;
    let length = value.chars().count();
    let cut = if length > size && size > 0 {
        value
            .chars()
            .take(size - 1)
            .chain(std::iter::once('+'))
            .collect()
    } else {
        value.to_string()
    };
    if width < 0 {
        format!("{cut:<size$}")
    } else {
        format!("{cut:>size$}")
    }
}

/// One line of values with their widths.
#[must_use]
pub fn table_line(values: &[(String, i32)], style: &TableStyle) -> String {
    match style {
        TableStyle::Padded => values
            .iter()
            .map(|(value, width)| format!("{} ", pad(value, *width)))
            .collect(),
        TableStyle::Delimited {
            delimiter,
            trailing,
        } => {
            let texts: Vec<&str> = values.iter().map(|(value, _)| value.as_str()).collect();
            format!(
                "{}{}",
                texts.join(delimiter),
                if *trailing { delimiter } else { "" }
            )
        }
    }
}

/// The heading: names, and dashes below them in padded tables. A name that is too long is cut without a mark.
#[must_use]
pub fn table_header(columns: &[(String, i32)], style: &TableStyle) -> String {
    match style {
        TableStyle::Padded => {
            let cut: Vec<(String, i32)> = columns
                .iter()
                .map(|(name, width)| {
                    (
                        name.chars().take(width.unsigned_abs() as usize).collect(),
                        *width,
                    )
                })
                .collect();
            let dashes: String = columns
                .iter()
                .map(|(_, width)| format!("{} ", "-".repeat(width.unsigned_abs() as usize)))
                .collect();
            format!("{}\n{dashes}\n", table_line(&cut, style))
        }
        TableStyle::Delimited { .. } => format!("{}\n", table_line(columns, style)),
    }
}

/// A table: the heading, if it is wanted, and a line for each row. `columns` are names with their widths.
pub fn table_text(
    columns: &[(String, i32)],
    rows: impl IntoIterator<Item = Vec<String>>,
    style: &TableStyle,
    with_header: bool,
) -> String {
    let mut text = String::new();
    if with_header {
        text.push_str(&table_header(columns, style));
    }
    for row in rows {
        let values: Vec<(String, i32)> = row
            .into_iter()
            .zip(columns)
            .map(|(value, (_, width))| (value, *width))
            .collect();
        text.push_str(&table_line(&values, style));
        text.push('\n');
    }
    text
}

/// A chosen column.
#[derive(Debug, Clone, Copy)]
pub struct SacctColumn {
    field: &'static SacctField,
    width: i32,
}

/// Reads a list of fields: names in any case, shortened as far as the first match in the list, `%width` after them.
pub fn columns(list: &str) -> Result<Vec<SacctColumn>, String> {
    let mut columns = Vec::new();
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (name, width) = match item.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok().filter(|width| *width != 0)),
            None => (item, None),
        };
        if name.eq_ignore_ascii_case("all") {
            columns.extend(FIELDS.iter().map(|field| SacctColumn {
                field,
                width: width.unwrap_or(field.width),
            }));
            continue;
        }
        let field = FIELDS
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
            .or_else(|| {
                FIELDS.iter().find(|field| {
                    field
                        .name
                        .get(..name.len())
                        .is_some_and(|begin| begin.eq_ignore_ascii_case(name))
                })
            })
            .ok_or_else(|| name.to_string())?;
        columns.push(SacctColumn {
            field,
            width: width.unwrap_or(field.width),
        });
    }
    Ok(columns)
}

/// The heading of `columns`.
#[must_use]
pub fn header(columns: &[SacctColumn], style: &TableStyle) -> String {
    let names: Vec<(String, i32)> = columns
        .iter()
        .map(|column| (column.field.name.to_string(), column.width))
        .collect();
    table_header(&names, style)
}

/// The line of a job and those of its steps.
#[must_use]
pub fn job_lines(
    job: &JobRecord,
    steps: &[StepRecord],
    columns: &[SacctColumn],
    style: &TableStyle,
    view: &SacctView,
) -> String {
    let mut text = line(
        Line {
            job,
            step: None,
            view,
        },
        steps,
        columns,
        style,
    );
    for step in steps {
        text.push_str(&line(
            Line {
                job,
                step: Some(step),
                view,
            },
            &[],
            columns,
            style,
        ));
    }
    text
}

fn line(
    line: Line<'_>,
    steps: &[StepRecord],
    columns: &[SacctColumn],
    style: &TableStyle,
) -> String {
    let values: Vec<(String, i32)> = columns
        .iter()
        .map(|column| {
            let sum = |part: fn(&StepRecord) -> u64| cpu_time(steps.iter().map(part).sum());
            let value = match column.field.name {
                "TotalCPU" if line.step.is_none() => {
                    sum(|step| step.usage.user_cpu_us + step.usage.system_cpu_us)
                }
                "UserCPU" if line.step.is_none() => sum(|step| step.usage.user_cpu_us),
                "SystemCPU" if line.step.is_none() => sum(|step| step.usage.system_cpu_us),
                _ => (column.field.value)(&line),
            };
            (value, column.width)
        })
        .collect();
    format!("{}\n", table_line(&values, style))
}

/// The text of `--helpformat`.
#[must_use]
pub fn help_format() -> String {
    let mut text = String::new();
    for row in FIELDS.chunks(HELP_COLUMNS) {
        let names: Vec<String> = row
            .iter()
            .map(|field| format!("{:<HELP_WIDTH$}", field.name))
            .collect();
        text.push_str(&names.join(" "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time_style::TimeStyle;
    use jiff::tz::TimeZone;
    use sluice_model::ids::{JobId, StepId};
    use sluice_model::time::UnixSeconds;

    const SUBMIT: UnixSeconds = UnixSeconds(1_796_013_669);

    fn view() -> SacctView {
        SacctView {
            times: TimeStyle::standard(TimeZone::UTC, SUBMIT + 47),
            unit: None,
            window: None,
        }
    }

    /// Job 3 of the sample cluster: it ended with exit code 3.
    fn failed() -> (JobRecord, Vec<StepRecord>) {
        let mut job = JobRecord::new(JobId(3), 0, SUBMIT);
        job.name = "fail3".to_string();
        job.partition = "main".to_string();
        job.account = "physics".to_string();
        job.user = "alice".to_string();
        job.eligible = Some(SUBMIT);
        job.start = Some(SUBMIT);
        job.end = Some(SUBMIT + 1);
        job.state = 5;
        job.exit_status = 0x300;
        job.alloc_cpus = 1;
        job.req_mem_mib = 100;
        job.req_tres = "cpu=1,mem=100,node=1,billing=1".to_string();
        job.time_limit_minutes = Some(60);
        let mut batch: StepRecord = StepRecord::new(JobId(3), 0, SUBMIT, StepId::Batch, SUBMIT);
        batch.name = "batch".to_string();
        batch.end = Some(SUBMIT + 1);
        batch.state = 5;
        batch.exit_status = 0x300;
        batch.cpus = 1;
        batch.usage.user_cpu_us = 2_000;
        (job, vec![batch])
    }

    fn show(list: &str, style: &TableStyle) -> String {
        let (job, steps) = failed();
        let columns = columns(list).expect("known fields");
        format!(
            "{}{}",
            header(&columns, style),
            job_lines(&job, &steps, &columns, style, &view())
        )
    }

    /// The default table, as a real sacct prints it.
    #[test]
    fn default_table() {
        assert_eq!(
            show(FORMAT_DEFAULT, &TableStyle::Padded),
            "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n\
             ------------ ---------- ---------- ---------- ---------- ---------- -------- \n\
             3                 fail3       main    physics          1     FAILED      3:0 \n\
             3.batch           batch               physics          1     FAILED      3:0 \n"
        );
    }

    /// Both delimited forms, with the delimiter of `--delimiter`.
    #[test]
    fn delimited() {
        let bar = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        };
        assert_eq!(
            show("jobid,STATE,reqtres", &bar),
            "JobID|State|ReqTRES\n3|FAILED|billing=1,cpu=1,mem=100M,node=1\n3.batch|FAILED|\n"
        );
        let comma = TableStyle::Delimited {
            delimiter: "^|^".to_string(),
            trailing: true,
        };
        assert_eq!(
            show("jobid,elapsed", &comma),
            "JobID^|^Elapsed^|^\n3^|^00:00:01^|^\n3.batch^|^00:00:01^|^\n"
        );
    }

    /// Widths, cut values, and who cancelled.
    #[test]
    fn widths() {
        let (mut job, _) = failed();
        job.state = 4;
        job.kill_requester = Some(1003);
        job.submit_line = "sbatch -J fail3 --wrap exit".to_string();
        let columns = columns("state,state%20,state%-20,submitline%10,totalcpu").expect("known");
        let text = job_lines(&job, &[], &columns, &TableStyle::Padded, &view());
        assert_eq!(
            text,
            "CANCELLED+    CANCELLED by 1003 CANCELLED by 1003    sbatch -J+   00:00:00 \n"
        );
        assert_eq!(super::columns("nosuch").err(), Some("nosuch".to_string()));
    }

    /// CPU time as sacct writes it: milliseconds below an hour.
    #[test]
    fn cpu_times() {
        assert_eq!(cpu_time(7_000), "00:00.007");
        assert_eq!(cpu_time(0), "00:00:00");
        assert_eq!(cpu_time(83_500_000), "01:23.500");
        assert_eq!(cpu_time(3_661_000_000), "01:01:01");
    }

    /// Every name of --helpformat works, and the list looks as sacct's.
    #[test]
    fn helpformat() {
        let text = help_format();
        assert!(text.starts_with(
            "Account             AdminComment        AllocCPUS           AllocNodes         \n"
        ));
        assert!(text.ends_with("WCKey               WCKeyID             WorkDir            \n"));
        for name in text.split_whitespace() {
            assert!(columns(name).is_ok(), "{name}");
        }
    }
}
