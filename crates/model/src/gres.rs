//! Generic resources as written in requests and on node lines: `gpu:h100:8`, `gpu:2`, `gpu`.
//!
//! Pure text work. Counts are pieces (or whatever the resource counts); suffixes K, M, G, T, P are powers of 1024. Invariant: what
//! is printed parses to the same value. Source: `sbatch(1)` (--gres, --gpus), `slurm.conf(5)` (Gres), `gres.conf(5)`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One resource by name, optionally of one type, and how many.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GresRequest {
    /// Resource name such as `gpu`.
    pub name: String,
    /// Type such as `h100`; `None` means any type.
    pub type_name: Option<String>,
    /// How many.
    pub count: u64,
}

impl GresRequest {
    /// `gpu` or `gpu:h100`, as in TRES names after `gres/`.
    pub fn kind(&self) -> String {
        match &self.type_name {
            Some(t) => format!("{}:{t}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for GresRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.count)
    }
}

impl FromStr for GresRequest {
    type Err = GresError;
    fn from_str(text: &str) -> Result<Self, GresError> {
        parse_item(text.trim()).map(|item| item.request)
    }
}

/// A resource of this name is a share of a GPU (`gres.conf(5)`).
#[must_use]
pub fn shares_gpus(name: &str) -> bool {
    matches!(name, "shard" | "mps")
}

/// One item of a node's `Gres=`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GresItem {
    /// Name, type and number on the node.
    pub request: GresRequest,
    /// `no_consume`: a job that asks for it uses up none.
    pub no_consume: bool,
    /// The sockets in `(S:0-1)`, as written.
    pub sockets: Option<String>,
}

impl fmt::Display for GresItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_consume = if self.no_consume { ":no_consume" } else { "" };
        write!(
            f,
            "{}{no_consume}:{}",
            self.request.kind(),
            self.request.count
        )?;
        match &self.sockets {
            Some(s) => write!(f, "(S:{s})"),
            None => Ok(()),
        }
    }
}

/// Why a resource list was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid generic resource `{item}`: use name[:type][:count], for instance gpu:2 or gpu:h100:2"
)]
pub struct GresError {
    /// The offending item.
    pub item: String,
}

/// Reads a request list as of `--gres`; `none` and an empty text give an empty list. `gres/gpu:2` and `gpu:h100=2` are accepted.
///
/// # Errors
/// An item that is not of the form `name[:type][:count]`.
pub fn parse_gres_list(text: &str) -> Result<Vec<GresRequest>, GresError> {
    Ok(parse_node_gres(text)?
        .into_iter()
        .map(|g| g.request)
        .collect())
}

/// Reads a list as of `--gpus`: `4`, `h100:2`, `h100:2,a100:1`; the name is always `gpu`.
///
/// # Errors
/// As [`parse_gres_list`].
pub fn parse_gpus(text: &str) -> Result<Vec<GresRequest>, GresError> {
    let items = text.split(',').map(str::trim).filter(|i| !i.is_empty());
    items
        .map(|item| {
            parse_item(&format!("gpu:{item}"))
                .map(|g| g.request)
                .map_err(|_| GresError {
                    item: item.to_owned(),
                })
        })
        .collect()
}

/// Reads a node's `Gres=` list, with `no_consume` and the socket suffix that `scontrol show node` prints.
///
/// # Errors
/// As [`parse_gres_list`].
pub fn parse_node_gres(text: &str) -> Result<Vec<GresItem>, GresError> {
    let text = text.trim();
    if text.is_empty() || text.eq_ignore_ascii_case("none") || text == "(null)" {
        return Ok(Vec::new());
    }
    split_outside_parentheses(text)
        .into_iter()
        .map(str::trim)
        .filter(|i| !i.is_empty())
        .map(parse_item)
        .collect()
}

