//! Rules for the crate graph: arrows point one way, and the engine depends on nothing that reaches the outside.
//!
//! The table here and the picture in ARCHITECTURE.md say the same; a new arrow needs a decision record.

use super::SourceFile;

/// For each package: the packages of this workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("sluice-model", &[]),
    ("sluice-config", &["sluice-model"]),
    ("sluice-controller", &["sluice-model", "sluice-config"]),
    ("sluice-frames", &["sluice-model"]),
    ("sluice-proto", &["sluice-model"]),
    ("sluice-tls", &[]),
    ("sluice-dataparser", &["sluice-model"]),
    ("sluice-accounting", &["sluice-model"]),
    (
        "sluice-ctld",
        &[
            "sluice-model",
            "sluice-config",
            "sluice-controller",
            "sluice-proto",
            "sluice-accounting",
            "sluice-tls",
        ],
    ),
    (
        "sluice-agent",
        &[
            "sluice-model",
            "sluice-config",
            "sluice-proto",
            "sluice-frames",
            "sluice-tls",
            "sluice-stepd",
        ],
    ),
    ("sluice-stepd", &["sluice-model", "sluice-frames"]),
    (
        "sluice-cli",
        &[
            "sluice-model",
            "sluice-config",
            "sluice-proto",
            "sluice-frames",
            "sluice-tls",
            "sluice-dataparser",
        ],
    ),
    (
        "sluice",
        &[
            "sluice-model",
            "sluice-config",
            "sluice-proto",
            "sluice-cli",
            "sluice-ctld",
            "sluice-testkit",
        ],
    ),
    (
        "sluice-fuzzing",
        &[
            "sluice-model",
            "sluice-config",
            "sluice-controller",
            "sluice-proto",
            "sluice-accounting",
            "sluice-ctld",
            "sluice-cli",
            "sluice-frames",
            "sluice-testkit",
        ],
    ),
    (
        "sluice-sim",
        &[
            "sluice-model",
            "sluice-config",
            "sluice-controller",
            "sluice-agent",
            "sluice-stepd",
        ],
    ),
    (
        "sluice-benches",
        &["sluice-model", "sluice-config", "sluice-controller"],
    ),
    ("sluice-testkit", &[]),
    ("xtask", &["sluice-testkit"]),
];

/// What the engine must not depend on, whatever it would be used for.
const REFUSED_IN_ENGINE: &[&str] = &[
    "tokio",
    "tonic",
    "prost",
    "sqlx",
    "nix",
    "rustix",
    "libc",
    "rand",
    "getrandom",
    "hyper-util",
    "tower",
    "futures",
    "tracing-subscriber",
    "sd-notify",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
        .flat_map(check_manifest)
        .collect()
}

fn check_manifest(file: &SourceFile) -> Vec<String> {
    let path = &file.path;
    let manifest = Manifest::read(&file.text);
    let package = manifest.package.as_str();
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
        return vec![format!(
            "{path}: the package \"{package}\" is not in the crate graph; add it to xtask/src/tidy/crates.rs and ARCHITECTURE.md"
        )];
    };
    let mut complaints = Vec::new();
    for name in &manifest.dependencies {
        let is_ours = ALLOWED.iter().any(|(ours, _)| ours == name);
        if is_ours && !allowed.contains(&name.as_str()) {
            complaints.push(format!(
                "{path}: {package} may not depend on {name}; see the crate graph in ARCHITECTURE.md"
            ));
        }
        if package == "sluice-controller" && REFUSED_IN_ENGINE.contains(&name.as_str()) {
            complaints.push(format!(
                "{path}: the engine is pure and may not depend on {name}"
            ));
        }
    }
    complaints
}

#[derive(Default)]
struct Manifest {
    package: String,
    /// Names under `[dependencies]`; what only tests and build scripts use is not the crate's.
    dependencies: Vec<String>,
}

impl Manifest {
    /// Reads the two things needed from a manifest in the plain style of this tree: one key a line.
    fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
                if let Some(name) = section.strip_prefix("dependencies.") {
                    manifest.dependencies.push(name.to_owned());
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let key = key.trim();
            match section {
                "package" if key == "name" => {
                    manifest.package = value.trim().trim_matches('"').to_owned();
                }
                "dependencies" if !key.starts_with('#') => {
                    let name = key.split('.').next().unwrap_or(key);
                    manifest.dependencies.push(name.to_owned());
                }
                _ => {}
            }
        }
        manifest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(package: &str, dependencies: &str) -> Vec<String> {
        check(&[SourceFile {
            path: "crates/x/Cargo.toml".to_owned(),
            text: format!("[package]\nname = \"{package}\"\n\n[dependencies]\n{dependencies}\n"),
        }])
    }

    /// Without this, an arrow against the direction would pass.
    #[test]
    fn a_wrong_arrow_is_found_in_each_spelling() {
        for line in [
            "sluice-ctld.workspace = true",
            "sluice-ctld = { path = \"../ctld\" }",
            "[dependencies.sluice-ctld]",
        ] {
            let found = complaints("sluice-config", line);
            assert_eq!(
                found,
                [
                    "crates/x/Cargo.toml: sluice-config may not depend on sluice-ctld; see the crate graph in ARCHITECTURE.md"
                ],
                "{line}"
            );
        }
        assert!(complaints("sluice-ctld", "sluice-controller.workspace = true").is_empty());
    }

    /// Without this, the engine could get a clock, a socket or chance.
    #[test]
    fn the_engine_takes_nothing_that_reaches_outside() {
        assert_eq!(
            complaints("sluice-controller", "rand.workspace = true"),
            ["crates/x/Cargo.toml: the engine is pure and may not depend on rand"]
        );
        let tests_only = "serde.workspace = true\n[dev-dependencies]\nrand.workspace = true";
        assert!(complaints("sluice-controller", tests_only).is_empty());
    }

    /// Without this, a new crate could stand outside the graph.
    #[test]
    fn a_package_outside_the_graph_is_named() {
        assert!(complaints("sluice-new", "")[0].contains("is not in the crate graph"));
    }
}
