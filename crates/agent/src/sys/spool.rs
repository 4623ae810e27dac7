//! The spool directory: records of jobs, folders of steps, and the outbox of reports.
//!
//! ```text
//! <spool>/job<id>/job.msgpack              the job's phase
//!               /slurm_script              the batch script (written by the step daemon)
//!               /step_<step>/…             see `sluice_stepd::spec`; `reported` marks a step whose end was reported
//!        /reports/<number>.msgpack         reports that the controller has not stored yet
//!        /reports/next                     numbers below this may have been used
//!        /scripts/…, /conf-cache/…, /auth.sock
//! ```
//! Small files, written whole and renamed, not synced: after a crash of the machine nothing here describes anything that
//! still runs. Invariant: report numbers never repeat.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{AgentReport, LiveStep};
use sluice_stepd::spec::{self, SpecError, StepSpec, job_dir, step_dir};
use tracing::warn;

use crate::core::{FoundStep, JobRecord, RecoveredStep};

const JOB_FILE: &str = "job.msgpack";
const REPORTED_FILE: &str = "reported";
const REPORTS_FOLDER: &str = "reports";
const NEXT_FILE: &str = "next";
/// Numbers of reports are reserved in blocks of this size.
const NUMBER_BLOCK: u64 = 1024;

/// Where the spool is.
#[derive(Debug, Clone)]
pub struct Spool {
    root: PathBuf,
}

/// A job of an earlier life.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundJob {
    /// Its record.
    pub record: JobRecord,
    /// Steps of its attempt.
    pub steps: Vec<RecoveredStep>,
}

impl Spool {
    /// Opens (and makes) the directory. With `clean` everything of an earlier life is removed.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(root: &Path, clean: bool) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        if clean {
            for entry in fs::read_dir(root)?.filter_map(Result::ok) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name == REPORTS_FOLDER {
                    for report in fs::read_dir(entry.path())?.filter_map(Result::ok) {
                        if report.file_name() != NEXT_FILE {
                            fs::remove_file(report.path())?;
                        }
                    }
                } else if name
                    .strip_prefix("job")
                    .is_some_and(|id| id.parse::<u32>().is_ok())
                {
                    fs::remove_dir_all(entry.path())?;
                }
            }
        }
        // Users reach their batch scripts and the token socket through this folder.
        let mode = fs::metadata(root)?.permissions().mode();
        if mode & 0o055 != 0o055 && mode & 0o011 != 0o011 {
            let _ = fs::set_permissions(root, fs::Permissions::from_mode(mode | 0o055));
        }
        let reports = root.join(REPORTS_FOLDER);
        if !reports.is_dir() {
            fs::DirBuilder::new().mode(0o700).create(&reports)?;
        }
        Ok(Self {
            root: root.to_path_buf(),
        })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Folder of scripts that came with the configuration.
    pub fn scripts(&self) -> PathBuf {
        self.root.join("scripts")
    }

    /// Folder of a step.
    pub fn step(&self, step: LiveStep) -> PathBuf {
        step_dir(&self.root, step.job_id, step.step_id)
    }

    /// Stores a job's record.
    ///
    /// # Errors
    /// The file system's.
    pub fn store_job(&self, record: &JobRecord) -> Result<(), SpecError> {
        let folder = job_dir(&self.root, record.info.job_id);
        if !folder.is_dir() {
            fs::DirBuilder::new()
                .mode(0o755)
                .create(&folder)
                .map_err(|source| SpecError::File {
                    action: "make",
                    path: folder.clone(),
                    source,
                })?;
        }
        spec::store(&folder.join(JOB_FILE), record)
    }

    /// Removes everything of a job.
    pub fn forget_job(&self, job: JobId) {
        let folder = job_dir(&self.root, job);
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!("cannot remove {}: {error}", folder.display());
        }
    }

    /// Makes a step's folder with its specification. A folder of an older attempt is replaced.
    ///
    /// # Errors
    /// The file system's.
    pub fn prepare_step(
        &self,
        step: LiveStep,
        specification: &StepSpec,
    ) -> Result<PathBuf, SpecError> {
        let folder = self.step(step);
        let failed = |source| SpecError::File {
            action: "make",
            path: folder.clone(),
            source,
        };
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir_all(&folder).map_err(failed)?;
                fs::DirBuilder::new()
                    .mode(0o700)
                    .create(&folder)
                    .map_err(failed)?;
            }
            result => result.map_err(failed)?,
        }
        spec::store(&folder.join(spec::SPEC_FILE), specification)?;
        Ok(folder)
    }

    /// Remembers that a step's end is in the outbox.
    pub fn mark_reported(&self, step: LiveStep) {
        let folder = self.step(step);
        if folder.is_dir()
            && let Err(error) = fs::write(folder.join(REPORTED_FILE), "")
        {
            // The end is then reported a second time after a restart, which the controller ignores.
            warn!("cannot mark {} as reported: {error}", folder.display());
        }
    }

    /// Jobs of an earlier life, and folders that belong to none of them (which are removed unless something runs there).
    pub fn find_jobs(&self) -> Vec<FoundJob> {
        let mut found = Vec::new();
        let Ok(entries) = fs::read_dir(&self.root) else {
            return found;
        };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = name
                .strip_prefix("job")
                .and_then(|id| id.parse::<u32>().ok())
            else {
                continue;
            };
            match spec::load::<JobRecord>(&entry.path().join(JOB_FILE)) {
                Ok(Some(record)) if record.info.job_id == JobId(id) => {
                    let steps = self.find_steps(&record);
                    found.push(FoundJob { record, steps });
                }
                Ok(_) => self.forget_job(JobId(id)),
                Err(error) => {
                    // The controller ends the job again or misses it; keeping what cannot be read helps nobody.
                    warn!("job {id}: {error}; its folder is removed");
                    self.forget_job(JobId(id));
                }
            }
        }
        found.sort_by_key(|job| job.record.info.job_id);
        found
    }

    fn find_steps(&self, record: &JobRecord) -> Vec<RecoveredStep> {
        let folder = job_dir(&self.root, record.info.job_id);
        let mut steps = Vec::new();
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(step_id) = name
                .strip_prefix("step_")
                .and_then(|step| step.parse::<StepId>().ok())
            else {
                continue;
            };
            let attempt = spec::load::<StepSpec>(&entry.path().join(spec::SPEC_FILE))
                .ok()
                .flatten()
                .map(|spec| spec.launch.attempt);
            if attempt != Some(record.info.attempt) {
                continue;
            }
            let found = if entry.path().join(REPORTED_FILE).exists() {
                FoundStep::Reported
            } else {
                FoundStep::Unfinished
            };
            steps.push(RecoveredStep { step_id, found });
        }
        steps
    }
}

