//! Daemons and the database are killed at random moments while users work.
//!
//! Afterwards: every acknowledged job exists exactly once, ran at most once per attempt, ended once in accounting with the right
//! state and exit code; no process is left behind; and a controller that reads everything again from its journal says the
//! same as the one that was running.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sluice_testkit::{Cluster, PrivatePostgres, ProcessId, Random, wait_for, wait_until};

use super::super::{READY, started};
use super::state::check_bytes;
use super::workload::{Acknowledged, Kind, work};

/// How long everything may take to drain after the last fault.
const DRAINED: Duration = Duration::from_secs(90);

/// Which faults, and how much work meanwhile.
struct Campaign {
    seed: u64,
    users: usize,
    jobs_per_user: usize,
    pause_ms: u64,
    kills_ctld: bool,
    kills_agents: bool,
    kills_steps: bool,
    postgres: bool,
}

/// Seeds to run: the one of `SLUICE_FAULT_SEED`, or a fixed one for the short form, or new ones for the long form.
fn seeds(fixed: u64) -> Vec<u64> {
    if let Some(seed) = std::env::var("SLUICE_FAULT_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        return vec![seed];
    }
    if !is_long() {
        return vec![fixed];
    }
    let rounds = std::env::var("SLUICE_FAULT_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let begin = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs() % 1_000_000);
    (begin * 1_000..).take(rounds).collect()
}

fn is_long() -> bool {
    std::env::var_os("SLUICE_FAULTS").is_some_and(|value| value == "long")
}

/// The controller is killed again and again while jobs are submitted, run, cancelled and requeued.
#[test]
fn kill_9_of_ctld_while_hundreds_of_jobs_come_and_go() {
    for seed in seeds(1) {
        run(&Campaign {
            seed,
            users: 4,
            jobs_per_user: if is_long() { 150 } else { 50 },
            pause_ms: 60,
            kills_ctld: true,
            kills_agents: false,
            kills_steps: false,
            postgres: false,
        });
    }
}

/// Everything that can be killed is, with the database in Postgres.
#[test]
fn kill_9_of_ctld_agents_step_daemons_and_the_database() {
    for seed in seeds(2) {
        run(&Campaign {
            seed,
            users: 3,
            jobs_per_user: if is_long() { 100 } else { 30 },
            pause_ms: 120,
            kills_ctld: true,
            kills_agents: true,
            kills_steps: true,
            postgres: true,
        });
    }
}

fn run(campaign: &Campaign) {
    eprintln!("seed {} (again with SLUICE_FAULT_SEED={0})", campaign.seed);
    let mut random = Random::new(campaign.seed);
    let mut postgres = campaign.postgres.then(|| {
        let server = PrivatePostgres::start().unwrap();
        server.create_database("acct").unwrap();
        server
    });
    let mut builder = Cluster::builder()
        .kill_wait_secs(1)
        .cpus(8)
        .conf_line("SchedulerParameters=requeue_delay=0");
    if let Some(server) = &postgres {
        builder = builder
            .conf_line("AccountingStorageType=accounting_storage/postgres")
            .conf_line(&format!(
                "AccountingStorageHost={}",
                server.socket_dir().display()
            ))
            .conf_line("AccountingStorageUser=sluice")
            .conf_line("AccountingStorageLoc=acct");
    }
    let mut cluster = started(builder);
    let runs = cluster.path("work/runs");
    let users: Vec<_> = (0..campaign.users)
        .map(|user| {
            let socket = cluster.path("run").join("ctld.test.sock");
            let (runs, random) = (runs.clone(), Random::new(random.number()));
            let name = char::from(b'a' + user as u8).to_string();
            let (count, pause_ms) = (campaign.jobs_per_user, campaign.pause_ms);
            std::thread::spawn(move || work(socket, runs, &name, count, pause_ms, random))
        })
        .collect();
    let mut done = Faults::default();
    while users.iter().any(|user| !user.is_finished()) {
        std::thread::sleep(random.millis(50, 600));
        done.one_more(campaign, &mut random, &mut cluster, postgres.as_mut());
    }
    let jobs: Vec<Acknowledged> = users
        .into_iter()
        .flat_map(|user| user.join().expect("a user's thread failed"))
        .collect();
    eprintln!("{} jobs; {done:?}", jobs.len());
    check(&mut cluster, &jobs, &runs, &done);
    cluster.stop().unwrap();
}

/// What was done to the cluster.
#[derive(Debug, Default)]
struct Faults {
    ctld: u32,
    agents: u32,
    database: u32,
    /// Jobs whose step daemon was killed: their exit code is the kill's, or what it was going to be.
    steps: BTreeSet<u32>,
}

impl Faults {
    fn one_more(
        &mut self,
        campaign: &Campaign,
        random: &mut Random,
        cluster: &mut Cluster,
        postgres: Option<&mut PrivatePostgres>,
    ) {
        match random.below(10) {
            0..=4 if campaign.kills_ctld => {
                cluster.kill_ctld().unwrap();
                std::thread::sleep(random.millis(0, 300));
                cluster.start_ctld().unwrap();
                self.ctld += 1;
            }
            5..=6 if campaign.kills_agents => {
                let node = random.pick(cluster.nodes()).unwrap().clone();
                cluster.kill_agent(&node).unwrap();
                std::thread::sleep(random.millis(0, 500));
                cluster.start_agent(&node).unwrap();
                self.agents += 1;
            }
            7..=8 if campaign.kills_steps => {
                if let Some((job, process)) = random.pick(&step_daemons(cluster)) {
                    process.signal(Signal::SIGKILL);
                    self.steps.insert(*job);
                }
            }
            9 => {
                if let Some(server) = postgres {
                    server.kill_server().unwrap();
                    std::thread::sleep(random.millis(0, 800));
                    server.start_server().unwrap();
                    self.database += 1;
                }
            }
            _ => {}
        }
    }
}

/// The step daemons that run, with the id of their job (from the path of their folder).
fn step_daemons(cluster: &Cluster) -> Vec<(u32, ProcessId)> {
    cluster
        .job_processes()
        .into_iter()
        .filter_map(|process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let (_, rest) = line.split_once("/job")?;
            let id = rest.split('/').next()?.parse().ok()?;
            line.split('\0')
                .next()?
                .ends_with("stepd")
                .then_some((id, process))
        })
        .collect()
}

