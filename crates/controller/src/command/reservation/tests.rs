//! Commands on reservations: what is refused with which code, what the record becomes, what time does.

use sluice_model::error_code::ErrorCode;
use sluice_model::reason::Reason;
use sluice_model::reservation::{ReservationFlags, ReservationRequest};
use sluice_model::time::{TimeLimit, UnixSeconds};

use super::{create, delete, tick, update};
use crate::cluster::{Cluster, Reservation};
use crate::command::{Caller, Rejection};
use crate::reservation::named;
use crate::schedule::scenario::{EPOCH, World, check};
use crate::transaction::Transaction;

fn run<T>(
    world: &mut World,
    command: impl FnOnce(&mut Transaction<'_>) -> Result<T, Rejection>,
) -> Result<T, ErrorCode> {
    let now = UnixSeconds(world.now);
    Transaction::run(&mut world.cluster, now, command)
        .map(|(value, _, _)| value)
        .map_err(|rejection| rejection.code)
}

fn request(name: &str) -> ReservationRequest {
    ReservationRequest {
        name: name.to_owned(),
        start_time: Some(UnixSeconds(EPOCH + 3600)),
        duration: Some(TimeLimit::Minutes(120)),
        nodes: Some("n1".to_owned()),
        users: Some("root".to_owned()),
        ..ReservationRequest::default()
    }
}

fn make(world: &mut World, request: &ReservationRequest) -> Result<String, ErrorCode> {
    run(world, |t| create(t, request, &Caller::root()))
}

fn change(world: &mut World, request: &ReservationRequest) -> Result<(), ErrorCode> {
    run(world, |t| update(t, request, &Caller::root()))
}

fn get<'c>(cluster: &'c Cluster, name: &str) -> &'c Reservation {
    named(cluster, name).expect("it is there")
}

fn pass_of_time(world: &mut World, time: i64) {
    world.now = EPOCH + time;
    run(world, |t| {
        tick(t);
        Ok(())
    })
    .expect("a tick is never refused");
}

const NODES: &str = "nodes n[1-4] cpus=8";

/// Each check of a new reservation, with Slurm's code.
#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::new(NODES);
    let with = |edit: &dyn Fn(&mut ReservationRequest)| {
        let mut asked = request("r");
        edit(&mut asked);
        asked
    };
    let cases: [(ReservationRequest, ErrorCode); 9] = [
        (with(&|r| r.start_time = None), ErrorCode::InvalidTimeValue),
        (
            with(&|r| r.start_time = Some(UnixSeconds(EPOCH - 3600))),
            ErrorCode::InvalidTimeValue,
        ),
        (with(&|r| r.duration = None), ErrorCode::InvalidTimeValue),
        (with(&|r| r.users = None), ErrorCode::ReservationEmpty),
        (
            with(&|r| r.groups = Some("g".to_owned())),
            ErrorCode::ReservationUserGroup,
        ),
        (
            with(&|r| r.users = Some("a,-b".to_owned())),
            ErrorCode::InvalidUserId,
        ),
        (
            with(&|r| r.partition = Some("none".to_owned())),
            ErrorCode::InvalidPartitionName,
        ),
        (
            with(&|r| r.nodes = Some("nosuch".to_owned())),
            ErrorCode::InvalidNodeName,
        ),
        (
            with(&|r| r.licenses = Some("nosuch:1".to_owned())),
            ErrorCode::InvalidLicenses,
        ),
    ];
    for (asked, code) in cases {
        assert_eq!(make(&mut world, &asked), Err(code), "{asked:?}");
    }
    assert_eq!(
        run(&mut world, |t| create(t, &request("r"), &Caller::user(7))),
        Err(ErrorCode::InvalidUserId)
    );
    assert_eq!(make(&mut world, &request("r")), Ok("r".to_owned()));
    assert_eq!(
        make(&mut world, &request("r")),
        Err(ErrorCode::ReservationNameDuplicate)
    );
    assert_eq!(
        make(&mut world, &request("other")),
        Err(ErrorCode::ReservationOverlap)
    );
    let overlapping = ReservationRequest {
        flags_add: ReservationFlags::OVERLAP.0,
        ..request("other")
    };
    assert_eq!(make(&mut world, &overlapping), Ok("other".to_owned()));
}

