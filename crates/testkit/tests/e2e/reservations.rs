//! Reservations and licences on a real cluster: who waits and why, who runs where, what is shown, what the end of one does.

use sluice_testkit::{Cluster, Finished, wait_for};

use super::{SOON, job_field, node_field, started};

fn scontrol(cluster: &Cluster, line: &str) -> Finished {
    cluster.run("scontrol", line.split_whitespace()).unwrap()
}

fn done(cluster: &Cluster, line: &str) -> String {
    scontrol(cluster, line).success().unwrap()
}

/// What squeue shows as the reason of a job.
fn reason(cluster: &Cluster, job: u32) -> String {
    cluster
        .run("squeue", ["-h", "-o", "%R", "-j", &job.to_string()])
        .and_then(|finished| finished.success())
        .unwrap()
        .trim()
        .to_owned()
}

fn wait_reason(cluster: &Cluster, job: u32, wanted: &str) {
    wait_for(SOON, wanted, || match reason(cluster, job) {
        shown if shown == wanted => Ok(()),
        shown => Err(shown),
    })
    .unwrap();
}

/// A maintenance of all nodes: a job that would run into it waits and says so, one that ends before runs.
#[test]
fn a_maintenance_keeps_long_jobs_away() {
    let cluster = started(Cluster::builder().nodes(2));
    let made = done(
        &cluster,
        "create reservation reservationname=maint starttime=now+30minutes duration=60 nodes=ALL users=root flags=maint",
    );
    assert_eq!(made, "Reservation created: maint\n");
    let long = cluster
        .sbatch(["-t", "60", "--wrap", "sleep 1000"])
        .unwrap();
    let short = cluster
        .sbatch(["-t", "10", "--wrap", "sleep 1000"])
        .unwrap();
    wait_reason(
        &cluster,
        long,
        "(ReqNodeNotAvail, Reserved for maintenance)",
    );
    cluster.wait_job_state(short, "RUNNING", SOON).unwrap();
    assert_eq!(
        job_field(&cluster, long, "Reason"),
        "ReqNodeNotAvail,_Reserved_for_maintenance"
    );
    // The start that is expected is the end of the maintenance.
    let record = done(&cluster, "-o show reservation maint");
    let end = record
        .split_whitespace()
        .find_map(|pair| pair.strip_prefix("EndTime="))
        .unwrap();
    assert_eq!(job_field(&cluster, long, "StartTime"), end);
    assert!(
        record.contains("Flags=MAINT,SPEC_NODES,ALL_NODES"),
        "{record}"
    );
    let listing = cluster
        .run("sinfo", ["-T", "-h"])
        .unwrap()
        .success()
        .unwrap();
    assert!(listing.starts_with("maint      INACTIVE  "), "{listing}");
    // Without it the job starts.
    done(&cluster, "delete reservationname=maint");
    cluster.wait_job_state(long, "RUNNING", SOON).unwrap();
    assert_eq!(
        cluster.run("sinfo", ["-T"]).unwrap().stdout,
        "No reservations in the system\n"
    );
}

