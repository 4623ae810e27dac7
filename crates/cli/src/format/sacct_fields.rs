//! The fields of sacct: names, widths, and what a job or step shows in each.
//!
//! One row a field, in the order of `--helpformat`. A negative width means justified to the left. Fields that a step does not
//! have are empty in its lines. Source: sacct(1) and its output.

use sluice_model::accounting::{JobRecord, StepRecord, UNLIMITED_MINUTES, UsageStat, job_flag};
use sluice_model::exit_status::WaitStatus;
use sluice_model::memory::{ByteUnit, MemoryMib, format_exact, format_memory};
use sluice_model::sluid::Sluid;
use sluice_model::state::JobState;
use sluice_model::time::{UnixSeconds, format_duration_full};
use sluice_model::tres::Tres;

use super::time_style::TimeStyle;

/// What all lines share.
#[derive(Debug, Clone)]
pub struct SacctView {
    /// Times.
    pub times: TimeStyle,
    /// `--units`: a fixed unit, or Slurm's choice.
    pub unit: Option<char>,
    /// The period asked for, with `--truncate`.
    pub window: Option<(UnixSeconds, UnixSeconds)>,
}

/// One line: a job, or a step of it.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The job.
    pub job: &'a JobRecord,
    /// The step.
    pub step: Option<&'a StepRecord>,
    /// Shared facts.
    pub view: &'a SacctView,
}

impl Line<'_> {
    /// `4_1`, `15_[2-5%2]`, `9`, with `.batch`, `.0` … of a step.
    #[must_use]
    pub fn id(&self) -> String {
        let job = self.job;
        let id = match (job.array_job_id, job.array_task_id) {
            (Some(array), Some(task)) => format!("{array}_{task}"),
            (Some(array), None) if !job.array_task_string.is_empty() => {
                format!("{array}_[{}]", job.array_task_string)
            }
            _ => match (job.het_job_id, job.het_job_offset) {
                (Some(het), Some(offset)) => format!("{het}+{offset}"),
                _ => job.job_id.to_string(),
            },
        };
        self.with_step(id)
    }

    fn with_step(&self, id: String) -> String {
        match self.step {
            Some(step) => format!("{id}.{}", step.step_id),
            None => id,
        }
    }

    /// A text of the job only.
    fn of_job(&self, text: impl Fn(&JobRecord) -> String) -> String {
        if self.step.is_some() {
            String::new()
        } else {
            text(self.job)
        }
    }

    /// A text of the step only.
    fn of_step(&self, text: impl Fn(&StepRecord) -> String) -> String {
        self.step.map(text).unwrap_or_default()
    }

    fn start(&self) -> Option<UnixSeconds> {
        let start = self.step.map_or(self.job.start, |step| Some(step.start));
        match (start, self.view.window) {
            (Some(start), Some((from, _))) => Some(start.max(from)),
            _ => start,
        }
    }

    fn end(&self) -> Option<UnixSeconds> {
        let end = self.step.map_or(self.job.end, |step| step.end);
        match self.view.window {
            Some((_, until)) => Some(end.map_or(until, |end| end.min(until))),
            None => end,
        }
    }

    /// Seconds it ran, without suspended time.
    fn elapsed(&self) -> i64 {
        let Some(start) = self.start() else { return 0 };
        let suspended = self
            .step
            .map_or(self.job.suspended_secs, |step| step.suspended_secs);
        let end = self.end().unwrap_or(self.view.times.now);
        (end - start - i64::try_from(suspended).unwrap_or(0)).max(0)
    }

    fn cpus(&self) -> u32 {
        self.step.map_or(self.job.alloc_cpus, |step| step.cpus)
    }

    fn nodes(&self) -> u32 {
        self.step.map_or(self.job.alloc_nodes, |step| step.nodes)
    }

    fn state(&self) -> String {
        let number = self.step.map_or(self.job.state, |step| step.state);
        let state = u8::try_from(number)
            .ok()
            .and_then(JobState::from_number)
            .unwrap_or_default();
        let requester = self
            .step
            .map_or(self.job.kill_requester, |step| step.kill_requester);
        match (state, requester) {
            (JobState::Cancelled, Some(uid)) if self.step.is_none() => {
                format!("CANCELLED by {uid}")
            }
            _ => state.name().to_string(),
        }
    }

    fn point(&self, time: Option<UnixSeconds>) -> String {
        self.view.times.optional(time, "Unknown")
    }

    fn tres(&self, text: &str) -> String {
        text.parse::<Tres>()
            .map_or_else(|_| text.to_string(), |tres| tres.to_sorted_text())
    }

    /// A usage figure of an ended step; empty when nothing was measured.
    fn usage(
        &self,
        stat: impl Fn(&StepRecord) -> &UsageStat,
        show: impl Fn(&UsageStat) -> String,
    ) -> String {
        self.of_step(|step| {
            let stat = stat(step);
            let measured = step.end.is_some() && (!stat.is_zero() || !step.usage.rss_kib.is_zero());
            if measured { show(stat) } else { String::new() }
        })
    }

    fn kib(&self, number: u64) -> String {
        match self.view.unit {
            None => format_exact(number, ByteUnit::Kib),
            Some(unit) => scaled(number as f64 * 1024.0, unit),
        }
    }

    /// CPU time of a job is that of its steps, which its caller adds up.
    fn cpu_us(&self, part: fn(&StepRecord) -> u64) -> u64 {
        self.step.map_or(0, part)
    }
}