/// A node with a job that runs into it is busy, unless jobs are ignored; an unnamed one is named after its user and its number.
#[test]
fn running_jobs_are_in_the_way() {
    let mut world = World::new(NODES);
    world.step("running R on=n1 cpus=1 limit=2h");
    assert_eq!(make(&mut world, &request("")), Err(ErrorCode::NodesBusy));
    let ignoring = ReservationRequest {
        flags_add: ReservationFlags::IGNORE_JOBS.0,
        ..request("")
    };
    assert_eq!(make(&mut world, &ignoring), Ok("root_1".to_owned()));
    // Without names, nodes are chosen that nobody has.
    let any_two = ReservationRequest {
        nodes: None,
        node_counts: vec![2],
        ..request("two")
    };
    assert_eq!(make(&mut world, &any_two), Ok("two".to_owned()));
    let chosen = get(&world.cluster, "two");
    let nodes: Vec<&str> = chosen.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes, ["n2", "n3"]);
    assert_eq!(chosen.core_count, 16);
    assert_eq!(chosen.partition.as_deref(), Some("main"));
    let too_many = ReservationRequest {
        node_counts: vec![5],
        nodes: None,
        ..request("five")
    };
    assert_eq!(
        make(&mut world, &too_many),
        Err(ErrorCode::InvalidNodeCount)
    );
    let no_more = ReservationRequest {
        node_counts: vec![2],
        nodes: None,
        ..request("more")
    };
    assert_eq!(make(&mut world, &no_more), Err(ErrorCode::NodesBusy));
}

/// Lists are edited name by name; flags and lengths change; the start of one that has begun does not.
#[test]
fn updates_edit_the_record() {
    let mut world = World::new(NODES);
    make(&mut world, &request("r")).expect("made");
    let edit = |edit: &dyn Fn(&mut ReservationRequest)| {
        let mut asked = ReservationRequest {
            name: "r".to_owned(),
            ..ReservationRequest::default()
        };
        edit(&mut asked);
        asked
    };
    let set_users = |text: &str| edit(&|r| r.users = Some(text.to_owned()));
    change(&mut world, &set_users("+alice")).expect("added");
    change(&mut world, &set_users("-root")).expect("taken away");
    assert_eq!(
        get(&world.cluster, "r").users.shown().as_deref(),
        Some("alice")
    );
    assert_eq!(
        change(&mut world, &set_users("-bob")),
        Err(ErrorCode::InvalidUserId)
    );
    assert_eq!(
        change(&mut world, &set_users("")),
        Err(ErrorCode::ReservationEmpty)
    );
    change(&mut world, &set_users("-alice")).expect_err("nobody would be left");
    let longer = edit(&|r| r.duration_change = 60);
    change(&mut world, &longer).expect("longer");
    assert_eq!(
        get(&world.cluster, "r").end,
        UnixSeconds(EPOCH + 3600 + 10_800)
    );
    let daily = edit(&|r| r.flags_add = ReservationFlags::DAILY.0);
    change(&mut world, &daily).expect("daily");
    let also_weekly = edit(&|r| r.flags_add = ReservationFlags::WEEKLY.0);
    assert_eq!(
        change(&mut world, &also_weekly),
        Err(ErrorCode::NotSupported)
    );
    let skip = edit(&|r| r.flags_add = ReservationFlags::SKIP.0);
    change(&mut world, &skip).expect("skipped");
    assert_eq!(
        get(&world.cluster, "r").start,
        UnixSeconds(EPOCH + 3600 + 86_400)
    );
    pass_of_time(&mut world, 3600 + 86_400);
    assert!(get(&world.cluster, "r").begun);
    let start = edit(&|r| r.start_time = Some(UnixSeconds(EPOCH + 200_000)));
    assert_eq!(
        change(&mut world, &start),
        Err(ErrorCode::ReservationStarted)
    );
    let more_nodes = edit(&|r| r.nodes = Some("+n[2-3]".to_owned()));
    change(&mut world, &more_nodes).expect("more nodes");
    assert_eq!(get(&world.cluster, "r").nodes.len(), 3);
    let unknown = ReservationRequest {
        name: "x".to_owned(),
        ..ReservationRequest::default()
    };
    assert_eq!(
        change(&mut world, &unknown),
        Err(ErrorCode::ReservationInvalid)
    );
}