/// A node for a user now: others wait for it, jobs in the reservation run on it and nowhere else; it cannot be deleted under
/// them, and when it goes, those that wait for it are held.
#[test]
fn a_user_s_reservation() {
    let cluster = started(Cluster::builder().nodes(2));
    let first = cluster.nodes()[0].clone();
    done(
        &cluster,
        &format!(
            "create reservation reservationname=course starttime=now duration=60 nodes={first} users=root"
        ),
    );
    wait_for(SOON, "the node to be reserved", || {
        match node_field(&cluster, &first, "State").as_str() {
            "IDLE+RESERVED" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .unwrap();
    assert_eq!(node_field(&cluster, &first, "ReservationName"), "course");
    let outside = cluster
        .sbatch(["-t", "10", "-w", &first, "--wrap", "sleep 1000"])
        .unwrap();
    wait_reason(
        &cluster,
        outside,
        "(ReqNodeNotAvail, May be reserved for other job)",
    );
    let inside = cluster
        .sbatch(["-t", "10", "--reservation=course", "--wrap", "sleep 1000"])
        .unwrap();
    cluster.wait_job_state(inside, "RUNNING", SOON).unwrap();
    assert_eq!(job_field(&cluster, inside, "NodeList"), first);
    assert_eq!(job_field(&cluster, inside, "Reservation"), "course");
    let both = cluster
        .run("sbatch", ["-N2", "--reservation=course", "--wrap", "true"])
        .unwrap();
    assert_eq!(
        both.stderr,
        "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
    );
    let busy = scontrol(&cluster, "delete reservationname=course");
    assert_eq!(busy.code, 1);
    assert_eq!(
        busy.stderr,
        "delete_reservation reservationname=course: Requested reservation is in use\n"
    );
    let waits = cluster
        .sbatch([
            "--exclusive",
            "-t",
            "10",
            "--reservation=course",
            "--wrap",
            "true",
        ])
        .unwrap();
    cluster
        .run("scancel", [inside.to_string()])
        .and_then(|finished| finished.success())
        .unwrap();
    // The one that waited has its turn; after it another waits.
    cluster.wait_job_end(waits, SOON).unwrap();
    let held = cluster
        .sbatch(["-H", "-t", "10", "--reservation=course", "--wrap", "true"])
        .unwrap();
    let later = cluster
        .sbatch([
            "--begin=now+1hour",
            "-t",
            "10",
            "--reservation=course",
            "--wrap",
            "true",
        ])
        .unwrap();
    done(&cluster, "delete reservationname=course");
    wait_reason(&cluster, later, "(Reservation course was deleted)");
    assert_eq!(job_field(&cluster, later, "JobState"), "RESV_DEL_HOLD");
    assert_eq!(job_field(&cluster, held, "JobState"), "PENDING");
    cluster.wait_job_state(outside, "RUNNING", SOON).unwrap();
}

/// Licences are held from start to end, also while the job is suspended.
#[test]
fn licenses_are_held_to_the_end() {
    let cluster = started(
        Cluster::builder()
            .nodes(1)
            .conf_line("Licenses=matlab:10,ansys:4"),
    );
    let use_of = |cluster: &Cluster| done(cluster, "-o show licenses matlab");
    let first = cluster
        .sbatch(["-L", "matlab:8", "-t", "10", "--wrap", "sleep 1000"])
        .unwrap();
    cluster.wait_job_state(first, "RUNNING", SOON).unwrap();
    let second = cluster
        .sbatch(["-L", "matlab:3", "-t", "10", "--wrap", "sleep 1000"])
        .unwrap();
    wait_reason(&cluster, second, "(Licenses)");
    let either = cluster
        .sbatch(["-L", "matlab:3|ansys:2", "-t", "10", "--wrap", "sleep 1000"])
        .unwrap();
    cluster.wait_job_state(either, "RUNNING", SOON).unwrap();
    assert_eq!(job_field(&cluster, either, "LicensesAlloc"), "ansys:2");
    let line = "LicenseName=matlab Total=10 Used=8 Free=2 Reserved=0 Remote=no\n";
    assert_eq!(use_of(&cluster), line);
    done(&cluster, &format!("suspend {first}"));
    assert_eq!(use_of(&cluster), line);
    done(&cluster, &format!("resume {first}"));
    cluster
        .run("scancel", [first.to_string()])
        .and_then(|finished| finished.success())
        .unwrap();
    cluster.wait_job_state(second, "RUNNING", SOON).unwrap();
    assert_eq!(
        use_of(&cluster),
        "LicenseName=matlab Total=10 Used=3 Free=7 Reserved=0 Remote=no\n"
    );
    let refused = cluster
        .run("sbatch", ["-L", "matlab:11", "--wrap", "true"])
        .unwrap();
    assert_eq!(
        refused.stderr,
        "sbatch: error: Batch job submission failed: Invalid license specification\n"
    );
}
