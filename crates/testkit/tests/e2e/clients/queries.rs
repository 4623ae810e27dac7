//! What clients read out of squeue, sacct, scontrol and sinfo.
//!
//! Waits only where accounting or a node's state follows a little later than a command's answer.

use sluice_testkit::{run_with_deadline, wait_for};

use super::{SOON, answer, cluster, output, parsable};

/// What the pollers of squeue read: one id and several, unknown ids, any text between fields, widths, glued options.
#[test]
fn what_squeue_answers() {
    let cluster = cluster();
    let held = parsable(&cluster, &["-H", "-J", "held", "--wrap", "true"]);
    let array = parsable(
        &cluster,
        &["-H", "-J", "many", "--array=1-3%2", "--wrap", "true"],
    );
    let running = parsable(&cluster, &["-J", "runs", "-c2", "--wrap", "sleep 300"]);
    cluster.wait_job_state(running, "RUNNING", SOON).unwrap();
    let both = format!("{running},{held}");
    // parsl and clusterfutures.
    assert_eq!(
        answer(
            &cluster,
            &[
                "squeue",
                "--noheader",
                "--format=%i %T",
                "--jobs",
                &both,
                "--states=all"
            ]
        ),
        format!("{held} PENDING\n{running} RUNNING\n")
    );
    // aiida gives one id twice on purpose: unknown ids are then no error, and one alone is.
    let fields = "%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%j";
    let user = cluster.layout().user.clone();
    assert_eq!(
        answer(
            &cluster,
            &[
                "squeue",
                "--noheader",
                "-o",
                fields,
                &format!("--jobs={running},{running}")
            ]
        ),
        format!("{running}^^^R^^^None^^^n1^^^{user}^^^1^^^2^^^n1^^^main^^^1-00:00:00^^^runs\n")
    );
    assert_eq!(
        answer(
            &cluster,
            &["squeue", "--noheader", "-o", "%i", "--jobs=999,999"]
        ),
        ""
    );
    let unknown = output(&cluster, 1, &["squeue", "--noheader", "--jobs=999"]);
    assert_eq!(
        unknown.stderr,
        "slurm_load_jobs error: Invalid job id specified\n"
    );
    // psij: three columns without blanks in them, compact states.
    let text = answer(
        &cluster,
        &[
            "squeue",
            "-O",
            "JobArrayID,StateCompact,Reason",
            "-t",
            "all",
            "--me",
        ],
    );
    assert_eq!(
        text.lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["JOBID", "ST", "REASON"]
    );
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let (held_text, running_text) = (held.to_string(), running.to_string());
    let array_text = format!("{array}_[1-3%2]");
    assert!(
        rows.contains(&vec![held_text.as_str(), "PD", "JobHeldUser"]),
        "{text}"
    );
    assert!(
        rows.contains(&vec![array_text.as_str(), "PD", "JobHeldUser"]),
        "{text}"
    );
    assert!(
        rows.contains(&vec![running_text.as_str(), "R", "None"]),
        "{text}"
    );
    assert_eq!(
        answer(
            &cluster,
            &["squeue", "--me", "-o", "%i", "-h", "-r", "-n", "many"]
        ),
        format!("{array}_1\n{array}_2\n{array}_3\n")
    );
    // A reason has no blanks, not even that of a signal.
    let shot = parsable(&cluster, &["--wrap", "kill -USR1 $$"]);
    cluster.wait_job_end(shot, SOON).unwrap();
    let shot_text = shot.to_string();
    assert_eq!(
        answer(
            &cluster,
            &[
                "squeue", "-h", "-t", "all", "-j", &shot_text, "-o", "%i %t %r"
            ]
        ),
        format!("{shot} F RaisedSignal:10(User_defined_signal_1)\n")
    );
    // reframe.
    assert_eq!(
        answer(
            &cluster,
            &["squeue", "-h", "-j", &running_text, "-o", "%i|%T|%N|%r"]
        ),
        format!("{running}|RUNNING|n1|None\n")
    );
    // batchspawner, toil, pysqa, fireworks (quotes inside the format), signac-flow (columns of 2 and 100 characters).
    for (format, expected) in [
        ("%T %B", "RUNNING n1".to_owned()),
        ("%A|%u|%t|%.15j|%Z", {
            let folder = cluster.path("work");
            format!("{running}|{user}|R|           runs|{}", folder.display())
        }),
        ("\"%u\"", format!("\"{user}\"")),
        ("%2t%100j", format!("R {:<100}", "runs")),
    ] {
        assert_eq!(
            answer(
                &cluster,
                &["squeue", "-h", "-j", &running_text, "-o", format]
            ),
            format!("{expected}\n"),
            "{format}"
        );
    }
    // simple-slurm reads CSV with a header.
    assert_eq!(
        answer(
            &cluster,
            &[
                "squeue",
                "--me",
                "-n",
                "runs",
                "-o",
                "\"%i\",\"%j\",\"%t\",\"%D\",\"%C\",\"%R\""
            ]
        ),
        format!(
            "\"JOBID\",\"NAME\",\"ST\",\"NODES\",\"CPUS\",\"NODELIST(REASON)\"\n\"{running}\",\"runs\",\"R\",\"1\",\"2\",\"n1\"\n"
        )
    );
    // turm and Open OnDemand: text after the colon that is no number separates fields.
    assert_eq!(
        answer(
            &cluster,
            &[
                "squeue",
                "-h",
                "-n",
                "runs",
                "--Format",
                "jobid:###turm###,name:\u{1f},state:9"
            ]
        ),
        format!("{running}###turm###runs\u{1f}RUNNING  \n")
    );
    // The Prometheus exporter glues the value to -o, with a blank; batchtools asks with an empty user.
    assert_eq!(
        answer(
            &cluster,
            &["squeue", "-a", "-r", "-h", "-n", "runs", "-o %A|%u|%T|%C"]
        ),
        format!(" {running}|{user}|RUNNING|2\n")
    );
    let found = answer(
        &cluster,
        &[
            "squeue",
            "--user=",
            "--states=R,S,CG,RS,SI,SO,ST",
            "--noheader",
            "--format=%i",
            "-r",
        ],
    );
    assert!(
        found.is_empty() || found == format!("{running}\n"),
        "{found}"
    );
}

