//! Rules for the book: every page is reachable, every link between pages leads somewhere, every error code has its page.
//!
//! An error code is `SLU` and three digits in quotes in a source file; its page is `docs/src/errors/<CODE>.md`.

use std::collections::BTreeSet;

use super::SourceFile;

const BOOK: &str = "docs/src/";

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let pages: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix(BOOK))
        .filter(|path| path.ends_with(".md"))
        .collect();
    let mut complaints = check_links(files, &pages);
    complaints.extend(check_summary(files, &pages));
    complaints.extend(check_error_codes(files, &pages));
    complaints
}

fn check_links(files: &[SourceFile], pages: &BTreeSet<&str>) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        let Some(page) = file.path.strip_prefix(BOOK) else {
            continue;
        };
        for link in links(&file.text) {
            let target = link.split('#').next().unwrap_or(link);
            if !target.ends_with(".md") || target.contains("://") {
                continue;
            }
            if !pages.contains(resolve(page, target).as_str()) {
                complaints.push(format!("{}: the link to {link} leads nowhere", file.path));
            }
        }
    }
    complaints
}

fn check_summary(files: &[SourceFile], pages: &BTreeSet<&str>) -> Vec<String> {
    let Some(summary) = files
        .iter()
        .find(|file| file.path == format!("{BOOK}SUMMARY.md"))
    else {
        return vec![format!("{BOOK}SUMMARY.md: missing")];
    };
    let listed: BTreeSet<&str> = links(&summary.text).into_iter().collect();
    pages
        .iter()
        .filter(|page| **page != "SUMMARY.md" && !listed.contains(*page))
        .map(|page| format!("{BOOK}{page}: not listed in SUMMARY.md"))
        .collect()
}

fn check_error_codes(files: &[SourceFile], pages: &BTreeSet<&str>) -> Vec<String> {
    let used: BTreeSet<(String, &str)> = files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with(".rs"))
        .flat_map(|file| {
            codes(&file.text)
                .into_iter()
                .map(|code| (code, file.path.as_str()))
        })
        .collect();
    let mut complaints: Vec<String> = used
        .iter()
        .filter(|(code, _)| !pages.contains(format!("errors/{code}.md").as_str()))
        .map(|(code, path)| format!("{path}: the error {code} has no page {BOOK}errors/{code}.md"))
        .collect();
    for page in pages {
        let code = page
            .strip_prefix("errors/")
            .and_then(|name| name.strip_suffix(".md"));
        if let Some(code) = code
            && code.starts_with("SLU")
            && !used.iter().any(|(have, _)| have == code)
        {
            complaints.push(format!("{BOOK}{page}: no source names this error"));
        }
    }
    complaints
}

/// Targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(str::trim)
        .collect()
}

/// The page that `target` names, seen from `page`; both relative to the book.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

fn codes(text: &str) -> Vec<String> {
    text.match_indices("\"SLU")
        .filter_map(|(at, _)| text.get(at + 1..at + 8))
        .filter_map(|word| word.strip_suffix('"'))
        .filter(|word| word[3..].bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Without this, the book could rot: dead links, orphans, undocumented errors.
    #[test]
    fn each_rule_finds_its_fault() {
        let quoted = ["\"SL", "U042\""].concat();
        let files = [
            file("docs/src/SUMMARY.md", "- [A](guide/a.md)\n"),
            file(
                "docs/src/guide/a.md",
                "[up](../SUMMARY.md#x) [gone](b.md) [web](https://e.org/x.md)",
            ),
            file("docs/src/orphan.md", ""),
            file("crates/x/src/a.rs", &quoted),
        ];
        let found = check(&files);
        assert_eq!(
            found,
            [
                "docs/src/guide/a.md: the link to b.md leads nowhere",
                "docs/src/orphan.md: not listed in SUMMARY.md",
                "crates/x/src/a.rs: the error SLU042 has no page docs/src/errors/SLU042.md",
            ]
        );
    }
}