/// It begins, ends and is gone; one that recurs is there again for the next day.
#[test]
fn time_begins_ends_and_repeats() {
    let mut world = World::new(NODES);
    make(&mut world, &request("once")).expect("made");
    let daily = ReservationRequest {
        nodes: Some("n2".to_owned()),
        flags_add: ReservationFlags::DAILY.0,
        ..request("daily")
    };
    make(&mut world, &daily).expect("made");
    pass_of_time(&mut world, 3599);
    assert!(!get(&world.cluster, "once").begun);
    pass_of_time(&mut world, 3600);
    assert!(get(&world.cluster, "once").begun);
    pass_of_time(&mut world, 3600 + 7200);
    assert!(named(&world.cluster, "once").is_none());
    let again = get(&world.cluster, "daily");
    assert_eq!(again.start, UnixSeconds(EPOCH + 3600 + 86_400));
    assert!(!again.begun);
}

/// A job of a reservation that goes is held; it may be released by its owner, and then runs outside.
#[test]
fn jobs_of_a_deleted_reservation_are_held() {
    let mut world = World::new(NODES);
    let shared = ReservationRequest {
        users: Some("u".to_owned()),
        ..request("r")
    };
    make(&mut world, &shared).expect("made");
    let id = world.submit("A", "cpus=1 limit=1h resv=r");
    let root = Caller::root();
    assert_eq!(
        run(&mut world, |t| delete(t, "nosuch", "root", &root)),
        Err(ErrorCode::ReservationInvalid)
    );
    assert_eq!(
        run(&mut world, |t| delete(t, "r", "u", &Caller::user(7))),
        Err(ErrorCode::InvalidUserId)
    );
    run(&mut world, |t| delete(t, "r", "root", &root)).expect("deleted");
    let job = world.cluster.job(id).expect("the job");
    assert_eq!((job.priority, job.reason), (0, Reason::ReservationDeleted));
    assert_eq!(job.request.reservation, None);
}

/// Idle for so long after its start, a PURGE_COMP reservation goes.
#[test]
fn an_idle_one_is_purged() {
    let mut world = World::new(NODES);
    let purged = ReservationRequest {
        users: Some("u".to_owned()),
        flags_add: ReservationFlags::PURGE_COMP.0,
        purge_comp_secs: Some(600),
        ..request("r")
    };
    make(&mut world, &purged).expect("made");
    pass_of_time(&mut world, 3600);
    pass_of_time(&mut world, 3600 + 599);
    assert!(named(&world.cluster, "r").is_some());
    let id = world.submit("A", "cpus=1 limit=10m resv=r");
    pass_of_time(&mut world, 3600 + 650);
    assert!(named(&world.cluster, "r").is_some());
    run(&mut world, |t| {
        crate::command::job_end::end_pending(
            t,
            id,
            sluice_model::state::JobState::Cancelled,
            Reason::None,
            None,
        );
        Ok(())
    })
    .expect("cancelled");
    pass_of_time(&mut world, 3600 + 700);
    pass_of_time(&mut world, 3600 + 700 + 600);
    assert!(named(&world.cluster, "r").is_none());
}