fn check(cluster: &mut Cluster, jobs: &[Acknowledged], runs: &Path, faults: &Faults) {
    let ids: BTreeSet<u32> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(ids.len(), jobs.len(), "an id was given twice");
    wait_until(READY, "ctld to answer", || {
        cluster
            .run("scontrol", ["ping"])
            .is_ok_and(|done| done.code == 0)
    })
    .unwrap();
    wait_for(DRAINED, "the queue to be empty", || {
        let queue = squeue(cluster, &["-h", "-o", "%i %j %T %r %N"]);
        // A job whose step daemon died is requeued and held, until somebody has looked into it.
        for job in &faults.steps {
            let held = format!("{job} ");
            if queue
                .lines()
                .any(|line| line.starts_with(&held) && line.contains("launch failed requeued held"))
            {
                let _ = cluster.run("scontrol", ["release", &job.to_string()]);
            }
        }
        if queue.is_empty() { Ok(()) } else { Err(queue) }
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", cluster.log_tails()));

    check_runs(jobs, runs, faults);
    let begun = Instant::now();
    let wrong = wait_for(DRAINED, "accounting to agree", || {
        let wrong = disagreements(cluster, jobs, faults);
        // A record that is wrong for good is told at once, after the feed had time to finish.
        if wrong.is_empty() || begun.elapsed() > Duration::from_secs(30) {
            Ok(wrong)
        } else {
            Err(wrong.join("\n"))
        }
    })
    .unwrap();
    assert!(
        wrong.is_empty(),
        "accounting does not agree:\n{}\n{}",
        wrong.join("\n"),
        cluster.log_tails()
    );
    wait_for(DRAINED, "no process to be left behind", || {
        let left: Vec<String> = cluster
            .job_processes()
            .iter()
            .map(|process| {
                let line =
                    std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
                format!("{} {}", process.pid, String::from_utf8_lossy(&line))
            })
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        }
    })
    .unwrap();
    check_replay(cluster, jobs);
}

/// At most one run for each attempt; exactly one where nothing but the controller and agents was killed.
fn check_runs(jobs: &[Acknowledged], runs: &Path, faults: &Faults) {
    let text = std::fs::read_to_string(runs).unwrap();
    let mut lines = BTreeMap::<&str, u32>::new();
    for line in text.lines() {
        *lines.entry(line).or_default() += 1;
    }
    let twice: Vec<_> = lines.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        twice.is_empty(),
        "ran more than once in one attempt: {twice:?}"
    );
    let ran: BTreeSet<&str> = lines
        .keys()
        .filter_map(|line| line.split(' ').next())
        .collect();
    for job in jobs {
        let must_run = !matches!(job.kind, Kind::Cancelled | Kind::CancelledHeld)
            && !faults.steps.contains(&job.id);
        for key in job.run_keys() {
            assert!(!must_run || ran.contains(key.as_str()), "{key} never ran");
            assert!(
                job.kind != Kind::CancelledHeld || !ran.contains(key.as_str()),
                "{key} was held and ran"
            );
        }
    }
    let known: BTreeSet<String> = jobs.iter().flat_map(Acknowledged::run_keys).collect();
    let unknown: Vec<_> = ran.iter().filter(|key| !known.contains(**key)).collect();
    assert!(
        unknown.is_empty(),
        "ran without having been submitted: {unknown:?}"
    );
}

