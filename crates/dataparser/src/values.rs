//! Values that many documents share: optional numbers, exit codes, TRES lists, times.
//!
//! An optional number is an object `{set, infinite, number}`, so that 0, "not set" and "no limit" are three things.

use sluice_model::exit_status::WaitStatus;
use sluice_model::memory::MemoryMib;
use sluice_model::signal::Signal;
use sluice_model::time::{TimeLimit, UnixSeconds};

use crate::sink::Sink;

/// A whole number, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optional {
    /// Not set.
    Unset,
    /// No limit.
    Infinite,
    /// A number.
    Set(u64),
}

impl Optional {
    /// A number or "not set".
    #[must_use]
    pub fn or_unset<N: Into<u64>>(number: Option<N>) -> Self {
        number.map_or(Self::Unset, |number| Self::Set(number.into()))
    }

    /// A number or "no limit".
    #[must_use]
    pub fn or_infinite<N: Into<u64>>(number: Option<N>) -> Self {
        number.map_or(Self::Infinite, |number| Self::Set(number.into()))
    }

    /// A number or 0.
    #[must_use]
    pub fn or_zero<N: Into<u64>>(number: Option<N>) -> Self {
        Self::Set(number.map_or(0, Into::into))
    }

    /// A time; 0 stands for none.
    #[must_use]
    pub fn time(time: Option<UnixSeconds>) -> Self {
        Self::Set(time.map_or(0, |time| u64::try_from(time.0).unwrap_or(0)))
    }

    /// A memory size or "not set".
    #[must_use]
    pub fn memory(size: Option<MemoryMib>) -> Self {
        size.map_or(Self::Unset, |size| Self::Set(size.0))
    }

    /// A limit in minutes.
    #[must_use]
    pub fn limit(limit: TimeLimit) -> Self {
        Self::or_infinite(limit.minutes())
    }

    /// A limit in minutes, or "not set".
    #[must_use]
    pub fn limit_or_unset(limit: Option<TimeLimit>) -> Self {
        limit.map_or(Self::Unset, Self::limit)
    }
}

/// A number with a fraction, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionalFloat {
    /// Not set.
    Unset,
    /// No limit.
    Infinite,
    /// A number.
    Set(f64),
}

impl OptionalFloat {
    /// A number or "no limit".
    #[must_use]
    pub fn or_infinite(number: Option<f64>) -> Self {
        number.map_or(Self::Infinite, Self::Set)
    }
}

/// How something ended: `{status, return_code, signal}`.
pub fn exit_code<S: Sink>(sink: &mut S, key: &'static str, status: WaitStatus) {
    let (word, code, signal) = match (status.signal(), status.code()) {
        (0, 0) => ("SUCCESS", Optional::Set(0), None),
        (0, code) => ("ERROR", Optional::Set(code.unsigned_abs().into()), None),
        (signal, _) if status.core_dumped() => ("CORE_DUMPED", Optional::Unset, Some(signal)),
        (signal, _) => ("SIGNALED", Optional::Unset, Some(signal)),
    };
    sink.key(key);
    sink.begin_map();
    sink.texts("status", [word]);
    sink.number("return_code", code);
    sink.map("signal", |sink| {
        let number = signal.map(i32::unsigned_abs);
        sink.number("id", Optional::or_unset(number));
        let name = signal
            .and_then(Signal::from_number)
            .and_then(Signal::name)
            .unwrap_or_default();
        sink.text("name", name);
    });
    sink.end_map();
}

/// Database ids of TRES: those that every Slurm has, and those that a cluster added.
#[derive(Debug, Clone, Default)]
pub struct TresIds {
    added: Vec<(String, u32)>,
}

impl TresIds {
    /// With the ids of the TRES that the cluster counts beyond the fixed ones, by full name (`gres/gpu`).
    #[must_use]
    pub fn new(added: Vec<(String, u32)>) -> Self {
        Self { added }
    }

