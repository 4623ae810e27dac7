//! Small documents: pings, licences, reservations.

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::Optional;
use sluice_model::reservation::{LicenseInfo, ReservationFlags, ReservationInfo};
use sluice_model::time::UnixSeconds;

/// Answer of a controller to a ping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ping {
    /// Host it runs on.
    pub hostname: String,
    /// It answered.
    pub responding: bool,
    /// Microseconds until the answer.
    pub latency_us: u64,
    /// It is the first of the configured controllers.
    pub primary: bool,
    /// `No error`, or why it did not answer.
    pub status: String,
}

/// A listing of pings.
pub struct Pings<'a>(pub &'a [Ping]);

impl Payload for Pings<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("pings", self.0, |sink, ping| {
            sink.begin_map();
            sink.text("hostname", &ping.hostname);
            sink.flag("responding", ping.responding);
            sink.uint("latency", ping.latency_us);
            sink.flag("primary", ping.primary);
            sink.text("status", &ping.status);
            sink.end_map();
        });
    }
}

/// A listing of licences.
pub struct Licenses<'a> {
    /// The licences.
    pub licenses: &'a [LicenseInfo],
    /// When the answer was taken.
    pub time: UnixSeconds,
}

impl Payload for Licenses<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("licenses", self.licenses, |sink, license| {
            sink.begin_map();
            sink.text("LicenseName", &license.name);
            sink.uint("Total", license.total);
            sink.uint("Used", license.used);
            sink.uint("Free", license.total.saturating_sub(license.used));
            sink.flag("Remote", false);
            sink.uint("Reserved", license.reserved);
            sink.uint("LastConsumed", 0_u64);
            sink.uint("LastDeficit", 0_u64);
            sink.uint("LastUpdate", 0_u64);
            sink.text("Nodes", "");
            sink.end_map();
        });
        sink.number("last_update", Optional::time(Some(self.time)));
    }
}

/// A listing of reservations.
pub struct Reservations<'a> {
    /// The reservations.
    pub reservations: &'a [ReservationInfo],
    /// When the answer was taken.
    pub time: UnixSeconds,
}

impl Payload for Reservations<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("reservations", self.reservations, |sink, own| {
            sink.begin_map();
            sink.text_or_empty("accounts", own.accounts.as_deref());
            sink.text_or_empty("burst_buffer", own.burst_buffer.as_deref());
            sink.uint("core_count", u64::from(own.core_count));
            sink.list("core_specializations", &own.cores, |sink, cores| {
                sink.begin_map();
                sink.text("node", &cores.node);
                sink.text("core", &cores.cores);
                sink.end_map();
            });
            sink.number("end_time", Optional::time(Some(own.end_time)));
            sink.text_or_empty("features", own.features.as_deref());
            sink.texts("flags", ReservationFlags(own.flags).names());
            sink.text_or_empty("groups", own.groups.as_deref());
            sink.text_or_empty("licenses", own.licenses.as_deref());
            sink.uint(
                "max_start_delay",
                u64::from(own.max_start_delay.unwrap_or(0)),
            );
            sink.text("name", &own.name);
            sink.uint("node_count", u64::from(own.node_count));
            sink.text("node_list", &own.nodes);
            sink.text_or_empty("partition", own.partition.as_deref());
            sink.map("purge_completed", |sink| {
                sink.number("time", Optional::Set(u64::from(own.purge_comp_secs)));
            });
            sink.number("start_time", Optional::time(Some(own.start_time)));
            sink.text_or_empty("tres", own.tres.as_deref());
            sink.text_or_empty("users", own.users.as_deref());
            sink.end_map();
        });
        sink.number("last_update", Optional::time(Some(self.time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// As a real `scontrol show licenses --json` begins.
    #[test]
    fn licenses() {
        let list = [LicenseInfo {
            name: "matlab".to_string(),
            total: 10,
            used: 10,
            ..LicenseInfo::default()
        }];
        let text = to_json(
            &Meta::default(),
            &Licenses {
                licenses: &list,
                time: UnixSeconds(1_796_013_715),
            },
        );
        let expected = r#"{
  "licenses": [
    {
      "LicenseName": "matlab",
      "Total": 10,
      "Used": 10,
      "Free": 0,
      "Remote": false,
      "Reserved": 0,
      "LastConsumed": 0,
      "LastDeficit": 0,
      "LastUpdate": 0,
      "Nodes": ""
    }
  ],
  "last_update": {
    "set": true,
    "infinite": false,
    "number": 1796013715
  },
  "meta": {
"#;
        assert_eq!(&text[..expected.len()], expected);
    }

    /// As a real `scontrol ping --json` begins.
    #[test]
    fn pings() {
        let text = to_json(
            &Meta::default(),
            &Pings(&[Ping {
                hostname: "vm".to_string(),
                responding: true,
                latency_us: 956,
                primary: true,
                status: "No error".to_string(),
            }]),
        );
        let expected = "{\n  \"pings\": [\n    {\n      \"hostname\": \"vm\",\n      \"responding\": true,\n      \"latency\": 956,\n      \
                        \"primary\": true,\n      \"status\": \"No error\"\n    }\n  ],\n";
        assert_eq!(&text[..expected.len()], expected);
    }

    /// As a real `scontrol show reservation --json` printed a core reservation.
    #[test]
    fn reservations() {
        use sluice_model::reservation::ReservedCores;
        let list = [ReservationInfo {
            accounts: Some("bio".to_owned()),
            core_count: 4,
            cores: vec![ReservedCores {
                node: "n1".to_owned(),
                cores: "0-1,32-33".to_owned(),
            }],
            start_time: UnixSeconds(1_796_013_678),
            end_time: UnixSeconds(1_796_049_678),
            flags: ReservationFlags::MAINT.with(ReservationFlags::SPEC_NODES).0,
            name: "course".to_owned(),
            node_count: 1,
            nodes: "n1".to_owned(),
            partition: Some("main".to_owned()),
            purge_comp_secs: 300,
            tres: Some("cpu=4".to_owned()),
            ..ReservationInfo::default()
        }];
        let text = to_json(
            &Meta::default(),
            &Reservations {
                reservations: &list,
                time: UnixSeconds(1_796_013_715),
            },
        );
        let expected = r#"{
  "reservations": [
    {
      "accounts": "bio",
      "burst_buffer": "",
      "core_count": 4,
      "core_specializations": [
        {
          "node": "n1",
          "core": "0-1,32-33"
        }
      ],
      "end_time": {
        "set": true,
        "infinite": false,
        "number": 1796049678
      },
      "features": "",
      "flags": [
        "MAINT",
        "SPEC_NODES"
      ],
      "groups": "",
      "licenses": "",
      "max_start_delay": 0,
      "name": "course",
      "node_count": 1,
      "node_list": "n1",
      "partition": "main",
      "purge_completed": {
        "time": {
          "set": true,
          "infinite": false,
          "number": 300
        }
      },
      "start_time": {
        "set": true,
        "infinite": false,
        "number": 1796013678
      },
      "tres": "cpu=4",
      "users": ""
    }
  ],
"#;
        assert!(text.starts_with(expected), "{text}");
    }
}
