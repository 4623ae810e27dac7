//! Property tests: whatever is reserved, asked for and running, each pass keeps reservations and licences, and what may run runs.

use proptest::prelude::*;

use crate::schedule::scenario::World;

/// What happens in a random story; numbers choose among a few values each.
#[derive(Debug, Clone)]
enum Happens {
    Reserve {
        kind: u8,
        start: u8,
        length: u8,
        what: u8,
    },
    Submit {
        shape: u8,
        limit: u8,
        place: u8,
        license: u8,
    },
    Pass {
        later: u8,
    },
    Node {
        down: bool,
        which: u8,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        2 => (0u8..8, 0u8..5, 1u8..5, 0u8..7)
            .prop_map(|(kind, start, length, what)| Happens::Reserve { kind, start, length, what }),
        6 => (0u8..6, 0u8..5, 0u8..8, 0u8..7)
            .prop_map(|(shape, limit, place, license)| Happens::Submit { shape, limit, place, license }),
        3 => (0u8..5).prop_map(|later| Happens::Pass { later }),
        1 => (any::<bool>(), 1u8..4).prop_map(|(down, which)| Happens::Node { down, which }),
    ]
}

fn reserve(world: &mut World, number: usize, kind: u8, start: u8, length: u8, what: u8) {
    let now = world.now - crate::schedule::scenario::EPOCH;
    let flags = [
        "IGNORE_JOBS",
        "MAINT,IGNORE_JOBS",
        "FLEX,IGNORE_JOBS",
        "MAGNETIC,IGNORE_JOBS",
        "DAILY,IGNORE_JOBS",
        "OVERLAP,IGNORE_JOBS",
        "HOURLY,IGNORE_JOBS",
        "REPLACE_DOWN",
    ][kind as usize];
    let takes = [
        "nodes=n1",
        "nodes=n[2-3]",
        "nodes=n[1-3]",
        "count=2",
        "nodes=n2 cores=3",
        "nodes=n[1-2] cores=2,4",
        "licenses=a:2 nodes=n3",
    ][what as usize];
    // The same cores at any time: the timeline counts cores, and does not see that two reservations of different cores leave a
    // long run fewer than each of them does.
    let flags = if takes.contains("cores") {
        format!("{flags},FIRST_CORES")
    } else {
        flags.to_owned()
    };
    let words = format!(
        "{takes} start={} length={}m users=u flags={flags}",
        now + i64::from(start) * 1200,
        u32::from(length) * 15
    );
    // Some are refused because they overlap: that is tested elsewhere.
    let _ = world.reserve(&format!("R{number}"), &words);
}

fn submit(world: &mut World, number: usize, shape: u8, limit: u8, place: u8, license: u8) {
    let shape = [
        "cpus=1",
        "cpus=4",
        "cpus=8",
        "cpus=2 nodes=2",
        "cpus=3 nodes=3 exclusive",
        "cpus=2 exclusive",
    ][shape as usize];
    let limit = ["10m", "30m", "1h", "3h", "1d"][limit as usize];
    let place = match place {
        0 => " resv=R0".to_owned(),
        1 => " resv=R1".to_owned(),
        2 => " resv=R0,R2".to_owned(),
        3 => " nodelist=n2".to_owned(),
        _ => String::new(),
    };
    let license = [
        "",
        "",
        "",
        " licenses=a:1",
        " licenses=a:3",
        " licenses=a:2,b:1",
        " licenses=a:3|b:1",
    ][license as usize];
    let name = format!("J{number}");
    world.submit(&name, &format!("{shape} limit={limit}{place}{license}"));
}

fn story(events: &[Happens], conf: &str) {
    let mut world = World::new(&format!(
        "
        config Licenses=a:3,b:2
        {conf}
        nodes n[1-3] cpus=8 sockets=2 cores=4 threads=1
        "
    ));
    let (mut reservations, mut jobs) = (0, 0);
    for event in events {
        match *event {
            Happens::Reserve {
                kind,
                start,
                length,
                what,
            } => {
                reserve(&mut world, reservations, kind, start, length, what);
                reservations += 1;
            }
            Happens::Submit {
                shape,
                limit,
                place,
                license,
            } => {
                submit(&mut world, jobs, shape, limit, place, license);
                jobs += 1;
            }
            Happens::Pass { later } => {
                let time = world.now + i64::from(later) * 700;
                world.advance(time);
                // Checks the plan, and recounts afterwards.
                world.pass();
            }
            Happens::Node { down, which } => {
                world.step(&format!("{} n{which}", if down { "down" } else { "up" }));
            }
        }
    }
    // A second pass at the same time finds nothing more to start. (Licences aside: a job that waits for nodes has none booked, and
    // when another takes them it no longer stands in the way.)
    let with_licenses = events
        .iter()
        .any(|event| matches!(event, Happens::Submit { license, .. } if *license > 2));
    world.pass();
    world.pass();
    assert!(
        with_licenses || world.last_plan.starts.is_empty(),
        "{:?}",
        world.last_plan.starts
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// With backfill.
    #[test]
    fn every_pass_keeps_what_is_reserved(events in prop::collection::vec(happens(), 1..40)) {
        story(&events, "");
    }

    /// With licences on the timeline.
    #[test]
    fn planned_licences_are_kept_too(events in prop::collection::vec(happens(), 1..40)) {
        story(&events, "config SchedulerParameters=bf_licenses");
    }

    /// In strict order.
    #[test]
    fn strict_order_keeps_them(events in prop::collection::vec(happens(), 1..40)) {
        story(&events, "config SchedulerType=sched/builtin");
    }
}