/// A node that goes out of service is replaced, unless it was named or the choice is to stand.
#[test]
fn nodes_out_of_service_are_replaced() {
    let mut world = World::new(NODES);
    let two = ReservationRequest {
        nodes: None,
        node_counts: vec![2],
        ..request("two")
    };
    make(&mut world, &two).expect("made");
    world.step("down n1");
    pass_of_time(&mut world, 10);
    let nodes = |world: &World| -> Vec<String> {
        get(&world.cluster, "two")
            .nodes
            .iter()
            .map(|node| node.name.clone())
            .collect()
    };
    assert_eq!(nodes(&world), ["n2", "n3"]);
    let keep = ReservationRequest {
        name: "two".to_owned(),
        flags_add: ReservationFlags::STATIC_ALLOC.0,
        ..ReservationRequest::default()
    };
    change(&mut world, &keep).expect("changed");
    world.step("down n2");
    pass_of_time(&mut world, 20);
    assert_eq!(nodes(&world), ["n2", "n3"]);
}

/// Reservations page, maintenance: what would run into it waits, what ends before runs.
#[test]
fn maintenance_is_kept_free() {
    check(
        "
        nodes n[1-2] cpus=8
        reserve M nodes=n[1-2] start=1h length=2h flags=MAINT
        job Long cpus=1 limit=2h
        job Short cpus=1 limit=30m
        at 0 pass
        at 3h pass
        ",
        "Long pending ReqNodeNotAvail (Reserved for maintenance), start 3h on n1; Short starts n1 \
         | Long starts n1",
    );
}

/// One free node is enough for a job that fits it; one that needs both waits for the other's reservation to end.
#[test]
fn reserved_nodes_are_left_alone() {
    check(
        "
        nodes n[1-2] cpus=8
        reserve R nodes=n1 start=1h length=1h users=other
        job Both cpus=2 nodes=2 limit=2h
        job One cpus=1 limit=2h
        at 0 pass
        ",
        "Both pending ReqNodeNotAvail (May be reserved for other job), start 2h on n[1-2]; \
         One starts n2",
    );
}

/// Jobs in a reservation: before it begins they wait, then they use its nodes only. One whose limit goes beyond its end starts
/// as in Slurm (it is ended with the reservation), and nobody outside waits for its limit.
#[test]
fn jobs_run_in_their_reservation() {
    check(
        "
        nodes n[1-2] cpus=8
        reserve R nodes=n2 start=1h length=2h users=u
        job In cpus=8 limit=1h resv=R
        job Next cpus=8 limit=30m resv=R
        job Long cpus=1 limit=3h resv=R
        job Out cpus=16 nodes=2 limit=1h
        at 0 pass
        at 1h pass
        at 2h pass
        at 150m pass
        ",
        "In pending Reservation, start 1h; Long pending Reservation, start 1h; \
         Next pending Reservation, start 1h; Out starts n[1-2] \
         | In starts n2; Long pending Priority, start 150m on n2; Next pending Resources, start 2h on n2 \
         | Long pending Resources, start 150m on n2; Next starts n2 | Long starts n2",
    );
    check(
        "
        nodes n[1-2] cpus=8
        reserve R nodes=n2 length=2h users=u
        job Long cpus=1 limit=1d resv=R
        job Out cpus=16 nodes=2 limit=1h
        at 0 pass
        at 3h pass
        ",
        "Long starts n2; Out pending ReqNodeNotAvail (May be reserved for other job), start 2h on n[1-2] \
         | Out pending Resources, start 10801 on n[1-2]",
    );
    // Long was ended with its reservation, and completes at that moment.
}

/// FLEX: early, late, and on other nodes as well.
#[test]
fn flex_jobs_may_go_beyond() {
    check(
        "
        nodes n[1-2] cpus=8
        reserve R nodes=n2 start=1h length=1h users=u flags=FLEX
        job Wide cpus=16 nodes=2 limit=4h resv=R
        job Other cpus=1 limit=4h
        at 0 pass
        ",
        "Other pending Resources, start 4h on n1; Wide starts n[1-2]",
    );
}

