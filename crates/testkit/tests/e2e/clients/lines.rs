//! Command lines of the tools, letter by letter, with what their parsers need back: one row each, grouped by tool.
//!
//! In an expected text `*` stands for anything inside a line and `…` for anything at all; `{name}` is replaced by an id or a name
//! of the scene. A row about a text that follows late (accounting, loads) is tried until it is there. What is longer than a row
//! has a test of its own beside this file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use sluice_testkit::{Cluster, run_with_deadline, wait_for};

use super::{SOON, parsable};
use crate::started;

/// One command line and its answer.
struct Row {
    tool: &'static str,
    line: &'static str,
    code: i32,
    out: &'static str,
    err: &'static str,
}

const fn row(tool: &'static str, line: &'static str, out: &'static str) -> Row {
    Row {
        tool,
        line,
        code: 0,
        out,
        err: "",
    }
}

const fn fails(tool: &'static str, line: &'static str, code: i32, err: &'static str) -> Row {
    Row {
        tool,
        line,
        code,
        out: "",
        err,
    }
}

/// The rows; a line is for a shell.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("submitit", "sacct -o JobID,State,NodeList --parsable2 -j {failed} -j {done}", "JobID|State|NodeList\n{done}|COMPLETED|n1\n{done}.batch|COMPLETED|n1\n{failed}|FAILED|n1\n{failed}.batch|FAILED|n1\n"),
    row("submitit", "sacct -X -o JobID,State,NodeList --parsable2 -j {array}", "JobID|State|NodeList\n{array}_[0-2%2]|PENDING|None assigned\n"),
    row("ray", "scontrol show hostnames 'n[1-2]'", "n1\nn2\n"),
    row("mpich", "srun --mpi=list 2>&1", "MPI plugin types are...\n…none\n…"),
    row("snakemake", "squeue --format='%i|%T' --states=all --noheader --name wrong", "{failed}|FAILED\n"),
    row("snakemake", "squeue --format='%i|%T' --states=all --noheader --name nothing", ""),
    row("snakemake", "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime 2026-01-01T00:00 --endtime now --name wrong", "{failed}|FAILED\n"),
    row("snakemake", "sacct -j {failed}.0 --format=Reason --noheader", ""),
    row("snakemake", "sacct --name=wrong --parsable2 --noheader --format=JobID,JobName,Comment,Elapsed,TotalCPU,NNodes,NCPUS,MaxRSS,ReqMem", "{failed}|wrong|a comment|00:00:*|00:*|1|*||*\n{failed}.batch|batch||00:00:*|00:*|1|*|*|\n"),
    row("snakemake", "sacct -j {done} -n -X -o nodelist%-256", "n1                                                                                                                                                                                                                                                               \n"),
    row("snakemake", "sinfo -o %P", "PARTITION\nmain*\n"),
    row("snakemake", "scontrol show partition", "PartitionName=main\n…MaxTime=*…"),
    row("snakemake", "scancel {spare} {spare2} --clusters=all", ""),
    row("snakemake", "sshare -U --format Account%256 --noheader", "…"),
    row("snakemake", "sacctmgr -n -s list user {user} format=account%256", "…"),
    row("parsl", "sacct -X --noheader --format=jobid,state%20 --job '{failed},{done}'", "{done.12} *COMPLETED \n{failed.12} *FAILED \n"),
    row("parsl", "squeue --noheader --format='%i %t' --job '{held},{run}'", "{held} PD\n{run} R\n"),
    row("ert", "squeue -h '--format=%i %T' --user={user} --name=runs", "{run} RUNNING\n"),
    row("ert", "sacct -X -n -o State,ExitCode -P -j {failed}", "FAILED|3:0\n"),
    row("ert", "scontrol show job {failed}", "…   JobState=FAILED *…ExitCode=3:0…"),
    row("fireworks", "squeue -o '\"%u\"' -u {user} -h -p main -t R", "\"{user}\"\n"),
    row("nipype", "squeue -j {held}", "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n*{held}      main     held *PD       0:00      1 (JobHeldUser)\n"),
    fails("nipype", "squeue -j 99999", 1, "slurm_load_jobs error: Invalid job id specified\n"),
    row("psij", "squeue --me -o %i -h -r -t all -n many", "{array}_0\n{array}_1\n{array}_2\n"),
    row("psij", "scancel -Q 99999", ""),
    row("reframe", "sacct -X -S 2026-01-01 -P -j {done},{failed} -o jobid,state,exitcode,end,nodelist", "JobID|State|ExitCode|End|NodeList\n{done}|COMPLETED|0:0|*-*-*T*|n1\n{failed}|FAILED|3:0|*-*-*T*|n1\n"),
    row("reframe", "squeue -h -j {held} -o '%i|%r'", "{held}|JobHeldUser\n"),
    row("reframe", "scontrol show hostname n[1-2]", "n1\nn2\n"),
    row("reframe", "scontrol -a show -o reservations nosuch || echo $?", "Reservation nosuch not found\n1\n"),
    row("aiida", "SLURM_TIME_FORMAT=standard squeue --noheader -o '%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%M^^^%S^^^%j^^^%V' --jobs={run},{run}", "{run}^^^R^^^None^^^n1^^^{user}^^^1^^^2^^^n1^^^main^^^1-00:00:00^^^0:*^^^20*-*-*T*:*:*^^^runs^^^20*-*-*T*:*:*\n"),
    row("aiida", "SLURM_TIME_FORMAT=standard squeue --noheader -o '%i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%M^^^%S^^^%j^^^%V' --jobs={held},{held}", "{held}^^^PD^^^JobHeldUser^^^n/a^^^{user}^^^1^^^1^^^(JobHeldUser)^^^main^^^1-00:00:00^^^0:00^^^N/A^^^held^^^20*-*-*T*:*:*\n"),
    row("qtoolkit", "SLUICE_HIDE_SUBMIT_LINE=1 SLURM_TIME_FORMAT=standard scontrol show job -o {held}", "JobId={held} JobName=held UserId=*\n"),
    row("qtoolkit", "squeue --noheader -o '%i<><> %t<><> %m' -u {user} -t R", "{run}<><> R<><> *\n"),
    row("executorlib", "squeue --format '%A|%u|%t|%.15j|%Z' --noheader -j {run}", "{run}|{user}|R|           runs|{work}\n"),
    row("toil", "sinfo -a -o '%P %G %l %p %c %m'", "PARTITION GRES TIMELIMIT PRIO_TIER CPUS MEMORY\nmain* *1-00:00:00 1 4 4000\n"),
    row("toil", "squeue -h --format '%i %t %M' -j {run},{held}", "{held} PD 0:00\n{run} R *:*\n"),
    row("toil", "sacct -n -j {done},{failed} --format JobIDRaw,State,ExitCode -P -S 2026-01-01T00:00:00 -E now", "{done}|COMPLETED|0:0\n{done}.batch|COMPLETED|0:0\n{failed}|FAILED|3:0\n{failed}.batch|FAILED|3:0\n"),
    row("toil", "scontrol show job", "JobId=*…JobState=*…ExitCode=*:*…"),
    fails("toil", "scontrol show job 99999", 1, "slurm_load_jobs error: Invalid job id specified\n"),
    row("cylc", "squeue -h -j {held},{run}", "*{held} *\n*{run} *\n"),
    fails("cylc", "squeue -h -j 99999", 1, "slurm_load_jobs error: Invalid job id specified\n"),
    row("maestrowf", "squeue -u {user} -t all --format='%.18i %.8j %.8u %.2t'", "             JOBID     NAME     USER ST\n…*{failed}    wrong * F\n…"),
    row("maestrowf", "sacct -X -u {user} --jobs={failed} --format=jobid,jobname,state,exitcode", "JobID *JobName *State ExitCode \n------------ ---------- ---------- -------- \n{failed} *wrong     FAILED      3:0 \n"),
    row("signac-flow", "squeue -u {user} -h --format=%2t%100j -n runs", "R runs                                                                                                \n"),
    row("torchx", "sacct --parsable2 -j {failed}", "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n{failed}|wrong|main|*|*|FAILED|3:0\n{failed}.batch|batch||*|*|FAILED|3:0\n"),
    row("torchx", "sinfo --format %P,%m --noconvert", "PARTITION,MEMORY\nmain*,4000\n"),
    row("torchx", "sacct --json -S1970-01-01-00:00:01 -j {failed}", "{\n…\"jobs\": [\n…"),
    row("gridtk", "sacct -j {failed},{done} --json", "…\"current\": [\n*\"COMPLETED\"\n…\"current\": [\n*\"FAILED\"\n…"),
    row("gridtk", "squeue -j {run} --noheader -o '%i|%T|%R|%N'", "{run}|RUNNING|n1|n1\n"),
    row("reportseff", "sacct --parsable -n -X '--delimiter=^|^' --format=AdminComment,JobID,State --jobs={failed}", "^|^{failed}^|^FAILED^|^\n"),
    fails("reportseff", "sacct --format=NoSuchColumn -j {failed}", 1, "sacct: error: Invalid field requested: \"NoSuchColumn\"\n"),
    row("slurm2sql", "sacct -X -o JobID,User,SubmitLine,TRESUsageInTot,ConsumedEnergyRaw -P -S 2026-01-01 -a -j {failed}", "JobID|User|SubmitLine|TRESUsageInTot|ConsumedEnergyRaw\n{failed}|{user}|sbatch *||*\n"),
    row("slurm-usage", "squeue -ro %u/%t/%D/%P/%C/%N/%h -n runs", "USER/ST/NODES/PARTITION/CPUS/NODELIST/OVER_SUBSCRIBE\n{user}/R/1/main/2/n1/*\n"),
    row("slurm-usage", "scontrol show node n1", "NodeName=n1 …CPUTot=4 …"),
    row("slurm-usage", "sinfo -h -N --format=%N,%c", "n1,4\nn2,4\nn3,4\nn4,4\n"),
    row("slurm-usage", "sinfo -h -N --format=%N,%G", "n1,*\nn2,*\nn3,*\nn4,*\n"),
    row("slurm-gpustat", "sinfo --noheader", "main*        up 1-00:00:00 *\n…"),
    row("slurm-gpustat", "sinfo -V", "slurm *\n…"),
    row("slurm-gpustat", "sinfo -o '%1000N|%1000G' --noheader | tr -s ' '", "n[1-4] |* \n"),
    row("slurm-gpustat", "squeue -O tres-per-node:100,nodelist:100,username:100,jobid:100 --noheader -n runs | tr -s ' '", "N/A n1 {user} {run} \n"),
    row("slurm-gpustat", "scontrol show jobid -dd {run}", "JobId={run} JobName=runs\n…"),
    row("turm", "squeue --array --noheader --Format 'jobid:###turm###,name:###turm###,state:###turm###,username:###turm###,jobarrayid:###turm###,stdout:###turm###' -n runs", "{run}###turm###runs###turm###RUNNING###turm###{user}###turm###{run}###turm###*###turm###\n"),
    row("batchspawner", "squeue -h -j {run} -o '%T %B'", "RUNNING n1\n"),
    row("batchspawner", "squeue -h -j {held} -o '%T %B'", "PENDING n/a\n"),
    row("simple-slurm", "squeue --me -o '\"%i\",\"%j\",\"%t\"' -n runs", "\"JOBID\",\"NAME\",\"ST\"\n\"{run}\",\"runs\",\"R\"\n"),
    row("clusterfutures", "squeue --noheader '--format=%i %T' --jobs {failed},{run},99999 --states=all", "{run} RUNNING\n{failed} FAILED\n"),
    row("batchtools", "squeue --user={user} --states=R,S,CG,RS,SI,SO,ST --noheader --format=%i -r", "{run}\n"),
    row("batchtools", "squeue -hn runs", "*{run} *\n"),
    row("nextflow", "squeue --noheader -o '%i %t' -t all -p main -u {user}", "…{run} R\n…{failed} F\n…"),
    row("cromwell", "squeue -j {run}", "…{run}…"),
    row("ood", "squeue -M {cluster} --all --states=all --noconvert -O 'jobid:\u{1f},state:\u{1f},username:\u{1f}' -j {run}", "CLUSTER: {cluster}\nJOBID\u{1f}STATE\u{1f}USER\u{1f}\n{run}\u{1f}RUNNING\u{1f}{user}\u{1f}\n"),
    row("ood", "squeue -h -j {run} -O 'account:\u{1f},jobarrayid:\u{1f},jobid:\u{1f},exechost:\u{1f},mincpus:\u{1f},numcpus:\u{1f},mintmpdisk:\u{1f},numnodes:\u{1f},endtime:\u{1f},dependency:\u{1f}' 2>&1 | tr '\\037' '|'", "squeue: error: Invalid job format specification: exechost\n*|{run}|{run}|2|2|0|1|*T*|(null)|\n"),
    row("ood", "squeue -h -j {run} -O 'feature:\u{1f},arrayjobid:\u{1f},groupname:\u{1f},groupid:\u{1f},oversubscribe:\u{1f},sockets:\u{1f},cores:\u{1f},name:\u{1f},threads:\u{1f},comment:\u{1f},arraytaskid:\u{1f},timelimit:\u{1f},timeleft:\u{1f},minmemory:\u{1f},timeused:\u{1f},reqnodes:\u{1f},nodelist:\u{1f},command:\u{1f},contiguous:\u{1f},qos:\u{1f},partition:\u{1f},priority:\u{1f},reason:\u{1f},starttime:\u{1f},statecompact:\u{1f},state:\u{1f},username:\u{1f},userid:\u{1f},reservation:\u{1f},submittime:\u{1f},wckey:\u{1f},licenses:\u{1f},excnodes:\u{1f},corespec:\u{1f},nice:\u{1f},schednodes:\u{1f},sct:\u{1f},workdir:\u{1f},tres-per-node:\u{1f}' | tr '\\037' '|' | awk -F'|' '{ print NF, $8, $21, $25, $26 }'", "40 runs main R RUNNING\n"),
    row("ood", "sinfo -ho \u{1e}%c\u{1f}%P", "\u{1e}4\u{1f}main*\n"),
    row("ood", "sinfo -aho %F/%C", "1/3/0/4/2/14/0/16\n"),
    row("ood", "sinfo -ahNO nodehost:100,gres:512,gresused:512,statelong | tr -s ' '", "* mixed \n* idle \n* idle \n* idle \n"),
    row("ood", "scontrol show part -o", "PartitionName=main *\n"),
    row("ood", "sacct -X -n -P --delimiter \u{1f} -o jobid,state -j {failed}", "{failed}\u{1f}FAILED\n"),
    row("ood", "sacctmgr -nP show users withassoc format=account,qos where user={user} cluster={cluster}", "…"),
    row("prometheus-slurm-exporter", "squeue -a -r -h '-o %A|%u|%T|%C' -n runs", " {run}|{user}|RUNNING|2\n"),
    row("prometheus-slurm-exporter", "squeue -a -r -h '-o %A,%T,%r' -n held", " {held},PENDING,JobHeldUser\n"),
    row("prometheus-slurm-exporter", "sinfo -h '-o %C'", " 2/14/0/16\n"),
    row("prometheus-slurm-exporter", "sinfo -h -o%R,%C", "main,2/14/0/16\n"),
    row("prometheus-slurm-exporter", "sinfo -h -N -O NodeList,AllocMem,Memory,CPUsState,StateLong", "n1                  *4000                2/2/0/4             mixed               \nn2                  0                   4000                0/4/0/4             idle                \nn3 *\nn4 *\n"),
    row("prometheus-slurm-exporter", "sdiag", "…Server thread count: *…Last cycle: *…"),
    row("prometheus-slurm-exporter", "sshare -n -P -o account,fairshare", "root|*…"),
    row("prometheus-slurm-exporter (rivos)", "squeue --json -j {run}", "{\n…\"job_state\": [\n*\"RUNNING\"\n…"),
    row("prometheus-slurm-exporter (rivos)", "sinfo --json", "{\n…\"sinfo\": [\n…"),
    row("prometheus-slurm-exporter (rivos)", "sdiag --json", "{\n…\"statistics\": {\n…"),
    row("prometheus-slurm-exporter (rivos)", "scontrol show lic --json", "{\n…\"licenses\": […"),
    row("prometheus-slurm-exporter (rivos)", "squeue -h -n runs -o '{\"a\": \"%a\", \"id\": %A, \"s\": \"%T\"}'", "{\"a\": \"*\", \"id\": {run}, \"s\": \"RUNNING\"}\n"),
    row("prometheus-slurm-exporter (rivos)", "sacctmgr show assoc format=User,Account,GrpCPU,GrpMem,GrpJobs,GrpSubmit --noheader --parsable2", "…"),
];

