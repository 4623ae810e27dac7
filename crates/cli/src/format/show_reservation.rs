//! `scontrol show reservation` and `sinfo -T`.
//!
//! Order and spelling are Slurm's. Source: scontrol(1), sinfo(1) and their output.

use std::fmt::Write as _;

use sluice_model::reservation::{ReservationFlags, ReservationInfo};
use sluice_model::time::format_duration_full;

use super::or_null;
use super::time_style::TimeStyle;

/// Flags as they are shown; PURGE_COMP with its time.
fn flags(reservation: &ReservationInfo) -> String {
    ReservationFlags(reservation.flags)
        .names()
        .into_iter()
        .map(|name| match name {
            "PURGE_COMP" => {
                let time = format_duration_full(i64::from(reservation.purge_comp_secs));
                format!("PURGE_COMP={time}")
            }
            name => name.to_string(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn duration(reservation: &ReservationInfo) -> String {
    format_duration_full(reservation.end_time.since(reservation.start_time))
}

fn state(reservation: &ReservationInfo) -> &'static str {
    if reservation.active {
        "ACTIVE"
    } else {
        "INACTIVE"
    }
}

/// The record of a reservation.
#[must_use]
pub fn show_reservation(
    reservation: &ReservationInfo,
    one_line: bool,
    times: &TimeStyle,
) -> String {
    let next = if one_line { " " } else { "\n   " };
    let text = |value: &Option<String>| or_null(value.as_deref());
    let mut out = format!(
        "ReservationName={} StartTime={} EndTime={} Duration={}",
        reservation.name,
        times.point(reservation.start_time),
        times.point(reservation.end_time),
        duration(reservation)
    );
    let _ = write!(
        out,
        "{next}Nodes={} NodeCnt={} CoreCnt={} Features={} PartitionName={} Flags={}",
        or_null(Some(reservation.nodes.as_str())),
        reservation.node_count,
        reservation.core_count,
        text(&reservation.features),
        text(&reservation.partition),
        flags(reservation)
    );
    for cores in &reservation.cores {
        let _ = write!(
            out,
            "{next}  NodeName={} CoreIDs={}",
            cores.node, cores.cores
        );
    }
    let _ = write!(out, "{next}TRES={}", text(&reservation.tres));
    let _ = write!(
        out,
        "{next}AllowedPartitions={} QOS={}",
        text(&reservation.allowed_partitions),
        text(&reservation.qos)
    );
    let _ = write!(
        out,
        "{next}Users={} Groups={} Accounts={} Licenses={} State={} BurstBuffer={}",
        text(&reservation.users),
        text(&reservation.groups),
        text(&reservation.accounts),
        text(&reservation.licenses),
        state(reservation),
        text(&reservation.burst_buffer)
    );
    let delay = reservation
        .max_start_delay
        .map(|secs| format_duration_full(i64::from(secs)));
    let _ = write!(out, "{next}MaxStartDelay={}", text(&delay));
    if let Some(comment) = &reservation.comment {
        let _ = write!(out, "{next}Comment={comment}");
    }
    out.push_str(if one_line { "\n" } else { "\n\n" });
    out
}

/// Least width of the column of names.
const NAME_WIDTH_MIN: usize = 9;

/// The table of `sinfo -T`.
#[must_use]
pub fn listing(reservations: &[ReservationInfo], times: &TimeStyle, no_header: bool) -> String {
    if reservations.is_empty() {
        return "No reservations in the system\n".to_string();
    }
    let width = reservations
        .iter()
        .map(|reservation| reservation.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(NAME_WIDTH_MIN);
    let mut out = String::new();
    let mut row = |columns: [&str; 6]| {
        let [name, state, start, end, length, nodes] = columns;
        let _ = writeln!(
            out,
            "{name:<width$}  {state:>8}  {start:>19}  {end:>19}  {length:>11}  {nodes}"
        );
    };
    if !no_header {
        row([
            "RESV_NAME",
            "STATE",
            "START_TIME",
            "END_TIME",
            "DURATION",
            "NODELIST",
        ]);
    }
    for reservation in reservations {
        row([
            &reservation.name,
            state(reservation),
            &times.point(reservation.start_time),
            &times.point(reservation.end_time),
            &duration(reservation),
            &or_null(Some(reservation.nodes.as_str())),
        ]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use sluice_model::reservation::ReservedCores;
    use sluice_model::time::UnixSeconds;

    /// 30 November 2026, 04:41:18, as in the recordings of a real Slurm.
    const AT: i64 = 1_796_013_678;

    fn times() -> TimeStyle {
        TimeStyle::standard(TimeZone::UTC, UnixSeconds(AT))
    }

    fn course() -> ReservationInfo {
        ReservationInfo {
            name: "course".to_string(),
            start_time: UnixSeconds(AT),
            end_time: UnixSeconds(AT + 36_000),
            active: true,
            nodes: "n1".to_string(),
            node_count: 1,
            core_count: 4,
            cores: vec![ReservedCores {
                node: "n1".to_string(),
                cores: "0-1,32-33".to_string(),
            }],
            partition: Some("main".to_string()),
            tres: Some("cpu=4".to_string()),
            accounts: Some("bio".to_string()),
            ..ReservationInfo::default()
        }
    }

    /// As a real `scontrol show reservation` printed it.
    #[test]
    fn a_core_reservation() {
        let expected = "\
ReservationName=course StartTime=2026-11-30T04:41:18 EndTime=2026-11-30T14:41:18 Duration=10:00:00
   Nodes=n1 NodeCnt=1 CoreCnt=4 Features=(null) PartitionName=main Flags=
     NodeName=n1 CoreIDs=0-1,32-33
   TRES=cpu=4
   AllowedPartitions=(null) QOS=(null)
   Users=(null) Groups=(null) Accounts=bio Licenses=(null) State=ACTIVE BurstBuffer=(null)
   MaxStartDelay=(null)

";
        assert_eq!(show_reservation(&course(), false, &times()), expected);
        assert!(show_reservation(&course(), true, &times()).contains(
            "Flags=   NodeName=n1 CoreIDs=0-1,32-33 TRES=cpu=4 AllowedPartitions=(null)"
        ));
    }

    /// Flags in order, and the time of PURGE_COMP; as 22.05 printed them.
    #[test]
    fn flags_with_a_time() {
        let purged = ReservationInfo {
            flags: ReservationFlags::PURGE_COMP
                .with(ReservationFlags::SPEC_NODES)
                .0,
            purge_comp_secs: 600,
            ..course()
        };
        assert_eq!(flags(&purged), "SPEC_NODES,PURGE_COMP=00:10:00");
    }

    /// As a real `sinfo -T` printed it.
    #[test]
    fn the_listing_of_sinfo() {
        let expected = "\
RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST
course       ACTIVE  2026-11-30T04:41:18  2026-11-30T14:41:18     10:00:00  n1
";
        assert_eq!(listing(&[course()], &times(), false), expected);
    }
}