/// MAGNETIC: a job that may use the reservation is drawn in; one that may not stays outside.
#[test]
fn magnetic_reservations_draw_jobs_in() {
    check(
        "
        nodes n[1-2] cpus=8
        reserve R nodes=n1 length=2h accounts=a flags=MAGNETIC
        job Drawn cpus=8 limit=1h
        job Second cpus=8 limit=1h
        job Third cpus=8 limit=1h
        at 0 pass
        ",
        "Drawn starts n1; Second starts n2; Third pending Resources, start 1h on n2",
    );
}

/// Cores are reserved, the rest of the node is not.
#[test]
fn core_reservations_leave_the_rest() {
    check(
        "
        nodes n1 cpus=8 sockets=2 cores=4 threads=1
        reserve R nodes=n1 cores=4 length=4h users=u
        job Out cpus=4 limit=1h
        job More cpus=1 limit=1h
        job In cpus=4 limit=1h resv=R
        job Behind cpus=1 limit=1h resv=R
        at 0 pass
        ",
        "Behind pending Resources, start 1h on n1; In starts n1; \
         More pending Resources, start 1h on n1; Out starts n1",
    );
}

/// A maintenance within a reservation keeps its jobs out too.
#[test]
fn maintenance_takes_from_reservations() {
    check(
        "
        nodes n[1-2] cpus=8
        reserve R nodes=n[1-2] length=4h users=u
        reserve M nodes=n1 start=1h length=1h flags=MAINT
        job Long cpus=8 limit=2h resv=R
        job Short cpus=8 limit=1h resv=R
        at 0 pass
        ",
        "Long starts n2; Short starts n1",
    );
}

/// A daily hour: what is longer than the time between two never starts there.
#[test]
fn recurring_reservations_are_seen_ahead() {
    check(
        "
        nodes n1 cpus=8
        reserve R nodes=n1 start=1h length=1h users=other flags=DAILY
        job Day cpus=1 limit=1d
        job Fits cpus=1 limit=22h
        at 0 pass
        ",
        "Day pending ReqNodeNotAvail (May be reserved for other job); \
         Fits pending ReqNodeNotAvail (May be reserved for other job), start 2h on n1",
    );
}

/// Licences: all of a list, one of several; what a reservation keeps is for its jobs.
#[test]
fn licenses_are_counted() {
    check(
        "
        config Licenses=a:2,b:1
        nodes n1 cpus=8
        running R on=n1 cpus=1 limit=1h licenses=a:1
        job Two cpus=1 limit=1h licenses=a:2
        job Either cpus=1 limit=1h licenses=a:2|b:1
        job Last cpus=1 limit=1h licenses=a
        at 0 pass
        at 1h pass
        ",
        "Either starts n1; Last starts n1; Two pending Licenses | Two starts n1",
    );
    check(
        "
        config Licenses=a:2
        nodes n1 cpus=8
        reserve L licenses=a:2 start=1h length=1h users=u flags=ANY_NODES
        job Out cpus=1 limit=2h licenses=a
        job Short cpus=1 limit=1h licenses=a
        job In cpus=1 limit=1h licenses=a:2 resv=L
        at 0 pass
        at 1h pass
        ",
        "In pending Reservation, start 1h; Out pending Licenses; Short starts n1 \
         | In starts n1; Out pending Licenses",
    );
}

/// With bf_licenses a job books the time at which its licences come back, and nobody takes them from it.
#[test]
fn licenses_are_planned() {
    check(
        "
        config Licenses=a:2
        config SchedulerParameters=bf_licenses
        nodes n1 cpus=8
        running R on=n1 cpus=1 limit=1h licenses=a:1
        job Two cpus=1 limit=1h licenses=a:2
        job Long cpus=1 limit=2h licenses=a
        job Short cpus=1 limit=1h licenses=a
        at 0 pass
        ",
        "Long pending Licenses, start 2h on n1; Short starts n1; Two pending Licenses, start 1h on n1",
    );
}