/// Bytes in a fixed unit.
fn scaled(bytes: f64, unit: char) -> String {
    let power = match unit.to_ascii_uppercase() {
        'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        _ => 5,
    };
    let value = bytes / 1024_f64.powi(power);
    if value.fract() == 0.0 {
        format!("{value}{unit}")
    } else {
        format!("{value:.2}{unit}")
    }
}

/// Bytes as MiB with two decimals, `0` for none.
fn bytes(number: u64) -> String {
    if number == 0 {
        "0".to_string()
    } else {
        format!("{:.2}M", number as f64 / 1_048_576.0)
    }
}

/// `MM:SS.mmm` below an hour, `[D-]HH:MM:SS` else; `00:00:00` for nothing.
#[must_use]
pub fn cpu_time(microseconds: u64) -> String {
    let seconds = i64::try_from(microseconds / 1_000_000).unwrap_or(i64::MAX);
    let millis = microseconds / 1000 % 1000;
    match (microseconds / 1000, seconds) {
        (0, _) => "00:00:00".to_string(),
        (_, 0..3600) => format!("{:02}:{:02}.{millis:03}", seconds / 60, seconds % 60),
        _ => format_duration_full(seconds),
    }
}

fn time_limit(line: &Line<'_>, raw: bool) -> String {
    line.of_job(|job| match job.time_limit_minutes {
        None => "Partition_Limit".to_string(),
        Some(UNLIMITED_MINUTES) => "UNLIMITED".to_string(),
        Some(minutes) if raw => minutes.to_string(),
        Some(minutes) => format_duration_full(i64::from(minutes) * 60),
    })
}

fn flags(job: &JobRecord) -> String {
    let names = [
        (job_flag::SCHED_SUBMIT, "SchedSubmit"),
        (job_flag::SCHED_MAIN, "SchedMain"),
        (job_flag::SCHED_BACKFILL, "SchedBackfill"),
        (job_flag::START_RECEIVED, "StartReceived"),
    ];
    names
        .iter()
        .filter(|(bit, _)| job.flags & bit != 0)
        .map(|(_, name)| *name)
        .collect::<Vec<_>>()
        .join(",")
}

/// A field.
#[derive(Debug)]
pub struct SacctField {
    /// Name.
    pub name: &'static str,
    /// Width; negative = to the left.
    pub width: i32,
    /// Text.
    pub value: fn(&Line<'_>) -> String,
}

const fn field(name: &'static str, width: i32, value: fn(&Line<'_>) -> String) -> SacctField {
    SacctField { name, width, value }
}

fn nothing(_: &Line<'_>) -> String {
    String::new()
}

