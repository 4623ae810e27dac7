//! Journals and databases that former releases wrote are read as they were meant. See `tests/data/upgrade/README.md`.

use std::path::{Path, PathBuf};

use sluice_testkit::{
    Cluster, Finished, PrivatePostgres, restore_upgrade_state, run_with_deadline,
    upgrade_accounting, upgrade_cluster, upgrade_queue, wait_until,
};

use super::SOON;

fn recordings() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/upgrade");
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no recording of any release");
    found
}

fn read(recording: &Path, file: &str) -> String {
    std::fs::read_to_string(recording.join(file)).unwrap()
}

fn serve(cluster: &mut Cluster) {
    cluster.start_ctld().unwrap();
    wait_until(SOON, "ctld to answer", || {
        cluster
            .run("scontrol", ["ping"])
            .is_ok_and(|done| done.code == 0)
    })
    .unwrap();
}

/// Every job, step and node of every former release's journal is there, with the same words; so is its accounting.
#[test]
fn journals_and_sqlite_files_of_former_releases_are_read() {
    for recording in recordings() {
        eprintln!("{}", recording.display());
        let mut cluster = upgrade_cluster(None).write().unwrap();
        restore_upgrade_state(&recording, &cluster).unwrap();
        let sluice = |args: &[&str]| {
            let mut command = cluster.program(&cluster.bin_program("sluice"));
            command.arg("journal").args(args);
            run_with_deadline(command, SOON)
                .and_then(Finished::success)
                .unwrap()
        };
        let (state, out) = (cluster.path("state"), cluster.path("work/state"));
        let (state, out) = (state.to_str().unwrap(), out.to_str().unwrap());
        sluice(&["check", state]);
        // From the oldest checkpoint and from the newest: the same state.
        sluice(&["replay", state, "--output", out]);
        let newest = std::fs::read(out).unwrap();
        sluice(&["replay", state, "--from-oldest", "--output", out]);
        assert!(
            std::fs::read(out).unwrap() == newest,
            "replay from the oldest checkpoint gives another state"
        );
        serve(&mut cluster);
        assert_eq!(
            upgrade_queue(&cluster).unwrap(),
            read(&recording, "queue.txt")
        );
        wait_until(SOON, "accounting to be read", || {
            upgrade_accounting(&cluster)
                .is_ok_and(|text| text == read(&recording, "accounting.txt"))
        })
        .unwrap_or_else(|_| {
            assert_eq!(
                upgrade_accounting(&cluster).unwrap(),
                read(&recording, "accounting.txt")
            );
        });
        // And it goes on with it: a new job has the next id, a held one can be released and cancelled.
        let next = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
        let highest = read(&recording, "queue.txt")
            .lines()
            .filter_map(|line| line.split(['|', '_']).next()?.parse::<u32>().ok())
            .max()
            .unwrap();
        assert!(next > highest, "{next} after {highest}");
        cluster.stop().unwrap();
    }
}

/// The same for databases in PostgreSQL.
#[test]
fn postgres_databases_of_former_releases_are_read() {
    for recording in recordings() {
        eprintln!("{}", recording.display());
        let server = PrivatePostgres::start().unwrap();
        server.create_database("upgrade").unwrap();
        server
            .psql("upgrade", &read(&recording, "accounting.sql"))
            .unwrap();
        let mut cluster = upgrade_cluster(Some(&server)).write().unwrap();
        serve(&mut cluster);
        let expected = read(&recording, "accounting-postgres.txt");
        wait_until(SOON, "accounting to be read", || {
            upgrade_accounting(&cluster).is_ok_and(|text| text == expected)
        })
        .unwrap_or_else(|_| assert_eq!(upgrade_accounting(&cluster).unwrap(), expected));
        cluster.stop().unwrap();
    }
}