/// Whether `text` is as `pattern` says: `*` is anything in a line, `…` anything at all.
fn fits(pattern: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    match first {
        '*' => {
            let end = text
                .iter()
                .position(|letter| *letter == '\n')
                .unwrap_or(text.len());
            (0..=end).any(|taken| fits(rest, &text[taken..]))
        }
        '…' => (0..=text.len()).any(|taken| fits(rest, &text[taken..])),
        letter => text.first() == Some(letter) && fits(rest, &text[1..]),
    }
}

fn is_like(pattern: &str, text: &str) -> bool {
    // A partition's mark in an expected text is a star too, which stands for itself as well.
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    fits(&pattern, &text)
}

/// A job that runs on two CPUs, one held, an array held, one done, one failed, two more held.
fn scene(cluster: &Cluster) -> BTreeMap<&'static str, String> {
    let done = parsable(cluster, &["-J", "good", "--wrap", "true"]);
    let failed = parsable(
        cluster,
        &["-J", "wrong", "--comment=a comment", "--wrap", "exit 3"],
    );
    cluster.wait_job_end(done, SOON).unwrap();
    cluster.wait_job_end(failed, SOON).unwrap();
    let run = parsable(cluster, &["-J", "runs", "-c2", "--wrap", "sleep 300"]);
    cluster.wait_job_state(run, "RUNNING", SOON).unwrap();
    let held = parsable(cluster, &["-H", "-J", "held", "--wrap", "true"]);
    let array = parsable(
        cluster,
        &["-H", "-J", "many", "--array=0-2%2", "--wrap", "true"],
    );
    let spare = parsable(cluster, &["-H", "-J", "spare", "--wrap", "true"]);
    let spare2 = parsable(cluster, &["-H", "-J", "spare", "--wrap", "true"]);
    let layout = cluster.layout();
    BTreeMap::from([
        ("{done}", done.to_string()),
        ("{failed}", failed.to_string()),
        ("{done.12}", format!("{done:<12}")),
        ("{failed.12}", format!("{failed:<12}")),
        ("{run}", run.to_string()),
        ("{held}", held.to_string()),
        ("{array}", array.to_string()),
        ("{spare}", spare.to_string()),
        ("{spare2}", spare2.to_string()),
        ("{user}", layout.user.clone()),
        ("{cluster}", cluster_name(cluster)),
        ("{work}", cluster.path("work").display().to_string()),
    ])
}