/// Usage text of all quantities: `cpu=00:00:00,fs/disk=0,mem=1280K,pages=0,vmem=0`.
fn usage_in(line: &Line<'_>, show: fn(&UsageStat) -> u64) -> String {
    line.usage(
        |step| &step.usage.rss_kib,
        |_| {
            line.step.map_or_else(String::new, |step| {
                let usage = &step.usage;
                let cpu = show(&usage.cpu_ms) / 1000;
                format!(
                    "cpu={},energy={},fs/disk={},mem={},pages={},vmem={}",
                    format_duration_full(i64::try_from(cpu).unwrap_or(0)),
                    usage.energy_joules,
                    show(&usage.disk_read_bytes),
                    line.kib(show(&usage.rss_kib)),
                    show(&usage.pages),
                    line.kib(show(&usage.vsize_kib))
                )
            })
        },
    )
}

fn usage_out(line: &Line<'_>, show: fn(&UsageStat) -> u64) -> String {
    line.usage(
        |step| &step.usage.rss_kib,
        |_| {
            line.step.map_or_else(String::new, |step| {
                format!(
                    "energy={},fs/disk={}",
                    step.usage.energy_joules,
                    show(&step.usage.disk_write_bytes)
                )
            })
        },
    )
}

fn usage_names(line: &Line<'_>, show: fn(&UsageStat) -> String) -> String {
    line.usage(
        |step| &step.usage.rss_kib,
        |_| {
            line.step.map_or_else(String::new, |step| {
                let usage = &step.usage;
                format!(
                    "cpu={},fs/disk={},mem={},pages={},vmem={}",
                    show(&usage.cpu_ms),
                    show(&usage.disk_read_bytes),
                    show(&usage.rss_kib),
                    show(&usage.pages),
                    show(&usage.vsize_kib)
                )
            })
        },
    )
}

