//! Completions for bash, zsh and fish, made from the flag tables.
//!
//! Flags are completed everywhere; values only where the shell alone knows them (files, users). Nothing is asked of the
//! controller: pressing a key must not load it. Invariant: a flag that is in the table is in all three.

use std::fmt::Write as _;

use super::{Argument, Command, Flag, flags_of};

/// What the shell can offer for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Files,
    Folders,
    Users,
    /// The alternatives of `yes|no`.
    Words(&'static str),
    Unknown,
}

fn values(flag: &Flag) -> Option<Values> {
    let name = match flag.argument {
        Argument::No => return None,
        Argument::Required(name) | Argument::Optional(name) => name,
    };
    Some(match (flag.name, name) {
        ("chdir", _) => Values::Folders,
        ("user" | "uid", _) => Values::Users,
        (_, "file" | "path" | "mode" | "pattern") => Values::Files,
        (_, words) if words.contains('|') => Values::Words(words),
        _ => Values::Unknown,
    })
}

fn sorted(command: Command) -> Vec<&'static Flag> {
    let mut flags = flags_of(command);
    flags.sort_by_key(|flag| flag.name.to_ascii_lowercase());
    flags
}

/// Whether operands are files.
fn takes_files(command: Command) -> bool {
    command.submits() || matches!(command, Command::Sbcast | Command::Scrontab)
}

/// Completion for bash.
#[must_use]
pub fn bash(command: Command) -> String {
    let name = command.name();
    let mut words = Vec::new();
    let mut cases = String::new();
    for flag in sorted(command) {
        let long = format!("--{}", flag.name);
        words.push(match flag.argument {
            Argument::Required(_) => format!("{long}="),
            _ => long.clone(),
        });
        words.extend(flag.short.map(|letter| format!("-{letter}")));
        let Some(values) = values(flag) else { continue };
        let action = match values {
            Values::Files => "compgen -f -- \"$value\"".to_string(),
            Values::Folders => "compgen -d -- \"$value\"".to_string(),
            Values::Users => "compgen -u -- \"$value\"".to_string(),
            Values::Words(list) => format!("compgen -W '{}' -- \"$value\"", list.replace('|', " ")),
            Values::Unknown => continue,
        };
        let pattern = match (flag.short, flag.argument) {
            (Some(letter), Argument::Required(_)) => format!("{long}|-{letter}"),
            _ => long,
        };
        let _ = writeln!(
            cases,
            "        {pattern}) mapfile -t COMPREPLY < <({action}); return ;;"
        );
    }
    let files = if takes_files(command) {
        "    mapfile -t COMPREPLY < <(compgen -f -- \"$value\")\n"
    } else {
        ""
    };
    let function = format!("_sluice_{name}");
    let cases = if cases.is_empty() {
        String::new()
    } else {
        format!("    case $flag in\n{cases}    esac\n")
    };
    format!(
        "# bash completion of {name}\n{function}() {{\n    local value=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD-1]}}\n    \
         if [[ $value == = ]]; then value=; elif [[ $flag == = ]]; then flag=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n{cases}    \
         if [[ $value == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$value\")\n        \
         [[ ${{COMPREPLY[0]-}} == *= ]] && compopt -o nospace\n        return\n    fi\n{files}}}\ncomplete -F {function} {name}\n",
        words.join(" ")
    )
}

/// Text inside single quotes and brackets of zsh's `_arguments`.
fn zsh_text(text: &str) -> String {
    text.replace('\'', "'\\''")
        .replace('[', "\\[")
        .replace(']', "\\]")
        .replace(':', "\\:")
}

