//! Options in the lines of other batch systems: `#PBS` and `#BSUB`.
//!
//! Only what sbatch itself honours: a part of the options, the rest without effect. The lines count anywhere in the script, until
//! more than a hundred lines without `#` have gone by; `#BSUB` lines hide `#PBS` ones. Pure. Source: sbatch(1) --ignore-pbs and
//! the migration guides from PBS and LSF.

use super::Refusal;
use super::script::{DirectiveError, split_words};
use crate::flags::getopt::Given;

/// Lines without `#` after which nothing more is looked for.
const COMMAND_LINES_MAX: usize = 100;

/// Options of the foreign lines, in the words of sbatch.
pub(super) fn translate(text: &str, file: &str) -> Result<Vec<Given>, DirectiveError> {
    if let Some(words) = words_after(text, "#BSUB", file)? {
        return bsub(&words);
    }
    match words_after(text, "#PBS", file)? {
        Some(words) => pbs(&words),
        None => Ok(Vec::new()),
    }
}

/// All words of the lines with `mark`; `None` when there is no such line.
fn words_after(text: &str, mark: &str, file: &str) -> Result<Option<Vec<String>>, Refusal> {
    let mut words = None;
    let mut commands = 0;
    for (number, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix(mark) {
            words
                .get_or_insert_with(Vec::new)
                .extend(split_words(rest, file, number + 1)?);
            continue;
        }
        commands += usize::from(!line.starts_with('#'));
        if commands > COMMAND_LINES_MAX {
            break;
        }
    }
    Ok(words)
}

/// One option of the line: its letter and its argument.
type Seen = (char, Option<String>);

/// Takes words apart. `with` and `without` list the letters with and without an argument; `long` names letters.
fn options(
    words: &[String],
    with: &str,
    without: &str,
    long: &[(&str, char)],
) -> Result<Vec<Seen>, DirectiveError> {
    let mut seen = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            if let Some(left) = rest.next() {
                return Err(Refusal::error(format!("Invalid argument: {left}")).into());
            }
            break;
        }
        if let Some(name) = word.strip_prefix("--") {
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (name, None),
            };
            let letter = long
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, letter)| *letter)
                .ok_or_else(|| unknown(&format!("unrecognized option '{word}'")))?;
            let value = match value {
                None if with.contains(letter) => {
                    Some(rest.next().cloned().ok_or_else(|| {
                        unknown(&format!("option '--{name}' requires an argument"))
                    })?)
                }
                value => value,
            };
            seen.push((letter, value));
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(Refusal::error(format!("Invalid argument: {word}")).into());
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            if with.contains(letter) {
                let glued = letters.as_str().to_string();
                let value = match glued.is_empty() {
                    false => glued,
                    true => rest.next().cloned().ok_or_else(|| {
                        unknown(&format!("option requires an argument -- '{letter}'"))
                    })?,
                };
                seen.push((letter, Some(value)));
                break;
            }
            if !without.contains(letter) {
                return Err(unknown(&format!("invalid option -- '{letter}'")));
            }
            seen.push((letter, None));
        }
    }
    Ok(seen)
}

/// A flag that the other system does not have: two lines, as sbatch prints them.
fn unknown(line: &str) -> DirectiveError {
    Refusal {
        plain: vec![format!("sbatch: {line}")],
        ..Refusal::error("Unrecognized command line parameter ?")
    }
    .into()
}

fn given(name: &'static str, value: impl Into<String>) -> Given {
    Given {
        name,
        value: Some(value.into()),
    }
}

fn set(name: &'static str) -> Given {
    Given { name, value: None }
}

fn bsub(words: &[String]) -> Result<Vec<Given>, DirectiveError> {
    // LSF writes a long name with one dash.
    let words: Vec<String> = words
        .iter()
        .map(|word| if word == "-cwd" { "-c" } else { word }.to_string())
        .collect();
    let long = [
        ("cwd", 'c'),
        ("error_file", 'e'),
        ("job_name", 'J'),
        ("hostname", 'm'),
        ("memory_limit", 'M'),
        ("output_file", 'o'),
        ("queue_name", 'q'),
        ("time", 'W'),
        ("exclusive", 'x'),
    ];
    let mut found = Vec::new();
    for (letter, value) in options(&words, "ceJmMnoqW", "x", &long)? {
        let value = value.unwrap_or_default();
        found.push(match letter {
            'c' => given("chdir", value),
            'e' => given("error", value),
            'J' => given("job-name", value),
            'o' => given("output", value),
            'm' => given("nodelist", value.replace(' ', ",")),
            // LSF counts in KB.
            'M' if value.ends_with(|digit: char| digit.is_ascii_digit()) => {
                given("mem-per-cpu", format!("{value}K"))
            }
            'M' => given("mem-per-cpu", value),
            'n' => match value.split_once(',') {
                Some((_, "")) => {
                    return Err(Refusal::error(format!(
                        "#BSUB -n format not correct given: '{value}'"
                    ))
                    .into());
                }
                Some((_, most)) => given("ntasks", most),
                None => given("ntasks", value),
            },
            'q' => given("partition", value),
            'W' => given("time", value),
            _ => set("exclusive"),
        });
    }
    Ok(found)
}