/// The table.
pub static FIELDS: &[SacctField] = &[
    field("Account", 10, |line| line.job.account.clone()),
    field("AdminComment", 15, |line| {
        line.of_job(|job| job.admin_comment.clone())
    }),
    field("AllocCPUS", 10, |line| line.cpus().to_string()),
    field("AllocNodes", 10, |line| line.nodes().to_string()),
    field("AllocTRES", 10, |line| {
        line.tres(
            line.step
                .map_or(&line.job.alloc_tres, |step| &step.alloc_tres),
        )
    }),
    field("AssocID", 7, |line| {
        line.of_job(|job| job.association_id.unwrap_or(0).to_string())
    }),
    field("AveCPU", 10, |line| {
        line.usage(
            |step| &step.usage.cpu_ms,
            |stat| format_duration_full(i64::try_from(stat.average / 1000).unwrap_or(0)),
        )
    }),
    field("AveCPUFreq", 10, |line| line.of_step(|_| "0".to_string())),
    field("AveDiskRead", 14, |line| {
        line.usage(
            |step| &step.usage.disk_read_bytes,
            |stat| bytes(stat.average),
        )
    }),
    field("AveDiskWrite", 14, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| bytes(stat.average),
        )
    }),
    field("AvePages", 10, |line| {
        line.usage(|step| &step.usage.pages, |stat| stat.average.to_string())
    }),
    field("AveRSS", 10, |line| {
        line.usage(|step| &step.usage.rss_kib, |stat| line.kib(stat.average))
    }),
    field("AveVMSize", 10, |line| {
        line.usage(|step| &step.usage.vsize_kib, |stat| line.kib(stat.average))
    }),
    field("BlockID", 16, nothing),
    field("Cluster", 10, |line| line.job.cluster.clone()),
    field("Comment", 14, |line| line.of_job(|job| job.comment.clone())),
    field("Constraints", 19, |line| {
        line.of_job(|job| job.constraints.clone())
    }),
    field("ConsumedEnergy", 14, |line| {
        line.step
            .map_or(0, |step| step.usage.energy_joules)
            .to_string()
    }),
    field("ConsumedEnergyRaw", 17, |line| {
        line.step
            .map_or(0, |step| step.usage.energy_joules)
            .to_string()
    }),
    field("Container", 19, |line| {
        line.step
            .map_or(&line.job.container, |step| &step.container)
            .clone()
    }),
    field("CPUTime", 10, |line| {
        format_duration_full(line.elapsed() * i64::from(line.cpus()))
    }),
    field("CPUTimeRAW", 10, |line| {
        (line.elapsed() * i64::from(line.cpus())).to_string()
    }),
    field("DBIndex", -21, |line| {
        line.of_job(|job| format!("{}.{}", job.job_id, job.attempt))
    }),
    field("DerivedExitCode", 15, |line| {
        line.of_job(|job| WaitStatus(job.derived_exit_status).to_string())
    }),
    field("Elapsed", 10, |line| format_duration_full(line.elapsed())),
    field("ElapsedRaw", 10, |line| line.elapsed().to_string()),
    field("Eligible", 19, |line| {
        line.point(line.step.map_or(line.job.eligible, |step| Some(step.start)))
    }),
    field("End", 19, |line| line.point(line.end())),
    field("Exclusive", 10, |line| {
        line.of_job(|job| {
            if job.exclusive.is_empty() {
                "NO".to_string()
            } else {
                job.exclusive.clone()
            }
        })
    }),
    field("ExitCode", 8, |line| {
        WaitStatus(
            line.step
                .map_or(line.job.exit_status, |step| step.exit_status),
        )
        .to_string()
    }),
    field("Extra", 14, |line| line.of_job(|job| job.extra.clone())),
    field("FailedNode", 8, |line| {
        line.of_job(|job| job.failed_node.clone())
    }),
    field("Flags", 19, |line| line.of_job(flags)),
    field("GID", 6, |line| line.of_job(|job| job.gid.to_string())),
    field("Group", 9, |line| line.of_job(|job| job.group.clone())),
    field("JobID", -12, |line| line.id()),
    field("JobIDRaw", -12, |line| {
        line.with_step(line.job.job_id.to_string())
    }),
    field("JobName", 10, |line| {
        line.step.map_or(&line.job.name, |step| &step.name).clone()
    }),
    field("Layout", 9, |line| line.of_step(|step| step.layout.clone())),
    field("Licenses", 10, |line| {
        line.of_job(|job| job.licenses.clone())
    }),
    field("MaxDiskRead", 12, |line| {
        line.usage(|step| &step.usage.disk_read_bytes, |stat| bytes(stat.max))
    }),
    field("MaxDiskReadNode", 15, |line| {
        line.usage(
            |step| &step.usage.disk_read_bytes,
            |stat| stat.max_node.clone(),
        )
    }),
    field("MaxDiskReadTask", 15, |line| {
        line.usage(
            |step| &step.usage.disk_read_bytes,
            |stat| stat.max_task.to_string(),
        )
    }),
    field("MaxDiskWrite", 12, |line| {
        line.usage(|step| &step.usage.disk_write_bytes, |stat| bytes(stat.max))
    }),
    field("MaxDiskWriteNode", 16, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| stat.max_node.clone(),
        )
    }),
    field("MaxDiskWriteTask", 16, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| stat.max_task.to_string(),
        )
    }),
    field("MaxPages", 8, |line| {
        line.usage(|step| &step.usage.pages, |stat| stat.max.to_string())
    }),
    field("MaxPagesNode", 12, |line| {
        line.usage(|step| &step.usage.pages, |stat| stat.max_node.clone())
    }),
    field("MaxPagesTask", 12, |line| {
        line.usage(|step| &step.usage.pages, |stat| stat.max_task.to_string())
    }),
    field("MaxRSS", 10, |line| {
        line.usage(|step| &step.usage.rss_kib, |stat| line.kib(stat.max))
    }),
    field("MaxRSSNode", 10, |line| {
        line.usage(|step| &step.usage.rss_kib, |stat| stat.max_node.clone())
    }),
    field("MaxRSSTask", 10, |line| {
        line.usage(|step| &step.usage.rss_kib, |stat| stat.max_task.to_string())
    }),
    field("MaxVMSize", 10, |line| {
        line.usage(|step| &step.usage.vsize_kib, |stat| line.kib(stat.max))
    }),
    field("MaxVMSizeNode", 14, |line| {
        line.usage(|step| &step.usage.vsize_kib, |stat| stat.max_node.clone())
    }),
    field("MaxVMSizeTask", 14, |line| {
        line.usage(
            |step| &step.usage.vsize_kib,
            |stat| stat.max_task.to_string(),
        )
    }),
    field("McsLabel", 12, |line| {
        line.of_job(|job| job.mcs_label.clone())
    }),
    field("MinCPU", 10, |line| {
        line.usage(
            |step| &step.usage.cpu_ms,
            |stat| format_duration_full(i64::try_from(stat.min / 1000).unwrap_or(0)),
        )
    }),
    field("MinCPUNode", 10, |line| {
        line.usage(|step| &step.usage.cpu_ms, |stat| stat.min_node.clone())
    }),
    field("MinCPUTask", 10, |line| {
        line.usage(|step| &step.usage.cpu_ms, |stat| stat.min_task.to_string())
    }),
    field("NCPUS", 10, |line| line.cpus().to_string()),
    field("NNodes", 8, |line| {
        if line.nodes() == 0 {
            line.job.req_nodes
        } else {
            line.nodes()
        }
        .to_string()
    }),
    field("NodeList", 15, |line| {
        let nodes = line
            .step
            .map_or(&line.job.node_list, |step| &step.node_list);
        if nodes.is_empty() {
            "None assigned".to_string()
        } else {
            nodes.clone()
        }
    }),
    field("NTasks", 8, |line| {
        line.of_step(|step| step.tasks.to_string())
    }),
    field("OriginalSLUID", 14, nothing),
    field("OverSubscribe", 13, nothing),
    field("Partition", 10, |line| {
        line.of_job(|job| job.partition.clone())
    }),
    field("Planned", 10, |line| {
        line.of_job(|job| format_duration_full(planned(line, job)))
    }),
    field("PlannedCPU", 10, |line| {
        line.of_job(|job| {
            format_duration_full(planned(line, job) * i64::from(job.alloc_cpus.max(job.req_cpus)))
        })
    }),
    field("PlannedCPURAW", 13, |line| {
        line.of_job(|job| {
            (planned(line, job) * i64::from(job.alloc_cpus.max(job.req_cpus))).to_string()
        })
    }),
    field("Priority", 10, |line| {
        line.of_job(|job| job.priority.to_string())
    }),
    field("QOS", 10, |line| line.of_job(|job| job.qos.clone())),
    field("QOSRAW", 6, nothing),
    field("QOSREQ", 10, |line| {
        line.of_job(|job| job.qos_requested.clone())
    }),
    field("Reason", 22, |line| {
        line.of_job(|job| {
            if job.reason.is_empty() {
                "None".to_string()
            } else {
                job.reason.clone()
            }
        })
    }),
    field("ReqCPUFreq", 10, |_| "Unknown".to_string()),
    field("ReqCPUFreqGov", 13, |_| "Unknown".to_string()),
    field("ReqCPUFreqMax", 13, |_| "Unknown".to_string()),
    field("ReqCPUFreqMin", 13, |_| "Unknown".to_string()),
    field("ReqCPUS", 8, |line| {
        line.step
            .map_or(line.job.req_cpus, |step| step.cpus)
            .to_string()
    }),
    field("ReqMem", 10, |line| {
        line.of_job(|job| match line.view.unit {
            None => format_memory(MemoryMib(job.req_mem_mib)),
            Some(unit) => scaled(job.req_mem_mib as f64 * 1_048_576.0, unit),
        })
    }),
    field("ReqNodes", 8, |line| {
        line.step
            .map_or(line.job.req_nodes, |step| step.nodes)
            .to_string()
    }),
    field("ReqTRES", 10, |line| {
        line.of_job(|job| line.tres(&job.req_tres))
    }),
    field("Reservation", 20, |line| {
        line.of_job(|job| job.reservation.clone())
    }),
    field("ReservationId", 8, nothing),
    field("ReqReservation", 20, |line| {
        line.of_job(|job| job.reservation_requested.clone())
    }),
    field("Restarts", 8, |line| {
        line.of_job(|job| job.attempt.to_string())
    }),
    field("SegmentSize", 11, nothing),
    field("SLUID", 14, |line| {
        Sluid::of(&line.job.cluster, line.job.submit, line.job.job_id).to_string()
    }),
    field("Start", 19, |line| line.point(line.start())),
    field("State", 10, |line| line.state()),
    field("StdErr", 20, |line| {
        line.step
            .map_or(&line.job.std_err, |step| &step.std_err)
            .clone()
    }),
    field("StdIn", 20, |line| {
        line.step
            .map_or(&line.job.std_in, |step| &step.std_in)
            .clone()
    }),
    field("StdOut", 20, |line| {
        line.step
            .map_or(&line.job.std_out, |step| &step.std_out)
            .clone()
    }),
    field("Submit", 19, |line| {
        line.point(Some(line.step.map_or(line.job.submit, |step| step.start)))
    }),
    field("SubmitLine", 20, |line| {
        line.step
            .map_or(&line.job.submit_line, |step| &step.submit_line)
            .clone()
    }),
    field("Suspended", 10, |line| {
        let seconds = line
            .step
            .map_or(line.job.suspended_secs, |step| step.suspended_secs);
        format_duration_full(i64::try_from(seconds).unwrap_or(0))
    }),
    field("SystemComment", 15, |line| {
        line.of_job(|job| job.system_comment.clone())
    }),
    field("SystemCPU", 10, |line| {
        cpu_time(line.cpu_us(|step| step.usage.system_cpu_us))
    }),
    field("Timelimit", 10, |line| time_limit(line, false)),
    field("TimelimitRaw", 10, |line| time_limit(line, true)),
    field("TotalCPU", 10, |line| {
        cpu_time(line.cpu_us(|step| step.usage.system_cpu_us + step.usage.user_cpu_us))
    }),
    field("TRESUsageInAve", 14, |line| {
        usage_in(line, |stat| stat.average)
    }),
    field("TRESUsageInMax", 14, |line| usage_in(line, |stat| stat.max)),
    field("TRESUsageInMaxNode", 18, |line| {
        usage_names(line, |stat| stat.max_node.clone())
    }),
    field("TRESUsageInMaxTask", 18, |line| {
        usage_names(line, |stat| stat.max_task.to_string())
    }),
    field("TRESUsageInMin", 14, |line| usage_in(line, |stat| stat.min)),
    field("TRESUsageInMinNode", 18, |line| {
        usage_names(line, |stat| stat.min_node.clone())
    }),
    field("TRESUsageInMinTask", 18, |line| {
        usage_names(line, |stat| stat.min_task.to_string())
    }),
    field("TRESUsageInTot", 14, |line| {
        usage_in(line, |stat| stat.total)
    }),
    field("TRESUsageOutAve", 15, |line| {
        usage_out(line, |stat| stat.average)
    }),
    field("TRESUsageOutMax", 15, |line| {
        usage_out(line, |stat| stat.max)
    }),
    field("TRESUsageOutMaxNode", 19, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| format!("fs/disk={}", stat.max_node),
        )
    }),
    field("TRESUsageOutMaxTask", 19, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| format!("fs/disk={}", stat.max_task),
        )
    }),
    field("TRESUsageOutMin", 15, |line| {
        usage_out(line, |stat| stat.min)
    }),
    field("TRESUsageOutMinNode", 19, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| format!("fs/disk={}", stat.min_node),
        )
    }),
    field("TRESUsageOutMinTask", 19, |line| {
        line.usage(
            |step| &step.usage.disk_write_bytes,
            |stat| format!("fs/disk={}", stat.min_task),
        )
    }),
    field("TRESUsageOutTot", 15, |line| {
        usage_out(line, |stat| stat.total)
    }),
    field("UID", 6, |line| line.of_job(|job| job.uid.to_string())),
    field("User", 9, |line| line.of_job(|job| job.user.clone())),
    field("UserCPU", 10, |line| {
        cpu_time(line.cpu_us(|step| step.usage.user_cpu_us))
    }),
    field("WCKey", 10, |line| line.of_job(|job| job.wckey.clone())),
    field("WCKeyID", 10, nothing),
    field("WorkDir", 20, |line| {
        line.of_job(|job| job.work_dir.clone())
    }),
];

/// Seconds between eligibility and start (or the end of the wait).
fn planned(line: &Line<'_>, job: &JobRecord) -> i64 {
    let Some(eligible) = job.eligible else {
        return 0;
    };
    let until = job.start.or(job.end).unwrap_or(line.view.times.now);
    (until - eligible).max(0)
}
