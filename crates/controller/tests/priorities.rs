//! Priorities, usage and fair share in a running engine: expected numbers are worked out beside them, and every story is replayed
//! from its journal at the end.

mod world;

use sluice_controller::Cluster;
use sluice_controller::command::hold::{HoldKind, hold_targets};
use sluice_controller::command::priority::cycle_if_due;
use sluice_controller::command::top::top;
use sluice_controller::command::update::update_targets;
use sluice_controller::command::{policy, reservation, suspend};
use sluice_controller::priority::report::FactorReader;
use sluice_model::accounting::{AssociationRecord, QosRecord, UserRecord};
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::JobId;
use sluice_model::job::{JobDescription, JobUpdate};
use sluice_model::reservation::ReservationRequest;
use sluice_model::time::{TimeLimit, UnixSeconds};
use sluice_model::tres::TresKind;
use world::{ALICE, BOB, CONF, ROOT, World, cpus};

/// What a second leaves of usage with a half-life of seven days.
const K: f64 = 1.0 - 0.693 / 604_800.0;

/// `lines` of slurm.conf in place of those of the same key in the world's configuration.
fn conf(lines: &str) -> String {
    let mut text = format!("AccountingStorageType=accounting_storage/slurmdbd\n{lines}\n");
    let own = |key: &str| lines.lines().any(|line| line.starts_with(key));
    for line in CONF.lines() {
        let key = line.split('=').next().unwrap_or_default();
        let partition = line
            .strip_prefix("PartitionName=")
            .and_then(|rest| rest.split_whitespace().next());
        let replaced = match (key, partition) {
            (_, Some(name)) => own(&format!("PartitionName={name}")),
            ("NodeName", _) => own("NodeName="),
            (key, _) => own(&format!("{key}=")),
        };
        if !replaced {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn row(id: u32, account: &str, user: &str, parent: &str, shares: Option<u32>) -> AssociationRecord {
    let mut record = AssociationRecord::new("test", account, user);
    record.id = id;
    record.parent_account = parent.to_owned();
    record.shares = shares;
    record
}

fn qos(id: u32, name: &str, priority: u32) -> QosRecord {
    QosRecord {
        id,
        name: name.to_owned(),
        priority,
        ..QosRecord::default()
    }
}

/// Two labs of two users: alice (user1001) and bob (user1002) in one account each, somebody idle beside each of them.
fn rows() -> Vec<AssociationRecord> {
    vec![
        row(1, "root", "", "", Some(1)),
        row(2, "bio", "", "root", Some(3)),
        row(3, "phy", "", "root", Some(1)),
        row(4, "bio", "user1001", "", Some(1)),
        row(5, "bio", "idle1", "", Some(1)),
        row(6, "phy", "user1002", "", Some(1)),
        row(7, "phy", "idle2", "", Some(1)),
    ]
}

fn users() -> Vec<UserRecord> {
    [("user1001", "bio"), ("user1002", "phy")]
        .map(|(name, account)| UserRecord {
            name: name.to_owned(),
            default_accounts: vec![("test".to_owned(), account.to_owned())],
            ..UserRecord::default()
        })
        .to_vec()
}

fn load(w: &mut World, rows: Vec<AssociationRecord>, qos: Vec<QosRecord>) -> bool {
    w.run(|t| Ok(policy::load(t, rows, qos, users())))
        .expect("never refused")
}

fn world(lines: &str) -> World {
    let mut w = World::with_conf(&conf(lines));
    assert!(load(&mut w, rows(), vec![qos(1, "normal", 0)]));
    cycle(&mut w);
    w
}

/// A cycle, if it is due.
fn cycle(w: &mut World) {
    w.run(|t| {
        cycle_if_due(t, None);
        Ok(())
    })
    .expect("never refused");
}

fn later(w: &mut World, secs: i64) {
    w.now = w.now + secs;
}

fn priority(w: &World, id: JobId) -> u32 {
    w.cluster
        .priority_of(w.cluster.job(id).expect("job exists"))
}

fn raw(w: &World, association: u32) -> f64 {
    w.cluster.usage.raw(association)
}

#[track_caller]
fn near(found: f64, wanted: f64) {
    assert!(
        (found - wanted).abs() <= wanted.abs() * 1e-12,
        "{found} instead of {wanted}"
    );
}

fn update(
    w: &mut World,
    id: JobId,
    update: &JobUpdate,
    caller: &sluice_controller::command::Caller,
) {
    let outcomes = w
        .run(|t| Ok(update_targets(t, &[id.to_string()], update, caller)))
        .expect("never refused as a whole");
    assert_eq!(outcomes[0].rejection, None);
}

/// A full priority, term by term as in the reference, section 7: 100 nodes of 64 CPUs, a partition with 10 nodes and 80 GPUs.
#[test]
fn every_factor_of_the_formula() {
    let mut w = World::with_conf(&conf(
        "PriorityWeightAge=1000\nPriorityWeightFairshare=10000\nPriorityWeightJobSize=1000\n\
         PriorityWeightPartition=1000\nPriorityWeightQOS=2000\nPriorityWeightTRES=cpu=1000,gres/gpu=3000\n\
         NodeName=n[1-10] CPUs=64 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:fake:8\n\
         NodeName=n[11-100] CPUs=64 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=8000\n\
         PartitionName=main Nodes=n[1-100] Default=YES MaxTime=1-0 PriorityJobFactor=10\n\
         PartitionName=short Nodes=n[1-10] MaxTime=1-0 PriorityJobFactor=5",
    ));
    // Ranks of four users: idle1 without usage first, user1001 second, those without shares last: 3/4 for user1001.
    let mut rows = rows();
    rows[2].shares = Some(0);
    rows[5].shares = Some(0);
    rows[6].shares = Some(0);
    let kinds = vec![qos(1, "normal", 0), qos(2, "high", 10), qos(3, "top", 20)];
    load(&mut w, rows, kinds);
    let used = w.submit(cpus(1));
    w.pass();
    later(&mut w, 10);
    w.finish(used, WaitStatus::SUCCESS);
    let id = w
        .try_submit(
            JobDescription {
                partitions: vec!["short".to_owned()],
                qos: Some("high".to_owned()),
                nice: 100,
                min_nodes: Some(1),
                gres_per_node: vec![sluice_model::gres::GresRequest {
                    name: "gpu".to_owned(),
                    type_name: None,
                    count: 2,
                }],
                ..cpus(16)
            },
            &ALICE,
        )
        .expect("accepted");
    later(&mut w, 7200);
    cycle(&mut w);
    let reader = FactorReader::new(&w.cluster);
    let rows = reader.rows(w.cluster.job(id).expect("job exists"));
    let factors = &rows[0].factors;
    assert_eq!(factors.fairshare, 0.75);
    near(factors.age, 7200.0 / 604_800.0);
    near(factors.size, (1.0 / 100.0 + 16.0 / 6400.0) / 2.0);
    assert_eq!((factors.partition, factors.qos), (0.5, 0.5));
    // 1000 × 16/640 + 3000 × 2/80
    near(factors.tres, 25.0 + 75.0);
    // 11.9048 + 7500 + 6.25 + 500 + 1000 + 25 + 75 − 100 = 9018.1548
    assert_eq!(format!("{:.4}", rows[0].sum), "9018.1548");
    assert_eq!(priority(&w, id), 9018);
    // More nice than there are terms: 1, not 0 and not held.
    let nice = JobUpdate {
        nice: Some(20_000),
        ..JobUpdate::default()
    };
    update(&mut w, id, &nice, &ALICE);
    assert_eq!(priority(&w, id), 1);
}

/// Four CPUs for a cycle of 300 s, then 100 s more to the end: charged once each, on the user and all above, and worn since.
#[test]
fn usage_of_a_job_by_hand() {
    let mut w = world("");
    let job = w.submit(cpus(4));
    w.pass();
    later(&mut w, 300);
    cycle(&mut w);
    let first = 300.0 * K.powi(300) * 4.0;
    near(raw(&w, 4), first);
    // 4 × 300 × k^300 = 1200 × 0.99965631 = 1199.5876
    assert_eq!(format!("{first:.4}"), "1199.5876");
    later(&mut w, 100);
    w.finish(job, WaitStatus::SUCCESS);
    let both = first + 100.0 * K.powi(100) * 4.0;
    for association in [4, 2, 1] {
        near(raw(&w, association), both);
    }
    assert_eq!((raw(&w, 3), raw(&w, 5)), (0.0, 0.0));
    let usage = w.cluster.usage.associations[&4].clone();
    near(usage.wall, both / 4.0);
    near(usage.tres[&TresKind::Cpu], both);
    // 100 MiB a CPU
    near(usage.tres[&TresKind::Mem], both * 100.0);
    near(w.cluster.usage.qos[&1].raw, both);
    // Nothing runs: only wear, from the last cycle on.
    later(&mut w, 200);
    cycle(&mut w);
    near(raw(&w, 4), both * K.powi(300));
    // Nothing is due before the period is over.
    let kept = raw(&w, 4);
    later(&mut w, 299);
    cycle(&mut w);
    assert_eq!(raw(&w, 4), kept);
}

/// A suspended job goes on being charged; a requeued one is charged for what it ran, and its next run from its start.
#[test]
fn suspended_and_requeued_jobs() {
    let mut w = world("PriorityDecayHalfLife=0\nPriorityUsageResetPeriod=YEARLY");
    let job = w.submit(cpus(2));
    w.pass();
    later(&mut w, 50);
    w.run(|t| {
        Ok(suspend::suspend_targets(
            t,
            &[job.to_string()],
            false,
            &ALICE,
        ))
    })
    .expect("ok");
    later(&mut w, 250);
    cycle(&mut w);
    // No half-life: plain seconds. 2 CPUs × 300 s.
    assert_eq!(raw(&w, 1), 600.0);
    w.run(|t| {
        Ok(suspend::suspend_targets(
            t,
            &[job.to_string()],
            true,
            &ALICE,
        ))
    })
    .expect("ok");
    later(&mut w, 40);
    let again = sluice_controller::command::requeue::RequeueRequest::default();
    w.run(|t| {
        Ok(sluice_controller::command::requeue::requeue_targets(
            t,
            &[job.to_string()],
            again,
            &ALICE,
        ))
    })
    .expect("ok");
    assert_eq!(raw(&w, 1), 680.0);
    later(&mut w, 10);
    w.epilogs();
    assert_eq!(raw(&w, 1), 680.0);
    later(&mut w, 400);
    w.pass();
    assert_eq!(w.state(job), "R");
    later(&mut w, 5);
    w.finish(job, WaitStatus::SUCCESS);
    assert_eq!(raw(&w, 1), 690.0);
}

/// Billing is not cut before it is multiplied: CPU=1.0, Mem=0.25G of 3 CPUs with 300 MiB is 3.0732 units.
#[test]
fn billing_weights_usage_factor_and_qos_without_decay() {
    let mut w = World::with_conf(&conf(
        "PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-0 TRESBillingWeights=CPU=1.0,Mem=0.25G QOS=part",
    ));
    let own = QosRecord {
        usage_factor: 2.0,
        flags: "NoDecay".to_owned(),
        ..qos(2, "double", 0)
    };
    let part = QosRecord {
        usage_factor: 7.0,
        ..qos(3, "part", 0)
    };
    load(&mut w, rows(), vec![qos(1, "normal", 0), own, part]);
    cycle(&mut w);
    let job = w.submit(JobDescription {
        qos: Some("double".to_owned()),
        ..cpus(3)
    });
    w.pass();
    assert_eq!(w.state(job), "R");
    later(&mut w, 300);
    cycle(&mut w);
    let units = 3.0 + 300.0 * 0.25 / 1024.0;
    // The factor is the job QOS's, also on associations and the partition's QOS; NoDecay counts whole seconds.
    near(raw(&w, 4), units * 2.0 * 300.0 * K.powi(300));
    near(
        w.cluster.usage.qos[&3].raw,
        units * 2.0 * 300.0 * K.powi(300),
    );
    near(w.cluster.usage.qos[&2].raw, units * 2.0 * 300.0);
    assert!(!w.cluster.usage.qos.contains_key(&1));
    w.finish(job, WaitStatus::SUCCESS);
    later(&mut w, 300);
    cycle(&mut w);
    near(w.cluster.usage.qos[&2].raw, units * 2.0 * 300.0);
    near(raw(&w, 4), units * 2.0 * 300.0 * K.powi(600));
    // The period ends: everything begins again, what has no decay too.
    later(&mut w, 10);
    let boundary = w.now;
    w.run(|t| {
        cycle_if_due(t, Some(boundary));
        Ok(())
    })
    .expect("ok");
    assert_eq!(raw(&w, 1), 0.0);
    assert!(!w.cluster.usage.qos.contains_key(&2));
    assert_eq!(w.cluster.usage.last_reset, boundary);
}

/// RawUsage=0 of an account takes its usage from all above it; of a QOS any number can be set.
#[test]
fn usage_is_set_back_by_hand() {
    let mut w = world("PriorityDecayHalfLife=0\nPriorityUsageResetPeriod=YEARLY");
    let (a, b) = (
        w.submit(cpus(2)),
        w.try_submit(cpus(1), &BOB).expect("accepted"),
    );
    w.pass();
    later(&mut w, 100);
    w.finish(a, WaitStatus::SUCCESS);
    w.finish(b, WaitStatus::SUCCESS);
    assert_eq!((raw(&w, 1), raw(&w, 2), raw(&w, 6)), (300.0, 200.0, 100.0));
    w.run(|t| {
        policy::set_usage(t, vec![2, 99], vec![(1, 42.0), (98, 1.0)]);
        Ok(())
    })
    .expect("ok");
    assert_eq!((raw(&w, 1), raw(&w, 2), raw(&w, 4)), (100.0, 0.0, 0.0));
    assert_eq!(w.cluster.usage.qos[&1].raw, 42.0);
    // phy is moved below bio: usage follows.
    let mut moved = rows();
    moved[2].parent_account = "bio".to_owned();
    load(&mut w, moved, vec![qos(1, "normal", 0)]);
    assert_eq!((raw(&w, 1), raw(&w, 2), raw(&w, 3)), (100.0, 100.0, 100.0));
    // Fair share is worked out again at once: within bio phy has used everything, user1001 nothing.
    let standings = &w.cluster.usage.standings;
    assert_eq!(standings[&4].effective_usage, 0.0);
    assert_eq!(standings[&3].effective_usage, 1.0);
}

/// An account and one inside it that move in one change take their usage along once: what is above their old place has none of it
/// left, what is above the new one has all of it.
#[test]
fn usage_follows_accounts_that_move_together() {
    let mut w = world("PriorityDecayHalfLife=0\nPriorityUsageResetPeriod=YEARLY");
    let normal = || vec![qos(1, "normal", 0)];
    let mut tree = rows();
    tree.push(row(8, "outer", "", "root", Some(1)));
    tree[1].parent_account = "outer".to_owned();
    load(&mut w, tree.clone(), normal());
    let job = w.submit(cpus(2));
    w.pass();
    later(&mut w, 100);
    w.finish(job, WaitStatus::SUCCESS);
    let used = |w: &World| [1, 8, 2, 3].map(|id| raw(w, id));
    assert_eq!(used(&w), [200.0, 200.0, 200.0, 0.0]);
    // bio leaves outer for phy, and outer goes below phy as well.
    tree[1].parent_account = "phy".to_owned();
    tree[7].parent_account = "phy".to_owned();
    load(&mut w, tree, normal());
    assert_eq!(used(&w), [200.0, 0.0, 200.0, 200.0]);
}

/// Reservations and licence weights ask for what a job has, however it came by it: the account's default QOS lets a job in, and
/// licences count in every form that `-L` takes.
#[test]
fn defaults_and_licences_are_those_of_the_job() {
    let mut w = world("Licenses=matlab:5\nPriorityWeightTRES=license/matlab=1000");
    let mut tree = rows();
    tree[1].default_qos = "long".to_owned();
    tree[1].qos = Some(vec!["normal".to_owned(), "long".to_owned()]);
    load(&mut w, tree, vec![qos(1, "normal", 0), qos(2, "long", 0)]);
    let wanted = ReservationRequest {
        name: "r".to_owned(),
        start_time: Some(w.now),
        duration: Some(TimeLimit::Minutes(600)),
        node_counts: vec![1],
        qos: Some("long".to_owned()),
        ..ReservationRequest::default()
    };
    w.run(|t| reservation::create(t, &wanted, &ROOT))
        .expect("made");
    let in_it = |qos: Option<&str>| JobDescription {
        reservation: Some("r".to_owned()),
        qos: qos.map(str::to_owned),
        time_limit: Some(TimeLimit::Minutes(10)),
        ..cpus(1)
    };
    assert!(w.try_submit(in_it(None), &ALICE).is_ok());
    assert!(w.try_submit(in_it(Some("normal")), &ALICE).is_err());
    // 2 of 5, as `=` gives them; 1 and 2 in two items: 1000 × 2/5 and 1000 × 3/5.
    for (text, expected) in [("matlab=2", 400), ("matlab:1,matlab:2", 600)] {
        let job = w.submit(JobDescription {
            licenses: Some(text.to_owned()),
            ..cpus(1)
        });
        assert_eq!(priority(&w, job), expected, "{text}");
    }
}

/// Fair share moves priorities at the next cycle, and who used less starts first.
#[test]
fn who_used_less_comes_first() {
    let mut w = world("PriorityWeightFairshare=1000");
    let job = w.submit(cpus(4));
    w.pass();
    let (mine, other) = (
        w.submit(cpus(16)),
        w.try_submit(cpus(16), &BOB).expect("accepted"),
    );
    assert_eq!((priority(&w, mine), priority(&w, other)), (1000, 1000));
    later(&mut w, 300);
    cycle(&mut w);
    // phy has used nothing: both its users first; in bio idle1 before user1001. Ranks 4, 4, 2, 1 of 4.
    assert_eq!((priority(&w, mine), priority(&w, other)), (250, 1000));
    w.finish(job, WaitStatus::SUCCESS);
    w.pass();
    assert_eq!((w.state(mine), w.state(other)), ("PD".into(), "R".into()));
}

/// Age grows from the time a job could run, once a cycle; a hold lets it begin again; ACCRUE_ALWAYS counts from submission.
#[test]
fn age_begins_when_the_job_could_run() {
    let lines = "PriorityWeightAge=604800";
    let mut w = world(lines);
    let held = w.submit(JobDescription {
        hold: true,
        ..cpus(1)
    });
    let begin = w.now + 600;
    let future = w.submit(JobDescription {
        begin_time: Some(begin),
        ..cpus(1)
    });
    let plain = w.submit(cpus(1));
    later(&mut w, 300);
    cycle(&mut w);
    // One point a second.
    assert_eq!(
        [held, future, plain].map(|id| priority(&w, id)),
        [0, 1, 300]
    );
    later(&mut w, 299);
    cycle(&mut w);
    assert_eq!(priority(&w, plain), 300);
    w.run(|t| {
        Ok(hold_targets(
            t,
            &[held.to_string()],
            HoldKind::Release,
            &ALICE,
        ))
    })
    .expect("ok");
    later(&mut w, 401);
    cycle(&mut w);
    // Released at 599, begun at 600, submitted at 0; now it is 1000.
    assert_eq!(
        [held, future, plain].map(|id| priority(&w, id)),
        [401, 400, 1000]
    );
    w.run(|t| {
        Ok(hold_targets(
            t,
            &[plain.to_string()],
            HoldKind::Hold,
            &ALICE,
        ))
    })
    .expect("ok");
    later(&mut w, 300);
    w.run(|t| {
        Ok(hold_targets(
            t,
            &[plain.to_string()],
            HoldKind::Release,
            &ALICE,
        ))
    })
    .expect("ok");
    assert_eq!(priority(&w, plain), 1);
    let mut always = world(&format!("{lines}\nPriorityFlags=ACCRUE_ALWAYS"));
    let held = always.submit(JobDescription {
        hold: true,
        ..cpus(1)
    });
    later(&mut always, 500);
    always
        .run(|t| {
            Ok(hold_targets(
                t,
                &[held.to_string()],
                HoldKind::Release,
                &ALICE,
            ))
        })
        .expect("ok");
    assert_eq!(priority(&always, held), 500);
}

/// Age stands still while the partition's limit is below what the job asks for.
#[test]
fn age_stands_still_while_a_limit_makes_the_job_impossible() {
    let mut w = world("PriorityWeightAge=604800\nEnforcePartLimits=NO");
    let job = w.submit(JobDescription {
        time_limit: Some(sluice_model::time::TimeLimit::Minutes(5_000)),
        ..cpus(1)
    });
    later(&mut w, 300);
    cycle(&mut w);
    assert_eq!(priority(&w, job), 1);
    let shorter = JobUpdate {
        time_limit: Some(sluice_model::time::TimeLimit::Minutes(60)),
        ..JobUpdate::default()
    };
    update(&mut w, job, &shorter, &ALICE);
    later(&mut w, 300);
    cycle(&mut w);
    assert_eq!(priority(&w, job), 300);
}

/// A job in two partitions has a priority in each and is served by it there.
#[test]
fn one_priority_for_each_partition() {
    let mut w = world(
        "PriorityWeightPartition=1000\nPriorityWeightTRES=cpu=1000\n\
         PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-0 PriorityJobFactor=10\n\
         PartitionName=short Nodes=n[1-2] MaxTime=1-0 PriorityJobFactor=4",
    );
    let job = w.submit(JobDescription {
        partitions: vec!["main".to_owned(), "short".to_owned()],
        ..cpus(4)
    });
    let standing = |w: &World, name: &str| {
        let job = w.cluster.job(job).expect("job exists");
        w.cluster.standing_in(job, name)
    };
    // main: 1000 × 10/10 + 1000 × 4/16; short: 1000 × 4/10 + 1000 × 4/8.
    assert_eq!((standing(&w, "main"), standing(&w, "short")), (1250, 900));
    let reader = FactorReader::new(&w.cluster);
    let sums: Vec<f64> = reader
        .rows(w.cluster.job(job).expect("job exists"))
        .iter()
        .map(|row| row.sum)
        .collect();
    assert_eq!(sums, [1250.0, 900.0]);
    w.pass();
    assert_eq!(priority(&w, job), 1250);
}

/// Priorities set by hand are not calculated until they are set back; SiteFactor is the operators'.
#[test]
fn direct_priority_and_site_factor() {
    let mut w = world("PriorityWeightAge=604800");
    let job = w.submit(cpus(1));
    let set = |priority: u32| JobUpdate {
        priority: Some(priority),
        ..JobUpdate::default()
    };
    update(&mut w, job, &set(5000), &ROOT);
    later(&mut w, 300);
    cycle(&mut w);
    assert_eq!(priority(&w, job), 5000);
    let reader = FactorReader::new(&w.cluster);
    let rows = reader.rows(w.cluster.job(job).expect("job exists"));
    assert_eq!((rows[0].direct, rows[0].factors.age), (Some(5000), 0.0));
    update(&mut w, job, &set(u32::MAX), &ROOT);
    assert_eq!(priority(&w, job), 300);
    let mut site = JobUpdate::default();
    site.extra
        .insert("site-factor".to_owned(), "1000".to_owned());
    let refused = w
        .run(|t| Ok(update_targets(t, &[job.to_string()], &site, &ALICE)))
        .expect("ok");
    assert!(refused[0].rejection.is_some());
    update(&mut w, job, &site, &ROOT);
    assert_eq!(priority(&w, job), 1300);
    // A user cannot bring one along.
    let mut description = cpus(1);
    description
        .extra
        .insert("site-factor".to_owned(), "9".to_owned());
    let other = w.submit(description);
    assert_eq!(priority(&w, other), 1);
}

/// INCR_ONLY: fair share falls, the priority does not.
#[test]
fn incr_only_keeps_the_higher() {
    let mut w = world("PriorityWeightFairshare=1000\nPriorityFlags=INCR_ONLY");
    w.submit(cpus(4));
    w.pass();
    let waiting = w.submit(cpus(16));
    later(&mut w, 300);
    cycle(&mut w);
    assert_eq!(w.cluster.usage.standings[&4].factor, 0.25);
    assert_eq!(priority(&w, waiting), 1000);
}

/// CALCULATE_RUNNING: age of a running job goes on growing.
#[test]
fn running_jobs_are_calculated_when_asked() {
    for (flags, wanted) in [("", 1), ("\nPriorityFlags=CALCULATE_RUNNING", 300)] {
        let mut w = world(&format!("PriorityWeightAge=604800{flags}"));
        let job = w.submit(cpus(1));
        w.pass();
        later(&mut w, 300);
        cycle(&mut w);
        assert_eq!(priority(&w, job), wanted);
    }
}

/// priority/basic: one lower for each job, nice on top; a released job comes behind all.
#[test]
fn basic_counts_down() {
    let mut w = World::with_conf(&conf("PriorityType=priority/basic"));
    let held = w.submit(JobDescription {
        hold: true,
        ..cpus(1)
    });
    let first = w.submit(cpus(1));
    let nice = w.submit(JobDescription {
        nice: 10,
        ..cpus(1)
    });
    let third = w.submit(cpus(1));
    // 0xffff0000 − 1; one lower and 10 for nice; one below that.
    let top = 4_294_901_760;
    assert_eq!(
        [held, first, nice, third].map(|id| priority(&w, id)),
        [0, top - 1, top - 12, top - 13]
    );
    later(&mut w, 1000);
    cycle(&mut w);
    assert_eq!(priority(&w, first), top - 1);
    w.run(|t| {
        Ok(hold_targets(
            t,
            &[held.to_string()],
            HoldKind::Release,
            &ALICE,
        ))
    })
    .expect("ok");
    assert_eq!(priority(&w, held), top - 14);
}

/// `scontrol top` exchanges places through nice values whose sum stays.
#[test]
fn top_exchanges_places() {
    let mut w = world("PriorityWeightAge=604800\nSchedulerParameters=enable_user_top");
    let first = w.submit(cpus(1));
    later(&mut w, 100);
    let second = w.submit(cpus(1));
    later(&mut w, 200);
    w.run(|t| {
        top(t, &[second.to_string()], &ALICE).expect("allowed");
        Ok(())
    })
    .expect("ok");
    // 300 and 200 s old: they exchange 300 and 200.
    assert_eq!((priority(&w, first), priority(&w, second)), (200, 300));
    let nice = |id: JobId| w.cluster.job(id).expect("job exists").request.nice;
    assert_eq!((nice(first), nice(second)), (100, -100));
    later(&mut w, 300);
    cycle(&mut w);
    assert_eq!((priority(&w, first), priority(&w, second)), (500, 600));
}

/// What the policy says acts at once on jobs that wait; the same again makes no event.
#[test]
fn policy_acts_at_once() {
    let mut w = World::with_conf(&conf("PriorityWeightQOS=1000\nPriorityWeightAssoc=100"));
    let job = w.submit(JobDescription {
        account: Some("bio".to_owned()),
        ..cpus(1)
    });
    assert_eq!(w.cluster.job(job).expect("job").association, None);
    load(&mut w, rows(), vec![qos(1, "normal", 5)]);
    let record = w.cluster.job(job).expect("job").clone();
    assert_eq!((record.association, record.qos_id), (Some(4), Some(1)));
    assert_eq!(priority(&w, job), 1000);
    assert!(!load(&mut w, rows(), vec![qos(1, "normal", 5)]));
    let mut changed = rows();
    changed[1].priority = Some(30);
    changed[2].priority = Some(40);
    load(
        &mut w,
        changed,
        vec![qos(1, "normal", 5), qos(2, "high", 20)],
    );
    // 1000 × 5/20 + 100 × 30/40
    assert_eq!(priority(&w, job), 325);
    // A user's default account, default QOS of the account.
    let mut changed = rows();
    changed[1].default_qos = "high".to_owned();
    load(
        &mut w,
        changed,
        vec![qos(1, "normal", 5), qos(2, "high", 20)],
    );
    let by_default = w.submit(cpus(1));
    let record = w.cluster.job(by_default).expect("job").clone();
    assert_eq!(
        (record.account.as_str(), record.qos.as_str()),
        ("bio", "high")
    );
    assert_eq!(priority(&w, by_default), 1000);
}

/// NO_NORMAL_ALL: priorities, job factor and TRES counts themselves are weighted.
#[test]
fn raw_values_where_they_are_not_to_be_normal() {
    let mut w = World::with_conf(&conf(
        "PriorityFlags=NO_NORMAL_ALL\nPriorityWeightAssoc=1\nPriorityWeightPartition=10\n\
         PriorityWeightQOS=100\nPriorityWeightTRES=cpu=1000\n\
         PartitionName=main Nodes=n[1-4] Default=YES MaxTime=1-0 PriorityJobFactor=7",
    ));
    let mut rows = rows();
    rows[1].priority = Some(5);
    load(&mut w, rows, vec![qos(1, "normal", 3), qos(2, "high", 300)]);
    let job = w.submit(cpus(2));
    // 1 × 5 + 10 × 7 + 100 × 3 + 1000 × 2
    assert_eq!(priority(&w, job), 5 + 70 + 300 + 2000);
}

/// Without accounting age and fair share have no weight; the others go on.
#[test]
fn age_and_fair_share_need_accounting() {
    let text = conf("PriorityWeightAge=604800\nPriorityWeightPartition=10")
        .replace("accounting_storage/slurmdbd", "accounting_storage/none");
    let mut w = World::with_conf(&text);
    let job = w.submit(cpus(1));
    later(&mut w, 300);
    cycle(&mut w);
    assert_eq!(priority(&w, job), 10);
}

/// What jobs use now is counted on the user's row and all above it; time booked shrinks with each cycle.
#[test]
fn use_at_the_moment() {
    let mut w = world("PriorityWeightAge=1000");
    let job = w.submit(JobDescription {
        time_limit: Some(sluice_model::time::TimeLimit::Minutes(60)),
        ..cpus(4)
    });
    w.pass();
    w.submit(JobDescription {
        array: Some("1-5".to_owned()),
        ..cpus(16)
    });
    w.submit(JobDescription {
        hold: true,
        ..cpus(1)
    });
    later(&mut w, 300);
    let uses = |w: &World| sluice_controller::policy::in_use::fold(&w.cluster, w.now);
    let booked = |w: &World| uses(w).associations[&1].run_secs[&TresKind::Cpu];
    assert_eq!(booked(&w), 4 * 3600);
    cycle(&mut w);
    assert_eq!(booked(&w), 4 * 3300);
    let found = uses(&w);
    for id in [1, 2, 4] {
        let one = &found.associations[&id];
        assert_eq!(
            (one.running, one.submitted, one.accruing),
            (1, 7, 1),
            "{id}"
        );
        assert_eq!(one.tres.to_string(), "cpu=4,mem=400M,node=1,billing=4");
    }
    assert_eq!(found.qos[&1].submitted, 7);
    assert_eq!(found.qos_users[&(1, "user1001".to_owned())].running, 1);
    assert_eq!(found.qos_accounts[&(1, "bio".to_owned())].running, 1);
    w.finish(job, WaitStatus::SUCCESS);
    assert_eq!(uses(&w).associations[&4].running, 0);
}

/// A checkpoint in the middle and the events after it give the very bits of the live state.
#[test]
fn a_restart_in_the_middle_is_exact() {
    let mut w =
        world("PriorityWeightAge=1000\nPriorityWeightFairshare=1000\nPriorityWeightJobSize=77");
    let jobs: Vec<JobId> = (1..=4).map(|n| w.submit(cpus(n))).collect();
    w.pass();
    later(&mut w, 123);
    w.finish(jobs[0], WaitStatus::SUCCESS);
    later(&mut w, 200);
    cycle(&mut w);
    let bytes = rmp_serde::to_vec_named(&w.cluster).expect("encodes");
    let restarted: Cluster = rmp_serde::from_slice(&bytes).expect("decodes");
    let mut other = restarted;
    let time = w.now + 301;
    for cluster in [&mut w.cluster.clone(), &mut other] {
        let event = sluice_controller::Event::PrioritiesCalculated { time, reset: false };
        sluice_controller::event::apply(cluster, &event);
        let usage = cluster.usage.raw(1);
        let secs = 301.0_f64;
        // 2 + 3 + 4 CPUs ran on; the rest was worn.
        let wanted = raw(&w, 1) * K.powi(301) + 9.0 * secs * K.powi(301);
        near(usage, wanted);
    }
    w.now = UnixSeconds(time.0);
    cycle(&mut w);
    assert_eq!(other.usage, w.cluster.usage);
    assert_eq!(other.priorities, w.cluster.priorities);
}
