//! The recorded scene: four nodes with eight GPUs each, accounts, and jobs in every state.
//!
//! Jobs are submitted in the recorded order, so their ids are the recorded ones. A job that needs an engine that does not
//! exist yet is submitted without that part, to keep the ids, and its rows are left out of the comparison
//! ([`LEFT_OUT_JOBS`]).

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use sluice_testkit::{Cluster, ConfFiles, Finished, Layout, run_with_deadline, wait_for};

use super::recording::Recording;

// Every player has a group of the same name, which stands for the recording's `nogroup`.

/// Jobs that lean on heterogeneous jobs and limits.
pub const LEFT_OUT_JOBS: std::ops::RangeInclusive<u32> = 19..=24;

/// Their names.
pub const LEFT_OUT_NAMES: &[&str] = &["het", "lim1", "lim2", "lim3", "hiprio"];

/// Users of the recording and who plays them: name, and player of the same length with its uid.
pub const PLAYERS: &[(&str, &str, &str)] = &[
    ("alice", "games", "5"),
    ("bob", "irc", "39"),
    ("carol", "proxy", "13"),
];

const DEADLINE: Duration = Duration::from_secs(60);
/// A recorded command that takes longer waits for something that never comes.
const COMMAND_DEADLINE: Duration = Duration::from_secs(15);

/// A running scene.
pub struct Scene {
    pub cluster: Cluster,
}

fn conf(layout: &Layout) -> ConfFiles {
    let dir = layout.dir.display();
    let mut text = format!(
        "\
ClusterName=oracle
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmdPort=16818
AuthType=auth/slurm
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/run/ctld.pid
SlurmdPidFile={dir}/run/agentd-%n.pid
SlurmctldLogFile={dir}/log/ctld.log
SlurmdLogFile={dir}/log/agentd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
TmpFS=/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=30
SchedulerType=sched/backfill
SchedulerParameters=bf_continue
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityMaxAge=7-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=1000
PriorityWeightPartition=1000
PriorityWeightQOS=2000
PriorityWeightTRES=CPU=100,Mem=100
PreemptType=preempt/qos
PreemptMode=REQUEUE
MaxJobCount=200000
MaxArraySize=50001
MinJobAge=300
ReturnToService=2
KillWait=5
MessageTimeout=60
SlurmctldTimeout=120
SlurmdTimeout=300
InactiveLimit=0
Waittime=0
DefMemPerCPU=100
EnforcePartLimits=ALL
Licenses=matlab:10,ansys:4
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos,safe
AccountingStorageTRES=gres/gpu,gres/gpu:h100,license/matlab
AccountingStoreFlags=job_comment,job_env,job_script
PriorityFlags=CALCULATE_RUNNING
JobCompType=jobcomp/none
GresTypes=gpu
NodeName=DEFAULT CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000 TmpDisk=0
NodeName=n[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} Gres=gpu:h100:8 Feature=std,gpu
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=7-0 DefaultTime=1:00:00 State=UP PriorityJobFactor=10
PartitionName=short Nodes=n[1-4] MaxTime=30 State=UP PriorityTier=10
",
        host = layout.host,
        port = layout.ctld_port,
        ports = layout.node_port_range(),
    );
    text.push('\n');
    let mut gres = String::from("AutoDetect=off\n");
    // Writing to a String cannot fail.
    let _ = writeln!(
        gres,
        "NodeName=n[1-4] Name=gpu Type=h100 File={dir}/dev/gpu[0-7]"
    );
    ConfFiles {
        main: "slurm.conf".to_owned(),
        files: vec![
            ("slurm.conf".to_owned(), text),
            ("gres.conf".to_owned(), gres),
        ],
        nodes: (1..=4).map(|nth| format!("n{nth}")).collect(),
    }
}

/// Accounts as the recording's dump has them. A line that is refused is tolerated: the comparison shows what it was good for.
const ACCOUNTS: &[&str] = &[
    "sacctmgr -i add qos high priority=1000 preempt=normal",
    "sacctmgr -i add qos limited maxtresperuser=cpu=16 maxjobsperuser=2 maxsubmitjobsperuser=4 flags=DenyOnLimit",
    "sacctmgr -i add account science description=science organization=lab fairshare=60",
    "sacctmgr -i add account physics parent=science description=physics organization=lab fairshare=30",
    "sacctmgr -i add account bio parent=science description=bio organization=lab fairshare=10 grptres=cpu=256",
    "sacctmgr -i add qos high priority=1000",
    "sacctmgr -i add qos limited",
    "sacctmgr -i add user alice account=physics fairshare=10 qos=normal,high,limited defaultqos=normal",
    "sacctmgr -i add user alice account=physics fairshare=10",
    "sacctmgr -i add user alice account=bio fairshare=5",
    "sacctmgr -i add user bob account=bio fairshare=20 qos=normal,limited maxjobs=1000000",
    "sacctmgr -i add user bob account=bio fairshare=20",
];

