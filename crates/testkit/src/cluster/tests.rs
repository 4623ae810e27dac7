//! Tests of the cluster's own machinery, with stand-ins for the daemons: what is tested is starting, killing and clean-up.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// Programs that only wait, and a `sinfo` that says what a test wants to hear.
fn stand_ins(dir: &Path, sinfo: &str) -> BinDir {
    for name in ["ctld", "agentd", "stepd", "sluice", "sluice-cli"] {
        let script = match name {
            "sluice-cli" => format!("#!/bin/sh\nprintf '{sinfo}'\n"),
            _ => "#!/bin/sh\nexec sleep 1000\n".to_owned(),
        };
        let path = dir.join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    BinDir::at(dir.to_path_buf()).unwrap()
}

/// Without this, a test's daemons or folder could outlive it.
#[test]
fn dropping_a_cluster_ends_its_daemons_and_removes_its_folder() {
    let programs = tempfile::tempdir().unwrap();
    let bin = stand_ins(programs.path(), "n1 idle\\nn2 idle\\n");
    let cluster = Cluster::builder().nodes(2).bin_dir(bin).start().unwrap();
    cluster.wait_ready(SOON).unwrap();
    let dir = cluster.dir().to_path_buf();
    let daemons = Description::read(&dir).unwrap().daemons;
    let names: Vec<&str> = daemons.iter().map(|daemon| daemon.name.as_str()).collect();
    assert_eq!(names, [cluster.layout().host.as_str(), "n1", "n2"]);
    assert!(daemons.iter().all(|daemon| daemon.process.is_alive()));
    drop(cluster);
    assert!(daemons.iter().all(|daemon| !daemon.process.is_alive()));
    assert!(!dir.exists());
}

/// Without this, crash tests would not crash anything, or `sluice down` would look for the process before the crash.
#[test]
fn a_killed_daemon_is_gone_and_its_successor_is_described() {
    let programs = tempfile::tempdir().unwrap();
    let bin = stand_ins(programs.path(), "");
    let mut cluster = Cluster::builder().nodes(1).bin_dir(bin).start().unwrap();
    let before = Description::read(cluster.dir()).unwrap().daemons;
    assert!(cluster.start_agent("n1").is_err());
    cluster.kill_agent("n1").unwrap();
    assert!(!before[1].process.is_alive());
    assert!(cluster.kill_agent("n1").is_err());
    cluster.start_agent("n1").unwrap();
    let after = Description::read(cluster.dir()).unwrap().daemons;
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1].process, before[1].process);
    assert_eq!(after[1].port, before[1].port);
}

/// Without this, a daemon that dies at its start would only show as a long wait.
#[test]
fn a_daemon_that_ends_while_starting_is_told_at_once() {
    let programs = tempfile::tempdir().unwrap();
    let bin = stand_ins(programs.path(), "n1 down\\n");
    fs::write(
        bin.program("agentd"),
        "#!/bin/sh\necho bad configuration >&2\n",
    )
    .unwrap();
    let cluster = Cluster::builder().nodes(1).bin_dir(bin).start().unwrap();
    let error = cluster.wait_ready(SOON).unwrap_err().to_string();
    assert!(
        error.starts_with("agentd of n1 ended while starting\n"),
        "{error}"
    );
    assert!(error.contains("bad configuration"), "{error}");
}

/// Without this, `quickstart --keep` would leave nothing behind, and `sluice down` could not end what it left.
#[test]
fn a_kept_cluster_stays_until_it_is_taken_down() {
    let programs = tempfile::tempdir().unwrap();
    let bin = stand_ins(programs.path(), "n1 idle\\n");
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::builder()
        .nodes(1)
        .bin_dir(bin)
        .dir(folder.path())
        .start()
        .unwrap();
    let dir = cluster.keep();
    let daemons = Description::read(&dir).unwrap().daemons;
    assert!(daemons.iter().all(|daemon| daemon.process.is_alive()));
    let report = take_down(&dir).unwrap();
    assert_eq!(report.daemons, 2);
    assert!(daemons.iter().all(|daemon| !daemon.process.is_alive()));
    assert!(dir.join("etc/slurm.conf").exists());
}
