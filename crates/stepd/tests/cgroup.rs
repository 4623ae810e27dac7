//! Control groups of the machine that runs the test; without root or a writable hierarchy there is nothing to try.

mod support;

use std::path::PathBuf;

use sluice_model::exit_status::WaitStatus;
use sluice_stepd::control::ControlRequest;
use sluice_stepd::spec::CgroupSettings;
use support::{RunningStep, batch_spec, eventually};

/// A folder in a hierarchy that can be written, removed at the end.
struct Base(PathBuf);

impl Base {
    fn new(mount: &str) -> Option<Self> {
        let path = PathBuf::from(mount).join(format!("sluice-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.0.join("job_7"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn unified() -> Option<Base> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let folder = fields.next()?;
        (fields.next()? == "cgroup2").then_some(folder)
    })?;
    Base::new(mount)
}

/// The tasks are members, the daemon is not; freezing and killing go through the group; the folder goes away.
#[test]
fn unified_group_tracks_freezes_and_kills() {
    let Some(base) = unified() else {
        return;
    };
    let mut spec = batch_spec(
        7,
        "trap '' TERM TSTP; sleep 300 & while :; do sleep 0.05; done",
    );
    spec.node.cgroup = Some(CgroupSettings {
        unified: Some(base.0.clone()),
        ..CgroupSettings::default()
    });
    let mut step = RunningStep::start(spec);
    let folder = base.0.join("job_7/step_batch");
    let members = eventually("the script has children", || {
        let text = std::fs::read_to_string(folder.join("cgroup.procs")).ok()?;
        let members: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (members.len() >= 2).then_some(members)
    });
    assert!(!members.contains(&step.pid()));
    step.request(&ControlRequest::Suspend);
    let events = || std::fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
    eventually("the group is frozen", || {
        events().contains("frozen 1").then_some(())
    });
    step.request(&ControlRequest::Resume);
    eventually("the group goes on", || {
        events().contains("frozen 0").then_some(())
    });
    step.request(&ControlRequest::Terminate { grace_secs: 0 });
    assert_eq!(step.finish().tasks, [(0, WaitStatus::signaled(9))]);
    assert!(!folder.exists());
}

/// A task over the memory limit is killed by the kernel, and the record says why.
#[test]
fn memory_limit_of_version_one_kills_and_is_told() {
    let Some(base) = Base::new("/sys/fs/cgroup/memory") else {
        return;
    };
    let mut spec = batch_spec(
        7,
        "head -c 200000000 /dev/zero | tail -c 190000000 >/dev/null",
    );
    spec.node.cgroup = Some(CgroupSettings {
        legacy: vec![("memory".to_owned(), base.0.clone())],
        job_memory_bytes: 50 << 20,
        ..CgroupSettings::default()
    });
    let mut step = RunningStep::start(spec);
    let exit = step.finish();
    assert!(exit.usage.out_of_memory, "{exit:?}");
    assert!(!base.0.join("job_7").exists());
}