/// Completion for zsh.
#[must_use]
pub fn zsh(command: Command) -> String {
    let name = command.name();
    let mut text = format!("#compdef {name}\n_arguments -s -S");
    for flag in sorted(command) {
        let (joint, argument) = match (flag.argument, values(flag)) {
            (Argument::No, _) | (_, None) => ("", String::new()),
            (Argument::Required(word) | Argument::Optional(word), Some(values)) => {
                let action = match values {
                    Values::Files => "_files".to_string(),
                    Values::Folders => "_files -/".to_string(),
                    Values::Users => "_users".to_string(),
                    Values::Words(list) => format!("({})", list.replace('|', " ")),
                    Values::Unknown => " ".to_string(),
                };
                let optional = if matches!(flag.argument, Argument::Optional(_)) {
                    "::"
                } else {
                    ":"
                };
                let joint = if optional == "::" { "=-" } else { "=" };
                (joint, format!("{optional}{}:{action}", zsh_text(word)))
            }
        };
        let doc = zsh_text(flag.doc);
        let _ = write!(text, " \\\n  '--{}{joint}[{doc}]{argument}'", flag.name);
        if let Some(letter) = flag.short {
            let joint = match flag.argument {
                Argument::No => "",
                Argument::Required(_) => "+",
                Argument::Optional(_) => "-",
            };
            let _ = write!(text, " \\\n  '-{letter}{joint}[{doc}]{argument}'");
        }
    }
    if takes_files(command) {
        text.push_str(" \\\n  '*:file:_files'");
    }
    text.push('\n');
    text
}

/// Completion for fish.
#[must_use]
pub fn fish(command: Command) -> String {
    let name = command.name();
    let mut text = format!("# fish completion of {name}\n");
    if !takes_files(command) {
        let _ = writeln!(text, "complete -c {name} -f");
    }
    for flag in sorted(command) {
        let short = flag
            .short
            .map_or_else(String::new, |letter| format!(" -s {letter}"));
        let argument = match (flag.argument, values(flag)) {
            (Argument::No, _) | (_, None) => String::new(),
            // fish has no optional values: the flag alone stays possible when nothing is required.
            (Argument::Optional(_), _) => String::new(),
            (Argument::Required(_), Some(values)) => match values {
                Values::Files => " -r -F".to_string(),
                Values::Folders => " -x -a '(__fish_complete_directories)'".to_string(),
                Values::Users => " -x -a '(__fish_complete_users)'".to_string(),
                Values::Words(list) => format!(" -x -a '{}'", list.replace('|', " ")),
                Values::Unknown => " -x".to_string(),
            },
        };
        let doc = flag.doc.replace('\\', "\\\\").replace('\'', "\\'");
        let _ = writeln!(
            text,
            "complete -c {name}{short} -l {}{argument} -d '{doc}'",
            flag.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No flag is missing in any shell.
    #[test]
    fn every_flag_is_in_every_shell() {
        for command in Command::ALL {
            let (bash, zsh, fish) = (bash(command), zsh(command), fish(command));
            for flag in flags_of(command) {
                let name = flag.name;
                assert!(
                    bash.contains(&format!("--{name}")),
                    "bash {} {name}",
                    command.name()
                );
                assert!(
                    zsh.contains(&format!("'--{name}")),
                    "zsh {} {name}",
                    command.name()
                );
                assert!(
                    fish.contains(&format!(" -l {name} ")),
                    "fish {} {name}",
                    command.name()
                );
            }
        }
    }

    /// bash itself accepts the script and offers what it should.
    #[test]
    fn bash_completes() {
        let script = format!(
            "{}\nCOMP_WORDS=(sprio --we); COMP_CWORD=1; _sluice_sprio; echo \"${{COMPREPLY[@]}}\"\n\
             COMP_WORDS=(sprio --use); _sluice_sprio 2>/dev/null; echo \"${{COMPREPLY[@]}}\"\n",
            bash(Command::Sprio)
        );
        let done = std::process::Command::new("bash")
            .args(["--norc", "-c", &script])
            .output()
            .expect("bash is there");
        let text = String::from_utf8_lossy(&done.stdout);
        assert_eq!(text, "--weights\n--user= --users=\n", "{done:?}");
    }

    /// Forms of one flag in the other shells.
    #[test]
    fn forms() {
        let zsh = zsh(Command::Sprio);
        assert!(zsh.contains("'--weights[the configured weights instead of jobs]'"));
        assert!(zsh.contains("'-u+[jobs of these users]:users:_users'"));
        let fish = fish(Command::Sprio);
        assert!(fish.contains(
            "complete -c sprio -s u -l user -x -a '(__fish_complete_users)' -d 'jobs of these users'"
        ));
    }
}