fn cluster_name(cluster: &Cluster) -> String {
    let text = super::answer(cluster, &["scontrol", "show", "config"]);
    let line = text
        .lines()
        .find(|line| line.starts_with("ClusterName "))
        .unwrap();
    line.split_once("= ").unwrap().1.trim().to_owned()
}

/// Without this, a change of one letter would break somebody's tool and nobody here would see it.
#[test]
fn every_line_of_every_tool() {
    let cluster = started(Cluster::builder());
    let names = scene(&cluster);
    let fill = |text: &str| {
        names.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    };
    let mut failures = String::new();
    for row in ROWS {
        let (line, out, err) = (fill(row.line), fill(row.out), fill(row.err));
        let seen = wait_for(super::SHORT, &line, || {
            let mut shell = cluster.program(Path::new("/bin/sh"));
            shell
                .args(["-c", &line])
                .env("PATH", cluster.path_variable())
                .stdin(Stdio::null());
            let done = run_with_deadline(shell, SOON).unwrap();
            let same = done.code == row.code
                && is_like(&out, &done.stdout)
                && (row.code == 0 || is_like(&err, &done.stderr));
            if same {
                Ok(())
            } else {
                Err(format!("{done:#?}"))
            }
        });
        if let Err(error) = seen {
            failures.push_str(&format!(
                "=== {}: $ {line}\nwanted {} {out:?} {err:?}\n{error:#}\n",
                row.tool, row.code
            ));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Without this, a matcher that lets everything pass would hide every change.
#[test]
fn patterns() {
    assert!(is_like("a*c\n", "abc\n"));
    assert!(!is_like("a*c\n", "ab\nc\n"));
    assert!(is_like("a…c\n", "ab\nc\n"));
    assert!(!is_like("a", "ab"));
    assert!(!is_like("", "x"));
    assert!(is_like("main*\n", "main*\n"));
}