/// What the readers of sacct take apart: repeated `-j`, ids of pending arrays, columns, delimiters, times as numbers.
#[test]
fn what_sacct_answers() {
    let cluster = cluster();
    let array = parsable(&cluster, &["-H", "--array=1-3%2", "--wrap", "true"]);
    let failed = parsable(
        &cluster,
        &["-J", "wrong", "--comment=why", "--wrap", "exit 3"],
    );
    cluster.wait_job_end(failed, SOON).unwrap();
    let (array_text, failed_text) = (array.to_string(), failed.to_string());
    let rows = |words: &[&str], expected: &str| {
        wait_for(
            SOON,
            &format!("sacct {words:?} to say {expected:?}"),
            || {
                let words: Vec<&str> = ["sacct"].iter().chain(words).copied().collect();
                let text = answer(&cluster, &words);
                if text == expected { Ok(()) } else { Err(text) }
            },
        )
        .unwrap();
    };
    // submitit.
    rows(
        &[
            "-o",
            "JobID,State,NodeList",
            "--parsable2",
            "-j",
            &array_text,
            "-j",
            &failed_text,
        ],
        &format!(
            "JobID|State|NodeList\n{array}_[1-3%2]|PENDING|None assigned\n{failed}|FAILED|n1\n{failed}.batch|FAILED|n1\n"
        ),
    );
    // One pending task of the array means its record.
    rows(
        &["-nXPo", "JobID", "-j", &format!("{array}_2")],
        &format!("{array}_[1-3%2]\n"),
    );
    // parsl: its probe, and two columns by blanks with names in lower case and a width.
    output(&cluster, 0, &["sacct", "-X"]);
    rows(
        &[
            "-X",
            "--noheader",
            "--format=jobid,state%20",
            "--job",
            &failed_text,
        ],
        &format!("{failed:<12} {:>20} \n", "FAILED"),
    );
    // snakemake: all clusters, a window, a name; left-justified width.
    rows(
        &[
            "-X",
            "--parsable2",
            "--clusters",
            "all",
            "--noheader",
            "--format=JobIdRaw,State",
            "--starttime",
            "2026-01-01T00:00",
            "--endtime",
            "now",
            "--name",
            "wrong",
        ],
        &format!("{failed}|FAILED\n"),
    );
    rows(
        &["-j", &failed_text, "-n", "-X", "-o", "nodelist%-8"],
        "n1       \n",
    );
    // ert.
    rows(
        &["-X", "-n", "-o", "State,ExitCode", "-P", "-j", &failed_text],
        "FAILED|3:0\n",
    );
    // reportseff: a delimiter of three characters, at the line end as well.
    rows(
        &[
            "--parsable",
            "-n",
            "-X",
            "--delimiter=^|^",
            "--format=AdminComment,JobID,State",
            &format!("--jobs={failed}"),
        ],
        &format!("^|^{failed}^|^FAILED^|^\n"),
    );
    // reframe sets SLURM_TIME_FORMAT=%s and gives several ids.
    let mut command = cluster.command("sacct");
    command
        .env("SLURM_TIME_FORMAT", "%s")
        .args([
            "-S",
            "2026-01-01",
            "-X",
            "-P",
            "-n",
            "-o",
            "jobid,end",
            "-j",
        ])
        .arg(format!("{failed},999"));
    let text = run_with_deadline(command, SOON).unwrap().success().unwrap();
    let end = text.trim_end().strip_prefix(&format!("{failed}|")).unwrap();
    assert!(end.parse::<u64>().unwrap() > 1_700_000_000, "{text}");
    // aiida and reportseff: every name of --helpformat works.
    let names = answer(&cluster, &["sacct", "--helpformat"]);
    let names: Vec<&str> = names.split_whitespace().collect();
    assert!(names.len() > 80, "{names:?}");
    let all = format!("--format={}", names.join(","));
    let text = answer(
        &cluster,
        &[
            "sacct",
            &all,
            "--parsable",
            "-n",
            "-X",
            &format!("--jobs={failed}"),
        ],
    );
    assert_eq!(text.trim_end().matches('|').count(), names.len(), "{text}");
    // snakemake runs this without a shell; it must fail and not hang or crash.
    let odd = output(
        &cluster,
        1,
        &[
            "sacct",
            "-nu",
            "root",
            "-o",
            "Account%256",
            "|",
            "tail",
            "-1",
        ],
    );
    assert!(
        odd.stderr.starts_with("sacct: invalid option -- '1'\n"),
        "{odd:?}"
    );
}

