//! Ways to configure a cluster: files on every node, one bundle from the controller, a training-cluster document.

use sluice_testkit::{Cluster, ConfFiles, Layout};

use super::{SOON, cluster, same_lines, started};

/// Agents that know only the controller's address run jobs like any other.
#[test]
fn agents_without_a_file_fetch_their_configuration() {
    let cluster = started(
        Cluster::builder()
            .configless()
            .nodes(2)
            .conf_line("KillOnBadExit=1"),
    );
    let id = cluster
        .sbatch([
            "-N2",
            "-n2",
            "-o",
            "out",
            "--gres=gpu:1",
            "--wrap",
            "srun printenv SLURMD_NODENAME CUDA_VISIBLE_DEVICES",
        ])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let text = std::fs::read_to_string(cluster.path("work/out")).unwrap();
    assert!(same_lines(&text, &["n1", "0", "n2", "0"]), "{text}");
}

/// A training-cluster document starts a cluster: pools become nodes, script lists become prolog and epilog.
#[test]
fn a_training_cluster_document_starts_a_cluster() {
    let cluster = started(Cluster::builder().nodes(2).custom_conf(training_cluster));
    let id = cluster
        .sbatch([
            "-N2",
            "-n2",
            "-o",
            "out",
            "--wrap",
            "srun printenv SLURM_JOB_PARTITION",
        ])
        .unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "COMPLETED");
    let text = std::fs::read_to_string(cluster.path("work/out")).unwrap();
    assert_eq!(text, "train\ntrain\n");
    let trace = cluster
        .wait_output("trace", SOON, |text| text.lines().count() == 6)
        .unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    for node in ["w-0", "w-1"] {
        let of_node: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_suffix(node))
            .map(str::trim)
            .collect();
        assert_eq!(of_node, ["first", "second", "epilog"], "{trace}");
    }
}

/// The document, with the keys of a private cluster put in through its config maps.
fn training_cluster(layout: &Layout) -> ConfFiles {
    let dir = layout.dir.display();
    let Layout {
        host,
        user,
        ctld_port,
        ..
    } = layout;
    let script =
        |text: &str| format!("#!/bin/bash\\necho {text} $SLURMD_NODENAME >> {dir}/work/trace");
    let text = format!(
        r#"{{
  // A small pool without GPUs.
  "display_name": "train1",
  "nodePools": [
    {{ "id": "w", "machine_spec": {{ "machine_type": "n2-standard-4" }},
       "scaling_spec": {{ "min_node_count": 2, "max_node_count": 2 }} }},
  ],
  "orchestratorSpec": {{ "slurm_spec": {{
    "partitions": [ {{ "id": "train", "nodePoolIds": ["w"] }} ],
    "node_sets": [ {{ "node_pool_id": "w", "config": {{ "RealMemory": "4000" }} }} ],
    "config": {{
      "SlurmctldHost": "{host}(127.0.0.1)", "slurmctld_port": "{ctld_port}",
      "SlurmUser": "{user}", "SlurmdUser": "{user}", "AuthType": "auth/slurm",
      "StateSaveLocation": "{dir}/state", "SlurmdSpoolDir": "{dir}/spool/%n",
      "SlurmctldPidFile": "{dir}/run/ctld.pid", "SlurmdPidFile": "{dir}/run/agentd-%n.pid",
      "SlurmctldLogFile": "{dir}/log/ctld.log", "SlurmdLogFile": "{dir}/log/agentd-%n.log",
      "ProctrackType": "proctrack/linuxproc", "SlurmdParameters": "config_overrides",
      "DefMemPerCPU": "100", "ReturnToService": "2",
    }},
    "prolog_bash_scripts": [ "{}", "{}" ],
    "epilog_bash_scripts": [ "{}" ],
  }} }},
}}
"#,
        script("first"),
        script("second"),
        script("epilog"),
    );
    ConfFiles {
        main: "cluster.jsonc".to_owned(),
        files: vec![("cluster.jsonc".to_owned(), text)],
        nodes: vec!["w-0".to_owned(), "w-1".to_owned()],
    }
}

/// A faulty file stops `ctld` with every fault named, each with its line.
#[test]
fn a_faulty_file_is_refused_with_all_its_faults() {
    let mut cluster = Cluster::builder()
        .conf_line("NoSuchKey=1")
        .conf_line("KillWait=soon")
        .write()
        .unwrap();
    cluster.start_ctld().unwrap();
    let out = sluice_testkit::wait_for(SOON, "ctld to give up", || {
        let host = cluster.layout().host.clone();
        if cluster.is_running(&host) {
            Err("it runs".to_owned())
        } else {
            Ok(std::fs::read_to_string(cluster.path("log/ctld.out")).unwrap())
        }
    })
    .unwrap();
    assert!(
        out.contains("NoSuchKey") && out.contains("KillWait") && out.contains("slurm.conf"),
        "{out}"
    );
}

/// The everyday questions about a cluster are answered in Slurm's words.
#[test]
fn the_commands_describe_the_cluster() {
    let cluster = cluster();
    let say = |name: &str, args: &[&str]| {
        cluster
            .run(name, args)
            .and_then(|done| done.success())
            .unwrap()
    };
    let host = &cluster.layout().host;
    assert_eq!(
        say("scontrol", &["ping"]),
        format!("Slurmctld(primary) at {host} is UP\n")
    );
    assert_eq!(
        say("sinfo", &[]),
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
         main*        up 1-00:00:00      4   idle n[1-4]\n"
    );
    assert_eq!(
        say("scontrol", &["show", "hostnames", "n[1-3],x7"]),
        "n1\nn2\nn3\nx7\n"
    );
    assert_eq!(
        say("squeue", &[]).trim_end(),
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    );
    let config = say("scontrol", &["show", "config"]);
    assert!(
        config.contains("KillWait                = 5 sec\n"),
        "{config}"
    );
    for name in [
        "sbatch", "srun", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr",
    ] {
        let version = say(name, &["--version"]);
        assert!(
            version.starts_with("slurm 25.11.0\nsluice "),
            "{name}: {version}"
        );
    }
}

/// Nobody but the owner, root or SlurmUser ends a job.
#[test]
fn another_user_may_not_cancel_a_job() {
    use std::os::unix::process::CommandExt;
    if !nix::unistd::Uid::effective().is_root() {
        // Only root can become another user; the check itself has unit tests that run for everybody.
        return;
    }
    let cluster = cluster();
    let id = cluster.sbatch(["-H", "--wrap", "true"]).unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let mut command = cluster.command("scancel");
    command
        .arg(id.to_string())
        .uid(nobody.uid.as_raw())
        .gid(nobody.gid.as_raw());
    let done = sluice_testkit::run_with_deadline(command, SOON).unwrap();
    assert_ne!(done.code, 0);
    assert_eq!(
        done.stderr,
        format!("scancel: error: Kill job error on job id {id}: Access/permission denied\n")
    );
    assert_eq!(cluster.job_state(id).unwrap(), "PENDING");
}
