//! How one input becomes another. Deterministic: the same numbers give the same inputs on every machine.
//!
//! Texts change by tokens and numbers, protobuf and MessagePack by their fields, so that most inputs come behind the decoder.

use serde_json::Value;
use sluice_testkit::Random;

/// What an input is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tokens, separators and numbers.
    Text,
    /// Bytes.
    Bytes,
    /// Two bytes, then a protobuf message.
    Call,
    /// MessagePack records, each behind its length (u32, little endian).
    Records,
}

const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    59,
    60,
    127,
    128,
    255,
    256,
    1_000,
    1_024,
    65_535,
    65_536,
    4_194_303,
    2_147_483_647,
    2_147_483_648,
    4_294_967_291,
    4_294_967_293,
    4_294_967_294,
    4_294_967_295,
    4_294_967_296,
    9_223_372_036_854_775_807,
    9_223_372_036_854_775_808,
    18_446_744_073_709_551_614,
    18_446_744_073_709_551_615,
];

const TOKENS: &[&str] = &[
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    ";",
    "-",
    "--",
    "%",
    "*",
    "+",
    "&",
    "|",
    "!",
    "?",
    "@",
    "#",
    "=",
    "/",
    "..",
    "\\",
    "\"",
    "'",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "~",
    "^",
    "{",
    "}",
    "e9",
    "-1",
    "0x10",
    ".5",
    "1e400",
    "inf",
    "NaN",
    "ä",
    "\u{202e}",
    "\u{1F600}",
    "UNLIMITED",
    "INFINITE",
    "NONE",
    "ALL",
    "now",
    "now+1hour",
    "tomorrow",
    "[1-3]",
    "[0-4294967295]",
    "n[1-4]",
    "1-2-3",
    "%4294967295j",
    "%j",
    "%x",
    "${A}",
    "$(x)",
    "include x\n",
    "NodeName=DEFAULT ",
    "gres/gpu",
    "gpu:a:2",
    "1_[0-9]",
    "afterok:",
    "a&b",
    "root",
    "../../etc/passwd",
    "9999999999999999999999",
];

/// Input number `number` of a seed.
#[must_use]
pub fn input(kind: Kind, seeds: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ number.wrapping_mul(0xA24B_AED4_963E_E407));
    let mut bytes = random.pick(seeds).cloned().unwrap_or_default();
    if random.below(20) == 0 {
        return bytes;
    }
    for _ in 0..1 + random.below(4) {
        bytes = match kind {
            Kind::Text => text(bytes, seeds, &mut random),
            Kind::Bytes => raw(bytes, &mut random),
            Kind::Call => call(bytes, &mut random),
            Kind::Records => records(bytes, seeds, &mut random),
        };
    }
    bytes.truncate(1 << 20);
    bytes
}

fn range(length: usize, random: &mut Random) -> std::ops::Range<usize> {
    let from = random.below(length + 1);
    let longest = if random.below(4) == 0 { length } else { 8 };
    let to = from + random.below((length - from).min(longest) + 1);
    from..to
}

fn text(mut bytes: Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let part = range(bytes.len(), random);
    match random.below(9) {
        0 => drop(bytes.drain(part)),
        1 => {
            let copied = bytes[part.clone()].to_vec();
            bytes.splice(part.start..part.start, copied);
        }
        2 => {
            let token = random.pick(TOKENS).copied().unwrap_or_default();
            bytes.splice(part.start..part.start, token.bytes());
        }
        3 => {
            let token = random.pick(TOKENS).copied().unwrap_or_default();
            bytes.splice(part, token.bytes());
        }
        4 | 5 => {
            let starts: Vec<usize> = (0..bytes.len())
                .filter(|at| {
                    bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit())
                })
                .collect();
            if let Some(from) = random.pick(&starts).copied() {
                let digits = bytes[from..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                let number = random.pick(NUMBERS).copied().unwrap_or_default();
                bytes.splice(from..from + digits, number.to_string().into_bytes());
            }
        }
        6 => {
            if let Some(at) = bytes
                .len()
                .checked_sub(1)
                .map(|last| random.below(last + 1))
            {
                bytes[at] = random.number() as u8;
            }
        }
        7 => {
            let other = random.pick(seeds).cloned().unwrap_or_default();
            let taken = range(other.len(), random);
            bytes.splice(part.start..part.start, other[taken].iter().copied());
        }
        _ => {
            let times = 1 + random.below(600);
            let piece = bytes[part.clone()].to_vec();
            if piece.len() * times < 1 << 16 {
                bytes.splice(part.start..part.start, piece.repeat(times));
            }
        }
    }
    bytes
}