/// Reports that the controller has not stored yet, in memory and in the spool.
#[derive(Debug)]
pub struct Outbox {
    folder: PathBuf,
    waiting: BTreeMap<u64, AgentReport>,
    next: u64,
    reserved: u64,
}

impl Outbox {
    /// Reads what an earlier life left.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(spool: &Spool) -> io::Result<Self> {
        let folder = spool.root.join(REPORTS_FOLDER);
        let mut waiting = BTreeMap::new();
        for entry in fs::read_dir(&folder)?.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(number) = name
                .strip_suffix(".msgpack")
                .and_then(|number| number.parse::<u64>().ok())
            else {
                continue;
            };
            match spec::load(&entry.path()) {
                Ok(Some(report)) => {
                    waiting.insert(number, report);
                }
                Ok(None) => {}
                Err(error) => warn!("a report is lost: {error}"),
            }
        }
        let used = fs::read_to_string(folder.join(NEXT_FILE))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        let after_last = waiting.keys().next_back().map_or(1, |last| last + 1);
        let next = used.unwrap_or(1).max(after_last);
        let mut outbox = Self {
            folder,
            waiting,
            next,
            reserved: next,
        };
        outbox.reserve()?;
        Ok(outbox)
    }

    fn reserve(&mut self) -> io::Result<()> {
        let reserved = self.next + NUMBER_BLOCK;
        let temporary = self.folder.join("next.new");
        fs::write(&temporary, reserved.to_string())?;
        fs::rename(&temporary, self.folder.join(NEXT_FILE))?;
        self.reserved = reserved;
        Ok(())
    }

    /// Numbers and stores a report.
    pub fn push(&mut self, report: AgentReport) -> u64 {
        if self.next >= self.reserved
            && let Err(error) = self.reserve()
        {
            warn!("report numbers cannot be reserved: {error}");
        }
        let number = self.next;
        self.next += 1;
        if let Err(error) = spec::store(&self.path(number), &report) {
            // It is still sent from memory; only a restart before the acknowledgement would lose it.
            warn!("{error}");
        }
        self.waiting.insert(number, report);
        number
    }

    /// Forgets a report.
    pub fn acknowledge(&mut self, number: u64) -> Option<AgentReport> {
        let report = self.waiting.remove(&number)?;
        if let Err(error) = fs::remove_file(self.path(number)) {
            warn!("cannot remove {}: {error}", self.path(number).display());
        }
        Some(report)
    }

    /// Everything that waits, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &AgentReport)> {
        self.waiting
            .iter()
            .map(|(number, report)| (*number, report))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}.msgpack"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(reason: &str) -> AgentReport {
        AgentReport::Drain {
            reason: reason.to_owned(),
        }
    }

    /// Reports survive a restart until they are acknowledged, and a number is never used for another report.
    #[test]
    fn outbox_survives_restarts_and_numbers_grow() {
        let folder = tempfile::tempdir().expect("folder");
        let spool = Spool::open(folder.path(), false).expect("spool");
        let mut outbox = Outbox::open(&spool).expect("outbox");
        let (first, second) = (outbox.push(drain("a")), outbox.push(drain("b")));
        assert!(first < second);
        assert_eq!(outbox.acknowledge(first), Some(drain("a")));
        assert_eq!(outbox.acknowledge(first), None);
        drop(outbox);
        let mut outbox = Outbox::open(&spool).expect("outbox");
        assert_eq!(
            outbox.waiting().collect::<Vec<_>>(),
            [(second, &drain("b"))]
        );
        outbox.acknowledge(second);
        drop(outbox);
        let mut outbox = Outbox::open(&spool).expect("outbox");
        assert!(outbox.push(drain("c")) > second);
        drop(outbox);
        Spool::open(folder.path(), true).expect("clean spool");
        let mut outbox = Outbox::open(&spool).expect("outbox");
        assert_eq!(outbox.waiting().count(), 0);
        assert!(
            outbox.push(drain("d")) > second + 1,
            "numbers grow also over a clean start"
        );
    }
}