/// Jobs before the ones that stay: id, user, command.
const FIRST: &[(u32, &str, &str)] = &[
    (
        2,
        "alice",
        "sbatch -J done1 -o /tmp/gold/%j.out --mem=100 -n2 --wrap \"srun hostname; exit 0\"",
    ),
    (
        3,
        "alice",
        "sbatch -J fail3 -o /tmp/gold/%j.out --mem=100 -n1 --wrap \"exit 3\"",
    ),
    (
        4,
        "alice",
        "sbatch -J arr -o /tmp/gold/%A_%a.out --mem=100 --array=1-4%2 --wrap \"sleep 1\"",
    ),
];

const THEN: &[(u32, &str, &[&str])] = &[
    (
        9,
        "alice",
        &[
            "sbatch -J run1 -o /tmp/gold/%j.out -N2 -n8 --mem=1000 -t 30 --comment=\"hello world\" --wrap \"srun -n8 sleep 3000\"",
        ],
    ),
    (
        10,
        "alice",
        &[
            "sbatch -J gpujob -o /tmp/gold/%j.out -n1 --mem=1000 --gres=gpu:h100:2 -t 45 -C gpu --wrap \"env | grep -E ^SLURM\\|^CUDA | sort; sleep 3000\"",
        ],
    ),
    (
        11,
        "bob",
        &["sbatch -J big -o /dev/null -N3 --exclusive --mem=0 -t 2:00:00 --wrap \"sleep 3000\""],
    ),
    (
        12,
        "bob",
        &["sbatch -J held -H -o /dev/null -n1 --mem=100 --wrap \"sleep 10\""],
    ),
    (
        13,
        "alice",
        &["sbatch -J dep -o /dev/null -n1 --mem=100 --dependency=afterok:9 --wrap true"],
    ),
    (
        14,
        "alice",
        &["sbatch -J later -o /dev/null -n1 --mem=100 --begin=now+1hour --wrap true"],
    ),
    (
        15,
        "alice",
        &[
            "sbatch -J array2 -o /dev/null -n1 --mem=100 -t 20 --array=1-10:2,20%2 --dependency=afterany:9 --wrap 'sleep 100'",
        ],
    ),
    (
        16,
        "alice",
        &["sbatch -J lic -o /dev/null -n1 --mem=100 -L matlab:10 -t 100 --wrap \"sleep 3000\""],
    ),
    (
        17,
        "alice",
        &["sbatch -J lic2 -o /dev/null -n1 --mem=100 -L matlab:1 -t 10 --wrap \"sleep 3000\""],
    ),
    (
        18,
        "bob",
        &[
            "sbatch -J resv -o /dev/null -n2 --mem=100 -t 10 --reservation=course -A bio --wrap \"sleep 3000\"",
        ],
    ),
    (
        19,
        "alice",
        &["sbatch -J het -o /dev/null -n1 --mem=100 -t 10 --wrap \"sleep 3000\""],
    ),
    (
        20,
        "alice",
        &["sbatch -J het -o /dev/null -n2 --mem=200 -t 10 --wrap \"sleep 3000\""],
    ),
    (
        21,
        "alice",
        &["sbatch -J lim1 -w n3 -o /dev/null -n1 --mem=100 -t 5 --wrap 'sleep 3000'"],
    ),
    (
        22,
        "alice",
        &["sbatch -J lim2 -w n3 -o /dev/null -n1 --mem=100 -t 5 --wrap 'sleep 3000'"],
    ),
    (
        23,
        "alice",
        &["sbatch -J lim3 -H -o /dev/null -n1 --mem=100 -t 60 --wrap 'sleep 3000'"],
    ),
    (
        24,
        "alice",
        &["sbatch -J hiprio -o /dev/null -N3 --exclusive --nice=50 -t 20 --wrap \"sleep 3000\""],
    ),
];

/// Reservations of the scene.
const RESERVATIONS: &[&str] = &[
    "scontrol create reservation reservationname=maint starttime=now+2days duration=120 nodes=n[1-2] users=root flags=maint",
    "scontrol create reservation reservationname=course starttime=now duration=600 nodecnt=1 accounts=bio tres=cpu=4",
];