fn pbs(words: &[String]) -> Result<Vec<Given>, DirectiveError> {
    let long = [
        ("start_time", 'a'),
        ("account", 'A'),
        ("checkpoint", 'c'),
        ("working_dir", 'C'),
        ("error", 'e'),
        ("hold", 'h'),
        ("interactive", 'I'),
        ("join", 'j'),
        ("job_array", 'J'),
        ("keep", 'k'),
        ("resource_list", 'l'),
        ("mail_options", 'm'),
        ("mail_user_list", 'M'),
        ("job_name", 'N'),
        ("out", 'o'),
        ("priority", 'p'),
        ("destination", 'q'),
        ("rerunable", 'r'),
        ("script_path", 'S'),
        ("array", 't'),
        ("running_user", 'u'),
        ("variable_list", 'v'),
        ("all_env", 'V'),
        ("attributes", 'W'),
        ("no_std", 'z'),
    ];
    let mut found: Vec<Given> = Vec::new();
    for (letter, value) in options(words, "aAcCdejJklmMNopqrStuvWw", "hIVz", &long)? {
        let value = value.unwrap_or_default();
        match letter {
            'a' => found.push(given("begin", value)),
            'A' => found.push(given("account", value)),
            'e' => found.push(given("error", value)),
            'o' => found.push(given("output", value)),
            'w' | 'd' => found.push(given("chdir", value)),
            'h' => found.push(set("hold")),
            'J' | 't' => found.push(given("array", value)),
            'l' => resources(&value, &mut found)?,
            'm' => found.push(given("mail-type", mail_types(&value))),
            'M' => found.push(given("mail-user", value)),
            'N' => found.push(given("job-name", value)),
            'p' => found.push(given("nice", value)),
            'q' => found.push(given("partition", value)),
            'v' => {
                let before = last(&found, "export").map_or_else(String::new, |v| format!("{v},"));
                found.push(given("export", before + &value));
            }
            'W' => {
                let start = |word: &str| {
                    value
                        .get(..word.len())
                        .filter(|start| start.eq_ignore_ascii_case(word))
                        .map(|_| value[word.len()..].to_string())
                };
                if let Some(list) = start("depend=") {
                    found.push(given("dependency", list));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn last<'a>(found: &'a [Given], name: &str) -> Option<&'a str> {
    found
        .iter()
        .rev()
        .find(|given| given.name == name)
        .and_then(|given| given.value.as_deref())
}

fn mail_types(letters: &str) -> String {
    let has = |letter: char| letters.to_ascii_lowercase().contains(letter);
    if has('n') {
        return "NONE".to_string();
    }
    [('b', "BEGIN"), ('e', "END"), ('a', "FAIL")]
        .iter()
        .filter(|(letter, _)| has(*letter))
        .map(|(_, name)| *name)
        .collect::<Vec<_>>()
        .join(",")
}

/// `-l name=value,…`; chunks of PBS Pro (`select=2:ncpus=8:mpiprocs=4`) are separated by colons.
fn resources(list: &str, found: &mut Vec<Given>) -> Result<(), DirectiveError> {
    let mut gpus = 0_u32;
    let (mut select, mut cpus, mut ranks) = (false, None, None);
    let size = |value: &str| value.strip_suffix(['b', 'B']).unwrap_or(value).to_string();
    for item in list.split(',') {
        if let Some(nodes) = item.strip_prefix("nodes=") {
            node_part(nodes, found);
            continue;
        }
        for part in item.split(':') {
            let Some((name, value)) = part.split_once('=') else {
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                // A time has colons itself.
                "cput" | "pcput" | "walltime" => {
                    let value = item.split_once('=').map_or(value, |(_, value)| value);
                    if value.is_empty() {
                        return Err(Refusal::error(format!("No value given for {name}")).into());
                    }
                    found.push(given("time", value));
                    break;
                }
                "file" => found.push(given("tmp", size(value))),
                "mem" => found.push(given("mem", size(value))),
                "nice" => found.push(given("nice", value)),
                "proc" => {
                    let before = last(found, "constraint").map(|old| format!(",{old}"));
                    found.push(given(
                        "constraint",
                        value.to_string() + &before.unwrap_or_default(),
                    ));
                }
                "select" => {
                    select = true;
                    found.push(given("nodes", value));
                }
                "ncpus" => {
                    cpus = value.parse::<u32>().ok();
                    found.push(given("mincpus", value));
                }
                "mpiprocs" => {
                    ranks = value.parse::<u32>().ok();
                    found.push(given("ntasks-per-node", value));
                }
                "accelerator" if value.eq_ignore_ascii_case("true") => gpus = gpus.max(1),
                "naccelerators" => {
                    gpus = value.parse().map_err(|_| {
                        Refusal::error(format!(
                            "Invalid numeric value \"{value}\" for naccelerators."
                        ))
                    })?;
                }
                _ => {}
            }
        }
    }
    if let (true, Some(cpus), Some(ranks)) = (select, cpus, ranks)
        && ranks > 0
        && cpus > ranks
    {
        found.push(given("cpus-per-task", (cpus / ranks).to_string()));
    }
    if gpus > 0 {
        let before = last(found, "gres").map_or_else(String::new, |old| format!("{old},"));
        found.push(given("gres", format!("{before}gpu:{gpus}")));
    }
    Ok(())
}

/// `nodes=2:ppn=4:gpus=1+host1`.
fn node_part(text: &str, found: &mut Vec<Given>) {
    let number = |digits: &str| {
        digits
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse::<u32>()
            .unwrap_or(0)
    };
    let (mut nodes, mut per_node) = (0_u32, 0_u32);
    let mut names = Vec::new();
    for part in text.split(['+', ':']) {
        if let Some(gpus) = part.strip_prefix("gpus=") {
            found.push(given("gpus-per-node", gpus));
        } else if let Some(count) = part.strip_prefix("ppn=") {
            per_node = per_node.saturating_add(number(count));
        } else if part.starts_with(|letter: char| letter.is_ascii_digit()) {
            nodes = nodes.saturating_add(number(part));
        } else if part.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            names.push(part.to_string());
        }
    }
    if nodes > 0 {
        found.push(given("nodes", nodes.to_string()));
    }
    if per_node > 0 {
        let tasks = per_node.saturating_mul(nodes.max(1));
        found.push(given("ntasks", tasks.to_string()));
    }
    if !names.is_empty() {
        found.push(given(
            "nodelist",
            sluice_model::hostlist::collapse_hostlist(&names),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &str) -> String {
        translate(&format!("#!/bin/sh\n{lines}\nhostname\n"), "job.sh")
            .expect("valid")
            .iter()
            .map(|given| match &given.value {
                Some(value) => format!("{}={value}", given.name),
                None => given.name.to_string(),
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// What a real sbatch makes of these lines (its -v output).
    #[test]
    fn honoured_options() {
        assert_eq!(
            shown(
                "#PBS -l nodes=2:ppn=4,walltime=1:00:00,mem=4gb\n#PBS -N foo -q gpu\n#PBS -m abe -j oe"
            ),
            "nodes=2 ntasks=8 time=1:00:00 mem=4g job-name=foo partition=gpu mail-type=BEGIN,END,FAIL"
        );
        assert_eq!(
            shown("#PBS -l select=2:ncpus=8:mpiprocs=4 -W depend=afterok:5 -h"),
            "nodes=2 mincpus=8 ntasks-per-node=4 cpus-per-task=2 dependency=afterok:5 hold"
        );
        assert_eq!(
            shown("#BSUB -n 2,4 -W 10 -J foo -M 2000 -o x.out -q short -x"),
            "ntasks=4 time=10 job-name=foo mem-per-cpu=2000K output=x.out partition=short exclusive"
        );
    }

    /// Unknown letters are refused with two lines.
    #[test]
    fn unknown_letters() {
        for (line, letter) in [("#PBS -n 4", 'n'), ("#BSUB -Z", 'Z')] {
            let Err(DirectiveError::Refused(refusal)) = translate(line, "job.sh") else {
                panic!("{line} must be refused");
            };
            assert_eq!(
                refusal.lines("sbatch"),
                [
                    format!("sbatch: invalid option -- '{letter}'"),
                    "sbatch: error: Unrecognized command line parameter ?".to_string()
                ]
            );
            assert_eq!(refusal.exit_code, 1);
        }
    }
}