/// The suffix `(S:0,1)` may hold commas.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0u32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn parse_item(text: &str) -> Result<GresItem, GresError> {
    let error = || GresError {
        item: text.to_owned(),
    };
    let (body, sockets) = match text.split_once('(') {
        Some((body, suffix)) => {
            let inner = suffix.strip_suffix(')').ok_or_else(error)?;
            // Also `(IDX:0-1)`, which squeue and scontrol print for allocations: accepted, not a socket list.
            (body, inner.strip_prefix("S:").map(str::to_owned))
        }
        None => (text, None),
    };
    let body = body
        .strip_prefix("gres/")
        .or_else(|| body.strip_prefix("gres:"))
        .unwrap_or(body);
    let (body, explicit_count) = match body.split_once('=') {
        Some((body, count)) => (body, Some(parse_count(count).ok_or_else(error)?)),
        None => (body, None),
    };
    let mut parts: Vec<&str> = body.split(':').collect();
    if parts.iter().any(|p| !is_word(p)) {
        return Err(error());
    }
    let count = match explicit_count {
        Some(count) => count,
        None => match parts.last().and_then(|last| parse_count(last)) {
            Some(count) if parts.len() > 1 => {
                parts.pop();
                count
            }
            _ => 1,
        },
    };
    let no_consume = parts.len() > 1
        && parts
            .last()
            .is_some_and(|p| p.eq_ignore_ascii_case("no_consume"));
    if no_consume {
        parts.pop();
    }
    let (name, type_name) = match parts.as_slice() {
        [name] => (*name, None),
        [name, type_name] => (*name, Some((*type_name).to_owned())),
        _ => return Err(error()),
    };
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(error());
    }
    Ok(GresItem {
        request: GresRequest {
            name: name.to_owned(),
            type_name,
            count,
        },
        no_consume,
        sockets,
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "_-.+/".contains(c))
        && !text.starts_with('-')
}

/// A count with an optional suffix K, M, G, T or P (powers of 1024).
pub fn parse_count(text: &str) -> Option<u64> {
    let digits_end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits_end);
    let number: u64 = digits.parse().ok()?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        "p" | "P" => 50,
        _ => return None,
    };
    number.checked_mul(1u64 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gres(name: &str, type_name: Option<&str>, count: u64) -> GresRequest {
        GresRequest {
            name: name.into(),
            type_name: type_name.map(Into::into),
            count,
        }
    }

    /// The forms of `--gres` and of the node line.
    #[test]
    fn reads_lists() {
        assert_eq!(parse_gres_list("gpu"), Ok(vec![gres("gpu", None, 1)]));
        assert_eq!(parse_gres_list("gpu:2"), Ok(vec![gres("gpu", None, 2)]));
        assert_eq!(
            parse_gres_list("gpu:h100"),
            Ok(vec![gres("gpu", Some("h100"), 1)])
        );
        assert_eq!(
            parse_gres_list("gpu:h100:8,shard:4K"),
            Ok(vec![
                gres("gpu", Some("h100"), 8),
                gres("shard", None, 4096)
            ])
        );
        assert_eq!(
            parse_gres_list("gpu:2g.20gb:3"),
            Ok(vec![gres("gpu", Some("2g.20gb"), 3)])
        );
        assert_eq!(
            parse_gres_list("gres/gpu:h100=2"),
            Ok(vec![gres("gpu", Some("h100"), 2)])
        );
        assert_eq!(parse_gres_list("none"), Ok(vec![]));
        assert_eq!(parse_gres_list("gpu:0"), Ok(vec![gres("gpu", None, 0)]));
        assert_eq!(parse_gpus("4"), Ok(vec![gres("gpu", None, 4)]));
        assert_eq!(
            parse_gpus("h100:2,a100"),
            Ok(vec![
                gres("gpu", Some("h100"), 2),
                gres("gpu", Some("a100"), 1)
            ])
        );
    }

    /// Node lines carry more than requests do.
    #[test]
    fn reads_node_lines() {
        let list = parse_node_gres("gpu:h100:8(S:0-1),bandwidth:lustre:no_consume:4G,gpu:2(S:0,1)")
            .expect("parses");
        assert_eq!(list[0].request, gres("gpu", Some("h100"), 8));
        assert_eq!(list[0].sockets.as_deref(), Some("0-1"));
        assert_eq!(list[1].request, gres("bandwidth", Some("lustre"), 4 << 30));
        assert!(list[1].no_consume);
        assert_eq!(list[2].sockets.as_deref(), Some("0,1"));
        for item in &list {
            assert_eq!(parse_node_gres(&item.to_string()), Ok(vec![item.clone()]));
        }
    }

    /// A malformed request is an error, never a different request.
    #[test]
    fn refuses() {
        for bad in [
            "gpu:",
            ":2",
            "gpu:h100:2:3",
            "gpu:h100:x",
            "gpu:-1",
            "gpu::2",
            "2",
            "gpu:h100=x",
            "gpu(S:0",
            "gpu:99999999999999999999:a:b",
            "a b",
        ] {
            assert!(parse_gres_list(bad).is_err(), "{bad} was accepted");
        }
        assert!(parse_gpus("").is_ok_and(|l| l.is_empty()));
        assert!(parse_gpus("a:b:c").is_err());
    }

    /// Printed requests are requests again.
    #[test]
    fn round_trip() {
        for request in [
            gres("gpu", None, 2),
            gres("gpu", Some("h100"), 8),
            gres("nic", Some("mlx5_0"), 1),
        ] {
            assert_eq!(request.to_string().parse(), Ok(request));
        }
    }
}