    /// Id of a TRES by its full name; 0 when it has none.
    #[must_use]
    pub fn id(&self, name: &str) -> u32 {
        match name {
            "cpu" => 1,
            "mem" => 2,
            "energy" => 3,
            "node" => 4,
            "billing" => 5,
            "fs/disk" => 6,
            "vmem" => 7,
            "pages" => 8,
            _ => self
                .added
                .iter()
                .find(|(known, _)| known == name)
                .map_or(0, |(_, id)| *id),
        }
    }

    /// Writes the fields that name a TRES.
    pub fn write_name<S: Sink>(&self, sink: &mut S, name: &str) {
        let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
        sink.text("type", kind);
        sink.text("name", rest);
        sink.uint("id", self.id(name));
    }

    /// Writes a list of TRES from its text, `cpu=4,mem=8192,gres/gpu=2`.
    pub fn write_list<S: Sink>(&self, sink: &mut S, key: &'static str, text: &str) {
        let items = text.split(',').filter_map(|item| {
            let (name, count) = item.split_once('=')?;
            Some((name.trim(), count.trim().parse::<u64>().unwrap_or(0)))
        });
        sink.list(key, items, |sink, (name, count)| {
            sink.begin_map();
            self.write_name(sink, name);
            sink.uint("count", count);
            sink.end_map();
        });
    }
}

/// Integers as ranges, `0-3,8`; `N/A` for none, as Slurm shows indices of devices.
#[must_use]
pub fn index_ranges(indices: &[u32]) -> String {
    if indices.is_empty() {
        return "N/A".to_string();
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::{Json, Style};

    fn written(write: impl FnOnce(&mut Json<&mut Vec<u8>>)) -> String {
        let mut bytes = Vec::new();
        let mut sink = Json::new(&mut bytes, Style::Compact);
        sink.begin_map();
        write(&mut sink);
        sink.end_map();
        sink.finish().expect("memory");
        String::from_utf8(bytes).expect("text")
    }

    /// The four ways to end.
    #[test]
    fn exit_codes() {
        let of = |status| written(|sink| exit_code(sink, "exit_code", status));
        let object = |status: &str, code: &str, id: &str, name: &str| {
            format!(
                "{{\"exit_code\":{{\"status\":[\"{status}\"],\"return_code\":{code},\"signal\":{{\"id\":{id},\"name\":\"{name}\"}}}}}}\n"
            )
        };
        let set = |number: i32| format!("{{\"set\":true,\"infinite\":false,\"number\":{number}}}");
        let unset = "{\"set\":false,\"infinite\":false,\"number\":0}";
        assert_eq!(of(WaitStatus(0)), object("SUCCESS", &set(0), unset, ""));
        assert_eq!(
            of(WaitStatus::exited(3)),
            object("ERROR", &set(3), unset, "")
        );
        assert_eq!(
            of(WaitStatus::signaled(9)),
            object("SIGNALED", unset, &set(9), "KILL")
        );
        assert_eq!(
            of(WaitStatus(0x8b)),
            object("CORE_DUMPED", unset, &set(11), "SEGV")
        );
    }

    /// Fixed ids, ids of the cluster, and names in two parts.
    #[test]
    fn tres_lists() {
        let ids = TresIds::new(vec![("gres/gpu".to_string(), 1001)]);
        let text = written(|sink| ids.write_list(sink, "t", "cpu=2,mem=100,gres/gpu=1"));
        assert_eq!(
            text,
            "{\"t\":[{\"type\":\"cpu\",\"name\":\"\",\"id\":1,\"count\":2},{\"type\":\"mem\",\"name\":\"\",\"id\":2,\"count\":100},\
             {\"type\":\"gres\",\"name\":\"gpu\",\"id\":1001,\"count\":1}]}\n"
        );
        assert_eq!(
            written(|sink| ids.write_list(sink, "t", "")),
            "{\"t\":[]}\n"
        );
    }

    /// Indices of devices.
    #[test]
    fn ranges_of_indices() {
        assert_eq!(index_ranges(&[0, 1, 4]), "0-1,4");
        assert_eq!(index_ranges(&[]), "N/A");
    }
}