impl Scene {
    /// Makes the cluster, the accounts and the jobs.
    pub fn start() -> Self {
        let cluster = Cluster::builder()
            .nodes(4)
            .gpus(8)
            .custom_conf(conf)
            .start()
            .unwrap();
        let scene = Self { cluster };
        let gold = scene.cluster.path("work/gold");
        std::fs::create_dir(&gold).unwrap();
        std::fs::set_permissions(&gold, std::os::unix::fs::PermissionsExt::from_mode(0o1777))
            .unwrap();
        scene.cluster.wait_ready(DEADLINE).unwrap();
        for line in ACCOUNTS {
            let done = scene.shell("root", line);
            if done.code != 0 {
                eprintln!("scene: {line}: {}{}", done.stdout, done.stderr);
            }
        }
        scene.must("alice", "srun -N2 -n4 --mem=10 -l hostname");
        for (id, user, line) in FIRST {
            scene.submit(*id, user, &[line]);
        }
        scene.ended(&[2, 3, 4]);
        // Array tasks have ids of their own; the next one must be 9, with one for the cancelled job.
        scene.submit(
            8,
            "bob",
            &["sbatch -J cancelled -o /dev/null --mem=100 -H --wrap \"true\""],
        );
        scene.must("bob", "scancel 8");
        scene.must(
            "root",
            "scontrol update nodename=n4 state=drain reason=\"bad fan\"",
        );
        for line in RESERVATIONS {
            scene.must("root", line);
        }
        for (id, user, lines) in THEN {
            scene.submit(*id, user, lines);
        }
        scene.wait_steps();
        scene
    }

    fn must(&self, user: &str, line: &str) -> Finished {
        let done = self.shell(user, line);
        assert_eq!(done.code, 0, "{line}: {done:?}");
        done
    }

    fn submit(&self, id: u32, user: &str, lines: &[&str]) {
        let mut said = String::new();
        for line in lines {
            let done = self.shell(user, line);
            if done.code == 0 {
                assert_eq!(done.stdout, format!("Submitted batch job {id}\n"), "{line}");
                return;
            }
            said.push_str(&done.stderr);
        }
        panic!("job {id} is refused: {said}");
    }

    fn ended(&self, ids: &[u32]) {
        wait_for(DEADLINE, "the first jobs to end", || {
            let list: Vec<String> = ids.iter().map(u32::to_string).collect();
            let left = self.shell("root", &format!("squeue -h -j {}", list.join(",")));
            if left.stdout.is_empty() {
                Ok(())
            } else {
                Err(left.stdout)
            }
        })
        .unwrap();
    }

    /// With SLURM_JWT a command is who the token says, also beside a local socket that would take it for root. Gives what is
    /// wrong.
    pub fn token_faults(&self) -> String {
        let mut faults = String::new();
        for (token, refusal) in [
            (
                "$(scontrol token username=alice | cut -d= -f2)",
                "Invalid user id",
            ),
            ("no.such.token", "slurm_suspend error:"),
        ] {
            let done = self.shell("root", &format!("SLURM_JWT={token} scontrol hold 11"));
            if done.code != 1 || !done.stderr.contains(refusal) {
                let _ = writeln!(faults, "SLURM_JWT={token}: {done:?}");
            }
        }
        faults
    }

    /// Makes room: jobs that wait for the whole cluster would keep small ones waiting.
    pub fn make_room(&self) {
        self.must("root", "scontrol hold 11; scancel 16 24");
    }

    /// The step of job 9 runs, and the running jobs are a second old.
    fn wait_steps(&self) {
        wait_for(DEADLINE, "step 9.0", || {
            let steps = self.shell("root", "squeue -s -h -o '%i %M'");
            let old = |id: &str| {
                steps.stdout.lines().any(|line| {
                    line.strip_prefix(id)
                        .is_some_and(|time| time.len() == 5 && time > " 0:00")
                })
            };
            if old("9.0") && old("10.batch") && old("18.batch") {
                Ok(())
            } else {
                Err(steps.stdout)
            }
        })
        .unwrap();
    }

    /// Runs a recorded command as its user.
    pub fn run(&self, recording: &Recording) -> Finished {
        self.try_shell(&recording.user, &recording.command, COMMAND_DEADLINE)
            .unwrap_or_else(|error| Finished {
                command: recording.command.clone(),
                code: -1,
                stdout: String::new(),
                stderr: format!("{error}\n"),
            })
    }

    fn shell(&self, user: &str, line: &str) -> Finished {
        self.try_shell(user, line, DEADLINE).unwrap()
    }

    fn try_shell(&self, user: &str, line: &str, deadline: Duration) -> anyhow::Result<Finished> {
        let mut line = line.replace(
            "/tmp/gold",
            &self.cluster.path("work/gold").to_string_lossy(),
        );
        for (name, player, _) in PLAYERS {
            line = line.replace(name, player);
        }
        let base = self.cluster.command("sbatch");
        let mut command = match PLAYERS.iter().find(|player| player.0 == user) {
            Some((_, player, uid)) => {
                let mut command = Command::new("setpriv");
                command
                    .args([
                        "--reuid",
                        uid,
                        "--regid",
                        player,
                        "--clear-groups",
                        "sh",
                        "-c",
                        &line,
                    ])
                    .env("USER", player)
                    .env("LOGNAME", player);
                command
            }
            None => {
                let mut command = Command::new("sh");
                command.args(["-c", &line]);
                command
            }
        };
        for (name, value) in base.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .current_dir("/tmp")
            .stdin(std::process::Stdio::null());
        run_with_deadline(command, deadline)
    }
}