fn squeue(cluster: &Cluster, args: &[&str]) -> String {
    cluster
        .run("squeue", args)
        .and_then(|done| done.success())
        .unwrap_or_else(|error| format!("{error:#}"))
}

/// Where `sacct` says something else than what happened.
fn disagreements(cluster: &Cluster, jobs: &[Acknowledged], faults: &Faults) -> Vec<String> {
    let sacct = |select: [&str; 2]| {
        let fields = ["-o", "JobID,JobName,State,ExitCode,JobIDRaw"];
        let args = [&["-n", "-P", "-X", "-D"][..], &select, &fields].concat();
        cluster.run("sacct", args).and_then(|done| done.success())
    };
    // By id, since a window does not show jobs that never became eligible; and the window, for what nobody has submitted.
    let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    let (text, all) = match (sacct(["-j", &ids.join(",")]), sacct(["-S", "now-1days"])) {
        (Ok(text), Ok(all)) => (text, all),
        (Err(error), _) | (_, Err(error)) => return vec![format!("{error:#}")],
    };
    let mut rows = BTreeMap::<&str, Vec<Vec<&str>>>::new();
    for line in text.lines() {
        let columns: Vec<&str> = line.split('|').collect();
        rows.entry(columns[0]).or_default().push(columns);
    }
    let mut wrong: Vec<String> = all
        .lines()
        .filter(|line| {
            line.split('|')
                .next()
                .is_some_and(|id| !rows.contains_key(id))
        })
        .map(|line| format!("not submitted: {line}"))
        .collect();
    for job in jobs {
        for (id, (state, exit_code)) in job.expected() {
            let Some(found) = rows.remove(id.as_str()) else {
                wrong.push(format!("{id} {}: no record, expected {state}", job.key));
                continue;
            };
            let requeued = matches!(job.kind, Kind::Requeued(_));
            if found.len() != 1 && !requeued {
                wrong.push(format!(
                    "{id} {}: {} records: {found:?}",
                    job.key,
                    found.len()
                ));
            }
            let last = &found[found.len() - 1];
            let seen_state = last[2].split(' ').next().unwrap_or_default();
            // JobIDRaw is the task's own id; a killed step daemon belongs to that.
            let own: u32 = last[4].parse().unwrap_or(job.id);
            // A batch step that dies without a word counts as a failed launch: JobLaunchFailure, nobody knows an exit code. Where
            // its agent was killed too, before it could tell, the node comes back without the job: NODE_FAIL.
            let step_died = faults.steps.contains(&own)
                && [
                    ("FAILED", "0:9"),
                    ("CANCELLED", "0:0"),
                    ("NODE_FAIL", "1:0"),
                ]
                .contains(&(seen_state, last[3]));
            let right = last[1] == job.key
                && seen_state == state
                && (exit_code.is_empty() || last[3] == exit_code);
            if !right && !step_died {
                wrong.push(format!(
                    "{id} {}: expected {state} {exit_code}, found {found:?}",
                    job.key
                ));
            }
        }
    }
    wrong.extend(
        rows.into_iter()
            .map(|(id, found)| format!("{id}: not submitted, found {found:?}")),
    );
    wrong
}

/// The controller that ran and one that read the journal anew say the same of every job.
fn check_replay(cluster: &mut Cluster, jobs: &[Acknowledged]) {
    let format = "%A %F %i %j %T %u %P %D %C %m %l %e %S %V %N %R";
    let list = |cluster: &Cluster| squeue(cluster, &["-h", "-r", "-t", "all", "-o", format]);
    let live = list(cluster);
    assert!(live.lines().count() >= jobs.len(), "{live}");
    cluster.kill_ctld().unwrap();
    cluster.start_ctld().unwrap();
    wait_until(READY, "ctld to answer", || {
        cluster
            .run("scontrol", ["ping"])
            .is_ok_and(|done| done.code == 0)
    })
    .unwrap();
    assert_eq!(list(cluster), live, "replay differs from the live state");
    check_bytes(cluster);
}