/// scontrol and sinfo: names of hosts, one record a line, what is read out of each, versions.
#[test]
fn what_scontrol_and_sinfo_answer() {
    let cluster = cluster();
    // The launchers of ray, torchrun and accelerate; reframe says it in the singular.
    for word in ["hostnames", "hostname"] {
        assert_eq!(
            answer(&cluster, &["scontrol", "show", word, "n[1-2,4]"]),
            "n1\nn2\nn4\n"
        );
    }
    // reframe: every node in one line, with its partitions.
    let text = answer(
        &cluster,
        &["scontrol", "-a", "show", "-o", "nodes", "n[1-2]"],
    );
    assert_eq!(text.trim_end().lines().count(), 2, "{text}");
    for line in text.trim_end().lines() {
        for key in [
            "NodeName=n",
            " State=IDLE",
            " Partitions=main ",
            " ActiveFeatures=",
        ] {
            assert!(line.contains(key), "{key}: {line}");
        }
    }
    let text = answer(&cluster, &["scontrol", "-a", "show", "-o", "partitions"]);
    assert!(text.starts_with("PartitionName=main "), "{text}");
    // snakemake and reportseff.
    let text = answer(&cluster, &["scontrol", "show", "config"]);
    for line in [
        "MinJobAge               = 300 sec",
        "MaxArraySize            = 1001",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    // ert, toil, gridtk: each record has these words; qtoolkit: every word of the one-line form has an equals sign.
    let id = parsable(&cluster, &["--wrap", "exit 9"]);
    cluster.wait_job_end(id, SOON).unwrap();
    let text = answer(&cluster, &["scontrol", "show", "job", &id.to_string()]);
    for word in [
        format!("JobId={id}"),
        "JobState=FAILED".to_owned(),
        "ExitCode=9:0".to_owned(),
    ] {
        assert!(
            text.split_whitespace().any(|found| found == word),
            "{word}: {text}"
        );
    }
    let unknown = output(&cluster, 1, &["scontrol", "show", "job", "999"]);
    assert_eq!(
        unknown.stderr,
        "slurm_load_jobs error: Invalid job id specified\n"
    );
    // Toil, torchx, slurm-usage, the exporters, Open OnDemand.
    for (words, expected) in [
        (&["sinfo", "-o", "%P"][..], "PARTITION\nmain*\n"),
        (
            &["sinfo", "-a", "-o", "%P %G %l %p %c %m"],
            "PARTITION GRES TIMELIMIT PRIO_TIER CPUS MEMORY\nmain* gpu:fake:4 1-00:00:00 1 4 4000\n",
        ),
        (
            &["sinfo", "--format", "%P,%m", "--noconvert"],
            "PARTITION,MEMORY\nmain*,4000\n",
        ),
        (
            &["sinfo", "-h", "-N", "--format=%N,%c"],
            "n1,4\nn2,4\nn3,4\nn4,4\n",
        ),
        (&["sinfo", "-h", "-o%R,%C"], "main,0/16/0/16\n"),
        (&["sinfo", "-h", "-o %C"], " 0/16/0/16\n"),
        (&["sinfo", "-aho", "%F/%C"], "0/4/0/4/0/16/0/16\n"),
        (
            &["sinfo", "-ho", "\u{1e}%c\u{1f}%P"],
            "\u{1e}4\u{1f}main*\n",
        ),
    ] {
        wait_for(SOON, &format!("{words:?}"), || {
            let text = answer(&cluster, words);
            if text == expected { Ok(()) } else { Err(text) }
        })
        .unwrap();
    }
    for words in [
        &["srun", "--version"],
        &["sinfo", "-V"],
        &["sbatch", "--version"],
    ] {
        assert!(answer(&cluster, &words[..]).starts_with("slurm 25.11"));
    }
    let tested = output(&cluster, 0, &["srun", "-n2", "--test-only", "true"]);
    assert!(
        tested.stderr.trim_end().ends_with(" in partition main"),
        "{tested:?}"
    );
}
