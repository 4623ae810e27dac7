//! `--json` and `--yaml`: documents as tools read them, with the filters of the text forms.

use serde_json::{Value, json};
use sluice_testkit::Cluster;

use super::{SOON, cluster};

fn text(cluster: &Cluster, command: &str, args: &[&str]) -> String {
    cluster
        .run(command, args)
        .and_then(|done| done.success())
        .unwrap()
}

fn read(cluster: &Cluster, command: &str, args: &[&str]) -> Value {
    let text = text(cluster, command, args);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// What exporters and workflow tools look for: states as lists, numbers with their marks, who asked.
#[test]
fn listings_of_the_controller_are_documents() {
    let cluster = cluster();
    let held = cluster
        .sbatch(["-H", "-J", "held", "--wrap", "true"])
        .unwrap();
    let runs = cluster
        .sbatch(["-J", "runs", "-n2", "-t", "30", "--wrap", "srun sleep 1000"])
        .unwrap();
    cluster.wait_job_state(runs, "RUNNING", SOON).unwrap();

    let document = read(&cluster, "squeue", &["--json"]);
    let jobs = document["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2, "{document}");
    assert_eq!(
        document["meta"]["plugin"]["data_parser"],
        "data_parser/v0.0.46"
    );
    assert_eq!(document["meta"]["command"], json!(["squeue", "--json"]));
    assert_eq!(document["errors"], json!([]));

    // The same filters as for text.
    let document = read(&cluster, "squeue", &["--json", "-t", "RUNNING"]);
    let job = &document["jobs"][0];
    assert_eq!(document["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&job["job_id"], &job["name"]),
        (&json!(runs), &json!("runs"))
    );
    assert_eq!(job["job_state"], json!(["RUNNING"]));
    assert_eq!(
        job["time_limit"],
        json!({"set": true, "infinite": false, "number": 30})
    );
    let resources = &job["job_resources"];
    assert_eq!(resources["cpus"], job["cpus"]["number"]);
    let cores = &resources["nodes"]["allocation"][0]["sockets"][0]["cores"];
    assert!(cores.to_string().contains("\"ALLOCATED\""), "{resources}");

    let document = read(
        &cluster,
        "scontrol",
        &["show", "job", &held.to_string(), "--json"],
    );
    let job = &document["jobs"][0];
    assert_eq!(
        (&job["hold"], &job["state_reason"]),
        (&json!(true), &json!("JobHeldUser"))
    );
    assert_eq!(job["job_resources"], Value::Null);

    let node = cluster.nodes()[0].clone();
    let document = read(&cluster, "scontrol", &["show", "node", &node, "--json"]);
    assert_eq!(document["nodes"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["nodes"][0]["name"], json!(node));
    assert_eq!(document["nodes"][0]["state"][0], "MIXED");

    let document = read(&cluster, "sinfo", &["--json"]);
    let group = &document["sinfo"][0];
    assert!(group["cpus"]["allocated"].as_u64().unwrap() >= 2, "{group}");
    assert_eq!(group["partition"]["partition"]["state"], json!(["UP"]));

    let document = read(&cluster, "scontrol", &["show", "partition", "--json"]);
    assert_eq!(document["partitions"][0]["flags"], json!(["DEFAULT"]));

    let batch = format!("{runs}.batch");
    let document = read(&cluster, "squeue", &["-s", "--json"]);
    let ids: Vec<&str> = document["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|step| step["id"].as_str())
        .collect();
    assert!(ids.contains(&batch.as_str()), "{ids:?}");

    let document = read(&cluster, "scontrol", &["ping", "--json"]);
    assert_eq!(document["pings"][0]["responding"], true);
    let document = read(&cluster, "scontrol", &["show", "reservation", "--json"]);
    assert_eq!(document["reservations"], json!([]));
}

/// The forms that can be asked for, and those that cannot.
#[test]
fn forms_of_documents() {
    let cluster = cluster();
    let yaml = text(&cluster, "sinfo", &["--yaml"]);
    assert!(
        yaml.starts_with("%YAML 1.1\n--- !!map\n!!str sinfo: !!seq\n- !!map\n"),
        "{yaml}"
    );
    assert!(
        yaml.ends_with("!!str warnings: !!seq []\n...\n\n"),
        "{yaml}"
    );

    let pretty = text(&cluster, "squeue", &["--json=v0.0.42"]);
    assert!(pretty.starts_with("{\n  \"jobs\": [\n  ],\n"), "{pretty}");
    assert!(
        pretty.contains("\"data_parser\": \"data_parser\\/v0.0.42\""),
        "{pretty}"
    );
    let mut compact = cluster.command("squeue");
    let output = compact
        .arg("--json")
        .env("SLURM_JSON", "compact")
        .output()
        .unwrap();
    let compact = String::from_utf8(output.stdout).unwrap();
    assert!(
        compact.starts_with("{\"jobs\":[],") && compact.lines().count() == 1,
        "{compact}"
    );

    assert!(text(&cluster, "squeue", &["--json=list"]).contains("data_parser/v0.0.46\n"));
    let refused = cluster.run("squeue", ["--json=v0.0.1"]).unwrap();
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let refused = cluster
        .run("scontrol", ["show", "hostnames", "n[1-2]", "--json"])
        .unwrap();
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
}

/// Accounting: how a job ended, as scripts read it, and what administrators defined.
#[test]
fn accounting_records_are_documents() {
    let cluster = cluster();
    let id = cluster.sbatch(["-J", "three", "--wrap", "exit 3"]).unwrap();
    assert_eq!(cluster.wait_job_end(id, SOON).unwrap(), "FAILED");
    cluster
        .wait_accounted(&id.to_string(), "FAILED", SOON)
        .unwrap();
    let document = read(&cluster, "sacct", &["--json", "-j", &id.to_string()]);
    let job = &document["jobs"][0];
    assert_eq!(job["state"]["current"], json!(["FAILED"]));
    assert_eq!(job["exit_code"]["status"], json!(["ERROR"]));
    assert_eq!(job["exit_code"]["return_code"]["number"], 3);
    assert_eq!(job["name"], "three");
    assert_eq!(job["steps"][0]["step"]["id"], json!(format!("{id}.batch")));
    assert_eq!(job["tres"]["allocated"][0]["type"], "cpu");

    let document = read(&cluster, "sacctmgr", &["show", "qos", "--json"]);
    assert_eq!(document["qos"][0]["name"], "normal");
    let document = read(&cluster, "sacctmgr", &["show", "assoc", "--json"]);
    assert_eq!(document["associations"][0]["lineage"], "/");
    for (entity, list) in [
        ("account", "accounts"),
        ("user", "users"),
        ("cluster", "clusters"),
    ] {
        let document = read(&cluster, "sacctmgr", &["show", entity, "--json"]);
        assert!(
            document[list].as_array().is_some_and(|all| !all.is_empty()),
            "{document}"
        );
    }
}
