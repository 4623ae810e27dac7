//! Prolog and Epilog: run on every node of the job, with Slurm's environment; a failing one drains its node.

use std::time::Duration;

use sluice_testkit::{Cluster, wait_for};

use super::{SOON, job_field, node_field, started};

/// Both run once on each node, before and after the job, and know whose job it is.
#[test]
fn prolog_and_epilog_run_around_a_job_on_each_node() {
    let line = |moment: &str| {
        format!(
            "#!/bin/sh\necho \"{moment} $SLURM_JOB_ID $SLURM_JOB_USER $SLURM_JOB_UID $SLURM_JOB_NODELIST $SLURM_SCRIPT_CONTEXT ${{HOME:-nohome}}\" >> \"${{0%/*}}/../work/trace-$SLURMD_NODENAME\"\n"
        )
    };
    let cluster = started(
        Cluster::builder()
            .nodes(2)
            .prolog(&line("P"))
            .epilog(&line("E")),
    );
    let id = cluster
        .sbatch(["-N2", "--wrap", "echo J >> trace-n1"])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let user = &cluster.layout().user;
    let uid = nix::unistd::Uid::effective();
    let prolog = format!("P {id} {user} {uid} n[1-2] prolog_slurmd nohome\n");
    let epilog = format!("E {id} {user} {uid} n[1-2] epilog_slurmd nohome\n");
    cluster
        .wait_output("trace-n1", SOON, |text| {
            text == format!("{prolog}J\n{epilog}")
        })
        .unwrap();
    cluster
        .wait_output("trace-n2", SOON, |text| text == format!("{prolog}{epilog}"))
        .unwrap();
}

/// A failing prolog drains the node, with the script's last line in the reason, and holds the job, which ran nowhere.
#[test]
fn a_failing_prolog_drains_the_node_and_holds_the_job() {
    let cluster = started(Cluster::builder().nodes(2).prolog(
        "#!/bin/sh\nif [ \"$SLURMD_NODENAME\" = n1 ]; then echo checking; echo no scratch disk; exit 1; fi\n",
    ));
    let id = cluster
        .sbatch(["-w", "n1", "-o", "never.out", "--wrap", "echo ran"])
        .unwrap();
    wait_for(SOON, "node n1 to be drained", || {
        let state = node_field(&cluster, "n1", "State");
        if state.contains("DRAIN") {
            Ok(())
        } else {
            Err(state)
        }
    })
    .unwrap();
    let reasons = cluster
        .run("sinfo", ["-R", "-h", "-o", "%E|%N"])
        .and_then(|done| done.success())
        .unwrap();
    assert!(reasons.contains("no scratch disk"), "{reasons}");
    assert!(reasons.trim_end().ends_with("|n1"), "{reasons}");
    cluster.wait_job_state(id, "PENDING", SOON).unwrap();
    let reason = job_field(&cluster, id, "Reason");
    assert!(
        reason.to_lowercase().contains("held"),
        "a job whose prolog failed is requeued and held, but its reason is {reason}"
    );
    assert!(!cluster.path("work/never.out").exists());
    // The other node still works.
    let other = cluster.sbatch(["--wrap", "true"]).unwrap();
    assert_eq!(cluster.wait_job_end(other, SOON).unwrap(), "COMPLETED");
}

/// A failing epilog drains the node; the job has ended as it did.
#[test]
fn a_failing_epilog_drains_the_node_and_leaves_the_job_s_end() {
    let cluster = started(
        Cluster::builder()
            .nodes(1)
            .epilog("#!/bin/sh\necho cannot clean up; exit 4\n"),
    );
    let id = cluster.sbatch(["--wrap", "true"]).unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    wait_for(SOON, "node n1 to be drained", || {
        let state = node_field(&cluster, "n1", "State");
        if state.contains("DRAIN") {
            Ok(())
        } else {
            Err(state)
        }
    })
    .unwrap();
}

/// A drained node comes back with `scontrol update state=resume` and takes jobs again.
#[test]
fn an_operator_drains_and_resumes_a_node() {
    let cluster = started(Cluster::builder().nodes(1));
    let update = |setting: &[&str]| {
        let mut args = vec!["update", "nodename=n1"];
        args.extend_from_slice(setting);
        cluster
            .run("scontrol", args)
            .and_then(|done| done.success())
            .unwrap();
    };
    update(&["state=drain", "reason=bad fan"]);
    let reasons = cluster
        .run("sinfo", ["-R", "-h", "-o", "%E %N"])
        .and_then(|done| done.success())
        .unwrap();
    assert_eq!(reasons.trim(), "bad fan n1");
    let id = cluster.sbatch(["--wrap", "true"]).unwrap();
    wait_for(SOON, "the job to wait for the node", || {
        match job_field(&cluster, id, "Reason").as_str() {
            "None" | "Priority" => Err("no reason yet".to_owned()),
            _ => Ok(()),
        }
    })
    .unwrap();
    update(&["state=resume"]);
    assert_eq!(
        cluster.wait_job_end(id, Duration::from_secs(30)).unwrap(),
        "COMPLETED"
    );
}