fn raw(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let part = range(bytes.len(), random);
    match random.below(6) {
        0 => drop(bytes.drain(part)),
        1 => {
            let copied = bytes[part.clone()].to_vec();
            bytes.splice(part.start..part.start, copied);
        }
        2 => bytes.truncate(part.start),
        3 => {
            let number = random
                .pick(NUMBERS)
                .copied()
                .unwrap_or_default()
                .to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - part.start);
            bytes[part.start..part.start + width].copy_from_slice(&number[..width]);
        }
        _ => {
            if let Some(at) = bytes
                .len()
                .checked_sub(1)
                .map(|last| random.below(last + 1))
            {
                bytes[at] ^= 1 << random.below(8);
            }
        }
    }
    bytes
}

fn call(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if bytes.len() < 2 {
        return bytes;
    }
    match random.below(12) {
        0 => bytes[1] = random.number() as u8,
        1 => {
            let message = raw(bytes.split_off(2), random);
            bytes.extend(message);
        }
        _ => {
            let message = protobuf(&bytes.split_off(2), random, 0);
            bytes.extend(message);
        }
    }
    bytes
}

/// A field of a protobuf message.
#[derive(Debug, Clone)]
enum Field {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn fields(bytes: &[u8]) -> Option<Vec<(u64, Field)>> {
    let mut at = 0;
    let mut found = Vec::new();
    while at < bytes.len() {
        let tag = varint(bytes, &mut at)?;
        let field = match tag & 7 {
            0 => Field::Varint(varint(bytes, &mut at)?),
            1 => {
                at += 8;
                Field::Fixed64(bytes.get(at - 8..at)?.try_into().ok()?)
            }
            2 => {
                let length = usize::try_from(varint(bytes, &mut at)?).ok()?;
                let end = at.checked_add(length)?;
                let content = bytes.get(at..end)?.to_vec();
                at = end;
                Field::Bytes(content)
            }
            5 => {
                at += 4;
                Field::Fixed32(bytes.get(at - 4..at)?.try_into().ok()?)
            }
            _ => return None,
        };
        found.push((tag >> 3, field));
    }
    Some(found)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn message(fields: &[(u64, Field)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in fields {
        match field {
            Field::Varint(value) => {
                put_varint(&mut out, number << 3);
                put_varint(&mut out, *value);
            }
            Field::Fixed64(bytes) => {
                put_varint(&mut out, number << 3 | 1);
                out.extend(bytes);
            }
            Field::Bytes(bytes) => {
                put_varint(&mut out, number << 3 | 2);
                put_varint(&mut out, bytes.len() as u64);
                out.extend(bytes);
            }
            Field::Fixed32(bytes) => {
                put_varint(&mut out, number << 3 | 5);
                out.extend(bytes);
            }
        }
    }
    out
}

fn protobuf(bytes: &[u8], random: &mut Random, depth: u32) -> Vec<u8> {
    let Some(mut all) = fields(bytes) else {
        return text(bytes.to_vec(), &[], random);
    };
    let new_field = |random: &mut Random| {
        let number = 1 + random.below(90) as u64;
        let field = match random.below(3) {
            0 => Field::Varint(random.pick(NUMBERS).copied().unwrap_or_default()),
            1 => Field::Bytes(
                random
                    .pick(TOKENS)
                    .map(|t| t.as_bytes().to_vec())
                    .unwrap_or_default(),
            ),
            _ => Field::Fixed64(
                random
                    .pick(NUMBERS)
                    .copied()
                    .unwrap_or_default()
                    .to_le_bytes(),
            ),
        };
        (number, field)
    };
    let at = random.below(all.len());
    match random.below(10) {
        0 if !all.is_empty() => drop(all.remove(at)),
        1 if !all.is_empty() => {
            let copied = all[at].clone();
            all.push(copied);
        }
        2 | 3 => {
            let field = new_field(random);
            all.push(field);
        }
        _ => match all.get_mut(at) {
            None => {
                let field = new_field(random);
                all.push(field);
            }
            Some((_, Field::Varint(value))) => {
                *value = match random.below(3) {
                    0 => value.wrapping_add(1),
                    1 => value.wrapping_sub(1),
                    _ => random.pick(NUMBERS).copied().unwrap_or_default(),
                };
            }
            Some((_, Field::Fixed64(bytes))) => {
                *bytes = random
                    .pick(NUMBERS)
                    .copied()
                    .unwrap_or_default()
                    .to_le_bytes();
            }
            Some((_, Field::Fixed32(bytes))) => *bytes = (random.number() as u32).to_le_bytes(),
            Some((_, Field::Bytes(content))) => {
                let is_message = content.len() > 1 && fields(content).is_some() && depth < 8;
                *content = if is_message && random.below(4) > 0 {
                    protobuf(content, random, depth + 1)
                } else {
                    text(std::mem::take(content), &[], random)
                };
            }
        },
    }
    message(&all)
}

/// Takes records apart that stand behind their lengths.
#[must_use]
pub fn split_records(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while let Some(length) = rest.first_chunk::<4>() {
        let end = 4 + u32::from_le_bytes(*length) as usize;
        let Some(record) = rest.get(4..end) else {
            break;
        };
        found.push(record);
        rest = &rest[end..];
    }
    found
}

/// Puts records behind their lengths.
#[must_use]
pub fn join_records<B: AsRef<[u8]>>(records: &[B]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.extend((record.as_ref().len() as u32).to_le_bytes());
        out.extend(record.as_ref());
    }
    out
}

fn records(bytes: Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = split_records(&bytes)
        .into_iter()
        .map(<[u8]>::to_vec)
        .collect();
    if all.is_empty() {
        return raw(bytes, random);
    }
    let at = random.below(all.len());
    match random.below(12) {
        0 => drop(all.remove(at)),
        1 => {
            let copied = all[at].clone();
            let to = random.below(all.len() + 1);
            all.insert(to, copied);
        }
        2 => {
            let other = random.pick(seeds).cloned().unwrap_or_default();
            if let Some(record) = random.pick(&split_records(&other)) {
                all.insert(at, record.to_vec());
            }
        }
        3 => all[at] = raw(std::mem::take(&mut all[at]), random),
        _ => {
            if let Ok(mut value) = rmp_serde::from_slice::<Value>(&all[at]) {
                change(&mut value, random, 0);
                if let Ok(changed) = rmp_serde::to_vec_named(&value) {
                    all[at] = changed;
                }
            }
        }
    }
    join_records(&all)
}

/// Changes one thing somewhere inside.
fn change(value: &mut Value, random: &mut Random, depth: u32) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let Some(key) = random.pick(&keys) else {
                return;
            };
            if depth > 1 && random.below(12) == 0 {
                map.remove(key);
            } else if let Some(inner) = map.get_mut(key) {
                change(inner, random, depth + 1);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let at = random.below(list.len());
            match random.below(8) {
                0 => drop(list.remove(at)),
                1 => {
                    let copied = list[at].clone();
                    list.push(copied);
                }
                _ => change(&mut list[at], random, depth + 1),
            }
        }
        Value::String(content) => {
            let changed = text(std::mem::take(content).into_bytes(), &[], random);
            *content = String::from_utf8_lossy(&changed).into_owned();
        }
        Value::Number(number) => {
            let new = match (random.below(4), number.as_u64()) {
                (0, Some(old)) => old.wrapping_add(1),
                (1, Some(old)) => old.saturating_sub(1),
                _ => random.pick(NUMBERS).copied().unwrap_or_default(),
            };
            *value = if random.below(6) == 0 {
                Value::from((new as i64).wrapping_neg())
            } else {
                Value::from(new)
            };
        }
        Value::Bool(flag) => *flag = !*flag,
        _ => *value = Value::from(random.pick(NUMBERS).copied().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a finding could not be looked at again.
    #[test]
    fn the_same_numbers_give_the_same_input() {
        let seeds = vec![b"n[1-4]".to_vec(), b"a,b".to_vec()];
        for number in 0..200 {
            let once = input(Kind::Text, &seeds, 7, number);
            assert_eq!(once, input(Kind::Text, &seeds, 7, number));
        }
        let all: std::collections::BTreeSet<_> = (0..200)
            .map(|number| input(Kind::Text, &seeds, 7, number))
            .collect();
        assert!(all.len() > 100, "{} different inputs", all.len());
    }

    /// Without this, most calls would end in the decoder.
    #[test]
    fn a_protobuf_message_is_taken_apart_and_put_together() {
        // Field 1 = varint 300, field 2 = "ab", as protobuf's own documentation encodes them.
        let bytes = [0x08, 0xAC, 0x02, 0x12, 0x02, b'a', b'b'];
        let all = fields(&bytes).expect("fields");
        assert!(matches!(all[0], (1, Field::Varint(300))));
        assert_eq!(message(&all), bytes);
    }

    /// Without this, records would be cut at wrong places.
    #[test]
    fn records_are_split_where_they_were_joined() {
        let joined = join_records(&[b"a".as_slice(), b"", b"bcd"]);
        assert_eq!(split_records(&joined), [b"a".as_slice(), b"", b"bcd"]);
    }
}
